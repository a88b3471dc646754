"""How anchors and neighbours are chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_examples import TALK, Said, ask, tabulate
from test_relevance import conversations, sentences

from scrubjay.beside import answer_shares
from scrubjay.chain import Chain, Overlap, build_chain, odds_range, spread_relevance
from scrubjay.datatypes import LinkKind, Purpose
from scrubjay.errors import SettingsError
from scrubjay.settings import CHAIN_PRESETS, ChainSettings, Settings

PLAIN = ChainSettings(coverage=0, thrift=0, need=0, least_worth=0, least_relevance=0, least_promise=0)


def organise(
    turns: list[Said], question: str, chosen: ChainSettings, *, max_tokens: int | None = None
) -> Chain:
    scores, table, lexical = ask(turns, question)
    return build_chain(scores, table, lexical.term_sets, chosen, max_tokens=max_tokens)


presets = st.sampled_from(list(CHAIN_PRESETS.values()))


@given(turns=conversations(), question=sentences, chosen=presets, most=st.integers(0, 120))
@settings(max_examples=80)
def test_the_budget_is_kept(turns: list[Said], question: str, chosen: ChainSettings, most: int) -> None:
    """Lines, numbers and session headers of a chain never cost more than allowed, and no turn is there twice."""
    scores, table, lexical = ask(turns, question)
    chain = build_chain(scores, table, lexical.term_sets, chosen, max_tokens=most)
    rows = [link.row for link in chain.links]
    cost = sum(int(table.tokens[row]) + chosen.line_tokens for row in rows)
    cost += chosen.header_tokens * len({int(table.session[row]) for row in rows})
    assert chain.tokens == cost <= most
    assert len(rows) == len(set(rows))
    places = [(int(table.session[row]), int(table.position[row])) for row in rows]
    assert places == sorted(places)


@given(turns=conversations(), question=sentences, chosen=presets)
@settings(max_examples=60)
def test_every_link_has_its_reason(turns: list[Said], question: str, chosen: ChainSettings) -> None:
    """Anchors are numbered in the order chosen; a neighbour names an anchor of its session, within reach."""
    scores, table, lexical = ask(turns, question)
    chain = build_chain(scores, table, lexical.term_sets, chosen)
    anchors = {link.row: link for link in chain.links if link.kind is LinkKind.ANCHOR}
    assert sorted(link.rank for link in anchors.values()) == list(range(1, len(anchors) + 1))
    for link in chain.links:
        anchor = anchors[link.anchor]
        distance = int(table.position[link.row]) - int(table.position[anchor.row])
        assert table.session[link.row] == table.session[anchor.row]
        assert link.rank == anchor.rank
        assert (link.purpose is None) == (link is anchor)
        if link.purpose is Purpose.WINDOW:
            assert -chosen.before <= distance <= chosen.after
        elif link.purpose is Purpose.QUESTION:
            assert distance == -1
        elif link.purpose is Purpose.SUBJECT:
            assert abs(distance) == 1


def test_without_a_budget_all_candidates_are_anchors() -> None:
    """Tokens and anchors are bounded only where asked."""
    assert len(organise(TALK, "pottery class", PLAIN).links) == len(TALK)
    few = replace(PLAIN, anchors=2, candidates=5)
    assert len(organise(TALK, "pottery class", few).links) == 2


def test_relevance_alone_takes_the_order_of_relevance() -> None:
    """The ablation's first row is plain ranking."""
    scores, table, lexical = ask(TALK, "Which class did Ana join?")
    chain = build_chain(scores, table, lexical.term_sets, PLAIN)
    chosen = sorted(chain.links, key=lambda link: link.rank)
    assert [link.row for link in chosen] == scores.order.tolist()


def test_a_turn_that_is_surely_no_evidence_is_no_anchor() -> None:
    """A chain ends where turns are too unlikely to be evidence, however many tokens are left."""
    scores, table, lexical = ask(TALK, "Which class did Ana join?")
    bounded = replace(PLAIN, least_relevance=0.01)
    rows = {link.row for link in build_chain(scores, table, lexical.term_sets, bounded).links}
    assert rows == set(np.flatnonzero(scores.relevance >= 0.01).tolist())
    assert 0 < len(rows) < len(TALK)


def test_a_question_that_nothing_answers_has_an_empty_chain() -> None:
    """Where no turn is likely enough, nothing is shown, not the least bad."""
    assert organise(TALK, "xyzzy", ChainSettings()).links == ()
    assert organise(TALK, "Which class did Ana join?", ChainSettings()).links != ()


def test_what_is_left_out_changes_nothing_about_the_rest() -> None:
    """Anchors above the floor are chosen in the order they have without one."""
    free = organise(TALK, "Which class did Ana join?", replace(PLAIN, thrift=0.1, coverage=0.05))
    held = organise(TALK, "Which class did Ana join?", ChainSettings())
    first = sorted(free.links, key=lambda link: link.rank)[: len(held.links)]
    assert [link.row for link in sorted(held.links, key=lambda link: link.rank)] == [
        link.row for link in first
    ]


def test_diversity_passes_over_a_repetition() -> None:
    """Of two anchors, the second isn't the first said again."""
    turns = [
        Said(session=0, position=0, text="The pottery class in the mill starts Tuesday"),
        Said(session=1, position=0, text="The pottery class in the mill starts Tuesday"),
        Said(session=2, position=0, text="Pottery made my sister happy all autumn"),
    ]
    two = replace(PLAIN, anchors=2)
    assert {link.row for link in organise(turns, "pottery class mill", two).links} == {0, 1}
    diverse = replace(PLAIN, anchors=2, diversity=5)
    assert {link.row for link in organise(turns, "pottery class mill", diverse).links} == {0, 2}


def test_coverage_prefers_what_no_anchor_covers() -> None:
    """A turn with another of the question's words comes before one that repeats those found."""
    turns = [
        Said(session=0, position=0, text="The puppy chewed the shoes, bad puppy, poor shoes"),
        Said(session=1, position=0, text="The puppy chewed the shoes once more this week"),
        Said(session=2, position=0, text="Fish on the coast"),
    ]
    covering = ChainSettings(anchors=2, thrift=0, coverage=5)
    chain = organise(turns, "puppy shoes coast", covering)
    assert {link.row for link in chain.links} >= {2}
    terms = sorted(term for link in chain.links for term in link.new_terms)
    assert terms == [0, 1, 2]


def test_thrift_prefers_two_short_turns_to_a_long_one() -> None:
    """Worth per token counts where tokens are short."""
    long = "the pottery class " + "and so on and on " * 12
    turns = [
        Said(session=0, position=0, text=long),
        Said(session=1, position=0, text="the pottery class is in the mill on Tuesdays"),
        Said(session=2, position=0, text="fish"),
    ]
    thrifty = ChainSettings(anchors=1, coverage=0, thrift=1)
    assert [link.row for link in organise(turns, "pottery class", thrifty).links] == [1]


def test_neighbourhoods_are_restored_and_windows_merge() -> None:
    """An anchor brings the turns around it; a turn that is both anchor and neighbour is an anchor."""
    around = ChainSettings(anchors=1, coverage=0, thrift=0, before=1, after=1)
    links = organise(TALK, "Whose best shoes were chewed last night?", around).links
    assert [(link.row, link.kind) for link in links] == [
        (0, LinkKind.NEIGHBOUR),
        (1, LinkKind.ANCHOR),
        (2, LinkKind.NEIGHBOUR),
    ]


def test_an_anchor_whose_window_is_too_dear_comes_alone() -> None:
    """The budget is spent on the anchor before its neighbours."""
    around = ChainSettings(anchors=1, coverage=0, thrift=0, before=1, after=1)
    links = organise(TALK, "Whose best shoes were chewed last night?", around, max_tokens=30).links
    assert [link.kind for link in links] == [LinkKind.ANCHOR]


def talk_of(*said: tuple[str, str]) -> list[Said]:
    turns = [Said(session=0, position=at, speaker=who, text=text) for at, (who, text) in enumerate(said)]
    return [*turns, *(replace(turn, session=turn.session + 1) for turn in TALK)]


def purposes(turns: list[Said], question: str, chosen: ChainSettings) -> dict[str, Purpose | None]:
    return {turns[link.row].text: link.purpose for link in organise(turns, question, chosen).links}


ASKED = ("Ana", "So what did they name him in the end, after all that?")
NEEDED = ChainSettings(anchors=1, coverage=0, thrift=0, need=0.5, least_worth=0)


def test_a_short_answer_brings_its_question() -> None:
    """Where the turn before asks, and another answers in few words, the question is restored and says so."""
    turns = talk_of(ASKED, ("Ben", "Marmalade the tomcat"), ("Ana", "I see, well then."))
    links = organise(turns, "Marmalade tomcat", NEEDED).links
    assert [(link.row, link.purpose, link.anchor, link.rank) for link in links] == [
        (0, Purpose.QUESTION, 1, 1),
        (1, None, 1, 1),
    ]
    assert links[0].relevance < links[1].relevance * NEEDED.need


@pytest.mark.parametrize(
    ("before", "speaker", "answer"),
    [
        ("They named him in the end, after all that.", "Ben", "Marmalade the tomcat"),
        (ASKED[1], "Ana", "Marmalade the tomcat"),
    ],
    ids=["nobody asked", "the same speaker goes on"],
)
def test_what_reads_by_itself_comes_alone(before: str, speaker: str, answer: str) -> None:
    """Without a question, or after one's own, an answer needs nothing before it."""
    turns = talk_of(("Ana", before), (speaker, answer))
    assert before not in purposes(turns, "Marmalade tomcat", NEEDED)


def test_a_longer_answer_needs_its_question_less() -> None:
    """Up to `short_answer` tokens it is needed; an answer of twice as many needs it half as much."""
    table = tabulate(talk_of(ASKED, ("Ben", "word " * 38)))
    settings = ChainSettings(short_answer=20)
    rows = np.array([0, 1])
    assert answer_shares(rows, table, settings).tolist() == [0, 0.5]
    assert answer_shares(rows, table, replace(settings, short_answer=100)).tolist() == [0, 1]


def test_a_turn_that_says_what_an_anchor_is_about_stands_beside_it() -> None:
    """A neighbour with words of the question that its anchor lacks is restored, on either side."""
    named, told = "About the harmonica then.", "Rosewood and brass, by Seydel, rosewood and brass."
    for said in ((("Ana", named), ("Ben", told)), (("Ben", told), ("Ana", named))):
        shown = purposes(talk_of(*said), "Is Ben's harmonica rosewood and brass?", NEEDED)
        assert shown == {named: Purpose.SUBJECT, told: None}


def test_a_likely_neighbour_is_an_anchor_of_its_own() -> None:
    """What is likely evidence by itself needs no neighbour's probability."""
    turns = talk_of(("Ana", "The harmonica is by Seydel"), ("Ben", "A harmonica by Seydel"))
    free = replace(NEEDED, anchors=None)
    assert set(purposes(turns, "harmonica Seydel", free).values()) == {None}


def test_nothing_is_restored_that_was_ruled_out() -> None:
    """Where only some turns are allowed, none of the others comes along."""
    turns = talk_of(ASKED, ("Ben", "Marmalade the tomcat"))
    allowed = np.arange(len(turns)) > 0
    scores, table, lexical = ask(turns, "Marmalade tomcat", allowed=allowed)
    chain = build_chain(scores, table, lexical.term_sets, NEEDED)
    assert [link.row for link in chain.links] == [1]


def test_a_chain_ends_where_turns_are_not_worth_their_tokens() -> None:
    """However much room there is; and an anchor is judged by itself, before any neighbour."""
    question = "Which class did Ana join?"
    scores, table, _ = ask(TALK, question)
    price = table.tokens + PLAIN.line_tokens
    worth = scores.relevance / price
    least = float(np.sort(worth)[len(TALK) // 2])
    rows = {link.row for link in organise(TALK, question, replace(PLAIN, least_worth=least)).links}
    assert rows == set(np.flatnonzero(worth >= least).tolist())
    assert 0 < len(rows) < len(TALK)


@given(order=st.permutations(range(4)))
def test_sessions_may_be_written_in_any_order(order: list[int]) -> None:
    """The same turns are chosen for the same reasons; only rows differ."""
    turns = talk_of(ASKED, ("Ben", "Marmalade the tomcat"), ("Ana", "The class is where he sleeps."))
    question = "Where is the class that Ana takes, and where does the tomcat sleep?"
    shuffled = [turn for session in order for turn in turns if turn.session == session]
    assert purposes(shuffled, question, ChainSettings()) == purposes(turns, question, ChainSettings())


def test_nothing_fits_in_nothing() -> None:
    """No budget, no turns: an empty chain, not an error."""
    assert organise(TALK, "pottery", PLAIN, max_tokens=0).links == ()
    for chosen in CHAIN_PRESETS.values():
        assert organise([], "pottery", chosen).links == ()


def test_jaccard_is_shared_over_united() -> None:
    """The similarity of sets laid end to end is that of the sets."""
    sets = [np.array(terms, np.uint64) for terms in ([1, 2, 3], [2, 3, 4], [], [9])]
    assert Overlap(sets).jaccard(0).tolist() == [1, 0.5, 0, 0]
    assert Overlap(sets).jaccard(2).tolist() == [0, 0, 0, 0]


def test_relevance_is_spread_from_0_to_1() -> None:
    """The first candidate weighs 1, the last 0, equal ones 1."""
    for chances, expected in (([0.9, 0.5, 0.001], [1, None, 0]), ([0.2, 0.2], [1, 1])):
        relevance = np.array(chances, np.float32)
        spread = spread_relevance(relevance.astype(np.float64), odds_range(relevance)).tolist()
        assert [
            value if known is not None else None for value, known in zip(spread, expected, strict=True)
        ] == expected


def test_presets_have_names() -> None:
    """Chain on Demand and its ablation are reached by name; another name is an error."""
    assert Settings.preset("cod").chain.anchors is not None
    assert Settings.preset("default") == Settings()
    with pytest.raises(SettingsError, match="no preset"):
        Settings.preset("best")
