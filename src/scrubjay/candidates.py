"""READ: what recall found, put into the shapes that selection takes: priced items, signatures. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.beside import look_beside, weigh_terms
from scrubjay.datatypes import Stance
from scrubjay.record_corpus import FRAME, STANCES, TYPES
from scrubjay.selection import FIRST, LAST, USUAL, Items, Needed, Signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from scrubjay.datatypes import RecordType, TurnTable
    from scrubjay.reading_settings import SelectionSettings
    from scrubjay.recall import RouteRecall, Sources
    from scrubjay.record_corpus import RecordCorpus
    from scrubjay.results import Found
    from scrubjay.settings import ChainSettings, Settings

    Rows = NDArray[np.intp]
    TermSets = Callable[[Rows], Sequence[NDArray[np.uint64]]]

TINY = 1e-9
ASSERTED = STANCES.index(Stance.ASSERTED)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """What may be shown: records, then turns, numbered through as items."""

    records: Rows  # rows of the RecordTable
    turns: Rows  # rows of the TurnTable
    first: Rows  # of the records, those that come first whatever the words

    def only(self, items: Rows) -> Candidates:
        """Keep some items, in the order they have here."""
        kept = np.sort(items)
        return Candidates(
            records=self.records[kept[kept < len(self.records)]],
            turns=self.turns[kept[kept >= len(self.records)] - len(self.records)],
            first=self.first,
        )

    @property
    def count(self) -> int:
        return len(self.records) + len(self.turns)


def gather(recalls: Sequence[RouteRecall], first: Rows, beside: Rows) -> Candidates:
    """Gather what all routes found, each record and turn once; `beside` are turns that may be restored."""
    nothing = np.empty(0, np.intp)
    return Candidates(
        records=np.unique(np.concatenate((first, *(recall.records for recall in recalls)))),
        turns=np.unique(np.concatenate((nothing, beside, *(recall.turns for recall in recalls)))),
        first=first,
    )


def find_first(
    corpus: RecordCorpus,
    types: Sequence[RecordType],
    named: Sequence[str],
    scores: NDArray[np.float64],
    *,
    most: int,
) -> Rows:
    """Find the records of a person that are of these types, supported and asserted, whatever the question's words.

    The person is who the question names, or anyone where it names nobody. Of too many, the best by score.
    """
    table = corpus.records
    wanted = np.isin(table.type, [TYPES.index(kind) for kind in types])
    wanted &= table.supported & (table.stance == ASSERTED)
    if named:
        wanted &= np.isin(
            table.speaker, [place for place, name in enumerate(table.speakers) if name in named]
        )
    rows = np.flatnonzero(wanted)
    return rows[np.lexsort((table.content[rows], -scores[rows]))][:most]


def window_rows(rows: Rows, table: TurnTable, *, before: int, after: int) -> list[list[int]]:
    """Give of each turn the turns of its session around it, nearest first."""
    return [[*walk(row, table.previous, before), *walk(row, table.following, after)] for row in rows.tolist()]


def find_needed(
    candidates: Candidates,
    chances: NDArray[np.float64],
    found: Sequence[Found],
    settings: Settings,
) -> dict[int, list[Needed]]:
    """Say of turns which of those beside them they can't well be read without, by the route that likes each turn best.

    `chances` is (routes, t): how likely each turn is evidence for each route; `found` is what each route found.
    """
    rows, first = candidates.turns, len(candidates.records)
    needed: defaultdict[int, list[Needed]] = defaultdict(list)
    if not len(rows):
        return needed
    is_best = chances[:, rows] == chances[:, rows].max(axis=0)
    for one, chance, counts in zip(found, chances[:, rows], is_best, strict=True):
        beside = look_beside(rows, one.corpus.turns, weigh_terms(one.scores.channels, rows), settings.chain)
        share = settings.reading.selection.need * beside.share * (chance * counts)[:, None]
        for turn, side in np.argwhere((share > 0) & (beside.place >= 0)).tolist():
            neighbour = Needed(
                item=first + int(beside.place[turn, side]),
                chance=float(share[turn, side]),
                purpose=beside.purpose(turn, side),
            )
            needed[first + turn].append(neighbour)
    return needed


def walk(row: int, towards: NDArray[np.int32], steps: int) -> list[int]:
    """Give up to so many turns that follow each other from a row in one direction."""
    rows: list[int] = []
    while len(rows) < steps and (row := int(towards[row])) >= 0:
        rows.append(row)
    return rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Priced:
    """What items are made of: n records, t turns."""

    records: RecordCorpus
    sources: Sources
    table: TurnTable
    costs: NDArray[np.int32]  # (t,) tokens of each turn's line
    scores: NDArray[np.float64]  # (n,) of every record


def make_items(
    candidates: Candidates, priced: Priced, selection: SelectionSettings, chain: ChainSettings
) -> Items:
    """Price every candidate, and say how much of which turn's evidence it holds."""
    corpus, sources, table = priced.records, priced.sources, priced.table
    records, turns, held = candidates.records, candidates.turns, corpus.records
    count, first = sources.count[records], sources.start[records]
    links = np.repeat(first - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
    stop = np.concatenate((np.cumsum(count), int(count.sum()) + np.arange(1, len(turns) + 1)))
    last = sources.turn[np.maximum(first + count - 1, 0)] if len(sources.turn) else np.empty(0, np.intp)
    tier = np.where(held.supported[records], USUAL, LAST)
    tier[np.isin(records, candidates.first)] = FIRST
    shares = np.repeat(record_shares(records, corpus, sources, selection), count)
    if selection.rival_share:
        shares = shares * rival_factors(links, sources, priced.scores, power=selection.rival_share)
    timed = selection.record_time * ~np.isnan(held.start[records])
    line = np.concatenate(
        (held.tokens[records] + selection.record_line + timed, priced.costs[turns] + chain.line_tokens)
    )
    return Items(
        start=np.concatenate(([0], stop[:-1])).astype(np.intp),
        stop=stop.astype(np.intp),
        turn=np.concatenate((sources.turn[links], turns)),
        holds=np.concatenate((shares, np.ones(len(turns)))),
        price=line.astype(np.int64),
        group=np.concatenate(
            (
                2 * table.session[last[: len(records)]].astype(np.int64) + 1,
                2 * table.session[turns].astype(np.int64),
            )
        ),
        group_price=np.repeat([selection.record_header, chain.header_tokens], [len(records), len(turns)]),
        tier=np.concatenate((tier, np.full(len(turns), USUAL))).astype(np.int8),
        key=order_keys(candidates, corpus, table),
    )


def rival_factors(
    links: Rows, sources: Sources, scores: NDArray[np.float64], *, power: float
) -> NDArray[np.float64]:
    """Say of links to turns how far the record is the turn's best: one of several says less of what is asked."""
    linked = scores[sources.record]
    best = np.zeros(int(sources.turn.max(initial=-1)) + 1)
    np.maximum.at(best, sources.turn, linked)
    factors: NDArray[np.float64] = (linked[links] / np.maximum(best[sources.turn[links]], TINY)) ** power
    return factors


def record_shares(
    records: Rows, corpus: RecordCorpus, sources: Sources, settings: SelectionSettings
) -> NDArray[np.float64]:
    """Give the chance that each record says what any one of its turns told."""
    by_count = np.array([0.0, *settings.holds, settings.holds_more])
    shares = by_count[np.minimum(sources.count[records], len(settings.holds) + 1)]
    return np.where(corpus.records.stance[records] == ASSERTED, shares, shares * settings.not_asserted)


def order_keys(candidates: Candidates, corpus: RecordCorpus, table: TurnTable) -> NDArray[np.int64]:
    """Give the items numbers by what stands in them, not by when they were written: this orders equals."""
    records, turns = candidates.records, candidates.turns
    kind = np.repeat([0, 1], [len(records), len(turns)])
    content = np.concatenate((corpus.records.content[records], np.zeros(len(turns), np.uint64)))
    said_at = np.concatenate((np.zeros(len(records)), np.nan_to_num(table.said_at[turns], nan=np.inf)))
    position = np.concatenate((np.zeros(len(records), np.int64), table.position[turns]))
    keys = np.empty(candidates.count, np.int64)
    keys[np.lexsort((position, said_at, content, kind))] = np.arange(candidates.count)
    return keys


def make_signatures(
    candidates: Candidates,
    corpus: RecordCorpus,
    sources: Sources,
    table: TurnTable,
    *,
    matched: NDArray[np.bool_],
    terms: TermSets,
) -> Signatures:
    """Say what each candidate is compared by; `matched` is (routes, items): which route found which.

    A turn's entities and nodes are those of the records made from it, so that a record resembles its turns.
    """
    records, turns = candidates.records.tolist(), candidates.turns
    of_turn = [sources.record[sources.turn == turn] for turn in turns]
    groups = [np.array([record], np.intp) for record in records] + of_turn
    linked = [np.unique(corpus.link_node[np.isin(corpus.link_record, group)]) for group in groups]
    is_frame = corpus.node_kind == FRAME
    said = [sources.of(record) for record in records] + [np.array([turn], np.intp) for turn in turns.tolist()]
    return Signatures(
        session=np.array([int(table.session[one[-1]]) if len(one) else -1 for one in said], np.int64),
        entities=[nodes[~is_frame[nodes]].astype(np.uint64) for nodes in linked],
        queries=[np.flatnonzero(column).astype(np.uint64) for column in matched.T],
        nodes=[nodes.astype(np.uint64) for nodes in linked],
        turns=[one.astype(np.uint64) for one in said],
        terms=[*corpus.lexical.term_sets(candidates.records), *terms(turns)],
    )
