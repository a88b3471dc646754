"""Segments worked on by several processes at once, some of which are killed."""

from __future__ import annotations

import time
from contextlib import closing
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest
from record_stores import (
    BACKENDS,
    Backend,
    add,
    close,
    complete,
    current,
    encode_all,
    lease,
    must_lease,
    record,
)

from scrubjay.errors import LeaseLostError, SegmentsChangedError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier
    from pathlib import Path

PROCESSES = get_context("spawn")
PATIENCE = 60  # seconds for a process to start on a busy machine
ROUNDS = 5
FOREVER = 3_600


@pytest.fixture(params=sorted(BACKENDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "memory.jay")


def work_through(kind: str, path: str, barrier: Barrier, results: Connection) -> None:
    """Encode what can be leased until nothing is pending; send what was leased."""
    with closing(BACKENDS[kind](path)) as backend:
        barrier.wait(PATIENCE)
        leased_rows = []
        while backend.segments.progress().turns.pending:
            leased = lease(backend, owner="same name")
            if leased is None:
                continue
            leased_rows.append(leased.segment_row)
            complete(backend, leased, *(record(turn.text, [turn.turn_id]) for turn in leased.turns))
    results.send(leased_rows)


def test_no_segment_twice(kind: str, path: str) -> None:
    """Processes that lease side by side never get the same segment, and together do all."""
    with closing(BACKENDS[kind](path)) as backend:
        for session in range(6):
            add(backend, f"s{session}", *(f"words {session} {turn}" for turn in range(8)))
            close(backend, f"s{session}", 2, 2, 2, 2)
        barrier = PROCESSES.Barrier(3)
        ends = [PROCESSES.Pipe(duplex=False) for _ in range(3)]
        workers = [
            PROCESSES.Process(target=work_through, args=(kind, path, barrier, sender)) for _, sender in ends
        ]
        for worker in workers:
            worker.start()
        leased = [row for receiver, _ in ends for row in receiver.recv()]
        for worker in workers:
            worker.join(PATIENCE)
        assert sorted(leased) == [segment.segment_row for segment in backend.segments.segments()]
        assert backend.segments.progress().records == 48
        assert backend.segments.usage()[0].calls == 24
        assert backend.turns.check() == ()


def lease_and_hang(kind: str, path: str, results: Connection) -> None:
    backend = BACKENDS[kind](path)
    results.send(must_lease(backend).lease)
    time.sleep(FOREVER)


def test_killed_between_lease_and_complete(kind: str, path: str) -> None:
    """A killed worker's segment is leased again when its lease has run out, and gives its results once."""
    with closing(BACKENDS[kind](path)) as backend:
        ids = add(backend, "monday", "one")
        close(backend, "monday", 1)
        receiver, sender = PROCESSES.Pipe(duplex=False)
        worker = PROCESSES.Process(target=lease_and_hang, args=(kind, path, sender))
        worker.start()
        assert receiver.recv() == 1
        worker.kill()
        worker.join(PATIENCE)
        assert lease(backend, after=59) is None
        again = must_lease(backend, after=60)
        assert (again.lease, again.attempts) == (2, 0)
        complete(backend, again, record("one", ids))
        assert lease(backend, after=120) is None
        assert (backend.segments.progress().records, backend.segments.usage()[0].calls) == (1, 1)


def work_forever(kind: str, path: str, results: Connection) -> None:
    """Add, segment, encode and forget without end."""
    backend = BACKENDS[kind](path)
    for number in range(FOREVER):
        ids = add(backend, f"s{number % 3}", f"a{number}", f"b{number}", f"c{number}", f"d{number}")
        if number == 0:
            results.send("ready")
        for session in backend.segments.sessions_with_open_turns():
            close(backend, session, 2, 1)
        encode_all(backend)
        backend.turns.forget(turn_id=ids[1])


def test_killed_anywhere(kind: str, path: str) -> None:
    """Wherever a process is killed, every turn is in one state and no segment is half done."""
    for round_number in range(ROUNDS):
        receiver, sender = PROCESSES.Pipe(duplex=False)
        worker = PROCESSES.Process(target=work_forever, args=(kind, path, sender))
        worker.start()
        assert receiver.recv() == "ready"
        time.sleep(0.05 + 0.037 * round_number)
        worker.kill()
        worker.join(PATIENCE)
        with closing(BACKENDS[kind](path)) as backend:
            assert backend.turns.check() == ()
            turns = [turn.turn_id for turn in backend.turns.turns()]
            assert backend.segments.progress().turns.total == len(turns) > 0
            encoded = {
                turn_id
                for segment in backend.segments.segments()
                if segment.state == "encoded"
                for turn_id in segment.turn_ids
            }
            cited = [turn_id for item in backend.records.records() for turn_id in item.turn_ids]
            assert sorted(cited) == sorted(encoded)
            free_lease(backend)


def free_lease(backend: Backend) -> None:
    """Give back the segment the killed process had."""
    while (leased := lease(backend, after=FOREVER)) is not None:
        complete(backend, leased, *(record(turn.text, [turn.turn_id]) for turn in leased.turns))


def test_segmented_once(kind: str, path: str) -> None:
    """Of two processes that segment one session, the second is refused, and so is its lease's double."""
    with closing(BACKENDS[kind](path)) as one, closing(BACKENDS[kind](path)) as other:
        add(one, "monday", "one", "two")
        seen = other.segments.open_turns("monday")
        close(one, "monday", 2)
        with pytest.raises(SegmentsChangedError):
            other.segments.close_segments("monday", [], seen=seen.segmenter, segmenter="mine")
        leased = must_lease(one)
        assert lease(other) is None
        assert other.segments.next_lease_at(current(other)) == leased.until
        later = must_lease(other, after=FOREVER)
        complete(other, later, record("two", ["monday:1"]))
        with pytest.raises(LeaseLostError):
            complete(one, leased, record("one", ["monday:0"]))
        assert [item.text for item in one.records.records()] == ["two"]
