"""READ: organise the evidence for one question into a chain of anchors and their neighbours (CoD).

Anchors are chosen one by one, each for its relevance, for how little it repeats those chosen, and for the question's terms it is the
first to cover. A turn beside an anchor that the anchor can't well be read without competes from then on with a share of the anchor's
probability; one that is likely evidence itself is an anchor in its own right. Nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.beside import look_beside, weigh_terms, with_neighbours
from scrubjay.datatypes import LinkKind, Purpose
from scrubjay.scores import relevant_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from scrubjay.datatypes import TurnTable
    from scrubjay.scores import TurnScores
    from scrubjay.settings import ChainSettings

    Floats = NDArray[np.float64]
    Rows = NDArray[np.intp]
    TermSets = Callable[[Rows], Sequence[NDArray[np.uint64]]]

LEAST_ODDS = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    """A turn of the chain by its row, and why it is there."""

    row: int
    kind: LinkKind
    rank: int  # of an anchor: the order in which it was chosen, from 1; of a neighbour: its anchor's
    anchor: int  # row of the anchor; an anchor's own
    relevance: float
    new_terms: tuple[int, ...]  # places of the question's terms that nothing chosen before covers
    purpose: Purpose | None = None  # of a neighbour


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Links in order of sessions and turns, and what their lines are reckoned to cost."""

    links: tuple[ChainLink, ...]
    tokens: int


@dataclass(slots=True, kw_only=True)
class _Budget:
    """What is shown so far and what it costs."""

    most: float
    used: int
    sessions: set[int]
    rows: set[int]


def build_chain(
    scores: TurnScores,
    table: TurnTable,
    term_sets: TermSets,
    settings: ChainSettings,
    *,
    max_tokens: int | None = None,
    cost: NDArray[np.int32] | None = None,
) -> Chain:
    """Choose anchors and neighbours whose lines fit in `max_tokens`.

    `term_sets` gives the distinct term hashes of turns; it is asked once, and not at all where diversity has no weight. `cost` is what
    each turn's line takes, where that isn't the whole turn. The chain depends on scores, never on the order in which turns were given.
    """
    budget = _Budget(most=np.inf if max_tokens is None else max_tokens, used=0, sessions=set(), rows=set())
    links: list[ChainLink] = []
    prices = (table.tokens if cost is None else cost) + settings.line_tokens
    selection = Selection(scores, table, prices, term_sets, settings)
    while (place := selection.best(affordable=budget.most - budget.used)) is not None:
        row, restored = int(selection.rows[place]), selection.restored.get(place)
        around = () if restored else window_of(row, table, settings)
        groups = ([row, *around], [row]) if around else ([row],)
        taken = next((group for group in groups if spend(group, budget, table, prices, settings)), None)
        if taken is None:
            selection.drop(place)
        elif restored is None:
            links.extend(link_anchor(taken, selection.take(place), selection.chosen, scores))
        else:
            links.append(link_restored(row, restored, selection.take(place), scores))
    return Chain(links=arrange(links, table), tokens=budget.used)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Why a turn is worth restoring: for which anchor, chosen as which."""

    anchor: int  # row
    rank: int
    purpose: Purpose


class Selection:
    """The candidates of one chain and the turns beside them, and what each would add to what is chosen so far."""

    def __init__(
        self,
        scores: TurnScores,
        table: TurnTable,
        prices: NDArray[np.int32],
        term_sets: TermSets,
        settings: ChainSettings,
    ) -> None:
        candidates = scores.order[: settings.candidates]
        own: Rows = relevant_rows(scores, settings)[: settings.candidates]
        self.rows: Rows = own if settings.need == 0 else with_neighbours(own, table, scores)
        self.chosen = 0
        self.restored: dict[int, Restored] = {}
        self._settings = settings
        self._prices = prices[self.rows].astype(np.float64)
        self._new = weigh_terms(scores.channels, self.rows)
        self._similar = np.zeros(len(self.rows))
        self._sets = Overlap(term_sets(self.rows)) if settings.diversity and len(self.rows) else None
        self._chance = scores.relevance[self.rows].astype(np.float64)
        scale = odds_range(scores.relevance[candidates])
        self._relevance = spread_relevance(self._chance, scale)
        self._beside = look_beside(self.rows, table, self._new, settings)
        self._needed = settings.need * self._beside.share * self._chance[:, None]
        self._needed_relevance = spread_relevance(self._needed, scale)
        self._thrift = np.maximum(self._prices, 1) ** -settings.thrift
        waits = np.arange(len(self.rows)) >= len(own)  # for an anchor that needs it, being unlikely by itself
        self._closed = waits | (self._chance < settings.least_worth * self._prices) | (settings.anchors == 0)
        self._settled = np.zeros(len(self.rows), np.bool_)  # taken, or too dear
        self._gain = self._weigh()

    def best(self, *, affordable: float) -> int | None:
        """Return the place of the candidate that adds most at no more than `affordable` tokens; of equals, the more relevant."""
        self._gain[self._prices > affordable] = -np.inf
        place = int(self._gain.argmax()) if len(self._gain) else 0
        return place if len(self._gain) and self._gain[place] > -np.inf else None

    def drop(self, place: int) -> None:
        self._settled[place] = self._closed[place] = True
        self._gain[place] = -np.inf

    def take(self, place: int) -> tuple[int, ...]:
        """Take a candidate into the chain; return the places of the terms it is the first to cover."""
        self.drop(place)
        new = self._new[place].nonzero()[0]
        if len(new):
            self._new[:, new] = 0
        if self._sets is not None:
            self._similar = np.maximum(self._similar, self._sets.jaccard(place))
        needs = place not in self.restored and self._take_anchor(place)
        if needs or self._sets is not None or (len(new) and self._settings.coverage):
            self._gain = self._weigh()
        return tuple(new.tolist())

    def _take_anchor(self, place: int) -> bool:
        """Count an anchor and offer what it can't well be read without; say whether the others' gains changed."""
        self.chosen += 1
        is_last = self.chosen == self._settings.anchors
        if is_last:
            self._closed[[other for other in range(len(self.rows)) if other not in self.restored]] = True
        offered = self._settings.need > 0 and self._offer_neighbours(place)
        return is_last or offered

    def _offer_neighbours(self, anchor: int) -> bool:
        offered = False
        for side, place in enumerate(self._beside.place[anchor].tolist()):
            chance = float(self._needed[anchor, side])
            if place < 0 or self._settled[place] or chance <= self._chance[place]:
                continue
            self._chance[place], self._relevance[place] = chance, self._needed_relevance[anchor, side]
            self._closed[place] = chance < self._settings.least_worth * self._prices[place]
            self.restored[place] = Restored(
                anchor=int(self.rows[anchor]), rank=self.chosen, purpose=self._beside.purpose(anchor, side)
            )
            offered = True
        return offered

    def _weigh(self) -> Floats:
        weights = self._settings
        gain: Floats = weights.relevance * self._relevance + weights.diversity * (1 - self._similar)
        gain += weights.coverage * self._new.sum(axis=1)
        gain *= self._thrift
        gain[self._closed] = -np.inf
        return gain


class Overlap:
    """Term sets laid end to end, so that one can be compared with all the others at once."""

    def __init__(self, sets: Sequence[NDArray[np.uint64]]) -> None:
        self._sizes = np.array([len(terms) for terms in sets], np.float64)
        self._starts = np.concatenate(([0], np.cumsum(self._sizes))).astype(np.intp)
        terms, self._terms = np.unique(np.concatenate(sets), return_inverse=True)
        self._marks = np.zeros(len(terms))

    def jaccard(self, place: int) -> Floats:
        """Return the Jaccard similarity of each set with the one at `place`."""
        own = self._terms[self._starts[place] : self._starts[place + 1]]
        self._marks[own] = 1
        running = np.concatenate(([0], np.cumsum(self._marks[self._terms])))
        self._marks[own] = 0
        shared = running[self._starts[1:]] - running[self._starts[:-1]]
        union = self._sizes + len(own) - shared
        similarity: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
        return similarity


def log_odds(chances: Floats) -> Floats:
    held = np.clip(chances, LEAST_ODDS, 1 - np.finfo(np.float32).epsneg)
    odds: Floats = np.log(held / (1 - held))
    return odds


def odds_range(relevance: NDArray[np.float32]) -> tuple[float, float]:
    """Return the least and the greatest log-odds of candidates."""
    odds = log_odds(relevance.astype(np.float64))
    return float(odds.min(initial=np.inf)), float(odds.max(initial=-np.inf))


def spread_relevance(chances: Floats, scale: tuple[float, float]) -> Floats:
    """Spread log-odds from 0, the last candidate's, to 1, the first's: probabilities bunch at both ends."""
    least, most = scale
    odds = log_odds(chances)
    return (odds - least) / (most - least) if most > least else np.ones_like(odds)


def window_of(row: int, table: TurnTable, settings: ChainSettings) -> tuple[int, ...]:
    """Return the rows that are restored with an anchor whatever they say (CoD)."""
    return (*reach(row, table.previous, settings.before), *reach(row, table.following, settings.after))


def reach(row: int, towards: NDArray[np.int32], steps: int) -> list[int]:
    """Return up to `steps` rows that follow each other from `row` in one direction."""
    rows: list[int] = []
    while len(rows) < steps and (row := int(towards[row])) >= 0:
        rows.append(row)
    return rows


def spend(
    group: Sequence[int],
    budget: _Budget,
    table: TurnTable,
    prices: NDArray[np.int32],
    settings: ChainSettings,
) -> bool:
    """Take turns of one session into the budget, if all that aren't shown yet fit."""
    new = [row for row in group if row not in budget.rows]
    session = int(table.session[group[0]])
    price = sum(int(prices[row]) for row in new)
    if new and session not in budget.sessions:
        price += settings.header_tokens
    if budget.used + price > budget.most:
        return False
    budget.used += price
    budget.sessions.add(session)
    budget.rows.update(new)
    return True


def link_anchor(
    group: Sequence[int], new_terms: tuple[int, ...], rank: int, scores: TurnScores
) -> list[ChainLink]:
    """Return the link of an anchor, the first of its group, and of the window around it."""
    anchor = group[0]
    return [
        ChainLink(
            row=row,
            kind=LinkKind.ANCHOR if row == anchor else LinkKind.NEIGHBOUR,
            rank=rank,
            anchor=anchor,
            relevance=float(scores.relevance[row]),
            new_terms=new_terms if row == anchor else (),
            purpose=None if row == anchor else Purpose.WINDOW,
        )
        for row in group
    ]


def link_restored(row: int, restored: Restored, new_terms: tuple[int, ...], scores: TurnScores) -> ChainLink:
    return ChainLink(
        row=row,
        kind=LinkKind.NEIGHBOUR,
        rank=restored.rank,
        anchor=restored.anchor,
        relevance=float(scores.relevance[row]),
        new_terms=new_terms,
        purpose=restored.purpose,
    )


def arrange(links: Sequence[ChainLink], table: TurnTable) -> tuple[ChainLink, ...]:
    """Order links by session and turn; of several links to one turn, keep the anchor's, then the earliest."""
    kept: dict[int, ChainLink] = {}
    for link in sorted(links, key=lambda link: (link.kind is not LinkKind.ANCHOR, link.rank)):
        kept.setdefault(link.row, link)
    return tuple(sorted(kept.values(), key=lambda link: (table.session[link.row], table.position[link.row])))
