"""What passes between the stages of a read, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from scrubjay.datatypes.turns import Turn


class DatePrecision(StrEnum):
    """How exactly a time range was named."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    SEASON = "season"
    YEAR = "year"
    DECADE = "decade"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """A half-open interval of time, [start, end); None on a side leaves it open."""

    start: datetime | None
    end: datetime | None
    precision: DatePrecision
    text: str  # the words that named it


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelScore:
    """Where one channel put an item, and with what score (higher is better)."""

    rank: int  # from 1
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A turn found by a search, with its rank and score in each channel."""

    turn: Turn
    rank: int  # from 1
    score: float  # probability that the turn is evidence, calibrated
    channels: Mapping[str, ChannelScore]


class LinkKind(StrEnum):
    """What a link of the chain is there for."""

    ANCHOR = "anchor"
    NEIGHBOUR = "neighbour"


class Purpose(StrEnum):
    """What a neighbour is restored for."""

    QUESTION = "question"  # its anchor, a short turn, answers it
    SUBJECT = "subject"  # it has words of the question that its anchor leaves out
    WINDOW = "window"  # every turn so near to an anchor is restored (CoD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One turn of an evidence chain and the reason it is there (CoD)."""

    number: int  # its number in the context, from 1
    turn: Turn
    kind: LinkKind
    reason: str  # a sentence for a person
    anchor: int | None  # a neighbour's anchor, by number
    rank: int  # of an anchor: the order in which it was chosen, from 1; of a neighbour: its anchor's
    probability: (
        float  # that the turn is evidence, calibrated: of those given 0.2, a fifth is (docs/ranking.md)
    )
    channels: Mapping[str, ChannelScore]
    new_terms: tuple[str, ...]  # the question's words, as it writes them, that nothing chosen before covers
    excerpt: tuple[int, int] | None  # the characters shown of a long turn; None where all are
    tokens: int  # of its line in the context
    purpose: Purpose | None = None  # what a neighbour is there for; None for an anchor


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """How long one stage of a read took, and what cheaper path it fell back to, if any."""

    name: str
    milliseconds: float
    fallback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnTable:
    """The turns of one memory as columns, in the order they were written; n rows."""

    row: NDArray[np.int64]  # the store's turn row
    session: NDArray[np.int32]  # the store's session row: sessions in the order they began to be written
    position: NDArray[np.int32]  # place in the session
    previous: NDArray[np.int32]  # row in this table of the turn before in the session, -1 where none
    following: NDArray[np.int32]  # likewise of the turn after
    speaker: NDArray[np.int32]  # place in `speakers`; -1 where the turn has no speaker
    role: NDArray[np.int8]  # place in ROLES
    said_at: NDArray[np.float64]  # seconds since 1970 UTC, NaN where unknown
    tokens: NDArray[np.int32]  # of the turn's line in a context
    flags: NDArray[np.int32]  # cues.turn_flags
    speakers: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.row)


class RankBy(StrEnum):
    """What a search ranks turns by."""

    RELEVANCE = "relevance"  # both channels and their surroundings, what recall goes by
    LEXICAL = "lexical"  # BM25 of the words alone
    DENSE = "dense"  # cosine of the vectors alone
    FUSED = "fused"  # reciprocal-rank fusion of the two
