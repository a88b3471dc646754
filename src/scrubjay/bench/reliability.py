"""How far probabilities of turns can be believed: of those given 0.7, seven in ten should be evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.judged import score_again

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.judged import JudgedQuestion
    from scrubjay.settings import RelevanceSettings, Settings

EDGES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """The turns whose probability lies between two bounds."""

    low: float
    high: float
    turns: int
    expected: float  # mean probability
    observed: float  # share that is evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """What the floors of a chain leave out, as shares."""

    gold: float  # of gold turns, a question at a time
    turns: float  # of all turns
    silenced: float  # questions of this memory for which nothing counts as relevant
    strangers_silenced: float  # those of another memory


def likelihoods(
    judged: Sequence[JudgedQuestion], settings: RelevanceSettings
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the probabilities of all turns of all questions, and whether each is evidence."""
    relevance = [score_again(each, settings).relevance[each.pool] for each in judged]
    return np.concatenate(relevance).astype(np.float64), np.concatenate([each.gold for each in judged])


def bin_reliability(
    probabilities: NDArray[np.float64], gold: NDArray[np.bool_]
) -> tuple[ReliabilityBin, ...]:
    """Compare what was expected and what is so between EDGES; bins without turns are left out."""
    places = np.clip(np.searchsorted(EDGES, probabilities, side="right") - 1, 0, len(EDGES) - 2)
    return tuple(
        ReliabilityBin(
            low=EDGES[place],
            high=EDGES[place + 1],
            turns=int(inside.sum()),
            expected=float(probabilities[inside].mean()),
            observed=float(gold[inside].mean()),
        )
        for place in np.unique(places).tolist()
        for inside in (places == place,)
    )


def measure_floors(judged: Sequence[JudgedQuestion], settings: Settings) -> Floors:
    """Reckon what `least_relevance` and `least_promise` leave out."""
    least, promise = settings.chain.least_relevance, settings.chain.least_promise
    gold: list[float] = []
    turns: list[float] = []
    own: list[float] = []
    strangers: list[float] = []
    for each in judged:
        scores = score_again(each, settings.relevance)
        below = (scores.relevance[each.pool] < least) | (scores.promise < promise)
        (strangers if each.is_stranger else own).append(scores.promise < promise)
        turns.append(float(below.mean()))
        if each.gold.any():
            gold.append(float(below[each.gold].mean()))
    return Floors(
        gold=average(gold),
        turns=average(turns),
        silenced=average(own),
        strangers_silenced=average(strangers),
    )


def average(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)


def format_reliability(bins: Sequence[ReliabilityBin]) -> str:
    lines = [
        f"{each.low:5.3g} to {each.high:<5.3g}{each.turns:9,}{each.expected:10.3f}{each.observed:10.3f}"
        for each in bins
    ]
    return "\n".join(["probability       turns  expected  observed", *lines])
