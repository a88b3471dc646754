"""Bad files: every complaint names the place, the field, what was expected and what was found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from format_examples import (
    CHATGPT,
    EXAMPLES,
    HAYSTACK,
    HAYSTACK_SESSIONS,
    LOCOMO,
    MESSAGES,
    one_conversation,
    turns_of,
    write_json,
)
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.errors import FormatError
from scrubjay.formats import FORMATS, Reading, detect_format, read_conversations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BAD_ENTRIES = [
    (
        "locomo",
        [{"sample_id": 5, "conversation": {"session_1": []}}],
        "entry 1: sample_id: expected a text, found the number 5",
    ),
    ("locomo", [{"conversation": {"session_1": []}}], "entry 1: sample_id: expected a value, found nothing"),
    (
        "locomo",
        [
            {
                "sample_id": "a",
                "conversation": {"session_1": [{"dia_id": "D1:1", "speaker": "O", "text": None}]},
            }
        ],
        "entry 1 / session_1 / turn 1: text: expected a text, found null",
    ),
    (
        "locomo",
        [{"sample_id": "a", "conversation": {"session_1": [], "session_1_date_time": "8 May"}}],
        "entry 1 / session_1: date_time: expected a time such as '1:56 pm on 8 May, 2023', found the text '8 May'",
    ),
    (
        "locomo",
        [
            {
                "sample_id": "a",
                "conversation": {"session_1": [], "session_1_date_time": "1:00 pm on 31 June, 2023"},
            }
        ],
        "found the text '1:00 pm on 31 June, 2023'",
    ),
    (
        "locomo",
        [{"sample_id": "a", "conversation": {"session_1": "hi"}}],
        "session_1: turns: expected a list, found the text 'hi'",
    ),
    (
        "longmemeval",
        [{**HAYSTACK, "haystack_sessions": []}],
        "expected a session for each session id, found 0 sessions for 3 ids",
    ),
    (
        "longmemeval",
        [{**HAYSTACK, "haystack_dates": []}],
        "expected a date for each session id, found 0 dates for 3 ids",
    ),
    (
        "longmemeval",
        [
            {
                **HAYSTACK,
                "haystack_dates": ["", "2023/05/21 (Sun) 10:00", ""],
                "haystack_sessions": HAYSTACK_SESSIONS,
            }
        ],
        "entry 1 / session 1: haystack_dates: expected a time such as '2023/05/20 (Sat) 02:21', found an empty text",
    ),
    (
        "longmemeval",
        [
            {
                **HAYSTACK,
                "haystack_dates": ["2023/02/30 (Sat) 02:21"] * 3,
                "haystack_sessions": HAYSTACK_SESSIONS,
            }
        ],
        "found the text '2023/02/30 (Sat) 02:21'",
    ),
    ("messages", [{"role": "oracle", "content": "x"}], "entry 1: role: expected user or assistant or"),
    ("messages", [*MESSAGES, {"role": "user", "content": 5}], "entry 3: content"),
    ("messages", [*MESSAGES, 5], "entry 3: the entry: expected an object, found the number 5"),
    (
        "messages",
        [{"messages": [{"role": "user", "content": "x"}, []]}],
        "entry 1 / message 2: the entry: expected an object, found a list of 0",
    ),
    (
        "chatgpt",
        [{"mapping": {}}, {"mapping": 5}],
        "entry 2: mapping: expected an object, found the number 5",
    ),
    (
        "claude",
        [{"uuid": "u", "chat_messages": [{"uuid": "m", "sender": "bot"}]}],
        "entry 1 / message 1: sender: expected human or assistant",
    ),
    (
        "claude-code",
        [{"type": "user", "sessionId": "s", "uuid": "", "message": {"content": "no id"}}],
        "entry 1: uuid: expected",
    ),
    (
        "claude-code",
        [
            {
                "type": "user",
                "uuid": "e",
                "message": {"content": "no zone"},
                "timestamp": "2024-05-01T08:00:00",
            }
        ],
        "entry 1: timestamp: expected a time with its offset",
    ),
    (
        "labelled",
        {"id": "x", "sessions": [{"session_id": "s", "turns": [{"id": "a", "role": "bot", "text": "t"}]}]},
        "session 1 / turn 1: role",
    ),
    (
        "messages",
        [{"role": "user", "content": "a", "id": "m"}, {"role": "user", "content": "b", "id": "m"}],
        "conversation data / session data / turn 2: turn id: expected an id not used before, found the text 'm'",
    ),
    ("locomo", LOCOMO * 2, "conversation pair-1: id: expected an id not used before"),
    ("chatgpt", CHATGPT * 2, "session chat-a: session id: expected an id not used before"),
]


@pytest.mark.parametrize(("name", "document", "complaint"), BAD_ENTRIES)
def test_a_bad_entry_is_named(tmp_path: Path, name: str, document: Any, complaint: str) -> None:
    """The first bad entry is refused with its place, its field, what was expected and what was found"""
    path = write_json(tmp_path / "data.json", document)
    with pytest.raises(FormatError) as caught:
        read_conversations(path, format=name)
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(("name", "document", "complaint"), BAD_ENTRIES)
def test_a_bad_entry_can_be_skipped(tmp_path: Path, name: str, document: Any, complaint: str) -> None:
    """Where skipping is asked for, bad entries are kept with the reading and the rest is read"""
    reading = read_conversations(write_json(tmp_path / "data.json", document), format=name, skip_bad=True)
    assert any(complaint in str(error) for error in reading.bad)


def test_skipping_keeps_everything_else(tmp_path: Path) -> None:
    """A bad line and a bad message cost only themselves, and move no other turn"""
    path = tmp_path / "m.jsonl"
    good = [json.dumps({"role": "user", "content": text}) for text in ("a", "b", "c")]
    path.write_text("\n".join(["{broken", good[0], '{"role": "user"', good[1], '{"role": 5}', good[2]]))
    reading = read_conversations(path, skip_bad=True)
    assert [(turn.index, turn.text) for turn in turns_of(reading.conversations[0])] == [
        (0, "a"),
        (1, "b"),
        (3, "c"),
    ]
    assert [error.entry for error in reading.bad] == ["line 1", "line 3", "line 5"]
    with pytest.raises(FormatError, match="line 1: content: expected valid JSON"):
        read_conversations(path)


def test_a_long_file_is_told_by_its_beginning(tmp_path: Path) -> None:
    """The lines that tell a format may come after some that don't, and may be few among many"""
    path = tmp_path / "m.jsonl"
    path.write_text("{}\n" * 9 + json.dumps(MESSAGES[0]) + "\n{}" * 20)
    assert detect_format(path) == "messages"
    path.write_text("{}\n" * 10 + json.dumps(MESSAGES[0]))
    with pytest.raises(FormatError, match="found lines of other JSON"):
        detect_format(path)


BAD_FILES = {
    "empty": (b"", "found an empty file"),
    "blank": (b" \n\n ", "found an empty file"),
    "text": (
        b"hello there",
        "expected valid JSON, found Expecting value at line 1 column 1, before 'hello there'",
    ),
    "truncated": (b'[{"role": "user", "content": "hi', "expected valid JSON, found Unterminated string"),
    "binary": (bytes(range(256)), "expected UTF-8 text, found the byte 0x80"),
    "latin-1": (
        '[{"role": "user", "content": "Käse"}]'.encode("latin-1"),
        "expected UTF-8 text, found the byte 0xe4",
    ),
    "utf-16": ("[]".encode("utf-16"), "found UTF-16 text (save it as UTF-8)"),
    "zip": (b"PK\x03\x04rest", "found a zip archive"),
    "sqlite": (b"SQLite format 3\x00rest", "found an SQLite database"),
    "deep": (b"[" * 100_000, "found lists or objects nested too deeply"),
    "long number": (b"9" * 5_000, "expected JSON, found Exceeds the limit"),
    "nothing in it": (b"[]", "found a list of 0"),
    "other JSON": (b'{"a": 1}', "found an object with 'a'"),
    "other JSONL": (b'{"a": 1}\n{"a": 2}', "found lines of other JSON"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_holds_no_conversation_is_refused(tmp_path: Path, name: str) -> None:
    """A file that can't be read, or isn't of any format, is refused with what it is instead"""
    content, complaint = BAD_FILES[name]
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        detect_format(path)
    assert complaint in str(caught.value)


def test_an_unknown_file_is_told_what_was_tried(tmp_path: Path) -> None:
    """When no format fits, the error lists them all"""
    with pytest.raises(FormatError) as caught:
        detect_format(write_json(tmp_path / "x.json", {"a": 1}))
    assert all(name in str(caught.value) for name in FORMATS)


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """A folder and a missing file are refused as such"""
    with pytest.raises(FormatError, match="expected a file, found a folder"):
        detect_format(tmp_path)
    with pytest.raises(FormatError, match="expected a file, found nothing there"):
        detect_format(tmp_path / "missing")
    with pytest.raises(FormatError, match="found a device"):
        detect_format(type(tmp_path)("/dev/null"))
    with pytest.raises(FormatError, match="expected a readable file, found File name too long"):
        detect_format(tmp_path / ("x" * 5_000))


def test_an_unknown_format_name_is_refused(tmp_path: Path) -> None:
    """A format that doesn't exist is refused with the ones that do"""
    with pytest.raises(FormatError, match="expected auto or one of scrubjay, locomo"):
        read_conversations(write_json(tmp_path / "x.json", MESSAGES), format="slack")


def test_a_named_format_needs_a_conversation(tmp_path: Path) -> None:
    """A file without a single entry is refused though its format was named"""
    with pytest.raises(FormatError, match=r"expected at least one conversation \(locomo\), found none"):
        read_conversations(write_json(tmp_path / "x.json", []), format="locomo")


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    """UTF-8 with a byte order mark, as some editors write it, is read as if it had none"""
    path = tmp_path / "hats.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(MESSAGES).encode())
    assert len(turns_of(one_conversation(path))) == 2
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(json.dumps(message).encode() for message in MESSAGES))
    assert len(turns_of(one_conversation(path))) == 2


def detect(path: Path) -> str | FormatError:
    try:
        return detect_format(path)
    except FormatError as error:
        return error


@given(st.binary(max_size=60) | st.text(alphabet='[]{}",:0123 \nrole', max_size=60).map(str.encode))
def test_detection_never_crashes(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Any bytes at all are either of a format or a FormatError"""
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    found = detect(path)
    assert isinstance(found, FormatError) or found in FORMATS


def read(path: Path, name: str, *, skip_bad: bool) -> Reading | FormatError:
    try:
        return read_conversations(path, format=name, skip_bad=skip_bad)
    except FormatError as error:
        return error


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from places_in(inner)


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
def test_readers_never_crash(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """A good file with any one value replaced by any other is read, or refused; skipping, only the file itself is"""
    document = json.loads(json.dumps(EXAMPLES[name]))
    holder, key = data.draw(st.sampled_from(list(places_in(document))))
    holder[key] = data.draw(any_json)
    path = write_json(tmp_path_factory.getbasetemp() / "any", document)
    strict = read(path, name, skip_bad=False)
    skipping = read(path, name, skip_bad=True)
    if isinstance(strict, Reading):
        assert skipping == strict
    elif isinstance(skipping, Reading):
        assert str(skipping.bad[0]) == str(strict)
    else:
        assert str(skipping) == str(strict)
