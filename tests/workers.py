"""`scrubjay worker` as a process of its own, a model that signs what it writes, and databases with segments to encode."""

from __future__ import annotations

import json
import os
import signal
import sys
import uuid
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from qa_server import between
from scribes import TURN_LINE
from small_memories import EMBEDDER, PATIENCE, PROCESSES, say, start

from scrubjay.cli import main
from scrubjay.datatypes import SegmentState, SessionEnds
from scrubjay.llm import load_model
from scrubjay.postgres_home import PostgresHome
from scrubjay.segmenting import close_segments
from scrubjay.settings import SEGMENT_PRESETS, ChatSettings, EncoderSettings, Settings
from scrubjay.store_settings import PostgresSettings
from scrubjay.worker import Worker, WorkerOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.process import BaseProcess

    from qa_server import PlayingServer

    from scrubjay.memory import Memory

PROCESSES.set_forkserver_preload(
    [
        "small_memories",
        "scribes",
        "workers",
        "scrubjay.worker",
        "scrubjay.llm.adapter",
        "scrubjay.store.postgres.work",
    ]
)

EAGER = Settings(
    segment=SEGMENT_PRESETS["eager-turn"],
    postgres=PostgresSettings(partitions=3, connections=4, settle_seconds=0.0),
)
"""Each turn is a segment, to be looked at once it was added."""


def sign(_: str, user: str) -> str:
    """Make a record of each turn in words that no other call gives, so that a segment encoded twice would show."""
    turns = TURN_LINE.findall(between(user, "turns"))
    mark = uuid.uuid4().hex
    records = [{"turns": [int(number)], "type": "fact", "text": f"{words} {mark}"} for number, words in turns]
    return json.dumps({"records": records, "note": ""})


def asked_for(server: PlayingServer) -> list[list[str]]:
    """Give the words of the turns that each call was about."""
    prompts = [asked["messages"][-1]["content"] for asked in server.asked]
    return [[words for _, words in TURN_LINE.findall(between(prompt, "turns"))] for prompt in prompts]


def open_database(dsn: str) -> PostgresHome:
    return PostgresHome(dsn, settings=EAGER, embedder=EMBEDDER)


def give_segments(memory: Memory, name: str, count: int) -> None:
    """Give a memory a session with so many segments to encode, a turn each."""
    say(memory, *(f"{name} turn {number}" for number in range(count)), session_id=name)
    close_segments(memory.write_path, SessionEnds(flush=True))


def fill_database(dsn: str, sizes: dict[str, int]) -> None:
    """Give each user a session with so many segments to encode."""
    with open_database(dsn) as home:
        for user_id, count in sizes.items():
            with home.borrow(user_id) as memory:
                give_segments(memory, user_id, count)


def count_states(dsn: str) -> Counter[SegmentState]:
    """Give how many segments are in each state; no turn has records of two encodings."""
    found: Counter[SegmentState] = Counter()
    with open_database(dsn) as home:
        for user_id in home.users():
            with home.borrow(user_id) as memory:
                assert memory.doctor() == ()
                segments = memory.segments.segments()
                found.update(segment.state for segment in segments)
                encoded = [
                    turn_id
                    for segment in segments
                    for turn_id in segment.turn_ids
                    if segment.state is SegmentState.ENCODED
                ]
                cited = [turn_id for record in memory.records.records() for turn_id in record.turn_ids]
                assert sorted(cited) == sorted(encoded)
    return found


def run_command(arguments: tuple[str, ...], log: str) -> None:
    """Run the command as a program of its own does, its standard error in a file."""
    with Path(log).open("w") as errors:
        os.dup2(errors.fileno(), 2)
    sys.argv = ["scrubjay", *arguments]
    main()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWorker:
    """`scrubjay worker` in a process of its own."""

    process: BaseProcess
    log: Path

    def finish(self) -> list[dict[str, Any]]:
        """Wait until it ends by itself, and give what it logged in between."""
        self.process.join(PATIENCE)
        assert self.process.exitcode == 0, self.log.read_text()
        first, *lines, last = [json.loads(line) for line in self.log.read_text().splitlines()]
        assert (first["event"], last["event"]) == ("started", "ended")
        return lines

    def send(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def stop(self) -> list[dict[str, Any]]:
        """Stop it as a service manager does, and give what it logged."""
        self.send(signal.SIGTERM)
        return self.finish()

    def kill(self) -> None:
        self.process.kill()
        self.process.join(PATIENCE)


@contextmanager
def running_worker(dsn: str, server: PlayingServer, *options: str) -> Iterator[RunningWorker]:
    """Start a worker that asks this server, and end it if it still runs afterwards."""
    model = ("--model", "openai:scripted", "--base-url", server.url)
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        process = start(run_command, ("worker", "--dsn", dsn, *model, *options), str(log))
        try:
            yield RunningWorker(process=process, log=log)
        finally:
            process.kill()
            process.join(PATIENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a worker in this process told."""

    events: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def __call__(self, event: str, **fields: object) -> None:
        self.events.append((event, fields))

    def count(self, event: str) -> int:
        return sum(name == event for name, _ in self.events)


@contextmanager
def working_here(
    dsn: str, server: PlayingServer, options: WorkerOptions, *, encoder: EncoderSettings
) -> Iterator[tuple[Worker, Told, Future[None]]]:
    """Run a worker in this process, whose model is asked once each time; give what it told, and its end."""
    chat = ChatSettings(model="openai:scripted", base_url=server.url, attempts=1)
    settings = replace(EAGER, chat=chat, encoder=encoder)
    model, told = load_model(chat), Told()
    with PostgresHome(dsn, settings=settings) as home, ThreadPoolExecutor(1) as pool:
        worker = Worker(home, model, settings, options=options, tell=told)
        running = pool.submit(worker.run)
        try:
            yield worker, told, running
        finally:
            worker.stop()
            running.exception(PATIENCE)
            model.close()
