"""BM25: the turns that share the most telling words with the question."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from scrubjay.bench.qa.answering import ANSWER_PROMPT
from scrubjay.bench.qa.systems.turn_log import TurnLog, estimate_reading
from scrubjay.datatypes import RankBy
from scrubjay.settings import ContextSettings, LexicalSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.qa.systems import Estimate, SystemSetup, SystemTask
    from scrubjay.bench.questions import BenchQuestion, BenchSample
    from scrubjay.datatypes import JsonValue, Turn
    from scrubjay.memory import Memory

ABOUT = "turns by BM25, as many as fit"
PROMPTS = (ANSWER_PROMPT,)
MAX_TOKENS = ContextSettings().max_tokens
MOST_TURNS = 500  # looked at; more than the context holds


def rank(memory: Memory, question: BenchQuestion) -> Sequence[Turn]:
    hits = memory.search(question.question, limit=MOST_TURNS, by=RankBy.LEXICAL, now=question.asked_at)
    return [hit.turn for hit in hits]


def describe_settings(setup: SystemSetup) -> dict[str, JsonValue]:
    return {"max_tokens": setup.max_tokens, "lexical": asdict(LexicalSettings())}


def estimate(setup: SystemSetup, sample: BenchSample) -> Estimate:  # noqa: ARG001 -- every system is asked so
    return estimate_reading(setup.max_tokens)


def open_system(task: SystemTask) -> TurnLog:
    return TurnLog(task, rank)
