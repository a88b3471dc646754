"""Turns: as given, as stored, as indexed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from scrubjay.errors import FormatError


JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]


class Role(StrEnum):
    """Who a turn comes from, as chat models name it."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    """A turn as the caller gives it; `index` and `turn_id` make adding it again a no-op."""

    role: Role
    text: str = ""  # what was said; empty only beside a caption
    speaker: str | None = None
    said_at: datetime | None = None  # aware; None where it isn't known
    caption: str | None = None  # what an image sent with the turn shows
    turn_id: str | None = None  # unique in the memory; "<session>:<index>" when not given
    index: int | None = None  # place in the session, from 0; the next free one when not given
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One utterance of a session as it was said, kept unchanged (CoD: the turn-level memory)."""

    turn_id: str
    session_id: str
    index: int
    role: Role
    speaker: str | None
    text: str
    caption: str | None
    said_at: datetime | None  # aware, in the offset it was given in
    added_at: datetime  # aware, UTC: when the memory took it
    metadata: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of a turn of at most a set number of tokens: what is indexed; most turns are one."""

    start: int  # characters into the turn's text
    stop: int
    text: str  # what is indexed: speaker, this piece of the text, caption


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One conversation: turns in order, from the first to the last time said."""

    session_id: str
    turns: int
    speakers: tuple[str, ...]
    first_said_at: datetime | None
    last_said_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddReport:
    """What an `add` did: ids of all the turns given, in order, and how many were new."""

    turn_ids: tuple[str, ...]
    added: int
    unchanged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderIdentity:
    """What vectors are comparable with: stored in the memory and checked at open."""

    name: str
    dimension: int
    normalized: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.dimension} dimensions{', normalised' if self.normalized else ''})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexedPassage:
    """A passage with its full-text entry and its vector, as one row of the store."""

    start: int
    stop: int
    tokens: int  # of the indexed text, by the bundled tokenizer
    length: int  # terms, repeats counted
    terms: NDArray[np.uint64]  # sorted hashes of the distinct terms
    counts: NDArray[np.uint16]  # how often each occurs
    vector: NDArray[np.float32]  # (dimension,)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPassage:
    """A passage of the store: its row, its turn, and the characters of the turn it covers."""

    row: int
    turn: Turn
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedTurn:
    """A new turn with all that makes it searchable, ready to be written in one transaction."""

    session_id: str
    turn: NewTurn
    tokens: int  # of the turn as a context renders it, without its header
    flags: int  # what its words look like, bit by bit (cues.turn_flags)
    passages: tuple[IndexedPassage, ...]
    embedder: EmbedderIdentity  # of the passages' vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMemory:
    """What an import put into one memory."""

    memory: str  # its path
    sessions: int
    added: int  # turns
    unchanged: int  # turns that were there already


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did, and what it left out."""

    source: str
    format: str
    memories: tuple[ImportedMemory, ...]
    bad: tuple[FormatError, ...]  # entries skipped, as asked
    left_out: int  # entries with nothing anybody said


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexedTurn:
    """A turn with what its index already holds: enough to segment without embedding or counting anything again."""

    turn: Turn
    tokens: int  # of its text and caption, by the bundled tokenizer
    vector: NDArray[np.float32]  # (dimension,); of several passages, their mean weighted by tokens
    terms: NDArray[np.uint64]  # hashes of its distinct terms
    counts: NDArray[np.uint16]  # how often each occurs


ROLES = (Role.USER, Role.ASSISTANT, Role.SYSTEM, Role.TOOL)
"""The order in which TurnTable numbers roles."""
