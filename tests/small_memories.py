"""Small memories for tests, written for the purpose, and processes that work on them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.datatypes import NewTurn, Role
from scrubjay.home import MemoryHome
from scrubjay.memory import Memory
from scrubjay.postgres_home import PostgresHome
from scrubjay.settings import Settings
from scrubjay.store.connection import Database
from scrubjay.store_settings import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from multiprocessing.process import BaseProcess

EMBEDDER = "hash:64"
PATIENCE = 120  # seconds for another process on a busy machine
SPRING = datetime(2024, 3, 4, 18, 30, tzinfo=timezone(timedelta(hours=1)))

PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["scrubjay.memory", "small_memories"])

CONVERSATION: Mapping[str, tuple[tuple[str, str], ...]] = {
    "kitchen": (
        ("Mira", "We finally painted the kitchen, in a colour called pistachio."),
        ("Jonas", "Pistachio! And who held the ladder?"),
        ("Mira", "My neighbour Oleg did. He plays the bassoon, you know."),
        ("Jonas", "I had no idea anybody on your stairs played anything."),
    ),
    "ferry": (
        ("Jonas", "The ferry to Gotland was cancelled, so we slept in the harbour."),
        ("Mira", "In the car? With the dog?"),
        ("Jonas", "With Pepper, yes. She snored until the 05:40 boat to Visby."),
    ),
    "sprachen": (
        ("Mira", "Morgen fahre ich mit dem Fahrrad nach Lübeck."),
        ("Oleg", "Я купил новый фагот в Москве."),
        ("Mei", "我昨天在上海买了一把小提琴。"),
        ("Jonas", "El perro se llama Pepper y ronca mucho."),
    ),
}
"""Three evenings in March, a week apart."""


def conversation() -> Iterator[tuple[str, NewTurn]]:
    for week, (session_id, turns) in enumerate(CONVERSATION.items()):
        for minute, (speaker, text) in enumerate(turns):
            said_at = SPRING + timedelta(weeks=week, minutes=minute)
            yield (
                session_id,
                NewTurn(role=Role.USER, text=text, speaker=speaker, said_at=said_at, index=minute),
            )


def open_memory(path: str | Path, *, read_only: bool = False, create: bool = True) -> Memory:
    return Memory(path, embedder=EMBEDDER, read_only=read_only, create=create)


def database_of(memory: Memory) -> Database:
    """Give the open file of a memory kept in one."""
    assert isinstance(memory._place, Database)
    return memory._place


def fill(memory: Memory) -> Memory:
    memory.add_many(conversation())
    return memory


def say(memory: Memory, *texts: str, session_id: str = "monday") -> tuple[str, ...]:
    return memory.add([{"role": "user", "content": text} for text in texts], session_id=session_id).turn_ids


def texts(memory: Memory) -> list[str]:
    return [turn.text for turn in memory.turns()]


def open_home(place: str | Path, *, max_open: int = 16) -> MemoryHome | PostgresHome:
    """Open the home at a folder or a database."""
    if str(place).startswith("postgresql:"):
        few = Settings(postgres=PostgresSettings(partitions=3, connections=4))
        return PostgresHome(str(place), settings=few, embedder=EMBEDDER, max_open=max_open)
    return MemoryHome(place, embedder=EMBEDDER, max_open=max_open)


def wait_until(is_so: Callable[[], object]) -> None:
    """Wait for what another thread or process is to bring about; fail if it takes so long that it never will."""
    give_up = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@contextmanager
def working(*tasks: Callable[[], object]) -> Iterator[None]:
    """Do each task over and over in a thread of its own while the block runs; raise what one of them raised."""
    over = threading.Event()

    def keep_on(task: Callable[[], object]) -> None:
        while not over.is_set():
            task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        running = [pool.submit(keep_on, task) for task in tasks]
        try:
            yield
        finally:
            over.set()
        for task in running:
            task.result()


def start(target: Callable[..., None], *args: object) -> BaseProcess:
    """Start a function in a process of its own, as fast as a fork and as clean as a new one."""
    process = PROCESSES.Process(target=target, args=args, daemon=True)
    process.start()
    return process


def finish(*processes: BaseProcess) -> None:
    """Wait for processes; fail if one of them did."""
    for process in processes:
        process.join(PATIENCE)
    assert [process.exitcode for process in processes] == [0] * len(processes)


def run_python(
    code: str, *args: str, check: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a new interpreter, with the tests' folder among its modules."""
    modules = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", code, *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=check,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": modules, **environment},
    )
