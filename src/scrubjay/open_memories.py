"""Memories of many users kept open for the next who asks: bounded, shared between threads, closed once unused."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Self

from scrubjay.errors import InputError, StoreClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from scrubjay.memory import Memory


def require_user(user_id: object) -> None:
    """Raise InputError for what can't be a user's id."""
    if not isinstance(user_id, str) or not user_id:
        raise InputError(f"a user id is text that isn't empty, found {user_id!r}")


def owned_by(memory: Memory, user_id: str) -> Memory:
    """Give a memory that was just opened, as its user's where it is new; it is closed where that fails."""
    try:
        if memory.owner is None:
            memory.set_owner(user_id)
    except BaseException:
        memory.close()
        raise
    return memory


@dataclass(slots=True, kw_only=True, eq=False)
class OpenMemory:
    """A place for one user's memory, open or not, and who uses it."""

    name: str
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while it is opened, closed or deleted
    memory: Memory | None = None
    borrowers: int = 0
    pinned: bool = False  # handed out until the home is closed
    closing: bool = False  # nobody used it for long: one borrower is about to close it


class OpenMemories:
    """Open memories by name, `max_open` of them at most but for those in use; the longest unused is closed first."""

    def __init__(self, max_open: int) -> None:
        if max_open < 1:
            raise InputError(f"max_open: expected at least 1, found {max_open}")
        self._max_open = max_open
        self._open: dict[str, OpenMemory] = {}  # the least recently used first
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self, name: str, open_memory: Callable[[], Memory], *, pin: bool = False) -> Iterator[Memory]:
        """Give the memory of this name, opened if need be; it isn't closed before the block ends, or `close` if pinned."""
        place = self._take(name)
        try:
            with place.lock:
                if place.memory is not None and place.memory.is_gone:  # another process forgot the user
                    close_place(place)
                if place.memory is None:
                    place.memory = open_memory()
            place.pinned = place.pinned or pin
            if (memory := place.memory) is None:
                raise StoreClosedError(f"{name} was closed or forgotten just now: ask for it again")
            yield memory
        finally:
            self._give_back(place)

    def remove(self, name: str, remove_stored: Callable[[], bool]) -> bool:
        """Close a memory, also where it is in use, and delete it before anybody opens it anew; say what that said."""
        place = self._take(name)
        try:
            with place.lock:
                close_place(place)
                place.pinned = False
                return remove_stored()
        finally:
            self._give_back(place)

    def close(self) -> None:
        """Close all memories, also those in use."""
        with self._lock:
            places = list(self._open.values())
            self._open.clear()
        for place in places:
            with place.lock:
                close_place(place)

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


def close_place(place: OpenMemory) -> None:
    """Close the memory, if it is open; hold the place's lock."""
    memory, place.memory = place.memory, None
    if memory is not None:
        memory.close()


class ClosedAtExit(ABC):
    """Something that a `with` block closes at its end."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class OpenHome(ClosedAtExit):
    """What homes of many users share: each memory is opened once, for all who ask, and owned by its user."""

    def __init__(self, max_open: int) -> None:
        self._open = OpenMemories(max_open)

    @abstractmethod
    def _open_stored(self, user_id: str, *, create: bool) -> Memory:
        """Open the user's memory, or make it; raise NotFoundError if not to create."""

    @abstractmethod
    def _remove_stored(self, user_id: str) -> bool:
        """Delete what is stored of the user; say whether there was anything."""

    def memory(self, user_id: str, *, create: bool = True) -> Memory:
        """Give the user's memory, opened once and kept until `close`; raise NotFoundError if not to create."""
        with self._borrowed(user_id, create=create, pin=True) as memory:
            return memory

    def borrow(self, user_id: str, *, create: bool = True) -> AbstractContextManager[Memory]:
        """Give the user's memory, which isn't closed before the block ends; raise NotFoundError if not to create.

        Where the user is forgotten meanwhile, using it raises StoreClosedError.
        """
        return self._borrowed(user_id, create=create)

    def _borrowed(self, user_id: str, *, create: bool, pin: bool = False) -> AbstractContextManager[Memory]:
        require_user(user_id)
        return self._open.borrow(user_id, lambda: self._open_owned(user_id, create=create), pin=pin)

    def _open_owned(self, user_id: str, *, create: bool) -> Memory:
        return owned_by(self._open_stored(user_id, create=create), user_id)

    def forget(self, user_id: str) -> bool:
        """Delete the user's memory, log and all; say whether there was one.

        Whoever has borrowed it gets StoreClosedError from then on, in other processes too.
        """
        require_user(user_id)
        return self._open.remove(user_id, lambda: self._remove_stored(user_id))

    def close(self) -> None:
        """Close all memories, also those in use."""
        self._open.close()
