"""Diagrams of how far probabilities can be believed, and the scripts that draw them."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from scrubjay.bench.diagrams import Risks, draw_reliability, draw_risks
from scrubjay.bench.given import load_given
from scrubjay.bench.plots import save_picture
from scrubjay.bench.reliability import ReliabilityBin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).parents[1]
PNG = b"\x89PNG"
BINS = (
    ReliabilityBin(low=0.001, high=0.01, turns=5000, expected=0.004, observed=0.004),
    ReliabilityBin(low=0.1, high=0.2, turns=40, expected=0.15, observed=0.25),
    ReliabilityBin(low=0.8, high=0.9, turns=20, expected=0.85, observed=0.9),
    ReliabilityBin(low=0.9, high=1.0, turns=4, expected=0.95, observed=1.0),
)
RISKS = Risks(
    dataset="sample",
    answerable=[True, False] * 20,
    scores={"confidence": [0.9, 0.2] * 20, "none": [0.0] * 40},
    chosen="confidence",
    threshold=0.5,
)


def points(panel: Axes, place: int) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in np.asarray(panel.lines[place].get_xydata()).round(6)]


def test_a_turn_is_drawn_where_it_was_expected_and_found() -> None:
    """Bins stand at their mean probability and share of evidence; unlikely turns and a handful of them are left out."""
    shares, counts = draw_reliability({"sample": BINS}).axes
    assert points(shares, 0) == [(0, 0), (100, 100)]
    assert points(shares, 1) == [(15, 25), (85, 90)]
    assert points(counts, 0) == [(15, 40), (85, 20)]


def test_risk_is_of_the_surest() -> None:
    """A score that parts all questions has no risk until half are answered; the threshold's point lies on its curve."""
    (panel,) = draw_risks([RISKS]).axes
    confidence, none, threshold = (points(panel, place) for place in range(3))
    assert {risk for coverage, risk in confidence if coverage <= 50} == {0}
    assert confidence[-1] == (100, 50)
    assert {risk for _, risk in none} == {50}
    assert threshold == [(50, 0)]
    assert min(coverage for coverage, _ in confidence) == 5


def test_the_same_figures_give_the_same_bytes(tmp_path: Path) -> None:
    """A diagram is a PNG that doesn't depend on when it was drawn."""
    for name in ("a.png", "b.png"):
        assert save_picture(partial(draw_risks, [RISKS, RISKS]), tmp_path / "new" / name)
    first, second = ((tmp_path / "new" / name).read_bytes() for name in ("a.png", "b.png"))
    assert first == second
    assert first.startswith(PNG)


def test_data_sets_are_given_by_name_and_path(capsys: pytest.CaptureFixture[str]) -> None:
    """Held-out conversations are loaded apart; what isn't there is skipped and told; an unknown name ends the script."""
    sample, held_out = load_given(["sample", "locomo=nowhere.json", f"held-out={ROOT / 'datasets'}"])
    assert capsys.readouterr().err == "skipped: nowhere.json isn't there\n"
    assert (sample.name, held_out.name) == ("sample", "held-out")
    assert "zh-assistant" in {each.sample for each in held_out.samples}
    with pytest.raises(SystemExit, match="labelled"):
        list(load_given(["unheard"]))


@pytest.mark.parametrize(("script", "says"), [("calibration", "evidence expected"), ("abstention", "AUROC")])
def test_scripts_print_and_draw(script: str, says: str, tmp_path: Path) -> None:
    """Both scripts print their table of the sample and draw it."""
    picture = tmp_path / "picture.png"
    command = [sys.executable, f"benchmarks/{script}.py", "sample", "--plot", str(picture)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True, timeout=120
    )
    assert "sample: " in done.stdout
    assert says in done.stdout
    assert picture.read_bytes().startswith(PNG)
