"""Commands that serve, as a person starts them: which memory is meant, and what is told on a terminal."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx2
import pytest
import typer.main
from mcp_processes import environment
from postgres_server import fresh_database, shared_dsn
from servers import free_port
from small_memories import EMBEDDER, PATIENCE, say

from scrubjay.bench.datasets import sample_path
from scrubjay.cli import app
from scrubjay.home import MemoryHome
from scrubjay.memory import Memory
from scrubjay.postgres_home import PostgresHome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = [sys.executable, "-c", "from scrubjay.cli import main; main()"]
PLACES = {"memory", "home", "dsn", "into"}  # options of which one says where memories are


def run(*arguments: str | Path, **named: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment(**named),
        timeout=PATIENCE,
        check=False,
    )


@contextmanager
def page_process(*arguments: str | Path, **named: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start `scrubjay ui`, and give the address that it tells and its process."""
    port = free_port()
    with subprocess.Popen(
        [*COMMAND, "ui", "--no-open", "--port", str(port), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**named),
    ) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline() == f"The page is at http://127.0.0.1:{port}/ (Ctrl-C ends it)\n"
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.kill()


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """Give the file of a memory."""
    with Memory(tmp_path / "one.jay", embedder=EMBEDDER) as memory:
        say(memory, "Pepper snores.")
    return tmp_path / "one.jay"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the folder of the memories of mira and jonas."""
    with MemoryHome(tmp_path / "home", embedder=EMBEDDER) as home:
        for user in ("mira", "jonas"):
            say(home.memory(user), "Oleg plays the bassoon.")
    return tmp_path / "home"


# --- which memory ---


def test_commands_that_choose_are_these() -> None:
    """The commands with several options for one place, some of them from the environment, are those tested here."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # it is a group
    several = {
        name
        for name, command in commands.items()
        if len(PLACES & {parameter.name for parameter in command.params}) > 1
        and any(parameter.name in PLACES and parameter.envvar for parameter in command.params)
    }
    assert several == {"import", "mcp", "serve", "ui"}


@pytest.mark.parametrize("typed", ["home", "memory"])
def test_ui_looks_where_it_is_told(one: Path, folder: Path, typed: str) -> None:
    """`ui` takes the option that was typed, whatever the environment names."""
    arguments = {"home": ("--home", folder), "memory": ("--memory", one)}[typed]
    named = {"SCRUBJAY_MEMORY": str(one), "SCRUBJAY_HOME": str(folder)}
    with page_process(*arguments, **named) as (address, _):
        users = httpx2.get(f"{address}/v1/users", timeout=PATIENCE).json()["users"]
    assert users == {"home": ["jonas", "mira"], "memory": ["one"]}[typed]


@pytest.mark.parametrize("name", ["SCRUBJAY_MEMORY", "SCRUBJAY_HOME"])
def test_ui_looks_where_the_environment_says(one: Path, folder: Path, name: str) -> None:
    """Where nothing was typed, the environment says where; both of it are refused."""
    places = {"SCRUBJAY_MEMORY": str(one), "SCRUBJAY_HOME": str(folder)}
    with page_process(**{name: places[name]}) as (address, _):
        assert len(httpx2.get(f"{address}/v1/users", timeout=PATIENCE).json()["users"]) == (
            2 if name.endswith("HOME") else 1
        )
    refused = run("ui", "--no-open", **places)
    assert (refused.returncode, "--memory FILE, --home FOLDER or --dsn ADDRESS" in refused.stderr) == (
        2,
        True,
    )


def test_ui_refuses_two_that_were_typed(one: Path, folder: Path) -> None:
    """Two places that were both typed contradict each other."""
    refused = run("ui", "--no-open", "--memory", one, "--home", folder)
    assert (refused.returncode, "--memory FILE, --home FOLDER or --dsn ADDRESS" in refused.stderr) == (
        2,
        True,
    )


def test_ui_looks_into_a_database() -> None:
    """`ui --dsn` shows a database's users; its address given as a file's is refused, and not shown."""
    with fresh_database(shared_dsn()) as dsn:
        with PostgresHome(dsn) as home:
            say(home.memory("mira"), "Oleg plays the bassoon.")
        with page_process("--dsn", dsn) as (address, _):
            assert httpx2.get(f"{address}/v1/users", timeout=PATIENCE).json()["users"] == ["mira"]
    refused = run("ui", "--no-open", "--memory", "postgresql://app:hush@db/app")
    assert (refused.returncode, "--dsn ADDRESS" in refused.stderr) == (2, True)
    assert "hush" not in refused.stderr


def test_mcp_serves_what_it_is_told(one: Path, folder: Path) -> None:
    """`mcp --home` serves the user's memory where SCRUBJAY_MEMORY names another."""
    done = run("mcp", "--home", folder, "--user", "new", SCRUBJAY_MEMORY=str(one))
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "new.jay").exists()


def test_serve_serves_what_it_is_told(folder: Path, tmp_path: Path) -> None:
    """`serve --dsn` asks the database where SCRUBJAY_HOME names a folder, and the other way round."""
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    keys = ("--keys", tmp_path / "keys.db", "--port", "0")
    database = run("serve", "--dsn", nowhere, *keys, SCRUBJAY_HOME=str(folder))
    assert (database.returncode, "127.0.0.1" in database.stderr) == (1, True)
    both = run("serve", *keys, SCRUBJAY_HOME=str(folder), SCRUBJAY_DSN=nowhere)
    assert (both.returncode, "not both" in both.stderr) == (2, True)
    with subprocess.Popen(
        [*COMMAND, "serve", "--home", str(folder), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(SCRUBJAY_DSN=nowhere),
    ) as process:
        assert process.stderr is not None
        try:
            assert any("Uvicorn running on" in line for line in process.stderr)
        finally:
            process.kill()


def test_import_stores_where_it_is_told(one: Path, tmp_path: Path) -> None:
    """`import --into` fills the folder where SCRUBJAY_MEMORY names a file; both typed are refused."""
    into = tmp_path / "into"
    done = run("import", sample_path(), "--into", into, SCRUBJAY_MEMORY=str(one))
    assert (done.returncode, len(list(into.glob("*.jay")))) == (0, 1)
    with Memory(one) as memory:
        assert memory.status().totals.turns == 1
    refused = run("import", sample_path(), "--into", into, "--memory", one)
    assert (refused.returncode, "not both" in refused.stderr) == (2, True)


# --- what is told on a terminal ---


def test_ui_tells_where_and_what_failed(one: Path) -> None:
    """`ui` tells a person where the page is and what failed, a plain line each, and nothing else until it is ended."""
    with page_process("--memory", one) as (address, process):
        assert httpx2.get(f"{address}/v1/users", timeout=PATIENCE).status_code == 200
        assert httpx2.get(f"{address}/v1/users/nobody/status", timeout=PATIENCE).status_code == 404
        one.unlink()
        assert httpx2.get(f"{address}/v1/users/one/status", timeout=PATIENCE).status_code >= 500
        process.send_signal(signal.SIGINT)
        printed, told = process.communicate(timeout=PATIENCE)
    assert printed == ""
    (line,) = told.splitlines()
    assert line.startswith("error: GET /v1/users/{user}/status 50")
    assert str(one) in line


@pytest.mark.parametrize("command", ["ui", "serve"])
def test_a_port_that_is_taken(one: Path, folder: Path, command: str) -> None:
    """A port that somebody listens on is named in one line, exit code 2, and no page is promised there."""
    place = {"ui": ("--no-open", "--memory", one), "serve": ("--home", folder)}[command]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(command, *place, "--port", str(port))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"can't listen on 127.0.0.1 port {port}" in line
    assert "--port" in line
