"""Commands that serve a memory to other programs: mcp, hook."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli import output
from scrubjay.cli.options import MemoryUser, overruled
from scrubjay.cli.reading import settings_for_reading
from scrubjay.errors import InputError, ScrubJayError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.memory import Memory

MemoryToServe = Annotated[
    str | None,
    typer.Option(
        "--memory",
        "-m",
        envvar="SCRUBJAY_MEMORY",
        help="The memory's file, or the address of its database; made if need be.",
    ),
]
HOOK_SECONDS = 5.0  # a recall may take: somebody waits for the prompt to be sent


def mcp(  # noqa: PLR0913 -- a command's options are its parameters
    context: typer.Context,
    *,
    memory: MemoryToServe = None,
    home: Annotated[Path | None, typer.Option(help="Or a folder of memories, with --user.")] = None,
    user: Annotated[
        str | None, typer.Option(help="Whose memory of the folder or the database: any id.")
    ] = None,
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

    memory = None if "memory" in overruled(context, "memory", "home") else memory
    if http:
        require_safe(host, token)
        refuse_keys(home, token)
    with open_to_serve(memory, home=home, user=user) as opened:
        if http:
            serve_http(opened, host=host, port=port, token=token or None)
        else:
            serve_stdio(opened)


def refuse_keys(home: Path | None, token: str | None) -> None:
    """Raise InputError where a home is to be served past its keys."""
    from scrubjay.server.keys import KEYS_FILE, KeyRing

    if home is not None and token is None and KeyRing(home / KEYS_FILE).has_keys:
        raise InputError(
            f"{home} has API keys, which only `scrubjay serve --home {home}` asks for: it serves MCP at /mcp; "
            "or set SCRUBJAY_MCP_TOKEN"
        )


@contextmanager
def open_to_serve(memory: str | None, *, home: Path | None, user: str | None) -> Iterator[Memory]:
    """Open a memory by its file, or by its folder and user, with the model that the environment names."""
    from scrubjay.home import MemoryHome
    from scrubjay.memory import Memory
    from scrubjay.settings import Settings

    if (home is None) == (memory is None) or (home is not None and user is None):
        raise InputError(
            "say which memory: --memory FILE (or SCRUBJAY_MEMORY), --memory ADDRESS with --user ID, or else "
            "--home FOLDER with --user ID, not both; `scrubjay serve --home FOLDER` serves all its users' at /mcp"
        )
    settings = Settings.from_env()
    if home is not None and user is not None:
        with MemoryHome(home, settings=settings) as folder:
            yield folder.memory(user)
    elif memory is not None:
        with Memory(memory, user_id=user, settings=settings) as opened:
            yield opened


def hook(
    context: typer.Context,
    *,
    memory: MemoryToServe = None,
    user: MemoryUser = None,
    max_tokens: Annotated[int, typer.Option(min=50, help="Length of what is added to a prompt.")] = 1000,
    least_relevance: Annotated[
        float, typer.Option(min=0, max=1, help="Of the best turn found; below it nothing is added.")
    ] = 0.15,
) -> None:
    """Run as a hook of Claude Code: record the conversation, and recall for a start or a prompt.

    Whatever goes wrong is told on standard error, with exit code 0: a hook must not hold up the agent.
    """
    from scrubjay.integrations.claude_code import run_hook
    from scrubjay.integrations.earlier import Adding
    from scrubjay.memory import Memory

    if context.args:
        output.print_note(f"scrubjay hook: left out {' '.join(context.args)}")
    told = sys.stdin.buffer.read().decode("utf-8", "replace")
    adding = Adding(max_tokens=max_tokens, least_relevance=least_relevance, deadline=HOOK_SECONDS)
    try:
        if memory is None:
            raise InputError("say which memory: --memory FILE, or SCRUBJAY_MEMORY")
        with Memory(memory, user_id=user, settings=settings_for_reading()) as opened:
            sys.stdout.write(run_hook(opened, told, adding=adding))
    except ScrubJayError as error:
        output.print_note(f"scrubjay hook: {error}")


def register(app: typer.Typer) -> None:
    app.command()(mcp)
    app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(hook)
