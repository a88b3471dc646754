"""What a store gives and takes beside turns and records: columns, states, reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from scrubjay.datatypes.turns import Turn
    from scrubjay.datatypes.writing import (
        BackgroundState,
        NodeKind,
        RecordTime,
        RecordType,
        Segment,
        Stance,
        StateCounts,
        Usage,
    )


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
    vectors: NDArray[
        np.float32
    ]  # (passages, dimension), of the last passages where only theirs were asked for


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
