"""Pictures of figures: drawn the same each time, in colours that everyone can tell apart, each system with a mark of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from scrubjay.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scrubjay.bench.figures import AblationFigures, Figures, RetrievalFigures, RunFigures, Span
    from scrubjay.bench.measures import Interval

# Okabe and Ito's colours, which people with any kind of colour vision tell apart
STYLES: Mapping[str, tuple[str, str, str]] = {
    "chain": ("#0072B2", "o", "-"),
    "bm25": ("#E69F00", "s", "--"),
    "vectors": ("#009E73", "^", "--"),
    "rrf": ("#CC79A7", "D", "--"),
    "naive-rag": ("#56B4E9", "v", ":"),
    "mem0": ("#D55E00", "P", ":"),
    "langgraph-store": ("#000000", "X", ":"),
}
SPARE = (("#000000", "h", "-"), ("#7F7F7F", "*", "-"), ("#F0E442", "p", "-"))
NAMES = {"chain": "ScrubJay"}
TITLES = {"locomo": "LoCoMo dev", "longmemeval": "LongMemEval dev", "memdaily": "MemDaily dev",
          "realmem": "RealMem dev", "labelled": "our own conversations", "sample": "the sample",
          "held-out": "our held-out conversations"}  # fmt: skip
DRAWN = tuple(name for name in STYLES if name != "langgraph-store")  # which finds just what mem0 does
BUDGETS = (500, 1000, 2000, 4000)
BY_CATEGORY = "R@1000tok"
COMPARED = ("chain", "rrf", "mem0", "naive-rag")
RESOLUTION = 110
ASIDE = 0.006  # of the threshold
QUALITY = ("accuracy", "f1")  # of a run's answers, the first that it has
THOUSAND = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A file's name and what draws it; None where the figures don't have it."""

    name: str
    draw: Callable[[Figures], Figure | None]


def draw_pictures(figures: Figures, to: Path) -> list[Path]:
    """Draw every picture that the figures have, as PNG; give the files."""
    paths = [(to / f"{picture.name}.png", picture.draw) for picture in PICTURES]
    return [path for path, draw in paths if save_picture(partial(draw, figures), path)]


def save_picture(draw: Callable[[], Figure | None], path: Path) -> bool:
    """Draw into a PNG file, and tell whether there was anything to draw."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtraError("matplotlib", extra="bench") from error
    mpl.use("Agg")
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        drawn = draw()
        if drawn is None:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        # no program's name or version inside, so that the same figures give the same bytes
        drawn.savefig(path, dpi=RESOLUTION, format="png", metadata={"Software": None})
    return True


def panels(
    count: int, *, height: float = 3.6, width: float = 3.9, rows: tuple[float, ...] = (1,)
) -> tuple[Figure, list[Axes]]:
    """Give a figure with so many panels in each row, and rows of these heights to each other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * count + 0.4, height), layout="constrained")
    axes = figure.subplots(len(rows), count, squeeze=False, height_ratios=rows)
    return figure, list(axes.flat)


def style_of(system: str, place: int = 0) -> tuple[str, str, str]:
    return STYLES.get(system) or SPARE[place % len(SPARE)]


def percent(values: Iterable[float]) -> list[float]:
    return [100 * value for value in values]


def bounds(spans: Sequence[Span | Interval]) -> list[list[float]]:
    """Give the distances below and above the means, as error bars are given."""
    return [
        percent(span.mean - span.low for span in spans),
        percent(span.high - span.mean for span in spans),
    ]


def draw_by_tokens(figures: Figures) -> Figure | None:
    """Draw evidence recall against context tokens, a panel a data set."""
    shown = [one for one in figures.retrieval if any("R@1000tok" in s.overall for s in one.systems)]
    if not shown:
        return None
    figure, axes = panels(len(shown))
    for panel, one in zip(axes, shown, strict=True):
        draw_curves(panel, one)
    for panel in axes:
        panel.set_ylim(min(axis.get_ylim()[0] for axis in axes), 101)
    axes[0].set_ylabel("gold evidence in the context, %")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=7, frameon=False)
    return figure


def draw_curves(panel: Axes, one: RetrievalFigures) -> None:
    for system in (system for system in one.systems if system.system in DRAWN):
        colour, mark, line = style_of(system.system)
        spans = [system.overall[f"R@{budget}tok"] for budget in BUDGETS]
        means = percent(span.mean for span in spans)
        panel.plot(BUDGETS, means, color=colour, marker=mark, linestyle=line, markersize=5,
                   label=NAMES.get(system.system, system.system))  # fmt: skip
        panel.fill_between(
            BUDGETS,
            percent(s.low for s in spans),
            percent(s.high for s in spans),
            color=colour,
            alpha=0.10,
            lw=0,
        )
    panel.set_xscale("log", base=2)
    panel.set_xticks(BUDGETS, [f"{budget:,}" for budget in BUDGETS])
    panel.set_xlabel("context, tokens")
    panel.set_title(TITLES.get(one.dataset, one.dataset))
    panel.grid(axis="y", alpha=0.3)


def draw_by_category(figures: Figures) -> Figure | None:
    """Draw evidence within 1,000 tokens by category, with intervals."""
    shown = [one for one in figures.retrieval if categories_of(one)]
    if not shown:
        return None
    most = max(len(categories_of(one)) for one in shown)
    figure, axes = panels(len(shown), height=1.6 + 0.55 * most)
    for panel, one in zip(axes, shown, strict=True):
        draw_categories(panel, one)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def categories_of(one: RetrievalFigures) -> list[str]:
    return [name for name, values in one.systems[0].categories.items() if BY_CATEGORY in values]


def draw_categories(panel: Axes, one: RetrievalFigures) -> None:
    names = categories_of(one)
    systems = [system for system in one.systems if system.system in COMPARED]
    for place, system in enumerate(systems):
        colour, mark, _ = style_of(system.system)
        spans = [system.categories[name][BY_CATEGORY] for name in names]
        heights = [row + (place - (len(systems) - 1) / 2) * 0.18 for row in range(len(names))]
        panel.errorbar(percent(s.mean for s in spans), heights, xerr=bounds(spans), color=colour, fmt=mark,
                       markersize=5, elinewidth=1, capsize=2, label=NAMES.get(system.system, system.system))  # fmt: skip
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_xlim(0, 102)
    panel.set_xlabel("gold evidence within 1,000 tokens, %")
    panel.set_title(TITLES.get(one.dataset, one.dataset))
    panel.grid(axis="x", alpha=0.3)


def draw_cost(figures: Figures) -> Figure | None:
    """Draw construction tokens against the evidence found, a panel an ablation."""
    kinds = ("construction", "representation")
    shown = [one for one in figures.ablations if one.ablation in kinds and one.replayed]
    if not shown:
        return None
    figure, axes = panels(len(shown), width=4.6)
    for panel, one in zip(axes, shown, strict=True):
        measure = f"R@{one.max_tokens}tok"
        for place, variant in enumerate(variant for variant in one.variants if variant.shown):
            span = (variant.shown or {})[measure]
            colour, mark, _ = list(STYLES.values())[place % len(STYLES)]
            panel.errorbar([variant.construction_tokens / THOUSAND], percent([span.mean]), yerr=bounds([span]),
                           color=colour, fmt=mark, capsize=2, elinewidth=1, label=variant.variant)  # fmt: skip
        panel.set_title(f"{TITLES.get(one.dataset, one.dataset)}: {one.ablation}")
        panel.set_xlabel("construction, thousand tokens a conversation")
        panel.set_ylabel(f"evidence within {one.max_tokens:,} tokens, %")
        panel.grid(alpha=0.3)
        panel.legend(frameon=False, fontsize=8, loc="best")
    return figure


def draw_threshold(figures: Figures) -> Figure | None:
    """Draw the boundary threshold against tokens and evidence (paper, Figure 5)."""
    shown = [one for one in figures.ablations if one.ablation == "threshold"]
    if not shown:
        return None
    figure, (cost, found) = panels(2)
    for place, one in enumerate(shown):
        draw_sweep(cost, found, one, style=list(STYLES.values())[place % len(STYLES)], aside=place * ASIDE)
    for panel in (cost, found):
        panel.set_xlabel("boundary threshold, probability")
        panel.grid(alpha=0.3)
        panel.legend(frameon=False, loc="best")
    cost.set_ylim(bottom=0)
    cost.set_ylabel("construction, thousand tokens a conversation")
    found.set_ylabel(f"evidence within {shown[0].max_tokens:,} tokens, %")
    return figure


def draw_sweep(
    cost: Axes, found: Axes, one: AblationFigures, *, style: tuple[str, str, str], aside: float
) -> None:
    """Draw a sweep, a little aside so that intervals don't cover each other."""
    colour, mark, line = style
    name = one.preset or TITLES.get(one.dataset, one.dataset)
    thresholds = [float(variant.variant) + aside for variant in one.variants]
    tokens = [variant.construction_tokens / THOUSAND for variant in one.variants]
    cost.plot(thresholds, tokens, color=colour, marker=mark, linestyle=line, label=name)
    spans = [variant.shown[f"R@{one.max_tokens}tok"] for variant in one.variants if variant.shown]
    if spans:
        found.errorbar(thresholds, percent(s.mean for s in spans), yerr=bounds(spans), color=colour, fmt=mark,
                       linestyle=line, capsize=2, elinewidth=1, label=name)  # fmt: skip


def draw_latency(figures: Figures) -> Figure | None:
    """Draw milliseconds to fill a context against turns in the memory, both logarithmic."""
    points = [size for one in figures.sizes for size in one.sizes]
    if not points:
        return None
    figure, (panel,) = panels(1, width=5.2)
    for place, system in enumerate(dict.fromkeys(point.system for point in points)):
        mine = sorted((point for point in points if point.system == system), key=lambda point: point.turns)
        colour, mark, line = style_of(system, place)
        turns = [point.turns for point in mine]
        panel.plot(turns, [point.latency_ms["p50"] for point in mine], color=colour, marker=mark, linestyle=line,
                   label=NAMES.get(system, system))  # fmt: skip
        panel.fill_between(turns, [point.latency_ms["p50"] for point in mine],
                           [point.latency_ms["p95"] for point in mine], color=colour, alpha=0.12, lw=0)  # fmt: skip
    panel.set_xscale("log")
    panel.set_yscale("log")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.set_xlabel("turns in the memory")
    panel.set_ylabel("a context of 1,000 tokens, ms: median to 95th")
    panel.grid(which="both", alpha=0.2)
    panel.legend(frameon=False)
    return figure


def draw_answers(figures: Figures) -> Figure | None:
    """Draw how many answers are right against tokens of construction and of a question (paper, Figure 1)."""
    if not figures.runs:
        return None
    measure = next(name for name in QUALITY if all(name in run.overall.values for run in figures.runs))
    figure, axes = panels(2, width=4.2)
    costs = (
        ("query, thousand tokens a question", lambda run: run.cost.query_k),
        ("construction, thousand tokens a conversation", lambda run: run.cost.construction_k),
    )
    for panel, (label, cost) in zip(axes, costs, strict=True):
        draw_runs(panel, figures.runs, cost, measure)
        panel.set_xlabel(label)
    axes[0].set_ylabel(f"{measure}, %")
    axes[0].legend(frameon=False)
    return figure


def draw_runs(
    panel: Axes, runs: Sequence[RunFigures], cost: Callable[[RunFigures], float], measure: str
) -> None:
    for place, run in enumerate(runs):
        span = run.overall.values[measure]
        colour, mark, _ = list(STYLES.values())[place % len(STYLES)]
        panel.errorbar([cost(run)], percent([span.mean]), yerr=bounds([span]), color=colour, fmt=mark, capsize=2,
                       label=f"{run.run.system}, {run.run.dataset}")  # fmt: skip
    panel.set_ylim(0, 102)
    panel.grid(alpha=0.3)


def draw_answer_categories(figures: Figures) -> Figure | None:
    """Draw how many answers are right by category, with intervals."""
    if not figures.runs:
        return None
    measure = next(name for name in QUALITY if all(name in run.overall.values for run in figures.runs))
    names = list(dict.fromkeys(name for run in figures.runs for name in run.categories))
    figure, (panel,) = panels(1, height=1.6 + 0.5 * len(names), width=5.6)
    for place, run in enumerate(figures.runs):
        rows = [
            (row, run.categories[name].values[measure])
            for row, name in enumerate(names)
            if name in run.categories and measure in run.categories[name].values
        ]
        colour, mark, _ = list(STYLES.values())[place % len(STYLES)]
        heights = [row + (place - (len(figures.runs) - 1) / 2) * 0.15 for row, _ in rows]
        spans = [span for _, span in rows]
        panel.errorbar(percent(s.mean for s in spans), heights, xerr=bounds(spans), color=colour, fmt=mark, capsize=2,
                       label=f"{run.run.system}, {run.run.dataset}")  # fmt: skip
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_xlim(0, 102)
    panel.set_xlabel(f"{measure}, %")
    panel.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


PICTURES = (
    Picture(name="evidence-by-tokens", draw=draw_by_tokens),
    Picture(name="evidence-by-category", draw=draw_by_category),
    Picture(name="cost-against-evidence", draw=draw_cost),
    Picture(name="threshold", draw=draw_threshold),
    Picture(name="latency-by-size", draw=draw_latency),
    Picture(name="answers-by-cost", draw=draw_answers),
    Picture(name="answers-by-category", draw=draw_answer_categories),
)
