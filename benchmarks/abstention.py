"""How well confidence, reckoned without a model, tells questions that a memory can't answer: a risk-coverage curve.

    python benchmarks/abstention.py DATASET=PATH … [--plot FILE.png]

A question is covered in the order of its score; the risk is the share of covered questions without an answer, as if a
reader answered all others right. Beside the confidence stand the relevance of the best turn alone, no score (chance) and
the perfect one. Data sets as for `scrubjay bench`, for instance `locomo=../shared/data/locomo/locomo_dev.json`; `held-out=datasets`
are those of our conversations that nothing was fitted to. A data set whose file isn't there is skipped.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.abstention import COVERAGES, collect_cases, measure_selectivity
from scrubjay.bench.diagrams import Risks, draw_risks
from scrubjay.bench.given import load_given
from scrubjay.bench.plots import save_picture
from scrubjay.embed import load_embedder
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.abstention import AbstentionCase, Selectivity
    from scrubjay.bench.questions import Dataset

CONFIDENCE = "confidence"


def describe(name: str, found: Selectivity) -> str:
    cells = " | ".join(f"{100 * found.accuracy[share]:.1f}" for share in COVERAGES)
    return f"| {name} | {found.auroc:.3f} | {found.aurc:.3f} | {cells} |"


def describe_threshold(cases: Sequence[AbstentionCase], threshold: float) -> list[str]:
    """Say of each category which share counts as answerable."""
    lines = ["| category | questions | counted as answerable, % |", "|---|---:|---:|"]
    for category in sorted({case.category for case in cases}):
        kept = [case.confidence >= threshold for case in cases if case.category == category]
        lines.append(f"| {category} | {len(kept)} | {100 * float(np.mean(kept)):.1f} |")
    return lines


def print_abstention(dataset: Dataset, settings: Settings) -> Risks:
    """Ask every question of a data set and print the tables."""
    cases = list(collect_cases(dataset, embedder=load_embedder(), settings=settings))
    truth = [case.answerable for case in cases]
    print(f"\n{dataset.name}: {len(cases)} questions, {truth.count(False)} without an answer; "
          f"data sha256 {dataset.sha256[:16]}…\n")  # fmt: skip
    shares = " | ".join(f"right at {share:.0%}" for share in COVERAGES)
    print(f"| score | AUROC | AURC | {shares} |\n|---|" + "---:|" * (2 + len(COVERAGES)))
    scores = {
        CONFIDENCE: [case.confidence for case in cases],
        "relevance of the best turn": [case.best for case in cases],
        "none": [0.0 for _ in cases],
        "perfect": [float(case.answerable) for case in cases],
    }
    for name, values in scores.items():
        print(describe(name, measure_selectivity(truth, values)))
    threshold = settings.confidence.answerable_from
    print(f"\nFrom {threshold} on, evidence counts as answering:\n")
    print("\n".join(describe_threshold(cases, threshold)))
    return Risks(
        dataset=dataset.name, answerable=truth, scores=scores, chosen=CONFIDENCE, threshold=threshold
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", nargs="+", help="a name, or name=path")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw risk against coverage")
    given = parser.parse_args()
    settings = Settings()
    drawn = [print_abstention(dataset, settings) for dataset in load_given(given.datasets)]
    if given.plot is not None:
        save_picture(partial(draw_risks, drawn), given.plot)


if __name__ == "__main__":
    main()
