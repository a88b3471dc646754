"""ScrubJay itself, with any preset: records and turns where the preset reads records, the turn log where it doesn't."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, cast

from scrubjay.bench.qa.answering import (
    ANSWER_PROMPT,
    QUESTION_TOKENS,
    answer_from,
    estimate_answer,
    give_answer,
)
from scrubjay.bench.qa.systems import AnswerGiven, Built, CallEstimate, Estimate
from scrubjay.embed import count_tokens
from scrubjay.memory import Memory
from scrubjay.prompts import load_prompt
from scrubjay.settings import ContextSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.bench.qa.systems import SystemSetup, SystemTask
    from scrubjay.bench.questions import BenchQuestion, BenchSample
    from scrubjay.datatypes import JsonValue, NewTurn
    from scrubjay.settings import Settings

ABOUT = "ScrubJay, by a preset"
PROMPTS = ("encode", "encode_summary", "plan", ANSWER_PROMPT)
MAX_TOKENS = ContextSettings().max_tokens
FILE = "memory.jay"
LEASE_SECONDS = 1.0  # the run's folder is held by one process, so what is leased is a killed one's
WAIT_SECONDS = 0.1
PLAN_OUTPUT = 150  # tokens of a plan, in a dry run


class ScrubJaySystem:
    """A conversation in a memory of its own, consolidated where records are read."""

    def __init__(self, task: SystemTask) -> None:
        self._task = task
        setup = task.setup
        self._memory = Memory(
            task.folder / FILE, settings=setup.settings, embedder=setup.embedder, model=task.model
        )

    def build(self) -> Built:
        self._memory.add_many(turns_of(self._task.sample))
        if reads_records(self._task.setup.settings):
            consolidate_all(self._memory)
        progress = self._memory.status().progress
        return Built(
            counts={
                "segments": progress.segments.total,
                "segments_failed": progress.segments.failed,
                "records": progress.records,
            }
        )

    def answer(self, question: BenchQuestion) -> AnswerGiven:
        evidence = self._memory.recall(
            question.question, max_tokens=self._task.setup.max_tokens, now=question.asked_at
        )
        return give_answer(answer_from(evidence, question, self._task))

    def close(self) -> None:
        self._memory.close()


def consolidate_all(memory: Memory) -> None:
    """Encode until every segment is done or, after its attempts, given up."""
    while True:
        report = memory.consolidate(flush=True)
        if not report.turns.open + report.turns.pending:
            return
        time.sleep(WAIT_SECONDS)  # until a killed process's lease is over


def reads_records(settings: Settings) -> bool:
    return settings.strategy != "chain"


def turns_of(sample: BenchSample) -> Iterator[tuple[str, NewTurn]]:
    for session in sample.conversation.sessions:
        for turn in session.turns:
            yield session.session_id, turn


def suit_settings(settings: Settings) -> Settings:
    """Have segments tried again at once, and no plan be kept for the next time a question is asked."""
    return replace(
        settings,
        encoder=replace(settings.encoder, retry_seconds=0.0, lease_seconds=LEASE_SECONDS),
        plan=replace(settings.plan, cached_plans=0),
    )


def describe_settings(setup: SystemSetup) -> dict[str, JsonValue]:
    """Give all settings but who is asked, which a run names elsewhere, and secrets, which it never writes."""
    settings = asdict(setup.settings)
    chat = settings.pop("chat")
    settings["rerank"].pop("api_key")
    settings["temperature"] = chat["temperature"]
    settings["max_tokens"] = setup.max_tokens
    return cast("dict[str, JsonValue]", settings)


def estimate(setup: SystemSetup, sample: BenchSample) -> Estimate:
    settings = setup.settings
    answer = estimate_answer(setup.max_tokens)
    if not reads_records(settings):
        return Estimate(build=CallEstimate(calls=0, input_tokens=0, output_tokens=0), question=answer)
    with Memory(":memory:", settings=settings, embedder=setup.embedder) as memory:
        memory.add_many(turns_of(sample))
        plan = memory.plan_consolidation(flush=True)
    build = CallEstimate(calls=plan.calls, input_tokens=plan.input_tokens, output_tokens=plan.output_tokens)
    if not settings.reading.recall.planned:
        return Estimate(build=build, question=answer)
    plan_input = count_tokens([load_prompt("plan")])[0] + QUESTION_TOKENS
    return Estimate(
        build=build,
        question=CallEstimate(
            calls=answer.calls + 1,
            input_tokens=answer.input_tokens + plan_input,
            output_tokens=answer.output_tokens + PLAN_OUTPUT,
        ),
    )


def open_system(task: SystemTask) -> ScrubJaySystem:
    setup = replace(task.setup, settings=suit_settings(task.setup.settings))
    return ScrubJaySystem(replace(task, setup=setup))
