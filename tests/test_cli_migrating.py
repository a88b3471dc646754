"""`scrubjay migrate`, run as a user runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from commands import Output, command_runner
from postgres_server import fresh_database, with_parts
from small_memories import fill, open_home, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    return command_runner(monkeypatch, capsys, "migrate", columns=300)


@pytest.fixture
def database() -> Iterator[str]:
    with fresh_database() as dsn:
        open_home(dsn).close()  # its tables are made, few of them
        yield with_parts(dsn, password="sesame")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with open_home(tmp_path / "home") as opened:
        for user in ("ann", "ben"):
            with opened.borrow(user) as memory:
                fill(memory)
    return tmp_path / "home"


def test_what_is_reported(run: Callable[..., Output], home: Path, database: str) -> None:
    """Each memory is a line with its user, outcome and counts; a dry run says what would be, and writes nothing."""
    for options, outcome in ((["--dry-run"], "would be copied"), ([], "copied"), ([], "already there")):
        done = run(home, "--to", database, *options)
        assert (done.code, done.err) == (0, "")
        lines = [line.split() for line in done.out.splitlines() if line.split()[:1] in (["ann"], ["ben"])]
        assert [line[0] for line in lines] == ["ann", "ben"]
        for line in lines:
            words = " ".join(line)
            assert (outcome in words, " 11 " in words, "sesame" in words) == (True, True, False)


def test_json(run: Callable[..., Output], home: Path, database: str) -> None:
    """With --json each table's count and checksum are there, the same both ways."""
    (there,) = run(home, "--to", database, "--user", "ben", "--json").document
    (back,) = run(database, "--to", home.parent / "ben.jay", "--user", "ben", "--json").document
    one, other = (document["memories"][0] for document in (there, back))  # type: ignore[index] # JSON has no types
    assert (one["user_id"], one["outcome"]) == ("ben", "copied")
    assert one["tables"]["turn"]["rows"] == 11
    assert len(one["tables"]["turn"]["checksum"]) == 32
    assert one["tables"] == other["tables"]
    assert "sesame" not in f"{there}{back}"


def test_refused(run: Callable[..., Output], home: Path, database: str) -> None:
    """A memory that can't take another's place ends the command with 1, once the others are copied; a wrong use with 2."""
    with open_home(database) as opened, opened.borrow("ann") as memory:
        say(memory, "I was here first.")
    done = run(home, "--to", database)
    assert (done.code, "another memory" in done.err) == (1, True)
    assert [line.split()[1] for line in done.out.splitlines() if line.split()[:1] in (["ann"], ["ben"])] == [
        "refused",
        "copied",
    ]
    assert run(home, "--to", home.parent / "one.jay").code == 2
    assert run(home.parent / "none", "--to", database).code == 1
