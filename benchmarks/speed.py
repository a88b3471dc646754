"""Speed and memory of the embedded store, beside a plain loop over SQLite in the same run.

    python benchmarks/speed.py [--turns 1000 10000 100000]

Turns are put together from words of the shipped sample, seeded. Times are medians; the plain loop keeps turns in one
SQLite table and, for a question, reads all texts and counts the question's words in each.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay import Memory, NewTurn, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 7
START = datetime(2020, 1, 1, tzinfo=UTC)
TURNS_A_SESSION = 20
SINGLE_ADDS = 200
RECALLS = 60
MEGABYTE = 1 << 20


def sample_sentences() -> tuple[list[str], list[str]]:
    document = json.loads(resources.files("scrubjay").joinpath("sample/conversation.json").read_text("utf-8"))
    words = [word for s in document["sessions"] for turn in s["turns"] for word in turn["text"].split()]
    return words, [question["question"] for question in document["questions"]]


def make_turns(count: int) -> Iterator[tuple[str, NewTurn]]:
    words, _ = sample_sentences()
    chance = random.Random(SEED)
    for number in range(count):
        text = " ".join(chance.choice(words) for _ in range(chance.randint(5, 40)))
        speaker = ("Nora", "Kai")[number % 2]
        said_at = START + timedelta(minutes=number)
        turn = NewTurn(
            role=Role.USER, text=text, speaker=speaker, said_at=said_at, index=number % TURNS_A_SESSION
        )
        yield f"s{number // TURNS_A_SESSION}", turn


def median_ms(work: Callable[[int], object], times: int) -> float:
    taken = []
    for number in range(times):
        started = time.perf_counter()
        work(number)
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


def measure(folder: Path, count: int) -> dict[str, float]:
    """Fill a memory with `count` turns and time what users wait for."""
    path = folder / f"{count}.jay"
    questions = sample_sentences()[1]
    figures: dict[str, float] = {}
    with Memory(path) as memory:
        started = time.perf_counter()
        memory.add_many(make_turns(count))
        figures["import, turns/s"] = count / (time.perf_counter() - started)
        memory.recall("warm up")
        figures["recall, ms"] = median_ms(lambda n: memory.recall(questions[n % len(questions)]), RECALLS)
        figures["one add, ms"] = median_ms(
            lambda n: memory.add(
                {"role": "user", "content": f"Note {n}: the kettle sings."}, session_id="live"
            ),
            SINGLE_ADDS,
        )
        figures["add then recall, ms"] = median_ms(
            lambda n: (
                memory.add({"role": "user", "content": f"Note {n}."}, session_id="live"),
                memory.recall(questions[n % len(questions)]),
            ),
            RECALLS,
        )
    figures |= measure_cold(path)
    figures["file, bytes/turn"] = path.stat().st_size / count
    return figures


COLD = """
import resource, sys, time
started = time.perf_counter()
from scrubjay import Memory
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
opened = time.perf_counter()
with Memory(sys.argv[1], read_only=True) as memory:
    memory.recall("What does Kai cook for the party?")
print((time.perf_counter() - opened) * 1000, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measure_cold(path: Path) -> dict[str, float]:
    """Open the memory in a new process and ask once."""
    runs = []
    for _ in range(3):
        out = subprocess.run(
            [sys.executable, "-c", COLD, str(path)], check=True, capture_output=True, text=True
        ).stdout
        runs.append([float(value) for value in out.split()])
    return {
        "open and first recall, ms": statistics.median(run[0] for run in runs),
        "process at most, MB": statistics.median(run[1] for run in runs),
    }


def measure_plain(folder: Path, count: int) -> dict[str, float]:
    """Do the same with one table and a loop, without vectors, ranking or chains."""
    connection = sqlite3.connect(folder / f"{count}.plain", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE turn (session TEXT, position INTEGER, speaker TEXT, text TEXT)")
    started = time.perf_counter()
    connection.execute("BEGIN")
    rows = ((session, turn.index, turn.speaker, turn.text) for session, turn in make_turns(count))
    connection.executemany("INSERT INTO turn VALUES (?, ?, ?, ?)", rows)
    connection.execute("COMMIT")
    rate = count / (time.perf_counter() - started)
    questions = [set(question.lower().split()) for question in sample_sentences()[1]]

    def ask(number: int) -> list[tuple[int, str]]:
        wanted = questions[number % len(questions)]
        found = (
            (len(wanted & set(text.lower().split())), text)
            for (text,) in connection.execute("SELECT text FROM turn")
        )
        return sorted(found, reverse=True)[:20]

    return {
        "import, turns/s": rate,
        "recall, ms": median_ms(ask, 10),
        "one add, ms": median_ms(
            lambda n: connection.execute("INSERT INTO turn VALUES ('live', ?, 'x', 'Note')", (n,)),
            SINGLE_ADDS,
        ),
    }


def measure_import() -> float:
    """Give the milliseconds that `import scrubjay` adds to a bare interpreter, a median of pairs."""

    def run(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return (time.perf_counter() - started) * 1000

    return statistics.median(run("import scrubjay") - run("pass") for _ in range(9))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    counts = parser.parse_args().turns
    print(f"import scrubjay: {measure_import():.0f} ms")
    with tempfile.TemporaryDirectory() as name:
        ours = {count: measure(Path(name), count) for count in counts}
        plain = {count: measure_plain(Path(name), count) for count in counts}
    print("| |" + "".join(f" {count:,} turns | ratio to a plain loop |" for count in counts))
    print("|---|" + "---:|---:|" * len(counts))
    for figure in ours[counts[0]]:
        cells = ""
        for count in counts:
            ratio = f"{ours[count][figure] / plain[count][figure]:.2f}" if figure in plain[count] else ""
            cells += f" {ours[count][figure]:,.1f} | {ratio} |"
        print(f"| {figure} |{cells}")
    print(f"this process held at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    main()
