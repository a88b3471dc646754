"""One very large memory, its vectors searched in the process and by LanceDB on disk: time, memory, and whether the same is found.

    python benchmarks/large_memory.py --turns 100000

Each way is asked the same questions in a process of its own. "same" is the share of the exact ten best turns among its ten,
over the questions that the memory says something of.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scale import resident_megabytes
from scale_turns import draw_questions, make_turns

from scrubjay import Memory, Settings
from scrubjay.store.vector_folder import vectors_folder
from scrubjay.store_settings import VectorSettings

QUESTIONS = 40
BEST = 10
WAYS = ("exact", "lancedb")


def open_memory(path: Path, way: str, *, read_only: bool = True) -> Memory:
    return Memory(path, settings=Settings(vectors=VectorSettings(index=way)), read_only=read_only)


def ask_all(path: Path, way: str) -> dict[str, object]:
    """Open the memory, ask it, and give what that took and found."""
    questions = draw_questions(QUESTIONS, random.Random(1))
    before, started = resident_megabytes(), time.perf_counter()
    with open_memory(path, way) as memory:
        memory.recall(questions[0])
        first, taken, best = time.perf_counter() - started, [], []
        for question in questions:
            started = time.perf_counter()
            memory.recall(question)
            taken.append((time.perf_counter() - started) * 1_000)
        held = resident_megabytes() - before
        best = [[hit.turn.turn_id for hit in memory.search(question, limit=BEST)] for question in questions]
    return {
        "first": first,
        "p50": np.quantile(taken, 0.5),
        "p95": np.quantile(taken, 0.95),
        "held": held,
        "best": best,
    }


def main() -> None:
    """Fill, build, ask both ways, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--ask", nargs=2, metavar=("FILE", "WAY"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ask:
        print(json.dumps(ask_all(Path(given.ask[0]), given.ask[1])))
        return
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "large.jay"
        with open_memory(path, "exact", read_only=False) as memory:
            memory.add_many(make_turns(0, given.turns))
        with open_memory(path, "lancedb", read_only=False) as memory:
            started = time.perf_counter()
            memory.doctor(rebuild=True)
            building = time.perf_counter() - started
        disk = sum(part.stat().st_size for part in vectors_folder(str(path)).rglob("*") if part.is_file())
        print(f"made in {building:.0f} s with its check, {disk / given.turns:,.0f} bytes a turn")
        found = {
            way: json.loads(
                subprocess.run(
                    [sys.executable, __file__, "--ask", str(path), way],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            )
            for way in WAYS
        }
    print(
        "| vectors | turns | first recall, s | recall p50, ms | p95 | held, MB | same |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    for way, seen in found.items():
        pairs = zip(seen["best"], found["exact"]["best"], strict=True)
        same = np.mean([len({*mine} & {*theirs}) / len(theirs) for mine, theirs in pairs if theirs])
        print(
            f"| {way} | {given.turns:,} | {seen['first']:.2f} | {seen['p50']:.1f} | {seen['p95']:.1f} | {seen['held']:,.0f} | {100 * same:.1f} % |"
        )


if __name__ == "__main__":
    main()
