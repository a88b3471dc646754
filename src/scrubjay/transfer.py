"""Files of conversations into one memory, and a memory into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay import formats
from scrubjay.datatypes import NewTurn
from scrubjay.errors import InputError, NotFoundError
from scrubjay.store.connection import IN_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

    from scrubjay.datatypes import Turn
    from scrubjay.formats import Conversation
    from scrubjay.memory import Memory


def read_file(
    path: Path, *, format_name: str, skip_bad: bool, memory: Memory
) -> Iterator[tuple[str, NewTurn]]:
    """Give the turns of a file of one conversation, each with its session's id; raise FormatError or InputError first."""
    reading = formats.read_conversations(path, format=format_name, skip_bad=skip_bad)
    if len(reading.conversations) != 1:
        raise InputError(
            f"{path} holds {len(reading.conversations)} conversations: import each into its own memory"
        )
    return turns_for(memory, reading.conversations[0], format_name=reading.format)


def turns_for(
    memory: Memory, conversation: Conversation, *, format_name: str
) -> Iterator[tuple[str, NewTurn]]:
    """Give a conversation's turns, each with its session's id.

    Of a format whose files repeat what others hold, those that the memory has are given as it has them: they stay where
    they are.
    """
    turns = ((session.session_id, turn) for session in conversation.sessions for turn in session.turns)
    if not formats.FORMATS[format_name].repeats:
        return turns
    return (as_held(memory, turn) or (session_id, turn) for session_id, turn in turns)


def as_held(memory: Memory, turn: NewTurn) -> tuple[str, NewTurn] | None:
    try:
        held = memory.turn(turn.turn_id or "")
    except NotFoundError:
        return None
    return held.session_id, NewTurn(
        role=held.role,
        text=held.text,
        speaker=held.speaker,
        said_at=held.said_at,
        caption=held.caption,
        turn_id=held.turn_id,
        metadata=held.metadata,
    )


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
