"""The benchmark's commands: what they print, write and refuse."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from scrubjay.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Output:
    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    monkeypatch.setenv("COLUMNS", "200")

    def run_command(*arguments: str | Path) -> Output:
        monkeypatch.setattr(sys, "argv", ["scrubjay", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:  # noqa: PT012 -- some commands end without one
            main()
            sys.exit(0)
        printed = capsys.readouterr()
        code = ended.value.code
        return Output(code=code if isinstance(code, int) else 0, out=printed.out, err=printed.err)

    return run_command


def test_ablation(run: Callable[..., Output], tmp_path: Path) -> None:
    """Without a recording the sample's construction is reckoned; the figures are written as JSON too."""
    out = tmp_path / "construction.json"
    printed = run("bench", "ablation", "construction", "--out", out).out
    assert "eager-turn" in printed
    assert "reckoned" in printed
    document = json.loads(out.read_text("utf-8"))
    assert document["ablation"] == "construction"
    assert [row["variant"] for row in document["variants"]][:2] == ["default", "lychee-v2"]
    assert json.loads(run("bench", "ablation", "construction", "--json").out) == document


def test_sweep(run: Callable[..., Output]) -> None:
    """A threshold is swept over a range; something else, or no range, is refused."""
    document = json.loads(run("bench", "sweep", "threshold", "0.3..0.7", "--step", "0.2", "--json").out)
    assert [row["variant"] for row in document["variants"]] == ["0.30", "0.50", "0.70"]
    for arguments in (("tokens", "0.3..0.7"), ("threshold", "many")):
        refused = run("bench", "sweep", *arguments)
        assert refused.code == 2
        assert "expected" in refused.err


def test_beside(run: Callable[..., Output]) -> None:
    """Another memory stands in the same tables, with its version and how fast it wrote."""
    printed = run("bench", "retrieval", "--dataset", "sample", "--no-baselines", "--beside", "naive-rag").out
    assert printed.count("naive-rag") > 5
    assert "turns a second" in printed
    assert run("bench", "retrieval", "--dataset", "sample", "--beside", "nobody").code == 2
