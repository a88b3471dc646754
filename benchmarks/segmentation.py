"""Count encoding calls and tokens of each way to segment, and compare boundaries with a model's.

`python benchmarks/segmentation.py CONVERSATIONS SEGMENTS` prints two tables: what a dry run sends (paper, Table 3),
and precision, recall and F1 of boundaries inside sessions against recorded segments, exact and within one turn, with 95 %
intervals from resampling sessions, beside as many cuts at random and windows of as many turns. `--also FILE` adds to the
first table conversations without recorded segments.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.segmentation import (
    RANDOM_DRAWS,
    Agreement,
    boundaries_of,
    cut_at_random,
    cut_evenly,
    cut_session,
    measure_agreement,
    read_sessions,
    tally,
)
from scrubjay.datatypes import BoundaryReason
from scrubjay.embed import count_tokens, load_embedder
from scrubjay.formats import read_conversations
from scrubjay.memory import Memory
from scrubjay.settings import SEGMENT_PRESETS, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.segmentation import LabelledSession
    from scrubjay.datatypes import ConsolidationPlan
    from scrubjay.embed import Embedder

PRESETS = ("eager-turn", "eager", "fixed-window", "lychee-v2", "default")
COMPARED = ("default", "lychee-v2", "fixed-window")


def plan_presets(conversations: Path, embedder: Embedder) -> dict[str, ConsolidationPlan]:
    """Plan the consolidation of all conversations, in one memory, with the segments of each preset."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.jay"
        with Memory(path, embedder=embedder) as memory:
            for conversation in read_conversations(conversations).conversations:
                name = conversation.conversation_id
                memory.add_many(
                    (f"{name}/{session.session_id}", replace(turn, turn_id=f"{name}/{turn.turn_id}"))
                    for session in conversation.sessions
                    for turn in session.turns
                )
        plans = {}
        for preset in PRESETS:
            settings = Settings(segment=SEGMENT_PRESETS[preset])
            with Memory(path, embedder=embedder, settings=settings) as memory:
                plans[preset] = memory.plan_consolidation(flush=True)
    return plans


def print_costs(name: str, sessions: Sequence[LabelledSession], plans: dict[str, ConsolidationPlan]) -> None:
    turns = sum(len(session.turns) for session in sessions)
    print(f"\n{name}: {turns:,} turns in {len(sessions):,} sessions")
    print(
        "preset        turns/segment  tokens/segment   calls  of eager   tokens in  of eager  tokens out  µs/turn  closed by"
    )
    eager = plans["eager-turn"]
    for preset, plan in plans.items():
        started = time.process_time()
        cuts = [cut_session(session, SEGMENT_PRESETS[preset]) for session in sessions]
        spent = time.process_time() - started
        count = sum(map(len, cuts))
        size = sum(segment.tokens for segments in cuts for segment in segments) / count
        reasons = Counter(segment.reason for segments in cuts for segment in segments)
        shares = " ".join(
            f"{reason.split('_')[0]} {reasons[reason] / count:.0%}" for reason in BoundaryReason
        )
        print(
            f"{preset:14}{turns / count:13.2f}{size:16.0f}{plan.calls:8,}{plan.calls / eager.calls:10.1%}"
            f"{plan.input_tokens:12,}{plan.input_tokens / eager.input_tokens:10.1%}{plan.output_tokens:12,}"
            f"{spent / turns * 1e6:9.0f}  {shares}"
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
    given = parser.parse_args()
    absent = [str(path) for path in (given.conversations, given.segments, *given.also) if not path.exists()]
    if absent:
        print(f"skipped: {', '.join(absent)} isn't there", file=sys.stderr)
        return 0
    embedder = load_embedder(given.embedder)
    sessions = read_sessions(given.conversations, embedder, count_tokens, segments=given.segments)
    print_costs(given.conversations.name, sessions, plan_presets(given.conversations, embedder))
    print_agreement(sessions)
    for path in given.also:
        print_costs(path.name, read_sessions(path, embedder, count_tokens), plan_presets(path, embedder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
