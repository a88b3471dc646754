"""How likely turns are evidence."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_examples import TALK, Said, ask

from scrubjay.cues import question_cues
from scrubjay.datatypes import Role
from scrubjay.lexical import LexicalMatch
from scrubjay.memory import Memory
from scrubjay.question import read_question
from scrubjay.relevance import SIGNALS, read_channels, weigh_signals, weighted_sum
from scrubjay.scores import relevant_rows, unpack
from scrubjay.settings import ChainSettings, RelevanceSettings, RelevanceWeights

words = st.sampled_from(
    [
        "puppy",
        "pottery",
        "class",
        "coast",
        "fish",
        "shoes",
        "sister",
        "mill",
        "Ana",
        "Ben",
        "what",
        "when",
        "I",
        "you",
    ]
)
sentences = st.lists(words, min_size=1, max_size=8).map(" ".join)


@st.composite
def conversations(draw: st.DrawFn) -> list[Said]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    return [
        Said(
            session=session,
            position=position,
            text=draw(sentences),
            speaker=draw(st.sampled_from(["Ana", "Ben", None])),
            role=draw(st.sampled_from([Role.USER, Role.ASSISTANT])),
        )
        for session, size in enumerate(sizes)
        for position in range(size)
    ]


def test_the_weights_are_those_of_their_record() -> None:
    """Settings hold what the file says that was fitted, by what, to which data and under which licence."""
    record = json.loads((files("scrubjay") / "relevance_weights.json").read_text("utf-8"))
    settings = RelevanceSettings()
    assert record["weights"] == asdict(settings.weights)
    assert (record["bias"], record["rivalry"]) == (settings.bias, settings.rivalry)
    assert {one["licence"] for one in record["data"].values()} <= {"CC0-1.0", "MIT"}


def test_the_turn_that_answers_comes_first() -> None:
    """The right speaker's turn with the question's words leads."""
    scores, _, _ = ask(TALK, "Which class did Ana sign up for with her sister?")
    assert scores.order[0] == 4


def test_an_answer_is_found_by_the_question_before_it() -> None:
    """A turn that shares no word with the question is raised by the one it replies to."""
    question = "What is Ben's puppy called?"
    unrelated = [*TALK[:2], replace(TALK[2], text="Oh no! What will you do now?"), *TALK[3:]]
    assert ask(TALK, question)[0].relevance[3] > ask(unrelated, question)[0].relevance[3]
    assert 3 in ask(TALK, question)[0].order[:3].tolist()


def test_neighbours_tell_turns_apart_only_where_somebody_else_speaks() -> None:
    """Beside what fits the question a turn of a conversation gains; in notes by one person no turn gains over another."""
    notes = [
        Said(session=0, position=0, text="My niece has a puppy.", speaker="Ben"),
        Said(session=0, position=1, text="Biscuit is the name of the brown puppy.", speaker="Ben"),
        Said(session=0, position=2, text="The bus came late again.", speaker="Ben"),
        Said(session=0, position=3, text="The tram came late again.", speaker="Ben"),
    ]
    talk = [notes[0], replace(notes[1], speaker="Ana"), *notes[2:]]
    noted, told = (ask(turns, "What is the name of the brown puppy?")[0].relevance for turns in (notes, talk))
    assert told[2] > 2 * told[3]
    assert noted[2] == pytest.approx(noted[3], rel=0.2)


def test_notes_are_no_less_promising_than_talk() -> None:
    """That neighbours tell no turns apart in notes makes none of them look like nothing relevant."""
    notes = [
        Said(session=0, position=place, text=text, speaker="Ben")
        for place, text in enumerate(("My niece Mia called.", "She is at the mill now.", "It was late."))
    ]
    talk = [notes[0], replace(notes[1], speaker="Ana"), notes[2]]
    noted, told = (ask(turns, "Where is my niece now?")[0].promise for turns in (notes, talk))
    assert noted > told / 2


def test_a_name_in_the_text_stands_for_a_speaker_that_isnt_known() -> None:
    """A person's turn without a speaker tells of whom it names, as if they spoke; an assistant's tells whom it talks to."""
    known = [
        Said(session=0, position=0, text="The rehearsal is on Friday.", speaker="Oleg"),
        Said(session=0, position=1, text="I will bring cake.", speaker="Mei"),
    ]
    gains = {}
    for role in (Role.USER, Role.ASSISTANT):
        told = [
            ask([*known, Said(session=1, position=0, text=text, role=role)], "What did Oleg sell to Mei?")
            for text in ("Oleg sold his bassoon to Mei.", "Somebody sold a bassoon to someone.")
        ]
        named, nameless = (float(scores.relevance[2]) for scores, _, _ in told)
        gains[role] = named / nameless
    assert gains[Role.USER] > 5 * gains[Role.ASSISTANT]


def test_a_message_isnt_only_about_who_writes_it() -> None:
    """What the assistant said counts as much as the user's own turns where a message of some sentences is put as the question."""
    talk = [
        Said(session=0, position=0, text="My plan is three runs a week.", speaker=None, role=Role.USER),
        Said(session=0, position=1, text="The plan is three runs a week.", speaker=None, role=Role.ASSISTANT),
    ]
    asked = "What is my plan for runs?"
    told = f"I had a good week. My knee is fine again. {asked}"
    short, long = (ask(talk, question)[0].relevance for question in (asked, told))
    assert short[0] / short[1] > 2 * long[0] / long[1]


@pytest.mark.parametrize(
    ("text", "is_message"),
    [
        ("What did I say about J. K. Rowling's U.S. tour in 3.5 words?", False),
        ("My kitchen is a mess. Any tips?", False),
        ("Good one! I booked it. What is next?", True),
        ("Hello\nI booked it\nand now?", True),
        ("太好了！我订了。下一步呢？", True),
    ],
)
def test_a_message_has_three_sentences(text: str, *, is_message: bool) -> None:
    """Three sentences or lines are a message; initials and numbers end no sentence."""
    assert question_cues(text).is_message is is_message


@given(turns=conversations(), question=sentences)
@settings(max_examples=60)
def test_scores_are_probabilities_and_the_order_follows_them(turns: list[Said], question: str) -> None:
    """Every score lies between 0 and 1 and the order never rises."""
    scores, _, _ = ask(turns, question)
    assert np.all((scores.relevance >= 0) & (scores.relevance <= 1))
    assert np.all(np.diff(scores.relevance[scores.order]) <= 0)
    assert sorted(scores.order.tolist()) == list(range(len(turns)))


@given(turns=conversations(), question=sentences, random=st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_scores_do_not_depend_on_the_order_of_writing(
    turns: list[Said], question: str, random: object
) -> None:
    """Sessions written side by side, or later turns first, give each turn the same score."""
    places = list(range(len(turns)))
    random.shuffle(places)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    straight, _, _ = ask(turns, question)
    shuffled, _, _ = ask([turns[place] for place in places], question)
    np.testing.assert_allclose(shuffled.relevance, straight.relevance[places], rtol=1e-4, atol=1e-6)


def test_what_is_not_allowed_scores_nothing() -> None:
    """A filter acts before the cut: turns outside are neither scored nor ordered."""
    allowed = np.arange(len(TALK)) >= 5
    scores, _, _ = ask(TALK, "Which class did Ana sign up for?", allowed=allowed)
    assert not scores.relevance[:5].any()
    assert set(scores.order.tolist()) == {5, 6, 7, 8}


def test_the_pool_bounds_what_is_looked_at() -> None:
    """Turns outside the pool score 0; the best turn is in it."""
    scores, _, _ = ask(TALK, "Which class did Ana sign up for?", settings=RelevanceSettings(pool=3))
    assert len(scores.order) == 3
    assert np.count_nonzero(scores.relevance) == 3
    assert scores.order[0] == 4


def test_a_turn_said_in_the_named_time_gains() -> None:
    """Of two equal turns the one said in the range leads, the one long before it gains nothing."""
    day = 86_400.0
    turns = [
        Said(session=0, position=0, text="We went swimming in the lake", said_at=10 * day),
        Said(session=1, position=0, text="We went swimming in the lake", said_at=40 * day),
        Said(session=2, position=0, text="We went swimming in the lake", said_at=44 * day),
        Said(session=3, position=0, text="We went swimming in the lake"),
    ]
    scores, _, _ = ask(turns, "Where did we swim?", time_range=(39 * day, 41 * day))
    assert scores.order.tolist() == [1, 2, 0, 3]
    assert scores.relevance[0] == scores.relevance[3]


def test_a_question_about_who_asks_prefers_what_they_said() -> None:
    """ "My" means the user's turns, "you told me" the assistant's."""
    turns = [
        Said(session=0, position=0, text="the running shoes are size forty two", role=Role.ASSISTANT),
        Said(session=1, position=0, text="the running shoes are size forty two", role=Role.USER),
    ]
    assert ask(turns, "What size are my running shoes?")[0].order[0] == 1
    told = ask(turns, "What size did you tell me the running shoes are?")[0].relevance
    asked = ask(turns, "What size are my running shoes?")[0].relevance
    assert told[0] - told[1] > asked[0] - asked[1]


def test_who_asks_is_known_among_named_people() -> None:
    """Where two people talk, "my" means the one who asks."""
    turns = [
        Said(session=0, position=0, text="the wedding is in the old mill", speaker="Ana"),
        Said(session=1, position=0, text="the wedding is in the old mill", speaker="Ben"),
    ]
    assert ask(turns, "Where is my wedding?", asker="Ben")[0].order[0] == 1
    assert ask(turns, "Where is my wedding?", asker="Ana")[0].order[0] == 0


WEDDINGS = [
    Said(session=0, position=0, text="the wedding is in the old mill", speaker="Ana"),
    Said(session=1, position=0, text="the wedding is on the far island", speaker="Ben"),
]


@pytest.mark.parametrize("strategy", ["chain", "planned"])
def test_who_asks_is_passed_through_the_whole_read_path(strategy: str) -> None:
    """Searching, reading by a chain and reading by a plan, "my" means whom the caller names."""
    with Memory(":memory:") as memory:
        for turn in WEDDINGS:
            memory.add(
                {"role": "user", "content": turn.text, "name": turn.speaker}, session_id=str(turn.session)
            )
        for asker, place in (("Ana", 0), ("Ben", 1)):
            found = memory.search("Where is my wedding?", asker=asker)
            assert found[0].turn.text == WEDDINGS[place].text
            evidence = memory.recall("Where is my wedding?", asker=asker, strategy=strategy)
            best = max(evidence.links, key=lambda link: link.probability)
            assert best.turn.text == WEDDINGS[place].text


def test_an_empty_memory_and_an_empty_question_are_no_errors() -> None:
    """Without turns there is no order; without terms scores still are finite."""
    assert ask([], "anything")[0].order.tolist() == []
    assert np.isfinite(ask(TALK, "")[0].relevance).all()


def test_a_turn_has_the_scores_of_its_best_passage_and_the_terms_of_all() -> None:
    """Pieces of a long turn are joined."""
    question = read_question("pear plum", vector=np.zeros(2, np.float32), speakers=())
    match = LexicalMatch(
        scores=np.array([1, 3, 2], np.float32),
        covered=np.array([1, 2, 2], np.uint64),
        idf=np.array([1, 2], np.float32),
    )
    channels = read_channels(
        question, match, np.array([0.5, 0.1, 0.2], np.float32), np.array([0, 0, 1], np.int32)
    )
    assert channels.lexical.tolist() == [3, 2]
    assert channels.dense.tolist() == [np.float32(0.5), np.float32(0.2)]
    assert channels.covered.tolist() == [3, 2]


def test_every_signal_has_a_weight_and_is_computed() -> None:
    """A signal whose weight changes changes some score."""
    assert tuple(weight.name for weight in fields(RelevanceWeights)) == SIGNALS
    turns = [
        *TALK,
        Said(
            session=3,
            position=0,
            text="The pottery class costs ninety a month",
            role=Role.ASSISTANT,
            said_at=5.0,
        ),
    ]
    questions = ("When did Ana join my pottery class?", "Which fish did we eat?")
    for name in SIGNALS:
        changed = RelevanceSettings(weights=replace(RelevanceWeights(), **{name: 3.3}))
        assert any(
            not np.array_equal(
                ask(turns, text, time_range=(0, 10))[0].relevance,
                ask(turns, text, time_range=(0, 10), settings=changed)[0].relevance,
            )
            for text in questions
        ), name


def test_masks_unpack_to_a_column_a_term() -> None:
    """Bits become 0 and 1, in order, 64 at most."""
    assert unpack(np.array([5], np.uint64), 3).tolist() == [[1, 0, 1]]
    assert unpack(np.array([5], np.uint64), 90).shape == (1, 64)


def test_rivals_make_a_turn_less_likely_and_keep_the_order() -> None:
    """A turn said once is likelier to be meant than each of five that say the same; which leads stays as it was."""
    once = [*TALK, *(Said(session=9 + place, position=0, text="Fine, thanks.") for place in range(4))]
    often = [*TALK, *(replace(TALK[4], session=9 + place, position=0) for place in range(4))]
    question = "Which class did Ana sign up for?"
    assert ask(often, question)[0].relevance[4] < ask(once, question)[0].relevance[4]
    alone, rivalled = (
        ask(TALK, question, settings=RelevanceSettings(rivalry=rivalry))[0] for rivalry in (0, 0.76)
    )
    assert alone.order.tolist() == rivalled.order.tolist()
    assert alone.promise == rivalled.promise
    assert np.all(rivalled.relevance <= alone.relevance)


def test_a_turn_of_a_large_memory_is_less_likely_than_the_same_of_a_small_one() -> None:
    """The odds of a turn are shared out over all that could be meant; below a hundred turns, over a hundred."""
    signals = np.ones((3, len(SIGNALS)))
    small, hundred, large = (
        weigh_signals(signals, RelevanceSettings(), among=among) for among in (3, 100, 100_000)
    )
    assert small.tolist() == hundred.tolist()
    np.testing.assert_allclose(hundred - large, np.log(1000))


def test_what_a_filter_leaves_is_the_memory_that_odds_are_shared_out_over() -> None:
    """Turns outside a filter couldn't be meant and take no odds."""
    turns = [Said(session=place, position=0, text=f"Fine, thanks. {place}") for place in range(300)]
    allowed = np.arange(309) < 9
    question = "Which class did Ana sign up for?"
    free, filtered = (ask([*TALK, *turns], question, allowed=mask)[0] for mask in (None, allowed))
    assert filtered.promise > free.promise


def test_where_nothing_looks_like_evidence_nothing_is_relevant() -> None:
    """A question of nonsense has no rows to show; a question that is answered has, down to the floor."""
    nonsense, asked = (ask(TALK, text)[0] for text in ("xyzzy", "Which class did Ana sign up for?"))
    assert relevant_rows(nonsense, ChainSettings()).tolist() == []
    rows = relevant_rows(asked, ChainSettings())
    assert rows.tolist() == asked.order[: len(rows)].tolist()
    assert asked.relevance[rows].min() >= ChainSettings().least_relevance
    assert len(relevant_rows(asked, ChainSettings(least_relevance=0.99))) == 0
    assert ask([], "anything")[0].promise == 0


def test_a_search_for_what_was_never_said_finds_nothing() -> None:
    """Through the whole read path, with the shipped embedder."""
    with Memory(":memory:") as memory:
        for turn in TALK:
            memory.add(
                {"role": "user", "content": turn.text, "name": turn.speaker}, session_id=str(turn.session)
            )
        assert memory.search("xyzzy") == ()
        assert memory.recall("xyzzy").text == ""
        assert memory.search("Which class did Ana sign up for?")[0].turn.text == TALK[4].text


def test_a_weighted_sum_is_the_product_of_rows_and_weights() -> None:
    """It is what `@` gives, but for the last digits."""
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert weighted_sum(rows, np.array([1, 10, 100], np.float32)).tolist() == [210, 543]
    assert weighted_sum(rows[:, :0], np.zeros(0, np.float32)).tolist() == [0, 0]
