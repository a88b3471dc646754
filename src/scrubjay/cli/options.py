"""Options that several commands share."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from scrubjay.errors import QuestionError

MemoryAddress = Annotated[
    str,
    typer.Option(
        "--memory",
        "-m",
        envvar="SCRUBJAY_MEMORY",
        help="The memory's file, or the address of its database.",
        show_default=False,
    ),
]
MemoryUser = Annotated[
    str | None,
    typer.Option("--user", help="Whose memory, where --memory is a database.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Now = Annotated[
    str | None,
    typer.Option(
        help="The time that words like 'last week' count from: ISO 8601 with its offset. [default: now]"
    ),
]
Asker = Annotated[
    str | None,
    typer.Option("--as", metavar="NAME", help="Who asks: the speaker that 'I' and 'my' mean."),
]


def overruled(context: typer.Context, *names: str) -> frozenset[str]:
    """Name those of some options, of which one is to be given, that the environment gives while another was typed."""
    sources = {
        name: source
        for name in names
        if context.params[name] is not None and (source := context.get_parameter_source(name)) is not None
    }
    typed = {name for name, source in sources.items() if source.name == "COMMANDLINE"}
    return frozenset(sources) - typed if typed else frozenset()


def read_moment(text: str | None, option: str) -> datetime | None:
    """Read an ISO 8601 time with its offset; raise QuestionError for anything else."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise QuestionError(
            f"{option}: expected a time such as 2024-05-08T13:56+02:00, found {text!r}"
        ) from error
    if moment.utcoffset() is None:
        raise QuestionError(f"{option}: {text!r} has no time zone: add its offset, such as +02:00 or Z")
    return moment
