"""What a reader makes of a file: conversations of sessions of turns, and what it had to leave out."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scrubjay.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.datatypes import NewTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationSession:
    """One sitting of a conversation, turns in the file's order."""

    session_id: str
    turns: tuple[NewTurn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """All that belongs into one memory; its id becomes the memory's user id."""

    conversation_id: str
    sessions: tuple[ConversationSession, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The conversations of a file, the bad entries skipped, and how many turns said nothing."""

    format: str
    conversations: tuple[Conversation, ...]
    bad: tuple[FormatError, ...]
    left_out: int  # well-formed but empty or hidden: nothing anybody said


@dataclass(slots=True, kw_only=True)
class ReadingLog:
    """What a reader leaves out while it reads: bad entries, where they may be skipped, and empty ones."""

    skip_bad: bool
    bad: list[FormatError] = field(default_factory=list)
    left_out: int = 0

    @contextmanager
    def noting_bad(self) -> Iterator[None]:
        """Run one entry's reading; a FormatError in it is kept and passed over only where skipping was asked for."""
        try:
            yield
        except FormatError as error:
            if not self.skip_bad:
                raise
            self.bad.append(error)
