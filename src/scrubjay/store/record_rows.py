"""Rows of encodings, records and evidence nodes as values and columns, whichever store they were read from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.datatypes import (
    EncodingRun,
    EncodingState,
    Node,
    NodeKind,
    NodeRows,
    Record,
    RecordRows,
    RecordState,
    RecordTime,
    RecordType,
    Stance,
    Support,
)
from scrubjay.errors import InputError
from scrubjay.store import rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

RECORD_COLUMNS = (
    "record.record_row, record_id, type, record.text, entities, tags, t_ref, t_valid_from, t_valid_to, stance, "
    "record.speaker, supported, support_reason"
)
INDEX_COLUMNS = "record_row, type, t_ref, t_valid_from, t_valid_to, stance, speaker, supported, tokens, length, terms, counts, vector"
NODE_COLUMNS = "node_row, kind, key, tokens, length, terms, counts, vector"

EMPTY = RecordState(generation=0, encoding_row=0, last_record=0, last_provenance=0, last_node=0, last_link=0)
"""The state of an index that holds nothing."""


def require_type(name: str) -> RecordType:
    """Give the type of this name; a filter that nothing can pass is an error, not an empty list."""
    try:
        return RecordType(name)
    except ValueError as error:
        raise InputError(f"a record's type is one of {', '.join(RecordType)}, found {name!r}") from error


def start_from(state: RecordState, after: RecordState | None) -> tuple[RecordState, bool]:
    """Say after which rows to read for an index that was read as of `after`, and whether that is all of them."""
    if after is None or (after.generation, after.encoding_row) != (state.generation, state.encoding_row):
        return EMPTY, True
    return after, False


def read_encodings(found: Iterable[rows.SqlRow]) -> tuple[EncodingRun, ...]:
    return tuple(
        EncodingRun(
            encoding_row=row,
            model=model,
            prompt_version=prompt_version,
            state=EncodingState(state),
            created_at=rows.from_microseconds(created_at),
        )
        for row, model, prompt_version, state, created_at in found
    )


def read_nodes(found: Iterable[rows.SqlRow], text: rows.ReadText) -> tuple[Node, ...]:
    return tuple(
        Node(kind=NodeKind(kind), key=text(key), text=text(words), records=count)
        for kind, key, words, count in found
    )


def read_record(row: rows.SqlRow, turn_ids: tuple[str, ...], text: rows.ReadText) -> Record:
    """Make a record of a row of RECORD_COLUMNS."""
    (
        _,
        record_id,
        kind,
        words,
        entities,
        tags,
        t_ref,
        valid_from,
        valid_to,
        stance,
        speaker,
        supported,
        why,
    ) = row
    return Record(
        record_id=record_id,
        type=RecordType(kind),
        text=text(words),
        entities=tuple(json.loads(entities)),
        tags=tuple(json.loads(tags)),
        time=read_time(t_ref, valid_from, valid_to),
        stance=Stance(stance),
        speaker=None if speaker is None else text(speaker),
        support=Support(supported=bool(supported), reason=text(why)),
        turn_ids=turn_ids,
    )


def read_time(t_ref: str | None, valid_from: str | None, valid_to: str | None) -> RecordTime:
    return RecordTime(t_ref=t_ref, t_valid_from=valid_from, t_valid_to=valid_to)


def read_record_rows(
    found: Sequence[rows.SqlRow],
    provenance: Sequence[rows.SqlRow],
    nodes: NodeRows,
    *,
    state: RecordState,
    whole: bool,
    coding: rows.Coding,
) -> RecordRows:
    """Put rows of INDEX_COLUMNS, and the turns that records were made from, into columns."""
    row, kind, t_ref, valid_from, valid_to, stance, speaker, supported, *index = rows.transposed(found, 13)
    tokens, length, terms, counts, vectors = index
    provenance_record, provenance_turn = read_pairs(provenance)
    return RecordRows(
        state=state,
        whole=whole,
        row=np.array(row, np.int64),
        type=tuple(RecordType(name) for name in kind),
        time=tuple(map(read_time, t_ref, valid_from, valid_to)),
        stance=tuple(Stance(name) for name in stance),
        speaker=tuple(None if name is None else coding.text(name) for name in speaker),
        supported=np.array(supported, np.bool_),
        tokens=np.array(tokens, np.int32),
        length=np.array(length, np.int32),
        distinct=np.array([len(blob) // 2 for blob in counts], np.int32),
        terms=np.frombuffer(b"".join(terms), np.uint64),
        counts=np.frombuffer(b"".join(counts), np.uint16),
        vectors=coding.vectors(vectors, dimension=coding.dimension),
        provenance_record=provenance_record,
        provenance_turn=provenance_turn,
        nodes=nodes,
    )


def read_node_rows(
    found: Sequence[rows.SqlRow], links: Sequence[rows.SqlRow], coding: rows.Coding
) -> NodeRows:
    """Put rows of NODE_COLUMNS, and their links to records, into columns."""
    row, kind, key, tokens, length, terms, counts, vectors = rows.transposed(found, 8)
    link_node, link_record = read_pairs(links)
    return NodeRows(
        row=np.array(row, np.int64),
        kind=tuple(NodeKind(name) for name in kind),
        key=tuple(coding.text(name) for name in key),
        tokens=np.array(tokens, np.int32),
        length=np.array(length, np.int32),
        distinct=np.array([len(blob) // 2 for blob in counts], np.int32),
        terms=np.frombuffer(b"".join(terms), np.uint64),
        counts=np.frombuffer(b"".join(counts), np.uint16),
        vectors=coding.vectors(vectors, dimension=coding.dimension),
        link_node=link_node,
        link_record=link_record,
    )


def read_pairs(found: Sequence[rows.SqlRow]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    one, other = rows.transposed(found, 2)
    return np.array(one, np.int64), np.array(other, np.int64)
