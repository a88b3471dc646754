"""The chat port over pydantic-ai: providers by name, and their errors in our words (extra `llm`)."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, cast
from weakref import WeakSet

from anyio.from_thread import start_blocking_portal
from pydantic import BaseModel
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import (
    ModelRequest,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    UserPromptPart,
)

from scrubjay.datatypes import Usage
from scrubjay.errors import ModelClosedError, ModelError, ModelRejectedError, ModelReplyError
from scrubjay.llm import ChatRequest, Completion, Reply, add_usage
from scrubjay.llm.modes import Mode, offered_modes, request_parameters, system_prompt
from scrubjay.llm.providers import CONTEXT_TOO_LONG, find_model, map_error, may_lack_mode, seconds_to_wait
from scrubjay.llm.replies import read_reply, without_thinking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from anyio.from_thread import BlockingPortal
    from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponseStreamEvent
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

    from scrubjay.settings import ChatSettings

PROVIDER_ERRORS = (AgentRunError, UserError)
THREAD_NAME = "scrubjay-model"


def open_model(settings: ChatSettings) -> PydanticAIChat:
    return PydanticAIChat(find_model(settings), settings=settings)


class PydanticAIChat:
    """A pydantic-ai model on one event loop of its own, started with the first request and stopped by `close`."""

    def __init__(
        self, model: Model, *, settings: ChatSettings, pause: Callable[[float], object] | None = None
    ) -> None:
        self._model = model
        self._settings = settings
        self._closing = threading.Event()
        self._pause = pause or self._closing.wait  # given only where waiting must take no time
        self._lock = threading.Lock()
        self._running = ExitStack()
        self._requests: WeakSet[Future[ModelResponse]] = WeakSet()
        self._portal: BlockingPortal | None = None
        self._mode: Mode | None = None  # the first that worked

    @property
    def name(self) -> str:
        return self._settings.model or self._model.model_name

    def close(self) -> None:
        self._closing.set()
        for running in list(self._requests):
            running.cancel()
        with self._lock:
            self._portal = None
            self._running.close()

    def complete(self, request: ChatRequest, output: type[Reply]) -> Completion[Reply]:
        asks_for = cast("type[BaseModel | str]", output)  # mypy doesn't see that the one is the other
        modes = self._modes(asks_for)
        spent, asked, fault, text = None, request, "", ""
        for _ in range(1 + self._settings.re_asks):
            try:
                response, mode = self._ask(asked, asks_for, modes)
            except ModelReplyError as error:
                fault, text = str(error), ""
                continue
            except ModelError as error:
                error.usage = add_usage(spent, error.usage)
                raise
            spent = self._count(request, response, spent)
            if response is None:
                return Completion(value=None, text="", truncated=True, usage=spent)
            text = reply_text(response)
            completion, fault = self._read(response, output, spent)
            if completion is not None:
                self._mode = mode or self._mode
                return completion
            modes = modes[modes.index(mode) + 1 :] or (mode,)  # what takes a schema may still not heed it
            asked = replace(request, user=re_ask(request.user, fault, text[: self._settings.shown_reply]))
        shown = f"; it began {text[: self._settings.shown_reply]!r}" if text else ""
        raise ModelReplyError(f"{self.name} gave no usable reply: {fault}{shown}", usage=spent)

    def stream(self, request: ChatRequest) -> Generator[str, None, Completion[str]]:
        attempt, began = 0, False
        while True:
            pieces: SimpleQueue[str | None] = SimpleQueue()
            running = self._start(self._write, request, pieces)
            running.add_done_callback(partial(pieces.put, None))
            try:
                while (piece := pieces.get()) is not None:
                    began = True
                    yield piece
                response = self._result(running)
            except PROVIDER_ERRORS as error:
                attempt = self._settings.attempts if began else attempt + 1
                self._wait_or_raise(error, attempt)
                continue
            finally:
                running.cancel()  # does nothing to one that is done
            usage = self._count(request, response, None)
            text, cut_short = reply_text(response), response.finish_reason == "length"
            return Completion(value=without_thinking(text), text=text, truncated=cut_short, usage=usage)

    def _modes(self, output: type[BaseModel | str]) -> tuple[Mode | None, ...]:
        if not issubclass(output, BaseModel):
            return (None,)
        return (self._mode,) if self._mode else offered_modes(self._model)

    def _read(
        self, response: ModelResponse, output: type[Reply], usage: Usage
    ) -> tuple[Completion[Reply] | None, str]:
        """Read a response; None, and what is wrong, where it should be asked for again."""
        text = reply_text(response)
        if response.finish_reason == "content_filter":
            return None, "the provider's content filter held the reply back"
        cut_short = response.finish_reason == "length"
        if not issubclass(output, BaseModel):
            answer = without_thinking(text).strip()
            if not answer and not cut_short:
                return None, "the reply is empty"
            value = cast("Reply", answer)
            return Completion(value=value, text=text, truncated=cut_short, usage=usage), ""
        reading = read_reply(text, output, cut_short=cut_short, longest=self._settings.longest_reply)
        if reading.value is None and not reading.truncated:
            return None, reading.fault
        return Completion(value=reading.value, text=text, truncated=reading.truncated, usage=usage), ""

    def _ask(
        self, request: ChatRequest, output: type[BaseModel | str], modes: tuple[Mode | None, ...]
    ) -> tuple[ModelResponse | None, Mode | None]:
        """Send a request in the first mode that the provider takes; no response where it is too long for the model."""
        for mode in modes[:-1]:
            try:
                return self._send(request, output, mode), mode
            except ModelRejectedError as error:
                if not may_lack_mode(error):
                    raise
        return self._send(request, output, modes[-1]), modes[-1]

    def _send(
        self, request: ChatRequest, output: type[BaseModel | str], mode: Mode | None
    ) -> ModelResponse | None:
        """Send until there is an answer, and wait between attempts."""
        attempt = 0
        while True:
            running = self._start(self._request, request, output, mode)
            try:
                return self._result(running)
            except CONTEXT_TOO_LONG:
                return None
            except PROVIDER_ERRORS as error:
                attempt += 1
                self._wait_or_raise(error, attempt)
            finally:
                running.cancel()  # does nothing to one that is done; Ctrl-C stops one that isn't

    def _start(
        self, call: Callable[..., Awaitable[ModelResponse]], *arguments: object
    ) -> Future[ModelResponse]:
        running = self._open().start_task_soon(call, *arguments)
        self._requests.add(running)
        return running

    def _result(self, running: Future[ModelResponse]) -> ModelResponse:
        try:
            return running.result()
        except CancelledError as error:
            raise ModelClosedError from error

    def _wait_or_raise(self, error: AgentRunError | UserError, attempt: int) -> None:
        """Wait before another attempt after so many that failed, or raise our error for the last."""
        failure = map_error(error, self.name)
        wait = seconds_to_wait(failure, attempt, self._settings)
        if wait is None:
            raise failure from error
        self._pause(wait)
        if self._closing.is_set():
            raise ModelClosedError from error

    async def _request(
        self, request: ChatRequest, output: type[BaseModel | str], mode: Mode | None
    ) -> ModelResponse:
        return await model_request(
            self._model,
            make_messages(request.user, system_prompt(request.system, output, mode)),
            model_settings=self._request_settings(request),
            model_request_parameters=request_parameters(output, mode),
        )

    async def _write(self, request: ChatRequest, pieces: SimpleQueue[str | None]) -> ModelResponse:
        async with model_request_stream(
            self._model,
            make_messages(request.user, request.system),
            model_settings=self._request_settings(request),
        ) as events:
            async for event in events:
                if piece := text_of(event):
                    pieces.put(piece)
        return events.get()

    def _request_settings(self, request: ChatRequest) -> ModelSettings:
        settings: ModelSettings = {
            "temperature": self._settings.temperature,
            "timeout": self._settings.timeout_seconds,
            "request_timeout": self._settings.timeout_seconds,
            "max_retries": 0,  # we count attempts ourselves
        }
        if request.max_output_tokens is not None:
            settings["max_tokens"] = request.max_output_tokens
        return settings

    def _open(self) -> BlockingPortal:
        """Give the event loop, started with the model's connections on it if it isn't running."""
        with self._lock:
            if self._closing.is_set():
                raise ModelClosedError
            if self._portal is None:
                portal = self._running.enter_context(start_blocking_portal(name=THREAD_NAME))
                self._running.enter_context(portal.wrap_async_context_manager(self._model))
                self._portal = portal
            return self._portal

    def _count(self, request: ChatRequest, response: ModelResponse | None, spent: Usage | None) -> Usage:
        usage = Usage(
            stage=request.stage,
            model=self.name,
            calls=1 if response else 0,
            input_tokens=response.usage.input_tokens if response else 0,
            output_tokens=response.usage.output_tokens if response else 0,
        )
        return add_usage(spent, usage) or usage


def make_messages(user: str, system: str) -> list[ModelMessage]:
    return [ModelRequest(parts=[SystemPromptPart(content=system), UserPromptPart(content=user)])]


def re_ask(user: str, fault: str, began: str) -> str:
    """Ask the same again, and say what was wrong with the reply."""
    shown = f" It began:\n{began}" if began else ""
    return (
        f"{user}\n\nYour last reply could not be used: {fault}.{shown}\n\nReply again, as you were asked to."
    )


def reply_text(response: ModelResponse) -> str:
    """Give what a model wrote, as text or as the arguments of the output tool."""
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    called = [part.args if isinstance(part.args, str) else part.args_as_json_str() for part in calls]
    return "".join(called or [part.content for part in response.parts if isinstance(part, TextPart)])


def text_of(event: ModelResponseStreamEvent) -> str:
    """Give the text that an event of a stream adds to the reply."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""
