"""ScrubJay's own export: lossless, and a cut or edited file is noticed."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from format_examples import one_conversation, turns_of, write_json
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.datatypes import Role, Turn
from scrubjay.errors import FormatError
from scrubjay.formats import read_conversations, read_export, write_export

if TYPE_CHECKING:
    from pathlib import Path

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
any_text = st.text(alphabet=st.characters(exclude_categories=()), max_size=20)  # lone surrogates and NUL too
some_text = any_text.filter(bool)
ids = st.text(min_size=1, max_size=20)
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
times = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=offsets)  # noqa: DTZ001 -- bounds must be naive
turns = st.builds(
    Turn,
    turn_id=ids,
    session_id=ids,
    index=st.integers(0, 10**9),
    role=st.sampled_from(Role),
    speaker=st.none() | some_text,
    text=some_text,
    caption=st.none() | some_text,
    said_at=st.none() | times,
    added_at=times,
    metadata=st.dictionaries(any_text, json_values, max_size=3),
)


@given(
    st.lists(
        turns, max_size=4, unique_by=(lambda turn: turn.turn_id, lambda turn: (turn.session_id, turn.index))
    )
)
def test_an_export_is_lossless(tmp_path_factory: pytest.TempPathFactory, stored: list[Turn]) -> None:
    """What was exported comes back the same in every field, offsets, surrogates and NUL included"""
    path = tmp_path_factory.getbasetemp() / "mine.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        assert write_export(stored, stream) == len(stored)
    back = list(read_export(path))
    assert back == stored
    assert [turn.said_at and turn.said_at.utcoffset() for turn in back] == [
        turn.said_at and turn.said_at.utcoffset() for turn in stored
    ]
    assert len(turns_of(one_conversation(path))) == len(stored)


def export_of(*texts: str) -> str:
    stream = io.StringIO()
    now = datetime(2024, 1, 1, tzinfo=UTC)
    stored = [
        Turn(
            turn_id=f"s:{index}",
            session_id="s",
            index=index,
            role=Role.USER,
            speaker=None,
            text=text,
            caption=None,
            said_at=None,
            added_at=now,
            metadata={},
        )
        for index, text in enumerate(texts)
    ]
    write_export(stored, stream, user_id="ines")
    return stream.getvalue()


def test_an_export_remembers_whose_it_is(tmp_path: Path) -> None:
    """The conversation of an export is named after its memory, and its turns keep ids and places"""
    path = tmp_path / "other-name.jsonl"
    path.write_text(export_of("a", "b"))
    conversation = one_conversation(path)
    assert conversation.conversation_id == "ines"
    assert [(turn.turn_id, turn.index, turn.text) for turn in turns_of(conversation)] == [
        ("s:0", 0, "a"),
        ("s:1", 1, "b"),
    ]


def test_an_export_cut_short_is_noticed(tmp_path: Path) -> None:
    """An export that lost lines at its end is refused, also where the cut is between two lines"""
    whole = export_of("a", "b")
    path = tmp_path / "cut.jsonl"
    path.write_text("".join(whole.splitlines(keepends=True)[:2]))
    with pytest.raises(FormatError, match="expected 2 turns in all, found 1: the file was cut"):
        read_conversations(path)
    path.write_text(whole[:-20])
    with pytest.raises(FormatError, match="line 3: content: expected valid JSON"):
        list(read_export(path))


def test_an_export_of_a_stream_needs_no_count(tmp_path: Path) -> None:
    """Turns that come one at a time are exported without knowing how many there are"""
    path = tmp_path / "x.jsonl"
    path.write_text(export_of("a", "b"))
    again = io.StringIO()
    assert write_export(read_export(path), again) == 2
    path.write_text(again.getvalue())
    assert len(list(read_export(path))) == 2


def test_turns_of_one_place_are_refused(tmp_path: Path) -> None:
    """Two turns that claim one place, or the same id, or a value no memory keeps, are refused before anything is stored"""
    path = tmp_path / "x.jsonl"
    header, first, second = export_of("a", "b").splitlines()
    for change, complaint in (
        ({"index": 0}, "turn 2: index: expected a place not used before, found the number 0"),
        ({"turn_id": "s:0"}, "turn 2: turn id: expected an id not used before, found the text 's:0'"),
        ({"turn_id": "\ud800"}, "turn 2: turn: expected one that a memory can keep, found turn_id"),
        ({"session_id": ""}, "session id: expected a text that isn't empty"),
        (
            {"metadata": {"a": float("inf")}},
            "turn 2: turn: expected one that a memory can keep, found metadata",
        ),
        ({"text": ""}, "turn 2: turn: expected one that a memory can keep, found the text is empty"),
    ):
        path.write_text("\n".join([header, first, json.dumps({**json.loads(second), **change})]))
        with pytest.raises(FormatError) as caught:
            read_conversations(path)
        assert complaint in str(caught.value)


def test_a_newer_export_is_refused(tmp_path: Path) -> None:
    """An export of a version this ScrubJay doesn't know is refused"""
    path = write_json(tmp_path / "x.jsonl", {"scrubjay_export": 2})
    with pytest.raises(FormatError, match="expected version 1; update ScrubJay, found version 2"):
        read_conversations(path)


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("role", "bot", "line 2: role: expected user or assistant"),
        ("added_at", None, "line 2: added_at: expected an ISO 8601 time, found null"),
        ("index", -1, "line 2: index: expected greater than or equal to 0, found the number -1"),
    ],
)
def test_an_export_edited_wrongly_is_refused(
    tmp_path: Path, field: str, value: object, complaint: str
) -> None:
    """A line of an export with a field changed to nonsense is refused by its number"""
    header, line = export_of("a").splitlines()
    path = tmp_path / "x.jsonl"
    path.write_text(header + "\n" + json.dumps({**json.loads(line), field: value}))
    with pytest.raises(FormatError, match=complaint):
        read_conversations(path)
