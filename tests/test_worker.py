"""Workers over one database: each segment once, in its session's order, every memory in turn, within budgets, whatever stops them."""

from __future__ import annotations

import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from postgres_server import fresh_database
from qa_server import serve_play
from scribes import spent_tokens
from small_memories import PATIENCE, say, wait_until
from workers import (
    asked_for,
    count_states,
    fill_database,
    open_database,
    running_worker,
    sign,
    working_here,
)

from scrubjay.datatypes import SegmentState
from scrubjay.errors import ModelRejectedError
from scrubjay.settings import EncoderSettings
from scrubjay.worker import WorkerOptions

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def database() -> Iterator[str]:
    with fresh_database() as dsn:
        yield dsn


def test_several_workers(database: str) -> None:
    """Three workers at once encode every segment once, in its session's order, and pay for each once."""
    sizes = {f"user {number}": 1 + number % 5 for number in range(20)}
    fill_database(database, sizes)
    with (
        serve_play(sign) as server,
        running_worker(database, server, "--drain") as one,
        running_worker(database, server, "--drain") as two,
        running_worker(database, server, "--drain") as three,
    ):
        logged = [line for worker in (one, two, three) for line in worker.finish()]
    asked = [words[0] for words in asked_for(server)]
    assert Counter(asked) == Counter(
        f"{user} turn {number}" for user, count in sizes.items() for number in range(count)
    )
    for user in sizes:
        mine = [words for words in asked if words.startswith(f"{user} turn")]
        assert mine == sorted(mine)
    assert count_states(database) == {SegmentState.ENCODED: sum(sizes.values())}
    encoded = [line for line in logged if line["event"] == "encoded"]
    assert len(encoded) == sum(sizes.values())
    assert {line["calls"] for line in encoded} == {1}
    assert " turn " not in str(logged)
    assert "user " not in str(logged)


def test_open_turns(database: str) -> None:
    """A worker finds memories with open turns, and closes the segments of those that have gone idle."""
    with open_database(database) as home:
        for user in ("ana", "ben"):
            with home.borrow(user) as memory:
                say(memory, "I moved to Lisbon.", "With the piano?")
    with serve_play(sign) as server:
        with running_worker(database, server, "--drain") as worker:
            worker.finish()
        assert count_states(database) == {}
        with open_database(database) as home, home.borrow("ben") as memory:
            say(memory, "And with the bassoon.")
        with running_worker(database, server, "--drain", "--idle", "0") as worker:
            worker.finish()
    assert asked_for(server) == [["I moved to Lisbon.", "With the piano?", "And with the bassoon."]]


def test_every_memory_in_turn(database: str) -> None:
    """A memory with many segments, there first, doesn't hold up the others: those that wait are served in turn."""
    fill_database(database, {"much": 40})
    fill_database(database, {"ana": 2, "ben": 2, "eva": 2})
    with (
        serve_play(sign) as server,
        running_worker(database, server, "--drain", "--concurrency", "1") as worker,
    ):
        worker.finish()
    asked = [words[0].split()[0] for words in asked_for(server)]
    assert len(asked) == 46
    assert Counter(asked[:8]) == {"much": 2, "ana": 2, "ben": 2, "eva": 2}


def test_budgets_are_shared(database: str) -> None:
    """Two workers make no more calls in a minute, and spend no more tokens in a day, than both together may."""
    fill_database(database, {f"user {number}": 2 for number in range(20)})
    began = time.time()
    with serve_play(sign) as server:
        options = ("--calls-per-minute", "7", "--tokens-per-day", "1000000")
        with (
            running_worker(database, server, *options) as one,
            running_worker(database, server, *options) as two,
        ):
            wait_until(lambda: len(server.asked) >= 7)
            time.sleep(1)
            for worker in (one, two):
                worker.stop()
        calls = len(server.asked)
        assert calls <= 7 * (time.time() // 60 - began // 60 + 1)
        with running_worker(
            database, server, "--drain", "--tokens-per-day", str(spent(database) + 1)
        ) as worker:
            worker.process.join(PATIENCE)
            assert worker.process.exitcode == 1
            assert worker.log.read_text().endswith("run it again tomorrow, or raise --tokens-per-day\n")
        assert len(server.asked) == calls
    states = count_states(database)
    assert states[SegmentState.ENCODED] == len(server.asked)
    assert states.total() == 40


def test_stopped(database: str) -> None:
    """Told to stop, a worker finishes the calls under way and takes nothing more."""
    fill_database(database, {f"user {number}": 2 for number in range(6)})
    options = WorkerOptions(concurrency=2)
    with serve_play(sign) as server:
        server.hold_after = 0
        with working_here(database, server, options, encoder=EncoderSettings()) as (worker, told, running):
            wait_until(lambda: len(server.asked) == 2)
            worker.stop()
            server.let_go.set()
            running.result(PATIENCE)
    assert [event for event, _ in told.events] == ["started", "encoded", "encoded", "ended"]
    assert len(server.asked) == 2
    assert count_states(database) == {SegmentState.ENCODED: 2, SegmentState.PENDING: 10}


def test_stopped_by_a_signal(database: str) -> None:
    """A worker's process that is told to stop finishes what it has asked for, and soon takes nothing more."""
    fill_database(database, {"ana": 100})
    with serve_play(sign) as server:
        server.hold_after = 1
        with running_worker(database, server) as worker:
            wait_until(lambda: len(server.asked) == 2)
            worker.send(signal.SIGTERM)
            server.let_go.set()
            logged = worker.finish()
    assert {line["event"] for line in logged} == {"encoded"}
    assert 2 <= len(logged) == len(server.asked) < 100
    pending = 100 - len(logged)
    assert count_states(database) == {SegmentState.ENCODED: len(logged), SegmentState.PENDING: pending}


@pytest.mark.parametrize(
    ("grace", "signals"),
    [("0", [signal.SIGTERM]), ("60", [signal.SIGTERM, signal.SIGINT])],
    ids=["no grace", "twice"],
)
def test_stopped_at_once(database: str, grace: str, signals: list[signal.Signals]) -> None:
    """Where it may not wait, or is told twice, a worker gives its segment back as it was, for another to have at once."""
    fill_database(database, {"ana": 2})
    with serve_play(sign) as server:
        server.seconds = PATIENCE
        with running_worker(database, server, "--grace", grace) as worker:
            wait_until(lambda: len(server.asked) == 1)
            for number in signals:
                worker.send(number)
                time.sleep(0.1)
            assert worker.finish() == []
        assert count_states(database) == {SegmentState.PENDING: 2}
        server.seconds = 0.0
        with running_worker(database, server, "--drain") as worker:
            worker.finish()
    assert count_states(database) == {SegmentState.ENCODED: 2}


def test_killed(database: str) -> None:
    """Of a worker that was killed another has the segment once the lease has run out, and encodes it once."""
    fill_database(database, {"ana": 3})
    with serve_play(sign) as server:
        server.hold_after = 1
        options = ("--lease-seconds", "2")
        with running_worker(database, server, *options) as worker:
            wait_until(lambda: len(server.asked) == 2)
            worker.kill()
        server.hold_after = None
        with running_worker(database, server, "--drain", *options) as worker:
            worker.finish()
    assert [words[0] for words in asked_for(server)] == [f"ana turn {number}" for number in (0, 1, 1, 2)]
    assert count_states(database) == {SegmentState.ENCODED: 3}


def test_the_provider_is_away(database: str) -> None:
    """While the provider fails, all wait longer and longer: few are asked, none is given up, and then all are encoded."""
    fill_database(database, {f"user {number}": 2 for number in range(10)})
    away = True

    def reply(system: str, user: str) -> str:
        return "HTTP 503" if away else sign(system, user)

    encoder = EncoderSettings(retry_seconds=0.4)
    options = WorkerOptions(poll_seconds=0.05)
    with (
        serve_play(reply) as server,
        working_here(database, server, options, encoder=encoder) as (_, told, running),
    ):
        wait_until(lambda: told.count("waiting") >= 5)
        assert not running.done()
        assert len(server.asked) <= options.concurrency + told.count("waiting")
        waits = [float(str(fields["seconds"])) for event, fields in told.events if event == "waiting"]
        assert waits == sorted(waits)
        assert waits[-1] > waits[0]
        away = False
        wait_until(lambda: told.count("encoded") == 20)
    assert count_states(database) == {SegmentState.ENCODED: 20}


def test_the_provider_refuses(database: str) -> None:
    """A wrong key costs no segment an attempt; a drain ends with what the provider said."""
    fill_database(database, {"ana": 1, "ben": 1})
    options = WorkerOptions(drain=True)
    with (
        serve_play(lambda *_: "HTTP 401") as server,
        working_here(database, server, options, encoder=EncoderSettings()) as (_, told, running),
    ):
        error = running.exception(PATIENCE)
    assert isinstance(error, ModelRejectedError)
    assert {event: fields.get("status") for event, fields in told.events} == {
        "started": None,
        "waiting": 401,
        "ended": None,
    }
    with open_database(database) as home, home.borrow("ana") as memory:
        (segment,) = memory.segments.segments()
        assert (segment.state, segment.attempts, segment.last_error) == (SegmentState.PENDING, 0, "")


def test_a_segment_fails(database: str) -> None:
    """A segment of which no reply can be used is given up after so many attempts, and those after it are encoded."""
    fill_database(database, {"ana": 3, "ben": 1})

    def reply(system: str, user: str) -> str:
        return "Nothing to say." if "ana turn 1" in user else sign(system, user)

    encoder = EncoderSettings(retry_seconds=0.1, attempts=3)
    options = WorkerOptions(drain=True, poll_seconds=0.05)
    with (
        serve_play(reply) as server,
        working_here(database, server, options, encoder=encoder) as (_, told, running),
    ):
        running.result(PATIENCE)
    assert told.count("failed") == 3
    assert told.count("waiting") == 0
    assert count_states(database) == {SegmentState.ENCODED: 3, SegmentState.FAILED: 1}
    with open_database(database) as home, home.borrow("ana") as memory:
        assert memory.segments.retry_failed() == 1
    with serve_play(sign) as server, running_worker(database, server, "--drain") as worker:
        worker.finish()
    assert count_states(database) == {SegmentState.ENCODED: 4}


def test_a_memory_is_forgotten(database: str) -> None:
    """A memory that is forgotten while a model reads it leaves nothing behind, and the worker goes on."""
    fill_database(database, {"ana": 2, "ben": 1})

    def reply(system: str, user: str) -> str:
        if "ana turn 0" in user:
            with open_database(database) as home:
                assert home.forget("ana")
        return sign(system, user)

    with (
        serve_play(reply) as server,
        running_worker(database, server, "--drain", "--concurrency", "1") as worker,
    ):
        logged = worker.finish()
    assert [line["event"] for line in logged] == ["memory is gone", "encoded"]
    assert count_states(database) == {SegmentState.ENCODED: 1}
    with open_database(database) as home:
        assert home.users() == ("ben",)


def spent(database: str) -> int:
    """Give the tokens of all memories' calls."""
    with open_database(database) as home:
        found = 0
        for user_id in home.users():
            with home.borrow(user_id) as memory:
                found += sum(spent_tokens(memory)[1:])
        return found
