"""WRITE, with a model: open turns → segments → records and nodes, each segment in one transaction (paper B.1).

Composed here and called by memory.py. Segments of one session are encoded in order, for the reference context needs
it; sessions side by side. A segment is leased, so several processes may run this at once. No transaction is open
during a call.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scrubjay.datatypes import (
    BoundaryReason,
    ConsolidationPlan,
    ConsolidationReport,
    NewSegment,
    ReferenceContext,
    SegmentState,
)
from scrubjay.embed import count_tokens
from scrubjay.encode import build_request, encode_turns, prompt_version
from scrubjay.errors import (
    LeaseLostError,
    ModelError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelReplyError,
    SegmentsChangedError,
)
from scrubjay.indexing import index_texts
from scrubjay.llm import add_usage
from scrubjay.organize import build_nodes
from scrubjay.segment import resume_session, segment_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrubjay.datatypes import (
        ConsolidationLimits,
        Encoding,
        EncodingRun,
        LeasedSegment,
        OpenTurns,
        SessionEnds,
        Turn,
        Usage,
        WritePath,
    )
    from scrubjay.llm import ChatModel
    from scrubjay.segment import Segmentation

NO_REFERENCE = ReferenceContext(note="", records=())
WAIT_SECONDS = 0.02  # before looking again whether another worker's segment has freed the next


def consolidate(
    path: WritePath,
    model: ChatModel,
    ends: SessionEnds,
    *,
    limits: ConsolidationLimits,
    advance: Callable[[int, int], None],
) -> ConsolidationReport:
    """Segment what is open, then encode what is pending in the current encoding."""
    closed = close_segments(path, ends)
    encoding = path.records.name_encoding(
        model=model.name, prompt_version=prompt_version(path.settings.encoder)
    )
    return Consolidation(path, model, encoding, limits=limits, advance=advance).run(closed=closed)


def reconsolidate(
    path: WritePath,
    model: ChatModel,
    *,
    limits: ConsolidationLimits,
    advance: Callable[[int, int], None],
) -> ConsolidationReport:
    """Encode all segments into a new encoding, and go over to it once all of them are done."""
    encoding = path.records.begin_encoding(
        model=model.name, prompt_version=prompt_version(path.settings.encoder)
    )
    report = Consolidation(path, model, encoding, limits=limits, advance=advance).run(closed=0)
    if not path.segments.progress(encoding.encoding_row).segments.pending:
        path.records.switch_encoding()
    return report


def close_segments(path: WritePath, ends: SessionEnds) -> int:
    """Segment open turns; give how many segments closed."""
    closed = 0
    for session_id in path.segments.sessions_with_open_turns():
        opened = path.segments.open_turns(session_id)
        found = segment_open_turns(opened, path, flush=has_ended(opened, ends))
        if not found.segments:
            continue
        try:
            path.segments.close_segments(
                session_id,
                new_segments(opened, found),
                seen=opened.segmenter,
                segmenter=uuid.uuid4().hex,  # only ever compared: whoever closes first has the session
            )
        except SegmentsChangedError:
            continue  # another process has just segmented this session
        closed += len(found.segments)
    return closed


def segment_open_turns(opened: OpenTurns, path: WritePath, *, flush: bool) -> Segmentation:
    settings = path.settings.segment
    dimension = path.embedder.identity.dimension
    state = resume_session(opened.past, opened.closed, settings, dimension=dimension)
    return segment_turns(opened.turns, state, settings, flush=flush)


def has_ended(opened: OpenTurns, ends: SessionEnds) -> bool:
    if ends.flush or ends.idle is None or not opened.turns:
        return ends.flush
    return max(turn.turn.added_at for turn in opened.turns) + ends.idle <= datetime.now(UTC)


def new_segments(opened: OpenTurns, found: Segmentation) -> list[NewSegment]:
    row_of = {turn.turn.turn_id: row for row, turn in zip(opened.rows, opened.turns, strict=True)}
    return [
        NewSegment(
            reason=BoundaryReason(segment.reason),
            probability=None if segment.decision is None else segment.decision.probability,
            signals={} if segment.decision is None else dict(segment.decision.contributions),
            turn_rows=tuple(row_of[turn_id] for turn_id in segment.turn_ids),
        )
        for segment in found.segments
    ]


def plan_consolidation(path: WritePath, ends: SessionEnds) -> ConsolidationPlan:
    """Reckon what encoding would take, with nothing written and nothing called."""
    encoder = path.settings.encoder
    groups = planned_groups(path, ends)
    requests = [build_request(turns, reference=NO_REFERENCE, settings=encoder) for turns in groups]
    asked = [request for request in requests if request is not None]
    spoken = sum(count_tokens([request.user for request in asked]))
    return ConsolidationPlan(
        segments=len(groups),
        calls=len(asked),
        input_tokens=spoken + sum(count_tokens([request.system for request in asked])),
        output_tokens=round(spoken * encoder.output_share),
    )


def planned_groups(path: WritePath, ends: SessionEnds) -> list[list[Turn]]:
    """Give the turns of each segment that waits, or would once open turns are segmented."""
    groups = []
    for segment in path.segments.segments(state=SegmentState.PENDING):
        stored = (path.turns.turn(turn_id) for turn_id in segment.turn_ids)
        groups.append([turn for turn in stored if turn is not None])
    for session_id in path.segments.sessions_with_open_turns():
        opened = path.segments.open_turns(session_id)
        turns = {turn.turn.turn_id: turn.turn for turn in opened.turns}
        found = segment_open_turns(opened, path, flush=has_ended(opened, ends))
        groups += [[turns[turn_id] for turn_id in segment.turn_ids] for segment in found.segments]
    return groups


class Consolidation:
    """One run over the segments of an encoding: its workers, what they have spent, and why they stop."""

    def __init__(
        self,
        path: WritePath,
        model: ChatModel,
        encoding: EncodingRun,
        *,
        limits: ConsolidationLimits,
        advance: Callable[[int, int], None],
    ) -> None:
        self._path = path
        self._model = model
        self._encoding = encoding
        self._limits = limits
        self._advance = advance
        self._lock = threading.Lock()
        self._halt = threading.Event()
        self._busy = 0  # workers with a segment
        self._taken = 0  # segments
        self._usage: Usage | None = None
        self._done = Counter[str]()
        self._stopped = ""

    def halt(self, reason: str) -> None:
        """Take no further segment; those under way are finished."""
        with self._lock:
            self._stopped = self._stopped or reason
        self._halt.set()

    def run(self, *, closed: int) -> ConsolidationReport:
        """Encode until nothing is left or a limit is met; what no retry would mend ends it and is raised."""
        with ThreadPoolExecutor(self._limits.workers, thread_name_prefix="scrubjay-consolidate") as pool:
            tasks = [pool.submit(self._work) for _ in range(self._limits.workers)]
            try:
                for task in tasks:
                    task.result()
            except BaseException:
                self.halt("interrupted")
                raise
        return ConsolidationReport(
            closed=closed,
            encoded=self._done["encoded"],
            failed=self._done["failed"],
            records=self._done["records"],
            repeated=self._done["repeated"],
            dropped=self._done["dropped"],
            usage=() if self._usage is None else (self._usage,),
            turns=self._path.segments.progress().turns,
            stopped=self._stopped,
        )

    def _work(self) -> None:
        owner = f"{os.getpid()}-{uuid.uuid4().hex}"
        try:
            while (lease := self._take(owner)) is not None:
                try:
                    self._encode(lease)
                finally:
                    self._give_up_busy()
        except BaseException:
            self.halt("interrupted")
            raise

    def _take(self, owner: str) -> LeasedSegment | None:
        """Lease the next segment, waiting while another worker's may free one; None when there is no more to do."""
        while not self._halt.is_set():
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
            self._stopped = self._stopped or f"the limit of {limits.most_segments} segments is reached"
        elif limits.budget_tokens is not None and spent >= limits.budget_tokens:
            self._stopped = self._stopped or f"the budget of {limits.budget_tokens} tokens is spent"
        else:
            return False
        return True

    def _give_up_busy(self) -> None:
        with self._lock:
            self._busy -= 1

    def _encode(self, lease: LeasedSegment) -> None:
        """Encode a segment and keep the result, or the failure; give it back where the fault isn't its own."""
        segments, settings = self._path.segments, self._path.settings.encoder
        reference = segments.reference_context(lease, limit=settings.reference_records)
        try:
            encoding = encode_turns(lease.turns, model=self._model, reference=reference, settings=settings)
        except ModelRejectedError as error:
            self._spend(error.usage)
            segments.release_segment(lease)
            raise
        except ModelError as error:
            self._spend(error.usage)
            self._fail(lease, error)
            return
        except BaseException:
            segments.release_segment(lease)
            raise
        self._spend(encoding.usage)
        self._complete(lease, encoding)

    def _complete(self, lease: LeasedSegment, encoding: Encoding) -> None:
        nodes = build_nodes(encoding.records, session_id=lease.session_id, number=lease.number)
        texts = [record.text for record in encoding.records] + [node.text for node in nodes]
        index = index_texts(texts, embedder=self._path.embedder)
        count = len(encoding.records)
        try:
            written = self._path.segments.complete_segment(
                lease, encoding, nodes, record_index=index[:count], node_index=index[count:]
            )
        except LeaseLostError:  # encoded by another meanwhile, or its turns forgotten: only the cost is kept
            if encoding.usage.calls:
                self._path.segments.add_usage(encoding.usage)
            return
        with self._lock:
            self._done.update(
                encoded=1, records=written.new, repeated=written.repeated, dropped=len(encoding.dropped)
            )
            done = self._done["encoded"]
        states = self._path.segments.progress(self._encoding.encoding_row).segments
        self._advance(done, done + states.pending)

    def _fail(self, lease: LeasedSegment, error: ModelError) -> None:
        """Keep a failed attempt; a provider that is away or too busy would fail the others too, so stop there."""
        settings = self._path.settings.encoder
        wait = settings.retry_seconds * 2**lease.attempts
        if isinstance(error, ModelRateLimitError) and error.retry_after is not None:
            wait = max(wait, error.retry_after)
        retry_at = datetime.now(UTC) + timedelta(seconds=wait)
        with contextlib.suppress(LeaseLostError):  # then it is another's to encode, or gone
            self._path.segments.fail_segment(
                lease, str(error), retry_at=retry_at, max_attempts=settings.attempts, usage=error.usage
            )
        with self._lock:
            self._done["failed"] += 1
        if not isinstance(error, ModelReplyError):
            self.halt(f"{error}; the rest is still pending")

    def _spend(self, usage: Usage | None) -> None:
        if usage is None or not usage.calls:
            return
        with self._lock:
            self._usage = add_usage(self._usage, usage)
