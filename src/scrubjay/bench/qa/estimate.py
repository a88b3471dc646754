"""A dry run: calls, tokens and, where prices are known, money, before anything is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrubjay.bench.qa.judging import LABEL_TOKENS, YES_NO_TOKENS, prompt_name
from scrubjay.bench.qa.lines import JudgeTask
from scrubjay.bench.qa.prices import price_of
from scrubjay.bench.qa.steps import golds_of
from scrubjay.datatypes import Usage
from scrubjay.embed import count_tokens
from scrubjay.prompts import load_prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scrubjay.bench.qa.lines import QuestionLine
    from scrubjay.bench.qa.selection import Chosen
    from scrubjay.bench.qa.systems import SystemModule, SystemSetup
    from scrubjay.datatypes import JsonValue

MOST_RECKONED = 20  # conversations looked at; of more, these stand for all
JUDGED_ANSWER = 60  # tokens of an answer and of what stands around the three parts
BUILD, ANSWER, JUDGE = "build", "answer", "judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """What a step will take; dollars are None where the price of its model is not known."""

    step: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    dollars: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a run will take from its beginning, by step."""

    conversations: int
    questions: int
    reckoned_from: int  # conversations
    steps: tuple[StepCost, ...]  # without those that nobody can foresee
    unforeseen: bool  # the system has calls that are not reckoned

    @property
    def dollars(self) -> float | None:
        known = [step.dollars for step in self.steps if step.dollars is not None]
        return sum(known) if len(known) == len(self.steps) else None


def forecast_run(
    chosen: Sequence[Chosen],
    questions: Sequence[QuestionLine],
    *,
    system: SystemModule,
    setup: SystemSetup,
    models: Models,
    advance: Callable[[str, int, int], None],
) -> Forecast:
    """Reckon a whole run; nothing is called or written."""
    looked_at = spread(chosen)
    totals = {BUILD: [0.0, 0.0, 0.0], ANSWER: [0.0, 0.0, 0.0]}
    unforeseen = False
    for number, one in enumerate(looked_at, start=1):
        found = system.estimate(setup, one.sample)
        advance("reckon", number, len(looked_at))
        if found is None:
            unforeseen = True
            continue
        scale = len(chosen) / len(looked_at)
        asked = len(questions) / len(looked_at)
        for step, each, times in ((BUILD, found.build, scale), (ANSWER, found.question, asked)):
            for place, value in enumerate((each.calls, each.input_tokens, each.output_tokens)):
                totals[step][place] += value * times
    steps = [] if unforeseen else [cost(step, models.model, *map(round, totals[step])) for step in totals]
    if models.judge is not None:
        steps.append(cost(JUDGE, models.judge, *count_judging(questions, votes=models.votes)))
    return Forecast(
        conversations=len(chosen),
        questions=len(questions),
        reckoned_from=len(looked_at),
        steps=tuple(steps),
        unforeseen=unforeseen,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Who is asked, by name."""

    model: str
    judge: str | None
    votes: int


def spread(chosen: Sequence[Chosen]) -> list[Chosen]:
    """Take conversations evenly over the data set."""
    step = max(1, -(-len(chosen) // MOST_RECKONED))
    return list(chosen[::step])


def count_judging(questions: Sequence[QuestionLine], *, votes: int) -> tuple[int, int, int]:
    """Count calls and tokens of judging every question once a vote and gold."""
    prompts = {task: count_tokens([load_prompt(prompt_name(task))])[0] for task in JudgeTask}
    texts = count_tokens([f"{question.question} {question.answer}" for question in questions])
    calls = given = made = 0
    for question, tokens in zip(questions, texts, strict=True):
        times = votes * len(golds_of(question))
        is_label = question.judge_task is JudgeTask.LABEL
        calls += times
        given += times * (prompts[question.judge_task] + tokens + JUDGED_ANSWER)
        made += times * (LABEL_TOKENS if is_label else YES_NO_TOKENS)
    return calls, given, made


def cost(step: str, model: str, calls: int, input_tokens: int, output_tokens: int) -> StepCost:
    usage = Usage(
        stage=step, model=model, calls=calls, input_tokens=input_tokens, output_tokens=output_tokens
    )
    return StepCost(
        step=step,
        model=model,
        calls=calls,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        dollars=price_of(usage),
    )


def forecast_document(forecast: Forecast) -> dict[str, JsonValue]:
    return {
        "conversations": forecast.conversations,
        "questions": forecast.questions,
        "reckoned_from": forecast.reckoned_from,
        "unforeseen": forecast.unforeseen,
        "dollars": forecast.dollars,
        "steps": [
            {
                "step": step.step,
                "model": step.model,
                "calls": step.calls,
                "input_tokens": step.input_tokens,
                "output_tokens": step.output_tokens,
                "dollars": step.dollars,
            }
            for step in forecast.steps
        ],
    }
