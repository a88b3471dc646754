"""The MCP server as a process of its own, and a client that speaks its protocol line by line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from small_memories import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMAND = [sys.executable, "-c", "from scrubjay.cli import main; main()", "mcp"]
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def environment(**more: str) -> dict[str, str]:
    """Give this process's environment without what names a memory, a model or a token."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SCRUBJAY_")} | more


class LineClient:
    """Speaks JSON-RPC with a process; whatever stands on its standard output must be a message."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._number = 0

    def send(self, method: str, params: dict[str, Any], *, answered: bool = True) -> None:
        self._number += answered
        number = {"id": self._number} if answered else {}
        message = {"jsonrpc": "2.0", "method": method, "params": params, **number}
        pipe(self.process.stdin).write(json.dumps(message) + "\n")
        pipe(self.process.stdin).flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.send(method, params)
        while True:
            reply: dict[str, Any] = json.loads(pipe(self.process.stdout).readline())
            if reply.get("id") == self._number:
                return reply

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        return result


@contextmanager
def stdio_process(memory: Path) -> Iterator[LineClient]:
    """Start the server over a memory, and shake hands."""
    with subprocess.Popen(
        [*COMMAND, "--memory", str(memory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment(),
    ) as process:
        client = LineClient(process)
        try:
            client.ask("initialize", HELLO)
            client.send("notifications/initialized", {}, answered=False)
            yield client
        finally:
            process.kill()


@contextmanager
def http_process(memory: Path, *, token: str | None = None) -> Iterator[str]:
    """Start the server over a memory on a port of loopback, and give its address."""
    with subprocess.Popen(
        [*COMMAND, "--memory", str(memory), "--http", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment(**({} if token is None else {"SCRUBJAY_MCP_TOKEN": token})),
    ) as process:
        try:
            yield pipe(process.stderr).readline().rpartition(" ")[2].strip()
        finally:
            process.terminate()
            process.wait(PATIENCE)


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
