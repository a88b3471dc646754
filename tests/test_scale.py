"""The benchmark of many users' memories runs, goes on where it was broken off, and weighs what it filled."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from small_memories import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

SCALE = Path(__file__).parents[1] / "benchmarks" / "scale.py"
UNFINISHED = 3


def run_scale(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCALE), *options], capture_output=True, text=True, check=False, timeout=PATIENCE
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder outside of pytest's, where PostgreSQL gets to as somebody else."""
    with tempfile.TemporaryDirectory(prefix="scrubjay-scale-") as name:
        Path(name).chmod(0o755)
        yield Path(name) / "kept"


@pytest.mark.parametrize("store", ["files", "postgres"])
def test_a_small_home(store: str, folder: Path) -> None:
    """A fill that was broken off goes on: all memories are there in the end, with the turns they were to get."""
    options = ["--turns", "300", "--memories", "12", "--store", store, "--keep", str(folder)]
    broken_off = run_scale(*options, "--minutes", "0")
    assert (broken_off.returncode, broken_off.stdout) == (UNFINISHED, ""), broken_off.stderr
    assert json.loads((folder / "progress.json").read_text())["memories"] == 1
    ran = run_scale(*options)
    assert ran.returncode == 0, ran.stderr
    figures = json.loads((folder / "figures.json").read_text())
    assert json.loads((folder / "progress.json").read_text())["turns"] == 300
    assert figures["users listed"] == 12
    assert figures["disk, bytes a turn"] > 1_000
    touched = {figures[name] for name in figures if name.endswith(", partitions")}
    assert touched == ({1} if store == "postgres" else set())
    assert run_scale("--show", str(folder / "figures.json")).stdout.startswith("| | kept |")
