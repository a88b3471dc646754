"""READ: look for one route's evidence over four channels: records, evidence nodes, time, turns (LycheeMemory V2, 3.5, C.4).

What a channel finds of a record counts for the turns it was made from as well: records and turns vouch for each other. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.datatypes import ROLES
from scrubjay.reading_settings import RecallChannel, TurnsBy
from scrubjay.record_corpus import FRAME, TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from scrubjay.datatypes import RecordType, Role, TurnTable
    from scrubjay.presets import QuestionPreset
    from scrubjay.reading_settings import RecallSettings
    from scrubjay.record_corpus import RecordCorpus
    from scrubjay.scores import TurnScores
    from scrubjay.vectors import VectorIndex

    Floats = NDArray[np.float64]
    Rows = NDArray[np.intp]

TINY = 1e-9
LEAST_ODDS = 1e-9
MOST_TERMS = 64  # that a match tells apart
NOTHING = np.zeros(1)
DIGITS = 6  # of a score: products of matrices differ in the last ones by where a row stands


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Need:
    """What one route looks for, as the channels take it; m terms, q queries."""

    hashes: NDArray[np.uint64]  # (m,)
    weights: NDArray[np.float32]  # (m,) 0 for a speaker's name
    vectors: NDArray[np.float32]  # (q, dimension)
    time_range: tuple[float, float] | None  # seconds since 1970 UTC, half-open
    types: tuple[RecordType, ...]  # empty: any
    roles: tuple[Role, ...]  # empty: any


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many candidates each channel may return."""

    records: int
    nodes: int
    time: int
    turns: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sources:
    """The links of n records to the turns they were made from; p links, by record."""

    record: Rows  # (p,) rising
    turn: Rows  # (p,) rows of the TurnTable, rising in each record
    start: Rows  # (n,) of each record's links
    count: Rows  # (n,)

    def of(self, record: int) -> Rows:
        return self.turn[self.start[record] : self.start[record] + self.count[record]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Said:
    """The turns of a memory, as one route scores them, and the records made of them."""

    table: TurnTable
    scores: TurnScores
    sources: Sources


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RouteRecall:
    """What one route found among n records and t turns."""

    channels: Mapping[RecallChannel, Floats]  # each (n,), between 0 and 1: what each says of every record
    score: Floats  # (n,) of every record, by all of them
    turn_score: Floats  # (t,) of every turn by the raw-turn channel, between 0 and 1
    records: Rows  # candidates, the union of what the channels return, rising
    turns: Rows  # candidates of the raw-turn channel, best first
    covered: float  # the greatest share of the words' weight that one record holds; all, where one is of the time asked about
    log_odds: Floats  # (t,) that each turn is evidence, by all channels together


def limits_for(max_tokens: int, settings: RecallSettings, preset: QuestionPreset) -> Limits:
    """Give Table 14's budgets for the results that so many tokens have room for, times the question type's factors."""
    top = count_results(max_tokens, settings)
    return Limits(
        records=int(max(top * settings.records_factor, settings.records_least) * preset.records),
        nodes=int(max(top * settings.nodes_factor, settings.nodes_least) * preset.nodes),
        time=int(max(top * settings.time_factor, settings.time_least) * preset.time),
        turns=int(max(top * settings.turns_factor, settings.turns_least) * preset.turns),
    )


def count_results(max_tokens: int, settings: RecallSettings) -> int:
    """Give k: what the tokens have room for, and no less than the planning depth (Table 14)."""
    return max(max_tokens // settings.item_tokens, settings.plan_depth, 1)


def link_sources(
    corpus: RecordCorpus, turns: TurnTable, *, allowed: NDArray[np.bool_] | None = None
) -> Sources:
    """Put each record's turns by their rows in the table; links to turns that aren't in it or `allowed` are left out."""
    place = np.minimum(np.searchsorted(turns.row, corpus.source_turn), max(len(turns) - 1, 0))
    is_held = turns.row[place] == corpus.source_turn if len(turns) else np.zeros(len(place), np.bool_)
    held = np.flatnonzero(is_held if allowed is None else is_held & allowed[place])
    order = held[np.lexsort((place[held], corpus.source_record[held]))]
    record = corpus.source_record[order]
    count = np.bincount(record, minlength=len(corpus.records))
    return Sources(record=record, turn=place[order], start=np.cumsum(count) - count, count=count)


def recall_route(
    need: Need, corpus: RecordCorpus, said: Said, *, limits: Limits, settings: RecallSettings
) -> RouteRecall:
    """Run the channels that the settings name; each returns so many of its best, and scores all."""
    turns, sources = said.scores, said.sources
    channels = {
        channel: scores
        for channel, scores in (
            (RecallChannel.RECORDS, search_records(need, corpus, settings)),
            (RecallChannel.NODES, search_nodes(need, corpus, limits.nodes, settings)),
            (RecallChannel.TIME, search_time(need, corpus)),
        )
        if channel in settings.channels
    }
    log_odds = weigh_turns(need, channels, said, settings)
    most = {RecallChannel.RECORDS: limits.records, RecallChannel.TIME: limits.time}
    found = [top_rows(scores, most.get(channel, len(scores))) for channel, scores in channels.items()]
    is_candidate = np.zeros(len(corpus.records), np.bool_)
    for rows in found:
        is_candidate[rows] = True
    candidates = np.flatnonzero(is_candidate & (sources.count > 0))
    reads_turns = RecallChannel.TURNS in settings.channels
    return RouteRecall(
        channels=channels,
        score=score_records(channels, len(corpus.records), settings),
        turn_score=score_raw_turns(turns, settings),
        records=candidates,
        turns=best_turns(log_odds, turns, sources, limits.turns) if reads_turns else np.empty(0, np.intp),
        covered=1.0 if channels.get(RecallChannel.TIME, NOTHING).any() else share_covered(need, corpus),
        log_odds=log_odds,
    )


def share_covered(need: Need, corpus: RecordCorpus) -> float:
    """Give the greatest share of the words' weight that one record holds."""
    match = corpus.lexical.match(need.hashes, need.weights)
    weights = (match.idf * need.weights)[:MOST_TERMS]
    distinct = np.unique(match.covered)
    held = [sum(float(w) for bit, w in enumerate(weights) if mask >> bit & 1) for mask in distinct.tolist()]
    return max(held, default=0.0) / max(float(weights.sum()), TINY)


def search_records(need: Need, corpus: RecordCorpus, settings: RecallSettings) -> Floats:
    """Score records by their words and their vectors; those of a type the route doesn't name count less."""
    lexical = corpus.lexical.match(need.hashes, need.weights).scores
    scores = mix(lexical, closest(corpus.vectors, need.vectors), settings.dense_share)
    if need.types:
        wanted = np.isin(corpus.records.type, [TYPES.index(kind) for kind in need.types])
        scores = np.where(wanted, scores, scores * settings.other_type)
    return scores


def search_nodes(need: Need, corpus: RecordCorpus, most: int, settings: RecallSettings) -> Floats:
    """Score records by the best of their nodes, a name or topic and an event frame counting half each."""
    lexical = corpus.node_lexical.match(need.hashes).scores
    scores = mix(lexical, closest(corpus.node_vectors, need.vectors), settings.dense_share)
    kept = np.zeros(len(scores))
    found = top_rows(scores, most)
    kept[found] = scores[found]
    is_frame = corpus.node_kind == FRAME
    return (
        best_linked(np.where(is_frame, kept, 0), corpus) + best_linked(np.where(is_frame, 0, kept), corpus)
    ) / 2


def best_linked(nodes: Floats, corpus: RecordCorpus) -> Floats:
    best = np.zeros(len(corpus.records))
    linked = nodes[corpus.link_node]
    held = np.flatnonzero(linked)
    np.maximum.at(best, corpus.link_record[held], linked[held])
    return best


def search_time(need: Need, corpus: RecordCorpus) -> Floats:
    """Score 1 for records whose time overlaps the one asked about: exactly what their day and month nodes say."""
    if need.time_range is None:
        return np.zeros(len(corpus.records))
    start, stop = need.time_range
    overlap = (corpus.records.start < stop) & (
        corpus.records.stop > start
    )  # NaN, an unknown time, never does
    return overlap.astype(np.float64)


def weigh_turns(
    need: Need, channels: Mapping[RecallChannel, Floats], said: Said, settings: RecallSettings
) -> Floats:
    """Give the log-odds that each turn is evidence: what the turn itself says, and what its records do."""
    weights, sources, table = settings.weights, said.sources, said.table
    log_odds = turn_log_odds(said.scores, settings)
    factors = {
        RecallChannel.RECORDS: (weights.record, weights.record_base),
        RecallChannel.NODES: (weights.nodes, 0.0),
        RecallChannel.TIME: (weights.time, 0.0),
    }
    linked = np.zeros(len(table), np.bool_)
    linked[sources.turn] = True
    for channel, scores in channels.items():
        weight, base = factors[channel]
        best = np.zeros(len(table))
        np.maximum.at(best, sources.turn, scores[sources.record])
        log_odds[linked] += weight * (best[linked] - base)
    if need.roles:
        log_odds += weights.role * np.isin(table.role, [ROLES.index(role) for role in need.roles])
    return log_odds


def turn_log_odds(turns: TurnScores, settings: RecallSettings) -> Floats:
    weights = settings.weights
    if RecallChannel.TURNS not in settings.channels:
        return np.full(len(turns.relevance), weights.unread)
    if settings.turns_by is TurnsBy.CHANNELS:
        mixed = mix(turns.channels.lexical, turns.channels.dense, settings.dense_share)
        return np.where(
            turns.relevance > 0, weights.channels * mixed + weights.channels_base, weights.outside
        )
    held = np.clip(turns.relevance.astype(np.float64), LEAST_ODDS, 1 - np.finfo(np.float32).epsneg)
    return np.where(turns.relevance > 0, np.log(held / (1 - held)), weights.outside)


def score_records(channels: Mapping[RecallChannel, Floats], count: int, settings: RecallSettings) -> Floats:
    """Give each record its best score for words; the time asked about adds to it, it never stands alone."""
    words = [scores for channel, scores in channels.items() if channel is not RecallChannel.TIME]
    best = np.maximum.reduce([np.zeros(count), *words])
    in_time = channels.get(RecallChannel.TIME, np.zeros(count))
    scores: Floats = np.minimum(best + settings.time_bonus * in_time, 1)
    return scores


def score_raw_turns(turns: TurnScores, settings: RecallSettings) -> Floats:
    if settings.turns_by is TurnsBy.CHAIN:
        return turns.relevance.astype(np.float64)
    return mix(turns.channels.lexical, turns.channels.dense, settings.dense_share) * (turns.relevance > 0)


def best_turns(log_odds: Floats, turns: TurnScores, sources: Sources, most: int) -> Rows:
    """Give the turns most likely to be evidence, best first; what records were made from is pulled in, once.

    Equals come in the order of the turns' own relevance.
    """
    is_pulled = np.zeros(len(log_odds), np.bool_)
    is_pulled[sources.turn] = True
    is_pulled[turns.order] = False
    found = np.concatenate((turns.order, np.flatnonzero(is_pulled)))
    odds = np.round(log_odds[found], DIGITS)
    if len(found) > most:
        likely = odds >= np.partition(odds, len(odds) - most)[len(odds) - most]
        found, odds = found[likely], odds[likely]
    ranked: Rows = found[np.argsort(-odds, kind="stable")]
    return ranked[:most]


def mix(lexical: NDArray[np.float32], dense: NDArray[np.float32], dense_share: float) -> Floats:
    mixed: Floats = (1 - dense_share) * unit(lexical) + dense_share * unit(dense)
    return np.round(mixed, DIGITS)


def unit(values: NDArray[np.float32]) -> Floats:
    """Scale scores so that the best is 1; what is below 0 says nothing."""
    held = np.maximum(values.astype(np.float64), 0)
    return held / max(float(held.max(initial=0)), TINY)


def closest(index: VectorIndex, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Give each row's cosine with the nearest of several queries."""
    best: NDArray[np.float32] = np.maximum.reduce([index.scores(vector) for vector in vectors])
    return best


def top_rows(scores: Floats, most: int) -> Rows:
    """Give the rows of the best scores above 0, rising; equals of the last are all in, so that their order never counts."""
    found = np.flatnonzero(scores > 0)
    if len(found) <= most:
        return found
    least = np.partition(scores[found], len(found) - most)[len(found) - most]
    kept: Rows = found[scores[found] >= least]
    return kept
