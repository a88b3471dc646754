"""Fit the weights of turn relevance and calibrate them, and print them as settings (docs/ranking.md).

`python tools/fit_relevance.py --longmemeval longmemeval_dev.json --labelled datasets`. The procedure, without randomness:

1. Fill a memory with each conversation and compute the signals of every turn for each of its questions.
2. Fit weights listwise: the loss of a gold turn is the logarithm of 1 plus the odds of all other turns of its memory
   against it; a ridge keeps weights small. Each data set counts by the fourth root of its questions, so that the
   larger leads but doesn't rule.
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
from dataclasses import astuple, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.judged import judge_samples, run_question
from scrubjay.bench.measures import score_run, summarize
from scrubjay.bench.reliability import bin_reliability, format_reliability, likelihoods, measure_floors
from scrubjay.embed import load_embedder
from scrubjay.relevance import SIGNALS
from scrubjay.settings import RelevanceSettings, RelevanceWeights, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.judged import JudgedQuestion
    from scrubjay.bench.questions import BenchSample, Dataset

    Floats = NDArray[np.float64]
    Group = Sequence["JudgedQuestion"]

HELD_OUT = frozenset({"assistant-year", "friends-chess", "friends-music", "siblings-move", "zh-assistant"})
"""Every fourth of our first conversations by name, the sample counted in, and one added with later ones, each set aside
before anything was fitted: nothing was ever fitted to them."""

RIDGE = 1e-3  # of a mean loss over gold turns
FOLDS = 4
STRANGERS = 0.1  # of the weight of a data set's own questions
LEVELLING = 0.75  # power of a data set's size that each of its questions is divided by
GRAIN = 0.05  # to which weights and bias are rounded
SHOWN = ("R@5", "R@10", "R@25", "R@50", "R@500tok", "R@1000tok", "R@2000tok", "session-all@5")
BUDGETS = (500, 1000, 2000)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Material:
    """A data set's questions, and how they fall into folds."""

    dataset: Dataset
    own: list[JudgedQuestion]
    strangers: list[JudgedQuestion]
    folds: NDArray[np.intp]  # of each of `own`

    def weight(self, questions: int) -> Floats:
        """Give the weight of each of a number of its questions."""
        return np.full(questions, 1 / max(questions, 1) ** LEVELLING)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """Scores of the turns of many questions, laid end to end."""

    scores: Floats
    gold: Floats
    starts: NDArray[np.intp]
    sizes: NDArray[np.intp]
    weights: Floats  # of each turn
    prior: Floats  # logarithm of the turns of its memory


def gather(dataset: Dataset, settings: Settings, *, by_sample: bool) -> Material:
    judged = list(judge_samples(dataset.samples, embedder=load_embedder(), settings=settings, strangers=True))
    own = [each for each in judged if not each.is_stranger]
    memories = sorted({each.memory for each in own})
    places = [memories.index(each.memory) for each in own] if by_sample else list(range(len(own)))
    return Material(
        dataset=dataset,
        own=own,
        strangers=[each for each in judged if each.is_stranger],
        folds=np.array(places) % FOLDS,
    )


def fit_listwise(groups: Sequence[Group], weights: Sequence[Floats]) -> Floats:
    """Fit the weights of the signals to gold turns, each against all other turns of its memory."""
    pairs = [
        (each, weight)
        for group, of_group in zip(groups, weights, strict=True)
        for each, weight in zip(group, of_group, strict=True)
        if each.gold.any()
    ]
    gold = np.concatenate([each.signals[each.gold] for each, _ in pairs])
    others = np.concatenate([each.signals[~each.gold] for each, _ in pairs])
    sizes = np.array([np.count_nonzero(~each.gold) for each, _ in pairs])
    counts = np.array([np.count_nonzero(each.gold) for each, _ in pairs])
    starts = np.cumsum(sizes) - sizes
    question = np.repeat(np.arange(len(pairs)), counts)
    share = np.repeat([weight for _, weight in pairs] / counts, counts)
    share /= share.sum()

    def loss(candidate: Floats) -> tuple[float, Floats]:
        odds, total = exponentials(others @ candidate, starts, sizes)
        margin = total[question] - gold @ candidate
        pull = share / (1 + np.exp(-margin))
        spread = odds * np.repeat(np.bincount(question, pull, len(pairs)), sizes)
        value = float(share @ np.logaddexp(0, margin)) + RIDGE * float(candidate @ candidate)
        return value, spread @ others - pull @ gold + 2 * RIDGE * candidate

    return descend(loss, np.zeros(gold.shape[1]))


def exponentials(scores: Floats, starts: NDArray[np.intp], sizes: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return each score's share in its question's summed exponentials, and the logarithm of that sum."""
    most = np.maximum.reduceat(scores, starts)
    powers = np.exp(scores - np.repeat(most, sizes))
    sums = np.add.reduceat(powers, starts)
    return powers / np.repeat(sums, sizes), np.log(sums) + most


def descend(loss: Callable[[Floats], tuple[float, Floats]], start: Floats) -> Floats:
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x, np.float64)


def cross_fit(materials: Sequence[Material]) -> list[Floats]:
    """Fit weights without each fold in turn."""
    fitted = []
    for fold in range(FOLDS):
        groups = [
            [each for each, at in zip(one.own, one.folds, strict=True) if at != fold] for one in materials
        ]
        counted = [one.weight(len(group)) for one, group in zip(materials, groups, strict=True)]
        fitted.append(fit_listwise(groups, counted))
    return fitted


def line_up(
    materials: Sequence[Material], by_fold: Sequence[Floats], full: Floats, settings: RelevanceSettings
) -> Scored:
    """Score every question with weights it took no part in, strangers with those of all."""
    entries: list[tuple[JudgedQuestion, Floats, float]] = []
    for one in materials:
        own = one.weight(len(one.own))
        strange = STRANGERS * own.sum() / max(len(one.strangers), 1)
        entries += [
            (each, by_fold[fold], weight)
            for each, fold, weight in zip(one.own, one.folds.tolist(), own.tolist(), strict=True)
        ]
        entries += [(each, full, float(strange)) for each in one.strangers]
    sizes = np.array([len(each.pool) for each, _, _ in entries])
    among = [max(len(each.turn_ids), settings.fewest_turns) for each, _, _ in entries]
    return Scored(
        scores=np.concatenate([each.signals @ weights for each, weights, _ in entries]),
        gold=np.concatenate([each.gold for each, _, _ in entries]).astype(np.float64),
        starts=np.cumsum(sizes) - sizes,
        sizes=sizes,
        weights=np.repeat([weight for _, _, weight in entries], sizes),
        prior=np.repeat(np.log(among), sizes),
    )


def calibrate(scored: Scored) -> tuple[float, float, float]:
    """Fit scale, bias and rivalry by the log loss over all turns (relevance.weigh_signals, share_odds)."""

    def loss(candidate: Floats) -> tuple[float, Floats]:
        scale, bias, rivalry = candidate
        odds = scale * scored.scores + bias - scored.prior
        shares, total = exponentials(odds, scored.starts, scored.sizes)
        held = 1 / (1 + np.exp(-total))  # of the summed odds beside the 1 for there being none
        rivals = np.repeat(np.logaddexp(0, total), scored.sizes)
        final = odds - rivalry * rivals
        value = float(scored.weights @ (np.logaddexp(0, final) - scored.gold * final))
        pull = scored.weights * (1 / (1 + np.exp(-final)) - scored.gold)
        summed = np.add.reduceat(pull, scored.starts)
        by_odds = pull - rivalry * np.repeat(summed * held, scored.sizes) * shares
        return value, np.array([by_odds @ scored.scores, by_odds.sum(), -(pull @ rivals)])

    scale, bias, rivalry = descend(loss, np.array([1.0, -5.0, 0.5])).tolist()
    return scale, bias, rivalry


def settle(weights: Floats, scored: Scored, settings: RelevanceSettings) -> RelevanceSettings:
    """Round what was fitted into settings."""
    scale, bias, rivalry = calibrate(scored)
    rounded = [round(round(float(weight) * scale / GRAIN) * GRAIN, 2) for weight in weights]
    return replace(
        settings,
        weights=RelevanceWeights(**dict(zip(SIGNALS, rounded, strict=True))),
        bias=round(round(bias / GRAIN) * GRAIN, 2),
        rivalry=round(rivalry, 2),
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


def split_labelled(path: Path) -> tuple[Dataset, Dataset]:
    """Give our own conversations, with the shipped sample, to fit to, and those held out."""
    labelled, sample = load_dataset("labelled", path), load_dataset("sample")
    names = {sample.sample for sample in labelled.samples}
    if missing := HELD_OUT - names:
        raise SystemExit(f"{path} lacks {', '.join(sorted(missing))}, which must be held out")
    trained = [each for each in (*labelled.samples, *sample.samples) if each.sample not in HELD_OUT]
    held = [each for each in labelled.samples if each.sample in HELD_OUT]
    return replace(labelled, samples=tuple(trained)), replace(labelled, samples=tuple(held))


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
    trained, kept = split_labelled(given.labelled)
    materials = [
        gather(trained, settings, by_sample=True),
        gather(load_dataset("longmemeval", given.longmemeval), settings, by_sample=False),
    ]
    held = gather(kept, settings, by_sample=True)
    by_fold = cross_fit(materials)
    full = fit_listwise([one.own for one in materials], [one.weight(len(one.own)) for one in materials])
    relevance = settle(full, line_up(materials, by_fold, full, settings.relevance), settings.relevance)
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
