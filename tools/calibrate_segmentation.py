"""Fit the weights of the boundary score to segments that a model made, and print them as settings.

`python tools/calibrate_segmentation.py CONVERSATIONS SEGMENTS` (docs/segmentation.md). The procedure, the same on any data:

1. Follow the recorded segments, so that every signal is measured against the segment a model had open, and note the
   signals of each exchange and whether a recorded segment begins with it.
2. Set the zero and the unit of the absolute surprise signal to the median and the deviation (from the median absolute
   deviation) of surprise.
3. Fit a logistic regression with a ridge penalty on signals of unit deviation. A weight below zero means that the signal
   doesn't say what it was made to say: the worst is left out and the rest fitted again. A weight whose signal never
   varies (pauses, where there are no times of day) keeps its setting.
4. Let it run freely and halve the interval of cut probabilities until segments have the wanted turns.

Then leave out one conversation at a time, fit on the others and measure on the one: that is the table it prints.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.segmentation import (
    boundaries_of,
    cut_at_random,
    cut_session,
    pick_threshold,
    rate,
    read_sessions,
    tally,
)
from scrubjay.boundary import SIGNAL_NAMES, judge_boundary
from scrubjay.embed import count_tokens, load_embedder
from scrubjay.exchanges import build_exchange, opens_exchange
from scrubjay.segment import empty_segment, join_segment, start_session
from scrubjay.settings import SEGMENT_PRESETS, SegmentSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.segmentation import LabelledSession
    from scrubjay.boundary import Decision
    from scrubjay.datatypes import IndexedTurn

RIDGE = 3.0  # in the units of signals of deviation one
ROUNDS = 50  # of Newton's method, far more than it needs
LEAST_DEVIATION = 1e-6  # of a signal that varies


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """An exchange judged against the recorded segment before it."""

    decision: Decision
    begins: bool  # a recorded segment begins with it


def follow_recorded(session: LabelledSession, settings: SegmentSettings) -> list[Observation]:
    """Judge every exchange while the recorded segments, not the decisions, close."""
    state = start_session(len(session.turns[0].vector))
    starts = {session.turns[place].turn.turn_id for place in session.starts}
    observations = []
    exchanges: list[list[IndexedTurn]] = []
    for turn in session.turns:
        if not exchanges or opens_exchange(turn, exchanges[-1], turn_is_exchange=settings.turn_is_exchange):
            exchanges.append([])
        exchanges[-1].append(turn)
    for turns in exchanges:
        exchange = build_exchange(turns, settings)
        surprise = None
        if state.exchanges:
            begins = exchange.turn_ids[0] in starts
            decision = judge_boundary(exchange, state, settings)
            observations.append(Observation(decision=decision, begins=begins))
            surprise = decision.surprise
            state = empty_segment(state) if begins else state
        state = join_segment(state, exchange, surprise, settings)
    return observations


def observe(sessions: Sequence[LabelledSession], settings: SegmentSettings) -> list[Observation]:
    return [each for session in sessions for each in follow_recorded(session, settings)]


def fit_weights(
    signals: NDArray[np.float64], begins: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Fit bias and weights, none below zero, by Newton's method."""
    deviations = signals.std(axis=0)
    used = [place for place in range(signals.shape[1]) if deviations[place] > LEAST_DEVIATION]
    while True:
        rows = np.column_stack([np.ones(len(signals)), signals[:, used] / deviations[used]])
        fitted = maximise_likelihood(rows, begins)
        if fitted[1:].min(initial=0.0) >= 0:
            break
        del used[int(np.argmin(fitted[1:]))]
    weights = np.zeros(signals.shape[1])
    weights[used] = fitted[1:] / deviations[used]
    return float(fitted[0]), weights


def maximise_likelihood(rows: NDArray[np.float64], labels: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.zeros(rows.shape[1])
    penalty = RIDGE * np.eye(len(weights))
    penalty[0, 0] = 0  # the bias is free
    for _ in range(ROUNDS):
        chances = 1 / (1 + np.exp(-rows @ weights))
        curvature = (rows * (chances * (1 - chances))[:, None]).T @ rows + penalty
        weights = weights + np.linalg.solve(curvature, rows.T @ (labels - chances) - penalty @ weights)
    return weights


def calibrate(
    sessions: Sequence[LabelledSession], settings: SegmentSettings, *, turns_per_segment: float
) -> SegmentSettings:
    """Run the four steps on sessions with recorded segments."""
    surprises = [each.decision.surprise for each in observe(sessions, settings)]
    base = median(surprises)
    scale = settings.deviation_scale * median(abs(surprise - base) for surprise in surprises)
    settings = replace(settings, surprise_base=round(base, 3), surprise_scale=round(scale, 3))
    observations = observe(sessions, settings)
    signals = np.array(
        [[getattr(each.decision.signals, name) for name in SIGNAL_NAMES] for each in observations]
    )
    bias, weights = fit_weights(signals, np.array([each.begins for each in observations], np.float64))
    varying = signals.std(axis=0) > LEAST_DEVIATION
    fitted = {
        name: round(float(weight), 2)
        for name, weight, varies in zip(SIGNAL_NAMES, weights, varying, strict=True)
        if varies
    }
    settings = replace(settings, bias=round(bias, 2), weights=replace(settings.weights, **fitted))
    return pick_threshold(sessions, settings, turns_per_segment=turns_per_segment)


def print_held_out(
    sessions: Sequence[LabelledSession], start: SegmentSettings, *, turns_per_segment: float
) -> None:
    """Fit without each conversation in turn, and print how its boundaries agree, beside as many random cuts."""
    print("left out        turns/segment  precision  recall     F1  random F1")
    conversations = dict.fromkeys(session.conversation_id for session in sessions)
    all_found: list[list[int]] = []
    ordered: list[LabelledSession] = []
    for name in conversations:
        rest = [session for session in sessions if session.conversation_id != name]
        own = [session for session in sessions if session.conversation_id == name]
        settings = calibrate(rest, start, turns_per_segment=turns_per_segment)
        found = [boundaries_of(cut_session(session, settings)) for session in own]
        print_line(name, own, found)
        ordered += own
        all_found += found
    print_line("all", ordered, all_found)


def print_line(name: str, sessions: Sequence[LabelledSession], found: Sequence[Sequence[int]]) -> None:
    cuts = sum(map(len, found))
    generator = np.random.default_rng(0)
    drawn = [
        rate(tally(sessions, cut_at_random(sessions, cuts, generator), within=0).sum(axis=0))[2]
        for _ in range(20)
    ]
    precision, recall, f1 = rate(tally(sessions, found, within=0).sum(axis=0))
    length = sum(len(session.turns) for session in sessions) / (cuts + len(sessions))
    print(f"{name:16}{length:13.2f}{precision:11.3f}{recall:8.3f}{f1:7.3f}{np.mean(drawn):11.3f}")


def print_settings(settings: SegmentSettings) -> None:
    for name in ("cut_probability", "bias", "surprise_base", "surprise_scale"):
        print(f"{name}={getattr(settings, name)},")
    print("weights=SignalWeights(")
    for name in SIGNAL_NAMES:
        print(f"    {name}={getattr(settings.weights, name)},")
    print("),")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("conversations", type=Path, help="a file of any format ScrubJay reads")
    parser.add_argument("segments", type=Path, help="conversation id → segments with the ids of their turns")
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--preset", choices=SEGMENT_PRESETS, default="default", help="what isn't fitted")
    parser.add_argument("--turns-per-segment", type=float, default=5.8, help="the paper's on LoCoMo: 5.8")
    given = parser.parse_args()
    embedder = load_embedder(given.embedder)
    sessions = read_sessions(given.conversations, embedder, count_tokens, segments=given.segments)
    start = SEGMENT_PRESETS[given.preset]
    print_settings(calibrate(sessions, start, turns_per_segment=given.turns_per_segment))
    print()
    print_held_out(sessions, start, turns_per_segment=given.turns_per_segment)


if __name__ == "__main__":
    main()
