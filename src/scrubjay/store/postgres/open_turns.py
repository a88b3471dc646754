"""The turns of a session as its segmenter reads them, in and out of segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.store import rows
from scrubjay.store.postgres.values import decode_vectors, digest, from_sql_text, read_turn
from scrubjay.store.postgres.writing import OF_TURN
from scrubjay.store.session_turns import StoredIndex, StoredSession, index_turn, part_turns

if TYPE_CHECKING:
    from scrubjay.datatypes import IndexedTurn, OpenTurns
    from scrubjay.store.postgres.transaction import Transaction


def find_segmenter(transaction: Transaction, session_id: str) -> tuple[int, str] | None:
    """Give the session's row and its segmenter's state."""
    row = transaction.one(
        "SELECT session_row, segmenter FROM scrubjay.session "
        "WHERE memory_id = %(memory)s AND session_digest = %(digest)s",
        digest=digest(session_id),
    )
    return None if row is None else (row[0], from_sql_text(row[1]))


def read_open_turns(transaction: Transaction, session_id: str) -> OpenTurns:
    session_row, segmenter = find_segmenter(transaction, session_id) or (0, "")
    found = transaction.all(
        f"SELECT turn.turn_row, turn.segment_row, turn.tokens, {rows.TURN_COLUMNS} FROM scrubjay.turn {OF_TURN} "
        "WHERE memory_id = %(memory)s AND turn.session_row = %(session)s ORDER BY turn.position",
        session=session_row,
    )
    reasons: dict[int, str] = dict(
        transaction.all(
            "SELECT segment_row, reason FROM scrubjay.segment "
            "WHERE memory_id = %(memory)s AND session_row = %(session)s",
            session=session_row,
        )
    )
    indexed = index_turns(transaction, found, session_row=session_row)
    session = StoredSession(session_id=session_id, segmenter=segmenter, reasons=reasons)
    return part_turns(session, found, indexed)


def index_turns(transaction: Transaction, found: list[rows.SqlRow], *, session_row: int) -> list[IndexedTurn]:
    """Read each turn's passages, of the whole session at once."""
    dimension = transaction.memory.identity.dimension if found else 0
    passages: dict[int, list[StoredIndex]] = {}
    for turn_row, terms, counts, vector, tokens in transaction.all(
        "SELECT turn_row, terms, counts, vector, passage.tokens FROM scrubjay.passage "
        "JOIN scrubjay.turn USING (memory_id, turn_row) "
        "WHERE memory_id = %(memory)s AND session_row = %(session)s ORDER BY passage_row",
        session=session_row,
    ):
        index = StoredIndex(
            terms=terms,
            counts=counts,
            vector=decode_vectors([vector], dimension=dimension)[0],
            tokens=tokens,
        )
        passages.setdefault(turn_row, []).append(index)
    return [index_turn(read_turn(row[3:]), row[2], passages.get(row[0], [])) for row in found]
