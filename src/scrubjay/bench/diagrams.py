"""Diagrams of how far probabilities can be believed: reliability of a turn's, risk against coverage of a question's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.abstention import measure_risks
from scrubjay.bench.plots import STYLES, TITLES, bounds, panels, percent
from scrubjay.bench.qa.scoring import bound_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scrubjay.bench.reliability import ReliabilityBin

LIKELY = 0.01  # probability from which turns are drawn; nearly all others are none, and lie in the corner
FEWEST = 5  # turns of a bin that is drawn
STEADY = 0.05  # coverage from which risk is drawn; below it one question more or less makes it jump
PLAIN = "#7F7F7F"
ROOM = (-2, 102)  # per cent


@dataclass(frozen=True, slots=True, kw_only=True)
class Risks:
    """A data set's questions: which can be answered, what each score gives them, and who is below the threshold."""

    dataset: str
    answerable: Sequence[bool]
    scores: Mapping[str, Sequence[float]]
    chosen: str  # the score with a threshold
    threshold: float


def draw_reliability(curves: Mapping[str, Sequence[ReliabilityBin]]) -> Figure:
    """Draw how many turns are evidence against their probability, a curve a data set; below it, how many turns there are."""
    figure, axes = panels(1, height=5.4, width=5.6, rows=(3, 1))
    shares, counts = axes
    shares.plot((0, 100), (0, 100), color=PLAIN, lw=1, ls="--", label="as often as said")
    for style, (name, bins) in zip(STYLES.values(), curves.items(), strict=False):
        drawn = [each for each in bins if each.low >= LIKELY and each.turns >= FEWEST]
        colour, mark, _ = style
        said = percent(each.expected for each in drawn)
        spans = [bound_share(each.observed, each.turns) for each in drawn]
        shares.errorbar(said, percent(s.mean for s in spans), yerr=bounds(spans), color=colour, marker=mark, markersize=5,
                        capsize=2, elinewidth=1, label=TITLES.get(name, name))  # fmt: skip
        counts.plot(said, [each.turns for each in drawn], color=colour, marker=mark, markersize=5)
    counts.set_yscale("log")
    counts.set_ylabel("turns")
    counts.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    counts.set_xlabel("probability of being evidence, %")
    shares.set_ylabel("that are evidence, %")
    shares.set_ylim(*ROOM)
    for panel in axes:
        panel.set_xlim(*ROOM)
        panel.grid(alpha=0.3)
    shares.legend(frameon=False, loc="upper left")
    return figure


def draw_risks(drawn: Sequence[Risks]) -> Figure:
    """Draw the share of questions without an answer among those covered, the surest first, a panel a data set."""
    figure, axes = panels(1, height=0.6 + 2.9 * len(drawn), width=5.6, rows=(1,) * len(drawn))
    for panel, one in zip(axes, drawn, strict=True):
        draw_risk(panel, one)
        panel.set_ylabel("that have no answer, %")
    axes[-1].set_xlabel("questions answered, the surest first, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def draw_risk(panel: Axes, one: Risks) -> None:
    truth = np.array(one.answerable, np.bool_)
    coverage = np.arange(1, len(truth) + 1) / len(truth)
    steady = coverage >= STEADY
    styles = dict(zip(one.scores, (style[0] for style in STYLES.values()), strict=False))
    lines = {one.chosen: "-", "none": ":", "perfect": ":"}
    for name, scores in one.scores.items():
        risks = measure_risks(truth, np.array(scores, np.float64))
        panel.plot(percent(coverage[steady]), percent(risks[steady]), color=styles[name], ls=lines.get(name, "--"),
                   lw=1.6, label=name)  # fmt: skip
    kept = np.array(one.scores[one.chosen], np.float64) >= one.threshold
    panel.plot([100 * float(kept.mean())], [100 * float(1 - truth[kept].mean())], color=styles[one.chosen], marker="o",
               ls="", label=f"answered from {one.threshold} on")  # fmt: skip
    panel.set_xlim(*ROOM)
    panel.set_ylim(bottom=0)
    panel.set_title(
        f"{TITLES.get(one.dataset, one.dataset)}, {100 * float(1 - truth.mean()):.0f} % without an answer"
    )
    panel.grid(alpha=0.3)
