"""What it is worth to know who is meant by the beginning of a name: questions that say Mel for Melanie.

    python benchmarks/nicknames.py locomo=PATH labelled=datasets

Of each question that names a speaker, the names are cut to their first letters. Small letters hide that they are names, so "mel" is what
is found where nobody knows her, and "Mel" where she is known; gold turns found among the first ten and within 1,000 tokens, against
the whole names, with 95 % intervals over questions.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.retrieval import run_retrieval
from scrubjay.bench.systems import Finding, System, rank_by, recall_turns
from scrubjay.datatypes import RankBy
from scrubjay.embed import load_embedder
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrubjay.bench.questions import BenchQuestion, BenchSample
    from scrubjay.memory import Memory

FIRST = 10
BUDGET = 1000
LONG = 6  # letters of a name that is cut to four of them; one of four or five is cut to three
NORMAL = 1.96  # standard errors to each side of a mean, 95 %


def cut(name: str) -> str:
    return name[: 4 if len(name) >= LONG else 3]


WAYS: dict[str, Callable[[str], str]] = {
    "Melanie": str,
    "mel": lambda name: cut(name).lower(),
    "Mel": cut,
}


@dataclass
class Asking:
    """The questions of a data set, their names written in one way."""

    write: Callable[[str], str]
    names: dict[str, re.Pattern[str]]  # of each sample's speakers
    found: list[tuple[float, float]] = field(
        default_factory=list
    )  # of the gold turns: among the first, within the budget

    def ask(self, memory: Memory, asked: BenchQuestion, _: Sequence[int]) -> Finding:
        names = self.names[asked.sample]
        if asked.evidence and not asked.unanswerable and names.search(asked.question):
            written = names.sub(lambda name: self.write(name[0]), asked.question)
            again = replace(asked, question=written)
            first = [turn.turn_id for turn in rank_by(RankBy.RELEVANCE)(memory, again)[:FIRST]]
            shown = recall_turns(memory, again, BUDGET)
            in_first, in_budget = (float(np.isin(asked.evidence, list(ids)).mean()) for ids in (first, shown))
            self.found.append((in_first, in_budget))
        return Finding(ranking=(), evidence={}, milliseconds=0.0)


def speakers_of(sample: BenchSample) -> re.Pattern[str]:
    """Match the first name of any speaker that has letters to cut."""
    turns = (turn for session in sample.conversation.sessions for turn in session.turns)
    names = {turn.speaker.split()[0] for turn in turns if turn.speaker}
    cuttable = "|".join(sorted(name for name in names if name.isalpha() and name.isascii() and len(name) > 3))
    return re.compile(rf"\b(?:{cuttable or '(?!)'})\b")


def measure(name: str, path: Path) -> None:
    dataset = load_dataset(name, path)
    names = {sample.sample: speakers_of(sample) for sample in dataset.samples}
    asking = {way: Asking(write, names) for way, write in WAYS.items()}
    systems = [
        System(name=way, about="names", settings=Settings(), ask=one.ask) for way, one in asking.items()
    ]
    run_retrieval(dataset, systems, embedder=load_embedder(), records=None)
    whole = 100 * np.array(asking["Melanie"].found)
    print(f"\n{name}, {len(whole)} questions that name a speaker\n")
    print(f"| asked of | R@{FIRST}, % | within {BUDGET:,} tokens, % |\n|---|---:|---:|")
    for way, one in asking.items():
        found = 100 * np.array(one.found)
        gain = found - whole
        error = NORMAL * gain.std(axis=0) / len(gain) ** 0.5
        cells = [
            f"{found[:, column].mean():.1f} ({gain[:, column].mean():+.1f} ± {error[column]:.1f})"
            for column in range(2)
        ]
        print(f"| {way} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("datasets", nargs="+", help="name=path")
    for name, _, path in (each.partition("=") for each in parser.parse_args().datasets):
        measure(name, Path(path))


if __name__ == "__main__":
    main()
