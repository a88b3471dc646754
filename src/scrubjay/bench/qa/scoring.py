"""Score a run from its files: every chosen question counts, whether it was answered, judged, or neither.

accuracy            the judge's verdict is CORRECT or yes; what failed, was refused or was not judged is wrong
f1, exact           tokens in common with the gold answer, and the same tokens
evidence            share of the gold turns that were shown to the model
cites, citations    whether an answer cites at all; share of the turns cited that are gold
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.measures import RESAMPLES, TAILS, Interval, bootstrap_means
from scrubjay.bench.qa.lines import Gold, Outcome, Ruling
from scrubjay.bench.qa.overlap import measure_exact, measure_f1
from scrubjay.bench.qa.selection import COUNTS_ABSTENTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrubjay.bench.qa.lines import AnswerLine, BuildLine, QuestionLine, VerdictLine
    from scrubjay.datatypes import Usage

ACCURACY = "accuracy"
SHARES = (
    ACCURACY,
    "abstains",
    "exact",
    "cites",
)  # of questions, with Wilson intervals; other measures have bootstrapped ones
NORMAL_QUANTILE = 1.959963984540054  # of a 95 % interval
UNANSWERED = "unanswered"
UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionScore:
    """A question's measures: a line of scores.jsonl."""

    sample: str
    question_index: int
    category: str
    unanswerable: bool
    outcome: str  # an Outcome, or "unanswered"
    ruling: str  # a Ruling, or "unjudged"; "" where nobody judges
    values: dict[str, float]
    corrected: dict[str, float]  # against the corrected gold, where that differs; else the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Questions averaged together."""

    name: str
    questions: int
    values: Mapping[str, Interval]
    corrected: Mapping[str, Interval]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Tokens by the paper's definitions (A.3): of construction for each conversation, of queries for each question."""

    construction_k: float  # thousands
    query_k: float
    judge_k: float  # for each question; in none of the papers' figures
    construction_calls: float
    query_calls: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScore:
    """All that a run's report says."""

    scores: tuple[QuestionScore, ...]
    overall: Group
    abstention: Group | None
    categories: tuple[Group, ...]
    cost: Cost
    outcomes: Mapping[str, int]
    rulings: Mapping[str, int]
    counts: Mapping[str, int]  # conversations, questions, segments that failed, cheaper paths, …
    corrections: Mapping[str, int]  # kind of fault in the gold → questions


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLines:
    """What a run has written."""

    dataset: str
    judged: bool
    questions: Sequence[QuestionLine]
    builds: Sequence[BuildLine]
    answers: Sequence[AnswerLine]
    verdicts: Sequence[VerdictLine]
    judge_usage: Sequence[Usage]


def score_lines(lines: RunLines) -> RunScore:
    answers = {line.key: line for line in lines.answers}
    verdicts = {(line.key, line.gold): line for line in lines.verdicts}
    shows = any(line.context is not None for line in lines.answers)
    scores = tuple(
        score_question(
            question,
            answers.get(question.key),
            {gold: found for gold in Gold if (found := verdicts.get((question.key, gold)))},
            judged=lines.judged,
            shows=shows,
        )
        for question in lines.questions
    )
    counted = [score for score in scores if not score.unanswerable or lines.dataset in COUNTS_ABSTENTION]
    unanswerable = [score for score in scores if score.unanswerable]
    return RunScore(
        scores=scores,
        overall=average("overall", counted),
        abstention=average("abstention", unanswerable) if unanswerable else None,
        categories=tuple(
            average(name, [score for score in counted if score.category == name])
            for name in sorted({score.category for score in counted})
        ),
        cost=add_costs(lines, answers),
        outcomes=Counter(score.outcome for score in scores),
        rulings=Counter(score.ruling for score in scores if score.ruling),
        counts=count_all(lines, answers),
        corrections=Counter(question.correction for question in lines.questions if question.correction),
    )


def score_question(
    question: QuestionLine,
    answer: AnswerLine | None,
    verdicts: Mapping[Gold, VerdictLine],
    *,
    judged: bool,
    shows: bool,
) -> QuestionScore:
    verdict = verdicts.get(Gold.ORIGINAL)
    values = measure(question, answer, verdict, gold=Gold.ORIGINAL, judged=judged, shows=shows)
    corrected = values
    if question.corrected_answer is not None or question.corrected_evidence is not None:
        other = verdicts.get(Gold.CORRECTED) if question.corrected_answer is not None else verdict
        corrected = measure(question, answer, other, gold=Gold.CORRECTED, judged=judged, shows=shows)
    return QuestionScore(
        sample=question.sample,
        question_index=question.question_index,
        category=question.category,
        unanswerable=question.unanswerable,
        outcome=UNANSWERED if answer is None else answer.outcome.value,
        ruling=("" if not judged else UNJUDGED) if verdict is None else verdict.ruling.value,
        values=values,
        corrected=corrected,
    )


def measure(
    question: QuestionLine,
    answer: AnswerLine | None,
    verdict: VerdictLine | None,
    *,
    gold: Gold,
    judged: bool,
    shows: bool,
) -> dict[str, float]:
    """Measure an answer against one gold; what wasn't answered scores nothing, where the question has the measure."""
    values: dict[str, float] = {}
    if judged:
        values[ACCURACY] = float(verdict is not None and verdict.ruling is Ruling.CORRECT)
    if question.unanswerable:
        values["abstains"] = float(answer is not None and answer.outcome is Outcome.ABSTAINED)
        return values
    expected, evidence = gold_of(question, gold)
    text = "" if answer is None or answer.outcome is Outcome.ABSTAINED else answer.text
    values["f1"] = measure_f1(text, expected) if text else 0.0
    values["exact"] = measure_exact(text, expected) if text else 0.0
    if evidence and shows:
        context = () if answer is None or answer.context is None else answer.context
        values["evidence"] = len(evidence.intersection(context)) / len(evidence)
    if text and answer is not None:
        values["cites"] = float(bool(answer.cited))
        cited = len(answer.cited) + answer.unknown_citations
        if evidence and cited:
            values["citations"] = len(evidence.intersection(answer.cited)) / cited
    return values


def gold_of(question: QuestionLine, gold: Gold) -> tuple[str, set[str]]:
    if gold is Gold.ORIGINAL:
        return question.answer, set(question.evidence)
    answer, evidence = question.corrected_answer, question.corrected_evidence
    return (
        question.answer if answer is None else answer,
        set(question.evidence if evidence is None else evidence),
    )


def average(name: str, scores: Sequence[QuestionScore]) -> Group:
    return Group(
        name=name,
        questions=len(scores),
        values=average_values([score.values for score in scores]),
        corrected=average_values([score.corrected for score in scores]),
    )


def average_values(rows: Sequence[Mapping[str, float]]) -> dict[str, Interval]:
    """Average each measure over the questions that have it, with a 95 % interval."""
    names = dict.fromkeys(name for row in rows for name in row)
    found = {name: [row[name] for row in rows if name in row] for name in names}
    return {
        name: share_interval(values) if name in SHARES else mean_interval(values)
        for name, values in found.items()
    }


def share_interval(values: Sequence[float]) -> Interval:
    """Give a share with Wilson's interval, which holds also near 0 and 1."""
    return bound_share(sum(values) / len(values), len(values))


def bound_share(share: float, count: int) -> Interval:
    """Give Wilson's interval of a share of so many."""
    z = NORMAL_QUANTILE
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    spread = z * (share * (1 - share) / count + z * z / (4 * count * count)) ** 0.5 / (1 + z * z / count)
    return Interval(
        mean=share,
        low=min(share, max(0.0, middle - spread)),
        high=max(share, min(1.0, middle + spread)),
        questions=count,
    )


def mean_interval(values: Sequence[float]) -> Interval:
    """Give a mean with its bootstrap interval over questions."""
    means = bootstrap_means(np.array([values]).T, resamples=RESAMPLES, seed=0)
    low, high = np.quantile(means, TAILS)
    return Interval(mean=float(np.mean(values)), low=float(low), high=float(high), questions=len(values))


def builds_of(lines: RunLines) -> list[BuildLine]:
    """Give the conversations built that questions were chosen of."""
    wanted = {question.sample for question in lines.questions}
    return [line for line in lines.builds if line.sample in wanted]


def add_costs(lines: RunLines, answers: Mapping[tuple[str, int], AnswerLine]) -> Cost:
    """Add up by the paper's definitions; of conversations and questions that are done."""
    builds = builds_of(lines)
    built = [usage for line in builds for usage in line.usage]
    asked = [
        usage
        for question in lines.questions
        if (line := answers.get(question.key)) is not None
        for usage in line.usage
    ]
    questions = sum(question.key in answers for question in lines.questions)
    return Cost(
        construction_k=thousands(built, len(builds)),
        query_k=thousands(asked, questions),
        judge_k=thousands(lines.judge_usage, questions),
        construction_calls=sum(usage.calls for usage in built) / max(1, len(builds)),
        query_calls=sum(usage.calls for usage in asked) / max(1, questions),
    )


def thousands(usages: Sequence[Usage], among: int) -> float:
    return sum(usage.input_tokens + usage.output_tokens for usage in usages) / max(1, among) / 1000


def count_all(lines: RunLines, answers: Mapping[tuple[str, int], AnswerLine]) -> dict[str, int]:
    asked = [line for question in lines.questions if (line := answers.get(question.key))]
    totals: Counter[str] = Counter()
    builds = builds_of(lines)
    for build in builds:
        totals.update({"turns": build.turns, **build.counts})
    return {
        "conversations": len({question.sample for question in lines.questions}),
        "conversations_built": len(builds),
        "questions": len(lines.questions),
        "questions_without_gold": sum(
            not question.unanswerable and not question.answer for question in lines.questions
        ),
        "questions_without_evidence": sum(
            not question.unanswerable and not question.evidence for question in lines.questions
        ),
        **totals,
        "answers_cut_short": sum(line.truncated for line in asked),
        "answers_by_a_cheaper_path": sum(bool(line.fallbacks) for line in asked),
        "answers_from_part_of_the_log": sum(bool(line.left_out) for line in asked),
        "citations_of_nothing": sum(line.unknown_citations for line in asked),
    }
