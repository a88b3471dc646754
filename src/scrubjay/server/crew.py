"""The processes of one server: who of them lives, and what they tell each other, in a folder that ends with the server."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scrubjay.store.connection import transaction

if TYPE_CHECKING:
    from pathlib import Path

    from scrubjay.datatypes import JsonValue

WAIT_SECONDS = 10.0  # for another process that is telling something
NO_FILE = ":memory:"
METRICS = "metrics"  # the folder of counts, which every process adds to
SCHEMA = """
CREATE TABLE IF NOT EXISTS operation (
    number INTEGER PRIMARY KEY, operation_id TEXT NOT NULL UNIQUE, user_id TEXT NOT NULL, process INTEGER NOT NULL,
    is_running INTEGER NOT NULL, document TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS one_at_a_time ON operation (user_id) WHERE is_running;
"""
STOPPED = "json_set(document, '$.state', 'stopped', '$.ended_at', ?)"


class Crew:
    """Says which processes live: each holds a lock in the folder, which no death outlasts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._own = self._lock_file(os.getpid(), wait=WAIT_SECONDS)
        self._own.execute("BEGIN EXCLUSIVE")

    def _lock_file(self, process: int, *, wait: float) -> sqlite3.Connection:
        path = self.folder / f"{process}.lock"
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=wait)

    def lives(self, process: int) -> bool:
        if process == os.getpid():
            return True
        with closing(self._lock_file(process, wait=0)) as held:
            try:
                held.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                return True
        return False

    def close(self) -> None:
        self._own.close()


class Board:
    """What is told of operations, to every process of the server; lost with it.

    An operation whose process died has stopped, as soon as anybody asks.
    """

    def __init__(self, crew: Crew | None = None) -> None:
        self._crew = crew
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            place = NO_FILE if self._crew is None else str(self._crew.folder / "operations.db")
            self._connection = sqlite3.connect(
                place, isolation_level=None, check_same_thread=False, timeout=WAIT_SECONDS
            )
            self._connection.execute("PRAGMA synchronous = OFF")  # it need not outlast the server
            self._connection.executescript(SCHEMA)
        return self._connection

    def begin(self, operation_id: str, user_id: str, document: dict[str, JsonValue]) -> str | None:
        """Put up an operation; where the user has one under way, give its id instead."""
        with self._lock, transaction(self._open()):
            for running, process in self._rows(
                "SELECT operation_id, process FROM operation WHERE user_id = ? AND is_running", user_id
            ):
                if self._lives(int(process)):
                    return str(running)
                self._stop(str(running))
            self._rows(
                "INSERT INTO operation (operation_id, user_id, process, is_running, document) VALUES (?, ?, ?, 1, ?)",
                operation_id,
                user_id,
                os.getpid(),
                json.dumps(document),
            )
        return None

    def tell(self, operation_id: str, document: dict[str, JsonValue], *, is_running: bool) -> None:
        """Say how far an operation is, or how it ended."""
        with self._lock:
            self._rows(
                "UPDATE operation SET document = ?, is_running = ? WHERE operation_id = ?",
                json.dumps(document),
                int(is_running),
                operation_id,
            )

    def find(self, user_id: str, operation_id: str) -> dict[str, JsonValue] | None:
        """Give what was last told of a user's operation, None where there is none."""
        asked = "SELECT document, process, is_running FROM operation WHERE operation_id = ? AND user_id = ?"
        with self._lock:
            found = self._rows(asked, operation_id, user_id)
            if found and found[0][2] and not self._lives(int(found[0][1])):
                self._stop(operation_id)
                found = self._rows(asked, operation_id, user_id)
        told: dict[str, JsonValue] | None = json.loads(str(found[0][0])) if found else None
        return told

    def drop_oldest(self, *, kept: int) -> None:
        """Forget the oldest operations that ended, so that so many are left."""
        with self._lock:
            self._rows(
                "DELETE FROM operation WHERE number IN (SELECT number FROM operation WHERE NOT is_running ORDER BY number "
                "LIMIT max(0, (SELECT count(*) FROM operation) - ?))",
                kept,
            )

    def _lives(self, process: int) -> bool:
        return self._crew is None or self._crew.lives(process)

    def _stop(self, operation_id: str) -> None:
        self._rows(
            f"UPDATE operation SET is_running = 0, document = {STOPPED} WHERE operation_id = ? AND is_running",
            datetime.now(UTC).isoformat(),
            operation_id,
        )

    def _rows(self, statement: str, *values: str | int) -> list[tuple[str | int, ...]]:
        return self._open().execute(statement, values).fetchall()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
