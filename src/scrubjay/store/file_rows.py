"""A memory's rows in an SQLite file, as copying.py names them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from scrubjay.store import rows
from scrubjay.store.connection import Database
from scrubjay.store.copying import COUNTERS, HEADING, NUMBERED, TABLES, TEXTS, Heading
from scrubjay.store.meta import read_meta, write_meta

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrubjay.store.copying import MemoryRows, Row, Value, WritableRows

SAID = ", ".join(f"'{key}'" for key in sorted(HEADING))


class FilePlace:
    """A memory's file to copy from, or to; it is opened when first used, and made when first written."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.location = str(path)
        self._path = path
        self._read_only = read_only
        self._database: Database | None = None

    def exists(self) -> bool:
        return self._path.exists()

    @contextmanager
    def reading(self) -> Iterator[MemoryRows]:
        with self._opened(create=False).read() as connection:
            yield FileRows(connection)

    @contextmanager
    def writing(self) -> Iterator[WritableRows]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._opened(create=True).write() as connection:
            yield FileRows(connection)

    def _opened(self, *, create: bool) -> Database:
        if self._database is None:
            self._database = Database(self.location, read_only=self._read_only, create=create)
        return self._database

    def wait(self) -> None:
        """Do nothing: a file is there or not."""

    def close(self) -> None:
        if self._database is not None:
            self._database.close()


class FileRows:
    """One memory's file within a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def version(self) -> int:
        return self._number("PRAGMA data_version")

    def heading(self) -> Heading | None:
        memory_id = read_meta(self._connection, "memory_id")
        if memory_id is None:
            return None
        last: dict[str, int] = dict(self._connection.execute("SELECT name, seq FROM sqlite_sequence"))
        return Heading(
            memory_id=memory_id,
            owner=read_meta(self._connection, "owner"),
            embedder=read_meta(self._connection, "embedder"),
            staged_embedder=read_meta(self._connection, "staged_embedder"),
            made_at=self._number("SELECT applied_at FROM migration WHERE version = 1"),
            generation=int(read_meta(self._connection, "generation") or 0),
            current_encoding=self._number("SELECT encoding_row FROM encoding WHERE state = 'current'"),
            last={table: last.get(table, 0) for table in COUNTERS},
        )

    def _number(self, query: str) -> int:
        return int(self._connection.execute(query).fetchone()[0])

    def count(self, table: str) -> int:
        return self._number(f"SELECT count(*) FROM {chosen(table)}")

    def rows(self, table: str) -> Iterator[Row]:
        columns = TABLES[table]
        numbers = columns[: NUMBERED.get(table, 0)]
        order = f"ORDER BY {', '.join(numbers)}" if numbers else ""
        found = self._connection.execute(f"SELECT {', '.join(columns)} FROM {chosen(table)} {order}")
        decoded = (tuple(map(decode, columns, row)) for row in found)
        return decoded if numbers else iter(sorted(decoded, key=repr))

    def clear(self) -> None:
        for table in reversed(TABLES):
            self._connection.execute(f"DELETE FROM {table}")

    def write_heading(self, heading: Heading) -> None:
        said = {
            "memory_id": heading.memory_id,
            "owner": heading.owner,
            "embedder": heading.embedder,
            "staged_embedder": heading.staged_embedder,
            "generation": str(heading.generation),
        }
        for key, value in said.items():
            if value is not None:
                write_meta(self._connection, key, value)
        self._connection.execute("UPDATE migration SET applied_at = ? WHERE version = 1", (heading.made_at,))
        self._connection.execute("DELETE FROM sqlite_sequence")
        self._connection.executemany("INSERT INTO sqlite_sequence VALUES (?, ?)", heading.last.items())

    def write_rows(self, table: str, rows: Sequence[Row]) -> None:
        columns = TABLES[table]
        self._connection.executemany(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
            [tuple(map(encode, columns, row)) for row in rows],
        )


def chosen(table: str) -> str:
    """Give the rows wanted of a table: of `meta` those that a heading doesn't say."""
    return f"meta WHERE key NOT IN ({SAID})" if table == "meta" else table


def decode(column: str, value: Value) -> Value:
    return rows.from_sql_text(value) if column in TEXTS and isinstance(value, str | bytes) else value


def encode(column: str, value: Value) -> Value:
    return rows.to_sql_text(value) if column in TEXTS and isinstance(value, str) else value
