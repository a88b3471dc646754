"""Files of conversations into one memory, and a memory into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay import formats
from scrubjay.errors import InputError
from scrubjay.store.connection import IN_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

    from scrubjay.datatypes import NewTurn, Turn


def read_file(path: Path, *, format_name: str, skip_bad: bool) -> Iterator[tuple[str, NewTurn]]:
    """Give the turns of a file of one conversation, each with its session's id; raise FormatError or InputError first."""
    reading = formats.read_conversations(path, format=format_name, skip_bad=skip_bad)
    if len(reading.conversations) != 1:
        raise InputError(
            f"{path} holds {len(reading.conversations)} conversations: import each into its own memory"
        )
    sessions = reading.conversations[0].sessions
    return ((session.session_id, turn) for session in sessions for turn in session.turns)


def write_file(turns: Iterable[Turn], to: str | Path | TextIO, *, memory: str) -> int:
    """Write turns as JSONL to a path or stream; give how many."""
    if not isinstance(to, str | Path):
        return formats.write_export(turns, to)
    require_elsewhere(Path(to), memory)
    with Path(to).open("w", encoding="utf-8", newline="\n") as stream:
        return formats.write_export(turns, stream)


def require_elsewhere(target: Path, memory: str) -> None:
    """Raise InputError where writing to `target` would destroy the memory."""
    own = [] if memory == IN_MEMORY else [Path(f"{memory}{part}") for part in ("", "-wal", "-shm")]
    if any(path.exists() and target.exists() and target.samefile(path) for path in own):
        raise InputError(f"{target} is the memory itself: give another file to write to")
