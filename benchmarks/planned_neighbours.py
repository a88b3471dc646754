"""What it does to restore the turns that others can't be read without, in planned reads of the same memories.

    python benchmarks/planned_neighbours.py locomo=PATH labelled=datasets longmemeval=PATH [--records RECORDING]

Found within the budgets, against no neighbours, with 95 % intervals over questions; and of the gold turns shown as turns that
answer another's question in at most 40 tokens, those whose question is shown as well. A recording fills LoCoMo's memories with
records (docs/reading.md); the others are read without. `--every 5` asks each fifth question.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.retrieval import run_retrieval
from scrubjay.bench.systems import Finding, System, recall
from scrubjay.cues import FLAG_QUESTION, turn_flags
from scrubjay.embed import count_tokens, load_embedder
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scrubjay.bench.questions import BenchQuestion, BenchSample
    from scrubjay.evidence import Evidence
    from scrubjay.memory import Memory

    Answers = Mapping[
        tuple[str, str], str
    ]  # sample and turn that answers another's question in few words → question

NEEDS = (0.0, 0.05, 0.1, 0.2)
BUDGETS = (1000, 2000)
SHORT = 40  # tokens of an answer
NORMAL = 1.96  # standard errors to each side of a mean, 95 %


@dataclass
class Reading:
    """What one setting showed."""

    answers: Answers
    found: dict[int, list[float]] = field(default_factory=lambda: {budget: [] for budget in BUDGETS})
    short: dict[int, list[bool]] = field(default_factory=lambda: {budget: [] for budget in BUDGETS})

    def ask(self, memory: Memory, asked: BenchQuestion, _: Sequence[int]) -> Finding:
        for budget in BUDGETS if asked.evidence and not asked.unanswerable else ():
            self.note(recall(memory, asked, strategy="planned", budget=budget), asked, budget)
        return Finding(ranking=(), evidence={}, milliseconds=0.0)

    def note(self, evidence: Evidence, asked: BenchQuestion, budget: int) -> None:
        self.found[budget].append(np.isin(asked.evidence, evidence.covered_turn_ids).mean())
        shown = (
            self.answers.get((asked.sample, turn_id))
            for turn_id in asked.evidence
            if turn_id in evidence.turn_ids
        )
        self.short[budget] += [question in evidence.turn_ids for question in shown if question is not None]


def short_answers(sample: BenchSample) -> Iterator[tuple[tuple[str, str], str]]:
    """Give the turns that answer another's question in few words, each with that question's."""
    for session in sample.conversation.sessions:
        for before, turn in pairwise(session.turns):
            is_asked = bool(turn_flags(before.text) & FLAG_QUESTION)
            another = (turn.speaker, turn.role) != (before.speaker, before.role)
            if is_asked and another and count_tokens([turn.text])[0] <= SHORT:
                yield (sample.sample, turn.turn_id or ""), before.turn_id or ""


def with_need(need: float) -> Settings:
    default = Settings()
    selection = replace(default.reading.selection, need=need)
    return replace(default, reading=replace(default.reading, selection=selection))


def measure(name: str, path: Path, *, records: Path | None, every: int) -> None:
    dataset = load_dataset(name, path)
    samples = tuple(replace(one, questions=one.questions[::every]) for one in dataset.samples)
    dataset = replace(dataset, samples=samples)
    answers = dict(pair for sample in samples for pair in short_answers(sample))
    readings = {need: Reading(answers) for need in NEEDS}
    systems = [
        System(name=f"need {need}", about="planned", settings=with_need(need), ask=reading.ask)
        for need, reading in readings.items()
    ]
    run_retrieval(dataset, systems, embedder=load_embedder(), records=records if name == "locomo" else None)
    for budget in BUDGETS:
        print(f"\n{name}, {len(readings[0.0].found[budget])} questions, {budget:,} tokens\n")
        print("| need | found, % | question shown |\n|---|---:|---:|")
        for need, reading in readings.items():
            found = 100 * np.array(reading.found[budget])
            gain = found - 100 * np.array(readings[0.0].found[budget])
            error = NORMAL * gain.std() / len(gain) ** 0.5
            shown = f"{sum(reading.short[budget])} of {len(reading.short[budget])}"
            print(f"| {need} | {found.mean():.1f} ({gain.mean():+.1f} ± {error:.1f}) | {shown} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("datasets", nargs="+", help="name=path")
    parser.add_argument("--records", type=Path, help="a recording of LoCoMo's records")
    parser.add_argument("--every", type=int, default=1, help="ask each so manieth question")
    given = parser.parse_args()
    for name, _, path in (each.partition("=") for each in given.datasets):
        measure(name, Path(path), records=given.records, every=given.every)


if __name__ == "__main__":
    main()
