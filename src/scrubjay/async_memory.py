"""A memory for asyncio programs: the methods of `Memory`, each in a thread, so that the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext
from functools import partial, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from scrubjay.memory import Memory
from scrubjay.threads import Threads
from scrubjay.trace import ignore_progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from scrubjay import embed
    from scrubjay.answer import Answer, RecallOptions
    from scrubjay.datatypes import Turn
    from scrubjay.evidence import Evidence
    from scrubjay.home import Home
    from scrubjay.llm import ChatModel
    from scrubjay.settings import Settings
    from scrubjay.store.opening import Stores

P = ParamSpec("P")
T = TypeVar("T")
PAGE = 200  # turns fetched at a time


def reading(
    method: Callable[Concatenate[Memory, P], T], *, long: bool = False
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, T]]:
    """Make a coroutine method of one that changes nothing; cancelled, it is let go at once."""

    @wraps(method)
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.threads.read(partial(self.apply, method, *args, **kwargs), long=long)

    return call


def writing(
    method: Callable[Concatenate[Memory, P], T], *, long: bool = False
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, T]]:
    """Make a coroutine method of one that changes something; cancelled, it is waited for."""

    @wraps(method)
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.threads.write(partial(self.apply, method, *args, **kwargs), long=long)

    return call


def stepwise(
    method: Callable[Concatenate[Memory, P], T],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, T]]:
    """Make a coroutine method of one that tells `advance` of each step; cancelled, it ends with the step under way."""

    @wraps(method)
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        stop = threading.Event()
        tell: Any = kwargs.get("advance", ignore_progress)

        def advance(*done: int) -> None:
            tell(*done)
            if stop.is_set():
                raise CancelledError

        kwargs["advance"] = advance
        return await self.threads.write(partial(self.apply, method, *args, **kwargs), long=True, stop=stop)

    return call


class AsyncMemory:
    """A `Memory` whose methods are awaited; they take and return the same, and raise the same errors.

    A call that only reads is let go when it is cancelled. One that writes is waited for, so nothing goes on behind
    your back; consolidation and other work in steps ends after the step under way, and goes on when it is run again.
    Functions given as `advance` are called in another thread.
    """

    def __init__(
        self,
        memory: Memory | Callable[[], AbstractContextManager[Memory]],
        *,
        threads: Threads | None = None,
    ) -> None:
        """Wrap an open memory, which `close` then closes, or a function that lends one for each call.

        Threads that are given are shared, and not ended by `close`.
        """
        if isinstance(memory, Memory):
            self._memory: Memory | None = memory
            self._borrow: Callable[[], AbstractContextManager[Memory]] = lambda: nullcontext(memory)
        else:
            self._memory, self._borrow = None, memory
        self._own_threads = threads is None
        self.threads = threads or Threads()

    @classmethod
    async def open(  # noqa: PLR0913 -- those of Memory
        cls,
        path: str | Path | Stores,
        *,
        settings: Settings | None = None,
        embedder: str | embed.Embedder | None = None,
        model: ChatModel | None = None,
        consolidate: str | None = None,
        read_only: bool = False,
        create: bool = True,
        user_id: str | None = None,
    ) -> Self:
        """Open a memory, or create it, as `Memory` does."""
        opening = partial(
            Memory,
            path,
            settings=settings,
            embedder=embedder,
            model=model,
            consolidate=consolidate,
            read_only=read_only,
            create=create,
            user_id=user_id,
        )
        opened, threads = ExitStack(), Threads()
        try:
            memory = await threads.write(lambda: opened.enter_context(opening()))
        except BaseException:
            opened.close()
            raise
        finally:
            await threads.close()
        return cls(memory)

    @classmethod
    def of_user(
        cls, home: Home, user_id: str, *, create: bool = True, threads: Threads | None = None
    ) -> Self:
        """Give a user's memory in a home, which is borrowed anew for each call and never closed from here."""
        return cls(partial(home.borrow, user_id, create=create), threads=threads)

    def apply(self, method: Callable[Concatenate[Memory, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function with the memory as its first argument, here and now: in one of the threads."""
        with self._borrow() as memory:
            return method(memory, *args, **kwargs)

    async def run(
        self, function: Callable[Concatenate[Memory, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a function of your own on the memory in a thread, such as one that reads `memory.records`."""
        return await self.threads.write(partial(self.apply, function, *args, **kwargs))

    # --- WRITE ---

    add = writing(Memory.add)
    add_many = stepwise(Memory.add_many)
    consolidate = stepwise(Memory.consolidate)
    reconsolidate = stepwise(Memory.reconsolidate)
    plan_consolidation = reading(Memory.plan_consolidation, long=True)
    plan_reconsolidation = reading(Memory.plan_reconsolidation, long=True)

    # --- READ ---

    recall = reading(Memory.recall)
    search = reading(Memory.search)
    answer = reading(Memory.answer, long=True)

    async def answer_stream(self, question: str, **options: Unpack[RecallOptions]) -> AsyncAnswerStream:
        """Answer as `answer` does, piece by piece: iterate over what this gives, then read its `answer`."""
        stream = AsyncAnswerStream(self, question, options)
        await stream.begin()
        return stream

    # --- the log ---

    async def turns(self, *, session_id: str | None = None, after: str | None = None) -> AsyncIterator[Turn]:
        """Give turns as they were said, in the order of sessions, past the turn `after`; raise NotFoundError for an unknown one."""
        async with self._held() as memory:
            turns = await self.threads.read(lambda: memory.turns(session_id=session_id, after=after))
            while page := await self.threads.read(lambda: list(islice(turns, PAGE))):
                for turn in page:
                    yield turn

    turn = reading(Memory.turn)
    sessions = reading(Memory.sessions)
    forget = writing(Memory.forget)
    export = writing(Memory.export, long=True)
    import_ = writing(Memory.import_, long=True)

    # --- care ---

    status = reading(Memory.status)
    doctor = writing(Memory.doctor, long=True)
    reembed = stepwise(Memory.reembed)
    set_owner = writing(Memory.set_owner)

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[Memory]:
        """Borrow the memory for several calls."""
        stack = ExitStack()
        try:
            yield await self.threads.write(lambda: stack.enter_context(self._borrow()))
        finally:
            await self.threads.write(stack.close)

    async def close(self) -> None:
        """Close the memory and end the threads; a model under way is broken off, and later calls raise StoreClosedError."""
        if self._memory is not None:
            await self.threads.write(self._memory.close)
        if self._own_threads:
            await self.threads.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncAnswerStream:
    """An answer as it is written: iterate over its pieces, once; then `answer` is all of it.

    `aclose`, or leaving `async with`, ends it early: the model is stopped at its next piece.
    """

    def __init__(self, memory: AsyncMemory, question: str, options: RecallOptions) -> None:
        self.evidence: Evidence
        self.answer: Answer | None = None
        self._memory = memory
        self._write = partial(self._pump, question, options)
        self._told: asyncio.Queue[Evidence | str | None] = asyncio.Queue()
        self._stop = threading.Event()
        self._end: asyncio.Future[Answer | None]

    async def begin(self) -> None:
        """Start to write, and wait for the evidence; raise what recall raises."""
        loop = asyncio.get_running_loop()
        self._end = self._memory.threads.start(partial(self._memory.apply, self._write, loop))
        self._end.add_done_callback(self._tell_end)
        try:
            first = await self._told.get()
        except BaseException:
            self._stop.set()
            raise
        if first is None:
            await self._end  # raises
        else:
            self.evidence = first  # type: ignore[assignment]  # always told first

    def _tell_end(self, end: asyncio.Future[Answer | None]) -> None:
        self._told.put_nowait(None)
        if not end.cancelled():
            end.exception()  # seen: an answer that nobody waits for any more is no forgotten error

    def _pump(
        self, question: str, options: RecallOptions, memory: Memory, loop: asyncio.AbstractEventLoop
    ) -> Answer | None:
        """Write the answer in this thread, and tell the loop of each piece."""
        stream = memory.answer_stream(question, **options)
        loop.call_soon_threadsafe(self._told.put_nowait, stream.evidence)
        pieces = iter(stream)
        for piece in pieces:
            if self._stop.is_set():
                break
            loop.call_soon_threadsafe(self._told.put_nowait, piece)
        if isinstance(pieces, Generator):
            pieces.close()
        return stream.answer

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        piece = await self._told.get()
        if isinstance(piece, str):
            return piece
        self._told.put_nowait(None)  # for whoever asks once more
        self.answer = await asyncio.shield(self._end)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Write no further piece; what was written so far is thrown away by the model."""
        self._stop.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
