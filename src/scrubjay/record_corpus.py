"""One memory's records and evidence nodes in memory, beside the turns' corpus, kept current with the store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from scrubjay.datatypes import NodeKind, RecordType, Stance
from scrubjay.iso_dates import first_and_last_day
from scrubjay.lexical import LexicalIndex
from scrubjay.vectors import ExactVectorIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scrubjay.datatypes import RecordRows, RecordState, RecordTime
    from scrubjay.settings import LexicalSettings
    from scrubjay.store import RecordStore

Column = TypeVar("Column", bound=np.generic)

TYPES = tuple(RecordType)
STANCES = tuple(Stance)
KINDS = tuple(NodeKind)
FRAME = KINDS.index(NodeKind.EVENT_FRAME)
NO_SPEAKER = -1
NEVER = float("nan")
SECONDS_A_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordTable:
    """The records of one memory as columns, in the order they were written; n rows."""

    row: NDArray[np.int64]  # the store's record row
    type: NDArray[np.int8]  # place in TYPES
    stance: NDArray[np.int8]  # place in STANCES
    speaker: NDArray[np.int32]  # place in `speakers`; -1 where the record has none
    supported: NDArray[np.bool_]
    tokens: NDArray[np.int32]  # of the text
    start: NDArray[np.float64]  # of its time, seconds since 1970 UTC; NaN where it has none
    stop: NDArray[np.float64]
    content: NDArray[np.uint64]  # the same for the same words, wherever they were written: orders equals
    speakers: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordCorpus:
    """All that a recall reads of a memory's records, at one state of the store."""

    state: RecordState
    records: RecordTable
    lexical: LexicalIndex
    vectors: ExactVectorIndex
    node_row: NDArray[np.int64]
    node_kind: NDArray[np.int8]  # place in KINDS
    node_lexical: LexicalIndex
    node_vectors: ExactVectorIndex
    source_record: NDArray[np.intp]  # (p,) place of the record of each link to a turn
    source_turn: NDArray[np.int64]  # (p,) the store's turn row
    link_node: NDArray[np.intp]  # (l,) place of the node of each link to a record
    link_record: NDArray[np.intp]


class RecordCache:
    """The records of one memory, brought up to date by what was written since, or read anew.

    The indexes grow in place, so they are read and brought up to date under the lock of the turns' corpus.
    """

    def __init__(self, settings: LexicalSettings) -> None:
        self._settings = settings
        self._corpus: RecordCorpus | None = None

    def current(self, store: RecordStore) -> RecordCorpus:
        """Give the records at the store's present state."""
        corpus = self._corpus
        if corpus is not None and corpus.state == store.state():
            return corpus
        rows = store.load(after=None if corpus is None else corpus.state)
        if corpus is None or rows.whole:
            corpus = empty_corpus(rows, self._settings)
        self._corpus = extend_corpus(corpus, rows)
        return self._corpus


def empty_corpus(rows: RecordRows, settings: LexicalSettings) -> RecordCorpus:
    whole, small, place = np.empty(0, np.int64), np.empty(0, np.int8), np.empty(0, np.intp)
    real, dimension = np.empty(0, np.float64), rows.vectors.shape[1]
    table = RecordTable(
        row=whole,
        type=small,
        stance=small,
        speaker=whole.astype(np.int32),
        supported=small.astype(np.bool_),
        tokens=whole.astype(np.int32),
        start=real,
        stop=real,
        content=whole.astype(np.uint64),
        speakers=(),
    )
    return RecordCorpus(
        state=rows.state,
        records=table,
        lexical=LexicalIndex(settings),
        vectors=ExactVectorIndex(dimension),
        node_row=whole,
        node_kind=small,
        node_lexical=LexicalIndex(settings),
        node_vectors=ExactVectorIndex(dimension),
        source_record=place,
        source_turn=whole,
        link_node=place,
        link_record=place,
    )


def extend_corpus(corpus: RecordCorpus, rows: RecordRows) -> RecordCorpus:
    """Add what was written since; the indexes grow in place."""
    records, nodes = extend_records(corpus.records, rows), rows.nodes
    corpus.lexical.append(terms=rows.terms, counts=rows.counts, distinct=rows.distinct, length=rows.length)
    corpus.vectors.append(rows.vectors)
    corpus.node_lexical.append(
        terms=nodes.terms, counts=nodes.counts, distinct=nodes.distinct, length=nodes.length
    )
    corpus.node_vectors.append(nodes.vectors)
    node_row = joined(corpus.node_row, nodes.row)
    kinds = np.array([KINDS.index(kind) for kind in nodes.kind], np.int8)
    return replace(
        corpus,
        state=rows.state,
        records=records,
        node_row=node_row,
        node_kind=joined(corpus.node_kind, kinds),
        source_record=joined(corpus.source_record, np.searchsorted(records.row, rows.provenance_record)),
        source_turn=joined(corpus.source_turn, rows.provenance_turn),
        link_node=joined(corpus.link_node, np.searchsorted(node_row, nodes.link_node)),
        link_record=joined(corpus.link_record, np.searchsorted(records.row, nodes.link_record)),
    )


def extend_records(old: RecordTable, rows: RecordRows) -> RecordTable:
    speakers = tuple(dict.fromkeys((*old.speakers, *(name for name in rows.speaker if name is not None))))
    place_of = {name: place for place, name in enumerate(speakers)}
    spoken = [NO_SPEAKER if name is None else place_of[name] for name in rows.speaker]
    intervals = np.array([interval_of(time) for time in rows.time], np.float64).reshape(-1, 2)
    return RecordTable(
        row=joined(old.row, rows.row),
        type=joined(old.type, np.array([TYPES.index(kind) for kind in rows.type], np.int8)),
        stance=joined(old.stance, np.array([STANCES.index(stance) for stance in rows.stance], np.int8)),
        speaker=joined(old.speaker, np.array(spoken, np.int32)),
        supported=joined(old.supported, rows.supported),
        tokens=joined(old.tokens, rows.tokens),
        start=joined(old.start, intervals[:, 0]),
        stop=joined(old.stop, intervals[:, 1]),
        content=joined(old.content, content_keys(rows.terms, rows.distinct)),
        speakers=speakers,
    )


def content_keys(terms: NDArray[np.uint64], distinct: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Give a number for the words of each text, whatever its row."""
    ends = np.cumsum(distinct)
    running = np.concatenate((np.zeros(1, np.uint64), np.bitwise_xor.accumulate(terms)))
    keys: NDArray[np.uint64] = running[ends] ^ running[ends - distinct]
    return keys


def interval_of(times: RecordTime) -> tuple[float, float]:
    """Give the time of a record's content as seconds since 1970, half-open; NaN where it has none.

    Its days are taken as days of UTC: what it says has no zone. What holds from a day on, or up to one, is open.
    """
    if times.t_valid_from is None and times.t_valid_to is None:
        return (NEVER, NEVER) if times.t_ref is None else (day_start(times.t_ref), day_end(times.t_ref))
    start = -np.inf if times.t_valid_from is None else day_start(times.t_valid_from)
    return start, np.inf if times.t_valid_to is None else max(day_end(times.t_valid_to), start)


def day_start(iso: str) -> float:
    return datetime.combine(first_and_last_day(iso)[0], time.min, UTC).timestamp()


def day_end(iso: str) -> float:
    return datetime.combine(first_and_last_day(iso)[1], time.min, UTC).timestamp() + SECONDS_A_DAY


def joined(old: NDArray[Column], new: NDArray[Any]) -> NDArray[Column]:
    return np.concatenate((old, new.astype(old.dtype)))
