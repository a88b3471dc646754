"""The embedded store's segments: turns waiting to be segmented, segments waiting to be encoded, and their states."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scrubjay.datatypes import (
    BoundaryReason,
    EncodingProgress,
    LeasedSegment,
    OpenTurns,
    ReferenceContext,
    Segment,
    SegmentState,
    StateCounts,
    Usage,
)
from scrubjay.errors import InputError, SegmentsChangedError
from scrubjay.store import rows
from scrubjay.store.encoding import CURRENT, require_lease, write_encoding, write_usage
from scrubjay.store.meta import read_meta, stored_identity
from scrubjay.store.session_turns import read_open_turns
from scrubjay.store.writing import require_embedder

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from scrubjay.datatypes import (
        CompletedSegment,
        EmbedderIdentity,
        Encoding,
        IndexedText,
        NewNode,
        NewSegment,
    )
    from scrubjay.store.connection import Database

FREE = "lease_owner = NULL, lease_until = NULL"

FIND_SEGMENT = """
    SELECT segment_row FROM segment_state
    JOIN (
        SELECT min(segment_row) AS segment_row FROM segment_state JOIN segment USING (segment_row)
        WHERE encoding_row = :encoding AND state = 'pending' GROUP BY session_row
    ) USING (segment_row)
    WHERE encoding_row = :encoding
"""
"""Each session's first segment to do: those after it wait, for their reference context comes from it."""


class SqliteSegmentStore:
    """The segments of one memory, from turns in none to segments that are encoded."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- segmenting ---

    def sessions_with_open_turns(self) -> tuple[str, ...]:
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT session_id FROM session WHERE session_row IN "
                "(SELECT session_row FROM turn WHERE segment_row IS NULL) ORDER BY session_row"
            ).fetchall()
        return tuple(session_id for (session_id,) in found)

    def open_turns(self, session_id: str) -> OpenTurns:
        with self._database.read() as connection:
            session_row, segmenter = find_segmenter(connection, session_id) or (0, "")
            return read_open_turns(connection, session_id, session_row=session_row, segmenter=segmenter)

    def close_segments(
        self, session_id: str, segments: Sequence[NewSegment], *, seen: str, segmenter: str
    ) -> None:
        with self._database.write() as connection:
            session = find_segmenter(connection, session_id)
            if session is None or session[1] != seen:
                raise SegmentsChangedError(session_id)
            session_row = session[0]
            number = connection.execute(
                "SELECT coalesce(max(number) + 1, 0) FROM segment WHERE session_row = ?", (session_row,)
            ).fetchone()[0]
            for place, segment in enumerate(segments, start=number):
                if write_segment(connection, segment, session_row=session_row, number=place) != len(
                    segment.turn_rows
                ):
                    raise SegmentsChangedError(session_id)
            connection.execute(
                "UPDATE session SET segmenter = ? WHERE session_row = ?", (segmenter, session_row)
            )

    # --- encoding ---

    def lease_segment(
        self, encoding_row: int, *, owner: str, now: datetime, lease_seconds: float
    ) -> LeasedSegment | None:
        moment = rows.to_microseconds(now)
        until = moment + int(lease_seconds * rows.MICROSECONDS)
        with self._database.write() as connection:
            found = connection.execute(
                f"{FIND_SEGMENT} AND coalesce(lease_until, 0) <= :now AND coalesce(retry_at, 0) <= :now "
                "ORDER BY segment_row LIMIT 1",
                {"encoding": encoding_row, "now": moment},
            ).fetchone()
            if found is None:
                return None
            connection.execute(
                "UPDATE segment_state SET lease_owner = ?, lease_until = ?, leases = leases + 1 "
                "WHERE encoding_row = ? AND segment_row = ?",
                (owner, until, encoding_row, found[0]),
            )
            return read_lease(connection, encoding_row, found[0])

    def renew_lease(self, lease: LeasedSegment, *, now: datetime, lease_seconds: float) -> None:
        until = rows.to_microseconds(now) + int(lease_seconds * rows.MICROSECONDS)
        with self._database.write() as connection:
            require_lease(connection, lease)
            connection.execute(
                "UPDATE segment_state SET lease_until = ? WHERE encoding_row = ? AND segment_row = ?",
                (until, lease.encoding_row, lease.segment_row),
            )

    def next_lease_at(self, encoding_row: int) -> datetime | None:
        with self._database.read() as connection:
            moment = connection.execute(
                "SELECT min(max(coalesce(lease_until, 0), coalesce(retry_at, 0))) FROM segment_state "
                f"WHERE encoding_row = :encoding AND segment_row IN ({FIND_SEGMENT})",
                {"encoding": encoding_row},
            ).fetchone()[0]
        return None if moment is None else rows.from_microseconds(moment)

    def reference_context(self, lease: LeasedSegment, *, limit: int = 12) -> ReferenceContext:
        values = {"encoding": lease.encoding_row, "segment": lease.segment_row, "limit": limit}
        with self._database.read() as connection:
            note = connection.execute(
                "SELECT note FROM segment_state JOIN segment USING (segment_row) "
                "WHERE encoding_row = :encoding AND segment_row < :segment AND state = 'encoded' AND session_row = "
                "(SELECT session_row FROM segment WHERE segment_row = :segment) ORDER BY segment_row DESC LIMIT 1",
                values,
            ).fetchone()
            found = connection.execute(
                "SELECT record.text FROM turn CROSS JOIN provenance USING (turn_row) CROSS JOIN record USING (record_row) "
                "WHERE encoding_row = :encoding AND turn.segment_row < :segment AND turn.session_row = "
                "(SELECT session_row FROM segment WHERE segment_row = :segment) GROUP BY record_row "
                "ORDER BY max(turn.segment_row) DESC, record_row DESC LIMIT :limit",
                values,
            ).fetchall()
        return ReferenceContext(
            note="" if note is None else rows.from_sql_text(note[0]),
            records=tuple(rows.from_sql_text(text) for (text,) in reversed(found)),
        )

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
        with self._database.write() as connection:
            require_lease(connection, lease)
            require_embedder(embedder, stored=stored_identity(read_meta(connection, "embedder") or "{}"))
            completed = write_encoding(
                connection,
                lease,
                records=list(zip(encoding.records, record_index, strict=True)),
                nodes=list(zip(nodes, node_index, strict=True)),
            )
            connection.execute(
                f"UPDATE segment_state SET state = 'encoded', note = ?, last_error = '', retry_at = NULL, {FREE}, "
                "updated_at = ? WHERE encoding_row = ? AND segment_row = ?",
                (rows.to_sql_text(encoding.note), rows.stamp(), lease.encoding_row, lease.segment_row),
            )
            write_usage(connection, encoding.usage)
        return completed

    def fail_segment(
        self,
        lease: LeasedSegment,
        error: str,
        *,
        retry_at: datetime | None,
        max_attempts: int | None,
        usage: Usage | None = None,
    ) -> SegmentState:
        with self._database.write() as connection:
            attempts = require_lease(connection, lease) + (max_attempts is not None)
            has_failed = max_attempts is not None and attempts >= max_attempts
            state = SegmentState.FAILED if has_failed else SegmentState.PENDING
            connection.execute(
                f"UPDATE segment_state SET state = ?, attempts = ?, last_error = ?, retry_at = ?, {FREE}, "
                "updated_at = ? WHERE encoding_row = ? AND segment_row = ?",
                (
                    state.value,
                    attempts,
                    rows.to_sql_text(error),
                    None if retry_at is None else rows.to_microseconds(retry_at),
                    rows.stamp(),
                    lease.encoding_row,
                    lease.segment_row,
                ),
            )
            if usage is not None:
                write_usage(connection, usage)
        return state

    def release_segment(self, lease: LeasedSegment) -> None:
        with self._database.write() as connection:
            connection.execute(
                f"UPDATE segment_state SET {FREE} "
                "WHERE encoding_row = ? AND segment_row = ? AND lease_owner = ? AND leases = ?",
                (lease.encoding_row, lease.segment_row, lease.owner, lease.lease),
            )

    def retry_failed(self) -> int:
        with self._database.write() as connection:
            return connection.execute(
                "UPDATE segment_state SET state = 'pending', attempts = 0, retry_at = NULL, updated_at = ? "
                "WHERE state = 'failed'",
                (rows.stamp(),),
            ).rowcount

    # --- what is where ---

    def progress(self, encoding_row: int | None = None) -> EncodingProgress:
        values = {"encoding": encoding_row}
        chosen = f"encoding_row = coalesce(:encoding, {CURRENT})"
        with self._database.read() as connection:
            turns = connection.execute(
                "SELECT coalesce(state, 'open'), count(*) FROM turn LEFT JOIN segment_state "
                f"ON segment_state.segment_row = turn.segment_row AND {chosen} GROUP BY 1",
                values,
            ).fetchall()
            segments = connection.execute(
                f"SELECT state, count(*) FROM segment_state WHERE {chosen} GROUP BY 1", values
            ).fetchall()
            leased, records, nodes = connection.execute(
                f"SELECT (SELECT count(*) FROM segment_state WHERE {chosen} AND lease_owner IS NOT NULL), "
                f"(SELECT count(*) FROM record WHERE {chosen}), (SELECT count(*) FROM node WHERE {chosen})",
                values,
            ).fetchone()
        return EncodingProgress(
            turns=count_states(dict(turns)),
            segments=count_states(dict(segments)),
            leased=leased,
            records=records,
            nodes=nodes,
        )

    def segments(
        self,
        *,
        session_id: str | None = None,
        state: SegmentState | None = None,
        encoding_row: int | None = None,
    ) -> tuple[Segment, ...]:
        values = {
            "encoding": encoding_row,
            "session": session_id,
            "state": None if state is None else state.value,
        }
        chosen = (
            "FROM segment JOIN session USING (session_row) JOIN segment_state USING (segment_row) "
            "JOIN turn ON turn.segment_row = segment.segment_row "
            f"WHERE encoding_row = coalesce(:encoding, {CURRENT}) "
            "AND session_id = coalesce(:session, session_id) AND state = coalesce(:state, state) "
        )
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT segment.segment_row, session_id, number, state, reason, probability, signals, attempts, "
                f"last_error, updated_at, sum(tokens) {chosen} GROUP BY segment.segment_row "
                "ORDER BY segment.session_row, number",
                values,
            ).fetchall()
            turn_ids: dict[int, list[str]] = {}
            for segment_row, turn_id in connection.execute(
                f"SELECT segment.segment_row, turn_id {chosen} ORDER BY turn.session_row, position", values
            ):
                turn_ids.setdefault(segment_row, []).append(turn_id)
        return tuple(read_segment(row, turn_ids[row[0]]) for row in found)

    def usage(self) -> tuple[Usage, ...]:
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT stage, model, calls, input_tokens, output_tokens FROM usage ORDER BY stage, model"
            ).fetchall()
        return tuple(
            Usage(stage=stage, model=model, calls=calls, input_tokens=given, output_tokens=made)
            for stage, model, calls, given, made in found
        )

    def add_usage(self, usage: Usage) -> None:
        with self._database.write() as connection:
            write_usage(connection, usage)


def find_segmenter(connection: sqlite3.Connection, session_id: str) -> tuple[int, str] | None:
    """Give the session's row and its segmenter's state."""
    row: tuple[int, str] | None = connection.execute(
        "SELECT session_row, segmenter FROM session WHERE session_id = ?", (session_id,)
    ).fetchone()
    return row


def write_segment(
    connection: sqlite3.Connection, segment: NewSegment, *, session_row: int, number: int
) -> int:
    """Write a segment, to be done in every encoding; give how many of its turns were there and in no segment."""
    if not segment.turn_rows:
        raise InputError("a segment has at least one turn, found none")
    segment_row = connection.execute(
        "INSERT INTO segment VALUES (NULL, ?, ?, ?, ?, ?, ?)",
        (
            session_row,
            number,
            segment.reason.value,
            segment.probability,
            json.dumps(dict(segment.signals)),
            rows.stamp(),
        ),
    ).lastrowid
    connection.execute(
        "INSERT INTO segment_state (encoding_row, segment_row, updated_at) SELECT encoding_row, ?, ? FROM encoding",
        (segment_row, rows.stamp()),
    )
    return connection.executemany(
        "UPDATE turn SET segment_row = ? WHERE turn_row = ? AND session_row = ? AND segment_row IS NULL",
        [(segment_row, int(turn_row), session_row) for turn_row in segment.turn_rows],
    ).rowcount


def read_lease(connection: sqlite3.Connection, encoding_row: int, segment_row: int) -> LeasedSegment:
    session_id, number, owner, lease, until, attempts = connection.execute(
        "SELECT session_id, number, lease_owner, leases, lease_until, attempts FROM segment_state "
        "JOIN segment USING (segment_row) JOIN session USING (session_row) "
        "WHERE encoding_row = ? AND segment_row = ?",
        (encoding_row, segment_row),
    ).fetchone()
    turns = connection.execute(
        f"SELECT {rows.TURN_COLUMNS} FROM turn JOIN session USING (session_row) "
        "WHERE turn.segment_row = ? ORDER BY turn.position",
        (segment_row,),
    ).fetchall()
    return LeasedSegment(
        encoding_row=encoding_row,
        segment_row=segment_row,
        session_id=session_id,
        number=number,
        owner=owner,
        lease=lease,
        until=rows.from_microseconds(until),
        attempts=attempts,
        turns=tuple(rows.read_turn(turn) for turn in turns),
    )


def count_states(counts: Mapping[str, int]) -> StateCounts:
    return StateCounts(**{state.value: counts.get(state.value, 0) for state in SegmentState})


def read_segment(row: rows.SqlRow, turn_ids: Sequence[str]) -> Segment:
    (
        segment_row,
        session_id,
        number,
        state,
        reason,
        probability,
        signals,
        attempts,
        error,
        updated_at,
        tokens,
    ) = row
    return Segment(
        segment_row=segment_row,
        session_id=session_id,
        number=number,
        state=SegmentState(state),
        reason=BoundaryReason(reason),
        probability=probability,
        signals=json.loads(signals),
        tokens=tokens,
        turn_ids=tuple(turn_ids),
        attempts=attempts,
        last_error=rows.from_sql_text(error),
        updated_at=rows.from_microseconds(updated_at),
    )
