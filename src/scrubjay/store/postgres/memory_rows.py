"""A memory's rows in PostgreSQL, as copying.py names them."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from pgvector import Vector

from scrubjay.errors import NotFoundError, StoreBusyError, StoreReadOnlyError
from scrubjay.store.copying import COUNTERS, HEADING, NUMBERED, ROWS_AT_ONCE, TABLES, TEXTS, Heading
from scrubjay.store.postgres.transaction import begin, insert_rows
from scrubjay.store.postgres.values import (
    VECTOR_HEADER_BYTES,
    digest,
    from_sql_text,
    memory_key,
    to_sql_text,
)
from scrubjay.store.rows import stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrubjay.store.copying import MemoryRows, Row, Value, WritableRows
    from scrubjay.store.postgres.connection import Connection, PostgresDatabase
    from scrubjay.store.postgres.transaction import MemoryRow
    from scrubjay.store.rows import SqlRow

DIGESTED = {
    "session": ("session_id", "session_digest"),
    "turn": ("turn_id", "turn_digest"),
    "node": ("key", "key_digest"),
}
"""A table → its column of ids of any length, and that of their digests."""

SAID = ("public_id", "embedder", "staged_embedder", "created_at", "generation", "current_encoding")
SAID_COLUMNS = (*SAID, *(f"last_{name}" for name in COUNTERS))


class DatabasePlace:
    """One user's part of a database, to copy from or to."""

    def __init__(self, database: PostgresDatabase, user_id: str) -> None:
        self.location = f"{database.location} (memory of {user_id!r})"
        self._database = database
        self._user_id = user_id
        self._key = memory_key(user_id)

    def exists(self) -> bool:
        return self._database.has_memory(self._user_id)

    @contextmanager
    def reading(self) -> Iterator[MemoryRows]:
        with self._database.borrow() as connection:
            memory = begin(connection, self._key, writing=None)
            if memory is None:
                raise NotFoundError(f"there is no memory of {self._user_id!r} in {self._database.location}")
            yield DatabaseRows(connection, self._user_id, memory)
            connection.execute("COMMIT")

    @contextmanager
    def writing(self) -> Iterator[WritableRows]:
        if self._database.read_only:
            raise StoreReadOnlyError(f"{self.location} was opened for reading only")
        with self._database.borrow() as connection:
            memory = begin(connection, self._key, writing=self._database.settings)
            yield DatabaseRows(connection, self._user_id, memory)
            connection.execute("COMMIT")

    def wait(self) -> None:
        """Wait until the database answers; raise StoreUnavailableError where it doesn't for too long."""
        self._database.has_memory(self._user_id)

    def close(self) -> None:
        """Do nothing: the database is its opener's to close."""


class DatabaseRows:
    """One memory of a database within a transaction."""

    def __init__(self, connection: Connection, user_id: str, memory: MemoryRow | None) -> None:
        self._connection = connection
        self._user_id = user_id
        self._key = memory_key(user_id)
        self._memory = memory  # as the transaction found it

    @property
    def version(self) -> int:
        return 0 if self._memory is None else self._memory.writes

    def heading(self) -> Heading | None:
        found = self._all(
            f"SELECT (SELECT value FROM scrubjay.meta WHERE memory_id = %(memory)s AND key = 'owner'), "
            f"{', '.join(SAID_COLUMNS)} FROM scrubjay.memory WHERE memory_id = %(memory)s"
        )
        if not found:
            return None
        owner, public_id, embedder, staged_embedder, made_at, generation, current_encoding, *last = found[0]
        return Heading(
            memory_id=str(public_id),
            owner=None if owner is None else from_sql_text(owner),
            embedder=embedder,
            staged_embedder=staged_embedder,
            made_at=made_at,
            generation=generation,
            current_encoding=current_encoding,
            last=dict(zip(COUNTERS, last, strict=True)),
        )

    def _all(self, query: str) -> list[SqlRow]:
        return self._connection.execute(query, {"memory": self._key}, binary=True).fetchall()

    def count(self, table: str) -> int:
        ((count,),) = self._all(f"SELECT count(*) FROM scrubjay.{table} WHERE {chosen(table)}")
        return int(count)

    def rows(self, table: str) -> Iterator[Row]:
        columns = TABLES[table]
        numbers = columns[: NUMBERED.get(table, 0)]
        order = f"ORDER BY {', '.join(numbers)}" if numbers else ""
        query = f"SELECT {', '.join(columns)} FROM scrubjay.{table} WHERE {chosen(table)} {order}"
        decoded = (tuple(map(decode, columns, row)) for row in self._stream(query))
        return decoded if numbers else iter(sorted(decoded, key=repr))

    def _stream(self, query: str) -> Iterator[SqlRow]:
        """Give rows as they are fetched: not all of them are held at once."""
        with self._connection.cursor(uuid.uuid4().hex) as cursor:
            cursor.itersize = ROWS_AT_ONCE
            yield from cursor.execute(query, {"memory": self._key}, binary=True)

    def clear(self) -> None:
        for table in reversed(TABLES):
            self._connection.execute(f"DELETE FROM scrubjay.{table} WHERE memory_id = %s", (self._key,))

    def write_heading(self, heading: Heading) -> None:
        """Write the memory's row, with a new mark; raise StoreBusyError where another process has just made it."""
        values = {
            "public_id": uuid.UUID(heading.memory_id),
            "embedder": heading.embedder,
            "staged_embedder": heading.staged_embedder,
            "created_at": heading.made_at,
            "generation": heading.generation,
            "current_encoding": heading.current_encoding,
            "last_write": uuid.uuid4(),
            "writes": self.version + 1,
            **{f"last_{name}": heading.last[name] for name in COUNTERS},
        }
        if self._memory is None:
            self._insert_memory({**values, "user_id": to_sql_text(self._user_id)})
        else:
            changes = ", ".join(f"{column} = %({column})s" for column in values)
            self._connection.execute(
                f"UPDATE scrubjay.memory SET {changes} WHERE memory_id = %(memory)s",
                {"memory": self._key, **values},
            )
        self._queue()
        if heading.owner is not None:
            insert_rows(
                self._connection, self._key, "meta (key, value)", [("owner", to_sql_text(heading.owner))]
            )

    def _queue(self) -> None:
        """Have a worker look whether there is something to do."""
        now = stamp()
        insert_rows(
            self._connection,
            self._key,
            "work (cut_at, encode_at)",
            [(now, now)],
            otherwise="ON CONFLICT (memory_id) DO UPDATE SET cut_at = excluded.cut_at, encode_at = excluded.encode_at",
        )

    def _insert_memory(self, values: dict[str, object]) -> None:
        into = f"memory ({', '.join(values)})"
        if not insert_rows(
            self._connection, self._key, into, [list(values.values())], otherwise="ON CONFLICT DO NOTHING"
        ):
            raise StoreBusyError(
                f"a memory of {self._user_id!r} was made there by another process just now: try again"
            )

    def write_rows(self, table: str, rows: Sequence[Row]) -> None:
        columns = TABLES[table]
        encoded = [tuple(map(encode, columns, row)) for row in rows]
        names = columns
        if table in DIGESTED:
            name, digest_name = DIGESTED[table]
            place = columns.index(name)
            names = (*columns, digest_name)
            encoded = [(*values, digest(str(row[place]))) for values, row in zip(encoded, rows, strict=True)]
        insert_rows(self._connection, self._key, f"{table} ({', '.join(names)})", encoded)


def chosen(table: str) -> str:
    """Give the rows wanted of a table: of `meta` those that a heading doesn't say."""
    if table != "meta":
        return "memory_id = %(memory)s"
    said = ", ".join(f"'{key}'" for key in sorted(HEADING))
    return f"memory_id = %(memory)s AND key NOT IN ({said})"


def decode(column: str, value: object) -> Value:
    """Give a value as every store has it."""
    if column == "vector":
        assert isinstance(value, bytes)
        return np.frombuffer(value, ">f4", offset=VECTOR_HEADER_BYTES).astype("<f4").tobytes()
    if isinstance(value, str):
        return from_sql_text(value) if column in TEXTS else value
    if isinstance(value, bool):  # a file has 0 and 1
        return int(value)
    assert value is None or isinstance(value, int | float | bytes)
    return value


def encode(column: str, value: Value) -> object:
    """Give a value as PostgreSQL keeps it."""
    if isinstance(value, bytes):
        return Vector(np.frombuffer(value, "<f4")) if column == "vector" else value
    if isinstance(value, str):
        return to_sql_text(value)
    return bool(value) if column == "supported" else value
