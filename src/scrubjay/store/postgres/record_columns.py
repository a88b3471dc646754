"""The current encoding's records and evidence nodes as columns, for the index in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrubjay.datatypes import NodeKind, NodeRows, RecordRows, RecordState, RecordType, Stance
from scrubjay.store import rows
from scrubjay.store.postgres.values import decode_vectors, from_optional_sql_text, from_sql_text
from scrubjay.store.records import read_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scrubjay.store.postgres.transaction import MemoryRow, Transaction


def record_state(memory: MemoryRow) -> RecordState:
    return RecordState(
        generation=memory.generation,
        encoding_row=memory.current_encoding,
        last_record=memory.last["record"],
        last_provenance=memory.last["provenance"],
        last_node=memory.last["node"],
        last_link=memory.last["node_record"],
    )


def read_record_rows(
    transaction: Transaction, state: RecordState, *, since: RecordState, whole: bool
) -> RecordRows:
    """Put the current encoding's records into columns, with links that were made since to records before."""
    found = transaction.all(
        "SELECT record_row, type, t_ref, t_valid_from, t_valid_to, stance, speaker, supported, tokens, length, "
        "terms, counts, vector FROM scrubjay.record WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s "
        "AND record_row > %(after)s ORDER BY record_row",
        encoding=state.encoding_row,
        after=since.last_record,
    )
    row, kind, t_ref, valid_from, valid_to, stance, speaker, supported, *index = rows.transposed(found, 13)
    tokens, length, terms, counts, vectors = index
    provenance_record, provenance_turn = read_pairs(
        transaction,
        "SELECT record_row, turn_row FROM scrubjay.provenance JOIN scrubjay.record USING (memory_id, record_row) "
        "WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s AND provenance_row > %(after)s "
        "ORDER BY provenance_row",
        encoding=state.encoding_row,
        after=since.last_provenance,
    )
    dimension = transaction.memory.identity.dimension
    return RecordRows(
        state=state,
        whole=whole,
        row=np.array(row, np.int64),
        type=tuple(RecordType(name) for name in kind),
        time=tuple(map(read_time, t_ref, valid_from, valid_to)),
        stance=tuple(Stance(name) for name in stance),
        speaker=tuple(from_optional_sql_text(name) for name in speaker),
        supported=np.array(supported, np.bool_),
        tokens=np.array(tokens, np.int32),
        length=np.array(length, np.int32),
        distinct=np.array([len(blob) // 2 for blob in counts], np.int32),
        terms=np.frombuffer(b"".join(terms), np.uint64),
        counts=np.frombuffer(b"".join(counts), np.uint16),
        vectors=decode_vectors(vectors, dimension=dimension),
        provenance_record=provenance_record,
        provenance_turn=provenance_turn,
        nodes=read_node_rows(transaction, state, since=since, dimension=dimension),
    )


def read_node_rows(
    transaction: Transaction, state: RecordState, *, since: RecordState, dimension: int
) -> NodeRows:
    found = transaction.all(
        "SELECT node_row, kind, key, tokens, length, terms, counts, vector FROM scrubjay.node "
        "WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s AND node_row > %(after)s ORDER BY node_row",
        encoding=state.encoding_row,
        after=since.last_node,
    )
    row, kind, key, tokens, length, terms, counts, vectors = rows.transposed(found, 8)
    link_node, link_record = read_pairs(
        transaction,
        "SELECT node_row, record_row FROM scrubjay.node_record JOIN scrubjay.node USING (memory_id, node_row) "
        "WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s AND link_row > %(after)s ORDER BY link_row",
        encoding=state.encoding_row,
        after=since.last_link,
    )
    return NodeRows(
        row=np.array(row, np.int64),
        kind=tuple(NodeKind(name) for name in kind),
        key=tuple(from_sql_text(text) for text in key),
        tokens=np.array(tokens, np.int32),
        length=np.array(length, np.int32),
        distinct=np.array([len(blob) // 2 for blob in counts], np.int32),
        terms=np.frombuffer(b"".join(terms), np.uint64),
        counts=np.frombuffer(b"".join(counts), np.uint16),
        vectors=decode_vectors(vectors, dimension=dimension),
        link_node=link_node,
        link_record=link_record,
    )


def read_pairs(
    transaction: Transaction, query: str, *, encoding: int, after: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read links in two columns."""
    one, other = rows.transposed(transaction.all(query, encoding=encoding, after=after), 2)
    return np.array(one, np.int64), np.array(other, np.int64)
