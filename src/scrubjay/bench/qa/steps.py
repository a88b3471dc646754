"""The steps of a run, each over what the one before has written: build, answer, judge; the scores come from the files.

A step's unit is done once its line is on disk. What was put off has no line, and counts as not done.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scrubjay.bench.qa.calls import KeptModel
from scrubjay.bench.qa.crew import StopSign, work_through
from scrubjay.bench.qa.judging import Judge, is_refusal, judge_answer, needs_verdict
from scrubjay.bench.qa.lines import AnswerLine, BuildLine, Gold, Outcome
from scrubjay.bench.qa.selection import date_question
from scrubjay.bench.qa.systems import AnswerGiven, SystemTask
from scrubjay.errors import ModelError, ModelRejectedError, RunStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrubjay.bench.qa.calls import CallLog
    from scrubjay.bench.qa.folder import RunFolder
    from scrubjay.bench.qa.lines import QuestionLine
    from scrubjay.bench.qa.selection import Chosen
    from scrubjay.bench.qa.systems import AnsweringSystem, SystemModule, SystemSetup
    from scrubjay.bench.questions import BenchQuestion
    from scrubjay.datatypes import Usage
    from scrubjay.llm import ChatModel

    Advance = Callable[[str, int, int], None]
    Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything a run works with."""

    folder: RunFolder
    chosen: Sequence[Chosen]
    system: SystemModule
    setup: SystemSetup
    calls: CallLog
    model: ChatModel
    judge: ChatModel | None
    votes: int = 1
    workers: int = 1


def run_steps(run: Run, *, advance: Advance) -> str:
    """Do what is left to do; give why some of it is left, "" where all is done."""
    sign = StopSign()
    for step in (build_memories, answer_questions, judge_answers):
        step(run, sign, advance)
        if sign.reason:
            break
    left = count_left(run)
    if not left:
        return ""
    return f"{sign.reason or 'calls were put off'}; {left}: run it again"


def build_memories(run: Run, sign: StopSign, advance: Advance) -> None:
    built = {line.sample for line in run.folder.builds.lines()}
    left = [chosen for chosen in run.chosen if chosen.sample.sample not in built]
    tell = Progress("build", len(run.chosen), done=len(run.chosen) - len(left), advance=advance)

    def build(chosen: Chosen) -> None:
        sample, started = chosen.sample, time.perf_counter()
        model = KeptModel(run.model, run.calls, scope=f"build/{sample.sample}")
        with closing(open_system(run, chosen, model)) as system:
            found = system.build()
        keep_foreign_cost(run.calls, model.scope, found.usage)
        run.folder.builds.append(
            BuildLine(
                sample=sample.sample,
                turns=sum(len(session.turns) for session in sample.conversation.sessions),
                usage=run.calls.usage_of(model.scope),
                counts=dict(found.counts),
                seconds=round(time.perf_counter() - started, 3),
            )
        )
        sign.note_success()
        tell.one_more()

    work_through(left, build, workers=run.workers, sign=sign, break_off=run.model.close)


def answer_questions(run: Run, sign: StopSign, advance: Advance) -> None:
    answered = {line.key for line in run.folder.answers.lines()}
    built = {line.sample for line in run.folder.builds.lines()}
    left = [
        replace(chosen, questions=open_questions)
        for chosen in run.chosen
        if chosen.sample.sample in built and (open_questions := unanswered(chosen, answered))
    ]
    total = sum(len(chosen.questions) for chosen in run.chosen)
    tell = Progress("answer", total, done=total - count_questions(left), advance=advance)

    def answer_all(chosen: Chosen) -> None:
        model = KeptModel(run.model, run.calls)
        with closing(open_system(run, chosen, model)) as system:
            for question in chosen.questions:
                if sign.reason:
                    return
                try:
                    line = answer_one(system, date_question(question, chosen.sample), model, run.calls)
                except RunStoppedError as error:
                    sign.note_failure(error)
                    continue
                run.folder.answers.append(line)
                sign.note_success()
                tell.one_more()

    work_through(left, answer_all, workers=run.workers, sign=sign, break_off=run.model.close)


def answer_one(
    system: AnsweringSystem, question: BenchQuestion, model: KeptModel, calls: CallLog
) -> AnswerLine:
    """Put a question to a system; where its model has no usable reply, that is the answer's outcome."""
    model.scope = f"answer/{question.sample}/{question.question_index}"
    started, error = time.perf_counter(), ""
    given = AnswerGiven(text="")
    try:
        given = system.answer(question)
        outcome = tell_outcome(given)
    except ModelRejectedError as rejection:
        outcome, error = Outcome.REFUSED, str(rejection)
    except ModelError as failure:
        outcome, error = Outcome.FAILED, str(failure)
    keep_foreign_cost(calls, model.scope, given.usage)
    return AnswerLine(
        sample=question.sample,
        question_index=question.question_index,
        outcome=outcome,
        text=given.text,
        cited=given.cited,
        unknown_citations=given.unknown_citations,
        context=given.context,
        context_tokens=given.context_tokens,
        left_out=given.left_out,
        truncated=given.truncated,
        fallbacks=given.fallbacks,
        error=error,
        usage=calls.usage_of(model.scope),
        seconds=round(time.perf_counter() - started, 3),
    )


def tell_outcome(given: AnswerGiven) -> Outcome:
    if given.abstained:
        return Outcome.ABSTAINED
    return Outcome.REFUSED if is_refusal(given.text) else Outcome.ANSWERED


def judge_answers(run: Run, sign: StopSign, advance: Advance) -> None:
    judge = run.judge
    if judge is None:
        return
    tasks = verdicts_left(run)
    tell = Progress("judge", len(tasks), done=0, advance=advance)

    def judge_one(task: tuple[QuestionLine, AnswerLine, Gold]) -> None:
        question, answer, gold = task
        asked = Judge(model=KeptModel(judge, run.calls), votes=run.votes)
        run.folder.verdicts.append(judge_answer(question, answer, asked, gold=gold))
        sign.note_success()
        tell.one_more()

    work_through(tasks, judge_one, workers=run.workers, sign=sign, break_off=judge.close)


def verdicts_left(run: Run) -> list[tuple[QuestionLine, AnswerLine, Gold]]:
    """Give the answers to judge, against each gold answer there is."""
    judged = {(line.key, line.gold) for line in run.folder.verdicts.lines()}
    answers = {line.key: line for line in run.folder.answers.lines()}
    return [
        (question, answer, gold)
        for question in run.folder.questions.lines()
        for gold in golds_of(question)
        if (question.key, gold) not in judged
        and (answer := answers.get(question.key)) is not None
        and needs_verdict(answer)
    ]


def golds_of(question: QuestionLine) -> tuple[Gold, ...]:
    if question.corrected_answer is None:
        return (Gold.ORIGINAL,)
    return (Gold.ORIGINAL, Gold.CORRECTED)


def open_system(run: Run, chosen: Chosen, model: KeptModel) -> AnsweringSystem:
    folder = run.folder.memory_folder(chosen.sample.sample)
    return run.system.open_system(
        SystemTask(setup=run.setup, sample=chosen.sample, folder=folder, model=model)
    )


def keep_foreign_cost(calls: CallLog, scope: str, usage: Sequence[Usage]) -> None:
    for one in usage:
        calls.add_cost(scope, one)


def unanswered(chosen: Chosen, answered: set[Key]) -> tuple[BenchQuestion, ...]:
    return tuple(
        question
        for question in chosen.questions
        if (question.sample, question.question_index) not in answered
    )


def count_questions(chosen: Sequence[Chosen]) -> int:
    return sum(len(one.questions) for one in chosen)


def count_left(run: Run) -> str:
    """Say what is not done; "" where all is."""
    built = {line.sample for line in run.folder.builds.lines()}
    answered = {line.key for line in run.folder.answers.lines()}
    counts = {
        "conversations": sum(chosen.sample.sample not in built for chosen in run.chosen),
        "questions": sum(len(unanswered(chosen, answered)) for chosen in run.chosen),
        "verdicts": len(verdicts_left(run)) if run.judge is not None else 0,
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) + (
        " are left" if any(counts.values()) else ""
    )


class Progress:
    """Tells how far a step is, from any thread."""

    def __init__(self, step: str, total: int, *, done: int, advance: Advance) -> None:
        self._step = step
        self._total = total
        self._done = done
        self._advance = advance
        advance(step, done, total)

    def one_more(self) -> None:
        self._done += 1  # a bar that is one off now and then needs no lock
        self._advance(self._step, self._done, self._total)
