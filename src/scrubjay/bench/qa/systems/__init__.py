"""PORT: systems that answer questions, each a module of its own: it keeps a conversation, and answers from what it kept.

A module offers what `SystemModule` says, and a line in MODULES makes it known. Whatever `bench.adapters` can search is
a system too.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from scrubjay.bench.adapters import ADAPTERS
from scrubjay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from scrubjay.bench.qa.calls import KeptModel
    from scrubjay.bench.questions import BenchQuestion, BenchSample
    from scrubjay.datatypes import JsonValue, Usage
    from scrubjay.embed import Embedder
    from scrubjay.settings import Settings

MODULES: Mapping[str, str] = {
    "scrubjay": "memory",
    "full-context": "full_context",
    "bm25": "bm25",
}
SYSTEMS = (*MODULES, *ADAPTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSetup:
    """What all conversations of a run share."""

    settings: Settings  # ScrubJay's, of a preset; other systems take from it how an answer is asked for
    embedder: Embedder
    max_tokens: int  # of the context for an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTask:
    """One conversation for a system to keep, in which folder, and whom it may ask."""

    setup: SystemSetup
    sample: BenchSample
    folder: Path  # its own, and the same when the run is started again
    model: KeptModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A conversation is kept whole: numbers to tell of it, and the cost of calls that the task's model did not make."""

    counts: Mapping[str, int]
    usage: tuple[Usage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerGiven:
    """An answer and what it came from."""

    text: str
    abstained: bool = False
    truncated: bool = False  # it met an output limit
    cited: tuple[str, ...] = ()  # turn ids
    unknown_citations: int = 0
    context: tuple[str, ...] | None = None  # ids of the turns shown to the model; None where that isn't known
    context_tokens: int = 0
    left_out: int = 0  # turns that did not fit, of a system that shows all there are
    fallbacks: tuple[str, ...] = ()  # cheaper paths taken, and why
    usage: tuple[Usage, ...] = ()  # of calls that the task's model did not make


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEstimate:
    """How many calls, and of how many tokens, by rule of thumb."""

    calls: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a conversation will take, before any call."""

    build: CallEstimate
    question: CallEstimate  # each one


class AnsweringSystem(Protocol):
    """One conversation in a memory of some kind; used by one thread at a time.

    What it asks goes through the task's `model`, which keeps replies and costs, and never asks the same twice. A ModelError
    is about the question at hand; any other error ends the run.
    """

    def build(self) -> Built:
        """Keep the conversation, going on where an earlier start was killed."""
        ...

    def answer(self, question: BenchQuestion) -> AnswerGiven:
        """Answer a question from the conversation, asked at its time."""
        ...

    def close(self) -> None:
        """Let go of files and threads."""
        ...


class SystemModule(Protocol):
    """What each system's module offers."""

    ABOUT: str  # a line for a person
    PROMPTS: tuple[str, ...]  # names of ours that it asks with
    MAX_TOKENS: int  # of the context, where a run names none

    def describe_settings(self, setup: SystemSetup, /) -> dict[str, JsonValue]:
        """Give all that its answers depend on, beside the models, the embedder and the prompts."""
        ...

    def estimate(self, setup: SystemSetup, sample: BenchSample, /) -> Estimate | None:
        """Reckon what a conversation will take; None where nobody can say."""
        ...

    def open_system(self, task: SystemTask, /) -> AnsweringSystem:
        """Open what is kept of a conversation, or begin to keep it."""
        ...


def load_system(name: str) -> SystemModule:
    if name in ADAPTERS:
        from scrubjay.bench.qa.systems.adapted import AdaptedSystem

        return AdaptedSystem(ADAPTERS[name])
    if name not in MODULES:
        raise SettingsError(f"system: expected one of {', '.join(SYSTEMS)}, found {name!r}")
    return cast("SystemModule", import_module(f"{__name__}.{MODULES[name]}"))
