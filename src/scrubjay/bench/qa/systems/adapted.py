"""Any store of `bench.adapters` as a system that answers: it finds turns, and ScrubJay's prompt asks for the answer."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from scrubjay.bench.qa.answering import ANSWER_PROMPT
from scrubjay.bench.qa.systems.memory import MAX_TOKENS
from scrubjay.bench.qa.systems.turn_log import TurnLog, estimate_reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.adapters import Adapter, TurnStore
    from scrubjay.bench.qa.systems import AnswerGiven, Built, Estimate, SystemSetup, SystemTask
    from scrubjay.bench.questions import BenchQuestion, BenchSample
    from scrubjay.datatypes import JsonValue, Turn
    from scrubjay.memory import Memory

MOST_TURNS = 200  # asked for; more than the context holds


class AdaptedSystem:
    """What a system's module offers, for a store that writes without a model."""

    def __init__(self, adapter: Adapter) -> None:
        self.ABOUT = adapter.about
        self.PROMPTS: tuple[str, ...] = (ANSWER_PROMPT,)
        self.MAX_TOKENS = MAX_TOKENS
        self._adapter = adapter

    def describe_settings(self, setup: SystemSetup) -> dict[str, JsonValue]:
        """Name the package's version too; raise MissingExtraError where it isn't installed."""
        return {"max_tokens": setup.max_tokens, "package": self._adapter.version}

    def estimate(self, setup: SystemSetup, sample: BenchSample) -> Estimate:  # noqa: ARG002 -- every system is asked so
        return estimate_reading(setup.max_tokens)

    def open_system(self, task: SystemTask) -> AdaptedStore:
        return AdaptedStore(task, self._adapter)


class AdaptedStore:
    """A conversation in our log and in the other store, which is filled anew for the first question of each start.

    Some stores are in memory only, and none has to survive a kill: filling one costs no call.
    """

    def __init__(self, task: SystemTask, adapter: Adapter) -> None:
        self._task = task
        self._adapter = adapter
        self._log = TurnLog(task, self._rank)
        self._store: TurnStore | None = None

    def build(self) -> Built:
        return self._log.build()

    def answer(self, question: BenchQuestion) -> AnswerGiven:
        return self._log.answer(question)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._log.close()

    def _rank(self, memory: Memory, question: BenchQuestion) -> Sequence[Turn]:
        if self._store is None:
            self._store = self._fill(memory)
        return [memory.turn(found) for found in self._store.search(question.question, limit=MOST_TURNS)]

    def _fill(self, memory: Memory) -> TurnStore:
        folder = self._task.folder / "store"
        shutil.rmtree(folder, ignore_errors=True)  # what a killed start has left
        folder.mkdir()
        store = self._adapter.open(folder, self._task.setup.embedder)
        for session in memory.sessions():
            store.add(list(memory.turns(session_id=session.session_id)))
        return store
