"""A folder of memories, one file for each user id, whatever the id holds."""

from __future__ import annotations

import re
import threading
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrubjay.errors import InputError, NotFoundError
from scrubjay.memory import OWNER, Memory
from scrubjay.store.connection import Database, remove_file
from scrubjay.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from types import TracebackType

    from scrubjay.settings import Settings

PLAIN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
"""Ids that may name a file as they are: lower case only, so that two ids never meet on a disk that ignores case."""

RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
"""Names that mean a device on some systems, with any ending."""

SUFFIX = ".jay"
HASHED = "_"  # what a hashed name begins with, and a plain one can't


def file_name(user_id: str) -> str:
    """Give the file name of a user's memory; no two ids share one, and none leaves the folder."""
    if not isinstance(user_id, str) or not user_id:
        raise InputError(f"a user id is text that isn't empty, found {user_id!r}")
    if is_plain(user_id):
        return user_id + SUFFIX
    return f"{HASHED}{sha256(user_id.encode('utf-8', 'surrogatepass')).hexdigest()}{SUFFIX}"


def is_plain(user_id: str) -> bool:
    return PLAIN_ID.fullmatch(user_id) is not None and RESERVED.fullmatch(user_id) is None


def read_owner(path: Path) -> str | None:
    """Give whose memory a file is, without its embedder; None where its making was broken off, or it is gone."""
    try:
        database = Database(str(path), create=False)
    except NotFoundError:
        return None
    with closing(database):
        return SqliteStore(database).read_meta(OWNER)


class MemoryHome:
    """Memories of many users in one folder; each is a file of its own, so users can't meet."""

    def __init__(
        self, folder: str | Path, *, settings: Settings | None = None, embedder: str | None = None
    ) -> None:
        self.folder = Path(folder)
        self._settings = settings
        self._embedder = embedder
        self._open: dict[str, Memory] = {}
        self._lock = threading.Lock()

    def path(self, user_id: str) -> Path:
        return self.folder / file_name(user_id)

    def memory(self, user_id: str, *, create: bool = True) -> Memory:
        """Give the user's memory, opened once and kept until `close`; raise NotFoundError if not to create."""
        name = file_name(user_id)
        with self._lock:
            memory = self._open.get(name)
            if memory is not None and memory.is_gone:  # another process forgot the user
                self._open.pop(name).close()
                memory = None
            if memory is None:
                memory = self._open[name] = self._open_memory(user_id, create=create)
            return memory

    def _open_memory(self, user_id: str, *, create: bool) -> Memory:
        path = self.path(user_id)
        if not create and not path.exists():
            raise NotFoundError(f"{self.folder} has no memory of user {user_id!r}")
        self.folder.mkdir(parents=True, exist_ok=True)
        memory = Memory(path, settings=self._settings, embedder=self._embedder)
        try:
            if memory.owner is None:
                memory.set_owner(user_id)
        except BaseException:
            memory.close()
            raise
        return memory

    def users(self) -> tuple[str, ...]:
        """Give the ids of all users who have a memory here, sorted."""
        names = {path.name: path for path in self.folder.glob(f"*{SUFFIX}")}
        plain = [name.removesuffix(SUFFIX) for name in names if is_plain(name.removesuffix(SUFFIX))]
        hashed = [read_owner(path) for name, path in names.items() if name.startswith(HASHED)]
        return tuple(sorted([*plain, *(owner for owner in hashed if owner is not None)]))

    def forget(self, user_id: str) -> bool:
        """Delete the user's memory, log and all; say whether there was one."""
        name = file_name(user_id)
        with self._lock:
            memory = self._open.pop(name, None)
            if memory is not None:
                memory.close()
            existed = self.path(user_id).exists()
            remove_file(str(self.path(user_id)))
        return existed

    def close(self) -> None:
        with self._lock:
            for memory in self._open.values():
                memory.close()
            self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
