"""Fixtures that several test modules share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from postgres_server import fresh_database
from small_memories import fill, open_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrubjay.memory import Memory

settings.register_profile(  # a busy machine is no fault of the code's
    "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(  # what CI says of a commit is the same each time; others look for new cases
    "repeatable", settings.get_profile("unhurried"), derandomize=True, database=None
)
settings.load_profile("repeatable" if os.environ.get("CI") else "unhurried")


@pytest.fixture(params=["files", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give where a home may lie: a folder that isn't there yet, and an empty database."""
    if request.param == "files":
        yield str(tmp_path / "home")
    else:
        with fresh_database() as dsn:
            yield dsn


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Give an empty memory in a file."""
    with open_memory(tmp_path / "memory.jay") as opened:
        yield opened


@pytest.fixture
def full_memory(memory: Memory) -> Memory:
    """Give a memory that holds the small conversation."""
    return fill(memory)
