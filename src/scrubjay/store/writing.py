"""Turns written and found one at a time, within a transaction."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

from scrubjay.datatypes import Session
from scrubjay.errors import EmbedderMismatchError, StoreBusyError, TurnConflictError
from scrubjay.store import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.datatypes import EmbedderIdentity, IndexedPassage, NewTurn, PreparedTurn, Turn

SELECT_TURNS = f"SELECT {rows.TURN_COLUMNS} FROM turn JOIN session USING (session_row)"


def write_turn(connection: sqlite3.Connection, item: PreparedTurn, *, added_at: int) -> tuple[str, bool]:
    """Write a turn with its passages unless it is there already; give its id and whether it is new."""
    session = find_session(connection, item.session_id)
    stored = find_turn(connection, session, item.turn)
    if stored is not None:
        require_same(stored, item)
        return stored.turn_id, False
    if not item.passages:
        raise StoreBusyError(
            "a turn was forgotten by another process while it was added again: add it once more"
        )
    session_row, next_position = session or (insert_session(connection, item.session_id), 0)
    position = next_position if item.turn.index is None else item.turn.index
    turn_id = item.turn.turn_id or f"{item.session_id}:{position}"
    try:
        turn_row = insert_turn(connection, item, (turn_id, session_row, position), added_at=added_at)
    except sqlite3.IntegrityError as error:  # the id made of its place was given to another turn
        raise TurnConflictError(turn_id, field="place") from error
    insert_passages(connection, turn_row, item.passages)
    connection.execute(
        "UPDATE session SET next_position = max(next_position, ?) WHERE session_row = ?",
        (position + 1, session_row),
    )
    return turn_id, True


def insert_session(connection: sqlite3.Connection, session_id: str) -> int:
    cursor = connection.execute("INSERT INTO session (session_id) VALUES (?)", (session_id,))
    return int(cursor.lastrowid or 0)


def insert_turn(
    connection: sqlite3.Connection, item: PreparedTurn, place: tuple[str, int, int], *, added_at: int
) -> int:
    """Write a turn under its id, its session's row and its position in it; give its row."""
    turn = item.turn
    cursor = connection.execute(
        "INSERT INTO turn VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",  # in no segment yet
        (
            *place,
            turn.role.value,
            rows.optional_sql_text(turn.speaker),
            rows.to_sql_text(turn.text),
            rows.optional_sql_text(turn.caption),
            None if turn.said_at is None else rows.to_microseconds(turn.said_at),
            None if turn.said_at is None else rows.offset_seconds(turn.said_at),
            added_at,
            json.dumps(dict(turn.metadata)),
            item.tokens,
            item.flags,
        ),
    )
    return int(cursor.lastrowid or 0)


def insert_passages(
    connection: sqlite3.Connection, turn_row: int, passages: Sequence[IndexedPassage]
) -> None:
    connection.executemany(
        "INSERT INTO passage VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                turn_row,
                p.start,
                p.stop,
                p.tokens,
                p.length,
                p.terms.tobytes(),
                p.counts.tobytes(),
                p.vector.tobytes(),
            )
            for p in passages
        ],
    )


def require_embedder(given: EmbedderIdentity, *, stored: EmbedderIdentity) -> None:
    """Raise EmbedderMismatchError where another process has changed the embedder meanwhile."""
    if given != stored:
        raise EmbedderMismatchError(stored=str(stored), given=str(given))


def find_session(connection: sqlite3.Connection, session_id: str) -> tuple[int, int] | None:
    """Give the session's row and its next free position."""
    row: tuple[int, int] | None = connection.execute(
        "SELECT session_row, next_position FROM session WHERE session_id = ?", (session_id,)
    ).fetchone()
    return row


def find_turn(connection: sqlite3.Connection, session: tuple[int, int] | None, turn: NewTurn) -> Turn | None:
    """Give the stored turn that has this one's id, or its place."""
    if turn.turn_id is not None:
        return find_by_id(connection, turn.turn_id) or find_by_place(connection, session, turn.index)
    return find_by_place(connection, session, turn.index)


def find_by_id(connection: sqlite3.Connection, turn_id: str) -> Turn | None:
    row = connection.execute(f"{SELECT_TURNS} WHERE turn.turn_id = ?", (turn_id,)).fetchone()
    return None if row is None else rows.read_turn(row)


def find_by_place(
    connection: sqlite3.Connection, session: tuple[int, int] | None, index: int | None
) -> Turn | None:
    if session is None or index is None or index >= session[1]:
        return None  # no turn lies at or past the next free position
    row = connection.execute(
        f"{SELECT_TURNS} WHERE turn.session_row = ? AND turn.position = ?", (session[0], index)
    ).fetchone()
    return None if row is None else rows.read_turn(row)


def require_same(stored: Turn, item: PreparedTurn) -> None:
    """Raise TurnConflictError unless the stored turn is the given one; the time first given is kept."""
    turn = item.turn
    if turn.turn_id is not None and turn.turn_id != stored.turn_id:
        raise TurnConflictError(stored.turn_id, field="id")
    if stored.session_id != item.session_id:
        raise TurnConflictError(stored.turn_id, field="session")
    if turn.index is not None and turn.index != stored.index:
        raise TurnConflictError(stored.turn_id, field="place")
    for field, before, after in (
        ("text", stored.text, turn.text),
        ("role", stored.role, turn.role),
        ("speaker", stored.speaker, turn.speaker),
        ("caption", stored.caption, turn.caption),
    ):
        if before != after:
            raise TurnConflictError(stored.turn_id, field=field)


def find_sessions(connection: sqlite3.Connection) -> tuple[Session, ...]:
    """Give the sessions in the order they began to be written."""
    speakers: dict[int, list[str]] = {}
    for session_row, speaker in connection.execute(
        "SELECT session_row, speaker FROM turn WHERE speaker IS NOT NULL "
        "GROUP BY session_row, speaker ORDER BY session_row, min(position)"
    ):
        speakers.setdefault(session_row, []).append(rows.from_sql_text(speaker))
    first, last = (
        {  # beside one min or max SQLite gives the other columns of the row that has it
            session_row: rows.from_microseconds(said_at, offset)
            for session_row, said_at, offset in connection.execute(
                f"SELECT session_row, {extreme}(said_at), said_offset FROM turn "
                "WHERE said_at IS NOT NULL GROUP BY session_row"
            )
        }
        for extreme in ("min", "max")
    )
    return tuple(
        Session(
            session_id=session_id,
            turns=turns,
            speakers=tuple(speakers.get(session_row, ())),
            first_said_at=first.get(session_row),
            last_said_at=last.get(session_row),
        )
        for session_id, turns, session_row in connection.execute(
            "SELECT session_id, count(*), session_row FROM turn JOIN session USING (session_row) "
            "GROUP BY session_row ORDER BY session_row"
        )
    )
