"""Commands of the write side with a model: consolidate, reconsolidate, records, segments."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli import output
from scrubjay.cli.options import AsJson, MemoryAddress, MemoryUser
from scrubjay.cli.reading import open_for_reading
from scrubjay.counting import number_of
from scrubjay.datatypes import NodeKey, NodeKind, RecordType, SegmentState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrubjay.datatypes import ConsolidationPlan, ConsolidationReport
    from scrubjay.memory import Memory

INTERRUPTED = 130  # what shells expect of a program ended by Ctrl-C

MostSegments = Annotated[int | None, typer.Option("--max-segments", min=1, help="Encode so many at most.")]
BudgetTokens = Annotated[
    int | None, typer.Option(min=1, help="Stop when so many tokens are spent, input and output together.")
]
Workers = Annotated[int, typer.Option(min=1, help="Sessions encoded side by side.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only reckon calls and tokens; nothing is called or written.")
]
ModelName = Annotated[
    str | None,
    typer.Option("--model", envvar="SCRUBJAY_MODEL", help="Such as openai:gpt-4.1-mini.", show_default=False),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        envvar="SCRUBJAY_BASE_URL",
        help="Of a server that speaks OpenAI's protocol.",
        show_default=False,
    ),
]


def open_for_encoding(memory: str, user: str | None, chosen: tuple[str | None, str | None]) -> Memory:
    """Open a memory to be encoded by the model and at the address chosen, or else those of the environment."""
    from dataclasses import replace

    from scrubjay.memory import Memory
    from scrubjay.settings import Settings

    settings = Settings.from_env()
    model, base_url = chosen
    chat = replace(
        settings.chat, model=model or settings.chat.model, base_url=base_url or settings.chat.base_url
    )
    return Memory(memory, user_id=user, settings=replace(settings, chat=chat), create=False)


def consolidate(  # noqa: PLR0913 -- a command's options are its parameters
    memory: MemoryAddress,
    *,
    user: MemoryUser = None,
    max_segments: MostSegments = None,
    budget_tokens: BudgetTokens = None,
    workers: Workers = 1,
    flush: Annotated[
        bool, typer.Option("--flush", help="Close the open segment of every session too.")
    ] = False,
    idle: Annotated[
        float | None,
        typer.Option(min=0, metavar="MINUTES", help="Or of those that nothing was added to for so long."),
    ] = None,
    dry_run: DryRun = False,
    model: ModelName = None,
    base_url: BaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Have a model make records of what was said; may be interrupted, and run again."""
    from scrubjay.datatypes import ConsolidationLimits

    idle_time = None if idle is None else timedelta(minutes=idle)
    if dry_run:
        with open_for_reading(memory, user) as opened:
            print_plan(opened.plan_consolidation(flush=flush, idle=idle_time), as_json=as_json)
        return
    limits = ConsolidationLimits(most_segments=max_segments, budget_tokens=budget_tokens, workers=workers)
    with open_for_encoding(memory, user, (model, base_url)) as opened, interruptible(opened) as advance:
        report = opened.consolidate(limits=limits, flush=flush, idle=idle_time, advance=advance)
    print_report(report, as_json=as_json)


def reconsolidate(  # noqa: PLR0913 -- a command's options are its parameters
    memory: MemoryAddress,
    *,
    user: MemoryUser = None,
    max_segments: MostSegments = None,
    budget_tokens: BudgetTokens = None,
    workers: Workers = 1,
    dry_run: DryRun = False,
    model: ModelName = None,
    base_url: BaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make all records anew with another model or prompt; the old ones serve until the new are complete."""
    from scrubjay.datatypes import ConsolidationLimits

    if dry_run:
        with open_for_encoding(memory, user, (model, base_url)) as opened:
            print_plan(opened.plan_reconsolidation(), as_json=as_json)
        return
    limits = ConsolidationLimits(most_segments=max_segments, budget_tokens=budget_tokens, workers=workers)
    with open_for_encoding(memory, user, (model, base_url)) as opened, interruptible(opened) as advance:
        report = opened.reconsolidate(limits=limits, advance=advance)
    print_report(report, as_json=as_json)


def print_plan(plan: ConsolidationPlan, *, as_json: bool) -> None:
    from scrubjay.documents import plan_document

    if as_json:
        output.print_json(plan_document(plan))
        return
    output.print_text(
        f"{number_of(plan.segments, 'segment')} to encode: {number_of(plan.calls, 'call')}, about {plan.input_tokens:,} tokens in and "
        f"{plan.output_tokens:,} out"
    )


def print_report(report: ConsolidationReport, *, as_json: bool) -> None:
    """Print what was done; exit 1 where something failed."""
    from scrubjay.documents import consolidation_document

    if as_json:
        output.print_json(consolidation_document(report))
    else:
        output.print_text(
            f"{number_of(report.encoded, 'segment')} encoded: {number_of(report.records, 'new record')}, {report.repeated:,} said before, "
            f"{report.dropped:,} left out"
        )
        for usage in report.usage:
            output.print_text(f"{usage.model}: {output.spent(usage)}")
        output.print_text(f"turns: {output.counted(report.turns)}")
    if report.stopped:
        output.print_note(f"Stopped: {report.stopped}")
    if report.failed:
        output.print_note(f"{number_of(report.failed, 'attempt')} failed: see `scrubjay segments`")
        raise typer.Exit(1)


@contextmanager
def interruptible(opened: Memory) -> Iterator[Callable[[int, int], None]]:
    """Show a bar with the time left and the cost so far on a terminal; on Ctrl-C say what is left, and exit."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("segments"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[cost]}"),
    )
    before = total_tokens(opened)
    hidden = not sys.stderr.isatty()
    try:
        with Progress(*columns, console=output.console(stderr=True), transient=True, disable=hidden) as bar:
            task = bar.add_task("segments", total=None, cost="")

            def advance(done: int, total: int) -> None:
                cost = f"{total_tokens(opened) - before:,} tokens"
                bar.update(task, completed=done, total=total, cost=cost)

            yield advance
    except KeyboardInterrupt as error:
        progress = opened.segments.progress()
        output.print_note(
            f"Interrupted: nothing is lost. Segments: {output.counted(progress.segments)}; "
            f"{total_tokens(opened) - before:,} tokens spent. Run it again to go on."
        )
        raise typer.Exit(INTERRUPTED) from error


def total_tokens(opened: Memory) -> int:
    return sum(usage.input_tokens + usage.output_tokens for usage in opened.segments.usage())


def records(  # noqa: PLR0913 -- a command's options are its parameters
    memory: MemoryAddress,
    *,
    user: MemoryUser = None,
    type_name: Annotated[RecordType | None, typer.Option("--type", help="Only of this type.")] = None,
    entity: Annotated[str | None, typer.Option(help="Only about this person, place or thing.")] = None,
    session: Annotated[str | None, typer.Option(help="Only made from turns of this session.")] = None,
    unsupported: Annotated[
        bool, typer.Option("--unsupported", help="Only those whose words don't stand in their turns.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="How many at most.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the records made of the conversation, each with the turns it was made from."""
    from itertools import islice

    from scrubjay.documents import record_document
    from scrubjay.organize import normalize_key

    node = None if entity is None else NodeKey(kind=NodeKind.ENTITY, key=normalize_key(entity))
    with open_for_reading(memory, user) as opened:
        found = opened.records.records(type=type_name, node=node, session_id=session)
        chosen = (record for record in found if not (unsupported and record.support.supported))
        listed = list(islice(chosen, limit))
    if as_json:
        output.print_json([record_document(record) for record in listed])
        return
    for record in listed:
        output.print_record(record)
    if not listed:
        output.print_note("No such records.")


def nodes(
    memory: MemoryAddress,
    *,
    user: MemoryUser = None,
    kind: Annotated[NodeKind | None, typer.Option(help="Only of this kind.")] = None,
    as_json: AsJson = False,
) -> None:
    """List evidence nodes: the entities, topics, days and event frames that records are found by."""
    from scrubjay.documents import node_document

    with open_for_reading(memory, user) as opened:
        found = opened.records.nodes(kind)
    if as_json:
        output.print_json([node_document(node) for node in found])
    elif found:
        rows = [(node.kind.value, node.key, str(node.records)) for node in found]
        output.print_table("Evidence nodes", ("kind", "key", ">records"), rows)
    else:
        output.print_note("No such nodes.")


def segments(
    memory: MemoryAddress,
    *,
    user: MemoryUser = None,
    session: Annotated[str | None, typer.Option(help="Only of this session.")] = None,
    state: Annotated[SegmentState | None, typer.Option(help="Only in this state.")] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="First have those that failed tried again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List segments: why each closed, how far it is, and what went wrong; open turns are in none yet."""
    from scrubjay.documents import segment_document
    from scrubjay.memory import Memory

    with (
        Memory(memory, user_id=user, create=False)
        if retry_failed
        else open_for_reading(memory, user) as opened
    ):
        if retry_failed:
            output.print_note(f"{number_of(opened.segments.retry_failed(), 'segment')} will be tried again")
        found = opened.segments.segments(session_id=session, state=state)
    if as_json:
        output.print_json([segment_document(segment) for segment in found])
    elif found:
        output.print_segments(found)
    else:
        output.print_note("No such segments.")


def register(app: typer.Typer) -> None:
    for command in (consolidate, reconsolidate, records, nodes, segments):
        app.command()(command)
