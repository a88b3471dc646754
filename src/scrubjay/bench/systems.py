"""What the retrieval benchmark compares: each system ranks turns and fills contexts, over the same memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scrubjay.context import ContextItem, render_context
from scrubjay.datatypes import RankBy
from scrubjay.embed import count_tokens
from scrubjay.errors import SettingsError
from scrubjay.reading_settings import ALL_CHANNELS, RecallChannel, RecallSettings, TurnsBy
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from scrubjay.bench.questions import BenchQuestion
    from scrubjay.datatypes import Turn
    from scrubjay.evidence import Evidence
    from scrubjay.memory import Memory

RANKING_TOKENS = 4_000  # of the context whose order of choosing is a ranking
RANKED = 200  # turns of a ranking that are written down
BASELINE_ITEMS = 120  # turns at most that a baseline's context is filled from: more than 4,000 tokens hold

Rank = Callable[["Memory", "BenchQuestion"], tuple[str, ...]]
Fill = Callable[["Memory", "BenchQuestion", int], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A way to find evidence: its settings, how it ranks turns, and the turns of its context for a budget."""

    name: str
    about: str
    settings: Settings
    rank: Rank
    fill: Fill


def rank_by(channel: RankBy) -> Rank:
    def rank(memory: Memory, asked: BenchQuestion) -> tuple[str, ...]:
        return search_turns(memory, asked, by=channel)

    return rank


def search_turns(memory: Memory, asked: BenchQuestion, *, by: RankBy) -> tuple[str, ...]:
    hits = memory.search(asked.question, limit=RANKED, by=by, now=asked.asked_at, asker=asked.asked_by)
    return tuple(hit.turn.turn_id for hit in hits)


def recall(memory: Memory, asked: BenchQuestion, *, strategy: str, budget: int) -> Evidence:
    return memory.recall(
        asked.question, strategy=strategy, max_tokens=budget, now=asked.asked_at, asker=asked.asked_by
    )


def recall_turns(memory: Memory, asked: BenchQuestion, budget: int) -> tuple[str, ...]:
    return recall(memory, asked, strategy="chain", budget=budget).turn_ids


def recall_covered(memory: Memory, asked: BenchQuestion, budget: int) -> tuple[str, ...]:
    """Give the turns shown, and those that records shown stand for."""
    return recall(memory, asked, strategy="planned", budget=budget).covered_turn_ids


def rank_covered(memory: Memory, asked: BenchQuestion) -> tuple[str, ...]:
    """Rank turns by when they, or records that stand for them, are chosen for a long context."""
    covered = recall_covered(memory, asked, RANKING_TOKENS)
    found = search_turns(memory, asked, by=RankBy.RELEVANCE)
    return tuple(dict.fromkeys((*covered, *found)))[:RANKED]


def fill_in_order(rank: Rank) -> Fill:
    """Fill a context with the first turns of a ranking, whole, rendered as ours are."""

    def fill(memory: Memory, asked: BenchQuestion, budget: int) -> tuple[str, ...]:
        turns = [memory.turn(turn_id) for turn_id in rank(memory, asked)[:BASELINE_ITEMS]]
        return fitting_turns(turns, budget=budget)

    return fill


def fitting_turns(turns: Sequence[Turn], *, budget: int) -> tuple[str, ...]:
    """Give the turns, best first, whose rendering fits the budget."""
    sessions = {
        session: place for place, session in enumerate(dict.fromkeys(turn.session_id for turn in turns))
    }
    items = [
        ContextItem(turn=turn, session=sessions[turn.session_id], value=float(-place), excerpt=None)
        for place, turn in enumerate(turns)
    ]
    shown = render_context(items, max_tokens=budget, count_tokens=count_tokens).shown
    return tuple(items[place].turn.turn_id for place in shown)


def last_turns(memory: Memory, asked: BenchQuestion) -> tuple[str, ...]:  # noqa: ARG001 -- a Rank
    """Rank the newest turn first, whatever is asked."""
    return tuple(turn.turn_id for turn in reversed(list(memory.turns())))[:RANKED]


def chain_system(name: str, about: str, settings: Settings) -> System:
    return System(
        name=name, about=about, settings=settings, rank=rank_by(RankBy.RELEVANCE), fill=recall_turns
    )


def planned_system(name: str, about: str, settings: Settings) -> System:
    return System(name=name, about=about, settings=settings, rank=rank_covered, fill=recall_covered)


def planned_systems() -> tuple[System, ...]:
    """Give planned reading as it is, from records alone, with plain turns, and without each channel."""
    default = Settings()
    recall = default.reading.recall

    def variant(recall: RecallSettings) -> Settings:
        return replace(default, reading=replace(default.reading, recall=recall))

    without = tuple(
        planned_system(
            f"planned-minus-{channel}",
            f"planned, without the channel {channel}",
            variant(replace(recall, channels=tuple(kept for kept in ALL_CHANNELS if kept is not channel))),
        )
        for channel in ALL_CHANNELS
    )
    return (
        planned_system(
            "planned", "records and turns by a plan's routes, turns ranked as the chain's are", default
        ),
        planned_system(
            "planned-no-chain",
            "planned, turns found by words and vectors alone",
            variant(replace(recall, turns_by=TurnsBy.CHANNELS)),
        ),
        planned_system(
            "records",
            "records alone, by their own words and vectors",
            variant(replace(recall, channels=(RecallChannel.RECORDS,))),
        ),
        *without,
    )


def baseline(name: str, about: str, rank: Rank) -> System:
    return System(name=name, about=about, settings=Settings(), rank=rank, fill=fill_in_order(rank))


def make_systems() -> Mapping[str, System]:
    systems = (
        chain_system("chain", "what recall does: soft signals, anchors, neighbours", Settings()),
        baseline("bm25", "BM25 alone", rank_by(RankBy.LEXICAL)),
        baseline("vectors", "cosine of the embedder's vectors alone", rank_by(RankBy.DENSE)),
        baseline("rrf", "reciprocal-rank fusion of the two", rank_by(RankBy.FUSED)),
        baseline("last-turns", "the newest turns, whatever is asked", last_turns),
        chain_system("cod-relevance", "CoD: anchors by relevance alone", Settings.preset("cod-relevance")),
        chain_system("cod-diversity", "CoD: and by diversity", Settings.preset("cod-diversity")),
        chain_system("cod-coverage", "CoD: and by newly covered terms", Settings.preset("cod-coverage")),
        chain_system("cod", "CoD whole: and with neighbourhoods", Settings.preset("cod")),
        *planned_systems(),
        *(planned_system(name, f"the preset {name}", Settings.preset(name)) for name in PAPER_READS),
    )
    return {system.name: system for system in systems}


BASELINES = ("bm25", "vectors", "rrf", "last-turns")
PAPER_READS = ("lychee-v2", "record-vector-only", "no-fusion")
PLANNED = (
    "chain",
    "records",
    "planned-no-chain",
    "planned",
    *(f"planned-minus-{channel}" for channel in ALL_CHANNELS),
    *PAPER_READS,
)
ABLATION = ("cod-relevance", "cod-diversity", "cod-coverage", "cod")


def find_system(name: str) -> System:
    systems = make_systems()
    if name not in systems:
        raise SettingsError(f"strategy: expected one of {', '.join(systems)}, found {name!r}")
    return systems[name]
