"""The chat port: what comes back is a value, a reply cut short, or an error that says what happened."""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import (
    INPUT_TOKENS,
    LITTLE_PATIENCE,
    NO_REFERENCE,
    OUTPUT_TOKENS,
    Answer,
    cut_short,
    make_turn,
    scripted_model,
    serve,
    serve_tiny_model,
)
from pydantic import BaseModel, Field
from pydantic_ai.messages import ModelResponse, ThinkingPart
from small_memories import PATIENCE, wait_until

from scrubjay.datatypes import Usage
from scrubjay.encode import build_request
from scrubjay.encoder_reply import RecordsReply
from scrubjay.errors import (
    MissingExtraError,
    ModelError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelReplyError,
    ModelUnavailableError,
    SettingsError,
)
from scrubjay.llm import ChatRequest, Completion, add_usage, load_model
from scrubjay.llm.adapter import PydanticAIChat
from scrubjay.llm.providers import find_model
from scrubjay.llm.replies import read_reply
from scrubjay.settings import ChatSettings, EncoderSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from models import LoopbackServer


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


LISBON = '{"name": "Lisbon", "people": 545000}'
REQUEST = ChatRequest(stage="plan", system="Answer about cities.", user="Lisbon?")


# --- reading replies ---


@pytest.mark.parametrize(
    "text",
    [
        LISBON,
        f"```json\n{LISBON}\n```",
        f"```\n{LISBON}\n```\nLet me know if you need more.",
        f"Sure! Here is the city you {{asked}} for [1]:\n\n{LISBON}\n\nIs that all?",
        f'<think>People: {{maybe}} 5. {{"name": "Porto", "people": 1}}</think>\n{LISBON}',
        f"It's in Portugal, so...</think>{LISBON}",
        f'{{"City": {LISBON}}}',
        f'{{"type": "object", "properties": {LISBON}}}',
        f'First try: {{"name": "Lisbon"}}. Corrected: {LISBON}',
        '{"name": "Lis\nbon", "people": 545000}'.replace("Lis\nbon", "Lisbon"),
        '{"name": "Lisbon", "people": "545000"}',
    ],
    ids=[
        "bare",
        "fenced",
        "fenced and chatty",
        "prose",
        "think",
        "lone think",
        "wrapped",
        "in properties",
        "twice",
        "line",
        "text",
    ],
)
def test_reply_in_any_dress(text: str) -> None:
    """A valid object is found in fences, prose, thinking, a wrapper, or after a first try."""
    reading = read_reply(text, City, cut_short=False, longest=10_000)
    assert reading.value == City(name="Lisbon", people=545000)
    assert not reading.truncated


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("<think>I don't know what to", "empty"),
        ("I'm sorry, I can't help with that.", "no JSON object"),
        ('{"name": "Lisbon"}', "people: Field required"),
        ('{"name": "Lisbon", "people": "many"}', "people"),
        ('{"name": "Lisbon", "people": 1,}', "can't be read"),
        (json.dumps(City.model_json_schema()), "repeats the schema"),
        ('{"name": "a "quoted" name", "people": 1', "cut short"),
        ('{"name": "a "quoted", "people": 1}', "brackets or quotes"),
        ("[" * 100_000 + "]" * 100_000, "can't be read"),
    ],
)
def test_reply_that_cannot_be_used(text: str, fault: str) -> None:
    """What is wrong with a reply is said in words that the model can use."""
    reading = read_reply(text, City, cut_short=False, longest=1_000_000)
    assert reading.value is None
    assert fault in reading.fault


def test_faults_do_not_repeat_the_reply() -> None:
    """A fault says where and what, not what the model wrote."""
    reading = read_reply('{"name": ["secret"], "people": -5}', City, cut_short=False, longest=1000)
    assert "secret" not in reading.fault
    assert "name" in reading.fault
    assert "people" in reading.fault


@pytest.mark.parametrize("length", range(1, len(LISBON) - 1))
def test_reply_that_ends_early(length: int) -> None:
    """JSON that ends before its brackets close was cut short, wherever that happened."""
    reading = read_reply(LISBON[:length], City, cut_short=False, longest=1000)
    assert reading.truncated


def test_reply_cut_short_by_the_provider() -> None:
    """An output limit met makes a reply cut short, but a whole object in it counts."""
    assert read_reply("Well, the city", City, cut_short=True, longest=1000).truncated
    assert not read_reply(f"{LISBON} Anything el", City, cut_short=True, longest=1000).truncated


def test_start_of_a_list_is_kept() -> None:
    """Of a list cut short, what came before the cut can be read."""

    class Cities(BaseModel):
        cities: list[City]

    reading = read_reply(f'{{"cities": [{LISBON}, {{"name": "Po', Cities, cut_short=True, longest=1000)
    assert reading.truncated
    assert reading.value is None  # half a city is none
    whole = read_reply(f'{{"cities": [{LISBON}, ', Cities, cut_short=True, longest=1000)
    assert whole.value == Cities(cities=[City(name="Lisbon", people=545000)])


@pytest.mark.parametrize(
    "text", ["{" * 5_000_000, '{"a": [' * 710_000, '\\"' * 2_500_000, '{"' * 2_500_000, "x" * 5_000_000]
)
def test_five_megabytes(text: str) -> None:
    """Five megabytes of nonsense are refused in a moment, and read in a few where that is allowed."""
    refused = read_reply(text, City, cut_short=False, longest=1_000_000)
    assert refused.value is None
    assert "1,000,000 are read" in refused.fault
    started = time.perf_counter()
    assert read_reply(text, City, cut_short=False, longest=10_000_000).value is None
    assert time.perf_counter() - started < PATIENCE


@settings(deadline=None)
@given(st.text(alphabet='{}[]"\\:, \nabc<think>/1`'))
def test_reading_never_fails(text: str) -> None:
    """Whatever a model writes, reading it gives a value or a fault."""
    reading = read_reply(text, City, cut_short=False, longest=1000)
    assert (reading.value is None) == bool(reading.fault)


@settings(deadline=None)
@given(st.text(), st.text())
def test_prose_around_does_not_matter(before: str, after: str) -> None:
    """A whole object is found between any words that hold no brackets, quotes or tags."""
    clean = [text.translate({ord(sign): None for sign in '{}[]"<>\\'}) for text in (before, after)]
    reading = read_reply(f"{clean[0]}{LISBON}{clean[1]}", City, cut_short=False, longest=10_000)
    assert reading.value == City(name="Lisbon", people=545000)


# --- asking: modes, asking again, cost ---


def test_usage_comes_back_with_the_value() -> None:
    """A completion carries its cost under the stage that asked and the model that answered."""
    with scripted_model(LISBON) as (model, script):
        completion = model.complete(REQUEST, City)
    assert completion.value == City(name="Lisbon", people=545000)
    assert completion.usage == Usage(
        stage="plan", model="openai:scripted", calls=1, input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS
    )
    assert script.settings[0]["temperature"] == 0


@pytest.mark.parametrize(
    ("schema", "tools", "mode"), [(True, True, "native"), (False, True, "tool"), (False, False, "text")]
)
def test_best_mode_on_offer(schema: bool, tools: bool, mode: str) -> None:  # noqa: FBT001
    """JSON is asked for by schema, else by tool, else in words with the schema written out."""
    with scripted_model(LISBON, schema=schema, tools=tools) as (model, script):
        assert model.complete(REQUEST, City).value == City(name="Lisbon", people=545000)
    assert script.modes == [mode]
    assert ('"people"' in script.prompts[0]) == (mode == "text")


@pytest.mark.parametrize(
    "bad", ["", "I'd rather not.", '{"name": 3, "people": "x"}', '{"name": "Lisbon", "people": 1,}']
)
def test_asked_again_once(bad: str) -> None:
    """An unusable reply is asked for again with what is wrong, and both tries are counted."""
    with scripted_model(bad, LISBON) as (model, script):
        completion = model.complete(REQUEST, City)
    assert completion.value == City(name="Lisbon", people=545000)
    assert completion.usage.calls == 2
    assert completion.usage.input_tokens == 2 * INPUT_TOKENS
    assert "could not be used" in script.prompts[1]
    assert script.prompts[1].startswith(script.prompts[0][:20])


def test_asked_again_in_the_next_mode() -> None:
    """A server that takes a schema and doesn't heed it is asked with a tool next, and the one that works is kept."""
    with scripted_model("Lisbon is big.", LISBON, LISBON) as (model, script):
        model.complete(REQUEST, City)
        model.complete(REQUEST, City)
    assert script.modes == ["native", "tool", "tool"]


def test_unusable_twice() -> None:
    """After the second unusable reply there is an error with the reason, the beginning and the cost."""
    with (
        scripted_model("no", "never") as (model, _),
        pytest.raises(ModelReplyError, match=r"no JSON object.*'never'") as raised,
    ):
        model.complete(REQUEST, City)
    assert raised.value.usage is not None
    assert raised.value.usage.output_tokens == 2 * OUTPUT_TOKENS


def test_huge_reply_is_not_sent_back() -> None:
    """Of a reply that is too long, only the beginning is sent back."""
    with scripted_model("x" * 5_000_000, LISBON) as (model, script):
        assert model.complete(REQUEST, City).value is not None
    assert len(script.prompts[1]) < 3_000


def test_cut_short_is_reported_not_asked_again() -> None:
    """A reply that met the output limit comes back as truncated, so that less can be asked for."""
    with scripted_model(cut_short('{"name": "Lis')) as (model, script):
        completion = model.complete(REQUEST, City)
    assert completion.truncated
    assert completion.value is None
    assert completion.usage.output_tokens == OUTPUT_TOKENS
    assert len(script.prompts) == 1


def test_thinking_alone_is_no_reply() -> None:
    """A reply with nothing but thoughts is asked for again."""
    with scripted_model(ModelResponse(parts=[ThinkingPart("Hm.")]), LISBON) as (model, _):
        assert model.complete(REQUEST, City).value is not None


def test_content_filter() -> None:
    """A reply held back by the provider is an error that says so."""
    held_back = ModelResponse(parts=[], finish_reason="content_filter")
    with (
        scripted_model(held_back, held_back) as (model, _),
        pytest.raises(ModelReplyError, match="content filter"),
    ):
        model.complete(REQUEST, City)


def test_text_is_asked_for_with_str() -> None:
    """With `str` the reply is the text, its thinking left out."""
    with scripted_model("<think>Easy.</think>In Portugal.", "", "Yes.") as (model, _):
        assert model.complete(REQUEST, str).value == "In Portugal."
        assert model.complete(REQUEST, str).value == "Yes."


def test_output_limit_is_handed_on() -> None:
    """A limit on output tokens reaches the provider."""
    with scripted_model(LISBON) as (model, script):
        model.complete(replace(REQUEST, max_output_tokens=77), City)
    assert script.settings[0]["max_tokens"] == 77


def test_stream() -> None:
    """Text comes in pieces as it is written, and whole at the end with its cost."""
    with scripted_model("in the west of Portugal") as (model, _):
        pieces, completion = drain(model)
    assert pieces == ["in ", "the ", "west ", "of ", "Portugal "]
    assert completion.value == "in the west of Portugal "
    assert completion.usage.calls == 1


def drain(model: PydanticAIChat) -> tuple[list[str], Completion[str]]:
    stream = model.stream(REQUEST)
    pieces: list[str] = []
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as end:
            return pieces, end.value


def test_usage_of_two_calls() -> None:
    """Costs add up; nothing costs nothing."""
    one = Usage(stage="plan", model="m", calls=1, input_tokens=2, output_tokens=3)
    assert add_usage(one, one) == Usage(stage="plan", model="m", calls=2, input_tokens=4, output_tokens=6)
    assert add_usage(None, one) == one
    assert add_usage(one, None) == one


# --- a provider over HTTP ---


@pytest.fixture
def waits() -> list[float]:
    return []


def connect(
    server: LoopbackServer, waits: list[float], patience: ChatSettings = LITTLE_PATIENCE
) -> PydanticAIChat:
    with_server = replace(patience, base_url=server.url)
    return PydanticAIChat(find_model(with_server), settings=with_server, pause=waits.append)


def ask(
    server: LoopbackServer, waits: list[float], patience: ChatSettings = LITTLE_PATIENCE
) -> Completion[City]:
    model = connect(server, waits, patience)
    try:
        return model.complete(REQUEST, City)
    finally:
        model.close()


def test_over_http(waits: list[float]) -> None:
    """A server is asked with the schema at temperature 0, and its count of tokens is ours."""
    with serve(Answer(content=LISBON)) as server:
        completion = ask(server, waits)
    assert completion.value == City(name="Lisbon", people=545000)
    assert completion.usage == Usage(
        stage="plan", model="openai:scripted", calls=1, input_tokens=50, output_tokens=7
    )
    assert server.asked[0]["model"] == "scripted"
    assert server.asked[0]["temperature"] == 0
    assert server.asked[0]["response_format"]["type"] == "json_schema"
    assert [message["role"] for message in server.asked[0]["messages"]] == ["system", "user"]


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_respected(status: int, waits: list[float]) -> None:
    """A busy provider is asked again after the seconds it named."""
    with serve(Answer(status=status, headers={"Retry-After": "7"}), Answer(content=LISBON)) as server:
        assert ask(server, waits).value is not None
    assert waits == [7]


def test_long_retry_after_is_an_error(waits: list[float]) -> None:
    """A provider that asks for an hour gets no second request; the error says how long."""
    with (
        serve(Answer(status=429, headers={"Retry-After": "3600"})) as server,
        pytest.raises(ModelRateLimitError) as raised,
    ):
        ask(server, waits)
    assert raised.value.retry_after == 3600
    assert waits == []


@pytest.mark.parametrize("status", [408, 500, 502, 503, 529])
def test_failing_provider(status: int, waits: list[float]) -> None:
    """A failing provider is asked again after growing waits, then it is unavailable."""
    with (
        serve(*[Answer(status=status)] * 3) as server,
        pytest.raises(ModelUnavailableError, match=str(status)),
    ):
        ask(server, waits)
    assert waits == [1, 2]
    assert len(server.asked) == 3


def test_recovering_provider(waits: list[float]) -> None:
    """One success after failures is a success."""
    with serve(Answer(status=500), Answer(status=429), Answer(content=LISBON)) as server:
        assert ask(server, waits).value is not None
    assert waits == [1, 2]


def test_timeout(waits: list[float]) -> None:
    """A provider that doesn't answer in time is unavailable."""
    hasty = replace(LITTLE_PATIENCE, timeout_seconds=0.2, attempts=2)
    slow = Answer(content=LISBON, seconds=PATIENCE)
    with serve(slow, slow) as server, pytest.raises(ModelUnavailableError):
        ask(server, waits, hasty)
    assert waits == [1]


def test_connection_refused(waits: list[float]) -> None:
    """A server that isn't there is unavailable."""
    with serve() as server:
        pass
    with pytest.raises(ModelUnavailableError):
        ask(server, waits)
    assert waits == [1, 2]


@pytest.mark.parametrize(("status", "code"), [(401, "invalid_api_key"), (429, "insufficient_quota")])
def test_no_second_try_without_a_chance(status: int, code: str, waits: list[float]) -> None:
    """A wrong key and an empty account are errors at once."""
    body = json.dumps({"error": {"message": "no", "type": code, "code": code}}).encode()
    with serve(Answer(status=status, body=body)) as server, pytest.raises(ModelRejectedError):
        ask(server, waits)
    assert waits == []
    assert len(server.asked) == 1


def test_server_without_schemas(waits: list[float]) -> None:
    """A server that refuses the schema mode is asked with a tool, then in words, and after that in words at once."""
    refusal = Answer(status=400, body=b'{"error": {"message": "response_format is not supported"}}')
    with serve(refusal, refusal, Answer(content=LISBON), Answer(content=LISBON)) as server:
        model = connect(server, waits)
        assert model.complete(REQUEST, City).value is not None
        assert model.complete(REQUEST, City).value is not None
        model.close()
    kinds = ["response_format" in asked for asked in server.asked]
    assert kinds == [True, False, False, False]
    assert "tools" in server.asked[1]
    assert '"people"' in server.asked[3]["messages"][0]["content"]


def test_refused_in_every_mode(waits: list[float]) -> None:
    """A request that no mode gets through is rejected with the provider's words."""
    refusal = Answer(status=400, body=b'{"error": {"message": "bad model"}}')
    with (
        serve(refusal, refusal, refusal) as server,
        pytest.raises(ModelRejectedError, match="bad model") as raised,
    ):
        ask(server, waits)
    assert raised.value.status == 400


def test_too_long_for_the_model(waits: list[float]) -> None:
    """A request beyond the context window is reported as a reply cut short: ask for less."""
    body = json.dumps(
        {"error": {"message": "too long", "type": "e", "code": "context_length_exceeded"}}
    ).encode()
    with serve(Answer(status=400, body=body)) as server:
        completion = ask(server, waits)
    assert completion.truncated
    assert completion.usage.calls == 0


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=b"<html>Bad gateway</html>", headers={"Content-Type": "text/html"}),
        Answer(body=b'{"id": "1"'),
        Answer(body=b'{"object": "chat.completion", "choices": []}'),
        Answer(content=""),
        Answer(content="Das weiß ich nicht."),
    ],
    ids=["html", "broken json", "no choices", "empty", "prose"],
)
def test_nonsense_over_http(answer: Answer, waits: list[float]) -> None:
    """What is no chat completion, or holds no answer, is asked for once more."""
    with serve(answer, Answer(content=LISBON)) as server:
        assert ask(server, waits).value is not None


def test_cut_short_over_http(waits: list[float]) -> None:
    """`finish_reason: length` is a reply cut short."""
    with serve(Answer(content='{"name": "Lis', finish_reason="length")) as server:
        assert ask(server, waits).truncated


def test_five_megabytes_over_http(waits: list[float]) -> None:
    """Five megabytes of reply don't end up in the next request."""
    with serve(Answer(content="z" * 5_000_000), Answer(content=LISBON)) as server:
        assert ask(server, waits).value is not None
    assert len(json.dumps(server.asked[1])) < 5_000


def test_cost_before_a_failure(waits: list[float]) -> None:
    """What an unusable reply cost is in the error of the request after it."""
    with (
        serve(Answer(content="prose"), *[Answer(status=500)] * 3) as server,
        pytest.raises(ModelUnavailableError) as raised,
    ):
        ask(server, waits)
    assert raised.value.usage is not None
    assert raised.value.usage.input_tokens == 50


def test_failing_stream(waits: list[float]) -> None:
    """A stream that doesn't begin is tried again, then an error."""
    with serve(*[Answer(status=500)] * 3) as server:
        model = connect(server, waits)
        with pytest.raises(ModelUnavailableError):
            drain(model)
        model.close()
    assert waits == [1, 2]


def test_closing_stops_a_request(waits: list[float]) -> None:
    """Closing the model ends a request that is under way, with an error and not with the answer."""
    caught: list[ModelError] = []

    def work(model: PydanticAIChat) -> None:
        try:
            model.complete(REQUEST, City)
        except ModelError as error:
            caught.append(error)

    with serve(Answer(content=LISBON, seconds=PATIENCE)) as server:
        model = connect(server, waits)
        worker = threading.Thread(target=work, args=(model,))
        worker.start()
        wait_until(lambda: server.asked)
        started = time.perf_counter()
        model.close()
        worker.join()
        assert time.perf_counter() - started < PATIENCE / 2
    assert isinstance(caught[0], ModelUnavailableError)
    with pytest.raises(ModelUnavailableError, match="closed"):
        model.complete(REQUEST, City)


def test_one_thread_for_many_calls(waits: list[float]) -> None:
    """However often and from however many threads it is asked, a model has one thread of its own."""
    with serve(*[Answer(content=LISBON)] * 40) as server:
        model = connect(server, waits)
        model.complete(REQUEST, City)
        before = {thread for thread in threading.enumerate() if thread.name == "scrubjay-model"}
        workers = [
            threading.Thread(target=lambda: [model.complete(REQUEST, City) for _ in range(9)])
            for _ in range(4)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        after = {thread for thread in threading.enumerate() if thread.name == "scrubjay-model"}
        model.close()
    assert len(before) == 1
    assert before == after
    assert not server.answers[3:]


# --- names ---


def test_no_model_configured() -> None:
    """Without a model, the error says what to set."""
    with pytest.raises(SettingsError, match=r"SCRUBJAY_MODEL=openai:gpt-4\.1-mini"):
        load_model(ChatSettings())


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pydantic-ai, the error says what to install."""
    monkeypatch.setitem(sys.modules, "pydantic_ai.direct", None)
    monkeypatch.delitem(sys.modules, "scrubjay.llm.adapter")
    with pytest.raises(MissingExtraError, match=r"scrubjay\[llm\]"):
        load_model(ChatSettings(model="openai:gpt-4.1-mini"))


@pytest.mark.parametrize(
    ("name", "base_url", "asked"),
    [
        ("openai:gpt-4.1-mini", "http://127.0.0.1:9/v1", "gpt-4.1-mini"),
        ("ollama:llama3.2:3b", None, "llama3.2:3b"),
        ("llama3.2:3b", "http://127.0.0.1:9/v1", "llama3.2:3b"),
        ("Qwen/Qwen3-4B", "http://127.0.0.1:9/v1", "Qwen/Qwen3-4B"),
    ],
)
def test_names(name: str, base_url: str | None, asked: str) -> None:
    """A name has a provider before its first colon; with a base URL it may have none."""
    model = load_model(ChatSettings(model=name, base_url=base_url))
    assert isinstance(model, PydanticAIChat)
    assert model.name == name
    assert model._model.model_name == asked
    model.close()


def test_other_providers() -> None:
    """A provider that isn't OpenAI's gets its key from the settings."""
    model = load_model(ChatSettings(model="anthropic:claude-sonnet-4-5", api_key="key"))
    assert model.name == "anthropic:claude-sonnet-4-5"
    model.close()


@pytest.mark.parametrize(
    "name", ["gpt-4.1-mini", "nobody:model", "openai:gpt-4.1-mini", "anthropic:claude-sonnet-4-5"]
)
def test_models_that_cannot_be_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name without a provider, an unknown provider and a missing key are settings to correct."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(SettingsError, match=name):
        load_model(ChatSettings(model=name))


def test_key_goes_to_the_server_and_nowhere_else(waits: list[float]) -> None:
    """The key is sent to the server, and shown neither in settings nor in errors."""
    with_key = replace(LITTLE_PATIENCE, api_key="geheim", attempts=1)
    with serve(Answer(status=401)) as server, pytest.raises(ModelRejectedError) as raised:
        ask(server, waits, with_key)
    assert server.asked[0]["authorization"] == "Bearer geheim"
    assert "geheim" not in str(raised.value) + repr(with_key)


# --- one real model ---


@pytest.fixture(scope="module")
def tiny_model_url() -> Iterator[str]:
    with serve_tiny_model() as url:
        yield url


def test_real_model_end_to_end(tiny_model_url: str) -> None:
    """A real model, served over HTTP, writes records by the schema; what they cost is counted by the server."""
    turns = [
        make_turn(0, "I moved to Lisbon last month.", "Ana"),
        make_turn(1, "Great! I am allergic to nuts, by the way.", "Ben"),
    ]
    settings = EncoderSettings(max_output_tokens=96)
    request = build_request(turns, reference=NO_REFERENCE, settings=settings)
    assert request is not None
    short = replace(
        request, system='Write what the turns say: {"records": [{"turns": [1], "type": "fact", "text": "…"}]}'
    )
    model = load_model(ChatSettings(model="smollm2", base_url=tiny_model_url, timeout_seconds=10 * PATIENCE))
    completion = model.complete(short, RecordsReply)
    model.close()
    assert "".join(completion.text.split()).startswith('{"records":[')
    assert completion.usage.calls == 1  # the schema was taken, and nothing asked again
    assert 50 < completion.usage.input_tokens < 500
    assert 0 < completion.usage.output_tokens <= 96
