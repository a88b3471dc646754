"""What a command can't do: a line that says so, at once, and never a traceback or an empty list."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from commands import Output, command_runner
from small_memories import PATIENCE

from scrubjay import Memory, MemoryHome
from scrubjay.errors import InputError, SettingsError, StoreReadOnlyError
from scrubjay.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DSN = "postgresql://localhost:1/nowhere"
WITHOUT = {
    "worker": ("psycopg", f"worker --dsn {DSN}", "postgres"),
    "worker, no pgvector": ("pgvector", f"worker --dsn {DSN}", "postgres"),
    "status of a database": ("psycopg", f"status --memory {DSN} --user alice", "postgres"),
    "import into a database": ("psycopg", f"import chat.json --into {DSN}", "postgres"),
    "migrate": ("psycopg", f"migrate m.jay --to {DSN}", "postgres"),
    "serve a database": ("psycopg", f"serve --dsn {DSN} --keys k.db --port 0", "postgres"),
    "ui": ("uvicorn", "ui --memory m.jay --no-open", "server"),
    "mcp": ("mcp", "mcp --memory m.jay", "mcp"),
    "mcp over HTTP": ("mcp", "mcp --memory m.jay --http --port 0", "mcp"),
    "reembed": ("pydantic_ai", "reembed openai:some --memory m.jay", "llm"),
    "consolidate": ("pydantic_ai", "consolidate --memory m.jay --model openai:some", "llm"),
    "bench retrieval": ("ir_measures", "bench retrieval --dataset sample", "bench"),
    "doctor --rebuild": ("lancedb", "doctor --rebuild --memory m.jay", "lancedb"),
}
"""What a command is called → the package that isn't there, the command, and the extra that brings it."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    return command_runner(monkeypatch, capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a memory and a chat."""
    with Memory(tmp_path / "m.jay") as memory:
        memory.add({"role": "user", "content": "The kiln is on the roof."}, session_id="monday")
    (tmp_path / "chat.json").write_text('[{"role": "user", "content": "Hello"}]', "utf-8")
    return tmp_path


@pytest.mark.parametrize(("package", "command", "extra"), WITHOUT.values(), ids=WITHOUT)
def test_a_package_that_is_missing(folder: Path, package: str, command: str, extra: str) -> None:
    """Where a package isn't installed the command says what to install, in one line."""
    code = f"import sys; sys.modules[{package!r}] = None\nfrom scrubjay.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split()],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": ":".join(sys.path), "SCRUBJAY_VECTOR_INDEX": "lancedb", "OPENAI_API_KEY": "none"},
        timeout=PATIENCE,
        check=False,
    )
    told = done.stderr.splitlines()[-1]
    assert (done.returncode, f'pip install "scrubjay[{extra}]"' in told) == (1, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("export", "--memory", "m.jay", "--to", "m.jay/turns.jsonl"),
        ("export", "--memory", "m.jay", "--to", "."),
        ("keys", "add", "agent", "--keys", "m.jay/keys.db"),
        ("keys", "add", "agent", "--home", "m.jay"),
        ("keys", "list", "--home", "m.jay"),
        ("import", "chat.json", "--into", "m.jay"),
        ("import", "chat.json", "--into", "m.jay/deep"),
        ("mcp", "--home", "m.jay", "--user", "alice"),
        ("serve", "--home", "m.jay", "--port", "0"),
        ("serve", "--home", "m.jay", "--port", "0", "--keys", "keys.db"),
        ("ui", "--home", "m.jay", "--no-open"),
        ("ui", "--home", "nowhere", "--no-open"),
        ("bench", "sweep", "threshold", "0.3..0.3", "--limit", "1", "--out", "m.jay/figures.json"),
    ],
    ids=" ".join,
)
def test_a_path_that_leads_nowhere(
    run: Callable[..., Output], folder: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A path that can't be read or written is named in one line, whatever it was for, and nothing stands for it."""
    monkeypatch.chdir(folder)
    done = run(*command)
    told = done.err.splitlines()[-1]
    assert done.code in {1, 2}
    assert told.startswith("scrubjay: ")
    assert command[-1] in told or "m.jay" in told or "nowhere" in told


def test_a_home_is_a_folder(folder: Path) -> None:
    """A file isn't taken for a home of nobody, and a folder that can't be made is told as one."""
    with pytest.raises(InputError, match="is a file"):
        MemoryHome(folder / "m.jay")
    with (
        MemoryHome(folder / "m.jay" / "deep") as home,
        pytest.raises(StoreReadOnlyError, match="can't be made"),
    ):
        home.memory("alice")


@pytest.mark.parametrize("embedder", ["nix", "static:99", "hash:few", "openai:"])
def test_no_server_starts_with_an_embedder_that_is_none(
    run: Callable[..., Output], tmp_path: Path, embedder: str
) -> None:
    """What no new memory could be made with keeps the server from starting, rather than every user's first turn from being kept."""
    done = run("serve", "--home", tmp_path, "--port", "0", "--embedder", embedder)
    assert (done.code, embedder in done.err) == (2, True)


@pytest.mark.parametrize("url", ["nix", "localhost:11434", "ftp://models", "https://"])
def test_no_server_starts_with_an_upstream_that_is_none(
    run: Callable[..., Output], tmp_path: Path, url: str
) -> None:
    """An address that nothing can be sent to keeps the server from starting; one that can is taken."""
    done = run("serve", "--home", tmp_path, "--port", "0", "--upstream", url)
    assert (done.code, repr(url) in done.err) == (2, True)
    with pytest.raises(SettingsError, match="http://localhost"):
        ServerSettings(upstream_url=url)
    assert ServerSettings(upstream_url="https://[::1]:8080/v1").upstream_url is not None


def test_no_keys_yet(run: Callable[..., Output], tmp_path: Path) -> None:
    """Where there is no key that is said, with what makes one; in JSON it is an empty list."""
    told = run("keys", "list", "--home", tmp_path)
    assert (told.code, told.out, "keys add NAME" in told.err) == (0, "", True)
    assert run("keys", "list", "--home", tmp_path, "--json").document == []
