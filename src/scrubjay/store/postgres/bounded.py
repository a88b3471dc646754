"""A connection that doesn't wait for ever: a host that was cut off says nothing, not even that it is gone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.rows import TupleRow

if TYPE_CHECKING:
    from psycopg.abc import PQGen

Result = TypeVar("Result")

LOOK_SECONDS = 0.1  # between looks at the clock

KEEP_ALIVE = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""By which the system finds out that a host is gone, in half a minute: where something between answers for it, it can't."""


class SilenceError(psycopg.OperationalError):
    """The server said nothing for too long."""


class BoundedConnection(psycopg.Connection[TupleRow]):
    """Raises SilenceError, and is closed, where nothing comes for `answer_seconds` while an answer is awaited."""

    answer_seconds: float | None = None  # None: as long as it takes

    def wait(
        self, gen: PQGen[Result], interval: float = LOOK_SECONDS, timeout: float | None = None
    ) -> Result:
        try:
            return super().wait(watch(gen, self.answer_seconds), interval, timeout)
        except SilenceError:
            self.pgconn.finish()  # what comes late must not be taken for the answer to the next statement
            raise


def watch(steps: PQGen[Result], seconds: float | None) -> PQGen[Result]:
    """Go through the steps of an exchange; raise SilenceError where nothing can be read or written for so long."""
    heard = time.monotonic()
    ready: Any = None  # which starts a generator
    while True:
        try:
            awaited = steps.send(ready)
        except StopIteration as end:
            result: Result = end.value
            return result
        ready = yield awaited
        if ready:
            heard = time.monotonic()
        elif seconds is not None and time.monotonic() - heard > seconds:
            raise SilenceError(f"nothing was heard for {seconds:g} s")
