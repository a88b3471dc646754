"""`scrubjay bench sizes` and `plot`: how stores fare as they grow, and pictures of what benchmarks wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli import output
from scrubjay.cli.options import AsJson
from scrubjay.cli.writing import progress

if TYPE_CHECKING:
    from scrubjay.datatypes import JsonValue


def sizes(
    *,
    turns: Annotated[
        str, typer.Option(help="Turns in the memory, with commas between them.")
    ] = "250,1000,4000",
    strategy: Annotated[str, typer.Option(help="What to measure: chain, bm25, …")] = "chain",
    beside: Annotated[list[str], typer.Option(help="Another memory to measure; may be given again.")] = [],  # noqa: B006 -- typer copies it
    out: Annotated[Path | None, typer.Option(help="Write the figures as JSON, for `bench plot`.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure writing, asking, disk and memory as the store grows, each size in a process of its own."""
    from scrubjay.bench.apart import start_pool
    from scrubjay.bench.documents import system_document
    from scrubjay.bench.sizes import SizeJob, read_counts, run_size
    from scrubjay.cli.bench import cost_row

    counts = read_counts(turns)
    jobs = [SizeJob(system=system, turns=count) for system in (strategy, *beside) for count in counts]
    runs = []
    with start_pool(1) as pool, progress("stores") as advance:
        for done, run in enumerate(pool.map(run_size, jobs), start=1):
            runs.append(run)
            advance(done, len(jobs))
    document: dict[str, JsonValue] = {"sizes": [system_document(run) for run in runs]}
    if out is not None:
        out.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", "utf-8")
    if as_json:
        output.print_json(document)
        return
    columns = (
        "system",
        ">turns",
        ">p50 ms",
        ">p95 ms",
        ">turns a second",
        ">bytes a turn on disk",
        "version",
    )
    rows = [(name, f"{run.writing.turns:,}", *rest) for run in runs for name, *rest in (cost_row(run),)]
    output.print_table("a context of 1,000 tokens; writing", columns, rows)


def plot(
    figures: Annotated[
        list[Path],
        typer.Argument(help="Files of figures, or folders of them or of runs.", show_default=False),
    ],
    *,
    to: Annotated[Path, typer.Option(help="The folder for the pictures.")] = Path("figures"),
) -> None:
    """Draw what benchmarks have measured: evidence by tokens and category, cost, thresholds, latency, answers."""
    from scrubjay.bench.figures import read_figures
    from scrubjay.bench.plots import draw_pictures
    from scrubjay.errors import NotFoundError

    written = draw_pictures(read_figures(figures), to)
    if not written:
        raise NotFoundError(f"nothing to draw in {', '.join(map(str, figures))}")
    output.print_text("\n".join(map(str, written)))


def register(bench: typer.Typer) -> None:
    for command in (sizes, plot):
        bench.command()(command)
