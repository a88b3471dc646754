"""A batch of turns written in a handful of statements, however many turns it has."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgvector import Vector

from scrubjay.datatypes import AddReport, Turn
from scrubjay.errors import StoreBusyError, TurnConflictError
from scrubjay.store import rows
from scrubjay.store.postgres.values import (
    digest,
    optional_sql_text,
    read_turn,
    to_sql_text,
)
from scrubjay.store.writing import require_embedder, require_same

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrubjay.datatypes import IndexedPassage, NewTurn, PreparedTurn
    from scrubjay.store.postgres.transaction import Transaction

OF_TURN = "JOIN scrubjay.session USING (memory_id, session_row)"
SELECT_TURNS = f"SELECT {rows.TURN_COLUMNS} FROM scrubjay.turn {OF_TURN} WHERE memory_id = %(memory)s"

INSERT_SESSION = "session (session_row, session_id, session_digest, next_position)"
INSERT_TURN = (
    "turn (turn_row, turn_id, turn_digest, session_row, position, role, speaker, text, caption, said_at, said_offset, "
    "added_at, metadata, tokens, flags)"
)
INSERT_PASSAGE = "passage (passage_row, turn_row, start, stop, tokens, length, terms, counts, vector)"


@dataclass(slots=True, kw_only=True)
class SessionPlace:
    """A session as a batch finds it and leaves it."""

    row: int
    next_position: int
    is_new: bool
    is_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A turn of the batch that is to be written, with the id and place it gets."""

    item: PreparedTurn
    turn_id: str
    session_row: int
    position: int


def known_turns(transaction: Transaction, turns: Sequence[tuple[str, NewTurn]]) -> list[bool]:
    sessions = find_sessions(transaction, {session_id for session_id, _ in turns})
    stored = Stored(transaction, turns, sessions)
    return [stored.find(session_id, turn) is not None for session_id, turn in turns]


def find_sessions(transaction: Transaction, session_ids: Iterable[str]) -> dict[str, SessionPlace]:
    by_digest = {digest(session_id): session_id for session_id in session_ids}
    found = transaction.all(
        "SELECT session_digest, session_row, next_position FROM scrubjay.session "
        "WHERE memory_id = %(memory)s AND session_digest = ANY(%(digests)s)",
        digests=list(by_digest),
    )
    return {
        by_digest[bytes(key)]: SessionPlace(row=row, next_position=position, is_new=False)
        for key, row, position in found
    }


class Stored:
    """The turns that a batch may meet: by id, and by session and place; those of the batch itself join them."""

    def __init__(
        self,
        transaction: Transaction,
        turns: Sequence[tuple[str, NewTurn]],
        sessions: dict[str, SessionPlace],
    ) -> None:
        self._by_id: dict[str, Turn | Placed] = {}
        self._by_place: dict[tuple[str, int], Turn | Placed] = {}
        self.load(transaction, [turn.turn_id for _, turn in turns if turn.turn_id is not None])
        self._load_places(
            transaction,
            [
                (sessions[session_id].row, turn.index)
                for session_id, turn in turns
                if turn.index is not None
                and session_id in sessions
                and turn.index < sessions[session_id].next_position
            ],
        )

    def load(self, transaction: Transaction, turn_ids: Sequence[str]) -> None:
        if turn_ids:
            self._keep(
                transaction.all(
                    f"{SELECT_TURNS} AND turn_digest = ANY(%(digests)s)",
                    digests=[digest(turn_id) for turn_id in turn_ids],
                )
            )

    def _load_places(self, transaction: Transaction, places: Sequence[tuple[int, int]]) -> None:
        if places:
            self._keep(
                transaction.all(
                    f"{SELECT_TURNS} AND (turn.session_row, turn.position) IN "
                    "(SELECT * FROM unnest(%(rows)s::bigint[], %(places)s::bigint[]))",
                    rows=[row for row, _ in places],
                    places=[place for _, place in places],
                )
            )

    def _keep(self, found: Sequence[rows.SqlRow]) -> None:
        for row in found:
            turn = read_turn(row)
            self._by_id[turn.turn_id] = turn
            self._by_place[turn.session_id, turn.index] = turn

    def add(self, placed: Placed) -> None:
        self._by_id[placed.turn_id] = placed
        self._by_place[placed.item.session_id, placed.position] = placed

    def find(self, session_id: str, turn: NewTurn) -> Turn | Placed | None:
        """Give the turn that has this one's id, or its place."""
        if turn.turn_id is not None and turn.turn_id in self._by_id:
            return self._by_id[turn.turn_id]
        return None if turn.index is None else self._by_place.get((session_id, turn.index))

    def has_id(self, turn_id: str) -> bool:
        return turn_id in self._by_id


def append_turns(transaction: Transaction, prepared: Sequence[PreparedTurn], *, added_at: int) -> AddReport:
    """Write the turns that aren't there yet, with their passages, in the order given."""
    for item in prepared:
        require_embedder(item.embedder, stored=transaction.memory.identity)
    sessions = find_sessions(transaction, {item.session_id for item in prepared})
    stored = Stored(transaction, [(item.session_id, item.turn) for item in prepared], sessions)
    stored.load(transaction, ids_to_be_given(prepared, sessions, stored))
    turn_ids, placed = place_turns(transaction, prepared, sessions, stored, added_at=added_at)
    write_sessions(transaction, sessions)
    write_turns(transaction, placed, added_at=added_at)
    return AddReport(turn_ids=turn_ids, added=len(placed), unchanged=len(turn_ids) - len(placed))


def ids_to_be_given(
    prepared: Sequence[PreparedTurn], sessions: dict[str, SessionPlace], stored: Stored
) -> list[str]:
    """Give the ids that turns without one may get by their place: another turn may have been given such an id."""
    following = {session_id: place.next_position for session_id, place in sessions.items()}
    given = []
    for item in prepared:
        session_id, turn = item.session_id, item.turn
        if stored.find(session_id, turn) is not None:
            continue
        position = following.get(session_id, 0) if turn.index is None else turn.index
        following[session_id] = max(following.get(session_id, 0), position + 1)
        if turn.turn_id is None:
            given.append(f"{session_id}:{position}")
    return given


def place_turns(
    transaction: Transaction,
    prepared: Sequence[PreparedTurn],
    sessions: dict[str, SessionPlace],
    stored: Stored,
    *,
    added_at: int,
) -> tuple[tuple[str, ...], list[Placed]]:
    """Give each turn's id, and those to be written; raise TurnConflictError where an id or place is taken."""
    turn_ids: list[str] = []
    written: list[Placed] = []
    for item in prepared:
        found = stored.find(item.session_id, item.turn)
        if found is not None:
            same = as_turn(found, added_at=added_at)
            require_same(same, item)
            turn_ids.append(same.turn_id)
            continue
        placed = place_turn(transaction, item, sessions)
        if stored.has_id(placed.turn_id):  # the id made of its place was given to another turn
            raise TurnConflictError(placed.turn_id, field="place")
        stored.add(placed)
        written.append(placed)
        turn_ids.append(placed.turn_id)
    return tuple(turn_ids), written


def place_turn(transaction: Transaction, item: PreparedTurn, sessions: dict[str, SessionPlace]) -> Placed:
    if not item.passages:
        raise StoreBusyError(
            "a turn was forgotten by another process while it was added again: add it once more"
        )
    if item.session_id not in sessions:
        (row,) = transaction.take_rows("session", 1)
        sessions[item.session_id] = SessionPlace(row=row, next_position=0, is_new=True)
    session = sessions[item.session_id]
    position = session.next_position if item.turn.index is None else item.turn.index
    session.next_position = max(session.next_position, position + 1)
    session.is_changed = True
    return Placed(
        item=item,
        turn_id=item.turn.turn_id or f"{item.session_id}:{position}",
        session_row=session.row,
        position=position,
    )


def as_turn(found: Turn | Placed, *, added_at: int) -> Turn:
    """Give a stored turn, or one that this batch is about to store."""
    if not isinstance(found, Placed):
        return found
    turn = found.item.turn
    return Turn(
        turn_id=found.turn_id,
        session_id=found.item.session_id,
        index=found.position,
        role=turn.role,
        speaker=turn.speaker,
        text=turn.text,
        caption=turn.caption,
        said_at=turn.said_at,
        added_at=rows.from_microseconds(added_at),
        metadata=turn.metadata,
    )


def write_sessions(transaction: Transaction, sessions: dict[str, SessionPlace]) -> None:
    transaction.insert(
        INSERT_SESSION,
        [
            (place.row, to_sql_text(session_id), digest(session_id), place.next_position)
            for session_id, place in sessions.items()
            if place.is_new
        ],
    )
    changed = [place for place in sessions.values() if place.is_changed and not place.is_new]
    if changed:
        transaction.execute(
            "UPDATE scrubjay.session SET next_position = changed.next_position FROM "
            "unnest(%(rows)s::bigint[], %(places)s::bigint[]) AS changed (session_row, next_position) "
            "WHERE memory_id = %(memory)s AND session.session_row = changed.session_row",
            rows=[place.row for place in changed],
            places=[place.next_position for place in changed],
        )


def write_turns(transaction: Transaction, placed: Sequence[Placed], *, added_at: int) -> None:
    turn_rows = transaction.take_rows("turn", len(placed))
    transaction.insert(
        INSERT_TURN,
        [turn_values(turn, row, added_at=added_at) for turn, row in zip(placed, turn_rows, strict=True)],
    )
    passages = [
        (turn_row, passage)
        for turn, turn_row in zip(placed, turn_rows, strict=True)
        for passage in turn.item.passages
    ]
    numbers = transaction.take_rows("passage", len(passages))
    transaction.insert(
        INSERT_PASSAGE,
        [
            (number, turn_row, *passage_values(passage))
            for number, (turn_row, passage) in zip(numbers, passages, strict=True)
        ],
    )


def turn_values(placed: Placed, turn_row: int, *, added_at: int) -> tuple[object, ...]:
    turn = placed.item.turn
    return (
        turn_row,
        to_sql_text(placed.turn_id),
        digest(placed.turn_id),
        placed.session_row,
        placed.position,
        turn.role.value,
        optional_sql_text(turn.speaker),
        to_sql_text(turn.text),
        optional_sql_text(turn.caption),
        None if turn.said_at is None else rows.to_microseconds(turn.said_at),
        None if turn.said_at is None else rows.offset_seconds(turn.said_at),
        added_at,
        json.dumps(dict(turn.metadata)),
        placed.item.tokens,
        placed.item.flags,
    )


def passage_values(passage: IndexedPassage) -> tuple[object, ...]:
    return (
        passage.start,
        passage.stop,
        passage.tokens,
        passage.length,
        passage.terms.tobytes(),
        passage.counts.tobytes(),
        Vector(passage.vector),
    )
