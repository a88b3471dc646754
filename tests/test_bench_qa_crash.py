"""A run of the answering benchmark killed at any moment and started again: the same report, and no call paid twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from qa_examples import write_corrections, write_locomo
from qa_server import PlayingServer, serve_play
from small_memories import PATIENCE, wait_until

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = int(os.environ.get("SCRUBJAY_QA_KILL_ROUNDS", "4"))
MOST_STARTS = 60


def start_qa(server: PlayingServer, folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start the command in a process of its own, with the server as model and judge."""
    command = (
        "bench",
        "qa",
        "--dataset",
        "locomo",
        "--data",
        str(write_locomo(folder)),
        "--system",
        "scrubjay",
    )
    models = (
        "--model",
        "played",
        "--base-url",
        server.url,
        "--judge",
        "judging",
        "--judge-base-url",
        server.url,
    )
    more = (
        "--corrections",
        str(write_corrections(folder)),
        "--embedder",
        "hash:64",
        "--out",
        str(folder / "run"),
    )
    return subprocess.Popen(
        [sys.executable, "-c", "from scrubjay.cli import main; main()", *command, *models, *more, *options],
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def run_whole(folder: Path) -> PlayingServer:
    """Run from beginning to end, undisturbed."""
    folder.mkdir()
    with serve_play() as server:
        process = start_qa(server, folder)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
    return server


def reports(folder: Path) -> tuple[bytes, bytes]:
    run = folder / "run"
    return (run / "report.json").read_bytes(), (run / "scores.jsonl").read_bytes()


def test_killed_at_any_call(tmp_path: Path) -> None:
    """Killed while any call is out, and started again: every call is answered exactly as often as without a kill."""
    whole = run_whole(tmp_path / "whole")
    folder = tmp_path / "killed"
    folder.mkdir()
    chance, kills = random.Random(2), 0
    with serve_play() as server:
        for _ in range(MOST_STARTS):
            server.kill_at = len(server.asked) + chance.randrange(3, 16)
            process = start_qa(server, folder)
            server.victim = process.pid
            _, err = process.communicate(timeout=PATIENCE)
            if process.returncode == 0:
                break
            assert server.victim is None, err
            kills += 1
        assert kills > 1
        assert server.answered == whole.answered
        assert len(server.asked) == sum(whole.answered.values()) + kills
    assert reports(folder) == reports(tmp_path / "whole")


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Killed by the clock with three workers: the report is the same, and only what was under way is asked again."""
    whole = run_whole(tmp_path / "whole")
    folder = tmp_path / "killed"
    folder.mkdir()
    chance, kills, workers = random.Random(3), 0, 3
    with serve_play() as server:
        server.seconds = 0.05
        for number in range(ROUNDS):
            asked = len(server.asked)
            if number == 0:
                server.hold_after = sum(whole.answered.values()) // 2  # it can't have ended by then
            process = start_qa(server, folder, "--workers", str(workers))
            wait_until(lambda: len(server.asked) > asked or process.poll() is not None)  # noqa: B023 -- called here alone
            time.sleep(chance.uniform(0, 0.3))
            kills += process.poll() is None
            process.kill()
            process.communicate(timeout=PATIENCE)
            server.hold_after = None
        process = start_qa(server, folder, "--workers", str(workers))
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
    assert kills > 0
    assert set(server.answered) == set(whole.answered)
    assert len(server.asked) - sum(whole.answered.values()) <= kills * workers
    assert reports(folder) == reports(tmp_path / "whole")
