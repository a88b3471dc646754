"""Backends of the record store for its contract suite, and small hand-made things to put into them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
from postgres_server import shared_dsn, user_of

from scrubjay.datatypes import (
    BoundaryReason,
    EmbedderIdentity,
    Encoding,
    IndexedPassage,
    IndexedText,
    NewNode,
    NewSegment,
    NewTurn,
    NodeKind,
    PreparedTurn,
    Record,
    RecordTime,
    RecordType,
    Role,
    Stance,
    Support,
    Usage,
)
from scrubjay.store.connection import Database
from scrubjay.store.opening import Opening, open_stores
from scrubjay.store.records import SqliteRecordStore
from scrubjay.store.segments import SqliteSegmentStore
from scrubjay.store.sqlite import SqliteStore
from scrubjay.store_settings import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from scrubjay.datatypes import CompletedSegment, LeasedSegment
    from scrubjay.store import RecordStore, SegmentStore, Store

DIMENSION = 4
EMBEDDER = EmbedderIdentity(name="by-hand", dimension=DIMENSION, normalized=True)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NO_USAGE = Usage(stage="encode", model="by-hand", calls=1, input_tokens=10, output_tokens=3)


class Backend(NamedTuple):
    """One memory opened once, and how it is closed."""

    turns: Store
    segments: SegmentStore
    records: RecordStore
    close: Callable[[], None]


def open_sqlite(path: str) -> Backend:
    database = Database(path)
    turns = SqliteStore(database)
    turns.name_embedder(EMBEDDER)
    return Backend(turns, SqliteSegmentStore(database), SqliteRecordStore(database), database.close)


def open_postgres(path: str) -> Backend:
    location, opening = shared_dsn(), Opening(user_id=user_of(path), postgres=SMALL)
    stores = open_stores(location, opening)
    stores.turns.name_embedder(EMBEDDER)
    return Backend(stores.turns, stores.segments, stores.records, stores.place.close)


SMALL = PostgresSettings(partitions=3, connections=3)

BACKENDS: dict[str, Callable[[str], Backend]] = {"postgres": open_postgres, "sqlite": open_sqlite}


def vector_of(text: str) -> NDArray[np.float32]:
    """Give any vector of length one that differs from text to text."""
    raw = np.array(
        [crc32(f"{place}{text}".encode("utf-8", "surrogatepass")) for place in range(DIMENSION)], np.float64
    )
    return (raw / np.linalg.norm(raw)).astype(np.float32)


def term_of(word: str) -> int:
    raw = word.encode("utf-8", "surrogatepass")
    return crc32(raw) << 32 | crc32(raw[::-1])


def terms_of(text: str) -> NDArray[np.uint64]:
    return np.array(sorted({term_of(word) for word in text.split()}), np.uint64)


def index_text(text: str) -> IndexedText:
    terms = terms_of(text)
    return IndexedText(
        tokens=len(text.split()),
        length=len(terms),
        terms=terms,
        counts=np.ones(len(terms), np.uint16),
        vector=vector_of(text),
    )


def prepare_turn(session_id: str, text: str, *, pieces: int = 1) -> PreparedTurn:
    terms = terms_of(text)
    return PreparedTurn(
        session_id=session_id,
        turn=NewTurn(role=Role.USER, text=text, speaker="Ana", said_at=NOON),
        tokens=len(text.split()),
        flags=0,
        passages=tuple(
            IndexedPassage(
                start=0,
                stop=len(text),
                tokens=1,
                length=len(terms),
                terms=terms,
                counts=np.ones(len(terms), np.uint16),
                vector=vector_of(f"{text}{piece or ''}"),
            )
            for piece in range(pieces)
        ),
        embedder=EMBEDDER,
    )


def add(backend: Backend, session_id: str, *texts: str) -> tuple[str, ...]:
    return backend.turns.append([prepare_turn(session_id, text) for text in texts]).turn_ids


def new_segment(turn_rows: Sequence[int]) -> NewSegment:
    return NewSegment(
        reason=BoundaryReason.SEMANTIC_BOUNDARY,
        probability=0.75,
        signals={"surprise": 0.5},
        turn_rows=tuple(turn_rows),
    )


def close(backend: Backend, session_id: str, *sizes: int, segmenter: str = "{}") -> None:
    """Close segments of these numbers of turns, from the first open turn on."""
    open_turns = backend.segments.open_turns(session_id)
    starts = np.cumsum([0, *sizes])
    segments = [
        new_segment(open_turns.rows[start : start + size]) for start, size in zip(starts, sizes, strict=False)
    ]
    backend.segments.close_segments(session_id, segments, seen=open_turns.segmenter, segmenter=segmenter)


def lease(
    backend: Backend, *, owner: str = "worker", after: float = 0, encoding_row: int | None = None
) -> LeasedSegment | None:
    """Lease a segment for a minute, some seconds after noon."""
    return backend.segments.lease_segment(
        current(backend) if encoding_row is None else encoding_row,
        owner=owner,
        now=NOON + timedelta(seconds=after),
        lease_seconds=60,
    )


def must_lease(backend: Backend, *, after: float = 0, encoding_row: int | None = None) -> LeasedSegment:
    leased = lease(backend, after=after, encoding_row=encoding_row)
    assert leased is not None
    return leased


def current(backend: Backend) -> int:
    return backend.records.encodings()[0].encoding_row


def record(
    text: str, turn_ids: Sequence[str], *, kind: RecordType = RecordType.FACT, entity: str = "ana"
) -> Record:
    return Record(
        record_id=f"{kind.value}-{crc32(text.encode('utf-8', 'surrogatepass'))}",
        type=kind,
        text=text,
        entities=(entity,),
        tags=("daily life",),
        time=RecordTime(t_ref="2024-05"),
        stance=Stance.ASSERTED,
        speaker="Ana",
        support=Support(supported=True, reason="all there"),
        turn_ids=tuple(turn_ids),
    )


def nodes_of(leased: LeasedSegment, records: Sequence[Record]) -> list[NewNode]:
    """Make a node for each entity, and the segment's event frame, which holds all the records' words."""
    entities = dict.fromkeys(name for item in records for name in item.entities)
    nodes = [
        NewNode(
            kind=NodeKind.ENTITY,
            key=name,
            text=name,
            record_ids=tuple(item.record_id for item in records if name in item.entities),
        )
        for name in entities
    ]
    frame = NewNode(
        kind=NodeKind.EVENT_FRAME,
        key=f"{leased.session_id}:{leased.number}",
        text=" ".join(item.text for item in records),
        record_ids=tuple(item.record_id for item in records),
    )
    return [*nodes, frame]


def complete(
    backend: Backend, leased: LeasedSegment, *records: Record, note: str = "", usage: Usage = NO_USAGE
) -> CompletedSegment:
    nodes = nodes_of(leased, records)
    return backend.segments.complete_segment(
        leased,
        Encoding(records=records, note=note, dropped=(), usage=usage),
        nodes,
        record_index=[index_text(item.text) for item in records],
        node_index=[index_text(node.text) for node in nodes],
        embedder=EMBEDDER,
    )


def encode_all(backend: Backend, *, encoding_row: int | None = None) -> None:
    """Encode every pending segment, each turn into a record of its words."""
    while (leased := lease(backend, encoding_row=encoding_row)) is not None:
        complete(backend, leased, *(record(turn.text, [turn.turn_id]) for turn in leased.turns))
