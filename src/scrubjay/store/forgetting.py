"""What forgetting turns takes with it: provenance, records, evidence nodes, notes, leases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrubjay.store.rows import to_microseconds

if TYPE_CHECKING:
    import sqlite3
    from datetime import datetime

OF_TORN_SESSIONS = "segment_row IN (SELECT segment_row FROM segment WHERE session_row IN (SELECT session_row FROM torn_session))"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenRecords:
    """How many records, nodes and notes a forgetting removed."""

    records: int
    nodes: int
    notes: int


def forget_filter(
    *, turn_id: str | None, session_id: str | None, before: datetime | None, everything: bool
) -> tuple[str, tuple[str | int, ...]]:
    if turn_id is not None:
        return "turn.turn_id = ?", (turn_id,)
    if session_id is not None:
        return "session.session_id = ?", (session_id,)
    if before is not None:
        return "turn.said_at < ?", (to_microseconds(before),)
    return ("1" if everything else "0"), ()


def forget_records(connection: sqlite3.Connection) -> ForgottenRecords:
    """Remove what was made from the turns of the temporary table `doomed` alone, before the turns themselves go.

    A note, an error message and the segmenter's state may hold words or numbers of any earlier turn of the session,
    so those of every session that loses a turn are blanked; and its leases end, for a model may have read the turns
    and its answer is yet to come.
    """
    connection.execute(
        "CREATE TEMP TABLE torn_session AS SELECT DISTINCT session_row FROM turn "
        "WHERE turn_row IN (SELECT turn_row FROM doomed)"
    )
    connection.execute(
        "CREATE TEMP TABLE torn_segment AS SELECT DISTINCT segment_row FROM turn "
        "WHERE segment_row IS NOT NULL AND turn_row IN (SELECT turn_row FROM doomed)"
    )
    notes = blank_notes(connection)
    blank_event_frames(connection)
    records = remove_records(connection)
    unlink_event_frames(connection)
    nodes = connection.execute(
        "DELETE FROM node WHERE NOT EXISTS (SELECT 1 FROM node_record WHERE node_record.node_row = node.node_row)"
    ).rowcount
    remove_segments(connection)
    connection.execute("DROP TABLE torn_session")
    connection.execute("DROP TABLE torn_segment")
    return ForgottenRecords(records=records, nodes=nodes, notes=notes)


def blank_notes(connection: sqlite3.Connection) -> int:
    notes: int = connection.execute(
        f"SELECT count(*) FROM segment_state WHERE {OF_TORN_SESSIONS} AND (note <> '' OR last_error <> '')"
    ).fetchone()[0]
    connection.execute(
        "UPDATE segment_state SET note = '', last_error = '', lease_owner = NULL, lease_until = NULL "
        f"WHERE {OF_TORN_SESSIONS}"
    )
    connection.execute(
        "UPDATE session SET segmenter = '' WHERE session_row IN (SELECT session_row FROM torn_session)"
    )
    return notes


def blank_event_frames(connection: sqlite3.Connection) -> None:
    """Empty the texts of event frames that told of a doomed turn; they go on holding their records together."""
    connection.execute(
        "DELETE FROM staged_node_vector WHERE node_row IN "
        "(SELECT node_row FROM node WHERE segment_row IN (SELECT segment_row FROM torn_segment))"
    )
    connection.execute(
        "UPDATE node SET text = '', tokens = 0, length = 0, terms = x'', counts = x'', "
        "vector = zeroblob(length(vector)) WHERE segment_row IN (SELECT segment_row FROM torn_segment)"
    )


def remove_records(connection: sqlite3.Connection) -> int:
    """Remove the provenance of doomed turns, and the records that have no other."""
    connection.execute(
        "CREATE TEMP TABLE shaken AS SELECT DISTINCT record_row FROM provenance "
        "WHERE turn_row IN (SELECT turn_row FROM doomed)"
    )
    connection.execute("DELETE FROM provenance WHERE turn_row IN (SELECT turn_row FROM doomed)")
    removed = connection.execute(
        "DELETE FROM record WHERE record_row IN (SELECT record_row FROM shaken) "
        "AND record_row NOT IN (SELECT record_row FROM provenance)"
    ).rowcount
    connection.execute("DROP TABLE shaken")
    return removed


def unlink_event_frames(connection: sqlite3.Connection) -> None:
    """Cut a record from the event frame of a segment of which it cites no turn any more."""
    connection.execute(
        "DELETE FROM node_record WHERE link_row IN ("
        "SELECT link_row FROM node_record JOIN node USING (node_row) "
        "WHERE node.segment_row IN (SELECT segment_row FROM torn_segment) AND NOT EXISTS ("
        "SELECT 1 FROM provenance JOIN turn USING (turn_row) "
        "WHERE provenance.record_row = node_record.record_row AND turn.segment_row = node.segment_row))"
    )


def remove_segments(connection: sqlite3.Connection) -> None:
    """Take the doomed turns out of their segments, and remove segments left without turns."""
    connection.execute("UPDATE turn SET segment_row = NULL WHERE turn_row IN (SELECT turn_row FROM doomed)")
    connection.execute(
        "DELETE FROM segment WHERE segment_row IN (SELECT segment_row FROM torn_segment) "
        "AND segment_row NOT IN (SELECT segment_row FROM turn WHERE segment_row IS NOT NULL)"
    )
