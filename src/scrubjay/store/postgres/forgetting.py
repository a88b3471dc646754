"""Forgetting turns and what was made of them: provenance, records, evidence nodes, notes, leases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pgvector import Vector

from scrubjay.store.postgres.scheduling import schedule_encoding
from scrubjay.store.postgres.writing import OF_TURN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.store.postgres.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """How much a forgetting removed."""

    turns: int = 0
    passages: int = 0
    sessions: int = 0
    records: int = 0
    nodes: int = 0
    notes: int = 0


def forget_turns(transaction: Transaction, where: str, value: object) -> Forgotten:
    """Remove the turns of a condition, and what was made of them alone, as forgetting in a file does.

    A note, an error message and the segmenter's state may hold words or numbers of any earlier turn of the session,
    so those of every session that loses a turn are blanked; and its leases end, for a model may have read the turns
    and its answer is yet to come.
    """
    doomed = transaction.all(
        f"SELECT turn_row, session_row, segment_row FROM scrubjay.turn {OF_TURN} "
        f"WHERE memory_id = %(memory)s AND {where}",
        value=value,
    )
    if not doomed:
        return Forgotten()
    turns = [row[0] for row in doomed]
    sessions = sorted({row[1] for row in doomed})
    segments = sorted({row[2] for row in doomed if row[2] is not None})
    notes = blank_notes(transaction, sessions)
    blank_event_frames(transaction, segments)
    records = remove_records(transaction, turns)
    unlink_event_frames(transaction, segments)
    nodes = transaction.execute(
        "DELETE FROM scrubjay.node WHERE memory_id = %(memory)s AND NOT EXISTS (SELECT 1 FROM scrubjay.node_record "
        "AS link WHERE link.memory_id = %(memory)s AND link.node_row = node.node_row)"
    ).rowcount
    remove_segments(transaction, turns, segments)
    passages = delete_rows(transaction, "passage", "turn_row", turns)
    removed = delete_rows(transaction, "turn", "turn_row", turns)
    emptied = transaction.execute(
        "DELETE FROM scrubjay.session WHERE memory_id = %(memory)s AND session_row = ANY(%(rows)s) AND NOT EXISTS "
        "(SELECT 1 FROM scrubjay.turn WHERE turn.memory_id = %(memory)s AND turn.session_row = session.session_row)",
        rows=sessions,
    ).rowcount
    transaction.memory.generation += 1
    schedule_encoding(transaction)
    return Forgotten(
        turns=removed, passages=passages, sessions=emptied, records=records, nodes=nodes, notes=notes
    )


def delete_rows(transaction: Transaction, table: str, column: str, rows: Sequence[int]) -> int:
    return transaction.execute(
        f"DELETE FROM scrubjay.{table} WHERE memory_id = %(memory)s AND {column} = ANY(%(rows)s)",
        rows=list(rows),
    ).rowcount


def blank_notes(transaction: Transaction, sessions: Sequence[int]) -> int:
    of_sessions = (
        "memory_id = %(memory)s AND segment_row IN (SELECT segment_row FROM scrubjay.segment "
        "WHERE memory_id = %(memory)s AND session_row = ANY(%(rows)s))"
    )
    notes: int = transaction.first(
        f"SELECT count(*) FROM scrubjay.segment_state WHERE {of_sessions} AND (note <> '' OR last_error <> '')",
        rows=sessions,
    )
    transaction.execute(
        "UPDATE scrubjay.segment_state SET note = '', last_error = '', lease_owner = NULL, lease_until = NULL "
        f"WHERE {of_sessions}",
        rows=sessions,
    )
    transaction.execute(
        "UPDATE scrubjay.session SET segmenter = '' WHERE memory_id = %(memory)s AND session_row = ANY(%(rows)s)",
        rows=sessions,
    )
    return notes


def blank_event_frames(transaction: Transaction, segments: Sequence[int]) -> None:
    """Empty the texts of event frames that told of a doomed turn; they go on holding their records together."""
    transaction.execute(
        "DELETE FROM scrubjay.staged_node_vector WHERE memory_id = %(memory)s AND node_row IN "
        "(SELECT node_row FROM scrubjay.node WHERE memory_id = %(memory)s AND segment_row = ANY(%(rows)s))",
        rows=segments,
    )
    transaction.execute(
        "UPDATE scrubjay.node SET text = '', tokens = 0, length = 0, terms = '', counts = '', vector = %(zeros)s "
        "WHERE memory_id = %(memory)s AND segment_row = ANY(%(rows)s)",
        rows=segments,
        zeros=Vector(np.zeros(transaction.memory.identity.dimension, np.float32)),
    )


def remove_records(transaction: Transaction, turns: Sequence[int]) -> int:
    """Remove the provenance of doomed turns, and the records that have no other."""
    shaken = transaction.all(
        "DELETE FROM scrubjay.provenance WHERE memory_id = %(memory)s AND turn_row = ANY(%(rows)s) RETURNING record_row",
        rows=turns,
    )
    return transaction.execute(
        "DELETE FROM scrubjay.record WHERE memory_id = %(memory)s AND record_row = ANY(%(rows)s) AND NOT EXISTS "
        "(SELECT 1 FROM scrubjay.provenance AS left_over WHERE left_over.memory_id = %(memory)s "
        "AND left_over.record_row = record.record_row)",
        rows=sorted({row for (row,) in shaken}),
    ).rowcount


def unlink_event_frames(transaction: Transaction, segments: Sequence[int]) -> None:
    """Cut a record from the event frame of a segment of which it cites no turn any more."""
    transaction.execute(
        "DELETE FROM scrubjay.node_record WHERE memory_id = %(memory)s AND link_row IN ("
        "SELECT link_row FROM scrubjay.node_record AS link JOIN scrubjay.node USING (memory_id, node_row) "
        "WHERE memory_id = %(memory)s AND node.segment_row = ANY(%(rows)s) AND NOT EXISTS ("
        "SELECT 1 FROM scrubjay.provenance JOIN scrubjay.turn USING (memory_id, turn_row) "
        "WHERE memory_id = %(memory)s AND provenance.record_row = link.record_row "
        "AND turn.segment_row = node.segment_row))",
        rows=segments,
    )


def remove_segments(transaction: Transaction, turns: Sequence[int], segments: Sequence[int]) -> None:
    """Take the doomed turns out of their segments, and remove segments left without turns."""
    transaction.execute(
        "UPDATE scrubjay.turn SET segment_row = NULL WHERE memory_id = %(memory)s AND turn_row = ANY(%(rows)s) "
        "AND segment_row IS NOT NULL",
        rows=turns,
    )
    transaction.execute(
        "DELETE FROM scrubjay.segment WHERE memory_id = %(memory)s AND segment_row = ANY(%(rows)s) AND NOT EXISTS "
        "(SELECT 1 FROM scrubjay.turn WHERE turn.memory_id = %(memory)s AND turn.segment_row = segment.segment_row)",
        rows=segments,
    )
