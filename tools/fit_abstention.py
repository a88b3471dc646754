"""Fit what tells questions that a memory can't answer, and print it as settings (docs/answers.md).

`python tools/fit_abstention.py --labelled datasets --longmemeval longmemeval_dev.json`, numpy alone. The procedure,
without randomness:

1. Put every question of the sample, of our own conversations and of LongMemEval's development file to its memory, and the
   questions without an answer that are made of them (bench/abstention.py).
2. Weigh questions so that, of those that name somebody and of those that don't, a quarter has no answer each: the data
   sets' own count one, the two made kinds share the rest. So naming somebody says nothing by itself.
3. Fit a logistic regression with a ridge. Do that without each fifth of the conversations, and score that fifth.
4. Take as threshold what a tenth of our own questions with an answer stays below.

LoCoMo takes no part: it measures.
"""

from __future__ import annotations

import argparse
import zlib
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.abstention import Origin, collect_cases, measure_auroc
from scrubjay.bench.datasets import load_dataset
from scrubjay.confidence import ConfidenceSignals
from scrubjay.embed import load_embedder
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.abstention import AbstentionCase

    Floats = NDArray[np.float64]

WITHOUT_ANSWER = 0.25  # of the weight; nobody knows how often people ask what was never told
RIDGE = 0.5
ROUNDS = 30  # of Newton's method, far more than it needs
FOLDS = 5
LEFT_OUT = 0.1  # of questions with an answer that may count as having none
OWN = ("sample", "labelled")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Material:
    """Cases as arrays; n rows."""

    signals: Floats  # (n, signals)
    answerable: Floats
    origins: NDArray[np.str_]
    weights: Floats
    folds: NDArray[np.intp]
    own: NDArray[np.bool_]


def arrange(cases: Sequence[AbstentionCase]) -> Material:
    signals = np.array([astuple(case.signals) for case in cases])
    answerable = np.array([float(case.answerable) for case in cases])
    origins = np.array([case.origin.value for case in cases])
    folds = [zlib.crc32(f"{case.dataset} {case.sample}".encode()) % FOLDS for case in cases]
    return Material(
        signals=signals,
        answerable=answerable,
        origins=origins,
        weights=weigh(np.array([case.signals.names for case in cases]), answerable, origins),
        folds=np.array(folds),
        own=np.array([case.dataset in OWN for case in cases]),
    )


def weigh(names: Floats, answerable: Floats, origins: NDArray[np.str_]) -> Floats:
    weights = np.ones(len(names))
    for kind in (0.0, 1.0):
        of_kind = names == kind
        target = (of_kind & (answerable == 1)).sum() * WITHOUT_ANSWER / (1 - WITHOUT_ANSWER)
        rest = target - (of_kind & (answerable == 0) & (origins == Origin.NATURAL)).sum()
        made = [of_kind & (origins == origin) for origin in (Origin.REMOVED, Origin.SWAPPED)]
        made = [rows for rows in made if rows.any()]
        for rows in made:
            weights[rows] = rest / len(made) / rows.sum()
    return weights


def fit(material: Material, rows: NDArray[np.bool_]) -> Floats:
    """Fit weights and, last, the bias."""
    inputs = np.column_stack([material.signals[rows], np.ones(rows.sum())])
    truth, weights = material.answerable[rows], material.weights[rows]
    penalty = np.diag([RIDGE] * (inputs.shape[1] - 1) + [0.0])
    found = np.zeros(inputs.shape[1])
    for _ in range(ROUNDS):
        chance = 1 / (1 + np.exp(-inputs @ found))
        curve = (inputs * (weights * chance * (1 - chance))[:, None]).T @ inputs + penalty
        found = found + np.linalg.solve(curve, inputs.T @ (weights * (truth - chance)) - penalty @ found)
    return found


def score_held_out(material: Material) -> Floats:
    scores = np.zeros(len(material.answerable))
    for fold in range(FOLDS):
        rows = material.folds == fold
        found = fit(material, ~rows)
        scores[rows] = 1 / (1 + np.exp(-material.signals[rows] @ found[:-1] - found[-1]))
    return scores


def describe(material: Material, scores: Floats) -> list[str]:
    lines = [
        "| questions without an answer | of ours | AUROC | LongMemEval's | AUROC |",
        "|---|---:|---:|---:|---:|",
    ]
    for origin in Origin:
        cells = []
        for own in (True, False):
            wrong = (material.own == own) & (material.answerable == 0) & (material.origins == origin)
            rows = wrong | ((material.own == own) & (material.answerable == 1))
            auroc = measure_auroc(material.answerable[rows] == 1, scores[rows]) if wrong.any() else np.nan
            cells.append(f"{wrong.sum()} | {auroc:.3f}")
        lines.append(f"| {origin.value} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Fit, and print the settings and how held-out questions are parted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labelled", type=Path, default=Path("datasets"))
    parser.add_argument("--longmemeval", type=Path, required=True)
    arguments = parser.parse_args()
    settings, embedder = Settings(), load_embedder()
    cases: list[AbstentionCase] = []
    for name, path in (
        ("sample", None),
        ("labelled", arguments.labelled),
        ("longmemeval", arguments.longmemeval),
    ):
        cases += collect_cases(load_dataset(name, path), embedder=embedder, settings=settings, made=True)
    material = arrange(cases)
    scores = score_held_out(material)
    fitted = fit(material, np.ones(len(cases), np.bool_)).tolist()
    names = [*(field.name for field in fields(ConfidenceSignals)), "bias"]
    threshold = float(np.quantile(scores[material.own & (material.answerable == 1)], LEFT_OUT))
    weights = ", ".join(f"{name}={value:.2f}" for name, value in zip(names, fitted, strict=True))
    print(f"ConfidenceSettings({weights}, answerable_from={threshold:.2f})\n")
    print("\n".join(describe(material, scores)))
    for origin in Origin:
        wrong = material.own & (material.answerable == 0) & (material.origins == origin)
        print(
            f"{origin.value}: {100 * float(np.mean(scores[wrong] < threshold)):.0f} % of ours below the threshold"
        )


if __name__ == "__main__":
    main()
