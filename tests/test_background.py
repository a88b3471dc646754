"""Consolidation in the background: it follows adds by itself, shows its troubles, and stops with its memory."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from models import Answer, serve
from scribes import Scribe, cited, open_eager, spent_tokens, states, told
from small_memories import EMBEDDER, PATIENCE, open_memory, run_python, say, wait_until

from scrubjay import Memory, Settings
from scrubjay.background import THREAD_NAME
from scrubjay.errors import InputError, ModelRejectedError, ModelUnavailableError, SettingsError
from scrubjay.settings import SEGMENT_PRESETS, BackgroundSettings, ChatSettings, EncoderSettings
from scrubjay.store.connection import remove_file

if TYPE_CHECKING:
    from pathlib import Path

    from scrubjay.datatypes import BackgroundState
    from scrubjay.llm import ChatRequest

FACTS = ("Pepper is a beagle.", "Oleg plays the bassoon.", "Mira lives in Visby.")
SOON = EncoderSettings(retry_seconds=0.05)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.jay"


def state(memory: Memory) -> BackgroundState:
    found = memory.status().background
    assert found is not None
    return found


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def test_adds_are_followed(path: Path) -> None:
    """Turns become records without being asked to, also those that were there when the memory was opened."""
    with open_eager(path) as memory:
        say(memory, *FACTS[:2])
    with open_eager(path, Scribe(), consolidate="background") as memory:
        wait_until(lambda: told(memory) == [FACTS[0]])
        say(memory, FACTS[2])
        wait_until(lambda: told(memory) == list(FACTS[:2]))
        wait_until(lambda: not state(memory).working)
        found = state(memory)
        assert (found.running, found.last_error) == (True, "")
        assert found.last_run_at is not None
        assert found.next_run_at is not None
        assert states(memory) == (1, 0, 2, 0)
    assert workers() == []


def test_idle_sessions_are_closed(path: Path) -> None:
    """A session to which nothing is added for so long is encoded to its end."""
    settings = Settings(
        segment=SEGMENT_PRESETS["eager-turn"],
        background=BackgroundSettings(settle_seconds=0.01, idle_seconds=0.2),
    )
    with Memory(
        path, embedder=EMBEDDER, settings=settings, model=Scribe(), consolidate="background"
    ) as memory:
        say(memory, *FACTS)
        wait_until(lambda: told(memory) == list(FACTS))


def test_a_loop_of_adds(path: Path) -> None:
    """Adding goes on while the worker writes: nothing is locked out, lost, or encoded twice."""
    with open_eager(path, Scribe(signs=True), consolidate="background") as memory:
        for turn in range(40):
            say(memory, f"Fact {turn}.", session_id=f"s{turn % 3}")
        wait_until(lambda: states(memory) == (3, 0, 37, 0))
        assert len(cited(memory)) == len(set(cited(memory))) == 37
        assert memory.doctor() == ()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"consolidate": "background"}, SettingsError, "SCRUBJAY_MODEL"),
        ({"consolidate": "sometimes", "model": Scribe()}, SettingsError, "'background', found 'sometimes'"),
        ({"consolidate": "background", "model": Scribe(), "read_only": True}, InputError, "read only"),
    ],
    ids=["no model", "unknown", "read only"],
)
def test_refused_at_open(path: Path, given: dict[str, object], error: type[Exception], words: str) -> None:
    """What can't work is told when the memory is opened, and leaves no thread."""
    open_memory(path).close()
    with pytest.raises(error, match=words):
        Memory(path, **given)  # type: ignore[arg-type] # the cases above
    assert workers() == []


def test_trouble_is_shown_and_passes(path: Path) -> None:
    """While the provider is away adds go on and the status says so; the worker is back when the provider is."""
    away = [True]

    def fail(_request: ChatRequest) -> None:
        if away:
            raise ModelUnavailableError("nobody listens", reached=False)

    with open_eager(path, Scribe(before=fail), encoder=SOON, consolidate="background") as memory:
        say(memory, *FACTS)
        wait_until(lambda: "nobody listens" in state(memory).last_error)
        assert state(memory).running
        assert [segment.last_error for segment in memory.status().failing] == ["nobody listens"]
        away.clear()
        wait_until(lambda: told(memory) == list(FACTS[:2]))
        wait_until(lambda: state(memory).last_error == "")
        assert memory.status().failing == ()


def test_a_wrong_key_is_shown(path: Path) -> None:
    """What the provider refuses is shown, and asked again ever more seldom; nothing is counted against segments."""
    refused: list[float] = []

    def refuse(_request: ChatRequest) -> None:
        refused.append(time.monotonic())
        raise ModelRejectedError("wrong key", status=401)

    with open_eager(path, Scribe(before=refuse), encoder=SOON, consolidate="background") as memory:
        say(memory, *FACTS)
        wait_until(lambda: len(refused) >= 4)
        wait_until(lambda: state(memory).last_error == "wrong key")
        pauses = [after - before for before, after in pairwise(refused[:4])]
        assert all(pause >= least for pause, least in zip(pauses, (0.05, 0.1, 0.2), strict=True))
        assert states(memory) == (1, 2, 0, 0)
        assert memory.status().failing == ()


def test_the_pause_a_provider_asks_for(path: Path) -> None:
    """A Retry-After is kept, whatever is added meanwhile."""
    with (
        serve(Answer(status=429, headers={"Retry-After": "300"})) as server,
        open_eager(
            path, chat=ChatSettings(model="served", base_url=server.url), consolidate="background"
        ) as memory,
    ):
        say(memory, *FACTS)
        wait_until(lambda: "429" in state(memory).last_error)
        say(memory, *FACTS, session_id="tuesday")
        time.sleep(0.3)
        assert len(server.asked) == 1
        assert states(memory) == (6, 0, 0, 0) or states(memory) == (4, 2, 0, 0)


def test_bad_replies_are_shown(path: Path) -> None:
    """A segment whose replies can't be used is given up, and shown; the worker goes on."""
    served = [Answer(content="no")] * 6
    with (
        serve(*served) as server,
        open_eager(
            path, chat=ChatSettings(model="served", base_url=server.url), consolidate="background"
        ) as memory,
    ):
        say(memory, *FACTS[:2])
        wait_until(lambda: states(memory) == (1, 0, 0, 1))
        wait_until(lambda: "could not be used" in state(memory).last_error)
        assert state(memory).running


def test_closing_ends_a_call(path: Path) -> None:
    """Closing doesn't wait for a model that takes its time: the segment is free again, and nothing is counted."""
    with serve(Answer(seconds=PATIENCE)) as server:
        chat = ChatSettings(model="served", base_url=server.url, timeout_seconds=PATIENCE)
        memory = open_eager(path, chat=chat, consolidate="background")
        say(memory, *FACTS[:2])
        wait_until(lambda: server.asked)
        started = time.monotonic()
        memory.close()
        assert time.monotonic() - started < PATIENCE / 2
    assert workers() == []
    with open_eager(path, Scribe()) as memory:
        assert (memory.segments.progress().leased, spent_tokens(memory)[0]) == (0, 0)
        assert memory.segments.segments()[0].last_error == ""
        assert memory.consolidate().encoded == 1


def test_a_model_that_was_given_is_left_open(path: Path) -> None:
    """Closing waits for the call of a model that is somebody else's, keeps its result, and takes no further segment."""
    answered = threading.Event()
    scribe = Scribe(before=lambda _request: answered.wait(PATIENCE))
    memory = open_eager(path, scribe, consolidate="background")
    worker = memory._worker
    assert worker is not None
    say(memory, *FACTS)
    wait_until(lambda: scribe.asked)
    closing = threading.Thread(target=memory.close)
    closing.start()
    wait_until(lambda: not worker.state.running)
    answered.set()
    closing.join()
    with open_eager(path) as memory:
        assert (told(memory), memory.segments.progress().leased) == ([FACTS[0]], 0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_of_no_kind_we_know(path: Path) -> None:
    """What nobody foresaw ends the worker, not the host: it is raised in the thread and shown in the status."""

    def fail(_request: ChatRequest) -> None:
        raise ZeroDivisionError("a mistake")

    with open_eager(path, Scribe(before=fail), consolidate="background") as memory:
        say(memory, *FACTS)
        wait_until(lambda: not state(memory).running)
        assert state(memory).last_error == "ZeroDivisionError: a mistake"
        assert say(memory, "Adding goes on.")
        assert memory.segments.progress().leased == 0


def test_a_deleted_file_ends_it(path: Path) -> None:
    """When the file is gone there is nothing to do, and the worker says so."""
    with open_eager(path, Scribe(), consolidate="background") as memory:
        wait_until(lambda: state(memory).last_run_at)
        worker = memory._worker
        assert worker is not None
        remove_file(str(path))
        worker.wake()
        wait_until(lambda: not worker.state.running)
        assert "was deleted or replaced" in worker.state.last_error


def test_many_memories_leave_no_thread(tmp_path: Path) -> None:
    """Opening and closing many leaves as many threads as there were."""
    before = set(threading.enumerate())
    for number in range(20):
        with open_eager(tmp_path / f"{number}.jay", Scribe(), consolidate="background") as memory:
            say(memory, *FACTS)
    assert set(threading.enumerate()) <= before


def test_a_program_that_never_closes(path: Path) -> None:
    """A program that ends without closing its memory ends, with the segment under way, and holds none."""
    code = """
import sys
from scribes import Scribe, open_eager
from small_memories import say
memory = open_eager(sys.argv[1], Scribe(seconds=0.3), consolidate="background")
say(memory, *(f"Fact {turn}." for turn in range(60)))
while not memory.segments.progress().leased:
    pass
"""
    run_python(code, str(path))
    with open_eager(path, Scribe()) as memory:
        assert memory.segments.progress().leased == 0
        assert states(memory)[2] == len(cited(memory)) < 59


def test_reembedding_meanwhile(path: Path) -> None:
    """A segment under way when the embedder is changed is encoded again: no index holds vectors of two."""
    asked, answered = threading.Event(), threading.Event()

    def be_slow(_request: ChatRequest) -> None:
        asked.set()
        assert answered.wait(PATIENCE)

    with open_eager(path, Scribe(before=be_slow), encoder=SOON, consolidate="background") as memory:
        say(memory, *FACTS)
        assert asked.wait(PATIENCE)
        memory.reembed("hash:100")
        answered.set()
        say(memory, *FACTS, session_id="tuesday")
        wait_until(lambda: states(memory) == (2, 0, 4, 0))
        assert memory.doctor() == ()
