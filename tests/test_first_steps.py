"""The first steps of a new user, as the pages give them: from the demo's memory to a page, a server and an agent's client."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import TextContent
from mcp_processes import environment
from servers import free_port
from small_memories import PATIENCE

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-c", "from scrubjay.cli import main; main()"]
MEMORY = "memories/sample.jay"
QUESTION = "How did the missing dachshund really get into the cellar?"


def lines_of(page: str) -> list[list[str]]:
    """Give the words of each line of a page's first block of shell commands."""
    block = re.search(r"```(?:bash)?\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL)
    assert block is not None
    return [shlex.split(line, comments=True) for line in block[1].splitlines()]


STEPS = [("quickstart.md", line) for line in lines_of("quickstart.md")] + [
    ("page.md", line) for line in lines_of("page.md")
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder as the demo leaves it."""
    told = (ROOT / "tools" / "demo.py").read_text("utf-8")
    sample, memory = re.findall(r'^(?:SAMPLE|MEMORY) = Path\("(.*)"\)', told, re.MULTILINE)
    assert memory == MEMORY
    folder = tmp_path_factory.mktemp("demo")
    (folder / MEMORY).parent.mkdir()
    done = run(folder, "import", str(ROOT / sample), "--memory", MEMORY)
    assert done.returncode == 0, done.stderr
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )


def serve(folder: Path, *arguments: str) -> None:
    """Start what serves the page, see the sample in it, and ask about it."""
    port = free_port()
    with subprocess.Popen(
        [*COMMAND, *arguments, "--port", str(port)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(),
    ) as process:
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
                wait_for(client, process)
                assert "<title>ScrubJay</title>" in client.get("/").text
                assert client.get("/v1/users").json()["users"] == ["sample"]
                found = client.post("/v1/users/sample/recall", json={"question": QUESTION}).json()
                assert "The boy from the bakery" in found["text"]
        finally:
            process.kill()


def wait_for(client: httpx2.Client, process: subprocess.Popen[str]) -> None:
    """Wait until the server answers; fail if it ends instead."""
    while True:
        assert process.poll() is None, process.communicate()
        try:
            client.get("/healthz")
        except httpx2.ConnectError:
            time.sleep(0.05)
        else:
            return


def recall(folder: Path, arguments: list[str]) -> str:
    """Ask a server over standard input and output, with the SDK's client."""

    async def ask() -> str:
        server = StdioServerParameters(
            command=COMMAND[0], args=[*COMMAND[1:], *arguments], cwd=folder, env=environment()
        )
        with anyio.fail_after(PATIENCE):
            async with Client(server) as client:
                (content,) = (await client.call_tool("recall", {"question": QUESTION})).content
                assert isinstance(content, TextContent)
                return content.text

    return anyio.run(ask)


@pytest.mark.parametrize(("page", "line"), STEPS, ids=[" ".join(line[:3]) for _, line in STEPS])
def test_each_step_works(demo: Path, page: str, line: list[str]) -> None:
    """Each line works as it stands in the folder that the demo leaves: it is run, or what it installs is there to be had."""
    match line:
        case [".", activate]:
            assert activate == ".venv/bin/activate"  # what the Makefile makes
        case ["pip", "install", wanted]:
            project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
            name, extras = re.fullmatch(r"([\w-]+)\[(.*)\]", wanted).groups()  # type: ignore[union-attr]  # it has extras
            assert name == project["name"]
            assert set(extras.split(",")) <= set(project["optional-dependencies"])
        case ["scrubjay", "ui", *rest]:
            serve(demo, "ui", "--no-open", *rest)
        case ["scrubjay", "serve", *rest]:
            serve(demo, "serve", *rest)
        case ["claude", "mcp", "add", _, "--", "$PWD/.venv/bin/scrubjay", *rest]:
            told = recall(demo, [word.replace("$PWD", str(demo)) for word in rest])
            assert "The boy from the bakery" in told
        case ["scrubjay", *rest]:
            done = run(demo, *rest)
            assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
        case _:
            pytest.fail(f"{page}: nobody knows how to try {line}")
