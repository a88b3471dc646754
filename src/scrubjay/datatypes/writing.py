"""Segments, records, evidence nodes, and what making them takes (LycheeMemory V2, sections 3.2 to 3.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from scrubjay.datatypes.turns import IndexedTurn
    from scrubjay.embed import Embedder
    from scrubjay.settings import Settings
    from scrubjay.store import RecordStore, SegmentStore, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundState:
    """How the worker that consolidates in the background is doing."""

    running: bool  # False once it was closed, or ended by what `last_error` says
    working: bool
    last_run_at: datetime | None
    next_run_at: datetime | None  # if no turn comes before; None while it works
    last_error: str  # of the last run that had one; empty after one without


class SegmentState(StrEnum):
    """How far a segment is on its way to records; turns in no closed segment count as open."""

    OPEN = "open"
    PENDING = "pending"
    ENCODED = "encoded"
    FAILED = "failed"


class BoundaryReason(StrEnum):
    """Why a segment closed (paper B.1)."""

    SEMANTIC_BOUNDARY = "semantic_boundary"
    CAPACITY_LIMIT = "capacity_limit"
    TARGET_REACHED = "target_reached"
    SESSION_FLUSH = "session_flush"


class RecordType(StrEnum):
    """The kinds of statement a record can be (paper Table 12)."""

    FACT = "fact"
    PREFERENCE = "preference"
    EVENT = "event"
    CONSTRAINT = "constraint"
    PROCEDURE = "procedure"
    FAILURE_PATTERN = "failure_pattern"
    TOOL_AFFORDANCE = "tool_affordance"


class Stance(StrEnum):
    """How a statement was made: a supposition or a question is no fact."""

    ASSERTED = "asserted"
    ASKED = "asked"
    SUPPOSED = "supposed"


class NodeKind(StrEnum):
    """The five classes of evidence nodes, time by day and by month (paper 3.4)."""

    ENTITY = "entity"
    TOPIC = "topic"
    ENTITY_TOPIC = "entity_topic"
    DAY = "day"
    MONTH = "month"
    EVENT_FRAME = "event_frame"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Consecutive exchanges of one session, encoded together in one call."""

    segment_row: int
    session_id: str
    number: int  # its place among the session's segments, from 0
    state: SegmentState
    reason: BoundaryReason
    probability: float | None  # of a cut, where the boundary score closed it
    tokens: int
    turn_ids: tuple[str, ...]
    attempts: int  # encoding calls that failed
    last_error: str
    updated_at: datetime
    signals: Mapping[str, float] = field(default_factory=dict)  # of the boundary score


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Generative tokens of one stage and model (paper A.3): input and output, as the provider counts them."""

    stage: str  # "encode", "plan", "answer"
    model: str
    calls: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTime:
    """When a record's content happened or holds: ISO dates of day, month or year precision (paper Table 12)."""

    t_ref: str | None = None
    t_valid_from: str | None = None
    t_valid_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """Whether a record's names, numbers, dates and words stand in the turns it cites, and what doesn't."""

    supported: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One self-contained statement, with the turns it was made from (paper equation 6)."""

    record_id: str  # a hash of type and normalised text
    type: RecordType
    text: str
    entities: tuple[str, ...]
    tags: tuple[str, ...]
    time: RecordTime
    stance: Stance
    speaker: str | None  # who said it
    support: Support
    turn_ids: tuple[str, ...]  # provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNode:
    """An evidence node that some records share: what it stands for and the text it is found by."""

    kind: NodeKind
    key: str  # normalised (paper C.3); unique within its kind
    text: str
    record_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKey:
    """What names an evidence node within an encoding."""

    kind: NodeKind
    key: str  # normalised; a day's is 2024-05-17, a month's 2024-05


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A stored evidence node, as it is listed."""

    kind: NodeKind
    key: str
    text: str  # empty for an event frame some of whose turns were forgotten
    records: int  # that it leads to


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """What encoding one segment gave: records, the note for the next segment, and its cost."""

    records: tuple[Record, ...]
    note: str  # the disambiguation state (paper equation 5)
    dropped: tuple[str, ...]  # items that could not be used, each with the reason
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenTurns:
    """The turns of a session that are in no segment yet, in order, and what came before them."""

    session_id: str
    segmenter: str  # changes whenever segments are closed; empty at first, and after a forgetting
    rows: tuple[int, ...]  # the store's turn rows
    turns: tuple[IndexedTurn, ...]
    past: tuple[IndexedTurn, ...]  # the turns in segments
    closed: Mapping[str, BoundaryReason]  # the last turn of each segment → why it ended there


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSegment:
    """A segment as the segmenter closes it, with what it decided by."""

    reason: BoundaryReason
    probability: float | None
    signals: Mapping[str, float]
    turn_rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceContext:
    """What a segment's encoder may resolve references with, from the session's segments before (paper equation 7)."""

    note: str  # the last one
    records: tuple[str, ...]  # texts of the last records, oldest first


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCounts:
    """How many turns, or segments, are in each state."""

    open: int
    pending: int
    encoded: int
    failed: int

    @property
    def total(self) -> int:
        return self.open + self.pending + self.encoded + self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnds:
    """Which sessions are over, so that their open segment closes too."""

    flush: bool = False  # all
    idle: timedelta | None = None  # those that nothing was added to for so long


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WritePath:
    """What consolidation works with."""

    turns: Store
    segments: SegmentStore
    records: RecordStore
    embedder: Embedder
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationPlan:
    """What consolidating would take, before any call: counted by the bundled tokenizer, output by rule of thumb."""

    segments: int  # to encode: those waiting, and those that closing open turns would give
    calls: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationReport:
    """What a consolidation did, what it cost, and what is left to do."""

    closed: int  # segments made of open turns
    encoded: int  # segments
    failed: int  # attempts that failed
    records: int  # new ones
    repeated: int  # that were there already and got more provenance
    dropped: int  # items of replies that could not be used
    usage: tuple[Usage, ...]
    turns: StateCounts  # of the whole memory, afterwards
    stopped: str  # why it ended before all was done, and what is left; empty where nothing is
    retry_at: datetime | None = None  # when to ask the provider again, where it is away or too busy


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationLimits:
    """Where a consolidation stops by itself."""

    most_segments: int | None = None
    budget_tokens: int | None = None  # input and output of all calls; checked before each
    workers: int = 1  # sessions encoded side by side
