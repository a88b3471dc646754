"""Commands that serve a memory to other programs: mcp."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.memory import Memory


def mcp(  # noqa: PLR0913 -- a command's options are its parameters
    *,
    memory: Annotated[
        Path | None,
        typer.Option("--memory", "-m", envvar="SCRUBJAY_MEMORY", help="The memory's file, made if need be."),
    ] = None,
    home: Annotated[Path | None, typer.Option(help="Or a folder of memories, with --user.")] = None,
    user: Annotated[str | None, typer.Option(help="Whose memory of the folder: any id.")] = None,
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP at /mcp instead.")] = False,
    host: Annotated[str, typer.Option(help="The address to serve HTTP on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="And its port; 0 is any that is free.")] = 8766,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SCRUBJAY_MCP_TOKEN",
            help="What HTTP clients must send as a bearer token; better given by the environment.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve a memory to an agent host over the Model Context Protocol, on standard input and output or HTTP."""
    from scrubjay.mcp_serving import require_safe, serve_http, serve_stdio

    if http:
        require_safe(host, token)
    with open_to_serve(memory, home=home, user=user) as opened:
        if http:
            serve_http(opened, host=host, port=port, token=token or None)
        else:
            serve_stdio(opened)


@contextmanager
def open_to_serve(path: Path | None, *, home: Path | None, user: str | None) -> Iterator[Memory]:
    """Open a memory by its file, or by its folder and user, with the model that the environment names."""
    from scrubjay.home import MemoryHome
    from scrubjay.memory import Memory
    from scrubjay.settings import Settings

    if (home is None) != (user is None) or (home is None) == (path is None):
        raise InputError(
            "say which memory: --memory FILE (or SCRUBJAY_MEMORY), or else --home FOLDER with --user ID, not both"
        )
    settings = Settings.from_env()
    if home is not None and user is not None:
        with MemoryHome(home, settings=settings) as folder:
            yield folder.memory(user)
    elif path is not None:
        with Memory(path, settings=settings) as opened:
            yield opened


def register(app: typer.Typer) -> None:
    app.command()(mcp)
