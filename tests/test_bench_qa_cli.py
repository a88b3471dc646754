"""`scrubjay bench qa` and `bench report`, run as a user runs them; and one real model that plays every part."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from commands import Output, command_runner
from models import serve_tiny_model
from qa_examples import write_corrections, write_locomo
from qa_server import serve_play
from small_memories import PATIENCE, wait_until

from scrubjay.bench.qa.running import QaOptions, prepare_run, start_run
from scrubjay.bench.qa.selection import QuestionChoice
from scrubjay.cli.consolidating import INTERRUPTED
from scrubjay.settings import ChatSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from qa_server import PlayingServer


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    return command_runner(monkeypatch, capsys, "bench", columns=250)


@pytest.fixture
def served() -> Iterator[PlayingServer]:
    with serve_play() as server:
        yield server


def options_of(server: PlayingServer, folder: Path, *more: str | Path) -> tuple[str | Path, ...]:
    data = (
        "--dataset",
        "locomo",
        "--data",
        write_locomo(folder),
        "--embedder",
        "hash:64",
        "--runs",
        folder / "runs",
    )
    judge = ("--judge", "judging", "--judge-base-url", server.url)
    return ("qa", *data, "--model", "played", "--base-url", server.url, *judge, *more)


def test_run_and_report(run: Callable[..., Output], served: PlayingServer, tmp_path: Path) -> None:
    """Two systems are run, say where, and are set beside each other; the tables are written too."""
    ours = run(*options_of(served, tmp_path, "--corrections", write_corrections(tmp_path)))
    theirs = run(*options_of(served, tmp_path, "--system", "bm25", "--workers", "2"))
    assert (ours.code, theirs.code) == (0, 0)
    assert ours.err.startswith(f"Run: {tmp_path / 'runs' / 'scrubjay-locomo-'}")
    assert "55.6 [26.7, 81.1]" in ours.out
    folders = sorted((tmp_path / "runs").iterdir())
    beside = run("report", *folders, "--write", tmp_path / "table.md")
    assert beside.code == 0
    table = (tmp_path / "table.md").read_text("utf-8")
    assert all(
        name in beside.out and name in table
        for name in ("scrubjay", "bm25", "temporal", "query K a question")
    )
    (one, two) = json.loads(run("report", *folders, "--json").out)
    assert (one["run"]["system"], two["run"]["system"]) == ("bm25", "scrubjay")
    assert two["corrections"] == {"HALLUCINATION": 1, "WRONG_CITATION": 1}
    assert run("report", tmp_path).code == 1


def test_run_as_json(run: Callable[..., Output], served: PlayingServer, tmp_path: Path) -> None:
    """The report as JSON is all that is on standard output."""
    document = json.loads(run(*options_of(served, tmp_path, "--json")).out)
    assert document["overall"]["questions"] == 9
    assert document["outcomes"] == {"answered": 8, "abstained": 2}


def test_dry_run(run: Callable[..., Output], tmp_path: Path) -> None:
    """A dry run needs no key and no server, writes nothing, and says calls, tokens and money."""
    data = ("qa", "--dataset", "locomo", "--data", write_locomo(tmp_path), "--runs", tmp_path / "runs")
    models = ("--model", "openai:gpt-4.1-mini", "--judge", "openai:gpt-4o-mini", "--votes", "3")
    done = run(*data, *models, "--dry-run")
    assert (done.code, "10 questions about 2 conversations" in done.out, "In all: $0." in done.out) == (
        0,
        True,
        True,
    )
    found = json.loads(run(*data, *models, "--dry-run", "--json").out)
    assert [(step["step"], step["calls"]) for step in found["steps"]] == [
        ("build", 5),
        ("answer", 20),
        ("judge", 30),
    ]
    assert 0 < found["dollars"] < 0.1
    unknown = run(*data, "--model", "of-my-own", "--dry-run")
    assert "In all: unknown" in unknown.out
    assert not (tmp_path / "runs").exists()


def test_budget(run: Callable[..., Output], served: PlayingServer, tmp_path: Path) -> None:
    """A run that stops early exits with 1, says why and what is left, and shows the score so far."""
    done = run(*options_of(served, tmp_path, "--budget-tokens", "3000"))
    assert done.code == 1
    assert "Stopped: the budget of 3,000 tokens is spent; " in done.err
    assert "0.0 [0.0, 29.9]" in done.out
    assert run(*options_of(served, tmp_path, "--budget-usd", "1")).code == 2


def test_errors(run: Callable[..., Output], served: PlayingServer, tmp_path: Path) -> None:
    """What can't be run is one line on standard error: a missing file, no model, other settings in the folder."""
    out = ("--out", tmp_path / "run", "--limit", "1")
    assert run(*options_of(served, tmp_path, *out)).code == 0
    other = run(*options_of(served, tmp_path, *out, "--preset", "cod"))
    assert (other.code, "holds a run with other settings" in other.err, "strategy was" in other.err) == (
        2,
        True,
        True,
    )
    none = run("qa", "--dataset", "locomo", "--data", tmp_path / "none.json", "--model", "played")
    assert (none.code, "nothing there" in none.err) == (1, True)
    assert "SCRUBJAY_MODEL" in run("qa", "--dataset", "sample").err


def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C ends a run at once with code 130, and says that it can go on; so it does."""
    with serve_play() as server:
        server.hold_after = 4
        arguments = list(map(str, options_of(server, tmp_path, "--workers", "2")))
        command = [sys.executable, "-c", "from scrubjay.cli import main; main()", "bench", *arguments]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        wait_until(lambda: len(server.asked) > 4)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, "Interrupted: nothing is lost" in err, "Traceback" in err) == (
            INTERRUPTED,
            True,
            False,
        )
        assert len(server.asked) <= 6  # each worker's, held up
        server.hold_after = None
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE, env=os.environ)


def test_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, run: Callable[..., Output], served: PlayingServer, tmp_path: Path
) -> None:
    """On a terminal a bar shows each step."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    done = run(*options_of(served, tmp_path))
    assert "judge" in done.err
    assert "10/10" in done.err


def test_real_model_plays_every_part(tmp_path: Path) -> None:
    """A real model, served over HTTP, encodes, plans, answers and judges; whatever it says, every question is counted."""
    with serve_tiny_model(context_tokens=4096) as url:
        chat = ChatSettings(model="smollm2", base_url=url, timeout_seconds=PATIENCE, re_asks=0)
        prepared = prepare_run(
            QaOptions(
                dataset="locomo",
                data=write_locomo(tmp_path),
                system="scrubjay",
                model=chat,
                judge=chat,
                choice=QuestionChoice(sample=1, seed=5),
                runs=tmp_path / "runs",
            )
        )
        settings = prepared.setup.settings
        brief = replace(
            settings,
            encoder=replace(settings.encoder, max_output_tokens=48),
            plan=replace(settings.plan, max_output_tokens=48),
            answer=replace(settings.answer, max_output_tokens=24),
        )
        finished = start_run(
            replace(prepared, setup=replace(prepared.setup, settings=brief, max_tokens=200)),
            advance=lambda _step, _done, _total: None,
        )
    score = finished.report.score
    assert finished.left == ""
    assert sum(score.outcomes.values()) == sum(score.rulings.values()) == 1
    assert score.outcomes["unanswered"] == 0
    assert score.cost.query_k > 0.5
    assert score.counts["segments"] > 0
