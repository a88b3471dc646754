"""Memories in PostgreSQL, as their callers see them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest
from postgres_server import fresh_database, shared_dsn, user_of
from servers import running_server, user_path
from small_memories import EMBEDDER, PATIENCE, fill, open_memory, run_python, say, texts

from scrubjay.errors import InputError, NotFoundError, StoreReadOnlyError
from scrubjay.memory import Memory
from scrubjay.settings import Settings
from scrubjay.store_settings import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPARISON = Path(__file__).parents[1] / "benchmarks" / "same_ranking.py"
SETTINGS = Settings(postgres=PostgresSettings(partitions=3, connections=3))
QUESTIONS = ("Who plays the bassoon?", "fagot Moskau", "Where did we sleep?", "Pepper")


def open_in_database(
    name: str, *, read_only: bool = False, create: bool = True, embedder: str | None = EMBEDDER
) -> Memory:
    return Memory(
        shared_dsn(),
        user_id=user_of(name),
        settings=SETTINGS,
        embedder=embedder,
        read_only=read_only,
        create=create,
    )


@pytest.fixture
def memory() -> Iterator[Memory]:
    """Give an empty memory in the database."""
    with open_in_database(":memory:") as opened:
        yield opened


def test_the_same_memory_in_a_file_and_a_database(memory: Memory, tmp_path: Path) -> None:
    """Turns, scores and evidence are the same, number for number, wherever the memory is kept."""
    with open_memory(tmp_path / "memory.jay") as in_file:
        for opened in (memory, in_file):
            fill(opened)
        assert texts(memory) == texts(in_file)
        for question in QUESTIONS:
            mine, theirs = memory.search(question), in_file.search(question)
            assert [(hit.turn.turn_id, hit.score, hit.channels) for hit in mine] == [
                (hit.turn.turn_id, hit.score, hit.channels) for hit in theirs
            ]
            assert memory.recall(question).text == in_file.recall(question).text
        assert memory.sessions() == in_file.sessions()


def test_the_sample_ranks_alike() -> None:
    """For every question about the sample, each hit has the turn, the rank and the scores that it has in a file."""
    with fresh_database() as dsn:
        done = subprocess.run(
            [sys.executable, str(COMPARISON), "sample", "--depth", "50"],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "DATABASE_URL": dsn},
        )
    found = re.match(r"(\d+) questions, (\d+) hits, 0 of them different", done.stdout)
    assert found is not None, done.stdout
    assert (int(found[1]) > 40, int(found[2]) > 1_000) == (True, True)


def test_vectors_come_back_bit_for_bit(tmp_path: Path) -> None:
    """The bundled embedder's vectors are read from the database as they are read from a file."""
    with (
        open_in_database(":memory:", embedder=None) as memory,
        Memory(tmp_path / "memory.jay") as in_file,
    ):
        for opened in (memory, in_file):
            fill(opened)
        mine, theirs = (opened._store.load(after=0).vectors for opened in (memory, in_file))
        assert mine.dtype == np.float32
        assert mine.tobytes() == theirs.tobytes()


def test_users_do_not_meet(memory: Memory) -> None:
    """Each user of a database finds their own turns only, whatever ids are shared."""
    say(memory, "Mine is a kayak.")
    with open_in_database(":memory:") as other:
        say(other, "Mine is a violin.")
        assert texts(other) == ["Mine is a violin."]
        assert [hit.turn.text for hit in other.search("kayak violin")] == ["Mine is a violin."]
    assert texts(memory) == ["Mine is a kayak."]


def test_a_memory_that_is_not_there() -> None:
    """Without `create`, or to read only, a user without a memory gets an error and no memory."""
    for read_only in (False, True):
        with pytest.raises(NotFoundError, match="nobody"):
            open_in_database("nobody", read_only=read_only, create=False)


def test_read_only(memory: Memory) -> None:
    """A memory opened to be read refuses to be written, and reads what others write."""
    fill(memory)
    user = re.search(r"memory of '(.*)'", memory.path)
    assert user is not None
    with Memory(shared_dsn(), user_id=user[1], settings=SETTINGS, read_only=True) as reader:
        assert texts(reader) == texts(memory)
        with pytest.raises(StoreReadOnlyError):
            say(reader, "x")
        say(memory, "A late word.")
        assert reader.search("late word")[0].turn.text == "A late word."


def test_status_and_doctor(memory: Memory) -> None:
    """The memory says what it holds, where, and that forgetting leaves bytes to the database."""
    fill(memory)
    status = memory.status()
    assert (status.totals.turns, status.file_bytes, status.path) == (11, 0, memory.path)
    assert memory.doctor() == ()
    report = memory.forget(session="ferry")
    assert (report.turns, report.scrubbed) == (3, False)
    assert "docs/postgres.md" in report.pending
    assert memory.doctor(scrub=True)[0].found == report.pending


@pytest.mark.parametrize(
    ("location", "user_id", "words"),
    [
        ("postgresql://localhost/x", None, "say whose"),
        ("mysql://localhost/x", "alice", "postgresql://"),
        ("memory.jay", "alice", "leave user_id"),
        ("postgresql://ann:secret@[localhost/x", "alice", "can't be read"),
    ],
)
def test_an_address_that_can_not_be_used(location: str, user_id: str | None, words: str) -> None:
    """What isn't the address of a memory is refused with what to write instead, and no password is shown."""
    with pytest.raises(InputError, match=words) as caught:
        Memory(location, user_id=user_id)
    assert "secret" not in f"{caught.value}{caught.value.__cause__}"


def test_without_the_extra() -> None:
    """Where psycopg isn't installed, the error says what to install, and files work."""
    code = """
import sys
sys.modules["psycopg"] = None  # what is not installed can't be imported
from scrubjay import Memory
from scrubjay.errors import MissingExtraError
Memory(":memory:").close()
try:
    Memory("postgresql://localhost/x", user_id="alice")
except MissingExtraError as error:
    print(error)
"""
    assert 'pip install "scrubjay[postgres]"' in run_python(code).stdout


def test_two_servers_over_one_database(tmp_path: Path) -> None:
    """What one server was told the other finds at once, and a user forgotten by one is forgotten by both."""
    keys = ("--keys", str(tmp_path / "keys.db"))
    with (
        fresh_database() as dsn,
        running_server(dsn, *keys) as one,
        running_server(dsn, *keys) as other,
        httpx.Client(timeout=PATIENCE) as client,
    ):
        for number, server in enumerate((one, other, one), start=1):
            body = {"session_id": "s", "turns": [{"role": "user", "content": f"My kayak number {number}."}]}
            assert client.post(server.url + user_path("alice", "/turns"), json=body).json()["added"] == 1
            for asked in (one, other):
                found = client.post(asked.url + user_path("alice", "/recall"), json={"question": "kayak"})
                assert len(found.json()["links"]) == number
        assert client.delete(other.url + user_path("alice")).json()["forgotten"]
        for asked in (one, other):
            assert client.get(asked.url + user_path("alice", "/sessions")).status_code == 404
            assert client.get(f"{asked.url}/v1/users").json()["users"] == []
