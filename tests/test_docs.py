"""What the documents show is what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from postgres_server import shared_dsn

import scrubjay

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


def test_generated_pages_are_current() -> None:
    """The reference pages are those the code gives."""
    subprocess.run([sys.executable, str(ROOT / "tools" / "build_docs.py"), "--check"], check=True)


def test_public_names() -> None:
    """Every public name is there, and no other is promised."""
    assert all(hasattr(scrubjay, name) for name in scrubjay.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = scrubjay.Nothing
    assert dir(scrubjay) == scrubjay.__all__
