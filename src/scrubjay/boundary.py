"""WRITE: the boundary score: does a segment end before an exchange (LycheeMemory V2, 3.2, C.1; docs/segmentation.md)?"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.datatypes import BoundaryReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from scrubjay.exchanges import Exchange
    from scrubjay.segment import SegmenterState
    from scrubjay.settings import SegmentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundarySignals:
    """What speaks for (above 0) and against (below 0) a boundary before an exchange, each in its own unit."""

    surprise: float  # the greater of the absolute and the damped robust signal (paper, 3.2)
    cohesion: float
    length: float
    turns: float
    word_shift: float
    new_words: float
    asks: float
    answers: float
    news: float
    opener: float
    lone_turn: float
    pause: float


SIGNAL_NAMES = tuple(field.name for field in fields(BoundarySignals))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether to end the segment before an exchange, and all that led to it."""

    turn_id: str  # of the first turn of the exchange
    surprise: float  # s of the paper, in [0, 2]
    robust: float | None  # its median/MAD z; None where the history is too short
    cohesion_drop: float  # d of the paper
    signals: BoundarySignals
    contributions: Mapping[str, float]  # signal → its share of the score
    score: float
    probability: float
    reason: BoundaryReason | None  # None: the exchange joined the segment


def judge_boundary(exchange: Exchange, state: SegmenterState, settings: SegmentSettings) -> Decision:
    """Decide whether the open segment, which has exchanges, ends before this one (C.1)."""
    surprise = measure_surprise(exchange, state, settings)
    robust = standardise_surprise(surprise, state.surprises, settings)
    drop = measure_cohesion_drop(exchange, state)
    signals = measure_signals(exchange, state, settings, surprise=surprise, robust=robust, drop=drop)
    contributions = {name: getattr(settings.weights, name) * getattr(signals, name) for name in SIGNAL_NAMES}
    score = math.fsum(contributions.values())
    probability = 1 / (1 + math.exp(-(settings.bias + score)))
    reason = None
    if state.tokens + exchange.tokens > settings.most_tokens:
        reason = BoundaryReason.CAPACITY_LIMIT
    elif settings.semantic and probability >= settings.cut_probability:
        reason = BoundaryReason.SEMANTIC_BOUNDARY
    return Decision(
        turn_id=exchange.turn_ids[0],
        surprise=surprise,
        robust=robust,
        cohesion_drop=drop,
        signals=signals,
        contributions=contributions,
        score=score,
        probability=probability,
        reason=reason,
    )


def measure_surprise(exchange: Exchange, state: SegmenterState, settings: SegmentSettings) -> float:
    """Measure how far an exchange is from the segment's centroid and from what was said last: s, equation 1.

    What all exchanges of the session share, their mean, is taken away first: in a small static embedder it is most of
    every vector and hides what they differ in. The mean is drawn towards zero while there are few.
    """
    common = np.zeros_like(state.total)
    if settings.common_shrinkage:
        count = state.session_exchanges + 1
        common = (state.session_total + exchange.vector) / (count + settings.common_shrinkage)
    own = exchange.vector - common
    centroid = state.total - state.exchanges * common
    last = np.sum(state.recent, axis=0) - len(state.recent) * common
    return 1 - max(cosine(own, centroid), cosine(own, last))


def cosine(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    lengths = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / lengths if lengths else 0.0


def standardise_surprise(
    surprise: float, history: Sequence[float], settings: SegmentSettings
) -> float | None:
    if len(history) < settings.fewest_surprises:
        return None
    middle = median(history)
    deviation = settings.deviation_scale * median(abs(value - middle) for value in history)
    robust = (surprise - middle) / max(deviation, settings.least_deviation)
    return clip(robust, settings.least_robust, settings.most_robust)


def measure_cohesion_drop(exchange: Exchange, state: SegmenterState) -> float:
    """Measure how much an exchange weakens the segment: d, equation 3.

    Of vectors of length one the mean cosine to their centroid is the length of their sum, divided by their number.
    """
    before = math.sqrt(float(state.total @ state.total)) / state.exchanges
    joined = state.total + exchange.vector
    return max(0.0, before - math.sqrt(float(joined @ joined)) / (state.exchanges + 1))


def measure_signals(
    exchange: Exchange,
    state: SegmenterState,
    settings: SegmentSettings,
    *,
    surprise: float,
    robust: float | None,
    drop: float,
) -> BoundarySignals:
    absolute = clip(
        (surprise - settings.surprise_base) / settings.surprise_scale,
        settings.least_absolute,
        settings.most_absolute,
    )
    shift = measure_word_shift(exchange, state, settings)
    return BoundarySignals(
        surprise=absolute if robust is None else max(absolute, settings.robust_share * robust),
        cohesion=min(settings.most_cohesion, drop / settings.cohesion_scale),
        length=measure_length(state.tokens, settings),
        turns=measure_turns(state.exchanges, settings),
        word_shift=0.0 if shift is None else shift - usual_word_shift(state, settings),
        new_words=measure_new_words(exchange, state, settings),
        asks=float(exchange.asks),
        answers=0.0 - float(state.asked),
        news=float(exchange.tells_news),
        opener=float(exchange.opens),
        lone_turn=0.0 - float(len(state.turn_ids) == 1),
        pause=measure_pause(exchange, state, settings),
    )


def measure_length(tokens: int, settings: SegmentSettings) -> float:
    """Give the pressure of the segment's tokens to end it (C.1)."""
    short = settings.short_share * settings.fewest_tokens
    if tokens < short:
        return settings.length_short
    if tokens < settings.fewest_tokens:
        return rise(tokens, short, settings.fewest_tokens, settings.length_growing)
    if tokens < settings.target_tokens:
        return rise(tokens, settings.fewest_tokens, settings.target_tokens, settings.length_full)
    if tokens < settings.most_tokens:
        return rise(tokens, settings.target_tokens, settings.most_tokens, settings.length_long)
    return settings.length_most


def rise(value: float, start: float, stop: float, heights: tuple[float, float]) -> float:
    """Interpolate between two heights."""
    return heights[0] + (heights[1] - heights[0]) * (value - start) / (stop - start)


def measure_turns(exchanges: int, settings: SegmentSettings) -> float:
    """Give the pressure of the number of exchanges to end the segment (C.1)."""
    if exchanges <= len(settings.turns_few):
        return settings.turns_few[exchanges - 1]
    beyond = exchanges - len(settings.turns_few) - 1
    return min(settings.turns_most, settings.turns_base + settings.turns_step * beyond)


def measure_word_shift(exchange: Exchange, state: SegmenterState, settings: SegmentSettings) -> float | None:
    """Give one less the cosine of the exchange's words with those of the last exchanges (Hearst's TextTiling).

    None where either has no words: that says nothing.
    """
    last: dict[int, int] = {}
    for terms in state.heard[-settings.recent_exchanges :]:
        for term, count in terms.items():
            last[term] = last.get(term, 0) + count
    if not exchange.terms or not last:
        return None
    shared = sum(count * last.get(term, 0) for term, count in exchange.terms.items())
    squares = sum(count**2 for count in exchange.terms.values()) * sum(count**2 for count in last.values())
    return 1 - shared / math.sqrt(squares)


def usual_word_shift(state: SegmenterState, settings: SegmentSettings) -> float:
    """Give how much words shift from one exchange to the next in this session: more where people are brief."""
    known = settings.usual_word_shift * settings.usual_shift_exchanges
    return (known + state.shift_total) / (settings.usual_shift_exchanges + state.shifts)


def measure_new_words(exchange: Exchange, state: SegmenterState, settings: SegmentSettings) -> float:
    """Give how many words its opening turn brings up that weren't heard of late, as a share of a set number."""
    new = exchange.opening_terms.difference(*state.heard[-settings.heard_exchanges :])
    return min(1.0, len(new) / settings.most_new_words)


def measure_pause(exchange: Exchange, state: SegmenterState, settings: SegmentSettings) -> float:
    """Give how often the time since the last exchange doubles the least pause that counts."""
    if exchange.began_at is None or state.ended_at is None:
        return 0.0
    ratio = (exchange.began_at - state.ended_at) / settings.pause_seconds
    return min(settings.most_pause, math.log2(ratio)) if ratio > 1 else 0.0


def clip(value: float, least: float, most: float) -> float:
    return max(least, min(most, value))
