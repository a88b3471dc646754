"""Models through a call log: every reply is kept before it is given, and nothing is asked twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from models import Answer, cut_short, scripted_model, serve
from pydantic import BaseModel

from scrubjay.bench.qa.calls import Budget, CallLog, KeptModel
from scrubjay.bench.qa.crew import StopSign, work_through
from scrubjay.datatypes import Usage
from scrubjay.errors import (
    CallPutOffError,
    ModelRejectedError,
    ModelReplyError,
    RunStoppedError,
)
from scrubjay.llm import ChatRequest, load_model
from scrubjay.settings import ChatSettings

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = ChatRequest(stage="answer", system="Answer.", user="Lisbon?")
FOREIGN = Usage(stage="build", model="theirs", calls=3, input_tokens=30, output_tokens=3)


class City(BaseModel):
    name: str
    people: int = 0


def open_log(folder: Path, *, tokens: int | None = None, dollars: float | None = None) -> CallLog:
    return CallLog(folder / "calls.jsonl", budget=Budget(tokens=tokens, dollars=dollars))


def test_replies_are_kept(tmp_path: Path) -> None:
    """A text, a value and a reply cut short are given again from the file, with what they cost, and nobody is asked."""
    with scripted_model("Yes.", '{"name": "Lisbon"}', cut_short("")) as (model, script):
        kept = KeptModel(model, open_log(tmp_path), scope="a")
        said, city = kept.complete(REQUEST, str), kept.complete(REQUEST, City)
        cut = kept.complete(replace(REQUEST, user="Porto?"), City)
        again = KeptModel(model, open_log(tmp_path), scope="a")
        assert (again.complete(REQUEST, str), again.complete(REQUEST, City)) == (said, city)
        assert again.complete(replace(REQUEST, user="Porto?"), City) == cut
        assert (len(script.prompts), again.name) == (3, model.name)
    assert (said.value, city.value, cut.value, cut.truncated) == (
        "Yes.",
        City(name="Lisbon"),
        None,
        True,
    )
    (usage,) = open_log(tmp_path).usage_of("a")
    assert (usage.stage, usage.calls, usage.input_tokens) == ("answer", 3, 300)
    assert open_log(tmp_path).usage_of("b") == ()


@pytest.mark.parametrize(
    "change", [{"user": "Porto?"}, {"system": "Say."}, {"stage": "plan"}, {"max_output_tokens": 5}], ids=str
)
def test_another_request_is_another_call(tmp_path: Path, change: dict[str, Any]) -> None:
    """Whatever is asked otherwise, or for something else, is asked."""
    with scripted_model("one", "two", "three") as (model, _):
        log = open_log(tmp_path)
        kept = KeptModel(model, log, scope="a")
        assert kept.complete(REQUEST, str).value == "one"
        assert kept.complete(replace(REQUEST, **change), str).value == "two"
        kept.scope = "b"
        assert kept.complete(REQUEST, str).value == "three"


def test_streams_are_kept(tmp_path: Path) -> None:
    """A stream is the kept reply in one piece."""
    with scripted_model("Yes.") as (model, _):
        kept = KeptModel(model, open_log(tmp_path))
        assert list(kept.stream(REQUEST)) == ["Yes."]
        assert list(kept.stream(REQUEST)) == ["Yes."]
        kept.close()
        assert kept.complete(REQUEST, str).value == "Yes."


def test_failures_that_would_come_again_are_kept(tmp_path: Path) -> None:
    """A reply that can't be used, and a request that is refused, are the same errors again without a call."""
    with scripted_model("no", "no") as (model, script):
        for _ in range(2):
            with pytest.raises(ModelReplyError, match="no usable reply") as unusable:
                KeptModel(model, open_log(tmp_path), scope="a").complete(REQUEST, City)
            assert unusable.value.usage is not None
            assert unusable.value.usage.calls == 2
        assert len(script.prompts) == 2
    with serve(Answer(status=422)) as server:
        served = load_model(ChatSettings(model="served", base_url=server.url))
        for _ in range(2):
            with pytest.raises(ModelRejectedError, match="422") as rejected:
                KeptModel(served, open_log(tmp_path), scope="b").complete(REQUEST, str)
            assert rejected.value.status == 422
        served.close()
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "error"), [(503, CallPutOffError), (429, CallPutOffError), (401, RunStoppedError)]
)
def test_failures_that_may_pass_are_not_kept(
    tmp_path: Path, status: int, error: type[RunStoppedError]
) -> None:
    """A provider that is away puts the call off; what it cost before is kept, and it is asked again later."""
    with serve(
        Answer(content="prose"), Answer(status=status), Answer(content='{"name": "Lisbon"}')
    ) as server:
        served = load_model(ChatSettings(model="openai:served", base_url=server.url, attempts=1))
        with pytest.raises(error, match=str(status)) as raised:
            KeptModel(served, open_log(tmp_path), scope="a").complete(REQUEST, City)
        assert type(raised.value) is error
        assert KeptModel(served, open_log(tmp_path), scope="a").complete(REQUEST, City).value == City(
            name="Lisbon"
        )
        served.close()
    (usage,) = open_log(tmp_path).usage_of("a")
    assert usage.calls == 2  # the one that could not be used, and the last


def test_budgets(tmp_path: Path) -> None:
    """A budget counts every call there is in the file, those of other clients too."""
    with scripted_model("one", "two") as (model, script):
        KeptModel(model, open_log(tmp_path, tokens=50), scope="a").complete(REQUEST, str)
        poor = KeptModel(model, open_log(tmp_path, tokens=110), scope="b")
        with pytest.raises(RunStoppedError, match="the budget of 110 tokens is spent"):
            poor.complete(REQUEST, str)
        log = open_log(tmp_path, tokens=140)
        log.require_budget()
        log.add_cost("build/x", FOREIGN)
        with pytest.raises(RunStoppedError, match="140"):
            log.require_budget()
        assert open_log(tmp_path).usage_of("build/x") == (FOREIGN,)
        assert len(script.prompts) == 1


def test_dollars(tmp_path: Path) -> None:
    """A budget in dollars goes by list prices."""
    log = open_log(tmp_path, dollars=4.0)
    log.add_cost("a", replace(FOREIGN, model="openai:gpt-4.1-mini", input_tokens=9_000_000, output_tokens=0))
    log.require_budget()
    log.add_cost("a", replace(FOREIGN, model="openai:gpt-4.1-mini", input_tokens=1_000_000, output_tokens=0))
    with pytest.raises(RunStoppedError, match=r"\$4\.00"):
        log.require_budget()


def test_work_that_fails() -> None:
    """An error that is about no call ends the work of all, and is raised."""
    sign, broken_off, done = StopSign(), [], []

    def work(item: int) -> None:
        done.append(item)
        if item == 2:
            raise ZeroDivisionError("two")

    with pytest.raises(ZeroDivisionError):
        work_through(range(100), work, workers=1, sign=sign, break_off=lambda: broken_off.append(sign.reason))
    assert (done, broken_off) == ([0, 1, 2], ["two"])


def test_failures_in_a_row() -> None:
    """One call put off and another are borne, three in a row end the work; a success in between begins anew."""
    sign = StopSign()
    for _ in range(2):
        sign.note_failure(CallPutOffError("away"))
    sign.note_success()
    for _ in range(2):
        sign.note_failure(CallPutOffError("away"))
    assert sign.reason == ""
    sign.note_failure(CallPutOffError("away for long"))
    assert sign.reason == "away for long"
