"""How much of the gold evidence a system found: measures of each question, and their means with intervals.

    R@k                     fraction of the gold turns among the first k of the ranking
    full@k                  1 where all of them are
    nDCG@10                 how early they come, as trec_eval has it, every gold turn of gain 1
    R@<n>tok, full@<n>tok   the same two of the turns in the context rendered within n tokens
    session-any@k           1 where any gold session is among the first k different sessions of the ranking
    session-all@k           1 where all of them are

A measure that a question's labels can't give isn't in its scores; a question without an answer in the run scores zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.questions import sessions_of_turns
from scrubjay.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.questions import BenchQuestion, BenchSample

DEPTHS = (5, 10, 25, 50)  # turns
GAIN_DEPTH = 10
SESSION_DEPTHS = (5, 10)  # different sessions
RESAMPLES = 1000
TAILS = (0.025, 0.975)  # of a 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRun:
    """What a system gave for one question: a line of RUN.jsonl."""

    sample: str
    question_index: int
    ranking: tuple[str, ...]  # turn ids, best first
    evidence: Mapping[int, tuple[str, ...]] = field(
        default_factory=dict
    )  # turn ids rendered within each token budget


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionScore:
    """One question's measures by name; none where it has no valid evidence."""

    sample: str
    question_index: int
    category_name: str
    unanswerable: bool
    answered: bool
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over questions with its bootstrap interval."""

    mean: float
    low: float
    high: float
    questions: int  # that have the measure


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTable:
    """All measures: over the answerable questions, and by category over what each has; and what was left out."""

    overall: Mapping[str, Interval]
    categories: Mapping[str, Mapping[str, Interval]]
    questions: int
    scored: int  # answerable and with valid evidence
    unanswerable: int
    without_evidence: int  # answerable, but nothing valid is labelled
    unanswered: int  # of those scored, not in the run


def score_run(samples: Iterable[BenchSample], runs: Iterable[QuestionRun]) -> tuple[QuestionScore, ...]:
    """Score every question of a data set against a run, in the order of the data set."""
    by_question = _index_runs(runs)
    budgets = sorted({budget for run in by_question.values() for budget in run.evidence})
    questions: list[BenchQuestion] = []
    rankings: list[tuple[str, ...]] = []
    values: list[dict[str, float]] = []
    for sample in samples:
        session_of = sessions_of_turns(sample.conversation)
        for question in sample.questions:
            run = by_question.get((question.sample, question.question_index))
            ranking = tuple(dict.fromkeys(run.ranking)) if run is not None else ()
            questions.append(question)
            rankings.append(ranking)
            values.append(
                _score_turns(question, ranking)
                | _score_budgets(question, run.evidence if run is not None else {}, budgets)
                | _score_sessions(question, ranking, session_of)
            )
    for scores, standard in zip(values, _score_standard(questions, rankings), strict=True):
        scores.update(standard)
    return tuple(
        QuestionScore(
            sample=question.sample,
            question_index=question.question_index,
            category_name=question.category_name,
            unanswerable=question.unanswerable,
            answered=(question.sample, question.question_index) in by_question,
            values=scores,
        )
        for question, scores in zip(questions, values, strict=True)
    )


def _index_runs(runs: Iterable[QuestionRun]) -> dict[tuple[str, int], QuestionRun]:
    by_question: dict[tuple[str, int], QuestionRun] = {}
    for run in runs:
        key = (run.sample, run.question_index)
        if key in by_question:
            raise InputError(f"the run answers question {run.question_index} of {run.sample!r} twice")
        by_question[key] = run
    return by_question


def require_measures() -> None:
    """Raise MissingExtraError where what scores rankings isn't installed: before anything is asked, not after."""
    try:
        import_module("ir_measures")
    except ImportError as error:
        raise MissingExtraError("ir-measures", extra="bench") from error


def _score_standard(
    questions: Sequence[BenchQuestion], rankings: Sequence[tuple[str, ...]]
) -> list[dict[str, float]]:
    """Let ir-measures compute recall and nDCG, all questions with gold turns at once."""
    require_measures()
    import ir_measures

    measures = [ir_measures.nDCG @ GAIN_DEPTH, *(ir_measures.R @ depth for depth in DEPTHS)]
    gold = [
        ir_measures.Qrel(str(position), turn_id, 1)
        for position, question in enumerate(questions)
        for turn_id in question.evidence
    ]
    ranked = [
        ir_measures.ScoredDoc(str(position), turn_id, float(-rank))  # ranks as scores: no ties
        for position, ranking in enumerate(rankings)
        for rank, turn_id in enumerate(ranking)
    ]
    scores: list[dict[str, float]] = [{} for _ in questions]
    for result in ir_measures.iter_calc(measures, gold, ranked) if gold else ():
        scores[int(result.query_id)][str(result.measure)] = float(result.value)
    return scores


def _score_turns(question: BenchQuestion, ranking: tuple[str, ...]) -> dict[str, float]:
    if not question.evidence:
        return {}
    return {f"full@{depth}": float(set(question.evidence) <= set(ranking[:depth])) for depth in DEPTHS}


def _score_budgets(
    question: BenchQuestion, evidence: Mapping[int, tuple[str, ...]], budgets: Sequence[int]
) -> dict[str, float]:
    if not question.evidence:
        return {}
    gold = set(question.evidence)
    scores: dict[str, float] = {}
    for budget in budgets:
        found = gold.intersection(evidence.get(budget, ()))
        scores[f"R@{budget}tok"] = len(found) / len(gold)
        scores[f"full@{budget}tok"] = float(found == gold)
    return scores


def _score_sessions(
    question: BenchQuestion, ranking: tuple[str, ...], session_of: Mapping[str, str]
) -> dict[str, float]:
    if not question.evidence_sessions:
        return {}
    gold = set(question.evidence_sessions)
    ranked = list(dict.fromkeys(session_of[turn_id] for turn_id in ranking if turn_id in session_of))
    scores: dict[str, float] = {}
    for depth in SESSION_DEPTHS:
        found = gold.intersection(ranked[:depth])
        scores[f"session-any@{depth}"] = float(bool(found))
        scores[f"session-all@{depth}"] = float(found == gold)
    return scores


def summarize(scores: Sequence[QuestionScore], *, resamples: int = RESAMPLES, seed: int = 0) -> ScoreTable:
    """Average scores over all answerable questions and by category; questions without measures are only counted."""
    answerable = [score for score in scores if not score.unanswerable]
    scored = [score for score in answerable if score.values]
    by_category: dict[str, list[QuestionScore]] = {}
    for score in scores:
        if score.values:
            by_category.setdefault(score.category_name, []).append(score)
    return ScoreTable(
        overall=average([score.values for score in scored], resamples=resamples, seed=seed),
        categories={
            name: average([score.values for score in by_category[name]], resamples=resamples, seed=seed)
            for name in sorted(by_category)
        },
        questions=len(scores),
        scored=len(scored),
        unanswerable=len(scores) - len(answerable),
        without_evidence=len(answerable) - len(scored),
        unanswered=sum(not score.answered for score in scored),
    )


def average(
    rows: Sequence[Mapping[str, float]], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """Give each measure's mean over the rows that have it, with a 95 % percentile interval over resampled rows."""
    names = sorted({name for row in rows for name in row}, key=_reading_order)
    if not names:
        return {}
    table = np.array([[row.get(name, np.nan) for name in names] for row in rows])
    means = bootstrap_means(table, resamples=resamples, seed=seed)
    low, high = np.nanquantile(means, TAILS, axis=0)
    return {
        name: Interval(
            mean=float(np.nanmean(table[:, column])),
            low=float(low[column]),
            high=float(high[column]),
            questions=int(np.count_nonzero(~np.isnan(table[:, column]))),
        )
        for column, name in enumerate(names)
    }


def bootstrap_means(table: NDArray[np.float64], *, resamples: int, seed: int) -> NDArray[np.float64]:
    """Give the means of resampled rows, (resamples, columns); NaN in the table is a value that isn't there.

    How often each row is drawn is all that matters, so that one matrix product does all resamples.
    """
    rows = len(table)
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(rows, np.full(rows, 1 / rows), size=resamples).astype(np.float64)
    there = ~np.isnan(table)
    sums = drawn @ np.where(there, table, 0)
    counts = drawn @ there.astype(np.float64)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def _reading_order(name: str) -> tuple[bool, bool, str, int]:
    """Order turns before tokens before sessions, and each measure by its depth."""
    kind, _, depth = name.partition("@")
    return kind.startswith("session"), depth.endswith("tok"), kind, int(depth.removesuffix("tok"))
