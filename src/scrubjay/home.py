"""A folder of memories, one file for each user id, whatever the id holds."""

from __future__ import annotations

import re
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from scrubjay.errors import InputError, NotFoundError, StoreReadOnlyError
from scrubjay.memory import OWNER, Memory
from scrubjay.open_memories import ClosedAtExit, OpenHome, require_user
from scrubjay.store.connection import Database, remove_file
from scrubjay.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from scrubjay.llm import ChatModel
    from scrubjay.settings import Settings

PLAIN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
"""Ids that may name a file as they are: lower case only, so that two ids never meet on a disk that ignores case."""

RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
"""Names that mean a device on some systems, with any ending."""

SUFFIX = ".jay"
MAX_OPEN = 128  # memories; an open one holds three files, of the 1,024 that systems often allow
HASHED = "_"  # what a hashed name begins with, and a plain one can't


def file_name(user_id: str) -> str:
    """Give the file name of a user's memory; no two ids share one, and none leaves the folder."""
    require_user(user_id)
    if is_plain(user_id):
        return user_id + SUFFIX
    return f"{HASHED}{sha256(user_id.encode('utf-8', 'surrogatepass')).hexdigest()}{SUFFIX}"


def is_plain(user_id: str) -> bool:
    return PLAIN_ID.fullmatch(user_id) is not None and RESERVED.fullmatch(user_id) is None


def require_folder(folder: str | Path) -> Path:
    """Give a folder's path, whether it is there or not; raise InputError where something else is."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: the memories of many users are in a folder")
    return path


def make_folder(path: Path) -> None:
    """Make a folder, unless it is there; raise StoreReadOnlyError where that can't be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreReadOnlyError(f"the folder {path} can't be made ({error.strerror})") from error


def read_owner(path: Path) -> str | None:
    """Give whose memory a file is, without its embedder; None where its making was broken off, or it is gone."""
    try:
        database = Database(str(path), create=False)
    except NotFoundError:
        return None
    with closing(database):
        return SqliteStore(database).read_meta(OWNER)


class Home(Protocol):
    """The memories of many users, wherever they are kept."""

    def borrow(self, user_id: str, *, create: bool = True) -> AbstractContextManager[Memory]:
        """Give the user's memory, which isn't closed before the block ends; raise NotFoundError if not to create."""
        ...

    def users(self) -> tuple[str, ...]:
        """Give the ids of all users who have a memory here, sorted."""
        ...

    def forget(self, user_id: str) -> bool:
        """Delete the user's memory, log and all; say whether there was one."""
        ...

    def close(self) -> None: ...


class MemoryHome(OpenHome):
    """Memories of many users in one folder; each is a file of its own, so users can't meet.

    Safe to share between threads. Memories stay open for the next who asks, `max_open` of them at most but for those
    in use; the one that nobody used for longest is closed first.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        settings: Settings | None = None,
        embedder: str | None = None,
        model: ChatModel | None = None,
        max_open: int = MAX_OPEN,
    ) -> None:
        """Open nothing yet; `model` is what all memories ask, and its giver's to close.

        Raise InputError where the folder is something else.
        """
        super().__init__(max_open)
        self.folder = require_folder(folder)
        self._settings = settings
        self._embedder = embedder
        self._model = model
        self._owners: dict[str, str] = {}  # of hashed names, which never change hands

    def path(self, user_id: str) -> Path:
        return self.folder / file_name(user_id)

    def _open_stored(self, user_id: str, *, create: bool) -> Memory:
        path = self.path(user_id)
        if not create and not path.exists():
            raise NotFoundError(f"{self.folder} has no memory of user {user_id!r}")
        make_folder(self.folder)
        return Memory(path, settings=self._settings, embedder=self._embedder, model=self._model)

    def users(self) -> tuple[str, ...]:
        """Give the ids of all users who have a memory here, sorted."""
        names = [path.name for path in self.folder.glob(f"*{SUFFIX}")]
        plain = [name.removesuffix(SUFFIX) for name in names if is_plain(name.removesuffix(SUFFIX))]
        hashed = [self._owner(name) for name in names if name.startswith(HASHED)]
        return tuple(sorted([*plain, *(owner for owner in hashed if owner is not None)]))

    def _owner(self, name: str) -> str | None:
        owner = self._owners.get(name) or read_owner(self.folder / name)
        if owner is not None:
            self._owners[name] = owner
        return owner

    def _remove_stored(self, user_id: str) -> bool:
        path = self.path(user_id)
        existed = path.exists()
        remove_file(str(path))
        return existed


class FileHome(ClosedAtExit):
    """One memory's file as a home of one user: its owner, or else the one that its name says."""

    def __init__(
        self,
        path: str | Path,
        *,
        settings: Settings | None = None,
        embedder: str | None = None,
        model: ChatModel | None = None,
    ) -> None:
        """Open the memory; raise NotFoundError where there is none."""
        self._memory = Memory(path, settings=settings, embedder=embedder, model=model, create=False)
        self.user_id = self._memory.owner or Path(path).stem

    @contextmanager
    def borrow(self, user_id: str, *, create: bool = True) -> Iterator[Memory]:  # noqa: ARG002 -- as any Home; nobody else is taken in
        if user_id != self.user_id:
            raise NotFoundError(f"{self._memory.path} is the memory of {self.user_id!r}, not of {user_id!r}")
        yield self._memory

    def users(self) -> tuple[str, ...]:
        return (self.user_id,)

    def forget(self, user_id: str) -> bool:
        """Forget everything in the memory; the file stays, for it isn't this home's to delete."""
        with self.borrow(user_id) as memory:
            return memory.forget(everything=True).turns > 0

    def close(self) -> None:
        self._memory.close()
