"""Fixtures that several test modules share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from small_memories import fill, open_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrubjay.memory import Memory

settings.register_profile("unhurried", deadline=None)  # a busy machine is no fault of the code's
settings.load_profile("unhurried")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Give an empty memory in a file."""
    with open_memory(tmp_path / "memory.jay") as opened:
        yield opened


@pytest.fixture
def full_memory(memory: Memory) -> Memory:
    """Give a memory that holds the small conversation."""
    return fill(memory)
