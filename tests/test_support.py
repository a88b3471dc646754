"""The support check: a record is supported when its names, numbers, dates and words stand in its turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import NO_REFERENCE, make_turn

from scrubjay.datatypes import RecordTime, ReferenceContext, Support
from scrubjay.settings import SupportSettings
from scrubjay.support import Sources, check_support

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

SETTINGS = SupportSettings()


def check(
    text: str,
    *said: str,
    entities: Sequence[str] = (),
    time: RecordTime | None = None,
    reference: ReferenceContext = NO_REFERENCE,
    around: Sequence[str] = (),
) -> Support:
    """Check a statement against turns that Ana said on Tuesday 2024-03-12; Ben speaks around them."""
    cited = [(make_turn(index, words, "Ana"), words) for index, words in enumerate(said)]
    others = [(make_turn(index, words, "Ben"), words) for index, words in enumerate(around, start=len(cited))]
    sources = Sources(cited=tuple(cited), around=(*cited, *others), reference=reference)
    return check_support(
        text, entities=entities, time=time or RecordTime(), sources=sources, settings=SETTINGS
    )


SUPPORTED = [
    ("Ana moved to Lisbon with her dog Bobi.", "I moved to Lisbon with my dog Bobi."),
    ("Ana has two cats and 3 dogs.", "I've got two cats and three dogs"),
    ("Ana's rent is 1,250 euros.", "The rent is 1250 euros now."),
    ("Ana visited her Italian cousin in Rome.", "I visited my cousin in Rome, Italy"),
    ("Ana moved on Monday 11 March 2024.", "I moved yesterday!"),
    ("Ana's flight leaves on Friday 15 March 2024.", "My flight leaves on Friday."),
    ("Ana has worked there since 2019.", "I've worked there for five years."),
    ("Ana will marry in May 2024.", "We'll marry in May!"),
    ("Ana wird im Juni 2024 nach Köln ziehen.", "Ich ziehe im Juni nach Köln."),
    (
        "Ana hat einen Hund, eine Katze und ein Haus mit Garten.",
        "Ich habe einen Hund, eine Katze, ein Haus mit Garten.",
    ),
    ("Ana s'est installée à Lyon le 11 mars 2024.", "Je me suis installée à Lyon hier."),
    ("Ana对坚果过敏，住在上海。", "我对坚果过敏。我住在上海。"),
    ("Анна переехала в Москву в марте.", "Я переехала в Москву в марте, Анна тоже"),
    ("アナは2024年3月11日に京都へ引っ越した。", "昨日、京都へ引っ越したよ"),
]


@pytest.mark.parametrize(("text", "said"), SUPPORTED, ids=[said for _, said in SUPPORTED])
def test_supported(text: str, said: str) -> None:
    """What follows from a turn, its day and its speaker is supported, in any language."""
    assert check(text, said) == Support(supported=True, reason="")


UNSUPPORTED = [
    ("Ana moved to Berlin with her dog.", "I moved to Lisbon with my dog.", "'Berlin'"),
    ("Ana and her brother Tom moved to Lisbon.", "My brother and I moved to Lisbon.", "'Tom'"),
    ("Ana has 4 dogs and a garden.", "I've got 3 dogs and a garden.", "number 4"),
    ("Ana moved on Monday 18 March 2024.", "I moved yesterday!", "number 18"),
    ("Ana enjoys painting landscapes at the seaside.", "Thanks, talk to you later!", "1 of its"),
    ("Ana对坚果过敏，住在北京。", "今天天气真好，我们去公园吧。", "words"),
    ("Ana is allergic to nuts and lives here.", "我对坚果过敏，住在上海。", "words"),
]


@pytest.mark.parametrize(("text", "said", "reason"), UNSUPPORTED, ids=[text for text, _, _ in UNSUPPORTED])
def test_unsupported(text: str, said: str, reason: str) -> None:
    """What a turn doesn't hold is named as the reason."""
    support = check(text, said)
    assert not support.supported
    assert reason in support.reason


def test_entities_are_names() -> None:
    """An entity that nobody mentioned is a reason; one known from the reference context or other turns is not."""
    text, said = "She moved to Lisbon with him.", "I moved to Lisbon with him."
    assert "'Priya Rao'" in check(text, said, entities=["Priya Rao"]).reason
    assert check(text, said, entities=["Priya Rao"], around=["And Priya Rao?"]).supported
    known = ReferenceContext(note="he = Priya Rao", records=())
    assert check(text, said, entities=["Priya Rao", "Lisbon", "!?"], reference=known).supported


def test_around_is_for_names_only() -> None:
    """Words and numbers of turns that a record doesn't cite are no support."""
    support = check("Ana pays 900 euros for a sunny flat.", "Thanks!", around=["900 euros for a sunny flat"])
    assert "number 900" in support.reason
    assert "words" in support.reason


def test_reference_supports_words() -> None:
    """What the reference context says may be repeated."""
    reference = ReferenceContext(note="", records=("Ana sold her old blue bicycle for 80 euros.",))
    assert check(
        "Ana got 80 euros for the blue bicycle.", "I got it back from the buyer!", reference=reference
    ).supported


@pytest.mark.parametrize(
    ("said", "iso"),
    [
        ("I moved yesterday", "2024-03-11"),
        ("I moved last month", "2024-02"),
        ("I moved last year", "2023"),
        ("I move next Friday", "2024-03-22"),
        ("I move on Friday", "2024-03-15"),
        ("I move on 3 May", "2024-05-03"),
        ("I moved on 3 May", "2023-05-03"),
        ("I was born on 1990-04-01", "1990-04-01"),
        ("married for ten years", "2014"),
        ("I like it here", "2024-03-12"),
        ("我昨天搬家了", "2024-03-11"),
    ],
)
def test_dates_that_follow(said: str, iso: str) -> None:
    """A date that is said, is the day of the turn, or follows from it is supported."""
    assert check("", said, time=RecordTime(t_ref=iso)).supported


@pytest.mark.parametrize(
    ("said", "iso"),
    [
        ("I moved yesterday", "2024-03-01"),
        ("I moved last month", "2023-02"),
        ("I like it here", "2022"),
        ("we met in 1990", "1991"),
    ],
)
def test_dates_that_do_not_follow(said: str, iso: str) -> None:
    """A date from nowhere is a reason, in whatever field it stands."""
    for time in (RecordTime(t_ref=iso), RecordTime(t_valid_from=iso), RecordTime(t_valid_to=iso)):
        assert iso in check("", said, time=time).reason


@pytest.mark.parametrize(("said_at", "supported"), [(None, False)])
def test_undated_turns(said_at: datetime | None, supported: bool) -> None:  # noqa: FBT001
    """Seen from no time, "yesterday" gives no date, but a written date does."""
    turn = make_turn(0, "It was yesterday, not on 2024-03-01.", "Ana", said_at=said_at)
    sources = Sources(cited=((turn, turn.text),), around=(), reference=NO_REFERENCE)
    for iso, expected in (("2024-03-11", supported), ("2024-03-01", True)):
        time = RecordTime(t_ref=iso)
        assert (
            check_support("", entities=(), time=time, sources=sources, settings=SETTINGS).supported
            is expected
        )


def test_leap_day() -> None:
    """A leap day has a next year's as well."""
    assert check("", "on 29 February", time=RecordTime(t_ref="2025-02-28")).supported


@settings(deadline=None)
@given(st.text(max_size=80), st.text(max_size=80), st.lists(st.text(max_size=10), max_size=3))
def test_any_text(text: str, said: str, entities: list[str]) -> None:
    """Whatever the texts are, there is an answer, and a reason exactly where it is no."""
    support = check(text, said, entities=entities)
    assert support.supported == (not support.reason)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=120))
def test_repeating_a_turn_is_supported(said: str) -> None:
    """A statement in the very words of its turn is supported."""
    assert check(said, said).supported
