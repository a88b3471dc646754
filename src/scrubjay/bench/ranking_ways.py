"""The ways of ranking that are compared: each part left out, or done otherwise (benchmarks/ranking_ablation.py)."""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from scrubjay.bench.fitting import fit_listwise, weigh
from scrubjay.bench.ranking import Way, fit_rank, fit_weights, rank_as_shipped
from scrubjay.errors import MissingExtraError
from scrubjay.relevance import SIGNALS, at, logistic, mix_channels, neighbour_signals, unit
from scrubjay.results import RRF_KAPPA, rank_scores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.fitting import Floats, Group, Score
    from scrubjay.bench.judged import JudgedQuestion
    from scrubjay.bench.ranking import Case, Exam, Rank, View
    from scrubjay.scores import Channels, TurnScores
    from scrubjay.settings import ChainSettings, RelevanceSettings, Settings

Real = TypeVar("Real", np.float32, np.float64)

SHIPPED = "shipped"
REFITTED = "all signals"
NEIGHBOURS = ("previous_short", "following_lexical", "previous_second", "following_second", "window_covered")
GROUPS: Mapping[str, tuple[str, ...]] = {
    "words": ("lexical", "lexical_mass"),
    "vectors": ("dense", "dense_standout"),
    "session": ("session_best", "session_covered"),
    "session's first turn": ("opens",),
    "turn asks": ("asks",),
    "length": ("substance",),
}
CUES: Mapping[str, tuple[str, ...]] = {
    "who is named": ("named",),
    "who asks": ("by_asker",),
    "whether an assistant's words are meant": ("machine", "machine_score"),
    "words of time for a when": ("time_asked",),
    "the time that is named": ("in_range",),
}
ALL_CUES = tuple(name for names in CUES.values() for name in names)
SEVERAL = re.compile(  # a question that asks for more than one thing
    r"\b(?:how many|all|both|each|every|list|kinds?|types?|(?:what|which) (?:\w+ )?\w+s)\b"
    r"|\b(?:qué|cuáles|cuántos|cuántas) \w+s\b|\b(?:welche|alle|wie viele)\b|哪些|哪几|几[个种次]|都有",
    re.IGNORECASE,
)
TREES = ((50, 4), (150, 8))  # how many, of how many leaves
OURS = "ours"
MORE = "RealMem"
NEARNESS = 0.03
LEARNING_RATE = 0.05
LEAST_IN_LEAF = 50  # turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What ways of ranking are made from: the exams that they are tried on, some fitted to, and what is shipped."""

    exams: Sequence[Exam]
    settings: Settings

    def fitted(self, name: str, view: View, *, beside: str = REFITTED) -> Way:
        rank = fit_rank(self.exams, view, self.settings.relevance)
        return Way(name=name, rank=rank, settings=self.settings, beside=beside)

    def ranked(self, name: str, rank: Rank) -> Way:
        return Way(name=name, rank=rank, settings=self.settings, beside=REFITTED)

    def chained(self, name: str, chain: ChainSettings, *, rank: Rank | None = None) -> Way:
        as_shipped = rank or rank_as_shipped(self.settings.relevance)
        return Way(name=name, rank=as_shipped, settings=replace(self.settings, chain=chain), beside=SHIPPED)


def yardsticks(bench: Bench) -> Iterator[Way]:
    """Give what the others are compared with."""
    yield replace(bench.chained(SHIPPED, bench.settings.chain), beside="")
    yield bench.fitted(REFITTED, see, beside=SHIPPED)


def signals(bench: Bench) -> Iterator[Way]:
    for name, names in GROUPS.items():
        yield bench.fitted(f"without {name}", leave_out(names))


def cues(bench: Bench) -> Iterator[Way]:
    for name, names in CUES.items():
        yield bench.fitted(f"without {name}", leave_out(names))
    yield bench.fitted("without any of these", leave_out(ALL_CUES))
    yield bench.fitted("and weights of their own where several things are asked for", see_several)


def neighbours(bench: Bench) -> Iterator[Way]:
    """Give the rules for turns beside others: in the ranking, and in the chain."""
    settings, chain = bench.settings.relevance, bench.settings.chain
    yield bench.fitted("their signals left out", leave_out(NEIGHBOURS))
    yield bench.fitted("their signals in sessions of one speaker too", see_around_everyone(settings))
    yield bench.chained("chain: none restored", replace(chain, need=0.0))
    yield bench.chained("chain: each restored (± 1)", replace(chain, need=0.0, before=1, after=1))


def second_hops(bench: Bench) -> Iterator[Way]:
    for place, name in enumerate(("vectors", "rarest words")):
        yield bench.fitted(f"by the {name} of the first three turns", hopped(place))


def rankers(bench: Bench) -> Iterator[Way]:
    """Give what may rank turns instead of the fitted sum; each score is calibrated as the sum is."""
    settings = bench.settings.relevance
    scores: Mapping[str, View] = {
        "BM25 alone": lambda case: column(unit(channels_of(case).lexical), case),
        "cosine alone": lambda case: column(unit(channels_of(case).dense), case),
        "half of each, over the best": lambda case: column(mixed(case, settings), case),
        "both by rank (RRF)": lambda case: column(fused(case), case),
        "the prototype's weights, set by hand": lambda case: column(by_hand(case, settings), case),
    }
    for name, view in scores.items():
        yield bench.fitted(name, view)
    for trees, leaves in TREES:
        rank = fit_rank(bench.exams, see, settings, fit=partial(grow, trees=trees, leaves=leaves))
        yield bench.ranked(f"LambdaMART on top of the sum, {trees} trees of {leaves} leaves", rank)


def calibrations(bench: Bench) -> Iterator[Way]:
    """Give what may be made of the sum instead of its probability; the order of turns stays as it is."""
    settings, chain = bench.settings.relevance, bench.settings.chain
    for name, sizes, rivals in (
        ("one logistic of the sum (Platt)", False, False),
        ("the same, and the memory's size", True, False),
        ("the same, and rivals", False, True),
    ):
        yield bench.ranked(name, fit_rank(bench.exams, see, settings, sizes=sizes, rivals=rivals))
    free = replace(chain, least_relevance=0.0, least_promise=0.0, least_worth=0.0)
    yield bench.chained("the sum without floor or stopping", free)
    even = partial(rank_evenly, rank_as_shipped(settings), chain)
    for thrift in (0.0, 0.5, 1.0):
        name = f"chain: by probability over tokens^{thrift:g}, alone"
        yield bench.chained(name, replace(free, need=0.0, coverage=0.0, thrift=thrift), rank=even)


def trainings(bench: Bench) -> Iterator[Way]:
    """Give fits to more or less, by which their own questions are ranked from the folds they took no part in."""
    shipped = np.array(astuple(bench.settings.relevance.weights))
    near = partial(fit_near, near=shipped)
    settings = bench.settings.relevance
    every = [replace(exam, is_trained=exam.is_trained or exam.name == MORE) for exam in bench.exams]
    alone = [replace(exam, is_trained=exam.is_trained and exam.name != OURS) for exam in bench.exams]
    for name, exams, fit in (
        ("near the shipped weights", bench.exams, near),
        (f"{MORE} too", every, fit_weights),
        (f"{MORE} too, near the shipped weights", every, near),
        ("without our own conversations", alone, fit_weights),
    ):
        yield replace(bench.ranked(name, fit_rank(exams, see, settings, fit=fit)), beside=SHIPPED)


PARTS: Mapping[str, Callable[[Bench], Iterator[Way]]] = {
    "all": yardsticks,
    "signals": signals,
    "question's cues": cues,
    "neighbours": neighbours,
    "second hop": second_hops,
    "ranker": rankers,
    "calibration": calibrations,
    "training": trainings,
}


def see(case: Case) -> Floats:
    """See turns as they are."""
    return case.judged.signals


def leave_out(names: Sequence[str]) -> View:
    """See turns without some signals."""
    kept = np.array([name not in names for name in SIGNALS], np.float64)
    return lambda case: case.judged.signals * kept


def see_several(case: Case) -> Floats:
    """See the signals once more for a question that asks for several things, so that they weigh otherwise there."""
    asks_several = SEVERAL.search(case.judged.question.question) is not None
    return np.hstack((case.judged.signals, case.judged.signals * asks_several))


def see_around_everyone(settings: RelevanceSettings) -> View:
    """See neighbours as if each turn had a speaker of its own."""
    places = [SIGNALS.index(name) for name in NEIGHBOURS]

    def view(case: Case) -> Floats:
        found, signals = case.judged.found, case.judged.signals.copy()
        table = found.corpus.turns
        alone = replace(table, speaker=np.arange(len(table), dtype=table.speaker.dtype))
        around = neighbour_signals(
            alone, found.scores.channels, case.judged.pool, mixed(case, settings), settings
        )
        signals[:, places] = np.column_stack([around[name] for name in NEIGHBOURS])
        return signals

    return view


def hopped(place: int) -> View:
    """See what a second hop says as a further signal."""
    return lambda case: np.column_stack((case.judged.signals, case.hop[:, place]))


def column(scores: NDArray[Real], case: Case) -> Floats:
    return scores[case.judged.pool].astype(np.float64)[:, None]


def channels_of(case: Case) -> Channels:
    return case.judged.found.scores.channels


def mixed(case: Case, settings: RelevanceSettings) -> NDArray[np.float32]:
    return mix_channels(channels_of(case), settings)


def fused(case: Case) -> Floats:
    channels = channels_of(case)
    every = np.arange(len(channels.dense))
    ranks = [rank_scores(values, every) for values in (channels.lexical, channels.dense)]
    total: Floats = np.sum([1 / (RRF_KAPPA + rank) for rank in ranks], axis=0)
    return total * RRF_KAPPA


def by_hand(case: Case, settings: RelevanceSettings) -> Floats:
    """Score turns by the formula of the first prototype, its weights set by hand."""
    found = case.judged.found
    table, channels = found.corpus.turns, found.scores.channels
    scores = mix_channels(channels, replace(settings, dense_share=0.45))
    scores = scores + 0.25 * (at(scores, table.previous) + at(scores, table.following))
    scores = np.where(np.isin(table.speaker, found.question.named), 1.3 * scores, scores)
    order = np.lexsort((-scores, table.session))
    begins = np.flatnonzero(np.diff(table.session[order], prepend=-1))
    place = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    best = place < 3
    summed = np.bincount(table.session[order], scores[order] * best)
    mean = summed / np.maximum(np.bincount(table.session[order], best), 1)
    total: Floats = scores + 0.5 * mean[table.session]
    return total


def fit_near(groups: Sequence[Group], weights: Sequence[Floats], *, near: Floats) -> Score:
    """Fit weights that are held near others."""
    return weigh(fit_listwise(groups, weights, near=near, ridge=NEARNESS))


def grow(groups: Sequence[Group], weights: Sequence[Floats], *, trees: int, leaves: int) -> Score:
    """Fit a sum of the signals, and boosted trees to what it leaves (LambdaMART)."""
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtraError("lightgbm", extra="dev") from error
    total = weigh(fit_listwise(groups, weights))
    judged = [each for group in groups for each in group]
    sizes = [len(each.pool) for each in judged]
    data = lightgbm.Dataset(
        np.concatenate([each.signals for each in judged]),
        np.concatenate([each.gold for each in judged]).astype(np.int32),
        group=sizes,
        weight=np.repeat(np.concatenate(list(weights)), sizes),
        init_score=np.concatenate([total(each) for each in judged]),
    )
    parameters = {
        "objective": "lambdarank",
        "num_leaves": leaves,
        "learning_rate": LEARNING_RATE,
        "min_data_in_leaf": LEAST_IN_LEAF,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "seed": 0,
        "verbosity": -1,
    }
    booster = lightgbm.train(parameters, data, num_boost_round=trees)

    def score(judged: JudgedQuestion) -> Floats:
        added = np.asarray(booster.predict(judged.signals, raw_score=True, num_threads=1), np.float64)
        return total(judged) + added

    return score


def rank_evenly(rank: Callable[[Case], TurnScores], floors: ChainSettings, case: Case) -> TurnScores:
    """Rank turns so that a chain's log-odds are their probabilities; those below the floors are left out here."""
    scores = rank(case)
    shown = scores.relevance >= (floors.least_relevance if scores.promise >= floors.least_promise else np.inf)
    even = np.where(shown, logistic(scores.relevance.astype(np.float64)), 0).astype(np.float32)
    return replace(scores, relevance=even, order=scores.order[shown[scores.order]])
