"""A folder of memories, one file for each user id, whatever the id holds."""

from __future__ import annotations

import re
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from scrubjay.errors import InputError, NotFoundError, StoreClosedError
from scrubjay.memory import OWNER, Memory
from scrubjay.store.connection import Database, remove_file
from scrubjay.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

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


@dataclass(slots=True, kw_only=True, eq=False)
class OpenMemory:
    """A place for one user's memory, open or not, and who uses it."""

    name: str  # of its file
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while it is opened, closed or deleted
    memory: Memory | None = None
    borrowers: int = 0
    pinned: bool = False  # handed out until the home is closed
    closing: bool = False  # nobody used it for long: one borrower is about to close it


class MemoryHome:
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
        """Open nothing yet; `model` is what all memories ask, and its giver's to close."""
        if max_open < 1:
            raise InputError(f"max_open: expected at least 1, found {max_open}")
        self.folder = Path(folder)
        self._settings = settings
        self._embedder = embedder
        self._model = model
        self._max_open = max_open
        self._open: dict[str, OpenMemory] = {}  # the least recently used first
        self._owners: dict[str, str] = {}  # of hashed names, which never change hands
        self._lock = threading.Lock()

    def path(self, user_id: str) -> Path:
        return self.folder / file_name(user_id)

    def memory(self, user_id: str, *, create: bool = True) -> Memory:
        """Give the user's memory, opened once and kept until `close`; raise NotFoundError if not to create."""
        with self._borrowed(user_id, create=create) as place:
            place.pinned = True
            return self._require_open(place)

    @contextmanager
    def borrow(self, user_id: str, *, create: bool = True) -> Iterator[Memory]:
        """Give the user's memory, which isn't closed before the block ends; raise NotFoundError if not to create.

        Where the user is forgotten meanwhile, using it raises StoreClosedError.
        """
        with self._borrowed(user_id, create=create) as place:
            yield self._require_open(place)

    @staticmethod
    def _require_open(place: OpenMemory) -> Memory:
        if (memory := place.memory) is None:
            raise StoreClosedError(f"{place.name} was closed or forgotten just now: ask for it again")
        return memory

    @contextmanager
    def _borrowed(self, user_id: str, *, create: bool) -> Iterator[OpenMemory]:
        place = self._take(file_name(user_id))
        try:
            with place.lock:
                if place.memory is not None and place.memory.is_gone:  # another process forgot the user
                    close_place(place)
                if place.memory is None:
                    place.memory = self._open_memory(user_id, create=create)
            yield place
        finally:
            self._give_back(place)

    def _take(self, name: str) -> OpenMemory:
        """Count one more borrower; close memories that nobody uses where there are too many."""
        with self._lock:
            place = self._open.pop(name, None) or OpenMemory(name=name)
            self._open[name] = place
            place.borrowers += 1
        self._close_idle()
        return place

    def _give_back(self, place: OpenMemory) -> None:
        self._uncount(place)
        self._close_idle()

    def _uncount(self, place: OpenMemory, *, closing: bool = False) -> None:
        """Count one borrower less; the last takes away a place that isn't open, or that this home has left."""
        with self._lock:
            place.borrowers -= 1
            place.closing = place.closing and not closing
            is_left = self._open.get(place.name) is not place
            if not place.borrowers and not is_left and place.memory is None:
                del self._open[place.name]
        if is_left and not place.borrowers:
            with place.lock:
                close_place(place)

    def _close_idle(self) -> None:
        """Close as many as there are too many, of those that nobody uses.

        Each stays in its place until it is closed: whoever asks for it meanwhile waits, and opens it anew.
        """
        for place in self._claim_idle():
            try:
                self._close_unused(place)
            finally:
                self._uncount(place, closing=True)

    @staticmethod
    def _close_unused(place: OpenMemory) -> None:
        with place.lock:
            if place.borrowers == 1:  # nobody but this claim
                close_place(place)

    def _claim_idle(self) -> list[OpenMemory]:
        with self._lock:
            too_many = sum(not place.closing for place in self._open.values()) - self._max_open
            closable = (place for place in self._open.values() if not place.borrowers and not place.pinned)
            idle = list(islice(closable, max(too_many, 0)))
            for place in idle:
                place.borrowers += 1
                place.closing = True
            return idle

    def _open_memory(self, user_id: str, *, create: bool) -> Memory:
        path = self.path(user_id)
        if not create and not path.exists():
            raise NotFoundError(f"{self.folder} has no memory of user {user_id!r}")
        self.folder.mkdir(parents=True, exist_ok=True)
        memory = Memory(path, settings=self._settings, embedder=self._embedder, model=self._model)
        try:
            if memory.owner is None:
                memory.set_owner(user_id)
        except BaseException:
            memory.close()
            raise
        return memory

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

    def forget(self, user_id: str) -> bool:
        """Delete the user's memory, log and all; say whether there was one.

        Whoever has borrowed it gets StoreClosedError from then on.
        """
        place = self._take(file_name(user_id))
        try:
            with place.lock:
                close_place(place)
                place.pinned = False
                existed = self.path(user_id).exists()
                remove_file(str(self.path(user_id)))
        finally:
            self._give_back(place)
        return existed

    def close(self) -> None:
        """Close all memories, also those in use."""
        with self._lock:
            places = list(self._open.values())
            self._open.clear()
        for place in places:
            with place.lock:
                close_place(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def close_place(place: OpenMemory) -> None:
    """Close the memory, if it is open; hold the place's lock."""
    memory, place.memory = place.memory, None
    if memory is not None:
        memory.close()
