"""What a question's words, names and cues are read as."""

from __future__ import annotations

import numpy as np
import pytest

from scrubjay.cues import FLAG_QUESTION, FLAG_TIME, question_cues, turn_flags
from scrubjay.question import Question, name_terms, read_question


def read(text: str, *, speakers: tuple[str, ...] = (), asker: str | None = None) -> Question:
    return read_question(text, vector=np.zeros(4, np.float32), speakers=speakers, asker=asker)


def test_a_speakers_name_says_who_speaks_and_counts_nothing_as_a_word() -> None:
    """The name is found among the speakers, its term weighs 0, the others 1."""
    question = read("Where did Caroline's brother move?", speakers=("Melanie", "Caroline"))
    assert question.named == (1,)
    assert dict(zip(question.terms, question.weights.tolist(), strict=True)) == {
        "carolin": 0.0,
        "brother": 1.0,
        "move": 1.0,
    }


def test_half_a_compound_name_stays_a_word() -> None:
    """A tool called order-lookup isn't named by the word order."""
    assert read("Which order was late?", speakers=("order-lookup",)).named == ()
    assert name_terms("Ana María Ruiz") == {"ana", "maria", "ruiz"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What did Mel paint?", (0,)),
        ("Mel's painting, what is on it?", (0,)),
        ("What did mel paint?", ()),
        ("Mel painted what?", ()),  # the first of a sentence has a capital whatever it means
        ("What did Me paint?", ()),
        ("What did Caro and Mel paint?", (0, 1)),
        ("What did Sam paint?", ()),  # Samantha or Samuel
        ("What did Sams paint?", ()),
        ("What did Caroline say of Mel?", (1,)),  # Mel may be somebody else
        ("What did María sell?", (4,)),
    ],
)
def test_the_beginning_of_a_name_means_whose_it_is(text: str, named: tuple[int, ...]) -> None:
    """Mel is Melanie, where nobody is named in full, a capital shows a name, and only one speaker's begins so."""
    speakers = ("Melanie", "Caroline", "Samantha", "Samuel", "Ana Maríaluisa Ruiz")
    assert read(text, speakers=speakers).named == named


def test_who_asks_may_be_told_by_the_beginning_of_a_name() -> None:
    """The whole name comes first; one that several names begin with is nobody's."""
    speakers = ("Samantha", "Sam", "Melanie Ruiz", "Anton", "Antonia")
    told = {
        name: read("What did I say?", speakers=speakers, asker=name).asker
        for name in ("sam", "MEL", "ruiz", "Ant", "Bo")
    }
    assert told == {"sam": 1, "MEL": 2, "ruiz": 2, "Ant": None, "Bo": None}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What does Will like to eat?", (0,)),
        ("Where did Ana and May meet?", (1, 2)),
        ("Will's dog, what is it called?", (0,)),
        ("What will Ana cook?", (2,)),
        ("Will Ana cook? May I know?", (2,)),
        ("What happened in May? And on 3 May, or May 5?", ()),
        ("What did May buy in May?", (1,)),
        ("WHAT WILL HE DO?", ()),
    ],
)
def test_a_name_that_is_a_small_word_is_told_by_its_capital(text: str, named: tuple[int, ...]) -> None:
    """Will and May are people inside a sentence, verbs at its beginning, and May a month after a preposition."""
    assert read(text, speakers=("Will", "May", "Ana")).named == named


def test_a_small_word_of_another_language_is_a_name_by_its_capital() -> None:
    """Al is a person in a Spanish question though al is a stop word there; of Bob de Vries, de names nobody."""
    assert read("¿Qué le dijo Al a su hermana cuando llegó?", speakers=("Al", "Bob de Vries")).named == (0,)


def test_a_chinese_name_is_found_inside_a_sentence() -> None:
    """Names in scripts without spaces are recognised as well."""
    assert read("大鹏的妹妹在哪里工作？", speakers=("阿岚", "大鹏")).named == (1,)


def test_terms_are_distinct_and_in_order() -> None:
    """A repeated word counts once."""
    question = read("pears and plums and pears")
    assert question.terms == ("pear", "plum")
    assert len(question.hashes) == len(question.weights) == 2


def test_who_asks_is_a_speaker_or_unknown() -> None:
    """A name nobody in the memory has is no one's; how its letters are cased doesn't matter."""
    assert read("my dog", speakers=("Ann", "Bob"), asker="Bob").asker == 1
    assert read("my dog", speakers=("Ann", "Bob"), asker=" bob").asker == 1
    assert read("my dog", speakers=("Ann", "Bob"), asker=None).asker is None
    assert read("my dog", speakers=("Ann", "Bob"), asker="Eve").asker is None


@pytest.mark.parametrize(
    ("text", "first_person", "asks_when", "asks_other"),
    [
        ("When did I buy my bike?", True, True, False),
        ("Which hotel did you recommend to me?", True, False, True),
        ("What is Ann's dog called?", False, False, False),
        ("How long has Bob lived there?", False, True, False),
        ("我是什么时候搬家的？", True, True, False),
        ("你之前推荐了哪本书？", False, False, True),
        ("Wann habe ich mein Auto verkauft?", True, True, False),
        ("¿Qué libro me recomendaste?", True, False, True),
    ],
)
def test_cues_of_a_question(text: str, first_person: bool, asks_when: bool, asks_other: bool) -> None:  # noqa: FBT001 - a table of cases
    """First person, time and what the other said are told from small words, in several languages."""
    cues = question_cues(text)
    assert (cues.first_person, cues.asks_when, cues.asks_other) == (first_person, asks_when, asks_other)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("How was it?", FLAG_QUESTION),
        ("How was it? [image: a beach]", FLAG_QUESTION),
        ("We went last Friday.", FLAG_TIME),
        ("Are you free tomorrow?", FLAG_QUESTION | FLAG_TIME),
        ("我们上周去了海边", FLAG_TIME),
        ("你去哪里了？", FLAG_QUESTION),
        ("Fine, thanks!", 0),
        ("", 0),
    ],
)
def test_flags_of_a_turn(text: str, flags: int) -> None:
    """A question at the end and a named time are told from the words."""
    assert turn_flags(text) == flags
