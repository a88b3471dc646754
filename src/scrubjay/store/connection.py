"""Opening an SQLite file as a memory, and turning SQLite's errors into ours."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.errors import (
    NotFoundError,
    StoreBusyError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreNewerError,
    StoreReadOnlyError,
)
from scrubjay.store.schema import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION
from scrubjay.store.vector_folder import remove_vectors

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY_TIMEOUT_MS = 30_000
SCRUB_TIMEOUT_MS = 2_000  # of waiting for readers, while this process's threads wait too
RETRY_SECONDS = 0.01
IN_MEMORY = ":memory:"

ERRORS: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_NOTADB: (StoreCorruptError, "is not a ScrubJay memory: it is no SQLite file"),
    sqlite3.SQLITE_CORRUPT: (StoreCorruptError, "is damaged: restore it from a backup or an export"),
    sqlite3.SQLITE_READONLY: (StoreReadOnlyError, "can't be written: check its permissions and its disk"),
    sqlite3.SQLITE_CANTOPEN: (
        StoreReadOnlyError,
        "can't be opened: check that its folder exists and may be written",
    ),
    sqlite3.SQLITE_PERM: (StoreReadOnlyError, "can't be opened: check its permissions"),
    sqlite3.SQLITE_FULL: (StoreFullError, "can't grow, the disk is full: free some space and try again"),
    sqlite3.SQLITE_BUSY: (StoreBusyError, "is being written by another process: try again"),
    sqlite3.SQLITE_LOCKED: (StoreBusyError, "is being written by another process: try again"),
}
"""SQLite's primary result code → our error, and what to say of the file."""

FILE_KIND = """
SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
       (SELECT count(*) FROM sqlite_schema)
"""
"""One statement, so one view of the file: between several another process may have made the schema."""

PRIMARY_CODE = 0xFF  # an extended result code carries the primary one in its low byte


@contextmanager
def translated_errors(path: str) -> Iterator[None]:
    """Raise SQLite's errors as ours, naming the file."""
    try:
        yield
    except sqlite3.ProgrammingError as error:
        if "closed" in str(error):
            raise StoreClosedError(f"{path}: this memory was closed") from error
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        kind, words = ERRORS.get((code or 0) & PRIMARY_CODE, (StoreError, "could not be used"))
        raise kind(f"{path} {words} ({error})") from error


class Database:
    """One SQLite file: its threads share a connection behind a lock, processes are kept apart by SQLite.

    No transaction is open between calls.
    """

    def __init__(self, path: str, *, read_only: bool = False, create: bool = True) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection = open_connection(path, read_only=read_only, create=create)
        self._file = file_identity(path)

    @property
    def is_gone(self) -> bool:
        """Whether the file was deleted or replaced since it was opened, so that what is written would be lost."""
        return self.path != IN_MEMORY and file_identity(self.path) != self._file

    def size(self) -> int:
        """Give the bytes of the file, without its log."""
        return 0 if self.path == IN_MEMORY else Path(self.path).stat().st_size

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one write transaction: committed whole, or rolled back whole."""
        with self._lock, translated_errors(self.path), transaction(self._connection):
            self._require_file()
            yield self._connection

    @contextmanager
    def trial(self) -> Iterator[sqlite3.Connection]:
        """Run the block in a write transaction that is rolled back, to see what it would do."""
        with self._lock, translated_errors(self.path), transaction(self._connection, keep=False):
            self._require_file()
            yield self._connection

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Run the block on one unchanging view of the file."""
        with self._lock, translated_errors(self.path), transaction(self._connection, write=False):
            self._require_file()
            yield self._connection

    def _require_file(self) -> None:
        if self.is_gone:
            raise StoreClosedError(f"{self.path} was deleted or replaced while it was open: open it again")

    def scrub(self) -> str:
        """Rewrite the file without free pages and empty its log; return why it could not, or ""."""
        with self._lock, translated_errors(self.path):
            try:
                self._connection.execute("VACUUM")
                self._connection.execute(f"PRAGMA busy_timeout = {SCRUB_TIMEOUT_MS}")
                busy = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.OperationalError as error:
                return f"the file could not be rewritten ({error}): run `scrubjay doctor --scrub` later"
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        return (
            "another process is reading: run `scrubjay doctor --scrub` when it has finished" if busy else ""
        )

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def open_connection(path: str, *, read_only: bool, create: bool) -> sqlite3.Connection:
    """Open a memory's file, create it if asked, and bring its schema up to date."""
    if path != IN_MEMORY and not create and not Path(path).exists():
        raise NotFoundError(f"there is no memory at {path}")
    with translated_errors(path):
        connection = open_file(path, read_only=read_only)
        try:
            prepare_connection(connection, path, read_only=read_only)
        except BaseException:
            connection.close()
            raise
    return connection


def open_file(path: str, *, read_only: bool) -> sqlite3.Connection:
    if path == IN_MEMORY or not read_only:
        return connect(path, uri=False)
    uri = Path(path).absolute().as_uri()
    # Only a connection that may write takes its lock files away again; but one that finds a log would move it into
    # the file, so there we only read.
    connection = connect(f"{uri}?mode={'ro' if Path(f'{path}-wal').exists() else 'rw'}", uri=True)
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if Path(f"{path}-wal").exists():
            raise  # without its log, the file alone could be behind
        # SQLite puts a lock file beside a file in WAL mode; on a read-only disk nobody can write, so none is needed
        return connect(f"{uri}?mode=ro&immutable=1", uri=True)
    return connection


def file_identity(path: str) -> tuple[int, int] | None:
    """Give what tells a file from another that comes to have its name, None where there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def connect(target: str, *, uri: bool) -> sqlite3.Connection:
    return sqlite3.connect(
        target, uri=uri, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_MS / 1000
    )


def prepare_connection(connection: sqlite3.Connection, path: str, *, read_only: bool) -> None:
    version = stored_version(connection, path)
    if read_only and version < SCHEMA_VERSION:
        raise StoreReadOnlyError(
            f"{path} has schema {version}, this ScrubJay needs {SCHEMA_VERSION}: open it once for writing"
        )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # forgotten bytes are overwritten, not only unlinked
    if read_only:
        return
    use_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous = FULL")  # acknowledged means it survives a power cut
    if version < SCHEMA_VERSION:
        migrate(connection, path)
    remove_backups(path)


def use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch to WAL; SQLite doesn't wait for a lock here, so wait for another process doing the same."""
    give_up = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if (error.sqlite_errorcode & PRIMARY_CODE) != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(RETRY_SECONDS)
        else:
            return


def stored_version(connection: sqlite3.Connection, path: str) -> int:
    """Read the schema version, refusing a file that isn't a memory or comes from a newer ScrubJay."""
    row: tuple[int, int, int] = connection.execute(FILE_KIND).fetchone()
    application, version, tables = row
    if application != APPLICATION_ID and (tables or version):
        raise StoreCorruptError(f"{path} is not a ScrubJay memory: it is another program's SQLite file")
    if version > SCHEMA_VERSION:
        raise StoreNewerError(
            f"{path} was written by a newer ScrubJay (schema {version}, this one knows {SCHEMA_VERSION}): "
            "upgrade with pip install -U scrubjay"
        )
    return version


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the schema up to date in one transaction, keeping a copy of a file that holds data until that has worked.

    Processes that open an old file together wait here for the first, and find nothing left to do.
    """
    with transaction(connection):
        version = stored_version(connection, path)
        if 0 < version < SCHEMA_VERSION and path != IN_MEMORY:
            copy_file(path, backup_path(path, SCHEMA_VERSION))
        for number in range(version + 1, SCHEMA_VERSION + 1):
            MIGRATIONS[number - 1](connection)
            connection.execute("INSERT INTO migration VALUES (?, ?)", (number, time.time_ns() // 1000))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def copy_file(path: str, target: Path) -> None:
    """Copy what is committed in a memory's file and its log."""
    with closing(connect(path, uri=False)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def backup_path(path: str, version: int) -> Path:
    return Path(f"{path}.before-{version}")


def remove_backups(path: str) -> None:
    """Delete the copies that migrations made, also of one that was killed: they would keep what is forgotten later."""
    if path != IN_MEMORY:
        for version in range(2, SCHEMA_VERSION + 1):
            backup_path(path, version).unlink(missing_ok=True)


def remove_file(path: str) -> None:
    """Delete a memory's file and all that stands beside it.

    The file goes last: until it is gone nobody makes a new one, whose log would be deleted here.
    """
    for part in ("-wal", "-shm"):
        Path(f"{path}{part}").unlink(missing_ok=True)
    remove_backups(path)
    remove_vectors(path)
    Path(path).unlink(missing_ok=True)


@contextmanager
def transaction(connection: sqlite3.Connection, *, write: bool = True, keep: bool = True) -> Iterator[None]:
    """Run the block in one transaction: committed whole, or rolled back whole, as it is where it isn't to be kept."""
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
        connection.execute("COMMIT" if keep else "ROLLBACK")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
