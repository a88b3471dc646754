"""Fit what tells questions that a memory can't answer, and print it as settings (docs/answers.md).

`python tools/fit_abstention.py --labelled datasets --longmemeval longmemeval_dev.json`, numpy alone. The procedure,
without randomness:

1. Put every question of the sample, of our own conversations but those held out, and of LongMemEval's development file to
   its memory, and the questions without an answer that are made of them (bench/abstention.py).
2. Weigh questions so that, of those that name somebody and of those that don't, a quarter has no answer each: the data
   sets' own count one, the two made kinds share the rest. So naming somebody says nothing by itself.
3. Fit a logistic regression with a ridge. Do that without each fifth of the conversations, and score that fifth.
4. Take as threshold what a tenth of our own questions with an answer stays below.

LoCoMo and the held-out conversations take no part: they measure. `--tried` adds each signal that was tried and left out, by
itself, and says what that gives (bench/tried_signals.py).
"""

from __future__ import annotations

import argparse
import zlib
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.abstention import Origin, collect_cases, measure_auroc
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.fitting import split_labelled
from scrubjay.bench.given import HELD_OUT
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
OWN = "labelled"  # with the sample
TINY = 1e-9
LEFT_OUT = 0.1  # of questions with an answer that may count as having none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Material:
    """Cases as arrays; n rows."""

    signals: Floats  # (n, signals)
    answerable: Floats
    origins: NDArray[np.str_]
    weights: Floats
    folds: NDArray[np.intp]  # -1 for those held out
    own: NDArray[np.bool_]
    trained: NDArray[np.bool_]  # not held out

    def beside(self, further: Sequence[float]) -> Material:
        """Add a signal, brought to the mean 0 and the spread 1."""
        column = np.array(further)
        column = (column - column.mean()) / max(float(column.std()), TINY)
        return replace(self, signals=np.column_stack([self.signals, column]))


def arrange(cases: Sequence[AbstentionCase]) -> Material:
    signals = np.array([astuple(case.signals) for case in cases])
    answerable = np.array([float(case.answerable) for case in cases])
    origins = np.array([case.origin.value for case in cases])
    trained = np.array([case.dataset != HELD_OUT for case in cases])
    folds = np.array([zlib.crc32(f"{case.dataset} {case.sample}".encode()) % FOLDS for case in cases])
    names = np.array([case.signals.names for case in cases])
    weights = np.zeros(len(cases))
    weights[trained] = weigh(names[trained], answerable[trained], origins[trained])
    return Material(
        signals=signals,
        answerable=answerable,
        origins=origins,
        weights=weights,
        folds=np.where(trained, folds, -1),
        own=np.array([case.dataset in {OWN, HELD_OUT} for case in cases]),
        trained=trained,
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


def score_apart(material: Material) -> Floats:
    """Score each question by what was fitted without its fold, those held out by what was fitted to all others."""
    scores = np.zeros(len(material.answerable))
    for fold in range(-1, FOLDS):
        rows = material.folds == fold
        found = fit(material, ~rows & material.trained)
        scores[rows] = 1 / (1 + np.exp(-material.signals[rows] @ found[:-1] - found[-1]))
    return scores


def describe(material: Material, scores: Floats) -> list[str]:
    lines = [
        "| questions without an answer | of ours | AUROC | LongMemEval's | AUROC | held out | AUROC |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    own, trained = material.own, material.trained
    for origin in Origin:
        cells = []
        for group in (own & trained, ~own, own & ~trained):
            wrong = group & (material.answerable == 0) & (material.origins == origin)
            rows = wrong | (group & (material.answerable == 1))
            auroc = measure_auroc(material.answerable[rows] == 1, scores[rows]) if wrong.any() else np.nan
            cells.append(f"{wrong.sum()} | {auroc:.3f}")
        lines.append(f"| {origin.value} | {' | '.join(cells)} |")
    return lines


def measure_loss(material: Material, scores: Floats) -> float:
    """Give the mean logarithmic loss, as questions are weighed."""
    chance = np.where(material.answerable == 1, scores, 1 - scores)
    return float(np.average(-np.log(np.maximum(chance, TINY)), weights=material.weights))


def measure_kind(material: Material, scores: Floats, origin: Origin, *, trained: bool) -> float:
    """Give the AUROC of our questions with an answer against one kind without."""
    ours = material.own & (material.trained == trained)
    rows = ours & ((material.answerable == 1) | (material.origins == origin))
    return measure_auroc(material.answerable[rows] == 1, scores[rows])


def describe_tried(cases: Sequence[AbstentionCase], material: Material) -> list[str]:
    """Add each signal that was left out by itself, and tell its weight, the loss, and how ours are parted."""
    variants = {"none": material}
    for name in cases[0].tried:
        variants[name] = material.beside([case.tried[name] for case in cases])
    lines = [f"| signal added | weight | loss | {' | '.join(Origin)} | held out: {' | '.join(Origin)} |"]
    lines.append("|---|" + "---:|" * (2 + 2 * len(Origin)))
    for name, variant in variants.items():
        scores = score_apart(variant)
        kinds = [measure_kind(variant, scores, origin, trained=True) for origin in Origin]
        kinds += [measure_kind(variant, scores, origin, trained=False) for origin in Origin]
        weight = fit(variant, variant.trained)[-2] if variant is not material else np.nan
        cells = [f"{value:.3f}" for value in (measure_loss(variant, scores), *kinds)]
        lines.append(f"| {name} | {weight:.2f} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Fit, and print the settings and how held-out questions are parted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labelled", type=Path, default=Path("datasets"))
    parser.add_argument("--longmemeval", type=Path, required=True)
    parser.add_argument("--tried", action="store_true", help="also add each signal that was left out")
    arguments = parser.parse_args()
    settings, embedder = Settings(), load_embedder()
    trained, held = split_labelled(arguments.labelled)
    cases: list[AbstentionCase] = []
    for dataset in (
        trained,
        load_dataset("longmemeval", arguments.longmemeval),
        replace(held, name=HELD_OUT),
    ):
        cases += collect_cases(dataset, embedder=embedder, settings=settings, made=True)
    material = arrange(cases)
    scores = score_apart(material)
    fitted = fit(material, material.trained).tolist()
    names = [*(field.name for field in fields(ConfidenceSignals)), "bias"]
    ours = material.own & material.trained
    threshold = float(np.quantile(scores[ours & (material.answerable == 1)], LEFT_OUT))
    weights = ", ".join(f"{name}={value:.2f}" for name, value in zip(names, fitted, strict=True))
    print(f"ConfidenceSettings({weights}, answerable_from={threshold:.2f})\n")
    print("\n".join(describe(material, scores)))
    for origin in Origin:
        wrong = ours & (material.answerable == 0) & (material.origins == origin)
        print(
            f"{origin.value}: {100 * float(np.mean(scores[wrong] < threshold)):.0f} % of ours below the threshold"
        )
    if arguments.tried:
        print("\n" + "\n".join(describe_tried(cases, material)))


if __name__ == "__main__":
    main()
