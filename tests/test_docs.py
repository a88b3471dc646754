"""What the documents show is what the code does."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
import typer.main
from postgres_server import shared_dsn

import scrubjay
from scrubjay.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_readme_is_short() -> None:
    """The README has under 150 lines."""
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python example of a page runs, one after the other, as printed."""
    monkeypatch.chdir(tmp_path)
    if page.name == "postgres.md":
        monkeypatch.setenv("DATABASE_URL", shared_dsn())
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        exec(compile(example, page.name, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a file of the repository leads to one."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def command_lines(page: Path) -> list[list[str]]:
    """Give the words after `scrubjay` of each line of a page's shell blocks that runs it, or has an agent's host run it."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    shell = "".join(
        block.replace("\\\n", "") for language, block in blocks if language in {"", "bash", "sh", "console"}
    )
    lines = re.findall(r"^(?:\$ )?(?:claude mcp add .* -- \S*)?scrubjay (.*)$", shell, re.MULTILINE)
    words = [shlex.split(line, comments=True) for line in lines]
    return [[*takewhile(lambda word: word not in {"|", ">", "&"}, line)] for line in words if "…" not in line]


SHOWN = [(page, words) for page in PAGES for words in command_lines(page) if page.name != "commands.md"]


@pytest.mark.parametrize(
    ("page", "words"), SHOWN, ids=[f"{page.name}: {' '.join(words)}" for page, words in SHOWN]
)
def test_shown_commands_are_taken(page: Path, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of a page is one that there is, with options and values that it takes."""
    for name in ("SCRUBJAY_MEMORY", "SCRUBJAY_HOME", "SCRUBJAY_DSN"):
        monkeypatch.delenv(name, raising=False)
    command, name = typer.main.get_command(app), "scrubjay"
    while (commands := getattr(command, "commands", None)) is not None:
        name, *words = words
        command = commands[name]
    command.make_context(name, list(words))


def test_generated_pages_are_current() -> None:
    """The reference pages are those the code gives."""
    subprocess.run([sys.executable, str(ROOT / "tools" / "build_docs.py"), "--check"], check=True)


def test_public_names() -> None:
    """Every public name is there, and no other is promised."""
    assert all(hasattr(scrubjay, name) for name in scrubjay.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = scrubjay.Nothing
    assert dir(scrubjay) == scrubjay.__all__
