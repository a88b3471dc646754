"""The turns of a session as its segmenter reads them, in and out of segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.datatypes import BoundaryReason, IndexedTurn, OpenTurns
from scrubjay.store import rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from scrubjay.datatypes import Turn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredIndex:
    """The index entries of one passage as a store keeps them."""

    terms: bytes
    counts: bytes
    vector: NDArray[np.float32]
    tokens: int


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
    session = StoredSession(session_id=session_id, segmenter=segmenter, reasons=reasons)
    return part_turns(session, found, indexed)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session as a store keeps it, without its turns."""

    session_id: str
    segmenter: str
    reasons: Mapping[int, str]  # each segment's row → why it closed


def part_turns(
    session: StoredSession, found: Sequence[rows.SqlRow], indexed: Sequence[IndexedTurn]
) -> OpenTurns:
    """Part a session's turns into those in segments and those in none; rows begin with the turn's and its segment's."""
    segment_of = {
        turn.turn.turn_id: row[1] for row, turn in zip(found, indexed, strict=True) if row[1] is not None
    }
    last_turn = {segment: turn_id for turn_id, segment in segment_of.items()}
    return OpenTurns(
        session_id=session.session_id,
        segmenter=session.segmenter,
        rows=tuple(row[0] for row in found if row[1] is None),
        turns=tuple(turn for turn in indexed if turn.turn.turn_id not in segment_of),
        past=tuple(turn for turn in indexed if turn.turn.turn_id in segment_of),
        closed={turn_id: BoundaryReason(session.reasons[segment]) for segment, turn_id in last_turn.items()},
    )


def read_indexed_turn(
    connection: sqlite3.Connection, turn_row: int, tokens: int, columns: rows.SqlRow
) -> IndexedTurn:
    passages = connection.execute(
        "SELECT terms, counts, vector, tokens FROM passage WHERE turn_row = ? ORDER BY passage_row",
        (turn_row,),
    ).fetchall()
    stored = [
        StoredIndex(terms=terms, counts=counts, vector=np.frombuffer(vector, np.float32), tokens=length)
        for terms, counts, vector, length in passages
    ]
    return index_turn(rows.read_turn(columns), tokens, stored)


def index_turn(turn: Turn, tokens: int, passages: Sequence[StoredIndex]) -> IndexedTurn:
    """Give a turn with its passages' terms put together and the mean of their vectors."""
    all_terms = np.frombuffer(b"".join(passage.terms for passage in passages), np.uint64)
    all_counts = np.frombuffer(b"".join(passage.counts for passage in passages), np.uint16)
    terms, places = np.unique(all_terms, return_inverse=True)
    counts = np.bincount(places, all_counts, len(terms)).astype(np.uint16)
    vectors = np.array([passage.vector for passage in passages])
    weights = np.array([max(passage.tokens, 1) for passage in passages], np.float32)
    return IndexedTurn(
        turn=turn,
        tokens=tokens,
        vector=weights @ vectors / weights.sum(),
        terms=terms,
        counts=counts,
    )
