"""The segments of one memory in PostgreSQL: turns waiting to be segmented, segments to be encoded, their states."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scrubjay.datatypes import (
    EncodingProgress,
    LeasedSegment,
    OpenTurns,
    ReferenceContext,
    Segment,
    SegmentState,
    Usage,
)
from scrubjay.errors import InputError, SegmentsChangedError
from scrubjay.store import rows
from scrubjay.store.postgres.encoding import require_lease, write_encoding, write_usage
from scrubjay.store.postgres.open_turns import find_segmenter, read_open_turns
from scrubjay.store.postgres.scheduling import FIRST_SEGMENTS, NEXT_LEASE, schedule_encoding
from scrubjay.store.postgres.segment_rows import (
    OF_LEASE,
    read_lease,
    read_progress,
    read_reference,
    read_segments,
)
from scrubjay.store.postgres.values import from_sql_text, to_sql_text
from scrubjay.store.writing import require_embedder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from scrubjay.datatypes import (
        CompletedSegment,
        EmbedderIdentity,
        Encoding,
        IndexedText,
        NewNode,
        NewSegment,
    )
    from scrubjay.store.postgres.place import MemoryPlace
    from scrubjay.store.postgres.transaction import Transaction

FREE = "lease_owner = NULL, lease_until = NULL"

FREE_SEGMENT = f"""
    SELECT segment_row FROM scrubjay.segment_state
    WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s AND segment_row IN ({FIRST_SEGMENTS})
    AND coalesce(lease_until, 0) <= %(now)s AND coalesce(retry_at, 0) <= %(now)s ORDER BY segment_row LIMIT 1
"""


class PostgresSegmentStore:
    """The segments of one memory, from turns in none to segments that are encoded."""

    def __init__(self, place: MemoryPlace) -> None:
        self._place = place

    # --- segmenting ---

    def sessions_with_open_turns(self) -> tuple[str, ...]:
        found = self._place.read(
            lambda transaction: transaction.all(
                "SELECT session_id FROM scrubjay.session WHERE memory_id = %(memory)s AND session_row IN "
                "(SELECT session_row FROM scrubjay.turn WHERE memory_id = %(memory)s AND segment_row IS NULL) "
                "ORDER BY session_row"
            )
        )
        return tuple(from_sql_text(session_id) for (session_id,) in found)

    def open_turns(self, session_id: str) -> OpenTurns:
        return self._place.read(lambda transaction: read_open_turns(transaction, session_id))

    def close_segments(
        self, session_id: str, segments: Sequence[NewSegment], *, seen: str, segmenter: str
    ) -> None:
        if not all(segment.turn_rows for segment in segments):
            raise InputError("a segment has at least one turn, found none")
        self._place.write(
            lambda transaction: write_segments(
                transaction, session_id, segments, seen=seen, segmenter=segmenter
            )
        )

    # --- encoding ---

    def lease_segment(
        self, encoding_row: int, *, owner: str, now: datetime, lease_seconds: float
    ) -> LeasedSegment | None:
        moment = rows.to_microseconds(now)
        until = moment + int(lease_seconds * rows.MICROSECONDS)

        def lease(transaction: Transaction) -> LeasedSegment | None:
            found = transaction.one(FREE_SEGMENT, encoding=encoding_row, now=moment)
            if found is None:
                schedule_encoding(transaction)
                return None
            transaction.execute(
                "UPDATE scrubjay.segment_state SET lease_owner = %(owner)s, lease_until = %(until)s, "
                f"leases = leases + 1 WHERE {OF_LEASE}",
                owner=to_sql_text(owner),
                until=until,
                encoding=encoding_row,
                segment=found[0],
            )
            schedule_encoding(transaction)
            return read_lease(transaction, encoding_row, found[0])

        return self._place.write(lease)

    def renew_lease(self, lease: LeasedSegment, *, now: datetime, lease_seconds: float) -> None:
        until = rows.to_microseconds(now) + int(lease_seconds * rows.MICROSECONDS)

        def renew(transaction: Transaction) -> None:
            require_lease(transaction, lease)
            transaction.execute(
                f"UPDATE scrubjay.segment_state SET lease_until = %(until)s WHERE {OF_LEASE}",
                until=until,
                encoding=lease.encoding_row,
                segment=lease.segment_row,
            )

        self._place.write(renew)

    def next_lease_at(self, encoding_row: int) -> datetime | None:
        moment = self._place.read(lambda transaction: transaction.first(NEXT_LEASE, encoding=encoding_row))
        return None if moment is None else rows.from_microseconds(moment)

    def reference_context(self, lease: LeasedSegment, *, limit: int = 12) -> ReferenceContext:
        return self._place.read(lambda transaction: read_reference(transaction, lease, limit=limit))

    def complete_segment(
        self,
        lease: LeasedSegment,
        encoding: Encoding,
        nodes: Sequence[NewNode],
        *,
        record_index: Sequence[IndexedText],
        node_index: Sequence[IndexedText],
        embedder: EmbedderIdentity,
    ) -> CompletedSegment:
        indexed_records = list(zip(encoding.records, record_index, strict=True))
        indexed_nodes = list(zip(nodes, node_index, strict=True))

        def complete(transaction: Transaction) -> CompletedSegment:
            require_lease(transaction, lease)
            require_embedder(embedder, stored=transaction.memory.identity)
            completed = write_encoding(transaction, lease, records=indexed_records, nodes=indexed_nodes)
            transaction.execute(
                "UPDATE scrubjay.segment_state SET state = 'encoded', note = %(note)s, last_error = '', "
                f"retry_at = NULL, {FREE}, updated_at = %(now)s WHERE {OF_LEASE}",
                note=to_sql_text(encoding.note),
                now=rows.stamp(),
                encoding=lease.encoding_row,
                segment=lease.segment_row,
            )
            write_usage(transaction, encoding.usage)
            schedule_encoding(transaction)
            return completed

        return self._place.write(complete)

    def fail_segment(
        self,
        lease: LeasedSegment,
        error: str,
        *,
        retry_at: datetime | None,
        max_attempts: int | None,
        usage: Usage | None = None,
    ) -> SegmentState:
        def fail(transaction: Transaction) -> SegmentState:
            attempts = require_lease(transaction, lease) + (max_attempts is not None)
            has_failed = max_attempts is not None and attempts >= max_attempts
            state = SegmentState.FAILED if has_failed else SegmentState.PENDING
            transaction.execute(
                "UPDATE scrubjay.segment_state SET state = %(state)s, attempts = %(attempts)s, last_error = %(error)s, "
                f"retry_at = %(retry_at)s, {FREE}, updated_at = %(now)s WHERE {OF_LEASE}",
                state=state.value,
                attempts=attempts,
                error=to_sql_text(error),
                retry_at=None if retry_at is None else rows.to_microseconds(retry_at),
                now=rows.stamp(),
                encoding=lease.encoding_row,
                segment=lease.segment_row,
            )
            if usage is not None:
                write_usage(transaction, usage)
            schedule_encoding(transaction)
            return state

        return self._place.write(fail)

    def release_segment(self, lease: LeasedSegment) -> None:
        def release(transaction: Transaction) -> None:
            transaction.execute(
                f"UPDATE scrubjay.segment_state SET {FREE} WHERE {OF_LEASE} "
                "AND lease_owner = %(owner)s AND leases = %(lease)s",
                encoding=lease.encoding_row,
                segment=lease.segment_row,
                owner=to_sql_text(lease.owner),
                lease=lease.lease,
            )
            schedule_encoding(transaction)

        self._place.write(release)

    def retry_failed(self) -> int:
        def retry(transaction: Transaction) -> int:
            retried = transaction.execute(
                "UPDATE scrubjay.segment_state SET state = 'pending', attempts = 0, retry_at = NULL, "
                "updated_at = %(now)s WHERE memory_id = %(memory)s AND state = 'failed'",
                now=rows.stamp(),
            ).rowcount
            schedule_encoding(transaction)
            return retried

        return self._place.write(retry)

    # --- what is where ---

    def progress(self, encoding_row: int | None = None) -> EncodingProgress:
        return self._place.read(lambda transaction: read_progress(transaction, encoding_row))

    def segments(
        self,
        *,
        session_id: str | None = None,
        state: SegmentState | None = None,
        encoding_row: int | None = None,
    ) -> tuple[Segment, ...]:
        return self._place.read(
            lambda transaction: read_segments(
                transaction, session_id=session_id, state=state, encoding_row=encoding_row
            )
        )

    def usage(self) -> tuple[Usage, ...]:
        found = self._place.read(
            lambda transaction: transaction.all(
                "SELECT stage, model, calls, input_tokens, output_tokens FROM scrubjay.usage "
                "WHERE memory_id = %(memory)s ORDER BY stage, model"
            )
        )
        return tuple(
            Usage(
                stage=stage, model=from_sql_text(model), calls=calls, input_tokens=given, output_tokens=made
            )
            for stage, model, calls, given, made in found
        )

    def add_usage(self, usage: Usage) -> None:
        self._place.write(lambda transaction: write_usage(transaction, usage))


def write_segments(
    transaction: Transaction, session_id: str, segments: Sequence[NewSegment], *, seen: str, segmenter: str
) -> None:
    """Put turns into segments, to be done in every encoding; raise where another did so, or forgot them, first."""
    session = find_segmenter(transaction, session_id)
    if session is None or session[1] != seen:
        raise SegmentsChangedError(session_id)
    session_row = session[0]
    number = transaction.first(
        "SELECT coalesce(max(number) + 1, 0) FROM scrubjay.segment "
        "WHERE memory_id = %(memory)s AND session_row = %(session)s",
        session=session_row,
    )
    for place, segment in enumerate(segments, start=number):
        if write_segment(transaction, segment, session_row=session_row, number=place) != len(
            segment.turn_rows
        ):
            raise SegmentsChangedError(session_id)
    transaction.execute(
        "UPDATE scrubjay.session SET segmenter = %(segmenter)s "
        "WHERE memory_id = %(memory)s AND session_row = %(session)s",
        segmenter=to_sql_text(segmenter),
        session=session_row,
    )
    schedule_encoding(transaction)


def write_segment(transaction: Transaction, segment: NewSegment, *, session_row: int, number: int) -> int:
    """Write a segment, to be done in every encoding; give how many of its turns were there and in no segment."""
    (segment_row,) = transaction.take_rows("segment", 1)
    signals, now = json.dumps(dict(segment.signals)), rows.stamp()
    transaction.insert(
        "segment (segment_row, session_row, number, reason, probability, signals, created_at)",
        [(segment_row, session_row, number, segment.reason.value, segment.probability, signals, now)],
    )
    transaction.execute(
        "INSERT INTO scrubjay.segment_state (memory_id, encoding_row, segment_row, updated_at) "
        "SELECT memory_id, encoding_row, %(segment)s, %(now)s FROM scrubjay.encoding WHERE memory_id = %(memory)s",
        segment=segment_row,
        now=now,
    )
    return transaction.execute(
        "UPDATE scrubjay.turn SET segment_row = %(segment)s WHERE memory_id = %(memory)s "
        "AND turn_row = ANY(%(rows)s) AND session_row = %(session)s AND segment_row IS NULL",
        segment=segment_row,
        rows=[int(row) for row in segment.turn_rows],
        session=session_row,
    ).rowcount
