"""What the retrieval benchmark compares over one memory of ours: each system ranks turns and fills contexts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scrubjay.context import ContextItem, render_context, turn_line
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
TIMED_TOKENS = 1_000  # of the context whose making is timed
RANKED = 200  # turns of a ranking that are written down

Rank = Callable[["Memory", "BenchQuestion"], "Sequence[Turn]"]
Recall = Callable[["Memory", "BenchQuestion", int], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a system gives for a question."""

    ranking: tuple[str, ...]  # turn ids, best first
    evidence: Mapping[int, tuple[str, ...]]  # turn ids of the context rendered within each budget
    milliseconds: float  # to find what to show and render it within `TIMED_TOKENS`


Ask = Callable[["Memory", "BenchQuestion", "Sequence[int]"], Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A way to find evidence in a memory of ours: its settings, and how it answers a question."""

    name: str
    about: str
    settings: Settings
    ask: Ask


def rank_by(channel: RankBy) -> Rank:
    def rank(memory: Memory, asked: BenchQuestion) -> Sequence[Turn]:
        hits = memory.search(
            asked.question, limit=RANKED, by=channel, now=asked.asked_at, asker=asked.asked_by
        )
        return [hit.turn for hit in hits]

    return rank


def last_turns(memory: Memory, asked: BenchQuestion) -> Sequence[Turn]:  # noqa: ARG001 -- a Rank
    """Rank the newest turn first, whatever is asked."""
    return list(memory.turns())[: -RANKED - 1 : -1]


def recall(memory: Memory, asked: BenchQuestion, *, strategy: str, budget: int) -> Evidence:
    return memory.recall(
        asked.question, strategy=strategy, max_tokens=budget, now=asked.asked_at, asker=asked.asked_by
    )


def recall_turns(memory: Memory, asked: BenchQuestion, budget: int) -> tuple[str, ...]:
    return recall(memory, asked, strategy="chain", budget=budget).turn_ids


def recall_covered(memory: Memory, asked: BenchQuestion, budget: int) -> tuple[str, ...]:
    """Give the turns shown, and those that records shown stand for."""
    return recall(memory, asked, strategy="planned", budget=budget).covered_turn_ids


def ask_by_rank(rank: Rank) -> Ask:
    """Fill contexts with the first turns of one ranking, whole, rendered as ours are."""

    def ask(memory: Memory, asked: BenchQuestion, budgets: Sequence[int]) -> Finding:
        started = time.perf_counter()
        return fill_contexts(rank(memory, asked), budgets, started=started)

    return ask


def fill_contexts(turns: Sequence[Turn], budgets: Sequence[int], *, started: float) -> Finding:
    """Fill a context for each budget with the first turns of a ranking that began to be made at `started`."""
    timed = fitting_turns(turns, budget=TIMED_TOKENS)
    spent = (time.perf_counter() - started) * 1000
    others = {budget: fitting_turns(turns, budget=budget) for budget in budgets if budget != TIMED_TOKENS}
    return Finding(
        ranking=tuple(turn.turn_id for turn in turns[:RANKED]),
        evidence={budget: others.get(budget, timed) for budget in budgets},
        milliseconds=spent,
    )


def fitting_turns(turns: Sequence[Turn], *, budget: int) -> tuple[str, ...]:
    """Give the turns, best first, whose rendering fits the budget."""
    chosen: list[Turn] = []
    sizes: list[int] = []
    for turn in turns:
        if sum(sizes) > budget:
            break
        chosen.append(turn)
        sizes += count_tokens([turn_line(turn, None)])
    sessions = {session: place for place, session in enumerate(dict.fromkeys(t.session_id for t in chosen))}
    items = [
        ContextItem(
            turn=turn, session=sessions[turn.session_id], value=float(-place), excerpt=None, tokens=size
        )
        for place, (turn, size) in enumerate(zip(chosen, sizes, strict=True))
    ]
    shown = render_context(items, max_tokens=budget, count_tokens=count_tokens).shown
    return tuple(items[place].turn.turn_id for place in shown)


def ask_by_recall(recall: Recall, *, covered: bool) -> Ask:
    """Recall for each budget; rank by relevance, where turns are `covered` by records by a long context first."""

    def ask(memory: Memory, asked: BenchQuestion, budgets: Sequence[int]) -> Finding:
        started = time.perf_counter()
        timed = recall(memory, asked, TIMED_TOKENS)
        spent = (time.perf_counter() - started) * 1000
        wanted = {*budgets, *([RANKING_TOKENS] if covered else [])} - {TIMED_TOKENS}
        evidence = {budget: recall(memory, asked, budget) for budget in wanted}
        evidence[TIMED_TOKENS] = timed
        found = [turn.turn_id for turn in rank_by(RankBy.RELEVANCE)(memory, asked)]
        first = evidence[RANKING_TOKENS] if covered else ()
        return Finding(
            ranking=tuple(dict.fromkeys((*first, *found)))[:RANKED],
            evidence={budget: evidence[budget] for budget in budgets},
            milliseconds=spent,
        )

    return ask


def chain_system(name: str, about: str, settings: Settings) -> System:
    return System(name=name, about=about, settings=settings, ask=ask_by_recall(recall_turns, covered=False))


def planned_system(name: str, about: str, settings: Settings) -> System:
    return System(name=name, about=about, settings=settings, ask=ask_by_recall(recall_covered, covered=True))


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
    return System(name=name, about=about, settings=Settings(), ask=ask_by_rank(rank))


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
