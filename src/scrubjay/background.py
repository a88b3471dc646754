"""WRITE, by itself: one thread that consolidates whenever turns were added, and stops with its memory."""

from __future__ import annotations

import atexit
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scrubjay.datatypes import BackgroundState, ConsolidationLimits, SegmentState, SessionEnds
from scrubjay.errors import InputError, ScrubJayError, SettingsError, StoreClosedError
from scrubjay.trace import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrubjay.chosen_model import ChosenModel
    from scrubjay.datatypes import ConsolidationReport, Segment, WritePath
    from scrubjay.settings import Settings
    from scrubjay.store import SegmentStore

BACKGROUND = "background"
THREAD_NAME = "scrubjay-background"
AT_ONCE = 0.0


class BackgroundConsolidation:
    """The worker of one memory: woken by adds, by retries that are due and by sessions gone idle.

    While the provider is away it waits longer and longer, whatever is added. What went wrong is in `state` until a
    run goes well; an error that isn't ours ends the worker and is raised in its thread.
    """

    def __init__(self, path: Callable[[], WritePath], model: ChosenModel, settings: Settings) -> None:
        """Start the thread; `path` gives what consolidation works with, which `reembed` changes."""
        self._path = path
        self._model = model
        self._settings = settings
        self._ends = SessionEnds(idle=timedelta(seconds=settings.background.idle_seconds))
        self._woken = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._working = False
        self._last_run_at: datetime | None = None
        self._next_run_at: datetime | None = None
        self._last_error = ""
        self._troubles = 0  # runs without success, one after the other
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()
        atexit.register(self.close)  # for a program that ends without closing its memory

    @property
    def state(self) -> BackgroundState:
        with self._lock:
            return BackgroundState(
                running=self._thread.is_alive() and not self._stop.is_set(),
                working=self._working,
                last_run_at=self._last_run_at,
                next_run_at=None if self._working else self._next_run_at,
                last_error=self._last_error,
            )

    def wake(self) -> None:
        """Say that there may be something to do; this returns at once."""
        self._woken.set()

    def close(self) -> None:
        """Take no further segment, end the call under way where the model is the memory's own, and wait for the thread."""
        atexit.unregister(self.close)
        self._stop.set()
        self._woken.set()
        self._model.break_off()
        self._thread.join()

    def _run(self) -> None:
        try:
            wait = AT_ONCE
            while self._sleep(wait):
                wait = self._work()
        except (
            StoreClosedError
        ) as error:  # deleted or replaced by another process: there is nothing to write to
            self._keep(str(error), working=False)
        except BaseException as error:
            self._keep(f"{type(error).__name__}: {error}", working=False)
            raise

    def _sleep(self, seconds: float) -> bool:
        """Wait until something is to be done; say False when it's time to stop.

        After a run that failed, an add doesn't shorten the wait.
        """
        with self._lock:
            self._next_run_at = datetime.now(UTC) + timedelta(seconds=seconds)
            troubled = self._troubles > 0
        if troubled:
            self._stop.wait(seconds)
        elif self._woken.wait(seconds):
            self._stop.wait(self._settings.background.settle_seconds)
        self._woken.clear()
        return not self._stop.is_set()

    def _work(self) -> float:
        """Consolidate once; give the seconds to wait for the next time."""
        self._keep(self._last_error, working=True)
        try:
            report = self._consolidate()
        except StoreClosedError:
            raise
        except ScrubJayError as error:
            self._troubles += 1
            self._keep(str(error), working=False)
            return self._pause()
        if report.retry_at is not None and not self._stop.is_set():
            self._troubles += 1
            self._keep(report.stopped, working=False)
            return max(self._pause(), (report.retry_at - datetime.now(UTC)).total_seconds())
        self._troubles = 0
        self._keep(f"{report.failed} replies could not be used" if report.failed else "", working=False)
        return self._until_due()

    def _consolidate(self) -> ConsolidationReport:
        from scrubjay.consolidation import consolidate

        limits = ConsolidationLimits()
        return consolidate(
            self._path(), self._model, self._ends, limits=limits, advance=ignore_progress, stop=self._stop
        )

    def _pause(self) -> float:
        """Give the seconds to wait after so many troubles, twice as long each time."""
        first = self._settings.encoder.retry_seconds
        return float(min(first * 2 ** (self._troubles - 1), self._settings.background.most_wait_seconds))

    def _until_due(self) -> float:
        """Give the seconds until a segment may be tried again, or a session may have gone idle."""
        path, idle = self._path(), self._settings.background.idle_seconds
        due = path.segments.next_lease_at(path.records.encodings()[0].encoding_row)
        if due is None:
            return idle
        settle = (
            self._settings.background.settle_seconds
        )  # another process may have it, or it was just given back
        return min(max((due - datetime.now(UTC)).total_seconds(), settle), idle)

    def _keep(self, error: str, *, working: bool) -> None:
        with self._lock:
            if self._working and not working:
                self._last_run_at = datetime.now(UTC)
            self._working, self._last_error = working, error


def list_failing(segments: SegmentStore) -> tuple[Segment, ...]:
    """Give the segments whose last attempt failed: those given up, then those that wait for another."""
    waiting = segments.segments(state=SegmentState.PENDING)
    return (
        *segments.segments(state=SegmentState.FAILED),
        *(segment for segment in waiting if segment.last_error),
    )


def open_background(
    mode: str | None,
    path: Callable[[], WritePath],
    model: ChosenModel,
    settings: Settings,
    *,
    read_only: bool = False,
) -> BackgroundConsolidation | None:
    """Start the worker that a memory is opened with, if any; raise SettingsError where there is no model for it."""
    if mode is None:
        return None
    if mode != BACKGROUND:
        raise SettingsError(f"consolidate: expected None or {BACKGROUND!r}, found {mode!r}")
    if read_only:
        raise InputError(f"a memory opened to be read only can't consolidate in the {BACKGROUND}")
    model.get()
    return BackgroundConsolidation(path, model, settings)
