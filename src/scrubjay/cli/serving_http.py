"""`scrubjay serve` and `scrubjay keys`: memories over HTTP, and who may ask."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scrubjay.cli import output
from scrubjay.cli.options import AsJson, overruled
from scrubjay.errors import InputError, MissingExtraError, NotFoundError
from scrubjay.server.keys import ANYBODY, KEYS_FILE, KeyRing, Right
from scrubjay.server.places import Place, Serving
from scrubjay.server.settings import ServerSettings
from scrubjay.store.opening import scheme_of

if TYPE_CHECKING:
    from scrubjay.datatypes import JsonValue
    from scrubjay.server.keys import ApiKey

PORT = 8420
RATE = ServerSettings().rate
HomeFolder = Annotated[
    Path | None,
    typer.Option("--home", envvar="SCRUBJAY_HOME", help="The folder of memories, one file a user."),
]
KeysFile = Annotated[
    Path | None,
    typer.Option(
        "--keys", envvar="SCRUBJAY_KEYS", help="The file of API keys. [default: keys.db in the home]"
    ),
]

Dsn = Annotated[
    str | None,
    typer.Option(
        envvar="SCRUBJAY_DSN",
        help="Or the database of memories, with --keys; any number of servers may share it.",
        show_default=False,
    ),
]
Processes = Annotated[
    int, typer.Option(min=1, help="That answer requests, for as many processors; they share all but --rate.")
]
Upstream = Annotated[
    str | None,
    typer.Option(
        envvar="SCRUBJAY_UPSTREAM_URL",
        help="Of the OpenAI-compatible server behind /v1/chat/completions.",
        show_default=False,
    ),
]

keys = typer.Typer(help="API keys of a server: who may do what with whose memories.", no_args_is_help=True)


def find_keys(home: Path | None, file: Path | None) -> KeyRing:
    from scrubjay.home import require_folder

    if file is not None:
        return KeyRing(file)
    if home is None:
        raise InputError("say where the keys are: --home FOLDER, or --keys FILE")
    return KeyRing(require_folder(home) / KEYS_FILE)


def require_server() -> None:
    """Raise MissingExtraError where what a server needs isn't installed."""
    try:
        import_module("scrubjay.server.running")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("scrubjay"):
            raise
        raise MissingExtraError("fastapi", extra="server") from error


def serve(  # noqa: PLR0913 -- a command's options are its parameters
    context: typer.Context,
    *,
    home: HomeFolder = None,
    dsn: Dsn = None,
    host: Annotated[str, typer.Option(help="Other than loopback only where a key exists.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="And its port; 0 is any that is free.")] = PORT,
    keys_file: KeysFile = None,
    rate: Annotated[str, typer.Option(help='Requests of one key; "" for any number.')] = RATE,
    max_open: Annotated[int, typer.Option(min=1, help="Memories kept open, in each process.")] = 128,
    processes: Processes = 1,
    embedder: Annotated[str | None, typer.Option(help="Of new memories. [default: the bundled one]")] = None,
    upstream: Upstream = None,
    log_content: Annotated[
        bool, typer.Option("--log-content", help="Log users' ids, queries and errors' words too.")
    ] = False,
) -> None:
    """Serve memories over HTTP until Ctrl-C; the model is that of SCRUBJAY_MODEL."""
    from dataclasses import replace

    from scrubjay.settings import Settings

    unmeant = overruled(context, "home", "dsn")
    home, dsn = None if "home" in unmeant else home, None if "dsn" in unmeant else dsn
    if (home is None) == (dsn is None):
        raise InputError("say which memories to serve: --home FOLDER, or --dsn ADDRESS, not both")
    keys_path, served = find_keys(home, keys_file).path, ServerSettings.from_env()
    require_server()
    from scrubjay.embed import require_embedder
    from scrubjay.server.running import run_server

    require_embedder(embedder or "static")
    settings = replace(
        served, rate=rate, log_content=log_content, upstream_url=upstream or served.upstream_url
    )
    run_server(
        Serving(
            place=Place(folder=home, dsn=dsn, embedder=embedder, max_open=max_open),
            keys_path=keys_path,
            settings=settings,
            memory_settings=Settings.from_env(),
        ),
        address=(host, port),
        processes=processes,
    )


def ui(  # noqa: PLR0913 -- a command's options are its parameters
    context: typer.Context,
    *,
    memory: Annotated[
        str | None, typer.Option("--memory", "-m", envvar="SCRUBJAY_MEMORY", help="One memory's file.")
    ] = None,
    home: HomeFolder = None,
    dsn: Annotated[
        str | None,
        typer.Option(envvar="SCRUBJAY_DSN", help="Or the database of memories.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Of the page's address.")] = PORT,
    keys_file: KeysFile = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser, or only say where it is.")
    ] = True,
) -> None:
    """Look inside memories in a browser, on this machine alone, until Ctrl-C."""
    from scrubjay.settings import Settings

    unmeant = overruled(context, "memory", "home", "dsn")
    file = None if "memory" in unmeant else memory
    home, dsn = None if "home" in unmeant else home, None if "dsn" in unmeant else dsn
    if sum(given is not None for given in (file, home, dsn)) != 1:
        raise InputError("say what to look into: --memory FILE, --home FOLDER or --dsn ADDRESS, and one only")
    if file is not None and scheme_of(file):  # not shown: it may hold a password
        raise InputError("--memory is a file here: give a database as --dsn ADDRESS")
    if file is not None and not Path(file).exists():
        raise NotFoundError(f"there is no memory at {file}")
    if home is not None and not home.exists():
        raise NotFoundError(f"there is no folder of memories at {home}")
    require_server()
    from scrubjay.server.running import announce_page, run_server

    run_server(
        Serving(
            place=Place(folder=home, file=None if file is None else Path(file), dsn=dsn),
            keys_path=find_keys(home, keys_file).path if home or keys_file else None,
            settings=ServerSettings.from_env(),
            memory_settings=Settings.from_env(),
        ),
        address=("127.0.0.1", port),
        tell=partial(announce_page, f"http://127.0.0.1:{port}/", open_page=open_page),
    )


@keys.command("add")
def add_key(
    name: Annotated[str, typer.Argument(help="What the key is for, to tell it from others.")],
    *,
    home: HomeFolder = None,
    keys_file: KeysFile = None,
    right: Annotated[Right, typer.Option(help="read; write: and add; admin: and forget.")] = Right.WRITE,
    users: Annotated[
        list[str] | None,
        typer.Option(
            "--user", help="A user's id, or a pattern such as 'team-a/*'; repeat it. [default: all]"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it: this is the only time that it is shown."""
    key, text = find_keys(home, keys_file).add(name, right=right, users=users or (ANYBODY,))
    if as_json:
        output.print_json({"key": text, **key_document(key)})
        return
    output.print_text(text)
    output.print_note(
        f"Key {key.key_id} ({key.right.value}) for {', '.join(key.users)}; it is kept nowhere: note it down."
    )


@keys.command("list")
def list_keys(*, home: HomeFolder = None, keys_file: KeysFile = None, as_json: AsJson = False) -> None:
    """List the keys, without their secrets."""
    ring = find_keys(home, keys_file)
    found = ring.keys()
    if as_json:
        output.print_json([key_document(key) for key in found])
        return
    if not found:
        output.print_note(f"There is no key in {ring.path}: `scrubjay keys add NAME` makes one.")
        return
    output.print_table(
        "",
        ("key", "name", "right", "users", "made", "revoked"),
        [
            (
                key.key_id,
                key.name,
                key.right.value,
                ", ".join(key.users),
                f"{key.created_at:%Y-%m-%d %H:%M %Z}",
                "" if key.revoked_at is None else f"{key.revoked_at:%Y-%m-%d %H:%M %Z}",
            )
            for key in found
        ],
    )


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `scrubjay keys list` shows it.")],
    *,
    home: HomeFolder = None,
    keys_file: KeysFile = None,
) -> None:
    """End a key, at once and in a running server too."""
    key = find_keys(home, keys_file).revoke(key_id)
    output.print_note(f"Key {key.key_id} ({key.name}) is no longer valid.")


def key_document(key: ApiKey) -> dict[str, JsonValue]:
    return {
        "key_id": key.key_id,
        "name": key.name,
        "right": key.right.value,
        "users": [*key.users],
        "created_at": key.created_at.isoformat(),
        "revoked_at": None if key.revoked_at is None else key.revoked_at.isoformat(),
    }


def register(app: typer.Typer) -> None:
    app.command()(serve)
    app.command()(ui)
    app.add_typer(keys, name="keys")
