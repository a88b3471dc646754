"""`scrubjay migrate`: memories from files to a database, and back."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli import output
from scrubjay.cli.options import AsJson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrubjay.datatypes import MigrationProgress, MigrationReport


def migrate(
    source: Annotated[
        str,
        typer.Argument(
            help="A memory's file, a folder of memories, or a database's address.", show_default=False
        ),
    ],
    *,
    to: Annotated[str, typer.Option("--to", help="Where to: one of these too.", show_default=False)],
    users: Annotated[
        list[str] | None,
        typer.Option("--user", help="Whose memory; repeat it. [default: all of a folder or database]"),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an older copy of the same memory that is there.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be copied; nothing is written.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy memories whole, and check each copy; the source stays. May be interrupted, and run again."""
    from scrubjay.migration import migrate as migrate_memories

    with progress() as advance:
        report = migrate_memories(
            source,
            to,
            users=users or (),
            replace=replace,
            dry_run=dry_run,
            advance=advance,
        )
    print_migration(report, as_json=as_json)


def print_migration(report: MigrationReport, *, as_json: bool) -> None:
    """Print what became of each memory; exit 1 where one was refused."""
    from scrubjay.documents import migration_document

    if as_json:
        output.print_json(migration_document(report))
    else:
        output.print_table(
            "",
            ("user", "outcome", ">rows", ">turns", ">records", "to"),
            [
                (
                    memory.user_id or "",
                    memory.outcome.value,
                    *(f"{count:,}" for count in (memory.rows, memory.count("turn"), memory.count("record"))),
                    memory.target,
                )
                for memory in report.memories
            ],
        )
    for memory in report.memories:
        if memory.error:
            output.print_note(memory.error)
        if memory.changed_meanwhile:
            output.print_note(
                f"{memory.source} was written to meanwhile: the copy is of the moment that its copying began. Stop "
                "what writes to it, and run this again with --replace."
            )
    if report.refused:
        raise typer.Exit(1)


@contextmanager
def progress() -> Iterator[Callable[[MigrationProgress], None]]:
    """Show a bar on a terminal's standard error: at which memory of how many, and how many of its rows are done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    hidden = not sys.stderr.isatty()
    with Progress(*columns, console=output.console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task("memories", total=None)

        def advance(now: MigrationProgress) -> None:
            words = output.printable(f"{now.memory} of {now.memories}: {now.user_id or 'rows'}")
            bar.update(task, description=words, completed=now.rows, total=now.total_rows)

        yield advance


def register(app: typer.Typer) -> None:
    app.command()(migrate)
