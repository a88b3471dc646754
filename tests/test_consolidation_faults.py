"""What goes wrong with a model, and what becomes of the turns: a failure is a failure, and loses nothing."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from models import Answer, serve
from scribes import IMPATIENT, Scribe, most, open_eager, spent_tokens, states, told
from small_memories import EMBEDDER, PATIENCE, say

from scrubjay import Memory, Settings
from scrubjay.datatypes import SegmentState
from scrubjay.errors import EmbedderError, ModelRejectedError
from scrubjay.settings import ChatSettings, EncoderSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from scrubjay.datatypes import EmbedderIdentity, Segment

FACTS = ("Pepper is a beagle.", "Oleg plays the bassoon.", "Mira lives in Visby.")
IN, OUT = 50, 7  # tokens that the server says a call had


def record(text: str = FACTS[0], turns: Sequence[int] = (1,), **fields: object) -> dict[str, object]:
    return {"turns": list(turns), "type": "fact", "text": text, **fields}


def reply(*records: object, note: str = "") -> str:
    return json.dumps({"records": records, "note": note}, ensure_ascii=False)


GOOD = Answer(content=reply(record()))


def once(url: str, *, timeout_seconds: float = PATIENCE) -> ChatSettings:
    return ChatSettings(model="served", base_url=url, attempts=1, timeout_seconds=timeout_seconds)


def open_served(
    path: Path, url: str, *, encoder: EncoderSettings = IMPATIENT, timeout_seconds: float = PATIENCE
) -> Memory:
    return open_eager(path, chat=once(url, timeout_seconds=timeout_seconds), encoder=encoder)


def only_segment(memory: Memory) -> Segment:
    (segment,) = memory.segments.segments(session_id="monday")
    return segment


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.jay"


# --- the provider ---


def test_rate_limit(path: Path) -> None:
    """A provider that asks to wait stops the run: nothing is counted, the rest is pending, and its word is kept."""
    with (
        serve(Answer(status=429, headers={"Retry-After": "300"})) as server,
        open_served(path, server.url) as memory,
    ):
        say(memory, *FACTS)
        say(memory, *FACTS, session_id="tuesday")
        report = memory.consolidate(flush=True)
        assert (report.encoded, report.failed, len(server.asked)) == (0, 1, 1)
        assert "429" in report.stopped
        assert "6 segments left" in report.stopped
        assert report.retry_at is not None
        assert timedelta(minutes=4) < report.retry_at - datetime.now(UTC) < timedelta(minutes=6)
        assert states(memory) == (0, 6, 0, 0)
        first = memory.segments.segments()[0]
        assert (first.attempts, "429" in first.last_error) == (0, True)
        assert memory.segments.lease_segment(1, owner="x", now=datetime.now(UTC), lease_seconds=1) is not None


def test_short_rate_limit_is_waited_for(path: Path) -> None:
    """A short pause is kept within the run."""
    answers = (Answer(status=429, headers={"Retry-After": "0"}), GOOD)
    with serve(*answers) as server, open_eager(path, chat=replace(once(server.url), attempts=2)) as memory:
        say(memory, FACTS[0])
        assert memory.consolidate(flush=True).encoded == 1


@pytest.mark.parametrize(
    "trouble",
    [Answer(status=500), Answer(status=503), Answer(seconds=PATIENCE), Answer(status=400)],
    ids=["500", "503", "slow", "400"],
)
def test_failing_provider(path: Path, trouble: Answer) -> None:
    """A provider that fails stops the run; a segment it fails for three times is given up, visibly, until asked for."""
    hasty = 0.5 if trouble.seconds else PATIENCE
    with serve(*[trouble] * 9) as server, open_served(path, server.url, timeout_seconds=hasty) as memory:
        say(memory, FACTS[0])
        say(memory, FACTS[1], session_id="tuesday")
        for attempt in (1, 2):
            report = memory.consolidate(flush=True)
            assert (report.encoded, report.failed, "2 segments left" in report.stopped) == (0, 1, True)
            assert (states(memory), only_segment(memory).attempts) == ((0, 2, 0, 0), attempt)
        assert memory.consolidate().failed == 1
        assert states(memory) == (0, 1, 0, 1)
        assert [segment.state for segment in memory.status().failing] == [SegmentState.FAILED]
        assert only_segment(memory).last_error.startswith("served: ")
    with serve(*[GOOD] * 9) as server, open_served(path, server.url) as memory:
        assert memory.consolidate().encoded == 1
        assert memory.segments.retry_failed() == 1
        assert memory.consolidate().stopped == ""
        assert states(memory) == (0, 0, 2, 0)
        assert only_segment(memory).last_error == ""


def test_refused_connection(path: Path) -> None:
    """Where nobody listens, the run stops at the first segment, however often it is tried; no attempt is counted."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with open_served(path, f"http://127.0.0.1:{port}/v1") as memory:
        say(memory, *FACTS)
        for _ in range(4):
            report = memory.consolidate(flush=True)
            assert (report.failed, report.usage) == (1, ())
        assert "3 segments left" in report.stopped
        assert (states(memory), memory.segments.segments()[0].attempts) == ((0, 3, 0, 0), 0)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_wrong_key(path: Path, status: int) -> None:
    """What no other try would mend is raised, with nothing counted and nothing held."""
    with serve(*[Answer(status=status)] * 3, GOOD) as server, open_served(path, server.url) as memory:
        say(memory, FACTS[0])
        with pytest.raises(ModelRejectedError, match=str(status)):
            memory.consolidate(flush=True)
        assert (states(memory), memory.segments.progress().leased) == ((0, 1, 0, 0), 0)
        assert (only_segment(memory).attempts, only_segment(memory).last_error) == (0, "")
        server.answers[:] = [GOOD]
        assert memory.consolidate().encoded == 1


def test_a_pause_keeps_a_session_in_order(path: Path) -> None:
    """While a segment waits for another try, the session's later ones wait with it; other sessions go on."""
    slow = EncoderSettings(retry_seconds=600)
    answers = (Answer(content="no"), Answer(content="no"), GOOD)
    with serve(*answers) as server, open_served(path, server.url, encoder=slow) as memory:
        say(memory, *FACTS)
        say(memory, FACTS[0], session_id="tuesday")
        report = memory.consolidate(flush=True)
        assert (report.encoded, report.failed) == (1, 1)
        assert report.stopped == "some wait for another try; 3 segments left: run it again"
        assert report.retry_at is None  # the provider is well
        assert [segment.state for segment in memory.segments.segments()] == [*["pending"] * 3, "encoded"]


# --- the reply ---

LONG = reply(record(), record("x" * 5_000_000))
CUT = Answer(content=reply(record("Oleg"))[:-20], finish_reason="length")
SINGLE = (SegmentState.ENCODED, [FACTS[0]])
REPLIES = {
    "prose": ([f"Of course!\n{reply(record())}\nAnything else?"], SINGLE),
    "thinking": ([f"<think>{{Is it a dog?}}</think>{reply(record())}"], SINGLE),
    "fenced": ([f"```json\n{reply(record())}\n```"], SINGLE),
    "bare list": ([json.dumps([record()])], SINGLE),
    "nothing to remember": ([reply()], (SegmentState.ENCODED, [])),
    "some wrong types": ([reply(record(), {"turns": "soon", "type": 7, "text": None}, "words")], SINGLE),
    "all wrong types": ([reply({"turns": {}, "type": "thing", "text": 1})] * 2, (SegmentState.FAILED, [])),
    "mended when asked again": ([reply({"turns": {}, "text": 1}), reply(record())], SINGLE),
    "a turn that isn't there": ([reply(record(turns=[7]))], (SegmentState.FAILED, [])),
    "one that is and one that isn't": ([reply(record(turns=[1, 7]))], SINGLE),
    "5 MB": ([LONG, LONG], (SegmentState.FAILED, [])),
    "another language": (
        [reply(record("Pepper ist ein Beagle."))],
        (SegmentState.ENCODED, ["Pepper ist ein Beagle."]),
    ),
    "empty": (["", ""], (SegmentState.FAILED, [])),
    "prose alone": (["I can't do that."] * 2, (SegmentState.FAILED, [])),
    "the schema": (['{"properties": {"records": {"type": "array"}}}'] * 2, (SegmentState.FAILED, [])),
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies(path: Path, name: str) -> None:
    """A reply that can be read is, one that can't is a failure with its reason, never a segment without facts."""
    replies, (state, expected) = REPLIES[name]
    answers = [Answer(content=text) for text in replies]
    encoder = EncoderSettings(attempts=1)
    with serve(*answers) as server, open_served(path, server.url, encoder=encoder) as memory:
        say(memory, FACTS[0])
        report = memory.consolidate(flush=True)
        segment = only_segment(memory)
        assert (segment.state, told(memory)) == (state, expected)
        assert (report.encoded, report.failed) == ((1, 0) if state == "encoded" else (0, 1))
        assert bool(segment.last_error) == (state == "failed")
        assert len(segment.last_error) < 3_000
        assert server.answers == []
        assert spent_tokens(memory) == (len(answers), len(answers) * IN, len(answers) * OUT)
        assert memory.doctor() == ()


def test_support_of_another_language(path: Path) -> None:
    """A record whose words don't stand in the turns it cites is kept, but marked, with the reason."""
    invented = Answer(content=reply(record("Pepper heißt 1999 Rex.")))
    with serve(invented) as server, open_served(path, server.url) as memory:
        say(memory, FACTS[0])
        memory.consolidate(flush=True)
        (found,) = memory.records.records()
        assert (found.support.supported, "1999" in found.support.reason) == (False, True)


def test_cut_short(path: Path) -> None:
    """A reply cut short is asked for again in halves, and both give their records to the one segment."""
    halves = (Answer(content=reply(record(FACTS[0]))), Answer(content=reply(record(FACTS[1]))))
    with serve(CUT, *halves) as server:
        settings = Settings(chat=once(server.url))
        with Memory(path, embedder=EMBEDDER, settings=settings) as memory:
            say(memory, *FACTS[:2])
            report = memory.consolidate(flush=True)
            assert (report.encoded, told(memory)) == (1, list(FACTS[:2]))
            assert spent_tokens(memory) == (3, 3 * IN, 3 * OUT)
            assert only_segment(memory).turn_ids == ("monday:0", "monday:1")


def test_always_cut_short(path: Path) -> None:
    """Where even the shortest piece is cut short, the segment fails, and what it cost is kept."""
    encoder = EncoderSettings(attempts=1)
    with serve(CUT) as server, open_served(path, server.url, encoder=encoder) as memory:
        say(memory, FACTS[0])
        assert memory.consolidate(flush=True).failed == 1
        assert "cut short" in only_segment(memory).last_error
        assert spent_tokens(memory)[0] == 1


# --- ourselves ---


class Forgetful:
    """An embedder that fails once it is told to."""

    def __init__(self, identity: EmbedderIdentity) -> None:
        self.identity = identity
        self.failing = False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        from scrubjay.embed import load_embedder

        if self.failing:
            raise EmbedderError("the embedder is away")
        return load_embedder(EMBEDDER).embed(texts)


def test_failing_embedder(path: Path) -> None:
    """When records can't be embedded the run raises; the segment is free again, and the call's cost is kept."""
    from scrubjay.embed import load_embedder

    embedder = Forgetful(load_embedder(EMBEDDER).identity)
    with Memory(path, embedder=embedder, model=Scribe()) as memory:
        say(memory, FACTS[0])
        embedder.failing = True
        with pytest.raises(EmbedderError):
            memory.consolidate(flush=True)
        assert (states(memory), memory.segments.progress().leased) == ((0, 1, 0, 0), 0)
        assert (told(memory), spent_tokens(memory)[0]) == ([], 1)
        embedder.failing = False
        assert memory.consolidate().encoded == 1


def test_one_worker_fails(path: Path) -> None:
    """When one of several workers meets what nobody can mend, the others finish their segment and stop."""

    def fail(request: object) -> None:
        if "monday:0" in str(request):
            raise ModelRejectedError("the account is empty")

    with open_eager(path, Scribe(before=fail, seconds=0.05)) as memory:
        for session in ("monday", "tuesday", "friday"):
            say(memory, *FACTS, session_id=session)
        with pytest.raises(ModelRejectedError, match="empty"):
            memory.consolidate(limits=most(workers=3), flush=True)
        progress = memory.segments.progress()
        assert (progress.leased, progress.segments.encoded <= 2, progress.segments.failed) == (0, True, 0)
