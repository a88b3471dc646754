"""The proxy remembers a conversation and reminds the model of it; OpenAI's own client is the test."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import openai
import pytest
from models import Answer, serve, serve_tiny_model
from servers import SPOKEN, add_spoken, application, listening
from small_memories import EMBEDDER

from scrubjay.home import MemoryHome
from scrubjay.server import ServerSettings, create_app
from scrubjay.server.keys import KEYS_FILE, KeyRing, Right

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from models import LoopbackServer
    from openai.types.chat import ChatCompletionMessageParam

    from scrubjay.datatypes import Turn

ASKED = "Who held the ladder in the kitchen?"
MINE = {"X-ScrubJay-User": "mira", "X-ScrubJay-Session": "evening"}
STREAM = {"Content-Type": "text/event-stream"}


def streamed(*pieces: str, end: str = "data: [DONE]\n\n") -> Answer:
    """Give a completion that comes in pieces."""
    chunks = [
        {
            "id": "1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "served",
            "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}],
        }
        for piece in pieces
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + end
    return Answer(body=body.encode(), headers=STREAM)


@contextmanager
def proxied(
    folder: Path, *answers: Answer, key: str = "none", **headers: str
) -> Iterator[tuple[openai.OpenAI, LoopbackServer]]:
    """Give OpenAI's client of a proxy, and the model's server behind it, which answers by a list."""
    ring = KeyRing(folder / KEYS_FILE)
    with serve(*answers) as upstream, MemoryHome(folder, embedder=EMBEDDER) as home:
        settings = ServerSettings(upstream_url=upstream.url, upstream_key="upstream-key")
        with (
            listening(create_app(home, keys=ring, settings=settings)) as port,
            openai.OpenAI(
                base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0, default_headers=headers
            ) as client,
        ):
            yield client, upstream
    ring.close()


def ask(client: openai.OpenAI, *messages: ChatCompletionMessageParam, **options: Any) -> str | None:
    said = (
        client.chat.completions.create(model="served", messages=messages, **options)
        .choices[0]
        .message.content
    )
    assert said is None or isinstance(said, str)
    return said


def user(text: str) -> ChatCompletionMessageParam:
    return {"role": "user", "content": text}


def kept(folder: Path, user_id: str = "mira", session_id: str = "evening") -> list[Turn]:
    with MemoryHome(folder, embedder=EMBEDDER) as home, home.borrow(user_id, create=False) as memory:
        return list(memory.turns(session_id=session_id))


def fill(folder: Path) -> None:
    with application(folder) as client:
        add_spoken(client)


def test_a_conversation_is_remembered_and_reminded(tmp_path: Path) -> None:
    """The model gets the evidence as quoted data beside what was sent, and both turns are stored as they were said."""
    fill(tmp_path)
    with proxied(tmp_path, Answer(content="Oleg did."), **MINE) as (client, upstream):
        messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": "Be brief."}, user(ASKED)]
        assert ask(client, *messages, temperature=0.5) == "Oleg did."
    sent = upstream.asked[0]
    assert (sent["model"], sent["temperature"], sent["authorization"]) == (
        "served",
        0.5,
        "Bearer upstream-key",
    )
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    system = sent["messages"][0]["content"]
    assert system.startswith("Be brief.\n\n")
    assert SPOKEN[2][1] in system.rpartition("<scrubjay>\n")[2].partition("\n</scrubjay>")[0]
    assert sent["messages"][1]["content"] == ASKED
    turns = kept(tmp_path)
    assert [(turn.role.value, turn.text) for turn in turns] == [("user", ASKED), ("assistant", "Oleg did.")]
    assert all(turn.said_at is not None for turn in turns)


@pytest.mark.parametrize("whole", [True, False])
def test_a_streamed_conversation(tmp_path: Path, *, whole: bool) -> None:
    """A streamed reply comes through piece by piece, and is stored; one that breaks off is stored as far as it was said."""
    fill(tmp_path)
    answer = streamed("Oleg ", "did", "…", end="data: [DONE]\n\n" if whole else "")
    with proxied(tmp_path, answer, **MINE) as (client, upstream):
        pieces = [
            chunk.choices[0].delta.content
            for chunk in client.chat.completions.create(model="served", messages=[user(ASKED)], stream=True)
        ]
    assert pieces == ["Oleg ", "did", "…"]
    assert [message["role"] for message in upstream.asked[0]["messages"]] == ["system", "user"]
    said, replied = kept(tmp_path)
    assert (said.text, replied.text) == (ASKED, "Oleg did…")
    assert replied.metadata == ({} if whole else {"broken_off": True})


def test_what_is_said_is_stored_once(tmp_path: Path) -> None:
    """Asking again for a reply stores another reply, not the question again; a later turn is stored with its own reply."""
    with proxied(tmp_path, *(Answer(content=f"reply {n}") for n in range(4)), **MINE) as (client, _):
        ask(client, user("yes"))
        ask(client, user("yes"))
        history: list[ChatCompletionMessageParam] = [user("yes"), {"role": "assistant", "content": "reply 1"}]
        ask(client, *history, user("yes"))
        tools: list[ChatCompletionMessageParam] = [
            *history,
            user("weather?"),
            {
                "role": "assistant",
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "w", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "1", "content": "rain"},
        ]
        ask(client, *tools)
    assert [turn.text for turn in kept(tmp_path)] == [
        "yes",
        "reply 0",
        "reply 1",
        "yes",
        "reply 2",
        "reply 3",
    ]


def test_off_by_header(tmp_path: Path) -> None:
    """With the memory off a request goes through as it is, and nothing is stored."""
    fill(tmp_path)
    with proxied(tmp_path, Answer(content="Who?"), **{**MINE, "X-ScrubJay-Memory": "off"}) as (
        client,
        upstream,
    ):
        assert ask(client, user(ASKED)) == "Who?"
    assert upstream.asked[0]["messages"] == [user(ASKED)]
    with MemoryHome(tmp_path) as home, home.borrow("mira") as memory:
        assert [session.session_id for session in memory.sessions()] == ["kitchen"]


def test_whose_memory(tmp_path: Path) -> None:
    """The user is named by the header or the field; without either the request is refused, and nobody is asked."""
    with proxied(tmp_path, Answer(content="Hello."), Answer(content="Hello.")) as (client, upstream):
        with pytest.raises(openai.UnprocessableEntityError) as caught:
            ask(client, user("Hi."))
        assert "X-ScrubJay-User" in caught.value.response.json()["detail"]
        assert ask(client, user("Hi."), user="Oleg/7") == "Hello."
        assert len(upstream.asked) == 1
    with MemoryHome(tmp_path) as home:
        assert home.users() == ("Oleg/7",)
        with home.borrow("Oleg/7") as memory:
            assert memory.sessions()[0].session_id.startswith("chat 20")


def test_parts_of_a_message(tmp_path: Path) -> None:
    """Texts among parts are asked about and stored, images pass through; a list of parts can hold the evidence too."""
    fill(tmp_path)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with proxied(tmp_path, Answer(content="Oleg."), **MINE) as (client, upstream):
        parts: Any = [{"type": "text", "text": ASKED}, image]
        system: Any = {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}
        ask(client, system, {"role": "user", "content": parts, "name": "Mira"})
    first, second = upstream.asked[0]["messages"]
    assert [
        part["text"].startswith(begin)
        for part, begin in zip(first["content"], ("Be brief.", "Between"), strict=True)
    ]
    assert second["content"] == parts
    said = kept(tmp_path)[0]
    assert (said.text, said.speaker) == (ASKED, "Mira")


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        (Answer(status=429, headers={"Retry-After": "7"}), openai.RateLimitError),
        (Answer(status=401), openai.AuthenticationError),
        (Answer(status=400), openai.BadRequestError),
        (Answer(status=500), openai.InternalServerError),
    ],
)
def test_errors_come_through(tmp_path: Path, answer: Answer, raised: type[openai.APIStatusError]) -> None:
    """An error of the model's server is the caller's to see, word for word; what was said then isn't stored."""
    with proxied(tmp_path, answer, **MINE) as (client, _):
        with pytest.raises(raised, match=f"status {answer.status}") as caught:
            ask(client, user(ASKED))
        assert caught.value.response.headers.get("retry-after") == answer.headers.get("Retry-After")
    assert not (tmp_path / "mira.jay").exists()


def test_no_server_behind(tmp_path: Path) -> None:
    """A model's server that isn't there, or isn't configured, is named as what is missing."""
    body = {"model": "served", "messages": [user("Hi.")], "user": "mira"}
    with application(tmp_path, settings=ServerSettings(upstream_url="http://127.0.0.1:9/v1")) as client:
        answer = client.post("/v1/chat/completions", json=body)
        assert (answer.status_code, answer.json()["code"]) == (502, "upstream_unreachable")
    with application(tmp_path) as client:
        answer = client.post("/v1/chat/completions", json=body)
        assert (answer.status_code, answer.json()["code"]) == (501, "no_upstream")


def test_keys_hold_here_too(tmp_path: Path) -> None:
    """A key that may not write, or is for others, reaches neither the memory nor the model."""
    ring = KeyRing(tmp_path / KEYS_FILE)
    reading, writing = (
        ring.add(right, right=right, users=["mira"])[1] for right in (Right.READ, Right.WRITE)
    )
    ring.close()
    with proxied(tmp_path, key=reading, **MINE) as (client, upstream):
        with pytest.raises(openai.PermissionDeniedError):
            ask(client, user("Hi."))
        with pytest.raises(openai.PermissionDeniedError):
            ask(client, user("Hi."), extra_headers={"X-ScrubJay-Memory": "off"})
    with proxied(tmp_path, Answer(content="Hello."), key=writing, **MINE) as (client, upstream):
        with pytest.raises(openai.PermissionDeniedError):
            ask(client, user("Hi."), extra_headers={"X-ScrubJay-User": "oleg"})
        assert ask(client, user("Hi.")) == "Hello."
        assert upstream.asked[0]["authorization"] == "Bearer upstream-key"
    with proxied(tmp_path, key="wrong", **MINE) as (client, _), pytest.raises(openai.AuthenticationError):
        ask(client, user("Hi."))


def test_a_real_model_behind(tmp_path: Path) -> None:
    """A real model's words come through, streamed and whole, and are stored as they came."""
    with serve_tiny_model() as url, MemoryHome(tmp_path, embedder=EMBEDDER) as home:
        app = create_app(home, settings=ServerSettings(upstream_url=url))
        with (
            listening(app) as port,
            openai.OpenAI(
                base_url=f"http://127.0.0.1:{port}/v1", api_key="none", default_headers=MINE
            ) as client,
        ):
            whole = ask(client, user("Say hello."), max_tokens=8, temperature=0)
            pieces = client.chat.completions.create(
                model="served", messages=[user("Say goodbye.")], max_tokens=8, temperature=0, stream=True
            )
            spoken = "".join(chunk.choices[0].delta.content or "" for chunk in pieces if chunk.choices)
    assert [turn.text for turn in kept(tmp_path)] == ["Say hello.", whole, "Say goodbye.", spoken]
