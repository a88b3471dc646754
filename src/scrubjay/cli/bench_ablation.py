"""`scrubjay bench ablation` and `sweep`: the paper's tables by replay, without a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli import output
from scrubjay.cli.options import AsJson
from scrubjay.cli.writing import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.ablation import Grounds
    from scrubjay.bench.variants import Variant

DatasetName = Annotated[str, typer.Option("--dataset", help="locomo, longmemeval, labelled or sample.")]
DataPath = Annotated[
    Path | None, typer.Option("--data", help="The data set's file or folder; the sample needs none.")
]
Records = Annotated[
    Path | None,
    typer.Option(
        "--records",
        help="What an encoder once wrote, replayed. [default: calls are reckoned, and no records are read]",
    ),
]
MaxTokens = Annotated[int, typer.Option(min=1, help="Of the context that evidence must be found in.")]
Limit = Annotated[int | None, typer.Option(help="Only the first conversations.", min=1)]
Out = Annotated[Path | None, typer.Option(help="Write the figures as JSON, for `bench plot`.")]


def ablation(  # noqa: PLR0913 -- a command's options are its parameters
    kind: Annotated[str, typer.Argument(help="construction, representation or retrieval.")],
    *,
    dataset: DatasetName = "sample",
    data: DataPath = None,
    records: Records = None,
    max_tokens: MaxTokens = 1000,
    limit: Limit = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Take one part away at a time: tokens by the paper's definitions, boundaries, and the evidence found; no model."""
    from scrubjay.bench.variants import find_variants

    variants = find_variants(kind)
    grounds = load_grounds(dataset, data, records, max_tokens=max_tokens, limit=limit)
    compare(kind, variants, grounds, out=out, as_json=as_json)


def sweep(  # noqa: PLR0913 -- a command's options are its parameters
    what: Annotated[str, typer.Argument(help="threshold: the probability from which a boundary is cut.")],
    values: Annotated[str, typer.Argument(help="From and to, such as 0.30..0.70.")],
    *,
    step: Annotated[float, typer.Option(min=0.001, help="From one value to the next.")] = 0.1,
    preset: Annotated[
        str, typer.Option(help="Of the segmentation: lychee-v2, the paper's, or default.")
    ] = "lychee-v2",
    dataset: DatasetName = "sample",
    data: DataPath = None,
    records: Records = None,
    max_tokens: MaxTokens = 1000,
    limit: Limit = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Vary the boundary threshold (paper, Figure 5): segments, calls, tokens, boundaries and evidence; no model."""
    from scrubjay.bench.variants import read_range, threshold_variants
    from scrubjay.errors import SettingsError

    if what != "threshold":
        raise SettingsError(f"sweep: expected threshold, found {what!r}")
    variants = threshold_variants(read_range(values, step=step), preset=preset)
    grounds = load_grounds(dataset, data, records, max_tokens=max_tokens, limit=limit)
    compare(what, variants, grounds, out=out, as_json=as_json, preset=preset)


def load_grounds(
    dataset: str, data: Path | None, records: Path | None, *, max_tokens: int, limit: int | None
) -> Grounds:
    from dataclasses import replace

    from scrubjay.bench.ablation import Grounds
    from scrubjay.bench.datasets import load_dataset
    from scrubjay.embed import load_embedder

    loaded = load_dataset(dataset, data)
    return Grounds(
        dataset=replace(loaded, samples=loaded.samples[:limit]),
        path=data,
        records=records,
        max_tokens=max_tokens,
        embedder=load_embedder(),
    )


def compare(
    kind: str,
    variants: Sequence[Variant],
    grounds: Grounds,
    *,
    out: Path | None,
    as_json: bool,
    preset: str | None = None,
) -> None:
    from scrubjay.bench.ablation import measure_variants, readable_variants
    from scrubjay.bench.tables import ablation_document, lay_out

    kept = readable_variants(kind, variants, grounds)
    with progress("memories") as advance:
        outcomes = measure_variants(kept, grounds, advance=advance)
    document = ablation_document(kind, outcomes, grounds, preset=preset)
    if out is not None:
        out.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", "utf-8")
    if as_json:
        output.print_json(document)
        return
    for table in lay_out(kind, outcomes, grounds):
        output.print_table(table.title, table.columns, table.rows)


def register(bench: typer.Typer) -> None:
    for command in (ablation, sweep):
        bench.command()(command)
