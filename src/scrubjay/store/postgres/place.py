"""Where one memory lies in a database: how it is made, read and written there."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from scrubjay.errors import (
    NotFoundError,
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from scrubjay.store.postgres.schema import SETTING
from scrubjay.store.postgres.transaction import MemoryRow, Transaction, begin, peek
from scrubjay.store.postgres.values import memory_key, to_sql_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrubjay.store.postgres.connection import Connection, PostgresDatabase
    from scrubjay.store_settings import PostgresSettings

Result = TypeVar("Result")

KEPT_BYTES = "PostgreSQL keeps deleted rows until it is vacuumed, and in its log and backups for longer: see docs/postgres.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed(Generic[Result]):
    """A write that was sent to be committed, and whose confirmation may have been lost."""

    mark: uuid.UUID
    writes_before: int
    result: Result


class MemoryPlace:
    """One memory's rows in a database; safe to share between threads.

    `owns_database`: closing the memory closes the database too.
    """

    def __init__(self, database: PostgresDatabase, user_id: str, *, owns_database: bool) -> None:
        self.location = f"{database.location} (memory of {user_id!r})"
        self._database = database
        self._user_id = user_id
        self._key = memory_key(user_id)
        self._owns_database = owns_database
        self._public_id: uuid.UUID | None = None
        self._is_closed = False

    def open(self, *, create: bool) -> None:
        """Find the memory, or make it; raise NotFoundError where there is none and it isn't to be made."""
        self._public_id = self._database.keep_trying(lambda: self._find_or_make(create=create))

    def _find_or_make(self, *, create: bool) -> uuid.UUID:
        with self._database.borrow() as connection:
            found = peek(connection, self._key)
            if found is None and create:
                make_memory(connection, self._key, self._user_id)
                found = peek(connection, self._key)
        if found is None:
            raise NotFoundError(f"there is no memory of {self._user_id!r} in {self._database.location}")
        return found.public_id

    @property
    def settle_seconds(self) -> float:
        """Give how long after an add a worker may look at a memory."""
        return self._database.settings.settle_seconds

    @property
    def is_gone(self) -> bool:
        return self._peek() is None

    def peek(self) -> MemoryRow:
        """Give the memory's row, in one exchange with the server."""
        return self._require(self._peek())

    def _peek(self) -> MemoryRow | None:
        self._require_open()

        def attempt() -> MemoryRow | None:
            with self._database.borrow() as connection:
                return peek(connection, self._key)

        found = self._database.keep_trying(attempt)
        return found if found is not None and found.public_id == self._public_id else None

    def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Do this on one unchanging view of the memory; it may be done again where the connection breaks."""
        self._require_open()

        def attempt() -> Result:
            with self._begun(None) as (connection, transaction):
                result = work(transaction)
                connection.execute("COMMIT")
            return result

        return self._database.keep_trying(attempt)

    def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Do this in one transaction, committed whole or not at all, once, while no other writes to this memory.

        It is done again where the connection broke before, so it must change nothing but the database.
        """
        self._require_open()
        if self._database.read_only:
            raise StoreReadOnlyError(f"{self.location} was opened for reading only")
        sent: list[Unconfirmed[Result]] = []

        def attempt() -> Result:
            with self._begun(self._database.settings) as (connection, transaction):
                if sent and is_committed(sent[-1], transaction.memory, self.location):
                    connection.execute("ROLLBACK")
                    return sent[-1].result
                before = transaction.memory.writes
                result = work(transaction)
                mark = uuid.uuid4()
                transaction.save(mark)
                sent[:] = [Unconfirmed(mark=mark, writes_before=before, result=result)]
                connection.execute("COMMIT")
            return result

        try:
            return self._database.keep_trying(attempt)
        except (
            StoreUnavailableError,
            StoreBusyError,
        ) as error:  # busy: what was cut off may still hold the memory
            if not sent:
                raise
            raise StoreUnavailableError(
                f"{error}; the connection broke while a write was being confirmed: it is there whole or not at all, "
                "look before writing it again"
            ) from error

    def trial(self, work: Callable[[Transaction], Result]) -> Result:
        """Do this as `write` would and roll it back, to see what it would do."""
        self._require_open()

        def attempt() -> Result:
            with self._begun(self._database.settings) as (connection, transaction):
                result = work(transaction)
                connection.execute("ROLLBACK")
            return result

        return self._database.keep_trying(attempt)

    @contextmanager
    def _begun(self, writing: PostgresSettings | None) -> Iterator[tuple[Connection, Transaction]]:
        with self._database.borrow() as connection:
            memory = self._require(begin(connection, self._key, writing=writing))
            yield connection, Transaction(connection, self._key, memory)

    def _require(self, memory: MemoryRow | None) -> MemoryRow:
        if memory is None or memory.public_id != self._public_id:
            raise StoreClosedError(
                f"{self.location} was deleted or replaced while it was open: open it again"
            )
        return memory

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosedError(f"{self.location}: this memory was closed")

    def size(self) -> int:
        """Give 0: a memory's rows share their pages with others'."""
        return 0

    def scrub(self) -> str:
        """Give why deleted bytes are still there: removing them is the database's own work."""
        return KEPT_BYTES

    def close(self) -> None:
        self._is_closed = True
        if self._owns_database:
            self._database.close()


def is_committed(write: Unconfirmed[Result], memory: MemoryRow, location: str) -> bool:
    """Say whether a write is there; nobody else can write while we ask. Raise StoreError where it can't be told."""
    if memory.last_write == write.mark:
        return True
    if memory.writes == write.writes_before:
        return False
    raise StoreError(
        f"{location}: the connection broke while a write was being confirmed, and another process has written since, "
        "so whether it is there can't be told: look before writing it again"
    )


def make_memory(connection: Connection, key: uuid.UUID, user_id: str) -> None:
    """Make a memory with its first encoding, unless another process has just made it."""
    now = time.time_ns() // 1000
    with connection.transaction():
        connection.execute(f"SET LOCAL {SETTING} TO '{key}'")
        made = connection.execute(
            "INSERT INTO scrubjay.memory (memory_id, public_id, user_id, created_at, current_encoding, last_encoding) "
            "VALUES (%s, %s, %s, %s, 1, 1) ON CONFLICT DO NOTHING",
            (key, uuid.uuid4(), to_sql_text(user_id), now),
        )
        if made.rowcount:
            connection.execute(
                "INSERT INTO scrubjay.encoding (memory_id, encoding_row, model, prompt_version, state, created_at) "
                "VALUES (%s, 1, '', '', 'current', %s)",
                (key, now),
            )
