"""Fit the weights of turn relevance and calibrate them, and print them as settings (docs/ranking.md).

`python tools/fit_relevance.py --longmemeval longmemeval_dev.json --labelled datasets`. The procedure, without randomness:

1. Fill a memory with each conversation and compute the signals of every turn for each of its questions.
2. Fit weights listwise: the loss of a gold turn is the logarithm of 1 plus the odds of all other turns of its memory
   against it; a ridge keeps weights small. Each data set counts by the square root of its questions, so that the
   larger leads but doesn't rule (scrubjay/bench/fitting.py).
3. Do that without each quarter of the data, by conversation for ours and by question for LongMemEval, and score that
   quarter. On these scores fit the scale, the bias and the rivalry that make them probabilities, by the log loss over
   all turns (Platt's method). Questions without an answer count as the others; a tenth of the weight is on questions
   put to a memory they weren't written for, so that "nothing relevant" is known when seen.
4. Round, and measure on the quarters, and on conversations that took no part in any of it.

LoCoMo, MemDaily and RealMem take no part: they measure.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import astuple, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.fitting import (
    HELD_OUT,
    calibrate,
    fit_all,
    fit_listwise,
    gather,
    line_up,
    split_labelled,
    weigh,
)
from scrubjay.bench.judged import run_question
from scrubjay.bench.measures import score_run, summarize
from scrubjay.bench.reliability import bin_reliability, format_reliability, likelihoods, measure_floors
from scrubjay.embed import load_embedder
from scrubjay.relevance import SIGNALS
from scrubjay.settings import RelevanceSettings, RelevanceWeights, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrubjay.bench.fitting import Floats, Group, Material, Scored
    from scrubjay.bench.questions import BenchSample, Dataset

GRAIN = 0.05  # to which weights and bias are rounded
SHOWN = ("R@5", "R@10", "R@25", "R@50", "R@500tok", "R@1000tok", "R@2000tok", "session-all@5")
BUDGETS = (500, 1000, 2000)


def settle(weights: Floats, scored: Scored, settings: RelevanceSettings) -> RelevanceSettings:
    """Round what was fitted into settings."""
    found = calibrate(scored)
    rounded = [round(round(float(weight) * found.scale / GRAIN) * GRAIN, 2) for weight in weights]
    return replace(
        settings,
        weights=RelevanceWeights(**dict(zip(SIGNALS, rounded, strict=True))),
        bias=round(round(found.bias / GRAIN) * GRAIN, 2),
        rivalry=round(found.rivalry, 2),
    )


def with_weights(settings: Settings, weights: Floats) -> Settings:
    """Exchange the weights; the order of turns needs no more."""
    chosen = RelevanceWeights(**dict(zip(SIGNALS, weights.tolist(), strict=True)))
    return replace(settings, relevance=replace(settings.relevance, weights=chosen))


def measure(
    samples: Sequence[BenchSample], judged: Group, settings_of: Sequence[Settings]
) -> Mapping[str, float]:
    runs = [
        run_question(each, settings, budgets=BUDGETS)
        for each, settings in zip(judged, settings_of, strict=True)
    ]
    table = summarize(score_run(samples, runs))
    return {name: table.overall[name].mean for name in SHOWN if name in table.overall}


def print_figures(name: str, figures: Mapping[str, float]) -> None:
    print(f"{name:42}" + "  ".join(f"{measure} {value * 100:5.1f}" for measure, value in figures.items()))


def split_checked(path: Path) -> tuple[Dataset, Dataset]:
    trained, held = split_labelled(path)
    if missing := HELD_OUT - {sample.sample for sample in held.samples}:
        raise SystemExit(f"{path} lacks {', '.join(sorted(missing))}, which must be held out")
    return trained, held


def provenance(materials: Sequence[Material], held: Material) -> dict[str, object]:
    return {
        "script": "tools/fit_relevance.py",
        "data": {one.dataset.name: one.dataset.sha256 for one in materials},
        "sample": load_dataset("sample").sha256,
        "questions": {one.dataset.name: count_answered(one) for one in materials},
        "questions_held_out": count_answered(held),
        "held_out": sorted(HELD_OUT),
        "embedder": str(load_embedder().identity),
        "seed": None,
        "versions": {name: version(name) for name in ("scrubjay", "numpy", "scipy")},
    }


def count_answered(material: Material) -> int:
    return sum(bool(each.gold.any()) for each in material.own)


def print_settings(settings: RelevanceSettings) -> None:
    for name, weight in zip(SIGNALS, astuple(settings.weights), strict=True):
        print(f"{name}: float = {weight}")
    print(f"bias: float = {settings.bias}\nrivalry: float = {settings.rivalry}")


def report(
    materials: Sequence[Material], held: Material, by_fold: Sequence[Floats], fitted: Settings
) -> dict[str, Mapping[str, float]]:
    """Print and return figures on what was unseen, and on what was fitted to with the weights of before."""
    figures: dict[str, Mapping[str, float]] = {}
    for one in materials:
        samples, name = one.dataset.samples, one.dataset.name
        settings_of = [with_weights(fitted, by_fold[fold]) for fold in one.folds.tolist()]
        figures[f"{name}, by cross-validation"] = measure(samples, one.own, settings_of)
        figures[f"{name}, fitted to"] = measure(samples, one.own, [fitted] * len(one.own))
        figures[f"{name}, settings of before"] = measure(samples, one.own, [Settings()] * len(one.own))
    samples = held.dataset.samples
    figures["held out"] = measure(samples, held.own, [fitted] * len(held.own))
    figures["held out, settings of before"] = measure(samples, held.own, [Settings()] * len(held.own))
    for name, values in figures.items():
        print_figures(name, values)
    for one, name in ((held, "held out"), *((one, f"{one.dataset.name}, fitted to") for one in materials)):
        print(f"\n{name}\n{format_reliability(bin_reliability(*likelihoods(one.own, fitted.relevance)))}")
        print(measure_floors([*one.own, *one.strangers], fitted))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--longmemeval", type=Path, required=True, help="LongMemEval's development questions")
    parser.add_argument("--labelled", type=Path, required=True, help="the folder of our own conversations")
    parser.add_argument("--out", type=Path, help="write weights, figures and provenance as JSON")
    given = parser.parse_args()
    settings = Settings()
    trained, kept = split_checked(given.labelled)
    judge = partial(gather, settings=settings, embedder=load_embedder())
    materials = [
        judge(trained, by_sample=True),
        judge(load_dataset("longmemeval", given.longmemeval), by_sample=False),
    ]
    held = judge(kept, by_sample=True)
    by_fold, full = fit_all(materials, fit_listwise)
    fewest = settings.relevance.fewest_turns
    scored = line_up(materials, [weigh(weights) for weights in by_fold], weigh(full), fewest=fewest)
    relevance = settle(full, scored, settings.relevance)
    print_settings(relevance)
    made_from = provenance(materials, held)
    print(json.dumps(made_from, indent=1), "\n")
    figures = report(materials, held, by_fold, replace(settings, relevance=relevance))
    if given.out:
        weights = dict(zip(SIGNALS, astuple(relevance.weights), strict=True))
        document = {"weights": weights, "bias": relevance.bias, "rivalry": relevance.rivalry}
        given.out.write_text(
            json.dumps({**document, "figures": figures, **made_from}, indent=1) + "\n", "utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
