"""Threads in which an asyncio program's calls run, so that its loop never waits for a disk or a model."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from scrubjay.errors import StoreClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

CALLS = 4  # a memory's calls take turns at its file, so more of them gain little
LONG = 4  # calls that a model takes part in, or that go through a whole memory
PATIENCE = 0.01  # seconds of a short call, past which it is taken to wait for a disk, a lock or a database


class Threads:
    """Two bounded pools: one for calls that take milliseconds, one for those that may take minutes.

    Threads are started when first needed, and end with `close`. Short calls compute one at a time; those that wait for
    something outside hold up nobody.
    """

    def __init__(self, *, calls: int = CALLS, long: int = LONG, one_by_one: OneByOne | None = None) -> None:
        self._calls = Pool(calls, "scrubjay-call")
        self._long = Pool(long, "scrubjay-long")
        self._one_by_one = one_by_one or OneByOne()

    def waiting(self, *, long: bool = False) -> int:
        """Count the short or long calls that no thread is left for."""
        return (self._long if long else self._calls).waiting

    async def read(self, call: Callable[[], T], *, long: bool = False) -> T:
        """Run a call that changes nothing; when cancelled, don't wait for it: what it finds is thrown away."""
        given_up = threading.Event()
        try:
            return await asyncio.wrap_future(self._submit(call, given_up, long=long))
        except asyncio.CancelledError:
            given_up.set()
            raise

    async def write(
        self, call: Callable[[], T], *, long: bool = False, stop: threading.Event | None = None
    ) -> T:
        """Run a call that changes something, and never leave it running behind the caller's back.

        When cancelled before it began, it doesn't begin; afterwards `stop` is set and its end waited for, then
        the cancellation goes on.
        """
        given_up = threading.Event()
        running = self._submit(call, given_up, long=long)
        waiting = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if stop is not None:
                stop.set()
            given_up.set()
            running.cancel()
            await outlast(waiting)
            raise

    def start(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Begin a long call and give its end; it runs on, whoever waits for it."""
        return asyncio.wrap_future(self._submit(call, threading.Event(), long=True))

    def _submit(self, call: Callable[[], T], given_up: threading.Event, *, long: bool) -> Future[T]:
        begin = call if long else partial(self._one_by_one.run, call, given_up)
        return (self._long if long else self._calls).submit(partial(contextvars.copy_context().run, begin))

    async def close(self) -> None:
        """Take no further calls, wait for those begun or waiting, and end the threads."""
        pools = (self._calls, self._long)
        for pool in pools:
            pool.shut(wait=False)
        for pool in pools:
            for running in list(pool.running):
                await outlast(asyncio.wrap_future(running))
        for pool in pools:
            pool.shut(wait=True)  # the threads have nothing left to do, so this returns at once


class Pool:
    """So many threads, and the calls that they run or that wait for them."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._executor = ThreadPoolExecutor(size, thread_name_prefix=name)
        self.running: set[Future[object]] = set()

    @property
    def waiting(self) -> int:
        return max(0, len(self.running) - self._size)

    def submit(self, call: Callable[[], T]) -> Future[T]:
        try:
            running = self._executor.submit(call)
        except RuntimeError as error:
            raise StoreClosedError("this memory was closed: open it again") from error
        kept: Future[object] = running  # type: ignore[assignment]  # a future of T is one of an object
        self.running.add(kept)
        kept.add_done_callback(self.running.discard)
        return running

    def shut(self, *, wait: bool) -> None:
        self._executor.shutdown(wait=wait)


class OneByOne:
    """Lets calls in one by one, about as they came; once one takes longer than `patience` seconds, the next is let in beside it.

    Python computes in one thread at a time, and lets go of the interpreter at each statement of SQL and each large step of
    numpy: threads that compute at once cost each other about as much again as they compute.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._changed = threading.Condition()
        self._order: deque[object] = deque()  # stands for the calls that wait
        self._last: object = None  # for the one that was let in last
        self._until = 0.0  # when the next is let in, though that one hasn't ended

    @property
    def waiting(self) -> int:
        """Calls that have a thread and aren't let in yet."""
        return len(self._order)

    def run(self, call: Callable[[], T], given_up: threading.Event) -> T:
        """Wait to be let in, and give what the call gives; raise CancelledError where nobody waits for it by then."""
        own = object()
        with self._changed:
            self._order.append(own)
            while self._order[0] is not own or self._until > time.monotonic():
                self._changed.wait(self._patience)
            self._order.popleft()
            self._last, self._until = own, time.monotonic() + self._patience
        try:
            if given_up.is_set():
                raise CancelledError
            return call()
        finally:
            with self._changed:
                if self._last is own:
                    self._until = 0.0
                    self._changed.notify_all()


async def outlast(waiting: asyncio.Future[T]) -> None:
    """Wait for the end of a call, whatever it is, also when cancelled again meanwhile."""
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            continue  # the caller raises it once the call has ended
    if not waiting.cancelled():
        waiting.exception()  # seen: it isn't reported as forgotten
