"""Knowing when the memory doesn't know: confidence without a model, and how its benchmark measures it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ranking_examples import DIMENSION, Said
from ranking_examples import ask as score
from small_memories import EMBEDDER

from scrubjay import Memory, Settings
from scrubjay.bench.abstention import (
    Origin,
    collect_cases,
    measure_auroc,
    measure_risks,
    measure_selectivity,
    swap_speakers,
    without_evidence,
)
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.judged import fill_corpus
from scrubjay.bench.tried_signals import read_values
from scrubjay.confidence import ConfidenceSignals, as_log_odds, read_signals
from scrubjay.embed import load_embedder
from scrubjay.question import read_question
from scrubjay.settings import ConfidenceSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.evidence import Evidence

TALK = (
    ("Lena", "I took up the trombone last winter, and I practise every evening."),
    ("Piet", "Good for you! I only ever go fishing at the weekend."),
    ("Lena", "Fishing would bore me to tears."),
    ("Piet", "My boat is called Marietje, she is forty years old."),
)


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(":memory:") as opened:
        opened.add([{"role": "user", "name": name, "content": text} for name, text in TALK], session_id="s")
        yield opened


def ask(memory: Memory, question: str) -> Evidence:
    return memory.recall(question, strategy="chain")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("When did Lena take up the trombone?", "When did Piet take up the trombone?"),
        ("What is Piet's boat called?", "What is Lena's boat called?"),
    ],
)
def test_the_wrong_person_lowers_confidence(memory: Memory, right: str, wrong: str) -> None:
    """Where somebody is named, and another said what fits best, the question is less likely to have an answer."""
    assert ask(memory, right).confidence > ask(memory, wrong).confidence + 0.1
    assert ask(memory, right).is_answerable


def signals_of(turns: list[Said], question: str) -> ConfidenceSignals:
    vectors = np.zeros(DIMENSION, np.float32)
    scores, table, _ = score(turns, question)
    read = read_question(question, vector=vectors, speakers=table.speakers)
    return read_signals(read, table, scores, least=-7.0)


SAID = [Said(session=0, position=at, speaker=name, text=text) for at, (name, text) in enumerate(TALK)]


def test_nobody_named_everybody_named() -> None:
    """Without a name, or with all of them, it only counts how likely the best turn is evidence."""
    for question in ("Who plays the trombone?", "Do Lena and Piet play the trombone?"):
        signals = signals_of(SAID, question)
        assert (signals.others, signals.names, signals.asks) == (0, 0, 0)
        assert signals.promise == pytest.approx(as_log_odds(score(SAID, question)[0].promise, -7.0))


def test_who_only_asked_did_not_tell() -> None:
    """Where the one named has the words in a question only, that is told from having said them."""
    asked = [*SAID[:1], replace(SAID[1], text="Who taught you to play the trombone?"), *SAID[2:]]
    question = "Who taught Piet to play the trombone?"
    told = [*SAID[:1], replace(SAID[1], text="Aunt Marie taught me to play the trombone."), *SAID[2:]]
    assert [signals_of(turns, question).asks for turns in (asked, told)] == [1, 0]
    assert signals_of(asked, "Who plays the trombone?").asks == 0


def test_no_evidence_is_no_answer() -> None:
    """An empty memory answers nothing, whatever the threshold."""
    settings = Settings(confidence=ConfidenceSettings(answerable_from=0.0))
    with Memory(":memory:", embedder=EMBEDDER, settings=settings) as memory:
        evidence = memory.recall("Who plays the trombone?")
    assert 0 < evidence.confidence < 0.5
    assert not evidence.is_answerable


def test_the_threshold_is_a_setting(memory: Memory) -> None:
    """Evidence knows the threshold it was made with, and says both in its document."""
    evidence = ask(memory, "When did Lena take up the trombone?")
    assert evidence.answerable_from == ConfidenceSettings().answerable_from
    assert not replace(evidence, answerable_from=1.0).is_answerable
    document = evidence.to_dict()
    assert document["confidence"] == round(evidence.confidence, 6)
    assert document["is_answerable"] is True


@given(st.floats(0, 1), st.floats(-9, -1))
def test_log_odds_are_finite(probability: float, least: float) -> None:
    """Certainty and impossibility have log-odds too."""
    assert least <= as_log_odds(probability, least) < 30


# --- the benchmark ---


def test_auroc_and_risk() -> None:
    """Perfect, useless and reversed scores come to 1, a half and 0; equals count half and share their risk."""
    truth = np.array([True, True, False, False])
    assert measure_auroc(truth, np.array([4.0, 3.0, 2.0, 1.0])) == 1.0
    assert measure_auroc(truth, np.zeros(4)) == 0.5
    assert measure_auroc(truth, np.array([1.0, 2.0, 3.0, 4.0])) == 0.0
    assert measure_auroc(truth, np.array([2.0, 1.0, 1.0, 0.0])) == 0.875
    assert measure_risks(truth, np.array([4.0, 3.0, 2.0, 1.0])).tolist() == [0, 0, 1 / 3, 0.5]
    assert measure_risks(truth, np.zeros(4)).tolist() == [0.5] * 4


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3)), min_size=2).filter(
        lambda rows: len({row[0] for row in rows}) == 2
    )
)
def test_order_of_equals_does_not_matter(rows: list[tuple[bool, int]]) -> None:
    """The measures depend on scores, not on where questions stand."""
    found = measure_selectivity([row[0] for row in rows], [float(row[1]) for row in rows])
    again = measure_selectivity([row[0] for row in rows[::-1]], [float(row[1]) for row in rows[::-1]])
    assert found.auroc == pytest.approx(again.auroc)
    assert found.aurc == pytest.approx(again.aurc)
    assert (found.questions, found.unanswerable) == (len(rows), [row[0] for row in rows].count(False))


def test_questions_without_an_answer_are_made_of_those_with_one() -> None:
    """The sample's questions are put as they are, without their evidence, and about another speaker."""
    dataset = load_dataset("sample")
    few = replace(dataset, samples=(replace(dataset.samples[0], questions=dataset.samples[0].questions[:6]),))
    cases = list(collect_cases(few, embedder=load_embedder(), settings=Settings(), made=True))
    assert sum(case.origin is Origin.NATURAL for case in cases) == 6
    assert sum(case.origin is Origin.REMOVED for case in cases) == 6
    assert not [case for case in cases if case.answerable and case.origin is not Origin.NATURAL]
    assert {case.signals.names for case in cases if case.origin is Origin.SWAPPED} <= {1.0}
    assert len({tuple(case.tried) for case in cases}) == 1
    assert all(np.isfinite(list(case.tried.values())).all() for case in cases)


def test_without_evidence_and_swapped() -> None:
    """Only the gold turns go; only a question that names exactly one speaker is put about others."""
    sample = load_dataset("sample").samples[0]
    corpus, turn_ids = fill_corpus(sample, embedder=load_embedder(EMBEDDER), settings=Settings())
    question = replace(sample.questions[0], question="What did Nora's cat eat? Nora knows.")
    rest = without_evidence(sample, question)
    kept = [turn.turn_id for session in rest.conversation.sessions for turn in session.turns]
    assert set(turn_ids) - set(kept) == set(question.evidence)
    (swapped,) = swap_speakers(question, corpus)
    assert swapped.question == "What did Kai's cat eat? Kai knows."
    assert swap_speakers(replace(question, question="Did Nora see Kai?"), corpus) == []
    assert swap_speakers(replace(question, question="Who is Noralie?"), corpus) == []


@pytest.mark.parametrize(
    ("text", "number", "name"),
    [
        ("How much did the boat cost?", 1.0, 0.0),
        ("What is the boat called?", 0.0, 1.0),
        ("Wie viel kostet das Boot, and what is it called?", 1.0, 1.0),
        ("Who owns the boat?", 0.0, 0.0),
    ],
)
def test_what_is_asked_for_is_looked_for_beside_the_words(text: str, number: float, name: float) -> None:
    """A number or a name is missed where what fits the question has none, and only where one is asked."""
    question = read_question(text, vector=np.zeros(DIMENSION, np.float32), speakers=())
    idf = [1.0] * len(question.terms)
    held = read_values(
        question, ["my boat is Marietje and cost me 900. das Boot kostet 900, sagt Piet."], idf
    )
    bare = read_values(question, ["the boat cost a lot, das boot kostet viel", "Nora has 3 cats."], idf)
    asked = (bare["a number is asked"], bare["a name is asked"])
    assert asked == (number, name)
    for kind, is_asked in (("number", number), ("name", name)):
        missing = f"a {kind} is asked, and what fits has none"
        assert held[missing] == 0
        assert (bare[missing] > 0) == bool(is_asked)
