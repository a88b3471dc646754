"""Files of conversations into memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.datatypes import ImportedMemory, ImportReport
from scrubjay.errors import InputError
from scrubjay.formats import read_conversations
from scrubjay.home import MemoryHome
from scrubjay.memory import Memory
from scrubjay.postgres_home import PostgresHome
from scrubjay.store.opening import scheme_of
from scrubjay.trace import ignore_progress
from scrubjay.transfer import turns_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo
    from pathlib import Path

    from scrubjay.formats import Conversation, Reading


def import_file(  # noqa: PLR0913 -- each is an option of the command
    path: Path,
    *,
    memory: str | Path | None,
    home: str | Path | None,
    user_id: str | None = None,
    format_name: str = "auto",
    skip_bad: bool = False,
    zone: tzinfo | None = None,
    advance: Callable[[int, int], None] = ignore_progress,
) -> ImportReport:
    """Read the whole file, then store it: into one memory, or each conversation into its own of a home.

    Either may be a database's address, `memory` with `user_id`. Raise FormatError before anything is stored, and
    InputError where several conversations would meet in one memory.
    """
    if (home is None) == (memory is None):
        raise InputError(
            "say where to import to: --memory FILE for one memory, --into FOLDER for one a conversation, not both"
        )
    reading = read_conversations(path, format=format_name, skip_bad=skip_bad, zone=zone)
    count = Counter(reading, advance)
    if home is not None:
        with PostgresHome(str(home)) if scheme_of(home) else MemoryHome(home) as opened:
            parts = [
                import_one(opened.memory(c.conversation_id), c, reading.format, count)
                for c in reading.conversations
            ]
    else:
        parts = import_into(memory, user_id, reading, count) if memory is not None else []
    return ImportReport(
        source=str(path),
        format=reading.format,
        memories=tuple(parts),
        bad=reading.bad,
        left_out=reading.left_out,
    )


def import_into(
    memory: str | Path, user_id: str | None, reading: Reading, count: Counter
) -> list[ImportedMemory]:
    if len(reading.conversations) > 1:
        raise InputError(
            f"the file holds {len(reading.conversations)} conversations, which don't belong into one memory: "
            "give --into FOLDER and each gets its own"
        )
    with Memory(memory, user_id=user_id) as opened:
        return [
            import_one(opened, conversation, reading.format, count) for conversation in reading.conversations
        ]


def import_one(
    memory: Memory, conversation: Conversation, format_name: str, count: Counter
) -> ImportedMemory:
    report = memory.add_many(
        turns_for(memory, conversation, format_name=format_name),
        advance=count.within(conversation),
    )
    return ImportedMemory(
        memory=str(memory.path),
        sessions=len(conversation.sessions),
        added=report.added,
        unchanged=report.unchanged,
    )


class Counter:
    """Turns stored so far, of all in the file."""

    def __init__(self, reading: Reading, advance: Callable[[int, int], None]) -> None:
        self._advance = advance
        self._before = 0
        self._total = sum(len(session.turns) for c in reading.conversations for session in c.sessions)

    def within(self, conversation: Conversation) -> Callable[[int], None]:
        """Give what counts this conversation's turns on top of those before it."""
        before = self._before
        self._before += sum(len(session.turns) for session in conversation.sessions)
        return lambda done: self._advance(before + done, self._total)
