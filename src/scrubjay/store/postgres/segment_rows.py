"""A memory's segments as they are read: a lease, what stands before it, how far an encoding is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.datatypes import (
    EncodingProgress,
    LeasedSegment,
    ReferenceContext,
    Segment,
    SegmentState,
)
from scrubjay.store import rows
from scrubjay.store.postgres.values import digest, from_sql_text, read_turn
from scrubjay.store.postgres.writing import OF_TURN
from scrubjay.store.segments import count_states, read_segment

if TYPE_CHECKING:
    from scrubjay.store.postgres.transaction import Transaction

OF_LEASE = "memory_id = %(memory)s AND encoding_row = %(encoding)s AND segment_row = %(segment)s"


def read_lease(transaction: Transaction, encoding_row: int, segment_row: int) -> LeasedSegment:
    session_id, number, owner, lease, until, attempts = transaction.all(
        "SELECT session_id, number, lease_owner, leases, lease_until, attempts FROM scrubjay.segment_state "
        "JOIN scrubjay.segment USING (memory_id, segment_row) JOIN scrubjay.session USING (memory_id, session_row) "
        f"WHERE {OF_LEASE}",
        encoding=encoding_row,
        segment=segment_row,
    )[0]
    turns = transaction.all(
        f"SELECT {rows.TURN_COLUMNS} FROM scrubjay.turn {OF_TURN} "
        "WHERE memory_id = %(memory)s AND turn.segment_row = %(segment)s ORDER BY turn.position",
        segment=segment_row,
    )
    return LeasedSegment(
        encoding_row=encoding_row,
        segment_row=segment_row,
        session_id=from_sql_text(session_id),
        number=number,
        owner=from_sql_text(owner),
        lease=lease,
        until=rows.from_microseconds(until),
        attempts=attempts,
        turns=tuple(read_turn(turn) for turn in turns),
    )


def read_reference(transaction: Transaction, lease: LeasedSegment, *, limit: int) -> ReferenceContext:
    of_session = "(SELECT session_row FROM scrubjay.segment WHERE memory_id = %(memory)s AND segment_row = %(segment)s)"
    note = transaction.one(
        "SELECT note FROM scrubjay.segment_state JOIN scrubjay.segment USING (memory_id, segment_row) "
        "WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s AND segment_row < %(segment)s "
        f"AND state = 'encoded' AND session_row = {of_session} ORDER BY segment_row DESC LIMIT 1",
        encoding=lease.encoding_row,
        segment=lease.segment_row,
    )
    found = transaction.all(
        "SELECT record.text FROM scrubjay.record JOIN (SELECT record_row, max(turn.segment_row) AS newest "
        "FROM scrubjay.turn JOIN scrubjay.provenance USING (memory_id, turn_row) WHERE memory_id = %(memory)s "
        f"AND turn.segment_row < %(segment)s AND turn.session_row = {of_session} GROUP BY record_row) AS cited "
        "USING (record_row) WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s "
        "ORDER BY newest DESC, record_row DESC LIMIT %(limit)s",
        encoding=lease.encoding_row,
        segment=lease.segment_row,
        limit=limit,
    )
    return ReferenceContext(
        note="" if note is None else from_sql_text(note[0]),
        records=tuple(from_sql_text(text) for (text,) in reversed(found)),
    )


def read_progress(transaction: Transaction, encoding_row: int | None) -> EncodingProgress:
    encoding = transaction.memory.current_encoding if encoding_row is None else encoding_row
    turns = transaction.all(
        "SELECT coalesce(state, 'open'), count(*) FROM scrubjay.turn LEFT JOIN scrubjay.segment_state "
        "ON segment_state.memory_id = %(memory)s AND segment_state.segment_row = turn.segment_row "
        "AND encoding_row = %(encoding)s WHERE turn.memory_id = %(memory)s GROUP BY 1",
        encoding=encoding,
    )
    chosen = "WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s"
    segments = transaction.all(
        f"SELECT state, count(*), count(lease_owner) FROM scrubjay.segment_state {chosen} GROUP BY 1",
        encoding=encoding,
    )
    records, nodes = transaction.all(
        f"SELECT (SELECT count(*) FROM scrubjay.record {chosen}), (SELECT count(*) FROM scrubjay.node {chosen})",
        encoding=encoding,
    )[0]
    return EncodingProgress(
        turns=count_states(dict(turns)),
        segments=count_states({state: count for state, count, _ in segments}),
        leased=sum(leased for _, _, leased in segments),
        records=records,
        nodes=nodes,
    )


def read_segments(
    transaction: Transaction,
    *,
    session_id: str | None,
    state: SegmentState | None,
    encoding_row: int | None,
) -> tuple[Segment, ...]:
    found = transaction.all(
        "SELECT segment_row, session_id, number, state, reason, probability, signals, attempts, last_error, "
        "segment_state.updated_at, sum(tokens)::bigint, array_agg(turn_id ORDER BY position) "
        "FROM scrubjay.segment JOIN scrubjay.session USING (memory_id, session_row) "
        "JOIN scrubjay.segment_state USING (memory_id, segment_row) "
        "JOIN scrubjay.turn USING (memory_id, segment_row) "
        "WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s "
        f"{'' if session_id is None else 'AND session_digest = %(session)s '}"
        f"{'' if state is None else 'AND state = %(state)s '}"
        "GROUP BY segment_row, session_id, number, state, reason, probability, signals, attempts, last_error, "
        "segment_state.updated_at, segment.session_row ORDER BY segment.session_row, number",
        encoding=transaction.memory.current_encoding if encoding_row is None else encoding_row,
        session=None if session_id is None else digest(session_id),
        state=None if state is None else state.value,
    )
    return tuple(read_coded_segment(row) for row in found)


def read_coded_segment(row: rows.SqlRow) -> Segment:
    """Read a segment whose texts hold the escapes of what PostgreSQL refuses."""
    segment_row, session_id, *columns, error, updated_at, tokens, turn_ids = row
    decoded = (segment_row, from_sql_text(session_id), *columns, from_sql_text(error), updated_at, tokens)
    return read_segment(decoded, [from_sql_text(turn_id) for turn_id in turn_ids])
