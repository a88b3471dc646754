"""Which memory a call over the Model Context Protocol is about, and whether its caller may do that."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from scrubjay.memory import Memory
    from scrubjay.server.keys import Right


class Memories(Protocol):
    """Gives the memory that the call under way is about."""

    def borrow(self, right: Right, /) -> AbstractContextManager[Memory]:
        """Give the caller's memory, which stays open during the block; raise InputError where the right is lacking."""
        ...


class OneMemory:
    """One memory, for every caller and everything."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @contextmanager
    def borrow(self, _: Right, /) -> Iterator[Memory]:
        yield self._memory
