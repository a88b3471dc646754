"""READ, composed for one plan over one memory: recall by routes → fuse → select; called by reading.py (LycheeMemory V2, 3.5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from scrubjay.beside import with_neighbours
from scrubjay.candidates import (
    Priced,
    find_first,
    find_needed,
    gather,
    make_items,
    make_signatures,
    window_rows,
)
from scrubjay.context import CLOSING, OPENING
from scrubjay.embed import count_tokens
from scrubjay.fuse import fuse_routes, merge_route, quota_of
from scrubjay.presets import QUESTION_PRESETS
from scrubjay.question import as_seconds, read_question, said_within
from scrubjay.recall import Need, Said, count_results, limits_for, link_sources, recall_route
from scrubjay.relevance import read_channels, score_turns
from scrubjay.results import Found, find_best_passages, line_costs
from scrubjay.selection import Beside, select_by_count, select_by_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from scrubjay.candidates import Candidates
    from scrubjay.corpus import Corpus
    from scrubjay.datatypes import TimeRange
    from scrubjay.presets import QuestionPreset
    from scrubjay.recall import RouteRecall, Sources
    from scrubjay.record_corpus import RecordCorpus
    from scrubjay.route_lists import RouteList
    from scrubjay.routes import Plan, Route
    from scrubjay.selection import Pick
    from scrubjay.settings import Settings

    Rows = NDArray[np.intp]

NO_ROWS = np.empty(0, np.intp)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grounds:
    """What one planned read works on."""

    corpus: Corpus
    records: RecordCorpus
    settings: Settings
    question: str
    vectors: Mapping[str, NDArray[np.float32]]  # of every query asked
    narrow: TimeRange | None  # leaves out all that was not said in it
    asker: str | None  # the name of who asks
    max_tokens: int

    @property
    def allowed(self) -> NDArray[np.bool_] | None:
        """The turns that may count; None where all may."""
        return None if self.narrow is None else said_within(self.corpus.turns, self.narrow)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recalled:
    """What the routes found, and how likely each of t turns is evidence for each."""

    plan: Plan
    preset: QuestionPreset
    sources: Sources
    found: tuple[Found, ...]  # one a route
    routes: tuple[RouteRecall, ...]
    chances: NDArray[np.float64]  # (routes, t)

    def with_routes(self, routes: tuple[RouteRecall, ...], grounds: Grounds) -> Self:
        """Give the same with routes in another order, and the chances that follow from it."""
        chances = [
            chances_of(route, one, grounds.settings) for route, one in zip(routes, self.found, strict=True)
        ]
        return replace(self, routes=routes, chances=np.stack(chances))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """What a planned read shows if there is room: items of the candidates, in the order in which they were chosen."""

    recalled: Recalled
    candidates: Candidates
    picks: tuple[Pick, ...]


def recall_plan(plan: Plan, grounds: Grounds) -> Recalled:
    """Run every route's channels."""
    preset, settings = QUESTION_PRESETS[plan.question_type], grounds.settings.reading.recall
    table, allowed = grounds.corpus.turns, grounds.allowed
    sources = link_sources(grounds.records, table, allowed=allowed)
    limits = limits_for(grounds.max_tokens, settings, preset)
    found = tuple(find_route(route, plan, grounds, allowed) for route in plan.routes)
    routes = tuple(
        recall_route(
            need_of(route, plan, one, grounds),
            grounds.records,
            Said(table=table, scores=one.scores, sources=sources),
            limits=limits,
            settings=settings,
        )
        for route, one in zip(plan.routes, found, strict=True)
    )
    chances = np.stack(
        [chances_of(route, one, grounds.settings) for route, one in zip(routes, found, strict=True)]
    )
    return Recalled(plan=plan, preset=preset, sources=sources, found=found, routes=routes, chances=chances)


def chances_of(route: RouteRecall, found: Found, settings: Settings) -> NDArray[np.float64]:
    """Give how likely each turn is evidence for a route: not at all, where nothing looks like evidence."""
    is_promising = found.scores.promise >= settings.chain.least_promise
    if not is_promising and route.covered < settings.reading.recall.least_covered:
        return np.zeros_like(route.log_odds)
    chances = 1 / (1 + np.exp(-route.log_odds))
    return np.where(chances >= settings.chain.least_relevance, chances, 0)


def find_first_route(plan: Plan, grounds: Grounds) -> Found:
    """Score the turns for the first route alone, which is what there is time for past the deadline."""
    return find_route(plan.routes[0], plan, grounds, grounds.allowed)


def find_route(route: Route, plan: Plan, grounds: Grounds, allowed: NDArray[np.bool_] | None) -> Found:
    """Score every turn for a route: what the words of all its queries find, and the vector of each."""
    corpus, settings = grounds.corpus, grounds.settings
    time_range = route.time_range or plan.time_range
    queries = queries_of(route, plan, grounds.question)
    question = read_question(
        "\n".join(queries),
        vector=grounds.vectors[queries[0]],
        speakers=corpus.turns.speakers,
        asker=grounds.asker,
        time_range=as_seconds(time_range),
    )
    match = corpus.lexical.match(question.hashes, question.weights)
    cosines = np.maximum.reduce([corpus.cosines(grounds.vectors[query], match.scores) for query in queries])
    channels = read_channels(question, match, cosines, corpus.passages.turn)
    scores = score_turns(question, corpus.turns, channels, settings.relevance, allowed=allowed)
    best = find_best_passages(match.scores, cosines, corpus.passages.turn, len(corpus.turns))
    return Found(question=question, time_range=time_range, corpus=corpus, scores=scores, best_passage=best)


def queries_of(route: Route, plan: Plan, question: str) -> tuple[str, ...]:
    """Give what a route looks for: its queries, and the question itself where it is the only route (paper B.2)."""
    asked = (question, *route.queries) if len(plan.routes) == 1 else route.queries
    return tuple(dict.fromkeys(asked))


def need_of(route: Route, plan: Plan, found: Found, grounds: Grounds) -> Need:
    queries = queries_of(route, plan, grounds.question)
    return Need(
        hashes=found.question.hashes,
        weights=found.question.weights,
        vectors=np.stack([grounds.vectors[query] for query in queries]),
        time_range=found.question.time_range,
        types=route.record_types,
        roles=QUESTION_PRESETS[plan.question_type].roles if route.role is None else (route.role,),
    )


def select_evidence(recalled: Recalled, grounds: Grounds) -> Chosen:
    """Choose by tokens, or the paper's top-k, as the settings say."""
    preset = recalled.preset
    scores = np.maximum.reduce([route.score for route in recalled.routes])
    speakers = grounds.corpus.turns.speakers
    named = [speakers[place] for place in recalled.found[0].question.named]
    most = limits_for(grounds.max_tokens, grounds.settings.reading.recall, preset).records
    first = find_first(grounds.records, preset.first_types, named, scores, most=most)
    if grounds.settings.reading.selection.by_tokens:
        return select_tokens(recalled, grounds, first, scores)
    return select_top(recalled, grounds, first)


def select_tokens(recalled: Recalled, grounds: Grounds, first: Rows, scores: NDArray[np.float64]) -> Chosen:
    settings, table = grounds.settings, grounds.corpus.turns
    selection = settings.reading.selection
    anchors = gather(recalled.routes, first, NO_ROWS).turns
    windows = window_rows(
        anchors,
        table,
        before=max(settings.chain.before, recalled.preset.before),
        after=max(settings.chain.after, recalled.preset.after),
    )
    around = np.array([row for window in windows for row in window], np.intp)
    candidates = gather(recalled.routes, first, np.union1d(rows_needed(anchors, recalled, settings), around))
    items = make_items(
        candidates,
        Priced(
            records=grounds.records,
            sources=recalled.sources,
            table=table,
            costs=line_costs(recalled.found[0], whole_tokens=settings.context.whole_turn_tokens),
            scores=scores,
        ),
        selection,
        settings.chain,
    )
    picks = select_by_tokens(
        items,
        recalled.chances,
        selection,
        budget=int(grounds.max_tokens * selection.overfill) - sum(count_tokens([OPENING, CLOSING])),
        quota=quota_of(
            count_results(grounds.max_tokens, settings.reading.recall),
            len(recalled.routes),
            most=selection.most_quota,
        ),
        beside=Beside(
            windows=place_windows(anchors, windows, candidates),
            needed=find_needed(candidates, recalled.chances, recalled.found, settings),
        ),
    )
    return Chosen(recalled=recalled, candidates=candidates, picks=tuple(picks))


def rows_needed(anchors: Rows, recalled: Recalled, settings: Settings) -> Rows:
    """Give the turns beside these that one of them may need, if any is restored at all."""
    if settings.reading.selection.need == 0:
        return NO_ROWS
    return np.concatenate(
        [with_neighbours(anchors, found.corpus.turns, found.scores) for found in recalled.found]
    )


def place_windows(
    anchors: Rows, windows: Sequence[Sequence[int]], candidates: Candidates
) -> dict[int, list[int]]:
    """Say of each turn's item which items its window is."""
    first = len(candidates.records)
    places = (first + np.searchsorted(candidates.turns, anchors)).tolist()
    return {
        place: (first + np.searchsorted(candidates.turns, window)).tolist()
        for place, window in zip(places, windows, strict=True)
        if window
    }


def select_top(recalled: Recalled, grounds: Grounds, first: Rows) -> Chosen:
    """Fuse the routes' lists and choose a diverse top-k (paper C.4); unsupported records rank last."""
    reading, candidates = grounds.settings.reading, gather(recalled.routes, first, NO_ROWS)
    matched = np.stack(
        [
            found_by(route, candidates) & bool(chances.any())
            for route, chances in zip(recalled.routes, recalled.chances, strict=True)
        ]
    )
    lists = [
        list_route(route, items, candidates, grounds)
        for route, items in zip(recalled.routes, matched, strict=True)
    ]
    results = count_results(grounds.max_tokens, reading.recall)
    fused = fuse_routes(lists, reading.selection).best(results * reading.selection.pool_factor)
    pool = candidates.only(fused.candidates)
    table, lexical, passage = grounds.corpus.turns, grounds.corpus.lexical, recalled.found[0].best_passage
    signatures = make_signatures(
        pool,
        grounds.records,
        recalled.sources,
        table,
        matched=matched[:, np.sort(fused.candidates)],
        terms=lambda rows: lexical.term_sets(passage[rows]),
    )
    place = np.argsort(np.argsort(fused.candidates))
    chosen = select_by_count(
        fused,
        signatures.at(place),
        reading.selection,
        results=results,
        quota=quota_of(results, len(lists), most=reading.selection.most_quota),
    )
    picks = tuple(replace(pick, item=int(place[pick.item]), anchor=int(place[pick.item])) for pick in chosen)
    return Chosen(recalled=recalled, candidates=pool, picks=picks)


def found_by(route: RouteRecall, candidates: Candidates) -> NDArray[np.bool_]:
    """Say of each item whether a route found it; what comes first whatever the words, every route did."""
    records = np.isin(candidates.records, route.records) | np.isin(candidates.records, candidates.first)
    return np.concatenate((records, np.isin(candidates.turns, route.turns)))


def list_route(
    route: RouteRecall, found: NDArray[np.bool_], candidates: Candidates, grounds: Grounds
) -> RouteList:
    records, selection = grounds.records.records, grounds.settings.reading.selection
    trust = np.where(records.supported, 1, selection.unsupported)[candidates.records]
    scores = trust * route.score[candidates.records] + np.isin(candidates.records, candidates.first)
    every = np.concatenate((scores, route.turn_score[candidates.turns]))
    keys = np.concatenate((records.content[candidates.records], candidates.turns.astype(np.uint64)))
    items = np.flatnonzero(found)
    return merge_route(items, every[items], keys=keys[items])
