"""Turns as callers give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay import Memory
from scrubjay.datatypes import NewTurn, Role
from scrubjay.errors import TurnError
from scrubjay.turns import TurnLike, read_pairs, read_turns

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


# --- whatever is given ---

FIELDS = [field.name for field in fields(NewTurn)]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary(max_size=4)
    | st.sampled_from(["user", "tool", "2024-05-08", "2024-05-08T12:00:00Z", "\ud800", Role.SYSTEM])
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.builds(object)
)
ANYTHING = st.recursive(
    SCALARS, lambda deeper: st.lists(deeper, max_size=2) | st.dictionaries(st.text(max_size=3), deeper, max_size=2)
)  # fmt: skip
GOOD: dict[str, Any] = {"role": Role.USER, "text": "I moved."}
AS_GIVEN: list[Callable[[dict[str, Any]], TurnLike]] = [dict, lambda values: NewTurn(**values)]


def require_whole(turn: NewTurn) -> None:
    """Fail unless each field has its type."""
    assert isinstance(turn.role, Role)
    assert isinstance(turn.text, str)
    assert turn.text or turn.caption
    assert all(
        value is None or isinstance(value, str) for value in (turn.speaker, turn.caption, turn.turn_id)
    )
    assert turn.said_at is None or turn.said_at.utcoffset() is not None
    assert turn.index is None or type(turn.index) is int
    assert isinstance(turn.metadata, Mapping)


@pytest.mark.parametrize("make", AS_GIVEN, ids=["mapping", "NewTurn"])
@given(name=st.sampled_from(FIELDS), value=ANYTHING)
def test_a_turn_is_whole_or_refused(
    make: Callable[[dict[str, Any]], TurnLike], name: str, value: object
) -> None:
    """Whatever one field holds, what comes of it can be stored, or it is refused by a TurnError."""
    try:
        (turn,) = read_turns(make(GOOD | {name: value}))
    except TurnError:
        return
    require_whole(turn)


@given(st.lists(ANYTHING | st.tuples(st.text(), ANYTHING | st.just(GOOD)), max_size=3) | ANYTHING)
def test_pairs_are_whole_or_refused(pairs: Any) -> None:
    """What isn't pairs of a session's id and a turn is refused by a TurnError, too."""
    try:
        read = list(read_pairs(pairs))
    except TurnError:
        return
    for session_id, turn in read:
        assert session_id
        require_whole(turn)


def test_text_for_a_role_and_a_time() -> None:
    """A NewTurn may say its role and time in text, as a mapping may; without text it needs a caption."""
    (turn,) = read_turns(NewTurn(role="user", text="a", said_at="2024-05-08T12:00:00+02:00"))  # type: ignore[arg-type]  # that is the claim
    assert turn == NewTurn(role=Role.USER, text="a", said_at=NOON)
    assert read_turns(NewTurn(role=Role.USER, caption="a dog"))[0].text == ""
    with pytest.raises(TurnError, match=r"turn 0: the text is empty: .* caption"):
        read_turns(NewTurn(role=Role.USER))


def test_the_place_of_a_wrong_turn_is_told() -> None:
    """Of many turns the first that can't be stored is named by its place, and what a pair looks like."""
    good = ("s", NewTurn(**GOOD))
    with Memory(":memory:", embedder="hash:32") as memory:
        assert memory.add_many([good, ("t", GOOD)]).added == 2
        with pytest.raises(TurnError, match=r"turn 2: the text is empty"):
            memory.add_many([good, good, ("s", NewTurn(role="user"))])  # type: ignore[arg-type]  # text for a role
        with pytest.raises(TurnError, match=r"turn 1: session_id: expected text"):
            memory.add_many([good, (None, good[1])])  # type: ignore[list-item]  # no id
        with pytest.raises(TurnError, match=r"turn 0: expected a pair .* \('monday', "):
            memory.add_many([replace(good[1], index=0)])  # type: ignore[list-item]  # no pair
        with pytest.raises(TurnError, match=r"found dict: .* or use add for one session"):
            memory.add_many(GOOD)  # type: ignore[arg-type]  # no pairs
