"""The current encoding's records and evidence nodes, for the index in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.datatypes import RecordState
from scrubjay.store import record_rows, rows
from scrubjay.store.postgres.values import decode_vectors, from_sql_text
from scrubjay.store.record_rows import INDEX_COLUMNS, NODE_COLUMNS

if TYPE_CHECKING:
    from scrubjay.datatypes import NodeRows, RecordRows
    from scrubjay.store.postgres.transaction import MemoryRow, Transaction

OF_ENCODING = "WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s"


def record_state(memory: MemoryRow) -> RecordState:
    return RecordState(
        generation=memory.generation,
        encoding_row=memory.current_encoding,
        last_record=memory.last["record"],
        last_provenance=memory.last["provenance"],
        last_node=memory.last["node"],
        last_link=memory.last["node_record"],
    )


def read_index(transaction: Transaction, state: RecordState, *, after: RecordState | None) -> RecordRows:
    """Put the current encoding's records into columns, with links that were made since to records before."""
    since, whole = record_rows.start_from(state, after)
    coding = rows.Coding(
        dimension=transaction.memory.identity.dimension, vectors=decode_vectors, text=from_sql_text
    )
    found = transaction.all(
        f"SELECT {INDEX_COLUMNS} FROM scrubjay.record {OF_ENCODING} AND record_row > %(after)s ORDER BY record_row",
        encoding=state.encoding_row,
        after=since.last_record,
    )
    provenance = transaction.all(
        "SELECT record_row, turn_row FROM scrubjay.provenance JOIN scrubjay.record USING (memory_id, record_row) "
        f"{OF_ENCODING} AND provenance_row > %(after)s ORDER BY provenance_row",
        encoding=state.encoding_row,
        after=since.last_provenance,
    )
    nodes = read_node_index(transaction, state, since=since, coding=coding)
    return record_rows.read_record_rows(found, provenance, nodes, state=state, whole=whole, coding=coding)


def read_node_index(
    transaction: Transaction, state: RecordState, *, since: RecordState, coding: rows.Coding
) -> NodeRows:
    found = transaction.all(
        f"SELECT {NODE_COLUMNS} FROM scrubjay.node {OF_ENCODING} AND node_row > %(after)s ORDER BY node_row",
        encoding=state.encoding_row,
        after=since.last_node,
    )
    links = transaction.all(
        "SELECT node_row, record_row FROM scrubjay.node_record JOIN scrubjay.node USING (memory_id, node_row) "
        f"{OF_ENCODING} AND link_row > %(after)s ORDER BY link_row",
        encoding=state.encoding_row,
        after=since.last_link,
    )
    return record_rows.read_node_rows(found, links, coding)
