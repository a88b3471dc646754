"""The turns of one memory in PostgreSQL, with their full-text entries and vectors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pgvector import Vector

from scrubjay.datatypes import ForgetReport, Session, StoredPassage, StoreTotals
from scrubjay.errors import EmbedderMismatchError
from scrubjay.store import rows
from scrubjay.store.meta import identity_text
from scrubjay.store.postgres import checks, staging
from scrubjay.store.postgres.forgetting import forget_turns
from scrubjay.store.postgres.place import KEPT_BYTES
from scrubjay.store.postgres.scheduling import schedule_cut
from scrubjay.store.postgres.values import (
    decode_vectors,
    digest,
    from_sql_text,
    read_turn,
    to_sql_text,
)
from scrubjay.store.postgres.writing import OF_TURN, SELECT_TURNS, append_turns, known_turns
from scrubjay.store.sqlite import ONLY_TRIED
from scrubjay.store.writing import require_embedder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from scrubjay.datatypes import (
        AddReport,
        EmbedderIdentity,
        Fault,
        IndexRows,
        NewTurn,
        PreparedTurn,
        StoreState,
        Turn,
    )
    from scrubjay.store.postgres.place import MemoryPlace
    from scrubjay.store.postgres.transaction import Transaction

PAGE = 500  # turns read at a time

Place = tuple[int, int]  # session row, position


class PostgresStore:
    """One memory's turns, full-text entries and vectors in PostgreSQL."""

    def __init__(self, place: MemoryPlace) -> None:
        self._place = place
        self._named: EmbedderIdentity | None = None  # the embedder this process knows of

    @property
    def memory_id(self) -> str:
        return str(self._place.peek().public_id)

    @property
    def embedder(self) -> EmbedderIdentity | None:
        """The embedder of the stored vectors, None before the first was named."""
        memory = self._place.peek()
        return None if memory.embedder is None else memory.identity

    def name_embedder(self, embedder: EmbedderIdentity) -> None:
        """Give a new memory its embedder; raise EmbedderMismatchError where it has another."""

        def name(transaction: Transaction) -> None:
            transaction.memory.embedder = transaction.memory.embedder or identity_text(embedder)

        stored = self.embedder
        if stored is None:
            self._place.write(name)
            stored = self.embedder
        if stored != embedder:
            raise EmbedderMismatchError(stored=str(stored), given=str(embedder))
        self._named = embedder

    def known(self, turns: Sequence[tuple[str, NewTurn]]) -> list[bool]:
        if all(turn.turn_id is None and turn.index is None for _, turn in turns):
            return [False] * len(turns)
        return self._place.read(lambda transaction: known_turns(transaction, turns))

    def append(self, prepared: Sequence[PreparedTurn]) -> AddReport:
        added_at = time.time_ns() // 1000

        def append(transaction: Transaction) -> AddReport:
            report = append_turns(transaction, prepared, added_at=added_at)
            if report.added:
                schedule_cut(transaction, seconds=self._place.settle_seconds)
            return report

        return self._place.write(append)

    def turns(
        self,
        *,
        session_id: str | None = None,
        after: str | None = None,
        rows: Sequence[int] | None = None,
    ) -> Iterator[Turn]:
        if rows is not None:
            yield from self._turns_of_rows(rows)
            return
        last = self._turn_place(after)
        while last is not None:  # page by page, so that no transaction stays open between two turns
            page = self._page(session_id, last)
            yield from (turn for _, turn in page)
            last = page[-1][0] if page else None

    def _turn_place(self, turn_id: str | None) -> Place | None:
        """Give where a turn stands in the log, without one the place before all."""
        if turn_id is None:
            return -1, -1
        found = self._place.read(
            lambda transaction: transaction.one(
                "SELECT session_row, position FROM scrubjay.turn "
                "WHERE memory_id = %(memory)s AND turn_digest = %(digest)s",
                digest=digest(turn_id),
            )
        )
        return None if found is None else (found[0], found[1])

    def _page(self, session_id: str | None, last: Place) -> list[tuple[Place, Turn]]:
        of_session = "" if session_id is None else "AND session.session_digest = %(session)s "
        found = self._place.read(
            lambda transaction: transaction.all(
                f"SELECT turn.session_row, {rows.TURN_COLUMNS} FROM scrubjay.turn {OF_TURN} "
                f"WHERE memory_id = %(memory)s {of_session}"
                "AND (turn.session_row, turn.position) > (%(row)s, %(position)s) "
                f"ORDER BY turn.session_row, turn.position LIMIT {PAGE}",
                session=None if session_id is None else digest(session_id),
                row=last[0],
                position=last[1],
            )
        )
        return [((row[0], row[3]), read_turn(row[1:])) for row in found]

    def _turns_of_rows(self, wanted: Sequence[int]) -> Iterator[Turn]:
        asked = [int(row) for row in wanted]
        if not asked:
            return
        found = self._place.read(
            lambda transaction: transaction.all(
                f"SELECT turn.turn_row, {rows.TURN_COLUMNS} FROM scrubjay.turn {OF_TURN} "
                "WHERE memory_id = %(memory)s AND turn_row = ANY(%(rows)s)",
                rows=asked,
            )
        )
        turns = {row[0]: read_turn(row[1:]) for row in found}
        yield from (turns[row] for row in asked if row in turns)

    def turn(self, turn_id: str) -> Turn | None:
        found = self._place.read(
            lambda transaction: transaction.one(
                f"{SELECT_TURNS} AND turn_digest = %(digest)s", digest=digest(turn_id)
            )
        )
        return None if found is None else read_turn(found)

    def sessions(self) -> tuple[Session, ...]:
        return self._place.read(read_sessions)

    def totals(self) -> StoreTotals:
        return self._place.read(read_totals)

    def state(self) -> StoreState:
        return self._place.peek().state

    def load(self, *, after: int, vectors_after: int = 0) -> IndexRows:
        def read(transaction: Transaction) -> IndexRows:
            require_embedder(self._named or transaction.memory.identity, stored=transaction.memory.identity)
            return read_index(transaction, after=after, vectors_after=vectors_after)

        return self._place.read(read)

    def forget(
        self,
        *,
        turn_id: str | None = None,
        session_id: str | None = None,
        before: datetime | None = None,
        everything: bool = False,
        dry_run: bool = False,
    ) -> ForgetReport:
        where: str
        value: object
        if turn_id is not None:
            where, value = "turn_digest = %(value)s", digest(turn_id)
        elif session_id is not None:
            where, value = "session_digest = %(value)s", digest(session_id)
        elif before is not None:
            where, value = "said_at < %(value)s", rows.to_microseconds(before)
        else:
            where, value = "%(value)s", everything
        change = self._place.trial if dry_run else self._place.write
        gone = change(lambda transaction: forget_turns(transaction, where, value))
        return ForgetReport(
            turns=gone.turns,
            passages=gone.passages,
            sessions=gone.sessions,
            records=gone.records,
            nodes=gone.nodes,
            notes=gone.notes,
            scrubbed=False,
            pending=ONLY_TRIED if dry_run else KEPT_BYTES,
        )

    def unstaged(self, identity: EmbedderIdentity, *, limit: int) -> tuple[StoredPassage, ...]:
        name = identity_text(identity)
        if self._place.peek().staged_embedder != name:
            self._place.write(lambda transaction: staging.begin(transaction, name))
        found = self._place.read(
            lambda transaction: transaction.all(
                f"SELECT passage_row, start, stop, {rows.TURN_COLUMNS} FROM scrubjay.passage "
                f"JOIN scrubjay.turn USING (memory_id, turn_row) {OF_TURN} WHERE memory_id = %(memory)s "
                f"AND {staging.NOT_STAGED} ORDER BY passage_row LIMIT %(limit)s",
                limit=limit,
            )
        )
        return tuple(
            StoredPassage(row=row[0], start=row[1], stop=row[2], turn=read_turn(row[3:])) for row in found
        )

    def stage_vectors(self, rows: Sequence[int], vectors: NDArray[np.float32]) -> None:
        staged = [(int(row), Vector(vector)) for row, vector in zip(rows, vectors, strict=True)]
        self._place.write(lambda transaction: staging.write(transaction, "passage", "staged_vector", staged))

    def adopt_vectors(self, identity: EmbedderIdentity) -> None:
        self._place.write(lambda transaction: staging.adopt(transaction, identity))
        self._named = identity

    def check(self) -> tuple[Fault, ...]:
        return self._place.read(checks.find_faults)

    def read_meta(self, key: str) -> str | None:
        found = self._place.read(
            lambda transaction: transaction.one(
                "SELECT value FROM scrubjay.meta WHERE memory_id = %(memory)s AND key = %(key)s", key=key
            )
        )
        return None if found is None else from_sql_text(found[0])

    def write_meta(self, key: str, value: str) -> None:
        self._place.write(
            lambda transaction: transaction.insert(
                "meta (key, value)",
                [(key, to_sql_text(value))],
                otherwise="ON CONFLICT (memory_id, key) DO UPDATE SET value = excluded.value",
            )
        )


def read_sessions(transaction: Transaction) -> tuple[Session, ...]:
    """Give the sessions in the order they began to be written."""
    speakers: dict[int, list[str]] = {}
    for session_row, speaker in transaction.all(
        "SELECT session_row, speaker FROM scrubjay.turn WHERE memory_id = %(memory)s AND speaker IS NOT NULL "
        "GROUP BY session_row, speaker ORDER BY session_row, min(position)"
    ):
        speakers.setdefault(session_row, []).append(from_sql_text(speaker))
    first, last = (
        {
            session_row: rows.from_microseconds(said_at, offset)
            for session_row, said_at, offset in transaction.all(
                "SELECT DISTINCT ON (session_row) session_row, said_at, said_offset FROM scrubjay.turn "
                f"WHERE memory_id = %(memory)s AND said_at IS NOT NULL ORDER BY session_row, said_at {order}, position"
            )
        }
        for order in ("ASC", "DESC")
    )
    return tuple(
        Session(
            session_id=from_sql_text(session_id),
            turns=turns,
            speakers=tuple(speakers.get(session_row, ())),
            first_said_at=first.get(session_row),
            last_said_at=last.get(session_row),
        )
        for session_id, turns, session_row in transaction.all(
            "SELECT session_id, turns, session_row FROM scrubjay.session JOIN "
            "(SELECT session_row, count(*) AS turns FROM scrubjay.turn WHERE memory_id = %(memory)s GROUP BY 1) AS counted "
            "USING (session_row) WHERE memory_id = %(memory)s ORDER BY session_row"
        )
    )


def read_totals(transaction: Transaction) -> StoreTotals:
    turns, first, last, sessions, passages = transaction.all(
        "SELECT count(*), min(said_at), max(said_at), "
        "(SELECT count(*) FROM scrubjay.session WHERE memory_id = %(memory)s), "
        "(SELECT count(*) FROM scrubjay.passage WHERE memory_id = %(memory)s) "
        "FROM scrubjay.turn WHERE memory_id = %(memory)s"
    )[0]
    return StoreTotals(
        turns=turns,
        sessions=sessions,
        passages=passages,
        first_said_at=None if first is None else rows.from_microseconds(first),
        last_said_at=None if last is None else rows.from_microseconds(last),
    )


def read_index(transaction: Transaction, *, after: int, vectors_after: int) -> IndexRows:
    count, first = transaction.all(
        "SELECT count(*), min(turn_row) FROM scrubjay.passage WHERE memory_id = %(memory)s AND passage_row > %(after)s",
        after=after,
    )[0]
    turns = transaction.all(
        "SELECT turn_row, session_row, position, role, speaker, said_at, tokens, flags FROM scrubjay.turn "
        "WHERE memory_id = %(memory)s AND turn_row >= %(first)s ORDER BY turn_row",
        first=first,
    )
    passages = transaction.execute(
        "SELECT turn_row, start, stop, tokens, length, terms, counts, "
        "CASE WHEN passage_row > %(vectors_after)s THEN vector END FROM scrubjay.passage "
        "WHERE memory_id = %(memory)s AND passage_row > %(after)s ORDER BY passage_row",
        after=after,
        vectors_after=vectors_after,
    )
    return rows.read_index_rows(
        transaction.memory.state,
        turns,
        passages,
        count=count,
        coding=rows.Coding(
            dimension=transaction.memory.identity.dimension,
            vectors=decode_vectors,
            text=from_sql_text,
        ),
    )
