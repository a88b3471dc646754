"""Count encoding calls and tokens of each way to segment, and compare boundaries with a model's.

`python benchmarks/segmentation.py CONVERSATIONS SEGMENTS` prints two tables: what a dry run would send (paper, Table 3),
and precision, recall and F1 of boundaries inside sessions against recorded segments, exact and within one turn, with 95 %
intervals from resampling sessions, beside as many cuts at random and windows of as many turns. `--also FILE` adds to the
first table conversations without recorded segments.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.segmentation import (
    RANDOM_DRAWS,
    Agreement,
    CallShape,
    boundaries_of,
    count_sent_tokens,
    cut_at_random,
    cut_evenly,
    cut_session,
    measure_agreement,
    read_sessions,
    tally,
)
from scrubjay.datatypes import BoundaryReason
from scrubjay.embed import count_tokens, load_embedder
from scrubjay.settings import SEGMENT_PRESETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.segmentation import LabelledSession

COMPARED = ("default", "lychee-v2", "fixed-window")


def print_costs(name: str, sessions: Sequence[LabelledSession], shape: CallShape) -> None:
    turns = sum(len(session.turns) for session in sessions)
    print(f"\n{name}: {turns:,} turns in {len(sessions):,} sessions")
    print(
        "preset        turns/segment  tokens/segment   calls  of eager      tokens  of eager  µs/turn  closed by"
    )
    costs = {}
    for preset in ("eager-turn", "eager", "fixed-window", "lychee-v2", "default"):
        started = time.process_time()
        cuts = [cut_session(session, SEGMENT_PRESETS[preset]) for session in sessions]
        spent = time.process_time() - started
        calls = sum(map(len, cuts))
        sent = sum(count_sent_tokens(segments, shape) for segments in cuts)
        costs[preset] = (calls, sent)
        size = sum(segment.tokens for segments in cuts for segment in segments) / calls
        reasons = Counter(segment.reason for segments in cuts for segment in segments)
        shares = " ".join(
            f"{reason.split('_')[0]} {reasons[reason] / calls:.0%}" for reason in BoundaryReason
        )
        print(
            f"{preset:14}{turns / calls:13.2f}{size:16.0f}{calls:8,}{calls / costs['eager-turn'][0]:10.1%}"
            f"{sent:12,}{sent / costs['eager-turn'][1]:10.1%}{spent / turns * 1e6:9.0f}  {shares}"
        )


def print_agreement(sessions: Sequence[LabelledSession]) -> None:
    print("\nboundaries against recorded segments, [95 % interval]")
    header = "".join(f"{name:22}" for name in ("precision", "recall", "F1"))
    for within, words in ((0, "exact"), (1, "within one turn")):
        print(f"{words:26} cuts  {header}")
        for preset in COMPARED:
            found = [boundaries_of(cut_session(session, SEGMENT_PRESETS[preset])) for session in sessions]
            cuts = sum(map(len, found))
            agreement = measure_agreement(tally(sessions, found, within=within))
            print_line(preset, cuts, agreement)
            chance = measure_agreement(tally_random(sessions, cuts, within=within))
            print_line("  as many at random", cuts, chance)
            print(f"{'  F1 against random':32}{agreement.f1[0] / chance.f1[0]:.2f} times")
        every = pick_window(sessions)
        found = cut_evenly(sessions, every)
        print_line(
            f"every {every} turns",
            sum(map(len, found)),
            measure_agreement(tally(sessions, found, within=within)),
        )


def print_line(name: str, cuts: int, agreement: Agreement) -> None:
    cells = "".join(
        f"{mean:.3f} [{low:.3f}, {high:.3f}]  "
        for mean, low, high in (agreement.precision, agreement.recall, agreement.f1)
    )
    print(f"{name:26}{cuts:5}  {cells}")


def tally_random(sessions: Sequence[LabelledSession], cuts: int, *, within: int) -> NDArray[np.float64]:
    """Count the mean matches of many draws, session by session."""
    generator = np.random.default_rng(0)
    draws = [
        tally(sessions, cut_at_random(sessions, cuts, generator), within=within) for _ in range(RANDOM_DRAWS)
    ]
    mean: NDArray[np.float64] = np.mean(draws, axis=0)
    return mean


def pick_window(sessions: Sequence[LabelledSession]) -> int:
    """Give the window that makes about as many cuts as the default does."""
    wanted = sum(len(cut_session(session, SEGMENT_PRESETS["default"])) - 1 for session in sessions)
    return min(range(2, 40), key=lambda every: abs(sum(map(len, cut_evenly(sessions, every))) - wanted))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("conversations", type=Path, help="a file of any format ScrubJay reads")
    parser.add_argument("segments", type=Path, help="conversation id → segments with the ids of their turns")
    parser.add_argument("--also", type=Path, nargs="*", default=(), help="conversations without segments")
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--prompt-tokens", type=int, default=CallShape().prompt, help="of an encoding call")
    given = parser.parse_args()
    absent = [str(path) for path in (given.conversations, given.segments, *given.also) if not path.exists()]
    if absent:
        print(f"skipped: {', '.join(absent)} isn't there", file=sys.stderr)
        return 0
    embedder = load_embedder(given.embedder)
    shape = CallShape(prompt=given.prompt_tokens)
    sessions = read_sessions(given.conversations, embedder, count_tokens, segments=given.segments)
    print_costs(given.conversations.name, sessions, shape)
    print_agreement(sessions)
    for path in given.also:
        print_costs(path.name, read_sessions(path, embedder, count_tokens), shape)
    return 0


if __name__ == "__main__":
    sys.exit(main())
