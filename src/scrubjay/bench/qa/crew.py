"""Workers side by side, and the sign that ends their work before it is done."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from scrubjay.errors import CallPutOffError, RunStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")

FAILURES_IN_A_ROW = 3  # calls put off, after which the provider counts as away for all


class StopSign:
    """Why no further work is begun, once that is so; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason = ""
        self._failures = 0

    @property
    def reason(self) -> str:
        """Why it ended; "" while it goes on."""
        with self._lock:
            return self._reason

    def put_up(self, reason: str) -> None:
        with self._lock:
            self._reason = self._reason or reason

    def note_failure(self, error: RunStoppedError) -> None:
        """Go on after a call that was put off, unless it is one of several in a row; end at once where nothing would fare better."""
        with self._lock:
            self._failures += 1
            if not isinstance(error, CallPutOffError) or self._failures >= FAILURES_IN_A_ROW:
                self._reason = self._reason or str(error)

    def note_success(self) -> None:
        with self._lock:
            self._failures = 0


def work_through(
    items: Sequence[Item],
    work: Callable[[Item], None],
    *,
    workers: int,
    sign: StopSign,
    break_off: Callable[[], None],
) -> None:
    """Do the work of every item until the sign is up; on Ctrl-C, or an error, break off what is under way and raise it."""

    def do(item: Item) -> None:
        if sign.reason:
            return
        try:
            work(item)
        except RunStoppedError as error:
            sign.note_failure(error)
        except BaseException as error:
            sign.put_up(str(error) or type(error).__name__)
            raise

    with ThreadPoolExecutor(workers, thread_name_prefix="scrubjay-bench") as pool:
        tasks = [pool.submit(do, item) for item in items]
        try:
            for task in tasks:
                task.result()
        except BaseException:
            sign.put_up("interrupted")
            break_off()
            raise
