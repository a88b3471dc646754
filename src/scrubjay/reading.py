"""READ, composed for one question over one memory: recall → relevance → chain, or a plan's routes → context; called by memory.py."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.chain import build_chain
from scrubjay.confidence import measure_confidence
from scrubjay.context import CLOSING, OPENING, render_context
from scrubjay.dates import find_time_range
from scrubjay.embed import count_tokens
from scrubjay.errors import QuestionError
from scrubjay.evidence import Evidence
from scrubjay.planned import Grounds, find_first_route, queries_of, recall_plan, select_evidence
from scrubjay.planned_results import chosen_chain, chosen_records, make_record_links, record_items
from scrubjay.question import as_seconds, find_speaker, read_question, require_askable, said_within
from scrubjay.relevance import read_channels, score_turns
from scrubjay.reranking import rerank_recalled
from scrubjay.results import (
    Found,
    chain_items,
    find_best_passages,
    line_costs,
    make_hits,
    make_links,
    order_rows,
)
from scrubjay.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from scrubjay.chain import Chain
    from scrubjay.corpus import Corpus, CorpusCache
    from scrubjay.datatypes import Hit, RankBy, Record, TimeRange, Turn, Usage
    from scrubjay.embed import Embedder
    from scrubjay.planned import Chosen
    from scrubjay.planned_results import ChosenRecords
    from scrubjay.record_corpus import RecordCache
    from scrubjay.routes import Plan
    from scrubjay.settings import Settings
    from scrubjay.store import RecordStore, Store

HURRIED = "the deadline has passed: the most relevant turns, not organised further"
LATE_RECALL = "the deadline has passed: the turns for the plan's first route alone, no records"
AUTO, CHAIN, PLANNED = "auto", "chain", "planned"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadPath:
    """What a read works with."""

    turns: Store
    records: RecordStore
    corpus: CorpusCache
    record_corpus: RecordCache
    embedder: Callable[[], Embedder]  # the one of now: asked while holding the corpus's lock
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as the caller put it."""

    question: str
    most: int  # tokens of the context, or hits
    time_range: TimeRange | None  # what it names, or the caller's
    narrow: bool  # the caller's: nothing that was not said in it counts
    now: datetime
    asker: str | None = None  # the name of who asks, where known
    plan: Plan | None = None  # None: the chain
    usage: tuple[Usage, ...] = ()  # of the plan


def ask(
    question: str,
    *,
    most: int,
    deadline: float | None,
    now: datetime | None,
    time_range: TimeRange | None,
    asker: str | None,
) -> Asked:
    """Read what the caller asks; raise QuestionError for what can't be asked."""
    require_askable(question, most=most, deadline=deadline)
    now = now or datetime.now(UTC)
    return Asked(
        question=question,
        most=most,
        time_range=time_range or find_time_range(question, now),
        narrow=time_range is not None,
        now=now,
        asker=asker,
    )


def is_planned(strategy: str, path: ReadPath) -> bool:
    """Say whether a read is planned, which "auto" is where there are records; raise QuestionError for no strategy."""
    if strategy not in (AUTO, CHAIN, PLANNED):
        raise QuestionError(f"a strategy is one of {AUTO}, {CHAIN}, {PLANNED}, found {strategy!r}")
    if strategy != AUTO:
        return strategy == PLANNED
    with path.corpus.lock:
        return len(path.record_corpus.current(path.records).records) > 0


def read_evidence(asked: Asked, path: ReadPath, trace: Trace) -> Evidence:
    """Find and organise the evidence; where turns or records were forgotten meanwhile, find all anew."""
    while True:
        with path.corpus.lock:
            plan = None if trace.is_late else asked.plan
            chosen = (
                choose_asked(asked, path, trace) if plan is None else choose_planned(asked, plan, path, trace)
            )
        if isinstance(chosen, ChosenChain):
            return show_chain(chosen, asked, path, trace)
        if chosen is not None:
            return show_planned(chosen, asked, path, trace)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenChain:
    """A chain, and what its turns say."""

    found: Found
    chain: Chain
    turns: Sequence[Turn]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenPlan:
    """What a planned read chose, and what it says; the last turn of each record comes before the chain's turns."""

    plan: Plan
    chosen: Chosen
    chain: Chain
    held: ChosenRecords
    turns: Sequence[Turn]
    records: Sequence[Record]


Choice = ChosenChain | ChosenPlan | None
"""None where a turn or record was forgotten since it was found."""


def choose_asked(asked: Asked, path: ReadPath, trace: Trace) -> Choice:
    """Find turns for the question itself and build a chain; hold the corpus's lock."""
    return choose_chain(find_asked(asked, path, trace), asked, path, trace)


def choose_chain(found: Found, asked: Asked, path: ReadPath, trace: Trace) -> Choice:
    """Build a chain; hold the corpus's lock."""
    chain = organise_chain(found, path.settings, budget=asked.most, trace=trace)
    turns = turns_of(found.corpus, [link.row for link in chain.links], path)
    return None if turns is None else ChosenChain(found=found, chain=chain, turns=turns)


def show_chain(chosen: ChosenChain, asked: Asked, path: ReadPath, trace: Trace) -> Evidence:
    settings, found, chain = path.settings, chosen.found, chosen.chain
    with trace.stage("context"):
        items = chain_items(found, chain, chosen.turns, whole_tokens=settings.context.whole_turn_tokens)
        context = render_context(items, max_tokens=asked.most, count_tokens=count_tokens)
    return Evidence(
        question=asked.question,
        strategy=CHAIN,
        links=make_links(found, chain, items, context),
        text=context.text,
        tokens=context.tokens,
        max_tokens=asked.most,
        time_range=found.time_range,
        trace=trace.stages,
        usage=asked.usage,
        confidence=confidence_of(found, settings),
        answerable_from=settings.confidence.answerable_from,
    )


def choose_planned(asked: Asked, plan: Plan, path: ReadPath, trace: Trace) -> ChosenPlan | ChosenChain | None:
    """Recall by a plan's routes and select; where time runs out, build a chain of what the first route finds.

    Hold the corpus's lock.
    """
    grounds = read_grounds(asked, plan, path, trace)
    if trace.is_late:
        with trace.stage("recall", fallback=LATE_RECALL):
            found = find_first_route(plan, grounds)
        return choose_chain(found, asked, path, trace)
    with trace.stage("recall", fallback=tell_stranger(asked.asker, grounds.corpus.turns.speakers)):
        recalled = recall_plan(plan, grounds)
    recalled = rerank_recalled(recalled, grounds, trace, turns=path.turns, records=path.records)
    if trace.is_late:
        return choose_chain(recalled.found[0], asked, path, trace)
    with trace.stage("select"):
        chosen = select_evidence(recalled, grounds)
    chain, held = chosen_chain(chosen, grounds.corpus), chosen_records(chosen)
    rows = [*held.last_turns, *(link.row for link in chain.links)]
    turns = turns_of(grounds.corpus, rows, path)
    records = path.records.records_at(grounds.records.records.row[list(held.rows)].tolist())
    if turns is None or len(records) < len(held.rows):
        return None
    return ChosenPlan(plan=plan, chosen=chosen, chain=chain, held=held, turns=turns, records=records)


def show_planned(plan: ChosenPlan, asked: Asked, path: ReadPath, trace: Trace) -> Evidence:
    chosen, records = plan.chosen, plan.records
    with trace.stage("context"):
        whole, found = path.settings.context.whole_turn_tokens, chosen.recalled.found[0]
        stated = record_items(plan.held.picks, records, plan.turns[: len(records)])
        said = chain_items(found, plan.chain, plan.turns[len(records) :], whole_tokens=whole)
        context = render_context([*stated, *said], max_tokens=asked.most, count_tokens=count_tokens)
    links = make_links(found, plan.chain, said, context, records=len(stated))
    numbers = {link.turn.turn_id: link.number for link in links}
    return Evidence(
        question=asked.question,
        strategy=PLANNED,
        links=links,
        text=context.text,
        tokens=context.tokens,
        max_tokens=asked.most,
        time_range=plan.plan.time_range,
        trace=trace.stages,
        records=make_record_links(chosen, plan.held, stated, context, numbers),
        question_type=plan.plan.question_type.value,
        usage=asked.usage,
        confidence=confidence_of(found, path.settings),
        answerable_from=path.settings.confidence.answerable_from,
    )


def read_grounds(asked: Asked, plan: Plan, path: ReadPath, trace: Trace) -> Grounds:
    """Embed what a plan asks for and bring the columns up to date; hold the corpus's lock."""
    with trace.stage("embed"):
        asked_for = (queries_of(route, plan, asked.question) for route in plan.routes)
        queries = list(dict.fromkeys(query for of_route in asked_for for query in of_route))
        vectors = dict(zip(queries, path.embedder().embed(queries), strict=True))
    with trace.stage("index"):
        records = path.record_corpus.current(path.records)  # before the turns: these hold all theirs
        corpus = path.corpus.current(path.turns)
    return Grounds(
        question=asked.question,
        corpus=corpus,
        records=records,
        settings=path.settings,
        vectors=vectors,
        narrow=asked.time_range if asked.narrow else None,
        asker=asked.asker,
        max_tokens=asked.most,
    )


def search_turns(asked: Asked, path: ReadPath, *, by: RankBy) -> tuple[Hit, ...]:
    """Rank turns, best first; those forgotten meanwhile are found no more."""
    while True:
        with path.corpus.lock:
            found = find_asked(asked, path, Trace())
            rows = order_rows(found, path.settings.chain, by=by)[: asked.most].tolist()
            turns = turns_of(found.corpus, rows, path)
        if turns is not None:
            return make_hits(found, rows, turns)


def find_asked(asked: Asked, path: ReadPath, trace: Trace) -> Found:
    """Score every turn for a question; hold the corpus's lock."""
    with trace.stage("embed"):
        vector = path.embedder().embed([asked.question])[0]
    with trace.stage("index"):
        corpus = path.corpus.current(path.turns)
    return find_turns(
        asked.question,
        corpus,
        path.settings,
        vector=vector,
        time_range=asked.time_range,
        narrow=asked.narrow,
        trace=trace,
        asker=asked.asker,
    )


def confidence_of(found: Found, settings: Settings) -> float:
    """Reckon how likely a question can be answered, as its own words and whom it names find the turns."""
    return measure_confidence(found.question, found.corpus.turns, found.scores, settings.confidence)


def turns_of(corpus: Corpus, rows: Sequence[int], path: ReadPath) -> list[Turn] | None:
    """Give the turns of rows, or None where one was forgotten since they were found."""
    wanted = corpus.turns.row[list(rows)].tolist()
    distinct = list(dict.fromkeys(wanted))
    held = list(path.turns.turns(rows=distinct))
    if len(held) < len(distinct):
        return None
    by_row = dict(zip(distinct, held, strict=True))
    return [by_row[row] for row in wanted]


def find_turns(  # noqa: PLR0913 -- what one question and one memory are made of
    text: str,
    corpus: Corpus,
    settings: Settings,
    *,
    vector: NDArray[np.float32],
    time_range: TimeRange | None,
    narrow: bool,
    trace: Trace,
    asker: str | None = None,
) -> Found:
    """Score every turn for a question: what its words and its vector find, and what stands around.

    What was said in `time_range` counts more; with `narrow`, nothing else counts. `asker` is the speaker whom "I" means.
    """
    with trace.stage("recall", fallback=tell_stranger(asker, corpus.turns.speakers)):
        question = read_question(
            text,
            vector=vector,
            speakers=corpus.turns.speakers,
            asker=asker,
            time_range=as_seconds(time_range),
        )
        match = corpus.lexical.match(question.hashes, question.weights)
        cosines = corpus.cosines(vector, match.scores)
        channels = read_channels(question, match, cosines, corpus.passages.turn)
    with trace.stage("relevance"):
        allowed = said_within(corpus.turns, time_range) if narrow and time_range is not None else None
        scores = score_turns(question, corpus.turns, channels, settings.relevance, allowed=allowed)
        best = find_best_passages(match.scores, cosines, corpus.passages.turn, len(corpus.turns))
    return Found(question=question, time_range=time_range, corpus=corpus, scores=scores, best_passage=best)


def tell_stranger(asker: str | None, speakers: Sequence[str]) -> str:
    """Say what "I" means all the same where nobody in the memory has the name of who asks; "" where somebody has."""
    if asker is None or find_speaker(asker, speakers) is not None:
        return ""
    return f'nobody called {asker!r} speaks here: "I" was taken for anybody but an assistant'


def organise_chain(found: Found, settings: Settings, *, budget: int, trace: Trace) -> Chain:
    """Choose anchors and neighbours for a budget of tokens; past the deadline, the most relevant turns alone."""
    late = trace.is_late
    lexical, passage = found.corpus.lexical, found.best_passage
    with trace.stage("chain", fallback=HURRIED if late else ""):
        return build_chain(
            found.scores,
            found.corpus.turns,
            lambda rows: lexical.term_sets(passage[rows].astype(np.int32)),
            settings.chain.hurried() if late else settings.chain,
            max_tokens=budget - sum(count_tokens([OPENING, CLOSING])),
            cost=line_costs(found, whole_tokens=settings.context.whole_turn_tokens),
        )
