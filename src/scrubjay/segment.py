"""WRITE: exchanges become segments at the boundaries of topics, without any model (LycheeMemory V2, 3.2, B.1, C.1).

Everything here is a pure function of turns, state and settings: feeding the turns of a session one at a time, in
batches or across restarts gives the same segments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.boundary import judge_boundary, measure_surprise, measure_word_shift
from scrubjay.datatypes import BoundaryReason
from scrubjay.exchanges import build_exchange, opens_exchange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from scrubjay.boundary import Decision
    from scrubjay.datatypes import IndexedTurn
    from scrubjay.exchanges import Exchange
    from scrubjay.settings import SegmentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedSegment:
    """Consecutive exchanges of one session to be encoded together, and why it ends where it does."""

    turn_ids: tuple[str, ...]
    tokens: int
    exchanges: int
    reason: BoundaryReason
    decision: Decision | None  # what closed it; None where it reached its target or the session ended


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SegmenterState:
    """Where the segmentation of one session stands, whatever the number of turns so far."""

    waiting: tuple[IndexedTurn, ...]  # turns of the exchange whose end isn't known yet
    turn_ids: tuple[str, ...]  # of the open segment
    tokens: int
    exchanges: int
    spent: bool  # it is closed already, and here only for what the next exchange is compared with
    total: NDArray[np.float64]  # (dimension,), sum of the open segment's exchange vectors
    session_total: NDArray[np.float64]  # the same of all the session's exchanges
    session_exchanges: int
    recent: tuple[NDArray[np.float64], ...]  # vectors of the last exchanges, of the segment before too
    heard: tuple[Mapping[int, int], ...]  # terms of the last exchanges, likewise
    shift_total: float  # sum of the session's word shifts
    shifts: int
    surprises: tuple[float, ...]
    asked: bool  # the last exchange left a question open
    ended_at: float | None  # seconds since 1970 UTC


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segmentation:
    """What feeding some turns gave: the segments that closed, every decision on the way, the state to go on from."""

    segments: tuple[ClosedSegment, ...]
    decisions: tuple[Decision, ...]
    state: SegmenterState


def start_session(dimension: int) -> SegmenterState:
    """Give the state before the first turn of a session."""
    return SegmenterState(
        waiting=(),
        turn_ids=(),
        tokens=0,
        exchanges=0,
        spent=False,
        total=np.zeros(dimension),
        session_total=np.zeros(dimension),
        session_exchanges=0,
        recent=(),
        heard=(),
        shift_total=0.0,
        shifts=0,
        surprises=(),
        asked=False,
        ended_at=None,
    )


def segment_turns(
    turns: Iterable[IndexedTurn], state: SegmenterState, settings: SegmentSettings, *, flush: bool = False
) -> Segmentation:
    """Feed the next turns of a session, in order; `flush` ends the session and closes what is open.

    An exchange is judged when the next one begins, for only then is it whole.
    """
    segments: list[ClosedSegment] = []
    decisions: list[Decision] = []
    for turn in turns:
        if opens_exchange(turn, state.waiting, turn_is_exchange=settings.turn_is_exchange):
            state = take_exchange(state, settings, segments, decisions)
        state = replace(state, waiting=(*state.waiting, turn))
    if flush and state.waiting:
        state = take_exchange(state, settings, segments, decisions)
    if flush and state.turn_ids and not state.spent:
        state = close_segment(state, BoundaryReason.SESSION_FLUSH, None, segments)
    return Segmentation(segments=tuple(segments), decisions=tuple(decisions), state=state)


def resume_session(
    turns: Iterable[IndexedTurn],
    closed: Mapping[str, BoundaryReason],
    settings: SegmentSettings,
    *,
    dimension: int,
) -> SegmenterState:
    """Work out the state from the turns of closed segments; `closed` has the last turn id of each and its reason.

    This is how a session goes on after a restart, and after a turn of it was forgotten: nothing of the state is stored.
    """
    state = start_session(dimension)
    for turn in turns:
        if opens_exchange(turn, state.waiting, turn_is_exchange=settings.turn_is_exchange):
            state = join_waiting(state, settings)
        state = replace(state, waiting=(*state.waiting, turn))
        reason = closed.get(turn.turn.turn_id)
        if reason is not None:
            state = join_waiting(state, settings)
            spent = reason in {BoundaryReason.SEMANTIC_BOUNDARY, BoundaryReason.CAPACITY_LIMIT}
            state = replace(state, spent=True) if spent else empty_segment(state)
    return state


def join_waiting(state: SegmenterState, settings: SegmentSettings) -> SegmenterState:
    """Add the waiting exchange to the open segment without judging it, or to a new one after a spent one."""
    exchange = build_exchange(state.waiting, settings)
    surprise = measure_surprise(exchange, state, settings) if state.exchanges else None
    return join_segment(empty_segment(state) if state.spent else state, exchange, surprise, settings)


def take_exchange(
    state: SegmenterState, settings: SegmentSettings, segments: list[ClosedSegment], decisions: list[Decision]
) -> SegmenterState:
    """Judge the waiting exchange, now whole, and add it to the open segment or to a new one (B.1, lines 8 to 16)."""
    exchange = build_exchange(state.waiting, settings)
    surprise = None
    if state.spent:
        surprise = measure_surprise(exchange, state, settings)
        state = empty_segment(state)
    elif state.exchanges:
        decision = judge_boundary(exchange, state, settings)
        surprise = decision.surprise
        decisions.append(decision)
        if decision.reason is not None:
            state = close_segment(state, decision.reason, decision, segments)
    state = join_segment(state, exchange, surprise, settings)
    if state.tokens >= settings.target_tokens or state.exchanges >= settings.most_exchanges:
        state = close_segment(state, BoundaryReason.TARGET_REACHED, None, segments)
    return state


def close_segment(
    state: SegmenterState, reason: BoundaryReason, decision: Decision | None, segments: list[ClosedSegment]
) -> SegmenterState:
    segments.append(
        ClosedSegment(
            turn_ids=state.turn_ids,
            tokens=state.tokens,
            exchanges=state.exchanges,
            reason=reason,
            decision=decision,
        )
    )
    return empty_segment(state)


def empty_segment(state: SegmenterState) -> SegmenterState:
    return replace(state, turn_ids=(), tokens=0, exchanges=0, spent=False, total=np.zeros_like(state.total))


def join_segment(
    state: SegmenterState, exchange: Exchange, surprise: float | None, settings: SegmentSettings
) -> SegmenterState:
    shift = measure_word_shift(exchange, state, settings)
    surprises = state.surprises if surprise is None else (*state.surprises, surprise)
    return SegmenterState(
        waiting=(),
        turn_ids=(*state.turn_ids, *exchange.turn_ids),
        tokens=state.tokens + exchange.tokens,
        exchanges=state.exchanges + 1,
        spent=False,
        total=state.total + exchange.vector,
        session_total=state.session_total + exchange.vector,
        session_exchanges=state.session_exchanges + 1,
        recent=(*state.recent, exchange.vector)[-settings.recent_exchanges :],
        heard=(*state.heard, exchange.terms)[-max(settings.heard_exchanges, settings.recent_exchanges) :],
        shift_total=state.shift_total + (shift or 0.0),
        shifts=state.shifts + (shift is not None),
        surprises=surprises[-settings.surprise_history :],
        asked=exchange.asks,
        ended_at=state.ended_at if exchange.ended_at is None else exchange.ended_at,
    )
