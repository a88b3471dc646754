"""Writing what encoding a segment gave: records with their provenance, nodes with their links, the cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pgvector import Vector

from scrubjay.datatypes import CompletedSegment, NodeKind
from scrubjay.errors import LeaseLostError
from scrubjay.store.postgres.values import digest, from_sql_text, optional_sql_text, to_sql_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrubjay.datatypes import IndexedText, LeasedSegment, NewNode, Record, Usage
    from scrubjay.store.postgres.transaction import Transaction

INSERT_RECORD = (
    "record (record_row, encoding_row, record_id, type, text, entities, tags, t_ref, t_valid_from, t_valid_to, stance, "
    "speaker, supported, support_reason, tokens, length, terms, counts, vector)"
)
INSERT_NODE = "node (node_row, encoding_row, segment_row, kind, key, key_digest, text, tokens, length, terms, counts, vector)"


def write_encoding(
    transaction: Transaction,
    lease: LeasedSegment,
    *,
    records: Sequence[tuple[Record, IndexedText]],
    nodes: Sequence[tuple[NewNode, IndexedText]],
) -> CompletedSegment:
    """Write records and nodes; a statement made before gets more provenance and links, and is left as it was.

    A record that cites no turn of the segment is left out, and so is a node without records.
    """
    turn_rows: dict[str, int] = {
        from_sql_text(turn_id): turn_row
        for turn_id, turn_row in transaction.all(
            "SELECT turn_id, turn_row FROM scrubjay.turn WHERE memory_id = %(memory)s AND segment_row = %(segment)s",
            segment=lease.segment_row,
        )
    }
    cited = [
        (record, index, [turn_rows[turn_id] for turn_id in record.turn_ids if turn_id in turn_rows])
        for record, index in records
    ]
    kept = [(record, index) for record, index, rows in cited if rows]
    record_rows, new = write_records(transaction, lease.encoding_row, kept)
    write_links(
        transaction,
        "provenance",
        [(record_rows[record.record_id], row) for record, _, rows in cited for row in rows],
    )
    write_nodes(transaction, lease, nodes, record_rows)
    return CompletedSegment(new=new, repeated=len(kept) - new, left_out=len(records) - len(kept))


def write_records(
    transaction: Transaction, encoding_row: int, records: Sequence[tuple[Record, IndexedText]]
) -> tuple[dict[str, int], int]:
    """Write records unless they are there; give each one's row, and how many are new."""
    ids = [record.record_id for record, _ in records]
    record_rows: dict[str, int] = dict(
        transaction.all(
            "SELECT record_id, record_row FROM scrubjay.record WHERE memory_id = %(memory)s "
            "AND encoding_row = %(encoding)s AND record_id = ANY(%(ids)s)",
            encoding=encoding_row,
            ids=ids,
        )
    )
    new: dict[str, tuple[Record, IndexedText]] = {}
    for record, index in records:
        if record.record_id not in record_rows:
            new.setdefault(record.record_id, (record, index))
    numbers = transaction.take_rows("record", len(new))
    transaction.insert(
        INSERT_RECORD,
        [
            (number, encoding_row, *record_values(record), *index_values(index))
            for number, (record, index) in zip(numbers, new.values(), strict=True)
        ],
    )
    return record_rows | dict(zip(new, numbers, strict=True)), len(new)


def record_values(record: Record) -> tuple[object, ...]:
    return (
        record.record_id,
        record.type.value,
        to_sql_text(record.text),
        json.dumps(record.entities),
        json.dumps(record.tags),
        record.time.t_ref,
        record.time.t_valid_from,
        record.time.t_valid_to,
        record.stance.value,
        optional_sql_text(record.speaker),
        record.support.supported,
        to_sql_text(record.support.reason),
    )


def index_values(index: IndexedText) -> tuple[object, ...]:
    return (
        index.tokens,
        index.length,
        index.terms.tobytes(),
        index.counts.tobytes(),
        Vector(index.vector),
    )


def write_nodes(
    transaction: Transaction,
    lease: LeasedSegment,
    nodes: Sequence[tuple[NewNode, IndexedText]],
    record_rows: Mapping[str, int],
) -> None:
    """Write nodes unless they are there, and link them to those of their records that were written."""
    linked = [
        (node, index, digest(node.key), rows)
        for node, index in nodes
        if (rows := [record_rows[record_id] for record_id in node.record_ids if record_id in record_rows])
    ]
    node_rows: dict[tuple[str, bytes], int] = {
        (kind, bytes(key)): row
        for kind, key, row in transaction.all(
            "SELECT kind, key_digest, node_row FROM scrubjay.node WHERE memory_id = %(memory)s "
            "AND encoding_row = %(encoding)s AND key_digest = ANY(%(digests)s)",
            encoding=lease.encoding_row,
            digests=[key for _, _, key, _ in linked],
        )
    }
    new: dict[tuple[str, bytes], tuple[NewNode, IndexedText]] = {}
    for node, index, key, _ in linked:
        if (node.kind.value, key) not in node_rows:
            new.setdefault((node.kind.value, key), (node, index))
    numbers = transaction.take_rows("node", len(new))
    transaction.insert(
        INSERT_NODE,
        [
            (number, *node_values(node, lease), *index_values(index))
            for number, (node, index) in zip(numbers, new.values(), strict=True)
        ],
    )
    node_rows |= dict(zip(new, numbers, strict=True))
    pairs = [(node_rows[node.kind.value, key], row) for node, _, key, rows in linked for row in rows]
    write_links(transaction, "node_record", pairs)


def node_values(node: NewNode, lease: LeasedSegment) -> tuple[object, ...]:
    return (
        lease.encoding_row,
        lease.segment_row if node.kind is NodeKind.EVENT_FRAME else None,
        node.kind.value,
        to_sql_text(node.key),
        digest(node.key),
        to_sql_text(node.text),
    )


LINKS = {
    "provenance": ("provenance_row", "record_row", "turn_row"),
    "node_record": ("link_row", "node_row", "record_row"),
}
"""A table of links → its row number, and the two rows it joins."""


def write_links(transaction: Transaction, table: str, pairs: Sequence[tuple[int, int]]) -> None:
    """Link rows unless they are linked; a row number is used for new links only, in the order given."""
    number, one, other = LINKS[table]
    there = set(
        transaction.all(
            f"SELECT {one}, {other} FROM scrubjay.{table} WHERE memory_id = %(memory)s AND {one} = ANY(%(rows)s)",
            rows=sorted({row for row, _ in pairs}),
        )
    )
    new = list(dict.fromkeys(pair for pair in pairs if pair not in there))
    numbers = transaction.take_rows(table, len(new))
    transaction.insert(
        f"{table} ({number}, {one}, {other})",
        [(row, *pair) for row, pair in zip(numbers, new, strict=True)],
    )


def require_lease(transaction: Transaction, lease: LeasedSegment) -> int:
    """Give the attempts so far; raise LeaseLostError unless the lease is the segment's last and still stands.

    A lease that ran out stands until another is given.
    """
    row = transaction.one(
        "SELECT attempts FROM scrubjay.segment_state WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s "
        "AND segment_row = %(segment)s AND state = 'pending' AND lease_owner = %(owner)s AND leases = %(lease)s",
        encoding=lease.encoding_row,
        segment=lease.segment_row,
        owner=to_sql_text(lease.owner),
        lease=lease.lease,
    )
    if row is None:
        raise LeaseLostError(lease.segment_row)
    return int(row[0])


def write_usage(transaction: Transaction, usage: Usage) -> None:
    if not usage.calls:
        return
    transaction.insert(
        "usage (stage, model, calls, input_tokens, output_tokens)",
        [
            (
                usage.stage,
                to_sql_text(usage.model),
                usage.calls,
                usage.input_tokens,
                usage.output_tokens,
            )
        ],
        otherwise="ON CONFLICT (memory_id, stage, model) DO UPDATE SET calls = usage.calls + excluded.calls, "
        "input_tokens = usage.input_tokens + excluded.input_tokens, "
        "output_tokens = usage.output_tokens + excluded.output_tokens",
    )
