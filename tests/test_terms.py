"""Index terms of texts in many languages."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.terms import LONGEST_TERM, extract_terms, hash_terms, locate_terms


def finds(question: str, text: str) -> bool:
    """Whether every term of the question is a term of the text."""
    terms = extract_terms(question)
    return bool(terms) and set(terms) <= set(extract_terms(text))


@pytest.mark.parametrize(
    ("question", "text"),
    [
        pytest.param("paint", "She was painting two sunrises.", id="english-inflection"),
        pytest.param("Hunde", "Unsere Hunde sind müde und wir gehen nach Hause.", id="german-same-form"),
        pytest.param("Katze", "Die Katzen schlafen auf dem Sofa und sie träumen.", id="german-plural"),
        pytest.param("clases", "Mañana empiezo la clase de cerámica con mi hermana.", id="spanish-plural"),
        pytest.param("cafe", "On se voit au café demain ?", id="accent-left-out"),
        pytest.param("кошки", "Вчера я видела кошку в саду.", id="russian-case"),
        pytest.param("الكتاب", "قرأت كتاب جديد في المكتبة", id="arabic-article"),
        pytest.param("京都", "先週、京都へ行きました。", id="japanese-inside-a-sentence"),
        pytest.param("茶", "我昨天买了一包茶叶。", id="chinese-single-character"),
        pytest.param("小白", "我养了一只猫，叫小白，很可爱。", id="chinese-inside-a-sentence"),
        pytest.param("고양이", "저는 고양이를 키워요.", id="korean-before-a-particle"),
        pytest.param("แมว", "ฉันมีแมวสองตัว", id="thai-inside-a-sentence"),
        pytest.param("RMA-1234", "The return is rma-1234, please note it.", id="code"),
        pytest.param("1234", "The return is RMA-1234.", id="part-of-a-code"),
        pytest.param("rma1234", "The return is RMA-1234.", id="code-without-hyphen"),
        pytest.param("email", "Send me an e-mail.", id="hyphenated-word"),
        pytest.param("main", "It broke in src/main.py again.", id="part-of-a-path"),
        pytest.param("O'Brien", "I met O’Brien's brother.", id="apostrophe"),
        pytest.param("1200", "It cost $1,200 in the end.", id="thousands"),
        pytest.param("2.5", "We ran 2.5 miles.", id="decimal"),
        pytest.param(
            "550e8400-e29b-41d4-a716-446655440000", "id=550E8400-E29B-41D4-A716-446655440000", id="uuid"
        ),
        pytest.param("ＡＢＣ", "the abc of it", id="full-width"),
    ],
)
def test_what_was_said_is_found(question: str, text: str) -> None:
    """A word is found whatever its script, inflection or punctuation."""
    assert finds(question, text)


@pytest.mark.parametrize(
    "text", ["", "  \n", "I don't do what they were doing with it", "🎉🎉", "\x00\x01", "的了吗", "...!?"]
)
def test_what_says_nothing_has_no_terms(text: str) -> None:
    """Stop words, contractions, emoji and punctuation give no terms."""
    assert extract_terms(text) == []


def test_a_decimal_is_no_whole_number() -> None:
    """2.5 and 25 have no term in common."""
    assert not set(extract_terms("2.5 miles")) & set(extract_terms("25 kilos"))


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=())))
def test_any_string_has_terms_that_can_be_hashed(text: str) -> None:
    """No string breaks term extraction or hashing, and no term is longer than the limit."""
    terms = extract_terms(text)
    assert all(0 < len(term) <= LONGEST_TERM for term in terms)
    assert len(hash_terms(terms)) == len(terms)


@pytest.mark.parametrize(
    "unit", ["a", "a-", "a'", "猫", "\x00", "é", "\u0301", "ß ü ", "1,", "\ud800", "x. "]
)
def test_a_megabyte_takes_linear_time(unit: str) -> None:
    """Eight times the text takes at most some 8 times the time: far from the 64 times of a quadratic one."""
    small, large = (unit * (size // len(unit)) for size in (125_000, 1_000_000))

    def seconds(text: str) -> float:
        started = time.process_time()
        extract_terms(text)
        return time.process_time() - started

    assert seconds(large) < 32 * max(seconds(small), 0.005)


def test_hashes_are_the_same_in_every_process() -> None:
    """Hashes don't depend on the process, so they can be stored."""
    code = "from scrubjay.terms import hash_terms; print(*hash_terms(['paint', '小白', '\\ud800']))"
    there = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert there[0] == there[1] == [str(value) for value in hash_terms(["paint", "小白", "\ud800"])]


def test_hashes_keep_repeats_and_order() -> None:
    """There is a hash for each term given, equal for equal terms only."""
    hashes = hash_terms(["a", "b", "a"])
    assert hashes.dtype == np.uint64
    assert hashes[0] == hashes[2] != hashes[1]


SENTENCES = (
    "What did Ana's sister decide about the ceramics classes?",
    "Wie heißt der Schlagzeuger aus der WG mit Vornamen?",
    "¿Cuántos kilos pesa Chilaquil, según la clínica?",
    "Когда Катя переехала в Ярославль?",
    "小满的击剑课在哪家剑馆上？",
    "أين اشترى سامي الكتاب الجديد؟",
    "김치찌개는 어디서 먹었어요?",
    "Was RMA-1234 sent to order.lookup@example.org, or ＦＵＬＬ width ﬁles?",
    "STRASSE or straße, e-mail or E-Mail?",
)


@pytest.mark.parametrize("text", SENTENCES)
def test_every_term_stands_somewhere(text: str) -> None:
    """Each term of a text is located, within a word."""
    places = locate_terms(text)
    assert set(places) == set(extract_terms(text))
    for start, stop in places.values():
        assert not any(char.isspace() for char in text[start:stop])


@given(st.text(max_size=120))
def test_places_are_inside_the_text(text: str) -> None:
    """Whatever the text, a place is a piece of it that isn't empty."""
    for start, stop in locate_terms(text).values():
        assert 0 <= start < stop <= len(text)


@given(st.lists(st.sampled_from([*"aß-.,'é1 ", "ые", "剑", "ﷺ", "の"]), max_size=80).map("".join))
def test_no_word_is_located_that_gives_no_term(text: str) -> None:
    """Nothing is located but terms of the text."""
    assert set(locate_terms(text)) <= set(extract_terms(text))
