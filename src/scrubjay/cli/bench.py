"""`scrubjay bench`: measure retrieval on a data set, beside trivial baselines in the same run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli import bench_ablation, bench_fetch, bench_plot, bench_qa, output
from scrubjay.cli.options import AsJson
from scrubjay.cli.writing import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.adapters import Adapter
    from scrubjay.bench.datasets import Dataset
    from scrubjay.bench.retrieval import SystemRun
    from scrubjay.bench.systems import System

bench = typer.Typer(help="Measure on data sets; see docs/benchmarks.md.", no_args_is_help=True)


@bench.callback()
def keep_subcommands() -> None:
    """Measure on data sets; see docs/benchmarks.md."""


@bench.command()
def retrieval(  # noqa: PLR0913 -- a command's options are its parameters
    *,
    dataset: Annotated[str, typer.Option(help="locomo, longmemeval, memdaily, realmem, labelled or sample.")],
    data: Annotated[
        Path | None, typer.Option(help="The data set's file or folder; the sample needs none.")
    ] = None,
    strategy: Annotated[str, typer.Option(help="What to measure: chain, cod, cod-relevance, …")] = "chain",
    baselines: Annotated[bool, typer.Option(help="Measure trivial baselines beside it.")] = True,
    ablation: Annotated[
        bool, typer.Option("--ablation", help="Measure the steps of Chain on Demand beside it.")
    ] = False,
    beside: Annotated[
        list[str],
        typer.Option(
            help="Another memory to measure: naive-rag, mem0, langgraph-store, memos; may be given again."
        ),
    ] = [],  # noqa: B006 -- typer copies it
    records: Annotated[
        Path | None,
        typer.Option(
            help="Fill memories from recorded encodings, and measure planned reading with them beside it."
        ),
    ] = None,
    embedder: Annotated[str, typer.Option(help="static, openai:…, sentence-transformers:…")] = "static",
    limit: Annotated[int | None, typer.Option(help="Only the first conversations.", min=1)] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write what the strategy found, one line of JSON a question.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much of the gold evidence is found, by rank and within context tokens; no model is needed."""
    from scrubjay.bench.adapters import find_adapter
    from scrubjay.bench.datasets import load_dataset
    from scrubjay.bench.documents import summary_document, write_run
    from scrubjay.bench.retrieval import run_retrieval
    from scrubjay.bench.systems import ABLATION, BASELINES, PLANNED, find_system
    from scrubjay.embed import load_embedder

    loaded, model = load_dataset(dataset, data), load_embedder(embedder)
    groups = (BASELINES if baselines else ()), (ABLATION if ablation else ()), (PLANNED if records else ())
    names = dict.fromkeys((strategy, *(name for group in groups for name in group)))
    systems: list[System | Adapter] = [*map(find_system, names), *map(find_adapter, dict.fromkeys(beside))]
    with progress("questions") as advance:
        runs = run_retrieval(loaded, systems, embedder=model, limit=limit, records=records, advance=advance)
    if out is not None:
        write_run(out, loaded, runs[0])
    if as_json:
        output.print_json(summary_document(loaded, runs, embedder=model))
    else:
        print_runs(loaded, runs)


def print_runs(dataset: Dataset, runs: Sequence[SystemRun]) -> None:
    from scrubjay.bench.retrieval import SHOWN

    table = runs[0].table
    output.print_text(
        f"{dataset.name} (sha256 {dataset.sha256[:16]}): {table.questions} questions, {table.scored} scored, "
        f"{table.unanswerable} unanswerable, {table.without_evidence} without valid evidence"
    )
    for measure in (name for name in SHOWN if name in table.overall):
        output.print_table(
            measure,
            ("system", ">mean", "95 % interval", *(f">{name}" for name in table.categories)),
            [measure_row(run, measure) for run in runs],
        )
    output.print_table(
        "milliseconds to fill a context of 1,000 tokens; writing",
        ("system", ">p50", ">p95", ">turns a second", ">bytes a turn on disk", "version"),
        [cost_row(run) for run in runs],
    )


def cost_row(run: SystemRun) -> tuple[str, ...]:
    writing = run.writing
    return (
        run.system,
        f"{run.latency_ms['p50']:.1f}",
        f"{run.latency_ms['p95']:.1f}",
        f"{writing.turns / writing.seconds:,.0f}",
        f"{writing.bytes / writing.turns:,.0f}" if writing.bytes else "",
        run.version,
    )


def measure_row(run: SystemRun, measure: str) -> tuple[str, ...]:
    value = run.table.overall[measure]
    by_category = [
        f"{100 * values[measure].mean:.1f}" if measure in values else ""
        for values in run.table.categories.values()
    ]
    return (
        run.system,
        f"{100 * value.mean:.1f}",
        f"{100 * value.low:.1f} to {100 * value.high:.1f}",
        *by_category,
    )


def register(app: typer.Typer) -> None:
    bench_qa.register(bench)
    bench_ablation.register(bench)
    bench_fetch.register(bench)
    bench_plot.register(bench)
    app.add_typer(bench, name="bench")
