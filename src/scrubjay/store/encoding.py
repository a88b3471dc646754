"""Writing what encoding a segment gave: records with their provenance, nodes with their links, the cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scrubjay.datatypes import CompletedSegment, NodeKind
from scrubjay.errors import LeaseLostError
from scrubjay.store import rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from scrubjay.datatypes import IndexedText, LeasedSegment, NewNode, Record, Usage

CURRENT = "(SELECT encoding_row FROM encoding WHERE state = 'current')"


def write_encoding(
    connection: sqlite3.Connection,
    lease: LeasedSegment,
    *,
    records: Sequence[tuple[Record, IndexedText]],
    nodes: Sequence[tuple[NewNode, IndexedText]],
) -> CompletedSegment:
    """Write records and nodes; a statement made before gets more provenance and links, and is left as it was.

    A record that cites no turn of the segment is left out, and so is a node without records.
    """
    turn_rows: dict[str, int] = dict(
        connection.execute("SELECT turn_id, turn_row FROM turn WHERE segment_row = ?", (lease.segment_row,))
    )
    record_rows: dict[str, int] = {}
    new = left_out = 0
    for record, index in records:
        cited = [turn_rows[turn_id] for turn_id in record.turn_ids if turn_id in turn_rows]
        if not cited:
            left_out += 1
            continue
        record_row, is_new = write_record(connection, lease.encoding_row, record, index)
        new += is_new
        record_rows[record.record_id] = record_row
        connection.executemany(
            "INSERT INTO provenance (record_row, turn_row) VALUES (?, ?) ON CONFLICT (record_row, turn_row) DO NOTHING",
            [(record_row, turn_row) for turn_row in cited],
        )
    for node, index in nodes:
        write_node(connection, lease, node, index, record_rows=record_rows)
    return CompletedSegment(new=new, repeated=len(records) - new - left_out, left_out=left_out)


def write_record(
    connection: sqlite3.Connection, encoding_row: int, record: Record, index: IndexedText
) -> tuple[int, bool]:
    """Write a record unless it is there; give its row and whether it is new."""
    new = connection.execute(
        "INSERT INTO record VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (encoding_row, record_id) DO NOTHING",
        (
            encoding_row,
            record.record_id,
            record.type.value,
            rows.to_sql_text(record.text),
            json.dumps(record.entities),
            json.dumps(record.tags),
            record.time.t_ref,
            record.time.t_valid_from,
            record.time.t_valid_to,
            record.stance.value,
            rows.optional_sql_text(record.speaker),
            record.support.supported,
            rows.to_sql_text(record.support.reason),
            *index_values(index),
        ),
    ).rowcount
    row = connection.execute(
        "SELECT record_row FROM record WHERE encoding_row = ? AND record_id = ?",
        (encoding_row, record.record_id),
    ).fetchone()
    return int(row[0]), bool(new)


def write_node(
    connection: sqlite3.Connection,
    lease: LeasedSegment,
    node: NewNode,
    index: IndexedText,
    *,
    record_rows: Mapping[str, int],
) -> None:
    """Write a node unless it is there, and link it to those of its records that were written."""
    linked = [record_rows[record_id] for record_id in node.record_ids if record_id in record_rows]
    if not linked:
        return
    key = rows.to_sql_text(node.key)
    segment_row = lease.segment_row if node.kind is NodeKind.EVENT_FRAME else None
    connection.execute(
        "INSERT INTO node VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (encoding_row, kind, key) DO NOTHING",
        (
            lease.encoding_row,
            segment_row,
            node.kind.value,
            key,
            rows.to_sql_text(node.text),
            *index_values(index),
        ),
    )
    row = connection.execute(
        "SELECT node_row FROM node WHERE encoding_row = ? AND kind = ? AND key = ?",
        (lease.encoding_row, node.kind.value, key),
    ).fetchone()
    connection.executemany(
        "INSERT INTO node_record (node_row, record_row) VALUES (?, ?) ON CONFLICT (node_row, record_row) DO NOTHING",
        [(row[0], record_row) for record_row in linked],
    )


def index_values(index: IndexedText) -> tuple[int, int, bytes, bytes, bytes]:
    return index.tokens, index.length, index.terms.tobytes(), index.counts.tobytes(), index.vector.tobytes()


def require_lease(connection: sqlite3.Connection, lease: LeasedSegment) -> int:
    """Give the attempts so far; raise LeaseLostError unless the lease is the segment's last and still stands.

    A lease that ran out stands until another is given.
    """
    row = connection.execute(
        "SELECT attempts FROM segment_state WHERE encoding_row = ? AND segment_row = ? "
        "AND state = 'pending' AND lease_owner = ? AND leases = ?",
        (lease.encoding_row, lease.segment_row, lease.owner, lease.lease),
    ).fetchone()
    if row is None:
        raise LeaseLostError(lease.segment_row)
    return int(row[0])


def write_usage(connection: sqlite3.Connection, usage: Usage) -> None:
    if not usage.calls:
        return
    connection.execute(
        "INSERT INTO usage VALUES (?, ?, ?, ?, ?) ON CONFLICT (stage, model) DO UPDATE SET calls = calls + excluded.calls, "
        "input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens",
        (usage.stage, usage.model, usage.calls, usage.input_tokens, usage.output_tokens),
    )
