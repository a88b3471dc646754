"""What is measured side by side: the systems that read one memory of ours, or another memory, over one conversation."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from scrubjay.bench.adapters import Adapter
from scrubjay.bench.replay import load_replay
from scrubjay.bench.segmentation import store_turn
from scrubjay.bench.systems import RANKED, fill_contexts
from scrubjay.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scrubjay.bench.questions import BenchQuestion, BenchSample
    from scrubjay.bench.systems import Finding, System
    from scrubjay.datatypes import Turn
    from scrubjay.embed import Embedder
    from scrubjay.formats import ConversationSession


class Contender(Protocol):
    """A store of one conversation, and the systems that read it."""

    def add(self, sessions: Sequence[ConversationSession]) -> None:
        """Keep the turns of sessions, one session at a time."""
        ...

    def prepare(self) -> None:
        """Do what comes between writing and asking."""
        ...

    def ask(self, question: BenchQuestion, budgets: Sequence[int]) -> Iterator[tuple[str, Finding]]:
        """Give what each system finds."""
        ...

    def close(self) -> None: ...


class OurMemory:
    """One memory of ours, read by each system with its own settings."""

    def __init__(
        self,
        sample: BenchSample,
        systems: Sequence[System],
        *,
        folder: Path,
        embedder: Embedder,
        records: Path | None,
    ) -> None:
        """Open it; `records` is a recording that fills it with records before it is asked (bench/replay.py)."""
        self._path = folder / "memory.jay"
        self._sample = sample
        self._records = records
        self._embedder = embedder
        self._systems = systems
        with ExitStack() as stack:
            self._memories = [
                stack.enter_context(Memory(self._path, settings=system.settings, embedder=embedder))
                for system in systems
            ]
            self._closing = stack.pop_all()

    def add(self, sessions: Sequence[ConversationSession]) -> None:
        for session in sessions:
            self._memories[0].add_many((session.session_id, turn) for turn in session.turns)

    def prepare(self) -> None:
        """Encode what is new from the recording; the systems that read it have no model to ask for plans."""
        if self._records is None:
            return
        model = load_replay(self._records, self._sample.sample)
        with Memory(self._path, embedder=self._embedder, model=model) as memory:
            memory.consolidate(flush=True)

    def ask(self, question: BenchQuestion, budgets: Sequence[int]) -> Iterator[tuple[str, Finding]]:
        for system, memory in zip(self._systems, self._memories, strict=True):
            yield system.name, system.ask(memory, question, budgets)

    def close(self) -> None:
        self._closing.close()


class OtherMemory:
    """Another memory, whose turns are rendered as ours are."""

    def __init__(self, adapter: Adapter, *, folder: Path, embedder: Embedder) -> None:
        self._name = adapter.name
        self._store = adapter.open(folder, embedder)
        self._turns: dict[str, Turn] = {}

    def add(self, sessions: Sequence[ConversationSession]) -> None:
        for session in sessions:
            turns = [store_turn(turn, session.session_id, place) for place, turn in enumerate(session.turns)]
            self._store.add(turns)
            self._turns.update((turn.turn_id, turn) for turn in turns)

    def prepare(self) -> None:
        """Do nothing: what it keeps is ready to be found."""

    def ask(self, question: BenchQuestion, budgets: Sequence[int]) -> Iterator[tuple[str, Finding]]:
        started = time.perf_counter()
        found = [self._turns[turn_id] for turn_id in self._store.search(question.question, limit=RANKED)]
        yield self._name, fill_contexts(found, budgets, started=started)

    def close(self) -> None:
        self._store.close()


def open_contender(
    sample: BenchSample,
    group: Sequence[System] | Adapter,
    *,
    folder: Path,
    embedder: Embedder,
    records: Path | None,
) -> Contender:
    if isinstance(group, Adapter):
        return OtherMemory(group, folder=folder, embedder=embedder)
    return OurMemory(sample, group, folder=folder, embedder=embedder, records=records)
