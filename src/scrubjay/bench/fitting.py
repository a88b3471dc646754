"""Fit a ranking to labelled questions and make probabilities of its scores; tools/fit_relevance.py ships what it finds.

Weights are fitted listwise: the loss of a gold turn is the logarithm of 1 plus the odds of all other turns of its memory against
it; a ridge keeps weights small. Each data set counts by the square root of its questions, so that the larger leads but doesn't
rule. There is no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.judged import judge_samples
from scrubjay.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from scrubjay.bench.judged import JudgedQuestion
    from scrubjay.bench.questions import Dataset
    from scrubjay.embed import Embedder
    from scrubjay.settings import Settings

    Floats = NDArray[np.float64]
    Group = Sequence[JudgedQuestion]
    Score = Callable[[JudgedQuestion], Floats]  # of every turn looked at closely; more is better

Ranker = TypeVar("Ranker")

HELD_OUT = frozenset({"assistant-year", "friends-chess", "friends-music", "siblings-move", "zh-assistant"})
"""Every fourth of our first conversations by name, the sample counted in, and one added with later ones, each set aside
before anything was fitted: nothing was ever fitted to them."""

RIDGE = 1e-3  # of a mean loss over gold turns
FOLDS = 4
STRANGERS = 0.1  # of the weight of a data set's own questions
LEVELLING = 0.5  # power of a data set's size that each of its questions is divided by


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

    def without(self, fold: int) -> list[JudgedQuestion]:
        return [each for each, at in zip(self.own, self.folds.tolist(), strict=True) if at != fold]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scored:
    """Scores of the turns of many questions, laid end to end."""

    scores: Floats
    gold: Floats
    starts: NDArray[np.intp]
    sizes: NDArray[np.intp]
    weights: Floats  # of each turn
    prior: Floats  # logarithm of the turns of its memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What makes log-odds of scores (relevance.weigh_signals, share_odds)."""

    scale: float
    bias: float
    rivalry: float


def gather(
    dataset: Dataset, settings: Settings, *, embedder: Embedder, by_sample: bool, strangers: bool = True
) -> Material:
    """Judge a data set's questions; folds are conversations, or else questions."""
    judged = list(judge_samples(dataset.samples, embedder=embedder, settings=settings, strangers=strangers))
    own = [each for each in judged if not each.is_stranger]
    memories = sorted({each.memory for each in own})
    places = [memories.index(each.memory) for each in own] if by_sample else list(range(len(own)))
    return Material(
        dataset=dataset,
        own=own,
        strangers=[each for each in judged if each.is_stranger],
        folds=np.array(places, np.intp) % FOLDS,
    )


def split_labelled(path: Path) -> tuple[Dataset, Dataset]:
    """Give our own conversations, with the shipped sample, to fit to, and those held out."""
    labelled, sample = load_dataset("labelled", path), load_dataset("sample")
    trained = [each for each in (*labelled.samples, *sample.samples) if each.sample not in HELD_OUT]
    held = [each for each in labelled.samples if each.sample in HELD_OUT]
    return replace(labelled, samples=tuple(trained)), replace(labelled, samples=tuple(held))


def fit_listwise(
    groups: Sequence[Group],
    weights: Sequence[Floats],
    *,
    near: Floats | None = None,
    ridge: float = RIDGE,
) -> Floats:
    """Fit the weights of the signals to gold turns, each against all other turns of its memory.

    The ridge holds them near 0, or near other weights.
    """
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
    origin = np.zeros(gold.shape[1]) if near is None else near

    def loss(candidate: Floats) -> tuple[float, Floats]:
        odds, total = exponentials(others @ candidate, starts, sizes)
        margin = total[question] - gold @ candidate
        pull = share / (1 + np.exp(-margin))
        spread = odds * np.repeat(np.bincount(question, pull, len(pairs)), sizes)
        apart = candidate - origin
        value = float(share @ np.logaddexp(0, margin)) + ridge * float(apart @ apart)
        return value, spread @ others - pull @ gold + 2 * ridge * apart

    return descend(loss, origin)


def exponentials(scores: Floats, starts: NDArray[np.intp], sizes: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return each score's share in its question's summed exponentials, and the logarithm of that sum."""
    most = np.maximum.reduceat(scores, starts)
    powers = np.exp(scores - np.repeat(most, sizes))
    sums = np.add.reduceat(powers, starts)
    return powers / np.repeat(sums, sizes), np.log(sums) + most


def descend(loss: Callable[[Floats], tuple[float, Floats]], start: Floats) -> Floats:
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise MissingExtraError("scipy", extra="bench") from error
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(found.x, np.float64)


def weigh(weights: Floats) -> Score:
    """Score turns by the weighted sum of their signals."""
    return lambda each: each.signals @ weights


def fit_all(
    materials: Sequence[Material], fit: Callable[[Sequence[Group], Sequence[Floats]], Ranker]
) -> tuple[list[Ranker], Ranker]:
    """Fit without each fold in turn, and to all; what is fitted is whatever `fit` gives."""

    def counted(groups: Sequence[Group]) -> Ranker:
        return fit(groups, [one.weight(len(group)) for one, group in zip(materials, groups, strict=True)])

    by_fold = [counted([one.without(fold) for one in materials]) for fold in range(FOLDS)]
    return by_fold, counted([one.own for one in materials])


def line_up(materials: Sequence[Material], by_fold: Sequence[Score], full: Score, *, fewest: int) -> Scored:
    """Score every question as it is scored where it took no part, strangers as by all; `fewest` is the smallest memory."""
    entries: list[tuple[JudgedQuestion, Score, float]] = []
    for one in materials:
        own = one.weight(len(one.own))
        strange = STRANGERS * own.sum() / max(len(one.strangers), 1)
        entries += [
            (each, by_fold[fold], weight)
            for each, fold, weight in zip(one.own, one.folds.tolist(), own.tolist(), strict=True)
        ]
        entries += [(each, full, float(strange)) for each in one.strangers]
    sizes = np.array([len(each.pool) for each, _, _ in entries])
    among = [max(len(each.turn_ids), fewest) for each, _, _ in entries]
    return Scored(
        scores=np.concatenate([score(each) for each, score, _ in entries]),
        gold=np.concatenate([each.gold for each, _, _ in entries]).astype(np.float64),
        starts=np.cumsum(sizes) - sizes,
        sizes=sizes,
        weights=np.repeat([weight for _, _, weight in entries], sizes),
        prior=np.repeat(np.log(among), sizes),
    )


def calibrate(scored: Scored, *, rivals: bool = True) -> Calibration:
    """Fit scale, bias and, with `rivals`, rivalry by the log loss over all turns (Platt's method)."""

    def loss(candidate: Floats) -> tuple[float, Floats]:
        scale, bias, rivalry = candidate
        odds = scale * scored.scores + bias - scored.prior
        shares, total = exponentials(odds, scored.starts, scored.sizes)
        held = 1 / (1 + np.exp(-total))  # of the summed odds beside the 1 for there being none
        summed_up = np.repeat(np.logaddexp(0, total), scored.sizes)
        final = odds - rivalry * summed_up
        value = float(scored.weights @ (np.logaddexp(0, final) - scored.gold * final))
        pull = scored.weights * (
            0.5 + 0.5 * np.tanh(final / 2) - scored.gold
        )  # the logistic, unafraid of large numbers
        summed = np.add.reduceat(pull, scored.starts)
        by_odds = pull - rivalry * np.repeat(summed * held, scored.sizes) * shares
        return value, np.array(
            [by_odds @ scored.scores, by_odds.sum(), -(pull @ summed_up) if rivals else 0.0]
        )

    scale, bias, rivalry = descend(loss, np.array([1.0, -5.0, 0.5 if rivals else 0.0])).tolist()
    return Calibration(scale=scale, bias=bias, rivalry=rivalry)
