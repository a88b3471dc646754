"""Turns as callers give them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.datatypes import NewTurn, Role
from scrubjay.errors import TurnError
from scrubjay.turns import TurnLike, read_turns

NOON = datetime(2024, 5, 8, 12, tzinfo=timezone(timedelta(hours=2)))


def test_openai_message_is_a_turn() -> None:
    """A chat message as OpenAI's API has it is understood as it is."""
    (turn,) = read_turns(
        {"role": "user", "content": "I moved.", "name": "Ana", "created_at": "2024-05-08T12:00:00+02:00"}
    )
    assert turn == NewTurn(role=Role.USER, text="I moved.", speaker="Ana", said_at=NOON)


def test_seconds_are_utc() -> None:
    """A number is seconds since 1970 UTC."""
    (turn,) = read_turns({"role": "assistant", "text": "Hm.", "said_at": 0})
    assert turn.said_at == datetime(1970, 1, 1, tzinfo=UTC)


def test_said_at_is_for_those_without() -> None:
    """A time given for all goes only to turns that have none."""
    early = NOON - timedelta(days=1)
    turns = read_turns(
        [{"role": "user", "text": "a", "said_at": early}, {"role": "user", "text": "b"}], said_at=NOON
    )
    assert [turn.said_at for turn in turns] == [early, NOON]


@pytest.mark.parametrize(
    ("given_turn", "words"),
    [
        ({"role": "user", "content": ""}, "empty"),
        ({"role": "user"}, "empty"),
        ({"content": "hello"}, "role is missing"),
        ({"role": "narrator", "content": "hello"}, "unknown role 'narrator'"),
        ({"role": "user", "content": 7}, "expected text, found int"),
        ({"role": "user", "content": "a", "text": "b"}, "twice"),
        ({"role": "user", "content": "a", "colour": "red"}, "unknown field 'colour'"),
        ({"role": "user", "content": "a", "created_at": "2024-05-08T12:00:00"}, "no time zone"),
        ({"role": "user", "content": "a", "created_at": "yesterday"}, "is no time"),
        ({"role": "user", "content": "a", "created_at": [1]}, "expected a datetime"),
        ({"role": "user", "content": "a", "created_at": 1e300}, "is no time"),
        ({"role": "user", "content": "a", "index": -1}, "whole number"),
        ({"role": "user", "content": "a", "id": ""}, "isn't empty"),
        ({"role": "user", "content": "a", "id": "\ud800"}, "lone surrogate"),
        ({"role": "user", "content": "a", "name": ""}, "speaker"),
        ({"role": "user", "content": "a", "metadata": {"x": float("nan")}}, "JSON"),
        ({"role": "user", "content": "a", "metadata": {"x": object()}}, "JSON"),
        ({"role": "user", "content": "a", "metadata": [1]}, "expected a mapping"),
        ("hello", "found str"),
        (["hello"], "found str"),
        (7, "found int"),
    ],
)
def test_what_cannot_be_stored_is_named(given_turn: TurnLike, words: str) -> None:
    """A turn that can't be stored raises an error that says which field, what was found, what to do."""
    with pytest.raises(TurnError, match=words):
        read_turns(given_turn)


def test_error_names_the_turn() -> None:
    """Of several turns the error names the bad one."""
    with pytest.raises(TurnError, match="turn 1"):
        read_turns([{"role": "user", "text": "a"}, {"role": "user", "text": ""}])


def test_image_needs_no_words() -> None:
    """A turn may be an image alone, told by its caption."""
    (turn,) = read_turns({"role": "user", "text": "", "caption": "a red bicycle"})
    assert turn.caption == "a red bicycle"


@given(st.text(st.characters(), min_size=1), st.sampled_from(Role))
def test_any_text_is_taken_as_it_is(text: str, role: Role) -> None:
    """Any text at all, control characters and lone surrogates included, is kept unchanged."""
    (turn,) = read_turns({"role": role.value, "content": text})
    assert turn.text == text
