"""Consolidation killed at any moment, and run by two processes at once: nothing lost, nothing twice, nothing by halves."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from scribes import INPUT_TOKENS, Scribe, cited, most, open_eager, spent_tokens, states
from small_memories import PATIENCE, PROCESSES, finish, say, start

from scrubjay.datatypes import EncodingState, SegmentState
from scrubjay.settings import EncoderSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier
    from pathlib import Path

    from scrubjay.llm import ChatRequest
    from scrubjay.memory import Memory

ROUNDS = int(os.environ.get("SCRUBJAY_CONSOLIDATION_KILL_ROUNDS", "15"))
FOREVER = 1_000_000
CALL_SECONDS = 0.001  # short beside a commit, so that many are killed in one
SHORT_LEASE = EncoderSettings(retry_seconds=0.0, lease_seconds=0.5)


def open_signing(
    path: str, *, lease_seconds: float = 0.5, before: Callable[[ChatRequest], object] | None = None
) -> Memory:
    """Open a memory whose model signs each reply, so that a segment encoded twice would show two records a turn."""
    encoder = EncoderSettings(retry_seconds=0.0, lease_seconds=lease_seconds)
    return open_eager(path, Scribe(signs=True, seconds=CALL_SECONDS, before=before), encoder=encoder)


def work_until_killed(path: str, ready: Connection, seed: int) -> None:
    """Add, consolidate, encode again and forget, without end; tell each turn once its add has returned."""
    chance = random.Random(seed)
    with open_signing(path) as memory:
        memory.consolidate(limits=most(1))  # all that a first run has to load is loaded
        for number in range(FOREVER):
            session = f"s{chance.randrange(4)}"
            words = [f"round {seed} turn {number} part {part}" for part in range(chance.choice((1, 3)))]
            ready.send(("added", say(memory, *words, session_id=session)))
            memory.consolidate(
                limits=most(chance.choice((None, 3)), workers=chance.choice((1, 3))),
                flush=chance.random() < 0.3,
            )
            if seed % 3 == 0 and chance.random() < 0.3:
                memory.reconsolidate(limits=most(5))
            if seed % 5 == 0 and chance.random() < 0.2:
                turn_id = chance.choice([turn.turn_id for turn in memory.turns()])
                ready.send(("forgetting", (turn_id,)))
                memory.forget(turn=turn_id)


def receive(connection: Connection) -> dict[str, set[str]]:
    """Give what was told until the pipe's other end was gone."""
    told: dict[str, set[str]] = {"added": set(), "forgetting": set()}
    while connection.poll():
        try:
            kind, turn_ids = connection.recv()
        except EOFError:
            break
        told[kind].update(turn_ids)
    return told


def require_sound(memory: Memory) -> None:
    """Check that every turn is in one state, and the encoded ones, and no other, have exactly one record."""
    assert memory.doctor() == ()
    states(memory)
    encoded = [
        turn_id
        for segment in memory.segments.segments(state=SegmentState.ENCODED)
        for turn_id in segment.turn_ids
    ]
    assert cited(memory) == sorted(encoded)
    progress = memory.segments.progress()
    assert progress.records == len(encoded)
    in_segments = Counter(turn_id for segment in memory.segments.segments() for turn_id in segment.turn_ids)
    assert set(in_segments.values()) <= {1}
    assert len(in_segments) == progress.turns.total - progress.turns.open


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Wherever consolidation is killed: no turn lost, no segment by halves, none with the results of two encodings."""
    path = str(tmp_path / "memory.jay")
    chance = random.Random(1)
    expected: set[str] = set()
    forgotten: set[str] = set()
    for seed in range(ROUNDS):
        receiver, sender = PROCESSES.Pipe(duplex=False)
        worker = start(work_until_killed, path, sender, seed)
        sender.close()
        assert receiver.poll(PATIENCE)
        time.sleep(chance.uniform(0, 0.3))
        worker.kill()
        worker.join(PATIENCE)
        told = receive(receiver)
        receiver.close()
        expected |= told["added"]
        forgotten |= told["forgetting"]
        with open_signing(path) as memory:
            stored = {turn.turn_id for turn in memory.turns()}
            assert expected - forgotten <= stored
            require_sound(memory)
    time.sleep(SHORT_LEASE.lease_seconds)  # what the killed had leased is free again
    with open_signing(path) as memory:
        memory.consolidate(flush=True, limits=most(workers=2))
        require_sound(memory)
        turns = states(memory)
        assert turns == (0, 0, len(stored), 0)
        memory.reconsolidate()
        require_sound(memory)
        assert [run.state for run in memory.records.encodings()] == [EncodingState.CURRENT]
        assert spent_tokens(memory)[1] == spent_tokens(memory)[0] * INPUT_TOKENS
    assert len(expected) > ROUNDS


def consolidate_at(path: str, barrier: Barrier, results: Connection) -> None:
    """Consolidate until nothing is left; the first call waits until every process has one."""
    asked: list[object] = []

    def meet(request: object) -> None:
        asked.append(request)
        if len(asked) == 1:
            barrier.wait(PATIENCE)

    with open_signing(path, lease_seconds=600, before=meet) as memory:
        calls = 0
        for _ in range(FOREVER):
            report = memory.consolidate(flush=True, idle=timedelta(0), limits=most(workers=2))
            calls += sum(usage.calls for usage in report.usage)
            if not report.turns.pending:
                break
            time.sleep(0.01)
        results.send(calls)


def test_two_processes(tmp_path: Path) -> None:
    """Processes that consolidate at once segment each session once, encode each segment once, and pay once."""
    path = str(tmp_path / "memory.jay")
    with open_signing(path) as memory:
        for session in range(8):
            say(memory, *(f"turn {turn} of {session}" for turn in range(6)), session_id=f"s{session}")
    barrier = PROCESSES.Barrier(3)
    ends = [PROCESSES.Pipe(duplex=False) for _ in range(3)]
    workers = [start(consolidate_at, path, barrier, sender) for _, sender in ends]
    calls = [receiver.recv() for receiver, _ in ends]
    finish(*workers)
    with open_signing(path) as memory:
        require_sound(memory)
        assert states(memory) == (0, 0, 48, 0)
        assert sum(calls) == spent_tokens(memory)[0] == 48
        assert min(calls) > 0


def consolidate_slowly(path: str, ready: Connection) -> None:
    model = Scribe(seconds=PATIENCE, before=lambda _request: ready.send("asked"))
    with open_eager(path, model, encoder=SHORT_LEASE) as memory:
        memory.consolidate(flush=True)


def test_a_killed_workers_segment(tmp_path: Path) -> None:
    """A segment whose worker was killed is said to be with another until its lease is over, then encoded once."""
    path = str(tmp_path / "memory.jay")
    with open_signing(path) as memory:
        say(memory, "one", "two")
    receiver, sender = PROCESSES.Pipe(duplex=False)
    worker = start(consolidate_slowly, path, sender)
    assert receiver.recv() == "asked"
    worker.kill()
    worker.join(PATIENCE)
    with open_signing(path) as memory:
        report = memory.consolidate()
        if report.encoded == 0:  # unless this machine was too busy to be there in time
            assert report.stopped == "another worker has 1 segment; 2 segments left: run it again"
        time.sleep(SHORT_LEASE.lease_seconds)
        memory.consolidate()
        assert states(memory) == (0, 0, 2, 0)
        assert memory.segments.segments()[0].attempts == 0
        require_sound(memory)
