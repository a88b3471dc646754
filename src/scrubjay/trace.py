"""How long each stage of a read takes, and how much of its deadline is left."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scrubjay.datatypes import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Trace:
    """The stages of one read, in the order they ran."""

    def __init__(
        self, *, deadline: float | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Start the clock; `deadline` is in seconds from now."""
        self._clock = clock
        self._started = clock()
        self._deadline = deadline
        self._stages: list[Stage] = []

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(self._stages)

    @property
    def seconds_left(self) -> float | None:
        """How long until the deadline, 0 if it has passed; None where there is none."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - (self._clock() - self._started))

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed, so that a cheaper path is due."""
        return self._deadline is not None and self._clock() - self._started >= self._deadline

    @contextmanager
    def stage(self, name: str, *, fallback: str = "") -> Iterator[None]:
        """Time one stage; `fallback` says which cheaper path this is, and why."""
        started = self._clock()
        yield
        self._stages.append(
            Stage(name=name, milliseconds=(self._clock() - started) * 1000, fallback=fallback)
        )


def ignore_progress(*_done: int) -> None:
    """Tell nobody how far it is."""
