"""API keys: who may do what with whose memories. Only a hash of each is kept."""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import sqlite3
import threading
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrubjay.errors import InputError, NotFoundError
from scrubjay.store.connection import translated_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYS_FILE = "keys.db"  # in a home's folder, where every memory ends in .jay
KEY = re.compile(r"sj_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
ANYBODY = "*"
SCHEMA = (
    "CREATE TABLE key (key_id TEXT PRIMARY KEY, name TEXT NOT NULL, hash BLOB NOT NULL, "
    "rights TEXT NOT NULL, users TEXT NOT NULL, created_at TEXT NOT NULL, revoked_at TEXT) STRICT"
)
COLUMNS = "key_id, name, rights, users, created_at, revoked_at"
WAIT_SECONDS = 5.0  # for another process that is writing a key


class Right(StrEnum):
    """What a key may do with the memories it is for; each right holds those before it."""

    READ = "read"  # ask, list, export
    WRITE = "write"  # and add turns, have a model make records of them
    ADMIN = "admin"  # and forget


RIGHTS = tuple(Right)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is kept: without its secret."""

    key_id: str
    name: str  # for people
    right: Right
    users: tuple[str, ...]  # patterns of user ids: * is any text, ? any character, [*] a star
    created_at: datetime
    revoked_at: datetime | None

    def allows(self, right: Right) -> bool:
        return RIGHTS.index(right) <= RIGHTS.index(self.right)

    def covers(self, user_id: str) -> bool:
        return any(fnmatchcase(user_id, pattern) for pattern in self.users)


class KeyRing:
    """The keys of a server in one SQLite file, which commands and servers may use together.

    The file is made with the first key.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @property
    def has_keys(self) -> bool:
        """Whether there was ever a key: one that was revoked doesn't leave the door open."""
        if not self.path.exists():
            return False
        return bool(self._read("SELECT 1 FROM key LIMIT 1"))

    def add(self, name: str, *, right: Right, users: Sequence[str] = (ANYBODY,)) -> tuple[ApiKey, str]:
        """Make a key and give it with its text, which is kept nowhere."""
        if not name or not users or not all(users):
            raise InputError("a key needs a name, and one user or more; '*' stands for all")
        key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        row = (key_id, name, hash_secret(secret), right.value, json.dumps(list(users)), now)
        self._create()
        with self._lock, translated_errors(str(self.path)):
            self._open().execute("INSERT INTO key VALUES (?, ?, ?, ?, ?, ?, NULL)", row)
        return self.key(key_id), f"sj_{key_id}_{secret}"

    def key(self, key_id: str) -> ApiKey:
        """Give a key by its id; raise NotFoundError where there is none."""
        found = self._read(f"SELECT {COLUMNS} FROM key WHERE key_id = ?", key_id)
        if not found:
            raise NotFoundError(f"{self.path} has no key {key_id!r}")
        return read_key(found[0])

    def keys(self) -> tuple[ApiKey, ...]:
        """Give all keys, the oldest first."""
        return tuple(read_key(row) for row in self._read(f"SELECT {COLUMNS} FROM key ORDER BY rowid"))

    def revoke(self, key_id: str) -> ApiKey:
        """End a key from now on; raise NotFoundError where there is none."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.key(key_id)
        with self._lock, translated_errors(str(self.path)):
            self._open().execute(
                "UPDATE key SET revoked_at = ? WHERE key_id = ? AND revoked_at IS NULL", (now, key_id)
            )
        return self.key(key_id)

    def find(self, text: str) -> ApiKey | None:
        """Give the key of a text that a caller sent, None for one that isn't there or was revoked."""
        parts = KEY.fullmatch(text)
        if parts is None:
            return None
        found = self._read(f"SELECT {COLUMNS}, hash FROM key WHERE key_id = ?", parts[1])
        kept = found[0][-1] if found else bytes(32)
        if not hmac.compare_digest(kept, hash_secret(parts[2])) or not found:
            return None
        key = read_key(found[0][:-1])
        return None if key.revoked_at is not None else key

    def _read(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        if not self.path.exists():
            return []
        with self._lock, translated_errors(str(self.path)):
            return self._open().execute(statement, values).fetchall()

    def _create(self) -> None:
        """Make the file, unless it is there: whole when it gets its name, and for nobody else to read."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            return
        made = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
        os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            with translated_errors(str(made)), closing(connect(made)) as connection:
                connection.execute(SCHEMA)
            with suppress(FileExistsError):  # another process was first
                self.path.hardlink_to(made)
        finally:
            made.unlink()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self.path)
        return self._connection

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=WAIT_SECONDS)


def hash_secret(secret: str) -> bytes:
    """Hash a secret of 256 random bits, which nobody can guess: it needs no slow hash."""
    return sha256(secret.encode()).digest()


def read_key(row: Sequence[Any]) -> ApiKey:
    key_id, name, rights, users, created_at, revoked_at = row
    return ApiKey(
        key_id=key_id,
        name=name,
        right=Right(rights),
        users=tuple(json.loads(users)),
        created_at=datetime.fromisoformat(created_at),
        revoked_at=None if revoked_at is None else datetime.fromisoformat(revoked_at),
    )
