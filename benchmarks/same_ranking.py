"""Whether a memory in PostgreSQL ranks turns as one in a file does: the same turns, the same scores, question for question.

    DATABASE_URL=postgresql://… python benchmarks/same_ranking.py locomo --data FILE
    DATABASE_URL=postgresql://… python benchmarks/same_ranking.py sample

Exits with 1 where one hit among the first of a question differs in turn, score or channel.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay import Memory, PostgresHome
from scrubjay.bench.datasets import load_dataset

if TYPE_CHECKING:
    from scrubjay.bench.questions import BenchSample


@dataclass(slots=True, kw_only=True)
class Comparison:
    """What was found of two memories that hold the same turns."""

    questions: int = 0
    hits: int = 0
    different: int = 0  # hits that differ in turn, score or a channel's rank or score
    seconds_file: float = 0.0  # of all searches
    seconds_database: float = 0.0


def compare(sample: BenchSample, home: PostgresHome, *, depth: int, into: Comparison) -> None:
    """Ask two memories every question of a sample."""
    user_id = f"same-ranking {uuid.uuid4()}"
    turns = [(session.session_id, turn) for session in sample.conversation.sessions for turn in session.turns]
    with tempfile.TemporaryDirectory() as folder, Memory(Path(folder) / "memory.jay") as in_file:
        in_database = home.memory(user_id)
        for memory in (in_file, in_database):
            memory.add_many(turns)
            memory.search("first")  # the index is read
        for question in sample.questions:
            started = time.perf_counter()
            mine = in_file.search(question.question, limit=depth, now=question.asked_at)
            halfway = time.perf_counter()
            theirs = in_database.search(question.question, limit=depth, now=question.asked_at)
            into.seconds_database += time.perf_counter() - halfway
            into.seconds_file += halfway - started
            one, other = (
                [(hit.turn.turn_id, hit.score, dict(hit.channels)) for hit in hits] for hits in (mine, theirs)
            )
            into.questions += 1
            into.hits += len(one)
            into.different += abs(len(one) - len(other)) + sum(
                a != b for a, b in zip(one, other, strict=False)
            )
    home.forget(user_id)


def main() -> int:
    """Compare, print, and say whether all was the same."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", help="sample, locomo, longmemeval, …")
    parser.add_argument("--data", type=Path, help="the data set's file")
    parser.add_argument("--depth", type=int, default=100, help="hits of a question that are compared")
    parser.add_argument("--limit", type=int, help="samples, from the first")
    given = parser.parse_args()
    if "DATABASE_URL" not in os.environ:
        parser.error("set DATABASE_URL to a PostgreSQL database with pgvector")
    if given.data is not None and not given.data.exists():
        print(f"skipped: {given.data} is not there")
        return 0
    found = Comparison()
    with PostgresHome(os.environ["DATABASE_URL"]) as home:
        for sample in load_dataset(given.dataset, given.data).samples[: given.limit]:
            compare(sample, home, depth=given.depth, into=found)
    a_question = 1_000 / max(found.questions, 1)
    print(
        f"{found.questions} questions, {found.hits} hits, {found.different} of them different; "
        f"a search takes {found.seconds_file * a_question:.2f} ms in a file, "
        f"{found.seconds_database * a_question:.2f} ms in the database"
    )
    return 1 if found.different else 0


if __name__ == "__main__":
    sys.exit(main())
