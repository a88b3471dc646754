"""Baselines over the turn log: a memory that holds the turns and nothing else, and a context of turns in some order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from scrubjay.bench.qa.answering import answer_from, estimate_answer, give_answer, show_turns
from scrubjay.bench.qa.systems import AnswerGiven, Built, CallEstimate, Estimate
from scrubjay.bench.qa.systems.memory import FILE, turns_of
from scrubjay.memory import Memory

if TYPE_CHECKING:
    from scrubjay.bench.qa.systems import SystemTask
    from scrubjay.bench.questions import BenchQuestion
    from scrubjay.datatypes import Turn

Rank = Callable[["Memory", "BenchQuestion"], Sequence["Turn"]]
"""Gives the turns for a question, best first."""


class TurnLog:
    """A conversation kept as it is, and shown by a ranking of its turns."""

    def __init__(self, task: SystemTask, rank: Rank, *, shows_all: bool = False) -> None:
        """Open it; `shows_all` says that each turn that is not shown is one left out."""
        self._task = task
        self._rank = rank
        self._shows_all = shows_all
        self._memory = Memory(task.folder / FILE, embedder=task.setup.embedder)

    def build(self) -> Built:
        self._memory.add_many(turns_of(self._task.sample))
        return Built(counts={})

    def answer(self, question: BenchQuestion) -> AnswerGiven:
        turns = self._rank(self._memory, question)
        evidence = show_turns(
            question.question,
            turns,
            session_order=[session.session_id for session in self._memory.sessions()],
            max_tokens=self._task.setup.max_tokens,
        )
        left_out = len(turns) - len(evidence.links) if self._shows_all else 0
        return give_answer(answer_from(evidence, question, self._task), left_out=left_out)

    def close(self) -> None:
        self._memory.close()


def estimate_reading(context_tokens: int) -> Estimate:
    """Reckon what a system takes that writes without a model."""
    nothing = CallEstimate(calls=0, input_tokens=0, output_tokens=0)
    return Estimate(build=nothing, question=estimate_answer(context_tokens))
