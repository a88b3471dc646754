"""Full context: the whole conversation in the prompt, the oldest turns left out where it is longer than the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.bench.qa.answering import ANSWER_PROMPT
from scrubjay.bench.qa.systems.memory import turns_of
from scrubjay.bench.qa.systems.turn_log import TurnLog, estimate_reading
from scrubjay.context import turn_line
from scrubjay.embed import count_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.qa.systems import Estimate, SystemSetup, SystemTask
    from scrubjay.bench.questions import BenchQuestion, BenchSample
    from scrubjay.datatypes import JsonValue, Turn
    from scrubjay.memory import Memory

ABOUT = "the whole conversation; the newest of it, where it is longer than the window"
PROMPTS = (ANSWER_PROMPT,)
MAX_TOKENS = 120_000  # what a model of 128,000 takes beside the prompt and its answer
NUMBER_TOKENS = 4  # of a line's number


def rank(memory: Memory, question: BenchQuestion) -> Sequence[Turn]:  # noqa: ARG001 -- whatever is asked
    """Give all turns, the newest first."""
    return list(memory.turns())[::-1]


def describe_settings(setup: SystemSetup) -> dict[str, JsonValue]:
    return {"window_tokens": setup.max_tokens}


def estimate(setup: SystemSetup, sample: BenchSample) -> Estimate:
    lines = [turn_line(turn, None) for _, turn in turns_of(sample)]
    whole = sum(count_tokens(lines)) + NUMBER_TOKENS * len(lines)
    return estimate_reading(min(whole, setup.max_tokens))


def open_system(task: SystemTask) -> TurnLog:
    return TurnLog(task, rank, shows_all=True)
