"""Whatever is done to a memory, in whatever order: no turn lost, no record without provenance and nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from record_stores import BACKENDS, NOON, add, close, complete, current, lease, record

from scrubjay.datatypes import SegmentState
from scrubjay.errors import EncodingUnfinishedError, LeaseLostError

if TYPE_CHECKING:
    from scrubjay.datatypes import LeasedSegment

LEASE_SECONDS = 60
SESSIONS = st.sampled_from(["monday", "tuesday"])


class AnyOrder(RuleBasedStateMachine):
    """Adds, segments, encodes and forgets at random, knowing which leases must still stand."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.backend = BACKENDS[self.kind](":memory:")
        self.seconds = 0
        self.added = 0
        self.leases: list[LeasedSegment] = []
        self.standing: set[tuple[int, int, int]] = set()

    @initialize()
    def begin(self) -> None:
        """Start from sessions that have something to encode."""
        for session in ("monday", "tuesday"):
            self.add(session, 4)
            close(self.backend, session, 1, 2)

    def teardown(self) -> None:
        self.backend.close()

    def key(self, leased: LeasedSegment) -> tuple[int, int, int]:
        return leased.encoding_row, leased.segment_row, leased.lease

    def end(self, leased: LeasedSegment) -> bool:
        """Say whether the lease stood until now, and end it."""
        stood = self.key(leased) in self.standing
        self.standing.discard(self.key(leased))
        return stood

    @rule(session=SESSIONS, count=st.integers(1, 4))
    def add_turns(self, session: str, count: int) -> None:
        self.add(session, count)

    def add(self, session: str, count: int) -> None:
        add(self.backend, session, *(f"turn {self.added + place}" for place in range(count)))
        self.added += count

    @rule(session=SESSIONS, sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3))
    def close_segments(self, session: str, sizes: list[int]) -> None:
        left = len(self.backend.segments.open_turns(session).rows)
        fitting = [size for place, size in enumerate(sizes) if sum(sizes[: place + 1]) <= left]
        if left:
            close(self.backend, session, *fitting)

    @rule(seconds=st.integers(1, 90))
    def wait(self, seconds: int) -> None:
        self.seconds += seconds

    @rule(newest=st.booleans())
    def lease_segment(self, *, newest: bool) -> None:
        self.lease(newest=newest)

    def lease(self, *, newest: bool) -> LeasedSegment | None:
        """Lease a segment of the newest encoding, or of the current one."""
        run = self.backend.records.encodings()[-1 if newest else 0]
        leased = lease(self.backend, after=self.seconds, encoding_row=run.encoding_row)
        if leased is not None:
            pending = self.backend.segments.segments(
                session_id=leased.session_id, state=SegmentState.PENDING, encoding_row=run.encoding_row
            )
            assert pending[0].segment_row == leased.segment_row
            self.leases.append(leased)
            self.standing = {key for key in self.standing if key[:2] != self.key(leased)[:2]}
            self.standing.add(self.key(leased))
        return leased

    @rule(data=st.data(), newest=st.booleans())
    def encode_next(self, data: st.DataObject, *, newest: bool) -> None:
        leased = self.lease(newest=newest)
        if leased is not None:
            self.complete(data, leased)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def complete_any(self, data: st.DataObject) -> None:
        self.complete(data, data.draw(st.sampled_from(self.leases)))

    def complete(self, data: st.DataObject, leased: LeasedSegment) -> None:
        texts = data.draw(st.lists(st.sampled_from(["tea", "boat", "kiln"]), max_size=3))
        cited = st.lists(st.sampled_from([turn.turn_id for turn in leased.turns]), min_size=1)
        records = [record(text, data.draw(cited), entity=text) for text in texts]
        if self.end(leased):
            complete(self.backend, leased, *records, note="note")
        else:
            with pytest.raises(LeaseLostError):
                complete(self.backend, leased, *records)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), most=st.integers(1, 3))
    def fail(self, data: st.DataObject, most: int) -> None:
        leased = data.draw(st.sampled_from(self.leases))
        retry_at = NOON + timedelta(seconds=self.seconds + 10)
        if self.end(leased):
            state = self.backend.segments.fail_segment(leased, "error", retry_at=retry_at, max_attempts=most)
            assert (state is SegmentState.FAILED) == (leased.attempts + 1 >= most)
        else:
            with pytest.raises(LeaseLostError):
                self.backend.segments.fail_segment(leased, "error", retry_at=retry_at, max_attempts=most)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        leased = data.draw(st.sampled_from(self.leases))
        self.backend.segments.release_segment(leased)
        self.end(leased)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        """A lease that stands runs anew, so that nobody else is given its segment meanwhile; another can't be renewed."""
        leased = data.draw(st.sampled_from(self.leases))
        now = NOON + timedelta(seconds=self.seconds)
        if self.key(leased) not in self.standing:
            with pytest.raises(LeaseLostError):
                self.backend.segments.renew_lease(leased, now=now, lease_seconds=LEASE_SECONDS)
            return
        self.backend.segments.renew_lease(leased, now=now, lease_seconds=LEASE_SECONDS)
        while (
            other := lease(self.backend, after=self.seconds, encoding_row=leased.encoding_row)
        ) is not None:
            assert other.segment_row != leased.segment_row
            self.leases.append(other)
            self.standing = {key for key in self.standing if key[:2] != self.key(other)[:2]}
            self.standing.add(self.key(other))

    @rule()
    def retry_failed(self) -> None:
        self.backend.segments.retry_failed()

    @precondition(lambda self: self.added % 3 == 0)  # not so often that nothing is left
    @rule(data=st.data())
    def forget_turn(self, data: st.DataObject) -> None:
        turns = list(self.backend.turns.turns())
        if turns:
            turn = data.draw(st.sampled_from(turns))
            self.backend.turns.forget(turn_id=turn.turn_id)
            self.forget_leases(turn.session_id)

    @precondition(lambda self: self.added % 7 == 0)
    @rule(session=SESSIONS)
    def forget_session(self, session: str) -> None:
        if self.backend.turns.forget(session_id=session).turns:
            self.forget_leases(session)

    def forget_leases(self, session: str) -> None:
        lost = {self.key(leased) for leased in self.leases if leased.session_id == session}
        self.standing -= lost

    @rule(model=st.sampled_from(["a", "b"]))
    def begin_encoding(self, model: str) -> None:
        before = {run.encoding_row for run in self.backend.records.encodings()}
        begun = self.backend.records.begin_encoding(model=model, prompt_version="1")
        kept = {current(self.backend), begun.encoding_row}
        self.standing = {key for key in self.standing if key[0] in before & kept}

    @rule()
    def switch_encoding(self) -> None:
        try:
            switched = self.backend.records.switch_encoding()
        except EncodingUnfinishedError:
            return
        self.standing = {key for key in self.standing if key[0] == switched.encoding_row}

    @invariant()
    def every_turn_is_in_one_state(self) -> None:
        turns = sum(session.turns for session in self.backend.turns.sessions())
        for run in self.backend.records.encodings():
            assert self.backend.segments.progress(run.encoding_row).turns.total == turns

    @invariant()
    def everything_is_linked(self) -> None:
        """Every record has provenance and nodes, every node records: what doctor checks."""
        assert self.backend.turns.check() == ()
        ids = {turn.turn_id for turn in self.backend.turns.turns()}
        for item in self.backend.records.records():
            assert item.turn_ids
            assert set(item.turn_ids) <= ids


class AnyOrderInFile(AnyOrder):
    kind = "sqlite"


class AnyOrderInPostgres(AnyOrder):
    kind = "postgres"


TestInFile = AnyOrderInFile.TestCase
TestInFile.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestInPostgres = AnyOrderInPostgres.TestCase
TestInPostgres.settings = settings(max_examples=10, stateful_step_count=40, deadline=None)
