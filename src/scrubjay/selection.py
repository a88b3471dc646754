"""READ: choose what is shown: by what each item newly covers per token, or the paper's diverse top-k (C.4). Pure.

An item is a record or a turn. A turn says what was said in it; a record says most of what its turns did, in fewer tokens.
So the chance that evidence is still to be shown is kept for every turn, and whatever is chosen takes its share of it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.datatypes import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from scrubjay.reading_settings import SelectionSettings
    from scrubjay.route_lists import Fused

    Floats = NDArray[np.float64]
    Rows = NDArray[np.intp]
    Numbers = NDArray[np.uint64]

TINY = 1e-12

FIRST, USUAL, LAST = range(3)
"""Tiers: all of one come before any of the next, the first up to a share of the tokens."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Items:
    """What may be shown: n items that say something about t turns."""

    start: Rows  # (n,) of each item's turns in `turn` and `holds`
    stop: Rows  # (n,)
    turn: Rows  # places among the t turns
    holds: Floats  # the chance that the item says what was said there
    price: NDArray[np.int64]  # (n,) tokens of its line
    group: NDArray[np.int64]  # (n,) items of one group share a header
    group_price: NDArray[np.int64]  # (n,) tokens of that header
    tier: NDArray[np.int8]  # (n,)
    key: NDArray[np.int64]  # (n,) orders equals


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """An item that another can't well be read without, and so competes once that one is shown."""

    item: int
    chance: float  # that counts for it then, if it newly covers no more evidence than that
    purpose: Purpose


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Beside:
    """What stands beside items."""

    windows: Mapping[int, Sequence[int]]  # comes with an item, if there is room
    needed: Mapping[int, Sequence[Needed]]  # an item can't well be read without


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """An item chosen, and why."""

    item: int
    rank: int  # the order in which it was chosen, from 1; a neighbour's is that of its anchor
    anchor: int  # the item that it stands beside; itself otherwise
    gain: float  # evidence that it newly covers, in turns
    purpose: Purpose | None = None  # of a neighbour


class Ledger:
    """What is still to be covered, and what is spent."""

    def __init__(self, items: Items, chances: Floats, budget: int, settings: SelectionSettings) -> None:
        self.left = chances.copy()
        self.needed = np.zeros(len(items.price))  # (n,) what counts for an item, as one shown needs it
        self.spent = 0
        self._items = items
        self._budget = budget
        self._groups: set[int] = set()
        self._cheapest = int(items.price.min(initial=budget))
        self._worth = np.maximum(items.price, 1) ** -settings.thrift

    @property
    def is_spent(self) -> bool:
        """Whether not even the cheapest item fits any more."""
        return self.spent + self._cheapest > self._budget

    def gain(self, item: int) -> float:
        span = slice(int(self._items.start[item]), int(self._items.stop[item]))
        return float(sum((self.left[self._items.turn[span]] * self._items.holds[span]).tolist()))

    def worth(self, item: int, share: Floats) -> float:
        """Give what an item newly covers per token, of what counts for one route."""
        span = slice(int(self._items.start[item]), int(self._items.stop[item]))
        turns = self._items.turn[span]
        covered = self.left[turns] * share[turns] * self._items.holds[span]
        return max(float(sum(covered.tolist())), float(self.needed[item])) * float(self._worth[item])

    def worths(self, share: Floats) -> Floats:
        """Give that of every item at once, to the last digit: each is summed by itself, in the order of its turns."""
        count = len(self._worth)
        covered = self.left[self._items.turn] * share[self._items.turn] * self._items.holds
        item = np.repeat(np.arange(count), self._items.stop - self._items.start)
        gains = np.bincount(item, weights=covered, minlength=count)
        worths: Floats = np.maximum(gains, self.needed) * self._worth
        return worths

    def take(self, item: int) -> bool:
        """Pay for an item and mark what it covers, if there is room for it."""
        group = int(self._items.group[item])
        price = int(self._items.price[item])
        if group not in self._groups:
            price += int(self._items.group_price[item])
        if self.spent + price > self._budget:
            return False
        self.spent += price
        self._groups.add(group)
        span = slice(int(self._items.start[item]), int(self._items.stop[item]))
        self.left[self._items.turn[span]] *= 1 - self._items.holds[span]
        return True


def select_by_tokens(
    items: Items,
    chances: Floats,
    settings: SelectionSettings,
    *,
    budget: int,
    quota: int,
    beside: Beside,
) -> list[Pick]:
    """Choose items whose lines fit in `budget` tokens, each for the evidence that it newly covers per token.

    `chances` is (routes, t): how likely each turn is evidence, for each route; each route first chooses up to `quota`
    items by its own.
    """
    best = chances.max(axis=0, initial=0.0)
    ledger = Ledger(items, best, budget, settings)
    first_budget = settings.first_share * budget
    picks = Picks(ledger, beside)
    if len(chances) > 1:
        for route in chances:
            own = Queue(items, ledger, route / np.maximum(best, TINY), first_budget=first_budget)
            picks.choose(own, most=quota)
    picks.choose(Queue(items, ledger, np.ones_like(best), first_budget=first_budget), most=len(items.price))
    return list(picks.picked.values())


class Picks:
    """What is chosen so far, and what that needs beside it."""

    def __init__(self, ledger: Ledger, beside: Beside) -> None:
        self.picked: dict[int, Pick] = {}
        self._ledger = ledger
        self._beside = beside
        self._offered: dict[int, tuple[Pick, Purpose]] = {}
        self._anchors = 0

    def choose(self, queue: Queue, *, most: int) -> None:
        """Take from a queue until `most` are taken for themselves or it is empty; what doesn't fit is passed over."""
        last = self._anchors + most
        for item in queue:
            if self._anchors == last or self._ledger.is_spent:
                return
            if item in self._offered:
                self._restore(item, *self._offered[item])
            elif item not in self.picked:
                self._take_anchor(item, queue)

    def _take_anchor(self, item: int, queue: Queue) -> None:
        """Take an item for itself, with its window, if there is room; what it needs competes from now on."""
        gain = self._ledger.gain(item)
        if not self._ledger.take(item):
            return
        self._anchors += 1
        anchor = self.picked[item] = Pick(item=item, rank=self._anchors, anchor=item, gain=gain)
        for neighbour in self._beside.windows.get(item, ()):
            self._restore(neighbour, anchor, Purpose.WINDOW)
        for needed in self._beside.needed.get(item, ()):
            counts = max(self._ledger.gain(needed.item), float(self._ledger.needed[needed.item]))
            if needed.item not in self.picked and needed.chance > counts:
                self._ledger.needed[needed.item] = needed.chance
                self._offered[needed.item] = anchor, needed.purpose
                queue.add(needed.item)

    def _restore(self, item: int, anchor: Pick, purpose: Purpose) -> None:
        gain = self._ledger.gain(item)
        if item not in self.picked and self._ledger.take(item):
            self.picked[item] = Pick(
                item=item, rank=anchor.rank, anchor=anchor.item, gain=gain, purpose=purpose
            )


class Queue:
    """Items in the order of their worth, which only falls while others are taken, so only the first need be weighed again; what rises is added anew."""

    def __init__(self, items: Items, ledger: Ledger, share: Floats, *, first_budget: float) -> None:
        """Queue all items; `share` says of each turn how much of its chance counts."""
        self._ledger = ledger
        self._share = share
        self._first_budget = first_budget
        worths = np.where(items.tier == FIRST, np.inf, ledger.worths(share))
        self._items = items
        queued = np.flatnonzero(worths > 0)
        self._open = set(queued.tolist())
        self._heap = list(
            zip(
                items.tier[queued].tolist(),
                (-worths[queued]).tolist(),
                items.key[queued].tolist(),
                queued.tolist(),
                strict=True,
            )
        )
        heapq.heapify(self._heap)

    def add(self, item: int) -> None:
        """Queue an item that is worth more than before, once more where it was passed over."""
        tier, key = int(self._items.tier[item]), int(self._items.key[item])
        self._open.add(item)
        heapq.heappush(self._heap, (tier, -self._ledger.worth(item, self._share), key, item))

    def __iter__(self) -> Iterator[int]:
        while self._heap:
            tier, _, key, item = self._heap[0]
            if tier == FIRST and self._ledger.spent > self._first_budget:
                tier = USUAL
            entry = (tier, -self._ledger.worth(item, self._share), key, item)
            if entry > min(self._heap[1:3], default=entry):
                heapq.heapreplace(self._heap, entry)
                continue
            heapq.heappop(self._heap)
            if item in self._open and (entry[1] < 0 or tier == FIRST):
                self._open.discard(item)
                yield item


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signatures:
    """What n candidates are compared by: their session, and sets of numbers."""

    session: NDArray[np.int64]  # (n,)
    entities: Sequence[Numbers]
    queries: Sequence[Numbers]
    nodes: Sequence[Numbers]
    turns: Sequence[Numbers]
    terms: Sequence[Numbers]

    def at(self, places: Rows) -> Signatures:
        """Put them in another order."""
        order = places.tolist()
        return Signatures(
            session=self.session[places],
            entities=[self.entities[place] for place in order],
            queries=[self.queries[place] for place in order],
            nodes=[self.nodes[place] for place in order],
            turns=[self.turns[place] for place in order],
            terms=[self.terms[place] for place in order],
        )


def select_by_count(
    fused: Fused, signatures: Signatures, settings: SelectionSettings, *, results: int, quota: int
) -> list[Pick]:
    """Choose `results` candidates by relevance less similarity to those chosen; each route keeps its first `quota`.

    Items are places in the fused list; its signatures are in the same order.
    """
    count = len(fused.candidates)
    if not settings.fused:
        return [
            Pick(item=place, rank=place + 1, anchor=place, gain=float(fused.scores[place]))
            for place in range(min(results, count))
        ]
    similarity = compare(signatures, settings)
    nearest = np.zeros(count)
    is_open = np.ones(count, np.bool_)
    kept = {
        place
        for route in np.unique(fused.routes)
        for place in np.flatnonzero(fused.routes == route)[:quota].tolist()
    }
    picks: list[Pick] = []
    while len(picks) < min(results, count):
        score = settings.relevance * fused.scores - settings.similarity * nearest
        owed = [place for place in kept if is_open[place]]
        must = len(owed) >= results - len(picks)
        allowed = np.array(owed, np.intp) if must and owed else np.flatnonzero(is_open)
        place = int(allowed[np.lexsort((allowed, -score[allowed]))[0]])
        is_open[place] = False
        picks.append(Pick(item=place, rank=len(picks) + 1, anchor=place, gain=float(fused.scores[place])))
        nearest = np.maximum(nearest, similarity[place])
    return picks


def compare(signatures: Signatures, settings: SelectionSettings) -> Floats:
    """Give the similarity of every two candidates, (n, n): the same session, and what sets of theirs have in common."""
    sets = (
        (settings.same_entities, signatures.entities),
        (settings.same_queries, signatures.queries),
        (settings.same_nodes, signatures.nodes),
        (settings.same_turns, signatures.turns),
        (settings.same_terms, signatures.terms),
    )
    session = signatures.session
    similarity: Floats = settings.same_session * (session[:, None] == session)
    for weight, members in ((weight, membership(of_kind)) for weight, of_kind in sets):
        shared = members @ members.T
        sizes = members.sum(axis=1)
        union = sizes[:, None] + sizes - shared
        similarity += weight * np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return similarity


def membership(sets: Sequence[Numbers]) -> Floats:
    """Give a row of 0 and 1 for each set, a column for each number in any."""
    numbers, column = np.unique(np.concatenate([*sets, np.empty(0, np.uint64)]), return_inverse=True)
    members = np.zeros((len(sets), len(numbers)))
    members[np.repeat(np.arange(len(sets)), [len(one) for one in sets]), column] = 1
    return members
