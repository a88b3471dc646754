"""The commands of the write side with a model, run as a user runs them, against a server on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from commands import Output, command_runner
from models import Answer, serve
from scribes import Scribe, open_eager, states
from small_memories import SPRING, fill, open_memory, say

from scrubjay.cli.consolidating import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from models import LoopbackServer

PATIENCE = 60  # seconds on a busy machine
FACTS = ("Pepper is a beagle.", "Oleg plays the bassoon.", "Mira lives in Visby.")
GOOD = Answer(
    content='{"records": [{"turns": [1], "type": "event", "text": "Pepper came home in May 2021.", '
    '"entities": ["Pepper"], "t_ref": "2021-05", "stance": "asked"}], "note": ""}'
)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    return command_runner(monkeypatch, capsys)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, run: object) -> Iterator[LoopbackServer]:
    """Give a server that the environment names, with good answers for all."""
    with serve(*[GOOD] * 50) as server:
        monkeypatch.setenv("SCRUBJAY_MODEL", "served")
        monkeypatch.setenv("SCRUBJAY_BASE_URL", server.url)
        yield server


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Give a memory of three sessions, so three segments once they are flushed."""
    path = tmp_path / "m.jay"
    with open_memory(path) as memory:
        for number, fact in enumerate(FACTS):
            memory.add({"role": "user", "content": fact}, session_id=f"s{number}", said_at=SPRING)
    return path


def test_consolidate(run: Callable[..., Output], served: LoopbackServer, three: Path) -> None:
    """All is encoded with the model that the environment names, and its cost is shown."""
    done = run("consolidate", "--memory", three, "--flush")
    assert (done.code, done.err) == (0, "")
    assert "3 segments encoded: 1 new record, 2 said before, 0 left out" in done.out
    assert "served: 3 calls, 150 tokens in, 21 out" in done.out
    assert "turns: 0 open, 0 pending, 3 encoded, 0 failed" in done.out
    assert [asked["model"] for asked in served.asked] == ["served"] * 3


def test_consolidate_as_json(run: Callable[..., Output], served: LoopbackServer, three: Path) -> None:
    """The report as JSON has the cost and the states, and nothing else is on standard output."""
    done = run("consolidate", "-m", three, "--flush", "--max-segments", "2", "--workers", "2", "--json")
    document = json.loads(done.out)
    assert (done.code, document["encoded"], document["turns_by_state"]["pending"]) == (0, 2, 1)
    assert document["usage"] == [
        {"stage": "encode", "model": "served", "calls": 2, "input_tokens": 100, "output_tokens": 14}
    ]
    assert "1 segment left" in document["stopped"]
    assert "Stopped: the limit of 2 segments is reached; 1 segment left" in done.err


def test_named_model(run: Callable[..., Output], three: Path) -> None:
    """A model and server named as options need no environment."""
    with serve(*[GOOD] * 3) as server:
        options = ("--model", "other", "--base-url", server.url, "--budget-tokens", "60")
        done = run("consolidate", "-m", three, "--flush", *options)
        assert (done.code, len(server.asked), server.asked[0]["model"]) == (0, 2, "other")
        assert "the budget of 60 tokens is spent; 1 segment left" in done.err


def test_dry_run(run: Callable[..., Output], three: Path) -> None:
    """A dry run needs no model, says calls and tokens, and changes no byte of the file."""
    before = three.read_bytes()
    done = run("consolidate", "-m", three, "--flush", "--dry-run")
    assert (done.code, "3 segments to encode: 3 calls, about 4," in done.out) == (0, True)
    plan = json.loads(run("consolidate", "-m", three, "--idle", "0", "--dry-run", "--json").out)
    assert (plan["calls"], plan["segments"]) == (3, 3)
    assert (
        json.loads(run("consolidate", "-m", three, "--idle", "60", "--dry-run", "--json").out)["calls"] == 0
    )
    assert three.read_bytes() == before


def test_dry_run_of_making_anew(run: Callable[..., Output], three: Path) -> None:
    """Making all records anew is reckoned too, with no model and no byte changed."""
    before = three.read_bytes()
    done = run("reconsolidate", "-m", three, "--dry-run")
    assert (done.code, done.out.startswith("0 segments to encode: 0 calls")) == (0, True)
    other = ("--model", "other", "--base-url", "http://127.0.0.1:1/v1")
    plan = json.loads(run("reconsolidate", "-m", three, "--dry-run", *other, "--json").out)
    assert plan == {"segments": 0, "calls": 0, "input_tokens": 0, "output_tokens": 0}
    assert three.read_bytes() == before


def test_no_model(run: Callable[..., Output], three: Path) -> None:
    """With no model configured it says what to set and exits with 2; all other commands go on working."""
    for command in ("consolidate", "reconsolidate"):
        done = run(command, "-m", three)
        assert (done.code, "SCRUBJAY_MODEL" in done.err) == (2, True)
    assert run("ask", "Who plays the bassoon?", "-m", three).code == 0
    assert run("status", "-m", three).code == 0
    assert run("records", "-m", three).err == "No such records.\n"
    assert run("segments", "-m", three).err == "No such segments.\n"


def test_provider_away(run: Callable[..., Output], served: LoopbackServer, three: Path) -> None:
    """When the provider asks to wait too long it exits with 1, says so, and the rest is pending."""
    served.answers[:] = [Answer(status=429, headers={"Retry-After": "3600"})]
    done = run("consolidate", "-m", three, "--flush")
    assert (done.code, "429" in done.err, "3 segments left" in done.err) == (1, True, True)
    shown = json.loads(run("status", "-m", three, "--json").out)
    assert shown["turns_by_state"] == {"open": 0, "pending": 3, "encoded": 0, "failed": 0}
    assert "429" in shown["failing"][0]["last_error"]


def test_wrong_key(run: Callable[..., Output], served: LoopbackServer, three: Path) -> None:
    """What the provider refuses is one line on standard error, and exit code 1."""
    served.answers[:] = [Answer(status=401)]
    done = run("consolidate", "-m", three, "--flush")
    assert (done.code, "401" in done.err, "Traceback" in done.err) == (1, True, False)


def test_failed_segments(run: Callable[..., Output], served: LoopbackServer, three: Path) -> None:
    """Segments that were given up are shown with their error, and tried again on request."""
    with open_eager(three, chat=None) as memory:
        say(memory, FACTS[0], session_id="more")
    served.answers[:] = [Answer(content="no")] * 2 + [GOOD] * 3
    assert run("consolidate", "-m", three, "--flush").code == 1
    shown = run("segments", "-m", three, "--state", "pending")
    assert ("gave no usable reply" in shown.out, "s0" in shown.out, "s1" in shown.out) == (True, True, False)
    with open_memory(three) as memory:
        leased = memory.segments.lease_segment(
            1, owner="x", now=memory.segments.segments()[0].updated_at.replace(year=3000), lease_seconds=1
        )
        assert leased is not None
        memory.segments.fail_segment(leased, "given up", retry_at=None, max_attempts=1)
    shown = run("status", "-m", three)
    assert ("given up" in shown.out, "1 failed" in shown.out) == (True, True)
    again = run("segments", "-m", three, "--retry-failed", "--json")
    assert "1 segment will be tried again" in again.err
    assert [(one["state"], one["attempts"]) for one in json.loads(again.out)][:1] == [("pending", 0)]
    served.answers[:] = [GOOD]
    assert run("consolidate", "-m", three).code == 0


def test_records(run: Callable[..., Output], served: LoopbackServer, three: Path) -> None:
    """Records are shown with their turns, and found by type, entity, session and support."""
    run("consolidate", "-m", three, "--flush")
    line = "[event, 2021-05, asked, unsupported: "
    shown = run("records", "-m", three)
    assert shown.out.startswith(line)
    assert "Pepper came home in May 2021. (s0:0, s1:0, s2:0)" in shown.out
    assert shown.out.count("\n") == 1
    for filters in (("--type", "event"), ("--entity", "PEPPER"), ("--session", "s1"), ("--unsupported",)):
        assert run("records", "-m", three, *filters, "--limit", "5").out.startswith(line)
    for filters in (("--type", "fact"), ("--entity", "Oleg"), ("--session", "s9")):
        assert run("records", "-m", three, *filters).out == ""
    (document,) = json.loads(run("records", "-m", three, "--json").out)
    assert (document["turn_ids"], document["t_ref"]) == (["s0:0", "s1:0", "s2:0"], "2021-05")
    assert run("records", "-m", three, "--type", "rumour").code == 2
    listed = json.loads(run("nodes", "-m", three, "--kind", "entity", "--json").out)
    assert [(node["kind"], node["key"], node["records"]) for node in listed] == [("entity", "pepper", 1)]
    assert "pepper" in run("nodes", "-m", three).out


def test_segments(run: Callable[..., Output], served: LoopbackServer, three: Path) -> None:
    """Segments are shown with what closed them and how far they are."""
    run("consolidate", "-m", three, "--flush")
    shown = run("segments", "-m", three, "--session", "s1")
    assert ("s1" in shown.out, "s0" in shown.out, "session_flush" in shown.out) == (True, False, True)
    found = json.loads(run("segments", "-m", three, "--state", "encoded", "--json").out)
    assert [one["turn_ids"] for one in found] == [["s0:0"], ["s1:0"], ["s2:0"]]


def test_reconsolidate(run: Callable[..., Output], served: LoopbackServer, three: Path) -> None:
    """Encoding again takes another model's records once all are there."""
    run("consolidate", "-m", three, "--flush")
    again = ("reconsolidate", "-m", three, "--model", "newer")
    assert "1 segment left" in run(*again, "--max-segments", "2").err
    done = run(*again, "--json")
    assert (done.code, json.loads(done.out)["encoded"]) == (0, 1)
    shown = json.loads(run("status", "-m", three, "--json").out)
    assert [(usage["model"], usage["calls"]) for usage in shown["usage"]] == [("newer", 3), ("served", 3)]


def test_status(run: Callable[..., Output], tmp_path: Path) -> None:
    """The status has turns and segments by state, whose sum is the number of turns, and the cost."""
    path = tmp_path / "m.jay"
    with open_eager(path, Scribe()) as memory:
        fill(memory)
        memory.consolidate()
    shown = json.loads(run("status", "-m", path, "--json").out)
    assert sum(shown["turns_by_state"].values()) == shown["turns"] == 11
    assert shown["turns_by_state"] == {"open": 3, "pending": 0, "encoded": 8, "failed": 0}
    assert (shown["records"], shown["background"], shown["failing"]) == (8, None, [])
    text = run("status", "-m", path).out
    assert "3 open, 0 pending, 8 encoded, 0 failed" in text
    assert "8 calls, 800 tokens in, 80 out" in text


def start_command(path: Path, server: LoopbackServer, *options: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "SCRUBJAY_MODEL": "served", "SCRUBJAY_BASE_URL": server.url}
    return subprocess.Popen(
        [sys.executable, "-c", "from scrubjay.cli import main; main()", *options, "--memory", str(path)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("workers", ["1", "3"])
def test_interrupted(tmp_path: Path, workers: str) -> None:
    """Ctrl-C ends it at once with code 130 and says what is left; nothing is lost, held, or counted as failed."""
    path = tmp_path / "m.jay"
    with open_memory(path) as memory:
        for session in range(9):
            say(memory, FACTS[0], session_id=f"s{session}")
    with serve(*[GOOD] * 2, *[Answer(seconds=60)] * 7) as server:
        command = start_command(path, server, "consolidate", "--flush", "--workers", workers)
        give_up = time.monotonic() + PATIENCE
        while len(server.asked) < 2 + int(workers):
            assert time.monotonic() < give_up
            time.sleep(0.01)
        started = time.monotonic()
        command.send_signal(signal.SIGINT)
        _, err = command.communicate(timeout=PATIENCE)
        assert time.monotonic() - started < 30
        assert command.returncode == INTERRUPTED
        assert "Segments: 0 open, 7 pending, 2 encoded, 0 failed; 114 tokens spent" in err
        assert "Traceback" not in err
    with open_memory(path) as memory:
        progress = memory.segments.progress()
        assert (progress.leased, states(memory)) == (0, (0, 7, 2, 0))
        assert memory.status().failing == ()


def test_two_commands_at_once(tmp_path: Path) -> None:
    """Two commands share the work: every segment is encoded once, and paid for once."""
    path = tmp_path / "m.jay"
    with open_memory(path) as memory:
        for session in range(12):
            say(memory, FACTS[0], session_id=f"s{session}")
    with serve(*[Answer(content=GOOD.content, seconds=0.05)] * 30) as server:
        commands = [start_command(path, server, "consolidate", "--flush", "--workers", "2") for _ in range(2)]
        for command in commands:
            _, err = command.communicate(timeout=PATIENCE)
            assert (command.returncode, "Traceback" in err) == (0, False)
        assert len(server.asked) == 12
    with open_memory(path) as memory:
        assert states(memory) == (0, 0, 12, 0)
        assert sum(usage.calls for usage in memory.segments.usage()) == 12


def test_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    run: Callable[..., Output],
    served: LoopbackServer,
    three: Path,
) -> None:
    """On a terminal the bar shows how many segments are done and what they have cost so far."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    done = run("consolidate", "-m", three, "--flush")
    assert done.code == 0
    assert "3/3" in done.err
    assert "171 tokens" in done.err
    assert not capsys.readouterr().out
