"""WRITE, by processes of their own: workers take memories that have something to do from the queue of a database.

Each visit to a memory segments its open turns where that is due, and encodes one segment. Which segment is leased as
anywhere else, so workers, servers and commands may do the same at once; the queue only says where to look.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from scrubjay.chosen_model import ChosenModel
from scrubjay.consolidation import ITS_OWN_FAULT, Consolidation
from scrubjay.datatypes import ConsolidationLimits, SessionEnds
from scrubjay.encode import prompt_version
from scrubjay.errors import (
    ModelClosedError,
    ModelError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelReplyError,
    NotFoundError,
    ScrubJayError,
    StoreClosedError,
    StoreUnavailableError,
)
from scrubjay.metered import MeteredModel
from scrubjay.segmenting import close_segments
from scrubjay.store.postgres.budgets import BudgetLimits
from scrubjay.trace import ignore_progress

if TYPE_CHECKING:
    from scrubjay.datatypes import ConsolidationReport, EncodingRun, WritePath
    from scrubjay.llm import ChatModel
    from scrubjay.memory import Memory
    from scrubjay.postgres_home import PostgresHome
    from scrubjay.settings import Settings
    from scrubjay.store.postgres.work import Claim

LOGGER = logging.getLogger("scrubjay.worker")
ONE_SEGMENT = ConsolidationLimits(most_segments=1)
THREAD_NAME = "scrubjay-worker"
A_MINUTE = 60.0  # seconds
DAY_SPENT = (
    "the tokens that workers may spend in a day are spent: run it again tomorrow, or raise --tokens-per-day"
)


class Tell(Protocol):
    """Takes an event and its fields, none of which holds anybody's words."""

    def __call__(self, event: str, **fields: object) -> None: ...


def log_event(event: str, **fields: object) -> None:
    """Log an event as a line of JSON, where `json_log` is set up."""
    LOGGER.info(event, extra={"fields": fields})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker works."""

    concurrency: int = 4  # memories at a time
    idle: timedelta = timedelta(minutes=30)  # without a turn, after which a session's open segment closes
    budgets: BudgetLimits = field(default_factory=BudgetLimits)
    drain: bool = False  # end when nothing is left, or the provider is away
    poll_seconds: float = 1.0  # between looks at a queue in which nothing is due
    most_wait_seconds: float = 300.0  # between tries while the provider or the database is away


class Worker:
    """Threads that encode segments of whatever memory waits longest, until told to stop.

    While the provider is away all of them wait, longer and longer, and one asks it again each time.
    """

    def __init__(
        self, home: PostgresHome, model: ChatModel, settings: Settings, *, options: WorkerOptions, tell: Tell
    ) -> None:
        self._home = home
        self._model = model
        self._settings = settings
        self._options = options
        self._tell = tell
        self._queue = home.work_queue()
        self._budgets = home.budgets(options.budgets)
        self._stop = threading.Event()
        self._looking = (
            threading.Lock()
        )  # one thread looks for work at a time: an idle worker asks once, not for each
        self._lock = threading.Lock()
        self._troubles = 0  # visits that found the provider or the database away, one after the other
        self._wait_until = 0.0  # by time.monotonic
        self._troubled_at = 0.0  # likewise, the last time
        self._trouble: ScrubJayError | None = None

    def stop(self) -> None:
        """Take nothing more; what is under way is finished."""
        self._stop.set()

    def break_off(self) -> None:
        """Stop at once: segments under way are given back as they were."""
        self._stop.set()
        self._model.close()

    def run(self) -> None:
        """Work until told to stop, or all is done; raise what ended a drain before."""
        count = self._options.concurrency
        self._tell("started", concurrency=count)
        with ThreadPoolExecutor(count, thread_name_prefix=THREAD_NAME) as pool:
            tasks = [pool.submit(self._work) for _ in range(count)]
            for task in tasks:
                task.result()
        self._tell("ended", drained=self._trouble is None and self._options.drain)
        if self._options.drain and self._trouble is not None:
            raise self._trouble

    def _work(self) -> None:
        try:
            while (claim := self._next()) is not None:
                self._visit(claim)
        except BaseException:
            self._stop.set()
            raise

    # --- what to do next ---

    def _next(self) -> Claim | None:
        """Give the next memory to look at, waiting for one; None when it is time to end."""
        with self._looking:
            while not self._stop.is_set():
                wait = self._seconds_to_wait()
                claim = None if wait else self._claim()
                if claim is not None:
                    return claim
                self._stop.wait(min(wait or self._options.poll_seconds, self._options.poll_seconds))
        return None

    def _seconds_to_wait(self) -> float:
        """Give how long to ask nobody: the provider is away, or the budgets are spent."""
        with self._lock:
            wait = self._wait_until - time.monotonic()
        if wait > 0:
            return wait
        try:
            return self._keep_spent(self._budgets.seconds_to_wait())
        except StoreUnavailableError as error:
            self._keep_trouble(error, since=time.monotonic())
            return self._options.poll_seconds

    def _claim(self) -> Claim | None:
        now = datetime.now(UTC)
        try:
            claim = self._queue.claim(now=now, seconds=self._settings.encoder.lease_seconds)
            if claim is None and self._options.drain and self._queue.is_drained(now=now):
                self._stop.set()
        except StoreUnavailableError as error:
            self._keep_trouble(error, since=time.monotonic())
            return None
        if claim is not None:
            with self._lock:
                if self._troubles:  # nobody else asks before this visit has shown how it is
                    self._wait_until = time.monotonic() + self._options.most_wait_seconds
        return claim

    # --- a visit ---

    def _visit(self, claim: Claim) -> None:
        """Look at a memory; what is wrong with one is told, and the others go on."""
        began = time.monotonic()
        model = MeteredModel(self._model, self._budgets, output_share=self._settings.encoder.output_share)
        try:
            with self._home.borrow(claim.user_id, create=False) as memory:
                self._look_at(memory, claim, model)
        except (NotFoundError, StoreClosedError):
            self._tell("memory is gone", memory=str(claim.memory_id))
        except (StoreUnavailableError, ModelError) as error:  # this model error would meet any request
            self._keep_trouble(error, since=began)
            return
        except ScrubJayError as error:  # it is looked at again once it is no longer held
            self._tell("memory failed", memory=str(claim.memory_id), error=type(error).__name__)
        self._learn(model, began=began)

    def _look_at(self, memory: Memory, claim: Claim, model: MeteredModel) -> None:
        started = time.perf_counter()
        path = memory.write_path
        closed = self._cut(path, claim) if claim.is_cut_due else 0
        report = self._encode(path, model, closed=closed)
        if self._stop.is_set() or model.seconds_to_wait is not None:
            self._queue.give_back(claim.user_id)
        if report.encoded or report.failed or closed:
            self._tell_visit(claim, report, model, seconds=time.perf_counter() - started)

    def _cut(self, path: WritePath, claim: Claim) -> int:
        """Segment open turns, and say when to look at what stays open."""
        idle = self._options.idle
        seen = self._queue.last_turn(claim.user_id)
        closed = close_segments(path, SessionEnds(idle=idle))
        self._queue.cut(claim.user_id, seen=seen, idle=idle)
        return closed

    def _encode(self, path: WritePath, model: MeteredModel, *, closed: int) -> ConsolidationReport:
        encoding = self._encoding(path, model.name)
        chosen = ChosenModel(model, self._settings.chat)
        return Consolidation(
            path, chosen, encoding, limits=ONE_SEGMENT, advance=ignore_progress, stop=self._stop
        ).run(closed=closed)

    @staticmethod
    def _encoding(path: WritePath, name: str) -> EncodingRun:
        """Give the current encoding, named where none has been made yet."""
        encoding = path.records.encodings()[0]
        if encoding.model:
            return encoding
        return path.records.name_encoding(model=name, prompt_version=prompt_version(path.settings.encoder))

    # --- trouble ---

    def _learn(self, model: MeteredModel, *, began: float) -> None:
        """Keep what a visit has shown of the provider."""
        failure = model.failure
        if model.seconds_to_wait is not None:
            self._keep_spent(model.seconds_to_wait)
            return
        if failure is not None and not is_of_segment(failure):
            self._keep_trouble(failure, since=began)
            return
        with self._lock:
            self._wait_until = 0.0 if self._troubles and began > self._troubled_at else self._wait_until
            if model.answered or failure is not None:
                self._troubles, self._trouble = 0, None

    def _keep_spent(self, wait: float) -> float:
        """Have everybody wait for the next minute's or day's budget, and give how long; a drain ends for a day's."""
        with self._lock:
            self._wait_until = max(self._wait_until, time.monotonic() + wait)
            if self._options.drain and wait > A_MINUTE:
                self._trouble = ModelRateLimitError(DAY_SPENT, retry_after=wait)
                self._stop.set()
        return wait

    def _keep_trouble(self, error: ScrubJayError, *, since: float) -> None:
        """Have everybody wait: twice as long as the last time, or as long as the provider asks for; a drain ends."""
        if isinstance(error, ModelClosedError):
            return
        with self._lock:
            if since >= self._troubled_at:  # else it met the same trouble as another, at the same time
                self._troubles += 1
            self._troubled_at = time.monotonic()
            wait = self._pause(error)
            self._wait_until = self._troubled_at + wait
            self._trouble = error
        if self._options.drain:
            self._stop.set()
        status = error.status if isinstance(error, ModelRejectedError) else None
        self._tell("waiting", error=type(error).__name__, status=status, seconds=round(wait, 1))

    def _pause(self, error: ScrubJayError) -> float:
        of_model = isinstance(error, ModelError)
        first = self._settings.encoder.retry_seconds if of_model else self._options.poll_seconds
        wait: float = min(first * 2.0 ** (self._troubles - 1), self._options.most_wait_seconds)
        asked = error.retry_after if isinstance(error, ModelRateLimitError) else None
        return max(wait, asked or 0.0)

    def _tell_visit(
        self, claim: Claim, report: ConsolidationReport, model: MeteredModel, *, seconds: float
    ) -> None:
        usage = report.usage[0] if report.usage else None
        self._tell(
            "encoded" if report.encoded else "failed" if report.failed else "segmented",
            memory=str(claim.memory_id),
            closed=report.closed,
            records=report.records,
            repeated=report.repeated,
            dropped=report.dropped,
            calls=0 if usage is None else usage.calls,
            input_tokens=0 if usage is None else usage.input_tokens,
            output_tokens=0 if usage is None else usage.output_tokens,
            turns_pending=report.turns.pending,
            error=None if model.failure is None else type(model.failure).__name__,
            milliseconds=round(seconds * 1_000),
        )


def is_of_segment(failure: ModelError) -> bool:
    """Say whether the provider took a request well, and only what was asked or answered is at fault."""
    if isinstance(failure, ModelRejectedError):
        return failure.status in ITS_OWN_FAULT
    return isinstance(failure, ModelReplyError)
