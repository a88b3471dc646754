"""`scrubjay bench fetch`: download a public data set, its licence told first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli import output
from scrubjay.cli.options import AsJson
from scrubjay.cli.writing import progress

if TYPE_CHECKING:
    from scrubjay.datatypes import JsonValue

ANY = "any"


def fetch(
    name: Annotated[
        str, typer.Argument(help="locomo, longmemeval (S), longmemeval-oracle or longmemeval-m.")
    ],
    *,
    to: Annotated[Path | None, typer.Option(help="The file to write. [default: its own name, here]")] = None,
    url: Annotated[
        str | None, typer.Option(help="Another place it is kept. [default: where its authors keep it]")
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option(help="What it must be; any: whatever comes. [default: what is known of the original]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a data set for the other benchmarks: checked, whole or not at all, going on where a try ended."""
    from scrubjay.bench.fetching import fetch as download
    from scrubjay.bench.fetching import find_source

    source = find_source(name)
    address, wanted = url or source.url, sha256 or source.sha256
    output.print_note(
        f"{source.name}: {source.about}, {source.bytes:,} bytes\n{source.licence}\nfrom {address}"
    )
    with progress("bytes") as advance:
        got = download(
            address, to or Path(source.file_name), sha256=None if wanted == ANY else wanted, advance=advance
        )
    document: dict[str, JsonValue] = {
        "path": str(got.path),
        "sha256": got.sha256,
        "bytes": got.bytes,
        "received": got.received,
        "checked": wanted != ANY,
        "licence": source.licence,
    }
    if as_json:
        output.print_json(document)
        return
    checked = "as expected" if wanted != ANY else "taken as it came"
    output.print_text(f"{got.path}\n{got.bytes:,} bytes, sha256 {got.sha256}, {checked}")


def register(bench: typer.Typer) -> None:
    bench.command()(fetch)
