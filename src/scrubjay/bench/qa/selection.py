"""Which questions of a data set are asked, and how each is judged."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scrubjay.bench.qa.lines import JudgeTask, QuestionLine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scrubjay.bench.questions import BenchQuestion, BenchSample, Dataset

DATASETS = ("locomo", "longmemeval", "labelled", "sample")
LONGMEMEVAL_TASKS = {
    "temporal-reasoning": JudgeTask.TEMPORAL,
    "knowledge-update": JudgeTask.UPDATE,
    "single-session-preference": JudgeTask.PREFERENCE,
}
COUNTS_ABSTENTION = (
    "longmemeval",
)  # its accuracy is over all questions; others' leave out those without an answer
UNDATED = datetime(
    2024, 1, 1, tzinfo=UTC
)  # when a conversation without any date is asked about: always the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A conversation and the questions about it that are asked."""

    sample: BenchSample
    questions: tuple[BenchQuestion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionChoice:
    """Which questions to ask, and what is known to be wrong with them."""

    limit: int | None = None  # only of the first conversations
    sample: int | None = None  # only so many of their questions, drawn at random
    seed: int = 0  # of that draw
    corrections: Path | None = None  # of gold answers and evidence


ALL_QUESTIONS = QuestionChoice()


def choose(dataset: Dataset, choice: QuestionChoice) -> tuple[Chosen, ...]:
    """Take the first conversations, and of their questions some drawn at random; in the order of the data set."""
    samples, sample = dataset.samples[: choice.limit], choice.sample
    keys = [(question.sample, question.question_index) for one in samples for question in one.questions]
    if sample is not None and sample < len(keys):
        keys = random.Random(choice.seed).sample(keys, sample)  # noqa: S311 -- a draw that anyone can repeat
    wanted = set(keys)
    found = (
        Chosen(
            sample=one,
            questions=tuple(
                question for question in one.questions if (question.sample, question.question_index) in wanted
            ),
        )
        for one in samples
    )
    return tuple(chosen for chosen in found if chosen.questions)


def question_lines(dataset: str, chosen: Sequence[Chosen]) -> list[QuestionLine]:
    return [
        QuestionLine(
            sample=question.sample,
            question_index=question.question_index,
            category=question.category_name,
            question=question.question,
            answer=question.answer,
            evidence=question.evidence,
            unanswerable=question.unanswerable,
            judge_task=judge_task(dataset, question),
        )
        for one in chosen
        for question in one.questions
    ]


def judge_task(dataset: str, question: BenchQuestion) -> JudgeTask:
    if question.unanswerable:
        return JudgeTask.ABSTENTION
    if dataset == "longmemeval":
        return LONGMEMEVAL_TASKS.get(question.category_name, JudgeTask.CONTAINS)
    return JudgeTask.LABEL


def date_question(question: BenchQuestion, sample: BenchSample) -> BenchQuestion:
    """Give a question that isn't dated the time of the last turn, so that it is the same whenever it is asked."""
    if question.asked_at is not None:
        return question
    said = [turn.said_at for session in sample.conversation.sessions for turn in session.turns]
    return replace(question, asked_at=max((moment for moment in said if moment), default=UNDATED))
