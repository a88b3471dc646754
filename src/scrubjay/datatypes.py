"""The glossary: every value that passes between the parts of ScrubJay, a sentence each."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    import numpy as np
    from numpy.typing import NDArray

    from scrubjay.embed import Embedder
    from scrubjay.errors import FormatError
    from scrubjay.settings import Settings
    from scrubjay.store import RecordStore, SegmentStore, Store

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
    text: str
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
class StoreState:
    """What tells a cache whether it is current: it grows by rows, and starts again with a generation."""

    generation: int  # counts forgettings and re-embeddings
    last_passage: int  # the highest passage row ever given


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexRows:
    """The columns of the turns and passages written after some row, in order of writing."""

    state: StoreState
    turn_row: NDArray[np.int64]
    session: NDArray[np.int64]  # session row of each turn
    position: NDArray[np.int64]  # place of each turn in its session
    role: tuple[str, ...]
    speaker: tuple[str | None, ...]
    said_at: NDArray[np.float64]  # seconds since 1970 UTC, NaN where unknown
    tokens: NDArray[np.int32]
    flags: NDArray[np.int32]
    passage_turn: NDArray[np.int64]  # turn row of each passage
    start: NDArray[np.int32]  # characters into the turn's text
    stop: NDArray[np.int32]
    passage_tokens: NDArray[np.int32]
    length: NDArray[np.int32]  # terms of each passage, repeats counted
    distinct: NDArray[np.int32]  # distinct terms of each passage
    terms: NDArray[np.uint64]  # all passages' term hashes, one after the other
    counts: NDArray[np.uint16]
    vectors: NDArray[np.float32]  # (passages, dimension)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReport:
    """What a `forget` removed, place by place, and whether the file's bytes were rewritten without it."""

    turns: int
    passages: int  # full-text entries and vectors
    sessions: int  # left empty, so removed
    records: int = 0  # left without a turn they were made from
    nodes: int = 0  # evidence nodes left without records
    notes: int = 0  # segments' notes and errors blanked: they may hold the words
    scrubbed: bool  # the database and its log hold no copy of the removed bytes
    pending: str  # why not, and what to do; empty when scrubbed


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing `doctor` found wrong, and what mends it."""

    check: str
    found: str
    remedy: str


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
    score: float  # relevance, absolute, in [0, 1]
    channels: Mapping[str, ChannelScore]


class LinkKind(StrEnum):
    """What a link of the chain is there for."""

    ANCHOR = "anchor"
    NEIGHBOUR = "neighbour"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One turn of an evidence chain and the reason it is there (CoD)."""

    number: int  # its number in the context, from 1
    turn: Turn
    kind: LinkKind
    reason: str  # a sentence for a person
    anchor: int | None  # a neighbour's anchor, by number
    rank: int  # of an anchor: the order in which it was chosen, from 1; of a neighbour: its anchor's
    score: float  # relevance, absolute, in [0, 1]
    channels: Mapping[str, ChannelScore]
    new_terms: tuple[str, ...]  # the question's terms that no earlier anchor covers
    excerpt: tuple[int, int] | None  # the characters shown of a long turn; None where all are
    tokens: int  # of its line in the context


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """How long one stage of a read took, and what cheaper path it fell back to, if any."""

    name: str
    milliseconds: float
    fallback: str = ""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTotals:
    """How much a store holds."""

    turns: int
    sessions: int
    passages: int
    first_said_at: datetime | None
    last_said_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStatus:
    """What a memory holds."""

    memory_id: str
    path: str
    owner: str | None
    totals: StoreTotals
    embedder: str
    file_bytes: int
    progress: EncodingProgress
    usage: tuple[Usage, ...]  # of all model calls ever, by stage and model
    failing: tuple[Segment, ...]  # segments whose last attempt failed
    background: BackgroundState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundState:
    """How the worker that consolidates in the background is doing."""

    running: bool  # False once it was closed, or ended by what `last_error` says
    working: bool
    last_run_at: datetime | None
    next_run_at: datetime | None  # if no turn comes before; None while it works
    last_error: str  # of the last run that had one; empty after one without


# --- writing: segments, records, evidence nodes (LycheeMemory V2, sections 3.2 to 3.4) ---


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
class Encoding:
    """What encoding one segment gave: records, the note for the next segment, and its cost."""

    records: tuple[Record, ...]
    note: str  # the disambiguation state (paper equation 5)
    dropped: tuple[str, ...]  # items that could not be used, each with the reason
    usage: Usage


class EncodingState(StrEnum):
    """Whether an encoding's records are the ones read, or are still being made to take their place."""

    CURRENT = "current"
    BUILDING = "building"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingRun:
    """One encoding of the whole memory, by one model and prompt; a memory has one that is current."""

    encoding_row: int
    model: str  # empty until a model was used
    prompt_version: str
    state: EncodingState
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexedTurn:
    """A turn with what its index already holds: enough to segment without embedding or counting anything again."""

    turn: Turn
    tokens: int  # of its text and caption, by the bundled tokenizer
    vector: NDArray[np.float32]  # (dimension,); of several passages, their mean weighted by tokens
    terms: NDArray[np.uint64]  # hashes of its distinct terms
    counts: NDArray[np.uint16]  # how often each occurs


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
class LeasedSegment:
    """A segment given to one worker to encode until a time; its result counts only while no other has it."""

    encoding_row: int
    segment_row: int
    session_id: str
    number: int
    owner: str
    lease: int  # how often the segment was leased: tells this lease from a later one
    until: datetime
    attempts: int  # encoding calls that failed before
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceContext:
    """What a segment's encoder may resolve references with, from the session's segments before (paper equation 7)."""

    note: str  # the last one
    records: tuple[str, ...]  # texts of the last records, oldest first


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexedText:
    """The full-text entry and vector of a record or evidence node."""

    tokens: int
    length: int  # terms, repeats counted
    terms: NDArray[np.uint64]  # sorted hashes of the distinct terms
    counts: NDArray[np.uint16]
    vector: NDArray[np.float32]  # (dimension,)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedSegment:
    """What completing a segment wrote."""

    new: int  # records
    repeated: int  # records that were there already and got more provenance
    left_out: int  # records that cite none of the segment's turns


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
class EncodingProgress:
    """How far an encoding is: its turns and segments by state, and what they gave."""

    turns: StateCounts
    segments: StateCounts
    leased: int  # pending segments that a worker has
    records: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordState:
    """What tells a cache of records whether it is current, as StoreState does for turns."""

    generation: int
    encoding_row: int
    last_record: int
    last_provenance: int
    last_node: int
    last_link: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeRows:
    """The columns of evidence nodes and their links to records, in order of writing."""

    row: NDArray[np.int64]
    kind: tuple[NodeKind, ...]
    key: tuple[str, ...]
    tokens: NDArray[np.int32]
    length: NDArray[np.int32]
    distinct: NDArray[np.int32]
    terms: NDArray[np.uint64]
    counts: NDArray[np.uint16]
    vectors: NDArray[np.float32]
    link_node: NDArray[np.int64]  # node row of each link
    link_record: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordRows:
    """The columns of the current encoding's records, with their provenance and nodes, in order of writing."""

    state: RecordState
    whole: bool  # all there is; otherwise only what was written since the state given
    row: NDArray[np.int64]
    type: tuple[RecordType, ...]
    time: tuple[RecordTime, ...]
    stance: tuple[Stance, ...]
    speaker: tuple[str | None, ...]
    supported: NDArray[np.bool_]
    tokens: NDArray[np.int32]
    length: NDArray[np.int32]
    distinct: NDArray[np.int32]
    terms: NDArray[np.uint64]  # all records' term hashes, one after the other
    counts: NDArray[np.uint16]
    vectors: NDArray[np.float32]  # (records, dimension)
    provenance_record: NDArray[np.int64]  # record row of each link to a turn
    provenance_turn: NDArray[np.int64]
    nodes: NodeRows


class TextOwner(StrEnum):
    """What a stored text with a vector belongs to, passages aside."""

    RECORD = "record"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredText:
    """The text of a record or evidence node of the store, to be embedded anew."""

    owner: TextOwner
    row: int
    text: str


# --- reading: what the stages of a recall work on ---


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


ROLES = (Role.USER, Role.ASSISTANT, Role.SYSTEM, Role.TOOL)
"""The order in which TurnTable numbers roles."""


class RankBy(StrEnum):
    """What a search ranks turns by."""

    RELEVANCE = "relevance"  # both channels and their surroundings, what recall goes by
    LEXICAL = "lexical"  # BM25 of the words alone
    DENSE = "dense"  # cosine of the vectors alone
    FUSED = "fused"  # reciprocal-rank fusion of the two


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
