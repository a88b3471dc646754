"""The prompts, a file each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def load_prompt(name: str) -> str:
    """Give the text of a prompt; the files are part of the package and never change while it runs."""
    return files(__name__).joinpath(f"{name}.md").read_text("utf-8").strip()
