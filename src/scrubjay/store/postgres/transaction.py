"""A transaction of one memory: how it begins, its statements, and the memory's row that it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import RawCursor

from scrubjay.datatypes import StoreState
from scrubjay.store.copying import COUNTERS
from scrubjay.store.meta import stored_identity
from scrubjay.store.postgres.schema import SETTING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from psycopg import Cursor

    from scrubjay.datatypes import EmbedderIdentity
    from scrubjay.store.postgres.connection import Connection
    from scrubjay.store.rows import SqlRow
    from scrubjay.store_settings import PostgresSettings

LEAST_IDLE_SECONDS = 1.0  # between two statements: a busy machine takes a while
ROWS_AT_ONCE = 500  # of one INSERT; their values stay well below the 65,535 of one statement

SELECT_MEMORY = (
    "SELECT public_id, embedder, staged_embedder, generation, writes, last_write, current_encoding, "
    f"{', '.join(f'last_{name}' for name in COUNTERS)} FROM scrubjay.memory WHERE memory_id = %s"
)
SAVE_MEMORY = (
    "UPDATE scrubjay.memory SET embedder = %(embedder)s, staged_embedder = %(staged_embedder)s, "
    "generation = %(generation)s, writes = writes + 1, last_write = %(last_write)s, "
    f"current_encoding = %(current_encoding)s, {', '.join(f'last_{name} = %({name})s' for name in COUNTERS)} "
    "WHERE memory_id = %(memory)s"
)


@dataclass(slots=True, kw_only=True)
class MemoryRow:
    """What a memory says of itself, as a transaction found it or will leave it."""

    public_id: UUID
    embedder: str | None
    staged_embedder: str | None
    generation: int
    writes: int
    last_write: UUID | None
    current_encoding: int
    last: dict[str, int]  # the last row number given in each table

    @property
    def identity(self) -> EmbedderIdentity:
        return stored_identity(self.embedder or "{}")

    @property
    def state(self) -> StoreState:
        return StoreState(generation=self.generation, last_passage=self.last["passage"])


def begin(connection: Connection, key: UUID, *, writing: PostgresSettings | None) -> MemoryRow | None:
    """Begin a transaction that sees one memory's rows only; give its row, None where there is none.

    With `writing` it may write, and no other writes to this memory until it ends, or until the server has heard
    nothing of it for too long; else it reads one unchanging view, all in one exchange with the server.
    """
    if writing is None:
        with connection.pipeline():
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(f"SET LOCAL {SETTING} TO '{key}'")
            row = connection.execute(SELECT_MEMORY, (key,), binary=True).fetchone()
        return None if row is None else read_memory(row)
    with connection.pipeline():
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        limit_waiting(connection, writing)
        connection.execute(f"SET LOCAL {SETTING} TO '{key}'")
    # By itself: after a pipeline the server doesn't look how long we are idle, and this takes the lock.
    row = connection.execute(f"{SELECT_MEMORY} FOR NO KEY UPDATE", (key,), binary=True).fetchone()
    return None if row is None else read_memory(row)


def limit_waiting(connection: Connection, settings: PostgresSettings) -> None:
    """Have an open transaction wait for a lock for so long only, and have the server end it where we are cut off.

    That is after half the time, so that whoever waits for what we hold gets it.
    """
    idle = min(settings.answer_seconds, max(settings.lock_seconds / 2, LEAST_IDLE_SECONDS))
    connection.execute(f"SET LOCAL lock_timeout TO {round(settings.lock_seconds * 1000)}")
    connection.execute(f"SET LOCAL idle_in_transaction_session_timeout TO {round(idle * 1000)}")


def peek(connection: Connection, key: UUID) -> MemoryRow | None:
    """Give a memory's row alone, in one exchange with the server."""
    with connection.pipeline():
        connection.execute("BEGIN READ ONLY")
        connection.execute(f"SET LOCAL {SETTING} TO '{key}'")
        found = connection.execute(SELECT_MEMORY, (key,), binary=True)
        connection.execute("COMMIT")
        row = found.fetchone()
    return None if row is None else read_memory(row)


def read_memory(row: SqlRow) -> MemoryRow:
    public_id, embedder, staged_embedder, generation, writes, last_write, current_encoding, *last = row
    return MemoryRow(
        public_id=public_id,
        embedder=embedder,
        staged_embedder=staged_embedder,
        generation=generation,
        writes=writes,
        last_write=last_write,
        current_encoding=current_encoding,
        last=dict(zip(COUNTERS, last, strict=True)),
    )


class Transaction:
    """One transaction of one memory; every statement of it names that memory."""

    def __init__(self, connection: Connection, key: UUID, memory: MemoryRow) -> None:
        self._connection = connection
        self._key = key
        self.memory = memory

    def execute(self, query: str, **values: object) -> Cursor[SqlRow]:
        """Run a statement; the memory's id is its value `memory`."""
        return self._connection.execute(query, {"memory": self._key, **values}, binary=True)

    def all(self, query: str, **values: object) -> list[SqlRow]:
        return self.execute(query, **values).fetchall()

    def one(self, query: str, **values: object) -> SqlRow | None:
        return self.execute(query, **values).fetchone()

    def first(self, query: str, **values: object) -> Any:
        """Give the first column of a query that always gives a row."""
        row = self.one(query, **values)
        assert row is not None
        return row[0]

    def insert(self, into: str, rows: Sequence[Sequence[object]], *, otherwise: str = "") -> int:
        """Write rows into "table (columns)", the memory's id before each; give how many were written."""
        return insert_rows(self._connection, self._key, into, rows, otherwise=otherwise)

    def take_rows(self, table: str, count: int) -> range:
        """Give row numbers that were never used in this memory."""
        last = self.memory.last[table]
        self.memory.last[table] += count
        return range(last + 1, last + count + 1)

    def save(self, mark: UUID) -> None:
        """Write the memory's row as it is now, marked by this write."""
        memory = self.memory
        self.execute(
            SAVE_MEMORY,
            embedder=memory.embedder,
            staged_embedder=memory.staged_embedder,
            generation=memory.generation,
            current_encoding=memory.current_encoding,
            last_write=mark,
            **memory.last,
        )


def numbered_marks(first: int, count: int) -> str:
    """Give the marks of one row of values, the memory's id, which is the first value of all, before them."""
    return f"($1{''.join(f', ${number}' for number in range(first, first + count))})"


def insert_rows(
    connection: Connection, key: UUID, into: str, rows: Sequence[Sequence[object]], *, otherwise: str = ""
) -> int:
    """Write rows into "table (columns)", the memory's id before each; give how many were written."""
    table, _, columns = into.partition(" (")
    written = 0
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[start : start + ROWS_AT_ONCE]
        width = len(part[0])
        marks = ", ".join(numbered_marks(2 + width * place, width) for place in range(len(part)))
        cursor = RawCursor(connection)  # looks for no marks of its own among so many
        cursor.execute(
            f"INSERT INTO scrubjay.{table} (memory_id, {columns} VALUES {marks} {otherwise}",
            [key, *(value for row in part for value in row)],
        )
        written += cursor.rowcount
    return written
