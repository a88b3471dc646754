"""Models whose every reply is on disk before it is used, so that nothing is asked, or paid for, twice."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from scrubjay.bench.qa.durable import DurableLines
from scrubjay.bench.qa.lines import CallLine
from scrubjay.bench.qa.prices import add_up
from scrubjay.errors import (
    CallPutOffError,
    ModelError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelReplyError,
    ModelUnavailableError,
    RunStoppedError,
)
from scrubjay.llm import Completion, add_usage

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from scrubjay.datatypes import Usage
    from scrubjay.llm import ChatModel, ChatRequest, Reply

ITS_OWN_FAULT = frozenset({400, 413, 422})  # HTTP: about this request, not about who asks or for which model


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may spend in all, over all its starts; checked before each call."""

    tokens: int | None = None
    dollars: float | None = None


class CallLog:
    """The replies in calls.jsonl, by what was asked; and what they cost, by scope and in all. Any thread may use it."""

    def __init__(self, path: Path, *, budget: Budget) -> None:
        self._lines = DurableLines(path, CallLine)
        self._budget = budget
        self._lock = threading.Lock()
        self._places: dict[str, int] = {}
        self._of_scope: defaultdict[str, dict[tuple[str, str], Usage]] = defaultdict(dict)
        self._of_model: dict[str, Usage] = {}
        for place, line in self._lines.read():
            self._note(line, place)

    def find(self, key: str) -> CallLine | None:
        with self._lock:
            place = self._places.get(key)
        return None if place is None else self._lines.read_at(place)

    def keep(self, line: CallLine) -> None:
        with self._lock:
            self._note(line, self._lines.append(line))

    def add_cost(self, scope: str, usage: Usage) -> None:
        """Keep what a system has spent through a client of its own."""
        self.keep(CallLine(key="", scope=scope, value=None, text="", truncated=False, usage=usage))

    def usage_of(self, scope: str) -> tuple[Usage, ...]:
        """Give what the calls of a scope cost, by stage and model; each call counts once, however often it was read."""
        with self._lock:
            return tuple(self._of_scope[scope].values()) if scope in self._of_scope else ()

    @property
    def total(self) -> tuple[Usage, ...]:
        """What all calls cost, by model."""
        with self._lock:
            return tuple(self._of_model.values())

    def require_budget(self) -> None:
        """Raise RunStoppedError where the budget is spent."""
        spent = add_up(self.total)
        if self._budget.tokens is not None and spent.tokens >= self._budget.tokens:
            raise RunStoppedError(f"the budget of {self._budget.tokens:,} tokens is spent")
        if self._budget.dollars is not None and (spent.dollars or 0) >= self._budget.dollars:
            raise RunStoppedError(f"the budget of ${self._budget.dollars:.2f} is spent")

    def _note(self, line: CallLine, place: int) -> None:
        if line.key:
            self._places[line.key] = place
        if line.usage is None:
            return
        usage, of_scope = line.usage, self._of_scope[line.scope]
        stage = (usage.stage, usage.model)
        of_scope[stage] = add_usage(of_scope.get(stage), usage) or usage
        self._of_model[usage.model] = add_usage(self._of_model.get(usage.model), usage) or usage


class KeptModel:
    """A model through a call log; used by one thread, which says in `scope` what it asks for.

    A reply is kept before it is given, and found again when the same is asked for the same. Failures that a provider
    would repeat are kept too. Others put the question off: they raise CallPutOffError, or RunStoppedError where no
    question would fare better, which no stage takes for a failure of its own.
    """

    def __init__(self, inner: ChatModel, log: CallLog, *, scope: str = "") -> None:
        self._inner = inner
        self._log = log
        self.scope = scope

    @property
    def name(self) -> str:
        return self._inner.name

    def complete(self, request: ChatRequest, output: type[Reply]) -> Completion[Reply]:
        key = make_key(request, output.__name__, scope=self.scope, model=self.name)
        line = self._log.find(key)
        if line is None:
            self._log.require_budget()
            line = self._pay(request, cast("type[BaseModel | str]", output), key)
            self._log.keep(line)
        return read_line(line, output)

    def stream(self, request: ChatRequest) -> Generator[str, None, Completion[str]]:
        completion = self.complete(request, str)
        yield completion.value or ""
        return completion

    def close(self) -> None:
        """Do nothing: the model behind it is its giver's to close."""

    def _pay(self, request: ChatRequest, output: type[BaseModel | str], key: str) -> CallLine:
        blank = CallLine(key=key, scope=self.scope, value=None, text="", truncated=False, usage=None)
        try:
            completion: Completion[Any] = self._inner.complete(request, output)
        except ModelReplyError as error:
            return replace(blank, error=str(error), usage=error.usage)
        except ModelRejectedError as error:
            if error.status not in ITS_OWN_FAULT:
                self._put_off(blank, error)
                raise RunStoppedError(str(error)) from error
            return replace(blank, error=str(error), usage=error.usage, rejected=True, status=error.status)
        except (ModelRateLimitError, ModelUnavailableError) as error:
            self._put_off(blank, error)
            raise CallPutOffError(str(error)) from error
        value = completion.value
        return replace(
            blank,
            value=value.model_dump(mode="json") if isinstance(value, BaseModel) else value,
            text=completion.text,
            truncated=completion.truncated,
            usage=completion.usage,
        )

    def _put_off(self, blank: CallLine, error: ModelError) -> None:
        if error.usage is not None and error.usage.calls:
            self._log.add_cost(blank.scope, error.usage)


def make_key(request: ChatRequest, output: str, *, scope: str, model: str) -> str:
    """Name a call by all that it asks, and for what."""
    asked = [scope, model, request.stage, request.system, request.user, request.max_output_tokens, output]
    return sha256(json.dumps(asked).encode()).hexdigest()


def read_line(line: CallLine, output: type[Reply]) -> Completion[Reply]:
    """Give a reply as it was kept, also when it has just come: so that a run that goes on takes the same path."""
    if line.rejected:
        raise ModelRejectedError(line.error, status=line.status, usage=line.usage)
    if line.error or line.usage is None:
        raise ModelReplyError(line.error, usage=line.usage)
    value: object = line.value
    if issubclass(output, BaseModel) and value is not None:
        value = output.model_validate(value)
    return Completion(
        value=cast("Reply | None", value), text=line.text, truncated=line.truncated, usage=line.usage
    )
