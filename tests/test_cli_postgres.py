"""The commands on a memory in a database: they work as on a file, and never show its password."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from commands import Output, command_runner
from planned_memories import EVENINGS, RECORDS, turns
from postgres_server import fresh_database, with_parts
from small_memories import EMBEDDER

from scrubjay.bench.datasets import sample_path
from scrubjay.bench.replay import ReplayModel
from scrubjay.memory import Memory
from scrubjay.settings import Settings
from scrubjay.store_settings import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECRET = "ses@me/1"
FEW = Settings(postgres=PostgresSettings(partitions=2, connections=3))

READING = (
    ("ask", "Who plays the bassoon?"),
    ("search", "bassoon"),
    ("show",),
    ("sessions",),
    ("status",),
    ("segments",),
    ("nodes",),
    ("records",),
    ("doctor",),
    ("export",),
    ("consolidate", "--dry-run"),
)
OTHERS = (
    ("forget", "--session", "kitchen"),
    ("reembed", "hash:32"),
    ("consolidate",),
    ("reconsolidate",),
    ("import", str(sample_path())),
    ("mcp",),
)


UNUSABLE = (
    ("postgresql://ann:sesame@127.0.0.1:1/x?connect_timeout=2", 1),
    ("postgresql://ann:ses@me@127.0.0.1:1/x", 2),
    ("postgresql://ann:ses/me@127.0.0.1:1/x", 2),
    ("postgresql://ann:ses%me@127.0.0.1:1/x", 2),
    ("postgresql://ann:sesame@[127.0.0.1:1/x", 2),
    ("mysql://ann:sesame@127.0.0.1:1/x", 2),
)
"""Addresses with a password that can't be used, and the exit code that says whose fault it is."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    return command_runner(monkeypatch, capsys)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """Give the address of a database, with a password, in which Mira has a memory with records."""
    with fresh_database() as dsn:
        with Memory(
            dsn, user_id="mira", settings=FEW, embedder=EMBEDDER, model=ReplayModel(RECORDS)
        ) as memory:
            memory.add_many(turns(EVENINGS))
            memory.consolidate(flush=True)
        yield with_parts(dsn, password=SECRET)


def hidden(done: Output) -> bool:
    return not any(part in done.out + done.err for part in (SECRET, "ses%40", "sesame", "Traceback"))


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_reading(run: Callable[..., Output], database: str, words: tuple[str, ...]) -> None:
    """Each reading command finds the user's memory at the database's address."""
    done = run(*words, "--memory", database, "--user", "mira")
    assert (done.code, hidden(done)) == (0, True), done.err
    assert done.out


def test_writing(run: Callable[..., Output], database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing makes a user's memory, forgetting and embedding anew change it; conversations get users of their own."""
    at = ("--memory", database, "--user", "zoe")
    assert run("import", sample_path(), *at).code == 0
    (before,) = run("status", *at, "--json").document
    assert (
        run("forget", "--session", str(run("sessions", *at, "--json").document[0]["session_id"]), *at).code
        == 0
    )
    assert run("reembed", "hash:32", *at).code == 0
    (after,) = run("status", *at, "--json").document
    assert (before["turns"] > after["turns"], "hash:32" in str(after["embedder"])) == (True, True)  # type: ignore[operator] # JSON has no types
    into = run("import", sample_path(), "--into", database, "--json")
    assert (into.code, hidden(into)) == (0, True)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    asked = run("forget", "--everything", *at)  # nobody answers
    assert (asked.code, "memory of 'zoe'" in asked.err, hidden(asked)) == (1, True, True)


@pytest.mark.parametrize("words", [*READING, *OTHERS], ids=lambda words: words[0])
def test_the_password_is_not_shown(run: Callable[..., Output], database: str, words: tuple[str, ...]) -> None:
    """Whatever is wrong with the address, its server or its user, the error is a line without the password."""
    for address, user, code in (
        *((address, "mira", code) for address, code in UNUSABLE),
        (database, "nobody at all", 1),
        (database, None, 2),
    ):
        if (words[0] == "import" or words[0] == "mcp") and user == "nobody at all":
            continue  # these make a memory
        whose = () if user is None else ("--user", user)
        done = run(*words, "--memory", address, *whose)
        assert done.code == code, (address, done.err)
        assert (hidden(done), "ses" in done.err.replace("sessions", ""), done.out) == (True, False, ""), (
            done.err
        )
        assert done.err.startswith("scrubjay: ")


@pytest.mark.parametrize(
    "words",
    [
        ("migrate",),
        ("serve", "--dsn"),
        ("worker", "--model", "openai:x", "--base-url", "http://127.0.0.1:1/v1", "--dsn"),
    ],
)
def test_the_password_is_not_shown_by_what_serves_all(
    run: Callable[..., Output], tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Nor do the commands show it that use a whole database."""
    more = {"migrate": ("--to", tmp_path / "home"), "serve": ("--keys", tmp_path / "keys.db")}.get(
        words[0], ()
    )
    for address, code in UNUSABLE:
        done = run(*words, address, *more)
        assert (done.code, hidden(done)) == (code, True), (address, done.err)
        assert (done.err.startswith("scrubjay: "), "ses" in done.err) == (True, False), done.err
