"""WRITE, with a model: open turns → segments → records and nodes, each segment in one transaction (paper B.1).

Composed here and called by memory.py. Segments of one session are encoded in order, for the reference context needs
it; sessions side by side. A segment is leased, so several processes may run this at once. No transaction is open
during a call.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scrubjay.counting import number_of
from scrubjay.datatypes import ConsolidationReport, EncodingState, SegmentState
from scrubjay.encode import encode_turns, prompt_version
from scrubjay.errors import (
    EncodingUnfinishedError,
    InputError,
    LeaseLostError,
    ModelClosedError,
    ModelError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelReplyError,
    ModelUnavailableError,
)
from scrubjay.indexing import index_texts
from scrubjay.leasing import renewed
from scrubjay.llm import add_usage
from scrubjay.organize import build_nodes
from scrubjay.segmenting import close_segments

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrubjay.chosen_model import ChosenModel
    from scrubjay.datatypes import (
        ConsolidationLimits,
        Encoding,
        EncodingProgress,
        EncodingRun,
        LeasedSegment,
        SessionEnds,
        Usage,
        WritePath,
    )
    from scrubjay.llm import ChatModel

WAIT_SECONDS = 0.02  # before looking again whether another worker's segment has freed the next
ITS_OWN_FAULT = frozenset({400, 413, 422})  # HTTP: about this request, not about who asks or for which model


def consolidate(
    path: WritePath,
    model: ChosenModel,
    ends: SessionEnds,
    *,
    limits: ConsolidationLimits,
    advance: Callable[[int, int], None],
    stop: threading.Event | None = None,
) -> ConsolidationReport:
    """Segment what is open, then encode what is pending in the current encoding; `stop` ends it from outside."""
    name = require_ready(model, limits)
    closed = close_segments(path, ends)
    encoding = path.records.name_encoding(model=name, prompt_version=prompt_version(path.settings.encoder))
    return Consolidation(path, model, encoding, limits=limits, advance=advance, stop=stop).run(closed=closed)


def reconsolidate(
    path: WritePath,
    model: ChosenModel,
    *,
    limits: ConsolidationLimits,
    advance: Callable[[int, int], None],
) -> ConsolidationReport:
    """Encode all segments into a new encoding, and go over to it once all of them are done."""
    name = require_ready(model, limits)
    encoding = path.records.begin_encoding(model=name, prompt_version=prompt_version(path.settings.encoder))
    report = Consolidation(path, model, encoding, limits=limits, advance=advance).run(closed=0)
    lost = adopt_encoding(path, encoding)
    if not lost:
        return report
    words = (
        f"{number_of(lost, 'segment')} with records failed in the new encoding, so the old one stays: retry"
    )
    return replace(report, stopped=report.stopped or words)


def require_ready(model: ChosenModel, limits: ConsolidationLimits) -> str:
    """Give the model's name; raise SettingsError where there is none, InputError for limits that nothing can meet."""
    given = {"most_segments": limits.most_segments, "budget_tokens": limits.budget_tokens}
    for name, value in {**given, "workers": limits.workers}.items():
        if value is not None and value < 1:
            raise InputError(f"{name}: expected at least 1, found {value}")
    return model.get().name


def adopt_encoding(path: WritePath, encoding: EncodingRun) -> int:
    """Go over to an encoding that is done; where that would lose records, stay and give of how many segments."""
    progress = path.segments.progress(encoding.encoding_row)
    building = {run.encoding_row for run in path.records.encodings() if run.state is EncodingState.BUILDING}
    if progress.segments.pending or encoding.encoding_row not in building:
        return 0
    failed = path.segments.segments(state=SegmentState.FAILED, encoding_row=encoding.encoding_row)
    encoded = path.segments.segments(state=SegmentState.ENCODED) if failed else ()
    lost = {segment.segment_row for segment in failed} & {segment.segment_row for segment in encoded}
    if not lost:
        with suppress(EncodingUnfinishedError):  # another process went over, or closed a segment, just now
            path.records.switch_encoding()
    return len(lost)


class Consolidation:
    """One run over the segments of an encoding: its workers, what they have spent, and why they stop."""

    def __init__(
        self,
        path: WritePath,
        model: ChosenModel,
        encoding: EncodingRun,
        *,
        limits: ConsolidationLimits,
        advance: Callable[[int, int], None],
        stop: threading.Event | None = None,
    ) -> None:
        self._path = path
        self._model = model
        self._encoding = encoding
        self._limits = limits
        self._advance = advance
        self._lock = threading.Lock()
        self._halt = threading.Event()
        self._stop = stop or threading.Event()
        self._busy = 0  # workers with a segment
        self._taken = 0  # segments
        self._usage: Usage | None = None
        self._done = Counter[str]()
        self._stopped = ""
        self._retry_at: datetime | None = None

    @property
    def _is_over(self) -> bool:
        return self._halt.is_set() or self._stop.is_set()

    def halt(self, reason: str) -> None:
        """Take no further segment; those under way are finished."""
        with self._lock:
            self._stopped = self._stopped or reason
        self._halt.set()

    def run(self, *, closed: int) -> ConsolidationReport:
        """Encode until nothing is left or a limit is met; what no retry would mend ends it and is raised."""
        self._run_workers()
        progress = self._path.segments.progress(self._encoding.encoding_row)
        return ConsolidationReport(
            closed=closed,
            encoded=self._done["encoded"],
            failed=self._done["failed"],
            records=self._done["records"],
            repeated=self._done["repeated"],
            dropped=self._done["dropped"],
            usage=() if self._usage is None else (self._usage,),
            turns=progress.turns,
            stopped=self._why_stopped(progress),
            retry_at=self._retry_at,
        )

    def _run_workers(self) -> None:
        if self._limits.workers == 1 and threading.current_thread() is not threading.main_thread():
            self._work()  # no Ctrl-C comes here, and no pool outlives the thread that asked
            return
        with ThreadPoolExecutor(self._limits.workers, thread_name_prefix="scrubjay-consolidate") as pool:
            tasks = [pool.submit(self._work) for _ in range(self._limits.workers)]
            try:
                for task in tasks:
                    task.result()
            except Exception as error:
                self.halt(str(error))
                raise
            except BaseException:
                self.halt("interrupted")
                self._model.break_off()
                raise

    def _why_stopped(self, progress: EncodingProgress) -> str:
        pending = progress.segments.pending
        if not pending:
            return ""
        if self._stop.is_set():
            reason = "the memory was closed"
        elif progress.leased:
            reason = f"another worker has {number_of(progress.leased, 'segment')}"
        else:
            reason = "some wait for another try"
        return f"{self._stopped or reason}; {number_of(pending, 'segment')} left: run it again"

    def _work(self) -> None:
        owner = f"{os.getpid()}-{uuid.uuid4().hex}"
        try:
            while (lease := self._take(owner)) is not None:
                try:
                    self._encode(lease)
                finally:
                    self._give_up_busy()
                self._tell_progress()
        except BaseException:
            self.halt("interrupted")
            raise

    def _take(self, owner: str) -> LeasedSegment | None:
        """Lease the next segment, waiting while another worker's may free one; None when there is no more to do."""
        while not self._is_over:
            with self._lock:
                if self._is_spent():
                    return None
                lease = self._path.segments.lease_segment(
                    self._encoding.encoding_row,
                    owner=owner,
                    now=datetime.now(UTC),
                    lease_seconds=self._path.settings.encoder.lease_seconds,
                )
                if lease is not None:
                    self._busy += 1
                    self._taken += 1
                    return lease
                if not self._busy:
                    return None
            self._halt.wait(WAIT_SECONDS)
        return None

    def _is_spent(self) -> bool:
        """Say whether a limit is met, and keep which."""
        limits, usage = self._limits, self._usage
        spent = 0 if usage is None else usage.input_tokens + usage.output_tokens
        if limits.most_segments is not None and self._taken >= limits.most_segments:
            self._stopped = (
                self._stopped or f"the limit of {number_of(limits.most_segments, 'segment')} is reached"
            )
        elif limits.budget_tokens is not None and spent >= limits.budget_tokens:
            self._stopped = self._stopped or f"the budget of {limits.budget_tokens} tokens is spent"
        else:
            return False
        return True

    def _give_up_busy(self) -> None:
        with self._lock:
            self._busy -= 1

    def _tell_progress(self) -> None:
        done = self._done["encoded"]
        self._advance(done, done + self._path.segments.progress(self._encoding.encoding_row).segments.pending)

    def _encode(self, lease: LeasedSegment) -> None:
        """Encode a segment and keep the result, or the failure; give it back where the fault isn't its own."""
        segments, settings = self._path.segments, self._path.settings.encoder
        usage = None
        try:
            reference = segments.reference_context(lease, limit=settings.reference_records)
            with renewed(lease, segments, lease_seconds=settings.lease_seconds):
                encoding = encode_turns(
                    lease.turns, model=self._get_model(), reference=reference, settings=settings
                )
            usage = self._spend(encoding.usage)
            self._complete(lease, encoding)
        except ModelClosedError as error:
            self._give_back(lease, self._spend(error.usage))
            self.halt(str(error))
        except ModelError as error:
            usage = self._spend(error.usage)
            if isinstance(error, ModelRejectedError) and error.status not in ITS_OWN_FAULT:
                self._give_back(lease, usage)
                raise
            self._fail(lease, error)
        except BaseException:
            self._give_back(lease, usage)
            raise

    def _get_model(self) -> ChatModel:
        model = self._model.get()
        if self._is_over:  # asked only now: a model opened after `break_off` would not be closed
            raise ModelClosedError
        return model

    def _complete(self, lease: LeasedSegment, encoding: Encoding) -> None:
        nodes = build_nodes(encoding.records, session_id=lease.session_id, number=lease.number)
        texts = [record.text for record in encoding.records] + [node.text for node in nodes]
        index = index_texts(texts, embedder=self._path.embedder)
        count = len(encoding.records)
        try:
            written = self._path.segments.complete_segment(
                lease,
                encoding,
                nodes,
                record_index=index[:count],
                node_index=index[count:],
                embedder=self._path.embedder.identity,
            )
        except LeaseLostError:  # encoded by another meanwhile, or its turns forgotten: only the cost is kept
            self._path.segments.add_usage(encoding.usage)
            return
        with self._lock:
            self._done.update(
                encoded=1, records=written.new, repeated=written.repeated, dropped=len(encoding.dropped)
            )

    def _fail(self, lease: LeasedSegment, error: ModelError) -> None:
        """Keep a failed attempt; a provider that is away or too busy would fail the others too, so stop there."""
        settings = self._path.settings.encoder
        wait = settings.retry_seconds * 2**lease.attempts
        if isinstance(error, ModelRateLimitError) and error.retry_after is not None:
            wait = max(wait, error.retry_after)
        retry_at = datetime.now(UTC) + timedelta(seconds=wait)
        never_read = isinstance(error, ModelRateLimitError) or (
            isinstance(error, ModelUnavailableError) and not error.reached
        )
        try:
            self._path.segments.fail_segment(
                lease,
                str(error),
                retry_at=retry_at,
                max_attempts=None if never_read else settings.attempts,
                usage=error.usage,
            )
        except LeaseLostError:  # it is another's to encode, or gone
            self._give_back(lease, error.usage)
        with self._lock:
            self._done["failed"] += 1
            if not isinstance(error, ModelReplyError):
                self._retry_at = max(self._retry_at or retry_at, retry_at)
        if not isinstance(error, ModelReplyError):
            self.halt(str(error))

    def _give_back(self, lease: LeasedSegment, usage: Usage | None) -> None:
        """Let another have the segment, as it was, and keep what it has cost."""
        self._path.segments.release_segment(lease)
        if usage is not None:
            self._path.segments.add_usage(usage)

    def _spend(self, usage: Usage | None) -> Usage | None:
        """Count what was spent in this run, and give it."""
        if usage is not None and usage.calls:
            with self._lock:
                self._usage = add_usage(self._usage, usage)
        return usage
