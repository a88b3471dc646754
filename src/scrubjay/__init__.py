"""ScrubJay: a long-term memory for LLM agents that keeps every turn and shows its evidence.

from scrubjay import Memory

with Memory("alice.jay") as memory:
    memory.add({"role": "user", "name": "Alice", "content": "I moved to Lisbon."}, session_id="monday")
    print(memory.recall("Where does Alice live?").text)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from scrubjay._version import __version__

if TYPE_CHECKING:
    from scrubjay.answer import Answer
    from scrubjay.async_memory import AsyncMemory
    from scrubjay.datatypes import Hit, Link, NewTurn, Role, Session, TimeRange, Turn
    from scrubjay.errors import ScrubJayError
    from scrubjay.evidence import Evidence
    from scrubjay.home import MemoryHome
    from scrubjay.memory import Memory
    from scrubjay.migration import migrate
    from scrubjay.postgres_home import PostgresHome
    from scrubjay.settings import Settings

HOME_OF_NAME = {
    "Answer": "scrubjay.answer",
    "AsyncMemory": "scrubjay.async_memory",
    "Evidence": "scrubjay.evidence",
    "Hit": "scrubjay.datatypes",
    "Link": "scrubjay.datatypes",
    "Memory": "scrubjay.memory",
    "MemoryHome": "scrubjay.home",
    "NewTurn": "scrubjay.datatypes",
    "PostgresHome": "scrubjay.postgres_home",
    "Role": "scrubjay.datatypes",
    "ScrubJayError": "scrubjay.errors",
    "Session": "scrubjay.datatypes",
    "Settings": "scrubjay.settings",
    "TimeRange": "scrubjay.datatypes",
    "Turn": "scrubjay.datatypes",
    "migrate": "scrubjay.migration",
}
"""The public names, loaded when first used, so that importing the package costs next to nothing."""

__all__ = [
    "Answer",
    "AsyncMemory",
    "Evidence",
    "Hit",
    "Link",
    "Memory",
    "MemoryHome",
    "NewTurn",
    "PostgresHome",
    "Role",
    "ScrubJayError",
    "Session",
    "Settings",
    "TimeRange",
    "Turn",
    "__version__",
    "migrate",
]


def __getattr__(name: str) -> object:
    if name not in HOME_OF_NAME:
        raise AttributeError(f"module 'scrubjay' has no attribute {name!r}")
    return getattr(import_module(HOME_OF_NAME[name]), name)


def __dir__() -> list[str]:
    return __all__
