"""Servers for tests: an application in this process, and `scrubjay serve` as a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import uvicorn
from small_memories import EMBEDDER, PATIENCE
from starlette.testclient import TestClient

from scrubjay.home import MemoryHome
from scrubjay.server import ServerSettings, create_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx2
    from starlette.types import ASGIApp

    from scrubjay.llm import ChatModel
    from scrubjay.server.keys import KeyRing
    from scrubjay.settings import Settings

HERE = "http://localhost"
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
SPOKEN = (
    ("Mira", "We finally painted the kitchen, in a colour called pistachio."),
    ("Jonas", "Pistachio! And who held the ladder?"),
    ("Mira", "My neighbour Oleg did. He plays the bassoon, you know."),
)


def user_path(user_id: str, rest: str = "") -> str:
    """Give a path of a user's memory."""
    return f"/v1/users/{quote(user_id, safe='')}{rest}"


def spoken_turns() -> list[dict[str, str]]:
    return [
        {"role": "user", "name": name, "content": text, "created_at": f"2024-03-04T18:3{minute}:00+01:00"}
        for minute, (name, text) in enumerate(SPOKEN)
    ]


def add_spoken(
    client: TestClient | httpx2.Client, user_id: str = "mira", session_id: str = "kitchen"
) -> None:
    body = {"session_id": session_id, "turns": spoken_turns()}
    assert client.post(user_path(user_id, "/turns"), json=body).status_code == 200


@contextmanager
def application(
    folder: Path,
    *,
    keys: KeyRing | None = None,
    key: str = "",
    settings: ServerSettings | None = None,
    memory_settings: Settings | None = None,
    model: ChatModel | None = None,
    address: str = "127.0.0.1",
    raises: bool = True,
) -> Iterator[TestClient]:
    """Give a client of an application over a folder's memories, all in this process."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    home = MemoryHome(folder, embedder=EMBEDDER, model=model, settings=memory_settings)
    with (
        home,
        TestClient(
            create_app(home, keys=keys, settings=settings),
            base_url=HERE,
            client=(address, 1),
            headers=headers,
            raise_server_exceptions=raises,
        ) as client,
    ):
        yield client


def free_port() -> int:
    """Give a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@contextmanager
def listening(app: ASGIApp) -> Iterator[int]:
    """Serve an application on a socket, from a thread; give its port."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, server_header=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """`scrubjay serve` in a process of its own."""

    process: subprocess.Popen[str]
    url: str
    lines: list[dict[str, Any]]  # of its log, until it listened

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> list[dict[str, Any]]:
        """Stop it as a service manager does; give what it logged since it listened."""
        self.process.send_signal(signal.SIGTERM)
        _, logged = self.process.communicate(timeout=PATIENCE)
        return [json.loads(line) for line in logged.splitlines()]


@contextmanager
def running_server(place: Path | str, *options: str, **environment: str) -> Iterator[RunningServer]:
    """Start a server over the memories of a folder, or a database, on a free port, and end it if it still runs afterwards."""
    command = [
        sys.executable,
        "-c",
        "from scrubjay.cli import main; main()",
        "serve",
        "--dsn" if str(place).startswith("postgresql:") else "--home",
        str(place),
        "--port",
        "0",
        *options,
    ]
    process = subprocess.Popen(
        [*command, "--embedder", EMBEDDER],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stderr is not None
        lines: list[dict[str, Any]] = []
        url = None
        while url is None:
            line = process.stderr.readline()
            assert line, process.wait(PATIENCE)
            lines.append(json.loads(line))
            url = ADDRESS.search(lines[-1]["event"])
        yield RunningServer(process=process, url=url[0], lines=lines)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)
