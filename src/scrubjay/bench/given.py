"""Data sets as the scripts of benchmarks/ are given them: `NAME` or `NAME=PATH`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.fitting import split_labelled
from scrubjay.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrubjay.bench.questions import Dataset

HELD_OUT = "held-out"  # of our own conversations, those that nothing was fitted to


def load_given(given: Sequence[str]) -> Iterator[Dataset]:
    """Load each data set; one whose file isn't there is skipped, and standard error says so.

    What can't be loaded ends the script with a line that says why.
    """
    for each in given:
        name, _, path = each.partition("=")
        if path and not Path(path).exists():
            sys.stderr.write(f"skipped: {path} isn't there\n")
            continue
        try:
            yield load_named(name, path)
        except (InputError, NotFoundError) as error:
            raise SystemExit(f"{each}: {error}") from error


def load_named(name: str, path: str) -> Dataset:
    if name == HELD_OUT:
        return replace(split_labelled(Path(path or "datasets"))[1], name=HELD_OUT)
    return load_dataset(name, Path(path) if path else None)
