"""Commands that write: import, export, forget, reembed, doctor."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from scrubjay.cli import output
from scrubjay.cli.options import AsJson, MemoryAddress, MemoryUser, overruled, read_moment
from scrubjay.counting import number_of
from scrubjay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrubjay.datatypes import ImportReport


def import_(  # noqa: PLR0913 -- a command's options are its parameters
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="The file to import.", show_default=False)],
    *,
    memory: Annotated[
        str | None, typer.Option("--memory", "-m", envvar="SCRUBJAY_MEMORY", help="Import into this memory.")
    ] = None,
    user: MemoryUser = None,
    into: Annotated[
        str | None,
        typer.Option(help="Import each conversation into a memory of its own, in this folder or database."),
    ] = None,
    format_name: Annotated[
        str, typer.Option("--format", help="The file's format. [default: found out]")
    ] = "auto",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out bad entries and count them.")
    ] = False,
    zone: Annotated[
        str | None, typer.Option(help="The zone of times written without one, such as Europe/Berlin.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Import conversations; importing a file again adds only what is new."""
    from scrubjay.importing import import_file

    with progress("turns") as advance:
        report = import_file(
            path,
            memory=None if "memory" in overruled(context, "memory", "into") else memory,
            user_id=user,
            home=into,
            format_name=format_name,
            skip_bad=skip_bad,
            zone=read_zone(zone),
            advance=advance,
        )
    print_import(report, as_json=as_json)


def print_import(report: ImportReport, *, as_json: bool) -> None:
    from scrubjay.documents import import_document

    if as_json:
        output.print_json(import_document(report))
        return
    output.print_table(
        f"Imported {report.source} ({report.format})",
        ("memory", ">sessions", ">turns added", ">already there"),
        [(part.memory, str(part.sessions), str(part.added), str(part.unchanged)) for part in report.memories],
    )
    if report.left_out:
        output.print_note(
            f"{report.left_out} empty or hidden entries hold nothing that was said; they were left out."
        )
    for error in report.bad:
        output.print_note(f"skipped: {error}")


def read_zone(name: str | None) -> ZoneInfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise InputError(
            f"--zone: there is no time zone {name!r}; give a name such as Europe/Berlin or UTC"
        ) from error


def export(
    memory: MemoryAddress,
    *,
    user: MemoryUser = None,
    to: Annotated[Path | None, typer.Option(help="The file to write. [default: standard output]")] = None,
) -> None:
    """Write every turn, with all its fields, as JSONL that `import` reads back without loss."""
    from scrubjay.memory import Memory

    with Memory(memory, user_id=user, create=False, read_only=True) as opened:
        if to is None:
            opened.export(sys.stdout)
        else:
            output.print_note(f"{number_of(opened.export(to), 'turn')} written to {to}")


def forget(  # noqa: PLR0913 -- a command's options are its parameters
    memory: MemoryAddress,
    *,
    user: MemoryUser = None,
    turn: Annotated[str | None, typer.Option(help="One turn, by its id.")] = None,
    session: Annotated[str | None, typer.Option(help="A whole session, by its id.")] = None,
    before: Annotated[str | None, typer.Option(help="All that was said before this time.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All of it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete turns and all that was made of them, for good."""
    from scrubjay.documents import forget_document
    from scrubjay.memory import Memory

    with Memory(memory, user_id=user, create=False) as opened:
        if everything and not (yes or dry_run):
            typer.confirm(f"Delete everything in {opened.path}?", abort=True, err=True)
        report = opened.forget(
            turn=turn,
            session=session,
            before=read_moment(before, "--before"),
            everything=everything,
            dry_run=dry_run,
        )
    document = forget_document(report)
    if as_json:
        output.print_json(document)
    else:
        output.print_table(
            "Would be forgotten" if dry_run else "Forgotten",
            ("what", "count"),
            [(key, str(value)) for key, value in document.items()],
        )


def reembed(
    memory: MemoryAddress,
    embedder: Annotated[
        str, typer.Argument(help="static, openai:…, sentence-transformers:…", show_default=False)
    ],
    *,
    user: MemoryUser = None,
) -> None:
    """Change the embedder: all vectors are made anew, then swapped in at once; may be interrupted and run again."""
    from scrubjay.memory import Memory

    with Memory(memory, user_id=user, create=False) as opened, progress("passages") as advance:
        count = opened.reembed(embedder, advance=advance)
    output.print_note(f"{number_of(count, 'passage')} now with vectors of {embedder}")


def doctor(
    memory: MemoryAddress,
    *,
    user: MemoryUser = None,
    scrub: Annotated[
        bool, typer.Option("--scrub", help="Rewrite the file without what was forgotten.")
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", help="Make the index of vectors on disk anew, as SCRUBJAY_VECTOR_INDEX has it."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check that the file is sound and every turn is in every index; exit 1 if not."""
    from scrubjay.documents import fault_document
    from scrubjay.memory import Memory
    from scrubjay.settings import Settings

    settings, read_only = Settings.from_env(), not scrub and not rebuild
    with Memory(memory, user_id=user, settings=settings, create=False, read_only=read_only) as opened:
        faults = opened.doctor(scrub=scrub, rebuild=rebuild)
    if as_json:
        output.print_json([fault_document(fault) for fault in faults])
    elif faults:
        output.print_table(
            "Faults", ("check", "found", "remedy"), [(f.check, f.found, f.remedy) for f in faults]
        )
    else:
        output.print_text("All well: the file is sound, and every turn is in every index.")
    if faults:
        raise typer.Exit(1)


@contextmanager
def progress(unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal's standard error; give the function that moves it to (done, total)."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(unit), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=output.console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task(unit, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def register(app: typer.Typer) -> None:
    app.command("import")(import_)
    for command in (export, forget, reembed, doctor):
        app.command()(command)
