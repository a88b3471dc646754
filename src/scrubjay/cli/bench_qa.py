"""`scrubjay bench qa` and `bench report`: have questions answered and judged, and set runs beside each other."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli import output
from scrubjay.cli.consolidating import INTERRUPTED, BaseUrl, ModelName
from scrubjay.cli.options import AsJson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrubjay.bench.qa.estimate import Forecast
    from scrubjay.bench.qa.running import QaOptions
    from scrubjay.settings import ChatSettings


DatasetName = Annotated[str, typer.Option(help="locomo, longmemeval, labelled or sample.")]
DataFile = Annotated[Path | None, typer.Option(help="The data set's file or folder; the sample needs none.")]
SystemName = Annotated[str, typer.Option(help="scrubjay, full-context, bm25, naive-rag, mem0, …")]
PresetName = Annotated[str, typer.Option(help="Settings of scrubjay by name: default, lychee-v2, cod, …")]
JudgeName = Annotated[
    str | None, typer.Option(help="The model that judges. [default: nobody; measures without a judge]")
]
JudgeUrl = Annotated[
    str | None,
    typer.Option(envvar="SCRUBJAY_JUDGE_BASE_URL", help="Of the judge's server.", show_default=False),
]
Votes = Annotated[int, typer.Option(min=1, help="Verdicts an answer; an odd number.")]
EmbedderName = Annotated[str, typer.Option(help="static, openai:…, sentence-transformers:…")]
ContextTokens = Annotated[
    int | None, typer.Option(min=1, help="Of the context. [default: 2000; full-context: 120000]")
]
Limit = Annotated[int | None, typer.Option(help="Only the first conversations.", min=1)]
DrawnQuestions = Annotated[
    int | None, typer.Option(help="Only so many of their questions, drawn at random.", min=1)
]
Seed = Annotated[int, typer.Option(help="Of that draw.")]
Corrections = Annotated[
    Path | None, typer.Option(help="Known faults of LoCoMo's gold: both golds are scored.")
]
Workers = Annotated[int, typer.Option(min=1, help="Conversations worked on side by side.")]
BudgetTokens = Annotated[
    int | None,
    typer.Option(min=1, help="Stop when the run has spent so many tokens, all starts together."),
]
BudgetDollars = Annotated[float | None, typer.Option(min=0, help="Likewise dollars, at list prices.")]
RunsFolder = Annotated[Path, typer.Option(help="Where the run's folder is made.")]
RunFolder = Annotated[Path | None, typer.Option(help="The run's folder itself.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Only reckon calls, tokens and money; nothing is asked or written."),
]


def qa(  # noqa: PLR0913 -- a command's options are its parameters
    *,
    dataset: DatasetName,
    data: DataFile = None,
    system: SystemName = "scrubjay",
    preset: PresetName = "default",
    model: ModelName = None,
    base_url: BaseUrl = None,
    judge: JudgeName = None,
    judge_base_url: JudgeUrl = None,
    votes: Votes = 1,
    embedder: EmbedderName = "static",
    max_tokens: ContextTokens = None,
    limit: Limit = None,
    sample: DrawnQuestions = None,
    seed: Seed = 0,
    corrections: Corrections = None,
    workers: Workers = 1,
    budget_tokens: BudgetTokens = None,
    budget_usd: BudgetDollars = None,
    runs: RunsFolder = Path("runs"),
    out: RunFolder = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Have a system build memories and answer questions, have a judge judge the answers; start again to go on."""
    from scrubjay.bench.qa.calls import Budget
    from scrubjay.bench.qa.running import QaOptions
    from scrubjay.bench.qa.selection import QuestionChoice

    options = QaOptions(
        dataset=dataset,
        data=data,
        system=system,
        preset=preset,
        model=model_settings(model, base_url),
        judge=judge_settings(judge, judge_base_url),
        votes=votes,
        embedder=embedder,
        max_tokens=max_tokens,
        choice=QuestionChoice(limit=limit, sample=sample, seed=seed, corrections=corrections),
        workers=workers,
        budget=Budget(tokens=budget_tokens, dollars=budget_usd),
        runs=runs,
        out=out,
    )
    run(options, dry_run=dry_run, as_json=as_json)


def run(options: QaOptions, *, dry_run: bool, as_json: bool) -> None:
    """Run, and print the report; exit 1 where something is left to do."""
    from scrubjay.bench.qa.report import comparison_table, cost_table, report_document
    from scrubjay.bench.qa.running import forecast, prepare_run, start_run

    with interruptible() as advance:
        prepared = prepare_run(options)
        if dry_run:
            print_forecast(forecast(prepared, advance=advance), as_json=as_json)
            return
        output.print_note(f"Run: {prepared.path}")
        finished = start_run(prepared, advance=advance)
    if as_json:
        output.print_json(report_document(finished.report))
    else:
        print_tables(comparison_table([finished.report]), cost_table([finished.report]))
    if finished.left:
        output.print_note(f"Stopped: {finished.left}")
        raise typer.Exit(1)


def model_settings(model: str | None, base_url: str | None) -> ChatSettings:
    from dataclasses import replace

    from scrubjay.settings import Settings

    chat = Settings.from_env().chat
    return replace(chat, model=model or chat.model, base_url=base_url or chat.base_url)


def judge_settings(judge: str | None, base_url: str | None) -> ChatSettings | None:
    """Give the settings of the judge, if there is one: its server and key are not those of the model."""
    import os

    if judge is None:
        return None
    from scrubjay.settings import ChatSettings

    return ChatSettings(
        model=judge, base_url=base_url, api_key=os.environ.get("SCRUBJAY_JUDGE_API_KEY") or None
    )


def print_forecast(found: Forecast, *, as_json: bool) -> None:
    from scrubjay.bench.qa.estimate import forecast_document

    if as_json:
        output.print_json(forecast_document(found))
        return
    output.print_table(
        f"{found.questions:,} questions about {found.conversations:,} conversations, reckoned from "
        f"{found.reckoned_from:,} of them",
        ("step", "model", ">calls", ">tokens in", ">tokens out", ">dollars"),
        [
            (
                step.step,
                step.model,
                f"{step.calls:,}",
                f"{step.input_tokens:,}",
                f"{step.output_tokens:,}",
                money(step.dollars),
            )
            for step in found.steps
        ],
    )
    output.print_text(f"In all: {money(found.dollars)}")
    if found.unforeseen:
        output.print_note("What this system asks while it builds and answers can't be foreseen.")


def money(dollars: float | None) -> str:
    return "unknown" if dollars is None else f"${dollars:,.2f}"


def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs.", show_default=False)],
    *,
    write: Annotated[Path | None, typer.Option(help="Write the tables here too, as Markdown.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score runs from what they have written, and set them beside each other; report.md is written into each."""
    from scrubjay.bench.qa.report import (
        comparison_lines,
        comparison_table,
        cost_table,
        report_document,
        write_report,
    )

    reports = [write_report(folder) for folder in folders]
    if write is not None:
        write.write_text("\n".join(comparison_lines(reports)) + "\n", "utf-8")
    if as_json:
        output.print_json([report_document(one) for one in reports])
    else:
        print_tables(comparison_table(reports), cost_table(reports))


def print_tables(*tables: Sequence[Sequence[str]]) -> None:
    for head, *rows in tables:
        output.print_table("", head, rows)


@contextmanager
def interruptible() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for each step on a terminal; on Ctrl-C say that nothing is lost, and exit."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = not sys.stderr.isatty()
    try:
        with Progress(*columns, console=output.console(stderr=True), transient=True, disable=hidden) as bar:
            task = bar.add_task("", total=None)
            yield lambda step, done, total: bar.update(task, description=step, completed=done, total=total)
    except KeyboardInterrupt as error:
        output.print_note("Interrupted: nothing is lost. Start it again to go on.")
        raise typer.Exit(INTERRUPTED) from error


def register(bench: typer.Typer) -> None:
    bench.command()(qa)
    bench.command()(report)
