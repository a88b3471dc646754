"""The turns of a session as its segmenter reads them, in and out of segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrubjay.datatypes import BoundaryReason, IndexedTurn, OpenTurns
from scrubjay.store import rows

if TYPE_CHECKING:
    import sqlite3


def read_open_turns(
    connection: sqlite3.Connection, session_id: str, *, session_row: int, segmenter: str
) -> OpenTurns:
    found = connection.execute(
        f"SELECT turn.turn_row, turn.segment_row, turn.tokens, {rows.TURN_COLUMNS} "
        "FROM turn JOIN session USING (session_row) WHERE turn.session_row = ? ORDER BY turn.position",
        (session_row,),
    ).fetchall()
    reasons = dict(
        connection.execute(
            "SELECT segment_row, reason FROM segment WHERE session_row = ?", (session_row,)
        ).fetchall()
    )
    indexed = [read_indexed_turn(connection, row[0], row[2], row[3:]) for row in found]
    segment_of = {
        turn.turn.turn_id: row[1] for row, turn in zip(found, indexed, strict=True) if row[1] is not None
    }
    last_turn = {segment: turn_id for turn_id, segment in segment_of.items()}
    return OpenTurns(
        session_id=session_id,
        segmenter=segmenter,
        rows=tuple(row[0] for row in found if row[1] is None),
        turns=tuple(turn for turn in indexed if turn.turn.turn_id not in segment_of),
        past=tuple(turn for turn in indexed if turn.turn.turn_id in segment_of),
        closed={turn_id: BoundaryReason(reasons[segment]) for segment, turn_id in last_turn.items()},
    )


def read_indexed_turn(
    connection: sqlite3.Connection, turn_row: int, tokens: int, columns: rows.SqlRow
) -> IndexedTurn:
    """Read a turn with its passages' terms put together and the mean of their vectors."""
    passages = connection.execute(
        "SELECT terms, counts, vector, tokens FROM passage WHERE turn_row = ? ORDER BY passage_row",
        (turn_row,),
    ).fetchall()
    all_terms = np.frombuffer(b"".join(row[0] for row in passages), np.uint64)
    all_counts = np.frombuffer(b"".join(row[1] for row in passages), np.uint16)
    terms, places = np.unique(all_terms, return_inverse=True)
    counts = np.bincount(places, all_counts, len(terms)).astype(np.uint16)
    vectors = np.array([np.frombuffer(row[2], np.float32) for row in passages])
    weights = np.array([max(row[3], 1) for row in passages], np.float32)
    return IndexedTurn(
        turn=rows.read_turn(columns),
        tokens=tokens,
        vector=weights @ vectors / weights.sum(),
        terms=terms,
        counts=counts,
    )
