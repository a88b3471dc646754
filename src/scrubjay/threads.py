"""Threads in which an asyncio program's calls run, so that its loop never waits for a disk or a model."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from scrubjay.errors import StoreClosedError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

T = TypeVar("T")

CALLS = 4  # a memory's calls take turns at its file, so more of them gain little
LONG = 4  # calls that a model takes part in, or that go through a whole memory


class Threads:
    """Two bounded pools: one for calls that take milliseconds, one for those that may take minutes.

    Threads are started when first needed, and end with `close`.
    """

    def __init__(self, *, calls: int = CALLS, long: int = LONG) -> None:
        self._calls = ThreadPoolExecutor(calls, thread_name_prefix="scrubjay-call")
        self._long = ThreadPoolExecutor(long, thread_name_prefix="scrubjay-long")
        self._running: set[Future[object]] = set()

    async def read(self, call: Callable[[], T], *, long: bool = False) -> T:
        """Run a call that changes nothing; when cancelled, don't wait for it: what it finds is thrown away."""
        return await asyncio.wrap_future(self._submit(call, long=long))

    async def write(
        self, call: Callable[[], T], *, long: bool = False, stop: threading.Event | None = None
    ) -> T:
        """Run a call that changes something, and never leave it running behind the caller's back.

        When cancelled before it began, it doesn't begin; afterwards `stop` is set and its end waited for, then
        the cancellation goes on.
        """
        running = self._submit(call, long=long)
        waiting = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if stop is not None:
                stop.set()
            running.cancel()
            await outlast(waiting)
            raise

    def start(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Begin a long call and give its end; it runs on, whoever waits for it."""
        return asyncio.wrap_future(self._submit(call, long=True))

    def _submit(self, call: Callable[[], T], *, long: bool) -> Future[T]:
        pool = self._long if long else self._calls
        try:
            running = pool.submit(partial(contextvars.copy_context().run, call))
        except RuntimeError as error:
            raise StoreClosedError("this memory was closed: open it again") from error
        kept: Future[object] = running  # type: ignore[assignment]  # a future of T is one of an object
        self._running.add(kept)
        kept.add_done_callback(self._running.discard)
        return running

    async def close(self) -> None:
        """Take no further calls, wait for those begun or waiting, and end the threads."""
        for pool in (self._calls, self._long):
            pool.shutdown(wait=False)
        for running in list(self._running):
            await outlast(asyncio.wrap_future(running))
        for pool in (self._calls, self._long):
            pool.shutdown()  # the threads have nothing left to do, so this returns at once


async def outlast(waiting: asyncio.Future[T]) -> None:
    """Wait for the end of a call, whatever it is, also when cancelled again meanwhile."""
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            continue  # the caller raises it once the call has ended
    if not waiting.cancelled():
        waiting.exception()  # seen: it isn't reported as forgotten
