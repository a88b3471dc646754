"""Connections to one database of many memories, and one memory's transactions in it.

A call that finds the database away tries again for a while. That is safe: a read changes nothing; a write whose
connection broke before it was committed is not there; and where the confirmation itself was lost, the memory's row
says whether the write is there, for each leaves its mark in it.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types import TypeInfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from scrubjay.errors import InputError, StoreClosedError, StoreUnavailableError
from scrubjay.store.postgres.bounded import KEEP_ALIVE, BoundedConnection
from scrubjay.store.postgres.errors import AWAY, describe, is_lost, translate
from scrubjay.store.postgres.migrating import prepare
from scrubjay.store.postgres.transaction import peek
from scrubjay.store.postgres.users import delete_memory, read_users
from scrubjay.store.postgres.values import VectorBytesLoader, memory_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scrubjay.store_settings import PostgresSettings

Result = TypeVar("Result")
Connection = BoundedConnection

FIRST_PAUSE = 0.005  # seconds between tries, doubled after each
LONGEST_PAUSE = 0.2


class PostgresDatabase:
    """One database with the tables of many memories; safe to share between threads.

    `close` ends it for all its memories.
    """

    def __init__(self, dsn: str, settings: PostgresSettings, *, read_only: bool = False) -> None:
        """Connect and bring the tables up to date; raise a StoreError saying what is wrong."""
        self.settings = settings
        self.read_only = read_only
        self._conninfo, self.location = read_dsn(dsn, settings)
        self._lock = threading.Lock()
        with self._translated(None), self._connect() as connection:
            oid = prepare(connection, self.location, partitions=settings.partitions, read_only=read_only)
        self._pool = ConnectionPool(
            self._conninfo,
            connection_class=BoundedConnection,
            configure=self._bound,
            min_size=0,
            max_size=settings.connections,
            open=True,
            timeout=settings.connect_seconds,
            reconnect_timeout=settings.connect_seconds,
            num_workers=1,
            # No prepared statements: a plan made for the memory at hand looks at its partition only, and a pooler
            # between us and the server may hand each transaction another connection.
            kwargs={"autocommit": True, "prepare_threshold": None, "context": Adaptation(oid)},
        )

    def _connect(self) -> BoundedConnection:
        connection = BoundedConnection.connect(self._conninfo, autocommit=True)
        self._bound(connection)
        return connection

    def _bound(self, connection: BoundedConnection) -> None:
        connection.answer_seconds = self.settings.answer_seconds

    @contextmanager
    def borrow(self) -> Iterator[Connection]:
        """Lend a connection; PostgreSQL's errors come out as ours, and an open transaction is rolled back."""
        connection = self._take()
        try:
            with self._translated(connection):
                try:
                    yield connection
                except BaseException:
                    roll_back(connection)
                    raise
        finally:
            self._pool.putconn(connection)

    def _take(self) -> Connection:
        try:
            return self._pool.getconn()
        except PoolClosed as error:
            raise StoreClosedError(f"{self.location}: this memory was closed") from error
        except PoolTimeout as error:
            raise self._explain() from error

    def _explain(self) -> StoreUnavailableError:
        """Say why no connection was to be had: the pool keeps the reason to itself."""
        try:
            self._connect().close()
        except psycopg.Error as error:
            translated = translate(error, self.location)
            if not isinstance(translated, StoreUnavailableError):
                raise translated from error
            return translated
        return StoreUnavailableError(
            f"{self.location}: all {self.settings.connections} connections of this process are in use: "
            "try again, or set PostgresSettings.connections higher"
        )

    @contextmanager
    def _translated(self, connection: Connection | None) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if connection is not None and is_lost(error, connection):
                raise StoreUnavailableError(f"{self.location} {AWAY} ({describe(error)})") from error
            raise translate(error, self.location) from error

    def keep_trying(self, attempt: Callable[[], Result]) -> Result:
        """Try again for a while where the database is away; `attempt` must be safe to repeat."""
        give_up = (
            None  # counted from the first failure: finding out that the other side is gone takes a while too
        )
        pause = 0.0  # the first connection was perhaps one that lay idle while the server was started again
        while True:
            try:
                return attempt()
            except StoreUnavailableError:
                give_up = give_up or time.monotonic() + self.settings.patience_seconds
                if time.monotonic() > give_up:
                    raise
                time.sleep(pause)
                pause = min(LONGEST_PAUSE, 2 * pause or FIRST_PAUSE)

    def list_users(self) -> tuple[str, ...]:
        """Give the ids of all users who have a memory here, sorted."""

        def attempt() -> tuple[str, ...]:
            with self.borrow() as connection:
                return read_users(connection)

        return self.keep_trying(attempt)

    def forget_user(self, user_id: str) -> bool:
        """Delete a user's memory with all its rows; say whether there was one."""
        existed = self.has_memory(
            user_id
        )  # asked before, as a deletion whose confirmation is lost is tried again

        def attempt() -> bool:
            with self.borrow() as connection:
                return delete_memory(connection, user_id, self.settings)

        return self.keep_trying(attempt) or existed

    def has_memory(self, user_id: str) -> bool:
        def attempt() -> bool:
            with self.borrow() as connection:
                return peek(connection, memory_key(user_id)) is not None

        return self.keep_trying(attempt)

    def close(self) -> None:
        self._pool.close()


class Adaptation:
    """Says how pgvector's type is sent and read, on every connection of a pool."""

    def __init__(self, oid: int) -> None:
        from pgvector.psycopg.vector import register_vector_info

        self.adapters = AdaptersMap(psycopg.adapters)
        self.connection = None
        register_vector_info(self, TypeInfo("vector", oid, 0))  # type: ignore[arg-type] # asks for our two attributes
        self.adapters.register_loader(oid, VectorBytesLoader)


def read_dsn(dsn: str, settings: PostgresSettings) -> tuple[str, str]:
    """Give a DSN with what we set for each connection, and what to call the database: without its password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise InputError(
            "the address of a database is like postgresql://user@host:5432/name; the one given can't be read"
        ) from None  # the error before shows the address, and that may hold a password
    require_plain(parts)
    place = f"{parts.get('host') or ''}{':' + str(parts['port']) if parts.get('port') else ''}"
    seconds = str(max(1, round(settings.connect_seconds)))
    conninfo = make_conninfo(
        dsn,
        connect_timeout=parts.get("connect_timeout") or seconds,
        application_name=parts.get("application_name") or "scrubjay",
        **{name: value for name, value in KEEP_ALIVE.items() if name not in parts},
    )
    return conninfo, f"postgresql://{place}/{parts.get('dbname') or ''}"


def require_plain(parts: Mapping[str, object]) -> None:
    """Raise InputError where a password that has marks in it, written as they are, came to lie in other parts."""
    host, port, name = (str(parts.get(part) or "") for part in ("host", "port", "dbname"))
    if "@" in host + name or not f"0{port}".replace(",", "").isdecimal():
        raise InputError(
            "the address of a database can't be read: in its user and password write @ as %40, / as %2F, : as %3A, "
            "? as %3F, # as %23 and % as %25"
        )


def roll_back(connection: Connection) -> None:
    """End an open transaction; a connection that broke has none."""
    with suppress(psycopg.OperationalError):
        connection.execute("ROLLBACK")
