"""What each part of ranking is worth: the same questions ranked with and without it, and the difference with its interval.

A way of ranking gives every turn of a question its log-odds. What is fitted for it is fitted as tools/fit_relevance.py fits
(bench/fitting.py), without strangers, and questions of the data it is fitted to are ranked by the fit that they took no part in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.fitting import FOLDS, Material, calibrate, fit_all, fit_listwise, line_up, weigh
from scrubjay.bench.judged import judge_samples
from scrubjay.bench.measures import Interval, average
from scrubjay.reading import organise_chain
from scrubjay.relevance import rank_pool, weigh_signals
from scrubjay.scores import relevant_rows
from scrubjay.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.fitting import Floats, Group, Score
    from scrubjay.bench.judged import JudgedQuestion
    from scrubjay.bench.questions import Dataset
    from scrubjay.embed import Embedder
    from scrubjay.scores import TurnScores
    from scrubjay.settings import RelevanceSettings, Settings

    View = Callable[["Case"], Floats]  # the signals of a question's turns, (p, signals)
    Rank = Callable[["Case"], TurnScores]
    Fit = Callable[[Sequence[Group], Sequence[Floats]], Score]

MEASURES = ("R@5", "R@10", "R@1000tok")
DEPTHS = (5, 10)
BUDGET = 1000
FIRST_TURNS = 3  # whose vectors and words a second hop takes up
HOP_TERMS = 8  # the rarest of theirs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """A question with gold turns, and what a second hop would say of each of its p turns."""

    judged: JudgedQuestion
    hop: Floats  # (p, 2) by vectors, by words
    exam: str
    fold: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exam:
    """A data set that ways of ranking are tried on."""

    name: str
    dataset: Dataset
    cases: tuple[Case, ...]
    is_trained: bool  # what is fitted is fitted to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way of ranking: one part left out, or done otherwise."""

    name: str
    rank: Rank
    settings: Settings
    beside: str  # the way it is compared with; empty: none


def examine(
    name: str,
    dataset: Dataset,
    settings: Settings,
    *,
    embedder: Embedder,
    trained: bool,
    every: int = 1,
) -> Exam:
    """Judge each `every`th question of a data set that has gold turns.

    Folds are conversations, or questions where each has a conversation of its own.
    """
    samples = tuple(replace(sample, questions=sample.questions[::every]) for sample in dataset.samples)
    judged = [
        (each, second_hop(each))  # while the memory is as it was when the question was asked
        for each in judge_samples(samples, embedder=embedder, settings=settings)
        if each.gold.any() and not each.question.unanswerable
    ]
    memories = sorted({each.memory for each, _ in judged})
    cases = tuple(
        Case(judged=each, hop=hop, exam=name, fold=memories.index(each.memory) % FOLDS)
        for each, hop in judged
    )
    return Exam(name=name, dataset=dataset, cases=cases, is_trained=trained)


def second_hop(judged: JudgedQuestion) -> Floats:
    """Score turns for what the first turns found bring: cosines with their vectors, BM25 of their rarest words.

    Both between 0 and 1; a word counts that the question lacks and another turn holds too.
    """
    corpus, found = judged.found.corpus, judged.found
    first = found.scores.order[:FIRST_TURNS]
    shares = found.scores.relevance[first]
    passages = found.best_passage[first].astype(np.intp)
    vectors = np.stack([corpus.vectors.scores(vector) for vector in corpus.vectors.rows(passages)])
    near = np.einsum("i,ij->j", shares / max(float(shares.sum()), 1e-9), vectors)
    terms = np.unique(np.concatenate(corpus.lexical.term_sets(passages)))
    terms = np.setdiff1d(terms, found.question.hashes)
    held = corpus.lexical.document_frequency(terms)
    rarest = terms[np.lexsort((terms, held))][np.sort(held) > 1][:HOP_TERMS]
    words = corpus.lexical.match(rarest).scores
    starts = np.flatnonzero(np.diff(corpus.passages.turn, prepend=-1))
    columns = [np.maximum.reduceat(values, starts)[judged.pool] for values in (near, words)]
    return np.column_stack([each / max(float(each.max(initial=0)), 1e-9) for each in columns]).astype(
        np.float64
    )


def rank_by(log_odds: Callable[[Case], Floats], settings: RelevanceSettings) -> Rank:
    """Rank turns by their log-odds, as ranking does."""

    def rank(case: Case) -> TurnScores:
        judged = case.judged
        return rank_pool(judged.pool, log_odds(case), judged.found.scores.channels, settings)

    return rank


def rank_as_shipped(settings: RelevanceSettings) -> Rank:
    """Rank turns by the signals as they are, with these settings."""
    return rank_by(
        lambda case: weigh_signals(case.judged.signals, settings, among=len(case.judged.turn_ids)), settings
    )


def fit_weights(groups: Sequence[Group], weights: Sequence[Floats]) -> Score:
    return weigh(fit_listwise(groups, weights))


def fit_rank(
    exams: Sequence[Exam],
    view: View,
    settings: RelevanceSettings,
    *,
    fit: Fit = fit_weights,
    sizes: bool = True,
    rivals: bool = True,
) -> Rank:
    """Fit a way of scoring turns to the exams that may be fitted to, and make log-odds of its scores.

    Without `sizes` it doesn't count how many turns a memory has, without `rivals` not how many look like evidence.
    """
    materials = [
        Material(
            dataset=exam.dataset,
            own=[seen(case, view) for case in exam.cases],
            strangers=[],
            folds=np.array([case.fold for case in exam.cases], np.intp),
        )
        for exam in exams
        if exam.is_trained
    ]
    trained = {exam.name for exam in exams if exam.is_trained}
    by_fold, full = fit_all(materials, fit)
    scored = line_up(materials, by_fold, full, fewest=settings.fewest_turns)
    found = calibrate(scored if sizes else replace(scored, prior=scored.prior * 0), rivals=rivals)

    def log_odds(case: Case) -> Floats:
        score = by_fold[case.fold] if case.exam in trained else full
        size = max(len(case.judged.turn_ids), settings.fewest_turns) if sizes else 1
        odds: Floats = found.scale * score(seen(case, view)) + found.bias - np.log(size)
        return odds

    return rank_by(log_odds, replace(settings, rivalry=found.rivalry))


def seen(case: Case, view: View) -> JudgedQuestion:
    return replace(case.judged, signals=view(case))


def measure_way(exam: Exam, way: Way) -> NDArray[np.float64]:
    """Return what is found for each question of an exam, a column for each of MEASURES."""
    rows = [measure_case(case, way) for case in exam.cases]
    return np.array(rows, np.float64).reshape(len(rows), len(MEASURES))


def measure_case(case: Case, way: Way) -> list[float]:
    judged, scores = case.judged, way.rank(case)
    gold = judged.pool[judged.gold]
    ranking = relevant_rows(scores, way.settings.chain)
    chain = organise_chain(replace(judged.found, scores=scores), way.settings, budget=BUDGET, trace=Trace())
    shown = [ranking[:depth] for depth in DEPTHS] + [np.array([link.row for link in chain.links], np.intp)]
    of = len(judged.question.evidence)
    return [np.count_nonzero(np.isin(gold, rows)) / of for rows in shown]


def compare(values: NDArray[np.float64], others: NDArray[np.float64] | None = None) -> list[Interval]:
    """Give the mean of each measure, or of its difference to another way's a question at a time."""
    rows = values if others is None else values - others
    averaged = average([dict(zip(MEASURES, row.tolist(), strict=True)) for row in rows])
    return [averaged[measure] for measure in MEASURES]
