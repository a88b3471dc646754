"""Selection: by what is newly covered per token within a budget, or the paper's diverse top-k."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.datatypes import Purpose
from scrubjay.reading_settings import SelectionSettings
from scrubjay.route_lists import Fused
from scrubjay.selection import (
    FIRST,
    LAST,
    USUAL,
    Beside,
    Items,
    Needed,
    Pick,
    Signatures,
    compare,
    select_by_count,
    select_by_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SETTINGS = SelectionSettings()
Item = tuple[tuple[int, ...], int, int, int]  # turns, price, group, tier

ITEMS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True).map(tuple),
        st.integers(1, 30),
        st.integers(0, 3),
        st.sampled_from([USUAL, USUAL, LAST]),
    ),
    max_size=10,
)
CHANCES = st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.7]), min_size=8, max_size=8)


def make_items(items: list[Item], *, header: int = 5) -> Items:
    sizes = np.array([len(turns) for turns, *_ in items], np.intp)
    stop = np.cumsum(sizes)
    return Items(
        start=(stop - sizes).astype(np.intp),
        stop=stop.astype(np.intp),
        turn=np.array([turn for turns, *_ in items for turn in turns], np.intp),
        holds=np.array([0.9 for turns, *_ in items for _ in turns], np.float64),
        price=np.array([price for _, price, _, _ in items], np.int64),
        group=np.array([group for _, _, group, _ in items], np.int64),
        group_price=np.full(len(items), header, np.int64),
        tier=np.array([tier for *_, tier in items], np.int8),
        key=np.array([sum(turns) * 1000 + price for turns, price, _, _ in items], np.int64),
    )


def beside(
    windows: Mapping[int, Sequence[int]] | None = None,
    needed: Mapping[int, Sequence[tuple[int, float]]] | None = None,
) -> Beside:
    return Beside(
        windows=windows or {},
        needed={
            anchor: [Needed(item=item, chance=chance, purpose=Purpose.QUESTION) for item, chance in each]
            for anchor, each in (needed or {}).items()
        },
    )


def pick(
    items: list[Item], chances: list[list[float]], around: Beside, *, budget: int, quota: int = 4
) -> list[Pick]:
    return select_by_tokens(
        make_items(items), np.array(chances), SETTINGS, budget=budget, quota=quota, beside=around
    )


def select(items: list[Item], chances: list[list[float]], *, budget: int, quota: int = 4) -> list[int]:
    return [each.item for each in pick(items, chances, beside(), budget=budget, quota=quota)]


def cost(items: list[Item], chosen: list[int]) -> int:
    return sum(items[item][1] for item in chosen) + 5 * len({items[item][2] for item in chosen})


def greedy(
    items: list[Item], chances: list[float], needed: Mapping[int, Sequence[tuple[int, float]]], *, budget: int
) -> list[tuple[int, int]]:
    """Choose as select_by_tokens does, weighing everything anew each time: its exact twin, each item with its anchor."""
    made, left = make_items(items), np.array(chances)
    chosen: dict[int, int] = {}
    passed: set[int] = set()
    offered: dict[int, tuple[float, int]] = {}  # what counts for an item, and for which anchor
    while True:
        best: tuple[int, float, int, int] | None = None
        for item, (turns, price, _, tier) in enumerate(items):
            covers = sum((left[list(turns)] * 0.9).tolist())
            worth = max(covers, offered.get(item, (0.0, item))[0]) * float(max(price, 1)) ** -1.0
            entry = (tier, -worth, int(made.key[item]), item)
            if worth > 0 and item not in passed and (best is None or entry < best):
                best = entry
        if best is None:
            return list(chosen.items())
        taken = best[3]
        passed.add(taken)
        if cost(items, [*chosen, taken]) > budget:
            continue
        chosen[taken] = offered.get(taken, (0.0, taken))[1]
        left[list(items[taken][0])] *= 1 - 0.9
        for item, chance in needed.get(taken, ()) if chosen[taken] == taken else ():
            counts = max(sum((left[list(items[item][0])] * 0.9).tolist()), offered.get(item, (0.0, 0))[0])
            if item not in chosen and chance > counts:
                offered[item] = chance, taken
                passed.discard(item)


@given(ITEMS, CHANCES, st.integers(0, 120), st.data())
def test_greedy_by_tokens(items: list[Item], chances: list[float], budget: int, data: st.DataObject) -> None:
    """The lazy queue chooses what weighing everything anew would, and the lines with their headers fit."""
    places = st.integers(0, max(len(items) - 1, 0))
    chance = st.sampled_from([0.05, 0.2, 0.5])
    pairs = data.draw(st.lists(st.tuples(places, places, chance), max_size=6 if items else 0))
    needed = {anchor: [(item, chance)] for anchor, item, chance in pairs if item != anchor}
    picks = pick(items, [chances], beside(needed=needed), budget=budget)
    chosen = [each.item for each in picks]
    assert cost(items, chosen) <= budget or not chosen
    assert len(set(chosen)) == len(chosen)
    assert [(each.item, each.anchor) for each in picks] == greedy(items, chances, needed, budget=budget)


@given(ITEMS.filter(lambda items: len({(sum(i[0]), i[1]) for i in items}) == len(items)), CHANCES, st.data())
def test_order_does_not_matter(items: list[Item], chances: list[float], data: st.DataObject) -> None:
    """Items given in another order are chosen in the same one."""
    order = data.draw(st.permutations(range(len(items))))
    chosen = [items[item] for item in select(items, [chances], budget=60)]
    shuffled = [items[place] for place in order]
    assert [shuffled[item] for item in select(shuffled, [chances], budget=60)] == chosen


def test_what_is_shown_is_not_shown_again() -> None:
    """A record of two turns takes the place of both; then something else is worth more than either."""
    items: list[Item] = [
        ((0, 1), 20, 0, USUAL),
        ((0,), 20, 0, USUAL),
        ((1,), 20, 0, USUAL),
        ((2,), 20, 0, USUAL),
    ]
    assert select(items, [[0.9, 0.8, 0.2, 0, 0, 0, 0, 0]], budget=45) == [0, 3]


def test_first_records_have_their_share() -> None:
    """They come before all else, whatever they cover, until their share of the tokens is spent."""
    items: list[Item] = [
        ((0,), 10, 0, FIRST),
        ((1,), 10, 0, FIRST),
        ((2,), 10, 0, FIRST),
        ((3,), 10, 0, USUAL),
    ]
    chosen = select(items, [[0, 0, 0, 0.9, 0, 0, 0, 0]], budget=45)
    assert chosen[:2] == [0, 1]
    assert chosen[2] == 3


def test_each_route_gets_its_own() -> None:
    """A route that asks for something less likely still gets its quota."""
    items: list[Item] = [((turn,), 10, 0, USUAL) for turn in range(8)]
    one, other = [0.9, 0.9, 0.9, 0.9, 0, 0, 0, 0], [0, 0, 0, 0, 0.05, 0.04, 0, 0]
    assert set(select(items, [one, other], budget=45, quota=1)) == {0, 4, 1, 2}


def test_neighbours_come_with_their_anchor() -> None:
    """If there is room for them; they are told apart from what was chosen for itself."""
    items: list[Item] = [((turn,), 10, 0, USUAL) for turn in range(3)]
    picks = pick(items, [[0.0, 0.9, 0.0]], beside({1: [0, 2]}), budget=25)
    assert [(each.item, each.anchor, each.rank, each.purpose) for each in picks] == [
        (1, 1, 1, None),
        (0, 1, 1, Purpose.WINDOW),
    ]


def test_what_an_item_needs_competes_once_it_is_shown() -> None:
    """It is taken when its turn comes, after what is likelier by itself, as the neighbour of the item that needs it."""
    items: list[Item] = [((turn,), 10, 0, USUAL) for turn in range(4)]
    picks = pick(items, [[0.01, 0.9, 0.5, 0.1]], beside(needed={1: [(0, 0.2)]}), budget=35)
    assert [(each.item, each.anchor, each.rank, each.purpose) for each in picks] == [
        (1, 1, 1, None),
        (2, 2, 2, None),
        (0, 1, 1, Purpose.QUESTION),
    ]


def test_what_is_needed_but_likely_stands_for_itself() -> None:
    """And what an item needs that isn't shown is worth no more than it says itself."""
    items: list[Item] = [((turn,), 10, 0, USUAL) for turn in range(4)]
    likely = pick(items, [[0.3, 0.9, 0.5, 0.1]], beside(needed={1: [(0, 0.2)]}), budget=35)
    assert [each.anchor for each in likely] == [1, 2, 0]
    unshown = pick(items, [[0.01, 0.9, 0.5, 0.1]], beside(needed={3: [(0, 0.2)]}), budget=25)
    assert [each.item for each in unshown] == [1, 2]


def test_what_a_routes_own_item_needs_takes_nothing_of_its_quota() -> None:
    """Both items of a route's quota are those it found for itself."""
    items: list[Item] = [((turn,), 10, 0, USUAL) for turn in range(4)]
    one, other = [0.0, 0.9, 0.2, 0.0], [0.0, 0.0, 0.0, 0.1]
    picks = pick(items, [one, other], beside(needed={1: [(0, 0.5)]}), budget=60, quota=2)
    assert [each.item for each in picks] == [1, 0, 2, 3]


# --- the paper's top-k ---


def numbers(*rows: tuple[int, ...]) -> list[np.ndarray]:
    return [np.array(row, np.uint64) for row in rows]


ALIKE = Signatures(
    session=np.array([1, 1, 2]),
    entities=numbers((1, 2), (1, 2), (3,)),
    queries=numbers((0,), (0,), (0,)),
    nodes=numbers((5,), (5,), ()),
    turns=numbers((7,), (7,), (8,)),
    terms=numbers((1, 2, 3, 4), (1, 2), (9,)),
)
FUSED = Fused(candidates=np.array([0, 1, 2]), scores=np.array([0.9, 0.89, 0.8]), routes=np.array([0, 0, 0]))


def test_similarity() -> None:
    """The weights of a candidate's signature, each times a Jaccard similarity."""
    similarity = compare(ALIKE, SETTINGS)
    assert similarity[0, 1] == 0.15 + 0.20 + 0.15 + 0.15 + 0.10 + 0.25 * 0.5
    assert similarity[0, 2] == 0.15
    np.testing.assert_array_equal(similarity, similarity.T)


def test_near_copies_wait() -> None:
    """What resembles the first choice comes after something else; without diversity, by score alone."""
    assert [pick.item for pick in select_by_count(FUSED, ALIKE, SETTINGS, results=3, quota=1)] == [0, 2, 1]
    plain = select_by_count(FUSED, ALIKE, replace(SETTINGS, fused=False), results=2, quota=1)
    assert [pick.item for pick in plain] == [0, 1]


def test_routes_keep_their_quota() -> None:
    """The last places go to a route that would have none."""
    fused = replace(FUSED, routes=np.array([0, 0, 1]), scores=np.array([0.9, 0.89, 0.01]))
    plain = replace(SETTINGS, similarity=0.0)
    assert {pick.item for pick in select_by_count(fused, ALIKE, plain, results=2, quota=1)} == {0, 2}


def test_fewer_candidates_than_results() -> None:
    """All are chosen, each once."""
    assert len(select_by_count(FUSED, ALIKE, SETTINGS, results=15, quota=4)) == 3
