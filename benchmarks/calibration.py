"""Say how far the score of a turn can be believed as a probability, and what the floors of a chain leave out.

`python benchmarks/calibration.py sample labelled=datasets locomo=PATH longmemeval=PATH` prints a reliability table of each
data set: of the turns given a probability, how many are evidence. Every question counts, those without an answer too.
Questions of the next conversation, which nothing in a memory answers, show when nothing counts as relevant.
`--together` puts all sessions of a data set whose session ids are its own into one memory, as LongMemEval's are: a large
one. `--plot FILE.png` draws the tables. `held-out=datasets` are those of our conversations that nothing was fitted to. A
data set whose file isn't there is skipped.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.diagrams import draw_reliability
from scrubjay.bench.given import load_given
from scrubjay.bench.judged import judge_samples
from scrubjay.bench.plots import save_picture
from scrubjay.bench.reliability import bin_reliability, format_reliability, likelihoods, measure_floors
from scrubjay.embed import load_embedder
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.questions import BenchSample, Dataset
    from scrubjay.bench.reliability import ReliabilityBin

TOGETHER = "together"


def merge_samples(samples: Sequence[BenchSample]) -> BenchSample:
    """Put the sessions of all samples, each once, and their questions into one."""
    sessions = {session.session_id: session for each in samples for session in each.conversation.sessions}
    conversation = replace(samples[0].conversation, sessions=tuple(sessions.values()))
    questions = tuple(
        replace(question, sample=TOGETHER, question_index=place)
        for place, question in enumerate(question for each in samples for question in each.questions)
    )
    return replace(samples[0], sample=TOGETHER, conversation=conversation, questions=questions)


def print_calibration(dataset: Dataset, *, together: bool) -> tuple[ReliabilityBin, ...]:
    settings = Settings()
    samples = dataset.samples
    if together:
        samples = (merge_samples(samples),)
    judged = list(
        judge_samples(samples, embedder=load_embedder(), settings=settings, strangers=len(samples) > 1)
    )
    own = [each for each in judged if not each.is_stranger]
    probabilities, gold = likelihoods(own, settings.relevance)
    turns = np.mean([len(each.turn_ids) for each in own])
    bins = bin_reliability(probabilities, gold)
    print(f"\n{dataset.name}: {len(own):,} questions, memories of {turns:,.0f} turns on average")
    print(format_reliability(bins))
    print(f"evidence expected {probabilities.sum():,.0f}, found {gold.sum():,}")
    floors = measure_floors(judged, settings)
    print(
        f"left out: {floors.turns:.1%} of turns, {floors.gold:.2%} of gold; nothing relevant to "
        f"{floors.silenced:.2%} of questions, {floors.strangers_silenced:.1%} of another memory's"
    )
    return bins


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="+", help="a name, or name=path")
    parser.add_argument("--together", action="store_true", help="one memory of all sessions of a data set")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw a reliability diagram")
    given = parser.parse_args()
    curves = {
        dataset.name: print_calibration(dataset, together=given.together)
        for dataset in load_given(given.datasets)
    }
    if given.plot is not None:
        save_picture(partial(draw_reliability, curves), given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
