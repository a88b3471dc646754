"""The embedded store: one memory in one SQLite file."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from scrubjay.datatypes import (
    AddReport,
    ForgetReport,
    Session,
    StoredPassage,
    StoreTotals,
)
from scrubjay.errors import EmbedderMismatchError
from scrubjay.store import checks, rows, staging
from scrubjay.store.forgetting import forget_filter, forget_records
from scrubjay.store.meta import (
    identity_text,
    next_generation,
    read_meta,
    read_state,
    stored_identity,
    write_meta,
)
from scrubjay.store.writing import (
    SELECT_TURNS,
    find_session,
    find_sessions,
    find_turn,
    require_embedder,
    write_turn,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from scrubjay.datatypes import EmbedderIdentity, Fault, IndexRows, NewTurn, PreparedTurn, StoreState, Turn
    from scrubjay.store.connection import Database

IN_ORDER = "ORDER BY turn.session_row, turn.position"
ONLY_TRIED = "nothing was deleted: this only says what would be"
ROWS_AT_ONCE = 500  # bound parameters of one statement, well below SQLite's limit


class SqliteStore:
    """One memory's turns, full-text entries and vectors in one SQLite file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._named: EmbedderIdentity | None = None  # the embedder this process knows of

    @property
    def memory_id(self) -> str:
        return self.read_meta("memory_id") or ""

    @property
    def embedder(self) -> EmbedderIdentity | None:
        """The embedder of the stored vectors, None before the first was named."""
        text = self.read_meta("embedder")
        return None if text is None else stored_identity(text)

    def name_embedder(self, embedder: EmbedderIdentity) -> None:
        """Give a new memory its id and its embedder; raise EmbedderMismatchError where it has another."""
        stored = self.embedder
        if stored is None:
            values = {"memory_id": str(uuid.uuid4()), "embedder": identity_text(embedder), "generation": "0"}
            with self._database.write() as connection:
                connection.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", values.items())
            stored = self.embedder
        if stored != embedder:
            raise EmbedderMismatchError(stored=str(stored), given=str(embedder))
        self._named = embedder

    def known(self, turns: Sequence[tuple[str, NewTurn]]) -> list[bool]:
        with self._database.read() as connection:
            return [
                find_turn(connection, find_session(connection, session_id), turn) is not None
                for session_id, turn in turns
            ]

    def append(self, prepared: Sequence[PreparedTurn]) -> AddReport:
        added_at = time.time_ns() // 1000
        turn_ids, added = [], 0
        with self._database.write() as connection:
            stored = stored_identity(read_meta(connection, "embedder") or "{}")
            for item in prepared:
                require_embedder(item.embedder, stored=stored)
                turn_id, new = write_turn(connection, item, added_at=added_at)
                turn_ids.append(turn_id)
                added += new
        return AddReport(turn_ids=tuple(turn_ids), added=added, unchanged=len(turn_ids) - added)

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
        where, values = (
            ("WHERE session.session_id = ?", (session_id,)) if session_id is not None else ("", ())
        )
        last = self._place(after)
        while last is not None:  # page by page, so that no read stays open between two turns
            page = self._page(where, values, last)
            yield from (read for _, _, read in page)
            last = page[-1][:2] if page else None

    def _place(self, turn_id: str | None) -> tuple[int, int] | None:
        """Give where a turn stands in the log, without one the place before all."""
        if turn_id is None:
            return -1, -1
        with self._database.read() as connection:
            found: tuple[int, int] | None = connection.execute(
                "SELECT session_row, position FROM turn WHERE turn_id = ?", (turn_id,)
            ).fetchone()
        return found

    def _page(
        self, where: str, values: tuple[str, ...], last: tuple[int, int]
    ) -> list[tuple[int, int, Turn]]:
        after = "AND" if where else "WHERE"
        with self._database.read() as connection:
            found = connection.execute(
                f"SELECT turn.session_row, {rows.TURN_COLUMNS} FROM turn JOIN session USING (session_row) "
                f"{where} {after} (turn.session_row, turn.position) > (?, ?) {IN_ORDER} LIMIT {ROWS_AT_ONCE}",
                (*values, *last),
            ).fetchall()
        return [(row[0], row[3], rows.read_turn(row[1:])) for row in found]

    def _turns_of_rows(self, wanted: Sequence[int]) -> Iterator[Turn]:
        found: dict[int, Turn] = {}
        with self._database.read() as connection:
            for start in range(0, len(wanted), ROWS_AT_ONCE):
                part = [int(row) for row in wanted[start : start + ROWS_AT_ONCE]]
                marks = ",".join("?" * len(part))
                for row in connection.execute(
                    f"SELECT turn.turn_row, {rows.TURN_COLUMNS} FROM turn JOIN session USING (session_row) "
                    f"WHERE turn.turn_row IN ({marks})",
                    part,
                ):
                    found[row[0]] = rows.read_turn(row[1:])
        yield from (found[row] for row in wanted if row in found)

    def turn(self, turn_id: str) -> Turn | None:
        with self._database.read() as connection:
            row = connection.execute(f"{SELECT_TURNS} WHERE turn.turn_id = ?", (turn_id,)).fetchone()
        return None if row is None else rows.read_turn(row)

    def sessions(self) -> tuple[Session, ...]:
        with self._database.read() as connection:
            return find_sessions(connection)

    def totals(self) -> StoreTotals:
        with self._database.read() as connection:
            turns, sessions, passages, first, last = connection.execute(
                "SELECT (SELECT count(*) FROM turn), (SELECT count(*) FROM session), (SELECT count(*) FROM passage), "
                "(SELECT min(said_at) FROM turn), (SELECT max(said_at) FROM turn)"
            ).fetchone()
        return StoreTotals(
            turns=turns,
            sessions=sessions,
            passages=passages,
            first_said_at=None if first is None else rows.from_microseconds(first),
            last_said_at=None if last is None else rows.from_microseconds(last),
        )

    def state(self) -> StoreState:
        with self._database.read() as connection:
            return read_state(connection)

    def load(self, *, after: int, vectors_after: int = 0) -> IndexRows:
        with self._database.read() as connection:
            state = read_state(connection)
            identity = stored_identity(read_meta(connection, "embedder") or "{}")
            require_embedder(self._named or identity, stored=identity)
            count, first = connection.execute(
                "SELECT count(*), min(turn_row) FROM passage WHERE passage_row > ?", (after,)
            ).fetchone()
            turns = connection.execute(
                "SELECT turn_row, session_row, position, role, speaker, said_at, tokens, flags FROM turn "
                "WHERE turn_row >= ? ORDER BY turn_row",
                (first,),
            ).fetchall()
            passages = connection.execute(
                "SELECT turn_row, start, stop, tokens, length, terms, counts, "
                "CASE WHEN passage_row > ? THEN vector END FROM passage WHERE passage_row > ? ORDER BY passage_row",
                (vectors_after, after),
            )
            coding = rows.Coding(dimension=identity.dimension)
            return rows.read_index_rows(state, turns, passages, count=count, coding=coding)

    def forget(
        self,
        *,
        turn_id: str | None = None,
        session_id: str | None = None,
        before: datetime | None = None,
        everything: bool = False,
        dry_run: bool = False,
    ) -> ForgetReport:
        where, values = forget_filter(
            turn_id=turn_id, session_id=session_id, before=before, everything=everything
        )
        with self._database.trial() if dry_run else self._database.write() as connection:
            connection.execute("CREATE TEMP TABLE doomed (turn_row INTEGER PRIMARY KEY)")
            connection.execute(
                f"INSERT INTO doomed SELECT turn_row FROM turn JOIN session USING (session_row) WHERE {where}",
                values,
            )
            made = forget_records(connection)
            passages = delete(connection, "passage WHERE turn_row IN (SELECT turn_row FROM doomed)")
            turns = delete(connection, "turn WHERE turn_row IN (SELECT turn_row FROM doomed)")
            sessions = delete(connection, "session WHERE session_row NOT IN (SELECT session_row FROM turn)")
            connection.execute("DROP TABLE doomed")
            if turns:
                next_generation(connection)
        pending = ONLY_TRIED if dry_run else self._database.scrub()
        return ForgetReport(
            turns=turns,
            passages=passages,
            sessions=sessions,
            records=made.records,
            nodes=made.nodes,
            notes=made.notes,
            scrubbed=not pending,
            pending=pending,
        )

    def unstaged(self, identity: EmbedderIdentity, *, limit: int) -> tuple[StoredPassage, ...]:
        name = identity_text(identity)
        with self._database.write() as connection:
            if read_meta(connection, "staged_embedder") != name:
                connection.execute("DELETE FROM staged_vector")
                staging.drop_staged(connection)
                write_meta(connection, "staged_embedder", name)
            found = connection.execute(
                f"SELECT passage_row, start, stop, {rows.TURN_COLUMNS} FROM passage JOIN turn USING (turn_row) "
                "JOIN session USING (session_row) WHERE passage_row NOT IN (SELECT passage_row FROM staged_vector) "
                "ORDER BY passage_row LIMIT ?",
                (limit,),
            ).fetchall()
        return tuple(
            StoredPassage(row=row[0], start=row[1], stop=row[2], turn=rows.read_turn(row[3:]))
            for row in found
        )

    def stage_vectors(self, rows: Sequence[int], vectors: NDArray[np.float32]) -> None:
        with self._database.write() as connection:
            connection.executemany(  # a passage forgotten meanwhile is passed over
                "INSERT OR REPLACE INTO staged_vector SELECT passage_row, ? FROM passage WHERE passage_row = ?",
                [(vector.tobytes(), row) for row, vector in zip(rows, vectors, strict=True)],
            )

    def adopt_vectors(self, identity: EmbedderIdentity) -> None:
        with self._database.write() as connection:
            missing = connection.execute(
                "SELECT count(*) FROM passage WHERE passage_row NOT IN (SELECT passage_row FROM staged_vector)"
            ).fetchone()[0]
            missing += staging.count_unstaged(connection)
            if missing or read_meta(connection, "staged_embedder") != identity_text(identity):
                stored = stored_identity(read_meta(connection, "embedder") or "{}")
                raise EmbedderMismatchError(
                    stored=str(stored), given=f"{identity} with {missing} vectors missing"
                )
            connection.execute(
                "UPDATE passage SET vector = (SELECT s.vector FROM staged_vector s WHERE s.passage_row = passage.passage_row)"
            )
            connection.execute("DELETE FROM staged_vector")
            staging.adopt_staged(connection, dimension=identity.dimension)
            connection.execute("DELETE FROM meta WHERE key = 'staged_embedder'")
            write_meta(connection, "embedder", identity_text(identity))
            next_generation(connection)
        self._named = identity

    def check(self) -> tuple[Fault, ...]:
        with self._database.read() as connection:
            identity = stored_identity(read_meta(connection, "embedder") or "{}")
            return checks.find_faults(connection, dimension=identity.dimension)

    def read_meta(self, key: str) -> str | None:
        with self._database.read() as connection:
            return read_meta(connection, key)

    def write_meta(self, key: str, value: str) -> None:
        with self._database.write() as connection:
            write_meta(connection, key, value)


def delete(connection: sqlite3.Connection, target: str) -> int:
    return connection.execute(f"DELETE FROM {target}").rowcount
