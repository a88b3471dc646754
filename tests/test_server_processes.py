"""One server of several processes: what one of them was told the others know, and none is missed when it dies."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2
import pytest
from models import Answer, serve
from servers import RunningServer, add_spoken, running_server, user_path
from small_memories import PATIENCE, start

from scrubjay.home import MemoryHome
from scrubjay.server.crew import Board, Crew

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STARTED = re.compile(r"Started server process \[(\d+)\]")
NO_RECORDS = '{"records": [], "note": ""}'


@contextmanager
def several(folder: Path, **environment: str) -> Iterator[tuple[RunningServer, list[int]]]:
    """Run a server of two processes; give it and their ids."""
    with running_server(folder, "--processes", "2", TMPDIR=str(folder), **environment) as server:
        yield server, [started(server), started(server)]


def started(server: RunningServer) -> int:
    """Wait until a process more has started; give its id."""
    assert server.process.stderr is not None
    while line := server.process.stderr.readline():
        found = STARTED.search(json.loads(line)["event"])
        if found:
            return int(found[1])
    raise AssertionError("the server ended")


@contextmanager
def only(process: int, processes: list[int]) -> Iterator[None]:
    """Have new connections answered by one of the processes alone."""
    others = [other for other in processes if other != process]
    for other in others:
        os.kill(other, signal.SIGSTOP)
    try:
        yield
    finally:
        for other in others:
            with suppress(ProcessLookupError):  # replaced, where a busy machine kept it stopped for long
                os.kill(other, signal.SIGCONT)


def client_of(server: RunningServer) -> httpx2.Client:
    return httpx2.Client(base_url=server.url, timeout=PATIENCE, verify=False)  # there is no TLS here


def half_sent(server: RunningServer) -> socket.socket:
    """Send a request whose body doesn't come."""
    sending = socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0))
    head = f"POST {user_path('mira', '/turns')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
    sending.sendall(head.encode())
    return sending


def wait_for_under_way(server: RunningServer, number: int) -> None:
    """Wait until so many requests are told as under way in all processes, the one that asks among them."""
    patient = time.monotonic() + PATIENCE
    told = f"scrubjay_http_requests_under_way {number}.0"
    with client_of(server) as client:
        while told not in client.get("/metrics").text:
            assert time.monotonic() < patient


def test_all_know_what_one_was_told(tmp_path: Path) -> None:
    """What was added or forgotten through one process the other finds, or no more; counts are of both together."""
    with several(tmp_path) as (server, processes):
        first, second = processes
        with only(first, processes), client_of(server) as client:
            add_spoken(client)
        for process in (second, first):
            with only(process, processes), client_of(server) as client:
                body = {"question": "Who held the ladder?"}
                found = client.post(user_path("mira", "/recall"), json=body)
                assert len(found.json()["links"]) == 3
        with only(second, processes), client_of(server) as client:
            assert client.post(user_path("mira", "/forget"), json={"session": "kitchen"}).is_success
        with only(first, processes), client_of(server) as client:
            assert client.post(user_path("mira", "/recall"), json=body).json()["links"] == []
            counts = client.get("/metrics").text
        assert re.search(r'requests_total\{method="POST",route=".*recall",status="200"\} 3\.0', counts)
        server.stop()
        assert server.process.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mira.jay"]


def test_operations_are_known_to_all(tmp_path: Path) -> None:
    """An operation can be asked about at any process, is one at a time over all, and has stopped where its process died."""
    with (
        serve(*[Answer(content=NO_RECORDS, seconds=PATIENCE)] * 4) as model,
        several(tmp_path, SCRUBJAY_MODEL="served", SCRUBJAY_BASE_URL=model.url) as (server, processes),
    ):
        first, second = processes
        path = user_path("mira", "/consolidate")
        with only(first, processes), client_of(server) as client:
            add_spoken(client)
            begun = client.post(path, json={"flush": True})
            assert begun.status_code == 202
        with only(second, processes), client_of(server) as client:
            assert client.get(begun.headers["Location"]).json()["state"] == "running"
            again = client.post(path, json={"flush": True})
            assert (again.status_code, again.json()["operation_id"]) == (409, begun.json()["operation_id"])
        with only(first, processes), closing(half_sent(server)):
            wait_for_under_way(server, 2)
            os.kill(first, signal.SIGKILL)
        third = started(server)
        with only(third, [second, third]), client_of(server) as client:
            ended = client.get(begun.headers["Location"]).json()
            assert (ended["state"], ended["ended_at"] is None) == ("stopped", False)
            assert client.post(path, json={"flush": True}).status_code == 202
        wait_for_under_way(server, 1)


def test_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    """When a process is killed the others go on answering, another takes its place, and no acknowledged turn is lost."""
    told = set()
    with several(tmp_path) as (server, processes):
        for number in range(30):
            if number == 10:
                os.kill(processes[0], signal.SIGKILL)
            turn = {"role": "user", "content": f"number {number}", "id": f"t{number}"}
            try:
                with client_of(server) as client:
                    answer = client.post(
                        user_path("mira", "/turns"), json={"session_id": "s", "turns": [turn]}
                    )
            except httpx2.TransportError:
                continue  # it was that process's
            assert answer.status_code == 200
            told.add(turn["id"])
        assert started(server) not in processes
        server.stop()
    with MemoryHome(tmp_path) as home, home.borrow("mira") as memory:
        assert told <= {turn.turn_id for turn in memory.turns()}
    assert len(told) >= 29


def test_processes_are_renewed_and_end_with_the_first(tmp_path: Path) -> None:
    """Told to begin anew, each process is replaced by another, and meanwhile every request is answered.

    When the one that watches over them is killed, they stop, and leave nothing open.
    """
    with several(tmp_path) as (server, processes):
        server.process.send_signal(signal.SIGHUP)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: [started(server), started(server)])
            while not waiting.done():
                with client_of(server) as client:
                    assert client.get("/readyz").status_code == 200
            new = waiting.result()
        assert not set(new) & set(processes)
        with client_of(server) as client:
            add_spoken(client)
        server.process.kill()
        server.process.communicate(timeout=PATIENCE)  # until nobody writes to its log any more
        with client_of(server) as client, pytest.raises(httpx2.TransportError):
            client.get("/healthz")
    assert not list(tmp_path.glob("*-wal"))


def test_a_server_that_cannot_start(tmp_path: Path) -> None:
    """What would keep every process from starting is said once, and the server ends."""
    options = ["--dsn", "postgresql://127.0.0.1:1/none", "--keys", str(tmp_path / "keys"), "--processes", "2"]
    code = "from scrubjay.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "serve", "--port", "0", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("scrubjay: ")
    assert len(ended.stderr.splitlines()) == 1


# --- who lives, and what is told ---


def hold(folder: Path, operation_id: str, user_id: str) -> None:
    """Put up an operation, and live until killed."""
    board = Board(Crew(folder))
    assert board.begin(operation_id, user_id, {"state": "running"}) is None
    (folder / "held").touch()
    time.sleep(PATIENCE)


def test_an_operation_of_a_dead_process_has_stopped(tmp_path: Path) -> None:
    """While its process lives an operation is under way and bars a second; as soon as it is dead, it has stopped."""
    crew = Crew(tmp_path)
    board = Board(crew)
    other = start(hold, tmp_path, "one", "mira")
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    assert other.pid is not None
    assert crew.lives(os.getpid())
    assert crew.lives(other.pid)
    assert board.find("mira", "one") == {"state": "running"}
    assert board.find("oleg", "one") is None
    assert board.begin("two", "mira", {"state": "running"}) == "one"
    assert board.begin("three", "oleg", {"state": "running"}) is None
    other.kill()
    other.join(PATIENCE)
    assert not crew.lives(other.pid)
    assert board.begin("two", "mira", {"state": "running"}) is None
    ended = board.find("mira", "one")
    assert ended is not None
    assert ended["state"] == "stopped"
    assert ended["ended_at"] is not None
    board.tell("two", {"state": "done"}, is_running=False)
    board.drop_oldest(kept=2)
    assert board.find("mira", "one") is None
    assert board.find("mira", "two") == {"state": "done"}
    board.close()
    crew.close()
