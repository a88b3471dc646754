"""The rows of the ablation tables, for a terminal, a page, or a file of JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrubjay._version import __version__
from scrubjay.bench.documents import measures_document
from scrubjay.bench.variants import CHAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.ablation import Grounds, Outcome
    from scrubjay.bench.measures import Interval, ScoreTable
    from scrubjay.bench.segmentation import Agreement
    from scrubjay.datatypes import JsonValue

THOUSAND = 1_000
WHOLE = "eager-turn"  # the variant that others' tokens are a share of
CONSTRUCTED = {"construction", "representation", "threshold"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A title, columns (numbers begin with ">"), and as many cells a row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def construction_tokens(outcome: Outcome) -> float:
    """Give the input and output tokens of encoding, a conversation; what reads turns alone needs none."""
    if outcome.variant.strategy == CHAIN:
        return 0.0
    spent = outcome.spent
    return (spent.input_tokens + spent.output_tokens) / spent.conversations


def lay_out(kind: str, outcomes: Sequence[Outcome], grounds: Grounds) -> list[Table]:
    """Lay out an ablation: what it costs, and what evidence is found, overall and by category."""
    tables = []
    if kind in CONSTRUCTED:
        tables.append(cost_table(outcomes, reckoned=grounds.records is None))
    if any(outcome.covered is not None for outcome in outcomes):
        tables.append(evidence_table(outcomes, grounds))
    return tables


def cost_table(outcomes: Sequence[Outcome], *, reckoned: bool) -> Table:
    compared = any(outcome.exact is not None for outcome in outcomes)
    whole = next((construction_tokens(one) for one in outcomes if one.variant.name == WHOLE), None)
    title = "construction, a conversation" + (": reckoned, since nothing was recorded" if reckoned else "")
    return Table(
        title=title,
        columns=(
            "variant",
            ">turns a segment",
            ">calls",
            ">K tokens",
            *((f">of {WHOLE}",) if whole else ()),
            *((">boundaries, exact F1", ">within one turn") if compared else ()),
        ),
        rows=tuple(cost_row(outcome, whole, compared=compared) for outcome in outcomes),
    )


def cost_row(outcome: Outcome, whole: float | None, *, compared: bool) -> tuple[str, ...]:
    spent, tokens = outcome.spent, construction_tokens(outcome)
    made = outcome.variant.strategy != CHAIN
    agreements = (outcome.exact, outcome.near) if compared else ()
    return (
        outcome.variant.name,
        f"{spent.turns / spent.segments:.2f}" if made else "",
        f"{spent.calls / spent.conversations:.1f}" if made else "0",
        f"{tokens / THOUSAND:.1f}",
        *((f"{tokens / whole:.1%}",) if whole else ()),
        *(agreement_cell(agreement if made else None) for agreement in agreements),
    )


def agreement_cell(agreement: Agreement | None) -> str:
    if agreement is None:
        return ""
    mean, low, high = agreement.f1
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def evidence_table(outcomes: Sequence[Outcome], grounds: Grounds) -> Table:
    measure = f"R@{grounds.max_tokens}tok"
    tables = [outcome.covered for outcome in outcomes if outcome.covered is not None]
    categories = list(tables[0].categories)
    return Table(
        title=f"evidence within {grounds.max_tokens:,} tokens, percent",
        columns=("variant", ">shown", ">led to", *(f">{name}" for name in categories), ">K query tokens"),
        rows=tuple(
            evidence_row(outcome, measure, categories) for outcome in outcomes if outcome.covered is not None
        ),
    )


def evidence_row(outcome: Outcome, measure: str, categories: Sequence[str]) -> tuple[str, ...]:
    covered, reached = outcome.covered, outcome.reached
    return (
        outcome.variant.name,
        interval_cell(overall(covered, measure)),
        interval_cell(overall(reached, measure)),
        *(f"{100 * covered.categories[name][measure].mean:.1f}" if covered else "" for name in categories),
        f"{(outcome.query_tokens or 0) / THOUSAND:.2f}",
    )


def overall(table: ScoreTable | None, measure: str) -> Interval | None:
    return table.overall[measure] if table else None


def interval_cell(value: Interval | None) -> str:
    return "" if value is None else f"{100 * value.mean:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def write_markdown(tables: Sequence[Table]) -> list[str]:
    """Give tables as the lines of a page."""
    lines: list[str] = []
    for table in tables:
        rule = "".join("---:|" if column.startswith(">") else "---|" for column in table.columns)
        lines += [f"{table.title[0].upper()}{table.title[1:]}:", ""]
        lines += ["| " + " | ".join(column.removeprefix(">") for column in table.columns) + " |", f"|{rule}"]
        lines += ["| " + " | ".join(row) + " |" for row in table.rows]
        lines.append("")
    return lines


def ablation_document(
    kind: str, outcomes: Sequence[Outcome], grounds: Grounds, *, preset: str | None = None
) -> dict[str, JsonValue]:
    """Give all figures with what they were made from; `preset` is the one whose threshold was swept."""
    return {
        "scrubjay": __version__,
        "ablation": kind,
        "dataset": grounds.dataset.name,
        "data_sha256": grounds.dataset.sha256,
        "embedder": str(grounds.embedder.identity),
        "replayed": grounds.records is not None,
        "max_tokens": grounds.max_tokens,
        "preset": preset,
        "variants": [outcome_document(outcome) for outcome in outcomes],
    }


def outcome_document(outcome: Outcome) -> dict[str, JsonValue]:
    spent, exact, near = outcome.spent, outcome.exact, outcome.near
    return {
        "variant": outcome.variant.name,
        "about": outcome.variant.about,
        "conversations": spent.conversations,
        "turns": spent.turns,
        "segments": spent.segments,
        "calls": spent.calls,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "construction_tokens": construction_tokens(outcome),
        "query_tokens": outcome.query_tokens,
        "boundary_f1": list(exact.f1) if exact else None,
        "boundary_f1_near": list(near.f1) if near else None,
        "shown": measures_document(outcome.covered.overall) if outcome.covered else None,
        "led_to": measures_document(outcome.reached.overall) if outcome.reached else None,
        "categories": {name: measures_document(values) for name, values in outcome.covered.categories.items()}
        if outcome.covered
        else {},
    }
