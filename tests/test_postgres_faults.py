"""A database that is away, full, read-only or not what is needed: typed errors, and nothing lost or doubled."""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import threading
import time
import uuid
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import psycopg
import pytest
from postgres_server import NOBODY, PostgresServer, fresh_database, with_parts
from small_memories import EMBEDDER, PATIENCE, fill, say, texts, working

from scrubjay.errors import (
    StoreAccessError,
    StoreBusyError,
    StoreClosedError,
    StoreError,
    StoreFullError,
    StoreNewerError,
    StoreReadOnlyError,
    StoreSetupError,
    StoreUnavailableError,
)
from scrubjay.memory import Memory
from scrubjay.settings import Settings
from scrubjay.store.postgres import open_database
from scrubjay.store.postgres.transaction import begin
from scrubjay.store.postgres.values import memory_key
from scrubjay.store_settings import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Result = TypeVar("Result")

PATIENT = PostgresSettings(partitions=2, connections=3, patience_seconds=60, connect_seconds=10)
HASTY = replace(PATIENT, patience_seconds=0.1, connect_seconds=1)
UNLOCKED_SOON = replace(PATIENT, lock_seconds=0.2)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Give a server that may be stopped."""
    started = PostgresServer()
    yield started
    started.remove()


@pytest.fixture
def database(server: PostgresServer) -> Iterator[str]:
    with fresh_database(server.dsn()) as dsn:
        yield dsn


def open_memory(dsn: str, postgres: PostgresSettings = PATIENT, *, read_only: bool = False) -> Memory:
    return Memory(
        dsn,
        user_id="alice",
        settings=Settings(postgres=postgres),
        embedder=EMBEDDER,
        read_only=read_only,
    )


@contextmanager
def changed(database: str, *statements: str) -> Iterator[None]:
    """Change a database behind its memories' back."""
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
        yield


# --- away ---


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_restarted(server: PostgresServer, database: str, how: str) -> None:
    """A memory outlives a restart of the server, or its crash: what was acknowledged is there, and the next call works."""
    with open_memory(database, PATIENT) as memory:
        fill(memory)
        getattr(server, how)()
        server.start()
        assert len(texts(memory)) == 11
        assert memory.search("Who plays the bassoon?")
        getattr(server, how)()
        server.start()
        say(memory, "written after the restart")
        assert memory.search("written after")[0].turn.text == "written after the restart"


def test_a_call_waits_for_the_server(server: PostgresServer, database: str) -> None:
    """A call made while the server is away goes on when it is back, within its patience."""
    with open_memory(database, PATIENT) as memory:
        server.stop()
        later = threading.Timer(0.5, server.start)
        later.start()
        try:
            say(memory, "patience")
        finally:
            later.join()
        assert texts(memory) == ["patience"]


def test_gone(server: PostgresServer, database: str) -> None:
    """While the server stays away each call fails by one typed error, and the memory works once it is back."""
    with open_memory(database) as memory:
        fill(memory)
    with once_back(lambda: open_memory(database, HASTY)) as memory:
        server.stop()
        try:
            for use in (lambda: say(memory, "x"), lambda: texts(memory), lambda: memory.recall("bassoon")):
                with pytest.raises(StoreUnavailableError, match="can't be reached"):
                    use()
            with pytest.raises(StoreUnavailableError):
                open_memory(database, HASTY)
        finally:
            server.start()
        assert len(once_back(lambda: texts(memory))) == 11
        assert memory.doctor() == ()


def once_back(call: Callable[[], Result]) -> Result:
    """Call until the database is found to be there again; give what the call gives."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except StoreUnavailableError:
            assert time.monotonic() < give_up


def test_connections_cut_at_random(server: PostgresServer, database: str) -> None:
    """Turns added while an operator ends our connections again and again are there once each, ids or not."""

    chance = random.Random(5)
    pauses = iter([chance.expovariate(8) for _ in range(300)])

    def cut() -> None:
        pause = next(pauses, None)
        if pause is None:  # enough, however slowly this machine gets on
            time.sleep(0.1)
            return
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'scrubjay'"
            )
        time.sleep(pause)

    with open_memory(database, PATIENT) as memory:
        with working(cut):
            for number in range(60):
                say(memory, f"number {number}")
                assert len(texts(memory)) == number + 1
        assert texts(memory) == [f"number {number}" for number in range(60)]
        assert memory.doctor() == ()


class Wire:
    """Stands between a client and a server; cuts a connection when it sees a COMMIT, as often as it is told to."""

    def __init__(self, path: Path) -> None:
        self.cuts = 0
        self.deliver = False  # the COMMIT that is cut off
        self.for_good = False  # no connection is made after that
        self.silences = 0  # connections to fall silent, without an end, where they see a COMMIT
        self.on_silence: Callable[[], object] = lambda: None
        self.is_deaf = False  # no connection is forwarded any more, nor ended
        self._over = threading.Event()
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._path))
            for pump in (self._up, self._down):
                self._threads.append(threading.Thread(target=pump, args=(client, server)))
                self._threads[-1].start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        while data := receive(client):
            if self.is_deaf or (self.silences and b"COMMIT" in data and b"BEGIN" not in data):
                if not self.is_deaf:
                    self.silences -= 1
                    self.on_silence()
                self._over.wait()
                break
            if self.cuts and b"COMMIT" in data and b"BEGIN" not in data:
                self.cuts -= 1
                if self.for_good:
                    hang_up(self._listener)
                hang_up(client)
                if self.deliver:
                    server.sendall(data)
                    server.shutdown(socket.SHUT_WR)
                    while receive(server):
                        pass
                break
            server.sendall(data)
        hang_up(server)

    def _down(self, client: socket.socket, server: socket.socket) -> None:
        while data := receive(server):
            with suppress(OSError):
                client.sendall(data)
        hang_up(client)

    def close(self) -> None:
        self._over.set()
        hang_up(self._listener)
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def receive(end: socket.socket) -> bytes:
    try:
        return end.recv(65_536)
    except OSError:
        return b""


def hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@pytest.fixture
def wire(server: PostgresServer) -> Iterator[Wire]:
    opened = Wire(server.folder / ".s.PGSQL.5432")
    yield opened
    opened.close()


@pytest.mark.parametrize("deliver", [False, True], ids=["before", "after"])
def test_cut_at_the_commit(wire: Wire, database: str, *, deliver: bool) -> None:
    """A turn whose COMMIT, or the answer to it, was lost on the way is written once and acknowledged."""
    dsn = with_parts(database, host="127.0.0.1", port=str(wire.port))
    with open_memory(dsn, PATIENT) as memory:
        wire.deliver = deliver
        for number in range(5):
            wire.cuts = 1
            (turn_id,) = say(memory, f"number {number}")
            assert (turn_id, wire.cuts) == (f"monday:{number}", 0)
        assert texts(memory) == [f"number {number}" for number in range(5)]
        assert memory.doctor() == ()


@pytest.mark.parametrize("deliver", [False, True], ids=["before", "after"])
def test_cut_at_the_commit_and_gone(wire: Wire, database: str, *, deliver: bool) -> None:
    """Where the database stays away after a COMMIT was sent, the error says that the turn may be there, and whole."""
    dsn = with_parts(database, host="127.0.0.1", port=str(wire.port))
    with open_memory(database) as memory:
        say(memory, "before")
    with once_back(lambda: open_memory(dsn, HASTY)) as memory:
        wire.deliver, wire.for_good, wire.cuts = deliver, True, 1
        with pytest.raises(StoreUnavailableError, match="whole or not at all"):
            say(memory, "perhaps", "also perhaps")
    with open_memory(database) as memory:
        expected = ["before", "perhaps", "also perhaps"] if deliver else ["before"]
        assert texts(memory) == expected


SOON = PostgresSettings(
    partitions=2, connections=3, patience_seconds=30, connect_seconds=2, answer_seconds=0.5, lock_seconds=30
)


def test_cut_off_in_the_middle(wire: Wire, database: str) -> None:
    """A write whose connection falls silent, without an end, is done again on another: it is there once, and soon.

    What was cut off holds the memory until the server has heard nothing of it for too long.
    """
    dsn = with_parts(database, host="127.0.0.1", port=str(wire.port))
    open_memory(database).close()  # that the tables are made may take longer than an answer
    with open_memory(dsn, SOON) as memory:
        say(memory, "before")
        wire.silences = 2
        assert say(memory, "cut off twice") == ("monday:1",)
        assert (wire.silences, texts(memory)) == (0, ["before", "cut off twice"])


def test_cut_off_for_good(wire: Wire, database: str) -> None:
    """While a host that was cut off hears nothing, its calls end in a typed error; others write to the memory."""
    dsn = with_parts(database, host="127.0.0.1", port=str(wire.port))
    impatient = replace(SOON, patience_seconds=0.1)
    with open_memory(database) as other, once_back(lambda: open_memory(dsn, impatient)) as memory:
        say(other, "before")
        assert once_back(lambda: texts(memory)) == ["before"]
        wire.silences = 1
        wire.is_deaf = True
        with pytest.raises(StoreUnavailableError):
            say(memory, "lost on the way")
        for use in (lambda: texts(memory), lambda: open_memory(dsn, impatient)):
            with pytest.raises(StoreUnavailableError, match="can't be reached"):
                use()
        say(other, "meanwhile")
        wire.is_deaf = False
        assert once_back(lambda: texts(memory)) == ["before", "meanwhile"]
        once_back(lambda: memory.add({"role": "user", "content": "a tuba", "id": "t"}, session_id="s"))
        assert other.search("tuba")[0].turn.text == "a tuba"


def test_cut_off_at_the_commit_and_gone(wire: Wire, database: str) -> None:
    """Where a COMMIT was sent into silence, and what was cut off holds the memory, the error says that it may be there.

    The server ends what was cut off after a second; whoever waits for the memory by then has it at once.
    """
    dsn = with_parts(database, host="127.0.0.1", port=str(wire.port))
    hasty = replace(SOON, answer_seconds=30.0, lock_seconds=0.2)
    with open_memory(dsn, hasty) as memory, closing(psycopg.connect(database)) as next_in_line:
        say(memory, "before")
        (place,) = [memory._store._place]  # type: ignore[attr-defined] # of a memory in PostgreSQL
        for connection in place._database._pool._pool:
            connection.answer_seconds = 0.5  # the client gives up before the server does
        wire.silences = 1
        wire.on_silence = lambda: next_in_line.pgconn.send_query(
            b"BEGIN; SELECT 1 FROM scrubjay.memory FOR UPDATE"
        )
        with pytest.raises(StoreUnavailableError, match="whole or not at all"):
            say(memory, "perhaps")
    with open_memory(database, SOON) as memory:
        say(memory, "after")
        assert texts(memory) == ["before", "after"]


# --- won't take it ---


def test_a_full_disk(database: str) -> None:
    """A write that finds the disk full fails by a typed error with nothing of it stored; later ones work."""
    with open_memory(database) as memory:
        say(memory, "before")
        full = (
            "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
        )
        trigger = "CREATE TRIGGER fill BEFORE INSERT ON scrubjay.passage FOR EACH ROW EXECUTE FUNCTION fill()"
        with changed(database, full, trigger), pytest.raises(StoreFullError, match="disk is full"):
            say(memory, "lost", session_id="new")
        assert (texts(memory), len(memory.sessions())) == (["before"], 1)
        with changed(database, "DROP TRIGGER fill ON scrubjay.passage"):
            say(memory, "after")
        assert texts(memory) == ["before", "after"]


@pytest.fixture
def small_disk(server: PostgresServer, tmp_path: Path) -> Iterator[str]:
    """Give a database on a disk of 48 MB, of which a file takes what is left but a few."""
    disk = server.folder / "small"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m,mode=0777", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    place = disk / "tables"
    place.mkdir()
    if os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    try:
        with changed(server.dsn(), f"CREATE TABLESPACE small LOCATION '{place}'"):
            pass
        made = "CREATE DATABASE small ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0 TABLESPACE small"
        with changed(server.dsn(), made):
            pass
        yield server.dsn("small")
        with changed(server.dsn(), "DROP DATABASE small WITH (FORCE)", "DROP TABLESPACE small"):
            pass
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill_up(memory: Memory, stored: list[str]) -> None:
    """Add turns until that fails; keep what was acknowledged."""
    for number in range(2_000):
        words = [f"{number} {place} {uuid.uuid4()} " * 20 for place in range(20)]
        say(memory, *words)
        stored += words


def test_a_disk_that_is_full(server: PostgresServer, small_disk: str) -> None:
    """On a disk that fills up, what was acknowledged is there and nothing else; with space again, writing goes on."""
    ballast = server.folder / "small" / "ballast"
    with open_memory(small_disk) as memory:
        say(memory, "before")
        free = shutil.disk_usage(ballast.parent).free
        ballast.write_bytes(bytes(free - 1_000_000))
        stored = ["before"]
        with pytest.raises(StoreFullError, match="disk is full"):
            fill_up(memory, stored)
        assert texts(memory) == stored
        ballast.unlink()
        say(memory, "after")
        assert texts(memory) == [*stored, "after"]
        assert memory.doctor() == ()


def test_read_only(database: str) -> None:
    """A database that takes no writes is read and asked; a write is refused by a typed error."""
    with open_memory(database) as memory:
        fill(memory)
    name = str(psycopg.conninfo.conninfo_to_dict(database)["dbname"])
    read_only = f"ALTER DATABASE {name} SET default_transaction_read_only = on"
    with changed(database, read_only), open_memory(database) as memory:
        assert memory.recall("Who plays the bassoon?").links
        with pytest.raises(StoreReadOnlyError, match="read-only"):
            say(memory, "x")
        with pytest.raises(StoreReadOnlyError):
            memory.forget(everything=True)
        assert len(texts(memory)) == 11


def test_locked(database: str) -> None:
    """A write waits for another's to the same memory, gives up after a while, and stores nothing; reads don't wait."""
    with open_memory(database, UNLOCKED_SOON) as memory:
        say(memory, "before")
        with psycopg.connect(database) as other:
            other.execute("SELECT 1 FROM scrubjay.memory FOR UPDATE")
            with pytest.raises(StoreBusyError, match="try again"):
                say(memory, "x")
            assert texts(memory) == ["before"]
        say(memory, "after")
        assert texts(memory) == ["before", "after"]


def test_a_writer_cut_off(database: str) -> None:
    """Where a writer was cut off in the middle, the server ends its transaction, and others get at the memory."""
    with open_memory(database, PATIENT) as memory:
        cut_off = open_database(database, UNLOCKED_SOON)
        with suppress(StoreUnavailableError), cut_off.borrow() as connection:
            assert begin(connection, memory_key("alice"), writing=UNLOCKED_SOON)
            say(memory, "hello")
            assert texts(memory) == ["hello"]
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        cut_off.close()


def test_all_connections_in_use(database: str) -> None:
    """Where every connection of a process is in use for long, the error says so."""
    few = replace(HASTY, connections=1)
    open_memory(database).close()
    with once_back(lambda: open_memory(database, few)) as memory:
        place = memory._store._place  # type: ignore[attr-defined] # of a memory in PostgreSQL
        with place._database.borrow(), pytest.raises(StoreUnavailableError, match="1 connections"):
            texts(memory)
        assert once_back(lambda: texts(memory)) == []


# --- not what is needed ---


def test_wrong_addresses(server: PostgresServer, database: str) -> None:
    """A database, role or server that isn't there is told apart, at once, and no password is shown."""
    with pytest.raises(StoreAccessError, match="nowhere"):
        open_memory(server.dsn("nowhere"))
    with pytest.raises(StoreAccessError, match="stranger"):
        open_memory(with_parts(database, user="stranger", password="sesame"))
    with pytest.raises(StoreUnavailableError, match="can't be reached") as caught:
        open_memory("postgresql://ann:sesame@127.0.0.1:1/x")
    assert "sesame" not in str(caught.value)


def test_no_pgvector(server: PostgresServer, database: str) -> None:
    """Without pgvector, or with one too old, the error says what to run, and no table is made."""
    with changed(server.dsn(), "CREATE ROLE tenant LOGIN"):
        with pytest.raises(StoreSetupError, match="CREATE EXTENSION vector"):
            open_memory(with_parts(database, user="tenant"))
        old = "UPDATE pg_extension SET extversion = '0.6.2' WHERE extname = 'vector'"
        too_old = pytest.raises(StoreSetupError, match=r"0\.6\.2.*0\.7")
        with changed(database, "CREATE EXTENSION vector", old), too_old:
            open_memory(database)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT to_regnamespace('scrubjay')").fetchone() == (None,)


def test_not_utf8(server: PostgresServer) -> None:
    """A database that can't hold every language is refused."""
    name = "ascii_only"
    made = f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
    with changed(server.dsn(), made), pytest.raises(StoreSetupError, match="UTF8"):
        open_memory(server.dsn(name))


def test_tables_of_another_version(database: str) -> None:
    """Tables of a newer ScrubJay are refused; none at all can't be read."""
    with pytest.raises(StoreSetupError, match="open it once for writing"):
        open_memory(database, read_only=True)
    open_memory(database).close()
    newer = "INSERT INTO scrubjay.migration VALUES (99, 0, 2)"
    refused = pytest.raises(StoreNewerError, match=r"version 99.*pip install -U scrubjay")
    with changed(database, newer), refused:
        open_memory(database)


def test_tables_gone(database: str) -> None:
    """Tables dropped under an open memory, and rights taken away, are typed errors."""
    with open_memory(database) as memory:
        say(memory, "hello")
        gone = pytest.raises(StoreError, match="node_record")
        with changed(database, "DROP TABLE scrubjay.node_record"), gone:
            memory.recall("hello")


def test_deleted_under_an_open_memory(database: str) -> None:
    """A memory whose rows were deleted, or made anew, says so to whoever had it open."""
    with open_memory(database) as memory:
        say(memory, "hello")
        with changed(
            database,
            *(
                f"DELETE FROM scrubjay.{table}"
                for table in ("work", "passage", "turn", "encoding", "session", "memory")
            ),
        ):
            for _ in range(2):
                with pytest.raises(StoreClosedError, match="deleted or replaced"):
                    say(memory, "lost?")
                with open_memory(database) as again:
                    assert texts(again) == []
        assert memory.is_gone


def test_nothing_is_shown(database: str) -> None:
    """What a memory calls itself names the database and the user, and holds no password."""
    with open_memory(with_parts(database, password="sesame")) as memory:
        assert re.fullmatch(r"postgresql://.*scrubjay_\w+ \(memory of 'alice'\)", memory.path)
        assert "sesame" not in memory.path
