"""What was acknowledged is there: after kill -9, with several processes and threads writing at once."""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from small_memories import PATIENCE, PROCESSES, database_of, finish, open_memory, say, start, texts, working

from scrubjay.datatypes import NewTurn, Role
from scrubjay.memory import Memory
from scrubjay.store.connection import BUSY_TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier

ROUNDS = int(os.environ.get("SCRUBJAY_KILL_ROUNDS", "20"))
FOREVER = 1_000_000


# --- killed ---


def add_until_killed(path: str, acknowledged: Connection, seed: int) -> None:
    """Add singly and in batches; tell each turn's id and text after its add has returned."""
    chance = random.Random(seed)
    with open_memory(path) as memory:
        for number in range(FOREVER):
            words = [f"round {seed} turn {number} piece {piece}" for piece in range(chance.choice((1, 1, 7)))]
            acknowledged.send(list(zip(say(memory, *words, session_id=f"s{seed % 3}"), words, strict=True)))


def received(connection: Connection) -> list[tuple[str, str]]:
    """Give what was told until the pipe's other end was gone, without a message cut short."""
    told: list[tuple[str, str]] = []
    while connection.poll():
        try:
            told += connection.recv()
        except EOFError:
            break
    return told


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Whenever a writer is killed, every turn it was told is stored is stored, whole and indexed, and no batch by halves."""
    path = str(tmp_path / "memory.jay")
    chance = random.Random(0)
    told: dict[str, str] = {}
    for seed in range(ROUNDS):
        receiver, sender = PROCESSES.Pipe(duplex=False)
        writer = start(add_until_killed, path, sender, seed)
        sender.close()
        if seed % 4:  # else it may be killed while it opens or creates the file
            assert receiver.poll(PATIENCE)
        time.sleep(chance.uniform(0, 0.15))
        writer.kill()
        writer.join(PATIENCE)
        told.update(received(receiver))
        receiver.close()
        with open_memory(path) as memory:
            stored = {turn.turn_id: turn.text for turn in memory.turns()}
            assert told.items() <= stored.items()
            assert memory.doctor() == ()
            assert all(batches_are_whole(stored, session) for session in ("s0", "s1", "s2"))
    assert len(told) > ROUNDS


def batches_are_whole(stored: dict[str, str], session_id: str) -> bool:
    """Tell whether every batch of several pieces has all seven."""
    batches: dict[str, int] = {}
    for turn_id, text in stored.items():
        if turn_id.startswith(session_id):
            batch = text.rpartition(" piece ")[0]
            batches[batch] = batches.get(batch, 0) + 1
    return set(batches.values()) <= {1, 7}


def reembed_until_killed(path: str, told: Connection, dimension: int) -> None:
    """Change the embedder, but for the last part, and tell how far it is."""

    def advance(done: int, _total: int) -> None:
        told.send(done)
        if done >= 3_000:
            time.sleep(PATIENCE)

    with Memory(path) as memory:
        memory.reembed(f"hash:{dimension}", advance=advance)


def test_killed_while_the_embedder_is_changed(tmp_path: Path) -> None:
    """A killed change of embedder leaves the old one or the new one serving, and can be run to its end."""
    path = str(tmp_path / "memory.jay")
    with open_memory(path) as memory:
        say(memory, *(f"turn number {number}" for number in range(4_000)))
        before = memory.search("turn number 7", limit=3)
    receiver, sender = PROCESSES.Pipe(duplex=False)
    writer = start(reembed_until_killed, path, sender, 200)
    assert receiver.recv() == 1_000
    writer.kill()
    writer.join(PATIENCE)
    with open_memory(path) as memory:
        assert memory.search("turn number 7", limit=3) == before
        told: list[int] = []
        memory.reembed("hash:200", advance=lambda done, _total: told.append(done))
        assert 0 < told[-1] <= 3_000  # it went on where the killed one had stopped
        assert memory.doctor() == ()
    with Memory(path) as memory:
        assert memory.status().embedder.startswith("hash:200 ")


def forget_until_killed(path: str, ready: Connection) -> None:
    with open_memory(path) as memory:
        ready.send("ready")
        for turn in list(memory.turns()):
            memory.forget(turn=turn.turn_id)
            ready.send(turn.turn_id)


def test_killed_while_forgetting(tmp_path: Path) -> None:
    """A killed forgetting leaves a sound file; what it was said to have removed doesn't come back."""
    path = str(tmp_path / "memory.jay")
    with open_memory(path) as memory:
        say(memory, *(f"turn number {number}" for number in range(300)))
    receiver, sender = PROCESSES.Pipe(duplex=False)
    writer = start(forget_until_killed, path, sender)
    assert receiver.recv() == "ready"
    time.sleep(0.2)
    writer.kill()
    writer.join(PATIENCE)
    sender.close()
    gone = set()
    while receiver.poll():
        try:
            gone.add(receiver.recv())
        except EOFError:
            break
    with open_memory(path) as memory:
        left = {turn.turn_id for turn in memory.turns()}
        assert not left & gone
        assert len(left) >= 300 - len(gone) - 1
        assert memory.doctor() == ()


# --- at once ---


def add_many_singly(path: str, barrier: Barrier, name: str, count: int) -> None:
    barrier.wait(PATIENCE)
    with open_memory(path) as memory:
        for number in range(count):
            say(memory, f"{name} {number}", session_id=f"s{number % 2}")


@contextmanager
def busy_processor() -> Iterator[None]:
    """Keep a core busy with another process while the block runs."""
    process = start(spin)
    try:
        yield
    finally:
        process.kill()
        process.join()


def spin() -> None:
    while True:
        pass


def test_processes_create_and_add_at_once(tmp_path: Path) -> None:
    """Processes that create one file together and add in a plain loop, on a busy machine, lose nothing and never fail."""
    for round_number in range(3):
        path = str(tmp_path / f"{round_number}.jay")
        barrier = PROCESSES.Barrier(3)
        with busy_processor():
            finish(*(start(add_many_singly, path, barrier, name, 60) for name in ("a", "b", "c")))
        with open_memory(path) as memory:
            assert sorted(texts(memory)) == sorted(
                f"{name} {number}" for name in "abc" for number in range(60)
            )
            assert [session.turns for session in memory.sessions()] == [90, 90]
            assert sorted(turn.index for turn in memory.turns(session_id="s0")) == list(range(90))
            assert memory.doctor() == ()


def test_processes_create_one_file(tmp_path: Path) -> None:
    """Whoever opens a file while another process makes it finds a memory, however the two meet."""
    barrier = PROCESSES.Barrier(3)
    finish(*(start(open_each, str(tmp_path), barrier) for _ in range(3)))


def open_each(folder: str, barrier: Barrier) -> None:
    for number in range(100):
        barrier.wait(PATIENCE)
        with open_memory(f"{folder}/{number}.jay") as memory:
            assert memory.doctor() == ()


def test_one_thing_said_to_two_processes(tmp_path: Path) -> None:
    """The same turns added by two processes at once are stored once: their ids are unique in the file, not in a process."""
    path = str(tmp_path / "memory.jay")
    barrier = PROCESSES.Barrier(2)
    finish(*(start(add_with_ids, path, barrier) for _ in range(2)))
    with open_memory(path) as memory:
        assert texts(memory) == [f"turn {number}" for number in range(100)]


def add_with_ids(path: str, barrier: Barrier) -> None:
    barrier.wait(PATIENCE)
    with open_memory(path) as memory:
        for number in range(100):
            memory.add(
                NewTurn(role=Role.USER, text=f"turn {number}", turn_id=f"t{number}"), session_id="monday"
            )


def test_threads_add_while_others_ask_and_forget(tmp_path: Path) -> None:
    """Four threads of one memory add while others recall, search and forget; nothing fails and nothing is lost."""
    with open_memory(tmp_path / "memory.jay") as memory:
        say(memory, *(f"forgettable {number}" for number in range(40)), session_id="old")

        def add(name: int) -> None:
            for number in range(40):
                say(memory, f"thread {name} turn {number}", session_id=f"s{name}")

        with (
            working(
                lambda: memory.recall("thread 2 turn 7"),
                lambda: memory.search("forgettable 3"),
                lambda: list(memory.turns()),
            ),
            ThreadPoolExecutor(4) as pool,
        ):
            adding = [pool.submit(add, name) for name in range(4)]
            for number in range(40):
                memory.forget(turn=f"old:{number}")
            for added in adding:
                added.result()
        assert sorted(texts(memory)) == sorted(
            f"thread {name} turn {number}" for name in range(4) for number in range(40)
        )
        assert memory.doctor() == ()


def add_and_tell(path: str, told: Connection) -> None:
    with open_memory(path) as memory:
        for number in range(5):
            say(memory, f"heliotrope {number}", session_id="elsewhere")
            told.send(number)
            told.recv()


def test_another_process_is_heard_at_once(tmp_path: Path) -> None:
    """What a second process has added is found by the first's next question, and what it forgot is gone."""
    path = str(tmp_path / "memory.jay")
    with open_memory(path) as memory:
        say(memory, "nothing yet")
        here, there = PROCESSES.Pipe()
        writer = start(add_and_tell, path, there)
        for number in range(5):
            assert here.recv() == number
            assert memory.search("heliotrope", limit=100)[0].turn.session_id == "elsewhere"
            assert (
                len([hit for hit in memory.search("heliotrope", limit=100) if "heliotrope" in hit.turn.text])
                == number + 1
            )
            here.send("on")
        finish(writer)
        finish(start(forget_elsewhere, path))
        assert all("heliotrope" not in hit.turn.text for hit in memory.search("heliotrope"))


def forget_elsewhere(path: str) -> None:
    with open_memory(path) as memory:
        assert memory.forget(session="elsewhere").turns == 5


def test_a_reader_never_waits_for_a_writer(tmp_path: Path) -> None:
    """While another connection holds the write lock, questions are answered at once from what was committed."""
    path = tmp_path / "memory.jay"
    with open_memory(path) as writer, open_memory(path, read_only=True) as reader:
        say(writer, "The bassoon is in the hall.")
        with database_of(writer).write() as connection:
            connection.execute("UPDATE turn SET tokens = tokens")
            started = time.monotonic()
            assert reader.search("bassoon")
            assert time.monotonic() - started < BUSY_TIMEOUT_MS / 1_000


@pytest.mark.parametrize("name", ["", "-wal"])
def test_durable_settings(tmp_path: Path, name: str) -> None:
    """A commit waits for the disk: the file is in WAL mode with synchronous=FULL, which a power cut can't undo."""
    path = tmp_path / "memory.jay"
    with open_memory(path) as memory:
        say(memory, "hello")
        assert Path(f"{path}{name}").stat().st_size > 0
        with database_of(memory).read() as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
