"""AsyncMemory does what Memory does, off the event loop, and leaves nothing running behind."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from models import scripted_model
from scribes import Scribe, open_eager, told
from small_memories import (
    EMBEDDER,
    PATIENCE,
    conversation,
    database_of,
    fill,
    open_memory,
    texts,
    wait_until,
)

from scrubjay.async_memory import AsyncMemory
from scrubjay.datatypes import NewTurn, Role
from scrubjay.errors import (
    EmbedderMismatchError,
    InputError,
    ModelError,
    NotFoundError,
    StoreClosedError,
    TurnError,
)
from scrubjay.home import MemoryHome
from scrubjay.memory import Memory
from scrubjay.threads import OneByOne, Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from scrubjay.llm import ChatRequest


def public_methods(kind: type) -> dict[str, Callable[..., object]]:
    return {name: value for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}


def test_the_methods_are_those_of_memory() -> None:
    """Every method of Memory is there and takes the same arguments; those it has beyond are its own."""
    given, made = public_methods(Memory), public_methods(AsyncMemory)
    assert given.keys() <= made.keys()
    assert made.keys() - given.keys() == {"run", "apply"}
    for name, method in given.items():
        assert inspect.signature(made[name]).parameters == inspect.signature(method).parameters, name
        assert inspect.iscoroutinefunction(made[name]) or inspect.isasyncgenfunction(made[name]), name
    opening = inspect.signature(AsyncMemory.open).parameters
    assert dict(opening) == {
        name: parameter
        for name, parameter in inspect.signature(Memory.__init__).parameters.items()
        if name != "self"
    }


def test_a_memory_used_from_a_loop(tmp_path: Path) -> None:
    """What is added is found, listed, exported and forgotten as with Memory, by the same errors too."""

    async def use() -> None:
        async with await AsyncMemory.open(tmp_path / "memory.jay", embedder=EMBEDDER) as memory:
            assert (await memory.add_many(conversation())).added == 11
            assert "pistachio" in (await memory.recall("Which colour did Mira paint the kitchen?")).text
            assert (await memory.search("bassoon", limit=1))[0].turn.session_id == "kitchen"
            assert (await memory.sessions())[0].session_id == "kitchen"
            assert len([turn async for turn in memory.turns()]) == 11
            assert [turn.index async for turn in memory.turns(session_id="ferry")] == [0, 1, 2]
            assert (await memory.turn("ferry:0")).text.startswith("The ferry")
            assert await memory.export(tmp_path / "out.jsonl") == 11
            assert (await memory.import_(tmp_path / "out.jsonl")).unchanged == 11
            assert (await memory.forget(session="ferry")).turns == 3
            assert (await memory.status()).totals.turns == 8
            assert await memory.reembed("hash:32") == 8
            assert await memory.doctor() == ()
            assert (await memory.plan_consolidation(flush=True)).segments >= 2
            assert await memory.run(lambda opened: len(list(opened.records.records()))) == 0
            with pytest.raises(NotFoundError):
                await memory.turn("ferry:0")
            with pytest.raises(NotFoundError):
                [turn async for turn in memory.turns(session_id="ferry")]
            with pytest.raises(TurnError):
                await memory.add({"role": "nobody", "content": "?"}, session_id="s")
        with pytest.raises(StoreClosedError):
            await memory.sessions()

    asyncio.run(use())


def test_opening_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Where a memory can't be opened the error is Memory's, and no thread is left."""
    open_memory(tmp_path / "memory.jay").close()
    before = set(threading.enumerate())

    async def use() -> None:
        with pytest.raises(EmbedderMismatchError):
            await AsyncMemory.open(tmp_path / "memory.jay", embedder="hash:32")
        with pytest.raises(NotFoundError):
            await AsyncMemory.open(tmp_path / "none.jay", create=False)

    asyncio.run(use())
    assert set(threading.enumerate()) <= before


# --- the loop goes on ---


def until_it_ticks(loop: asyncio.AbstractEventLoop) -> None:
    """Wait, in a thread of a call, until the loop has done something else."""
    ticked = threading.Event()
    loop.call_soon_threadsafe(ticked.set)
    assert ticked.wait(PATIENCE)


def test_the_loop_ticks_during_a_write(tmp_path: Path) -> None:
    """While a thousand turns are stored, batch by batch, and while an add waits for the file, the loop goes on."""
    turns = [("monday", NewTurn(role=Role.USER, text=f"turn number {n} of many")) for n in range(1_000)]

    async def use() -> None:
        loop, done = asyncio.get_running_loop(), list[int]()

        def advance(count: int) -> None:
            until_it_ticks(loop)
            done.append(count)

        async with await AsyncMemory.open(tmp_path / "memory.jay", embedder=EMBEDDER) as memory:
            await memory.add_many(turns, advance=advance)
            assert len(done) > 1
            assert done[-1] == 1_000
            with open_memory(tmp_path / "memory.jay") as other, database_of(other).write():
                adding = asyncio.create_task(memory.add({"role": "user", "content": "waits"}, session_id="s"))
                await asyncio.sleep(0.01)
            assert (await adding).added == 1

    asyncio.run(use())


def test_the_loop_ticks_during_consolidation(tmp_path: Path) -> None:
    """While a model is asked for one segment after the other, the loop goes on, and recalls are answered beside it."""

    async def use() -> None:
        loop, answered = asyncio.get_running_loop(), threading.Event()

        def until_recalled(_request: ChatRequest) -> None:
            until_it_ticks(loop)
            assert answered.wait(PATIENCE)

        scribe = Scribe(before=until_recalled)
        async with AsyncMemory(open_eager(tmp_path / "memory.jay", scribe)) as memory:
            await memory.add_many(conversation())
            running = asyncio.create_task(memory.consolidate(flush=True))
            for _ in range(11):
                assert (await memory.recall("bassoon")).links
                answered.set()
            assert (await running).encoded == 11

    asyncio.run(use())


def test_ten_thousand_calls_leave_no_threads(tmp_path: Path) -> None:
    """Ten thousand calls at once are served by a bounded number of threads, which end with the memory."""
    before = set(threading.enumerate())

    async def use() -> None:
        async with AsyncMemory(fill(open_memory(tmp_path / "memory.jay")), threads=None) as memory:
            found = await asyncio.gather(*(memory.turn("ferry:1") for _ in range(10_000)))
            assert {turn.turn_id for turn in found} == {"ferry:1"}
            assert len(set(threading.enumerate()) - before) <= 4

    asyncio.run(use())
    assert set(threading.enumerate()) <= before


# --- cancelled ---


async def cancelled(
    call: Coroutine[object, object, object],
    begun: threading.Event,
    then: Callable[[], object] = lambda: None,
) -> None:
    """Cancel a call once it has begun, do something when it knows, and wait for its end."""
    task = asyncio.create_task(call)
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    then()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_write_is_waited_for(tmp_path: Path) -> None:
    """A write that is cancelled has ended when the cancellation arrives: what was stored is whole and visible."""
    begun, may_end = threading.Event(), threading.Event()

    def slow(memory: Memory) -> None:
        begun.set()
        assert may_end.wait(PATIENCE)
        memory.add({"role": "user", "content": "said late"}, session_id="s")

    async def use() -> None:
        async with AsyncMemory(open_memory(tmp_path / "memory.jay")) as memory:
            await cancelled(memory.run(slow), begun, may_end.set)
            assert [turn.text async for turn in memory.turns()] == ["said late"]

    asyncio.run(use())


def test_a_write_cancelled_before_it_began(tmp_path: Path) -> None:
    """A write that still waits for a thread when it is cancelled stores nothing."""
    begun, may_end = threading.Event(), threading.Event()

    async def use() -> None:
        threads = Threads(calls=1, long=1)
        memory = AsyncMemory(open_memory(tmp_path / "memory.jay"), threads=threads)
        holding = asyncio.create_task(threads.read(lambda: begun.set() or may_end.wait(PATIENCE)))  # type: ignore[func-returns-value]
        waiting = asyncio.create_task(memory.add({"role": "user", "content": "never said"}, session_id="s"))
        await asyncio.sleep(0)
        await cancelled(asyncio.wait_for(waiting, None), begun)
        may_end.set()
        await holding
        assert await memory.sessions() == ()
        await memory.close()
        await threads.close()

    asyncio.run(use())


def test_a_write_cancelled_while_others_compute(tmp_path: Path) -> None:
    """A write that has a thread, and waits for its turn there when it is cancelled, stores nothing either."""
    begun, may_end = threading.Event(), threading.Event()

    async def use() -> None:
        one_by_one = OneByOne(60)
        memory = open_memory(tmp_path / "memory.jay")
        threads = Threads(one_by_one=one_by_one)
        holding = asyncio.create_task(threads.read(lambda: begun.set() or may_end.wait(PATIENCE)))  # type: ignore[func-returns-value]
        await asyncio.to_thread(begun.wait, PATIENCE)
        add = partial(memory.add, {"role": "user", "content": "never said"}, session_id="s")
        waiting = asyncio.create_task(threads.write(add))
        await asyncio.to_thread(wait_until, lambda: one_by_one.waiting)
        waiting.cancel()
        await asyncio.sleep(0)
        may_end.set()
        await holding
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert memory.sessions() == ()
        await threads.close()
        memory.close()

    asyncio.run(use())


def test_a_cancelled_read_is_let_go(tmp_path: Path) -> None:
    """A read that is cancelled isn't waited for."""
    begun, may_end = threading.Event(), threading.Event()

    async def use() -> None:
        threads = Threads()
        memory = AsyncMemory(open_memory(tmp_path / "memory.jay"), threads=threads)
        await cancelled(threads.read(lambda: begun.set() or may_end.wait(PATIENCE)), begun)  # type: ignore[func-returns-value]
        assert not may_end.is_set()
        may_end.set()
        await memory.close()
        await threads.close()

    asyncio.run(use())


def test_a_cancelled_consolidation_goes_on_later(tmp_path: Path) -> None:
    """A consolidation that is cancelled ends after the segment under way; the next one does the rest, nothing twice."""
    begun, may_end = threading.Event(), threading.Event()
    scribe = Scribe(before=lambda _: begun.set() or may_end.wait(PATIENCE))  # type: ignore[func-returns-value]

    async def use() -> None:
        async with AsyncMemory(open_eager(tmp_path / "memory.jay", scribe)) as memory:
            await memory.add_many(conversation())
            await cancelled(memory.consolidate(flush=True), begun, may_end.set)
            assert (await memory.status()).progress.segments.encoded == 1
            assert (await memory.consolidate()).encoded == 10
            assert sorted(await memory.run(told)) == sorted(await memory.run(texts))
            assert len(scribe.asked) == 11

    asyncio.run(use())


# --- one by one ---


def test_short_calls_compute_one_at_a_time() -> None:
    """However many threads there are, no two short calls run at once."""
    running = threading.Lock()

    def call() -> bool:
        alone = running.acquire(blocking=False)
        time.sleep(0.001)
        if alone:
            running.release()
        return alone

    async def use() -> list[bool]:
        threads = Threads(calls=8, one_by_one=OneByOne(60))
        told = await asyncio.gather(*(threads.read(call) for _ in range(40)))
        await threads.close()
        return told

    assert asyncio.run(use()) == [True] * 40


def test_a_call_that_waits_holds_up_nobody() -> None:
    """A call that waits for something outside, here for a later call, lets those behind it through, failing ones too."""
    later = threading.Event()

    def fail() -> None:
        raise InputError("nothing to do")

    async def use() -> bool:
        threads = Threads()
        waiting = asyncio.create_task(threads.read(lambda: later.wait(PATIENCE)))
        failing = asyncio.create_task(threads.read(fail))
        await threads.read(later.set)
        with pytest.raises(InputError):
            await failing
        given = await waiting
        await threads.close()
        return given

    assert asyncio.run(use())


# --- answers, piece by piece ---


def test_an_answer_is_streamed(tmp_path: Path) -> None:
    """The pieces of an answer come one after the other, the evidence before them, the whole answer after."""

    async def use() -> None:
        with scripted_model("She painted it pistachio [1]") as (model, _):
            opened = fill(Memory(tmp_path / "memory.jay", embedder=EMBEDDER, model=model))
            async with AsyncMemory(opened) as memory:
                stream = await memory.answer_stream("Which colour did Mira paint the kitchen?")
                assert stream.evidence.links
                assert stream.answer is None
                pieces = [piece async for piece in stream]
                assert "".join(pieces).strip() == "She painted it pistachio [1]"
                assert len(pieces) > 1
                assert stream.answer is not None
                assert stream.answer.numbers == (1,)
                assert [piece async for piece in stream] == []

    asyncio.run(use())


def test_an_answer_that_fails(tmp_path: Path) -> None:
    """What the recall raises comes at once, what the model raises when the pieces are read."""

    async def use() -> None:
        with scripted_model() as (model, _):
            opened = fill(Memory(tmp_path / "memory.jay", embedder=EMBEDDER, model=model))
            model.close()
            async with AsyncMemory(opened) as memory:
                with pytest.raises(ValueError, match="question"):
                    await memory.answer_stream("")
                async with await memory.answer_stream("Which colour?") as stream:
                    with pytest.raises(ModelError):
                        [piece async for piece in stream]

    asyncio.run(use())


def test_an_answer_left_early(tmp_path: Path) -> None:
    """An answer that nobody reads to its end is ended, and its threads with it."""
    before = set(threading.enumerate())

    async def use() -> None:
        with scripted_model(" ".join(["word"] * 2_000)) as (model, _):
            opened = fill(Memory(tmp_path / "memory.jay", embedder=EMBEDDER, model=model))
            async with AsyncMemory(opened) as memory:
                async with await memory.answer_stream("Which colour?") as stream:
                    assert await anext(stream) == "word "
                assert stream.answer is None

    asyncio.run(use())
    assert set(threading.enumerate()) <= before


# --- users of a home ---


def test_a_user_of_a_home(tmp_path: Path) -> None:
    """A user's memory in a home is borrowed for each call: it may be closed between two of them, and is found again."""

    async def use() -> None:
        threads = Threads()
        with MemoryHome(tmp_path, embedder=EMBEDDER, max_open=1) as home:
            alice, bob = (AsyncMemory.of_user(home, name, threads=threads) for name in ("alice", "bob"))
            for number in range(3):
                await alice.add({"role": "user", "content": f"alice {number}"}, session_id="s")
                await bob.add({"role": "user", "content": f"bob {number}"}, session_id="s")
            assert [turn.text async for turn in alice.turns()] == ["alice 0", "alice 1", "alice 2"]
            assert len((await bob.recall("bob")).links) == 3
            with pytest.raises(NotFoundError):
                await AsyncMemory.of_user(home, "carol", create=False, threads=threads).sessions()
            await alice.close()  # the memory is the home's, the threads are shared: neither ends
            assert len([turn async for turn in alice.turns()]) == 3
        await threads.close()

    asyncio.run(use())
