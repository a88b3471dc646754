"""Readers of conversation files: what they take and what they make of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from format_examples import (
    CHATGPT,
    CLAUDE,
    CLAUDE_CODE,
    EXAMPLES,
    HAYSTACK,
    HAYSTACK_SESSIONS,
    LOCOMO,
    MESSAGES,
    one_conversation,
    turns_of,
    write_json,
    write_lines,
)
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.datatypes import Role
from scrubjay.errors import FormatError
from scrubjay.formats import FORMATS, detect_format, read_conversations
from scrubjay.formats.longmemeval import name_sessions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_told_by_its_content(tmp_path: Path, name: str) -> None:
    """Every format is recognised whatever its file is called, and read the same as when it is named"""
    path = write_json(tmp_path / "data.bin", EXAMPLES[name])
    assert detect_format(path) == name
    assert read_conversations(path) == read_conversations(path, format=name)


def test_locomo_sessions_come_in_order_with_their_dates(tmp_path: Path) -> None:
    """LoCoMo: sessions by number, dates read as UTC, both people as users, image-only turns kept, empty ones counted"""
    reading = read_conversations(write_json(tmp_path / "x.json", LOCOMO))
    (conversation,) = reading.conversations
    assert conversation.conversation_id == "pair-1"
    assert [session.session_id for session in conversation.sessions] == ["session_1", "session_2"]
    kiln, cat, cracked = turns_of(conversation)
    assert (kiln.turn_id, kiln.role, kiln.speaker, kiln.index) == ("D1:1", Role.USER, "Ines", 0)
    assert kiln.said_at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert cracked.said_at == datetime(2024, 2, 29, 0, 5, tzinfo=UTC)
    assert (cat.text, cat.caption) == ("", "a cat on a wall")
    assert reading.left_out == 1


def test_locomo_dates_take_the_zone_given(tmp_path: Path) -> None:
    """A zone given by the caller replaces LoCoMo's convention, with the offset it had that day"""
    conversation = one_conversation(write_json(tmp_path / "x.json", LOCOMO), zone=ZoneInfo("Europe/Oslo"))
    offsets = [turn.said_at.utcoffset() for turn in turns_of(conversation) if turn.said_at]
    assert offsets == [timedelta(hours=2), timedelta(hours=2), timedelta(hours=1)]


def test_longmemeval_keeps_turn_numbers_and_tells_sessions_apart(tmp_path: Path) -> None:
    """LongMemEval: a session id that occurs twice is told apart, empty turns keep their numbers, gold labels are dropped"""
    path = write_json(tmp_path / "x.json", [{**HAYSTACK, "haystack_sessions": HAYSTACK_SESSIONS}])
    reading = read_conversations(path)
    turns = turns_of(reading.conversations[0])
    assert [turn.turn_id for turn in turns] == ["s:0", "s:1", "t:1", "s#2:0"]
    assert [turn.index for turn in turns] == [0, 1, 1, 0]
    assert turns[0].said_at == datetime(2023, 5, 20, 2, 21, tzinfo=UTC)
    assert all(turn.metadata == {} for turn in turns)
    assert reading.left_out == 1


def test_longmemeval_shares_sessions_in_a_file_beside(tmp_path: Path) -> None:
    """The layout with sessions.jsonl beside the questions gives the same turns as the official one"""
    official = write_json(
        tmp_path / "x.json", [{**HAYSTACK, "haystack_sessions": [HAYSTACK_SESSIONS[i] for i in (0, 1, 0)]}]
    )
    shared = write_json(tmp_path / "y.json", [HAYSTACK])
    lines = [{"session_id": name, "turns": HAYSTACK_SESSIONS[i]} for i, name in enumerate("st")]
    write_lines(tmp_path / "sessions.jsonl", lines)
    assert read_conversations(shared).conversations == read_conversations(official).conversations


def test_longmemeval_names_what_is_missing_beside_it(tmp_path: Path) -> None:
    """Without its sessions.jsonl, or a session in it, the reader says which is missing"""
    path = write_json(tmp_path / "y.json", [HAYSTACK])
    with pytest.raises(FormatError, match=r"sessions\.jsonl.*nothing there"):
        read_conversations(path)
    write_lines(tmp_path / "sessions.jsonl", [{"session_id": "s", "turns": []}])
    with pytest.raises(FormatError, match=r"expected ids in sessions\.jsonl, found the text 't'"):
        read_conversations(path)


@given(st.lists(st.sampled_from(["a", "a#2", "a#3", "b"]), max_size=8))
def test_repeated_sessions_get_names_of_their_own(names: list[str]) -> None:
    """Naming repeated sessions never makes two alike, and leaves the first of each as it is"""
    named = name_sessions(names)
    assert len(set(named)) == len(named) == len(names)
    assert all(
        new == old
        for position, (old, new) in enumerate(zip(names, named, strict=True))
        if old not in names[:position]
    )


def test_chatgpt_follows_the_branch_last_shown(tmp_path: Path) -> None:
    """ChatGPT: one branch from the root to the current message; hidden messages are left out, tool calls a tool's turns"""
    reading = read_conversations(write_json(tmp_path / "me.json", CHATGPT))
    (conversation,) = reading.conversations
    assert conversation.conversation_id == "me"
    bird, call, answer = turns_of(conversation)
    assert (bird.turn_id, bird.text) == ("chat-a:n1", "What bird is this?")
    assert bird.metadata == {"attachments": ["image_asset_pointer"]}
    assert bird.said_at == datetime(2024, 1, 6, 8, 2, 0, 500000, tzinfo=UTC)
    assert (call.role, call.text) == (Role.TOOL, "look()")
    assert (answer.role, answer.text, answer.said_at) == (Role.ASSISTANT, "A scrub jay.", None)
    assert reading.left_out == 1


@pytest.mark.parametrize("current", [None, "gone"])
def test_chatgpt_without_a_current_message_follows_last_children(tmp_path: Path, current: str | None) -> None:
    """An export that doesn't say which message is current is read along the last children"""
    path = write_json(tmp_path / "me.json", [{**CHATGPT[0], "current_node": current}])
    assert [turn.text for turn in turns_of(one_conversation(path))] == ["An abandoned try"]


def test_chatgpt_survives_a_circle(tmp_path: Path) -> None:
    """Messages that are each other's parents and children end the branch instead of going on forever"""
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["round"]}}
    mapping = {
        "a": {"parent": "b", "children": ["b"], "message": {"id": "a", **said}},
        "b": {"parent": "a", "children": ["a"], "message": {"id": "b", **said}},
    }
    path = write_json(tmp_path / "me.json", [{"id": "chat", "current_node": "a", "mapping": mapping}])
    assert [turn.turn_id for turn in turns_of(one_conversation(path))] == ["chat:b", "chat:a"]
    rooted = {"r": {"parent": None, "children": ["a"]}, **mapping}
    path = write_json(tmp_path / "me.json", [{"id": "chat", "mapping": rooted}])
    assert len(turns_of(one_conversation(path))) == 2


def test_claude_reads_parts_and_pasted_files(tmp_path: Path) -> None:
    """Claude: pasted text is part of the turn, thoughts aren't, tool calls stay beside it, empty messages are counted"""
    reading = read_conversations(write_json(tmp_path / "me.json", CLAUDE))
    asked, answered = turns_of(reading.conversations[0])
    assert asked.text == "Read this\n\n[notes.txt]\nBuy millet."
    assert (asked.role, asked.said_at) == (Role.USER, datetime(2024, 5, 1, 8, tzinfo=UTC))
    assert (answered.turn_id, answered.text) == ("c1:m2", "Done.")
    assert answered.metadata == {"tool_calls": [{"name": "list", "input": {"n": 1}}]}
    assert reading.left_out == 1


def test_claude_code_keeps_what_was_said(tmp_path: Path) -> None:
    """Claude Code: words of both sides by their session, under the entries' ids and times, without calls and thoughts"""
    reading = read_conversations(write_lines(tmp_path / "s-1.jsonl", CLAUDE_CODE))
    (conversation,) = reading.conversations
    assert [session.session_id for session in conversation.sessions] == ["s-1", "s-2"]
    rule, noted, glaze = turns_of(conversation)
    assert (rule.turn_id, rule.role) == ("claude-code:e1", Role.USER)
    assert rule.said_at == datetime(2024, 5, 1, 8, 0, 0, 250_000, tzinfo=UTC)
    assert rule.metadata == {"host": "claude-code", "cwd": "/home/ines/kiln"}
    assert (noted.role, noted.text) == (Role.ASSISTANT, "Noted.")
    assert (glaze.text, glaze.said_at) == ("And the glaze?", None)
    assert reading.left_out == 1


def test_messages_in_a_list_are_one_session(tmp_path: Path) -> None:
    """Loose messages belong to one session and one memory named after the file"""
    conversation = one_conversation(write_json(tmp_path / "hats.json", MESSAGES))
    (session,) = conversation.sessions
    assert (conversation.conversation_id, session.session_id) == ("hats", "hats")
    asked, answered = session.turns
    assert (asked.speaker, asked.index, asked.turn_id) == ("Ines", 0, None)
    assert asked.said_at is not None
    assert asked.said_at.isoformat() == "2024-05-01T08:00:00+02:00"
    assert answered.said_at == datetime(2024, 5, 1, 6, 1, tzinfo=UTC)


def test_messages_in_json_and_jsonl_are_the_same(tmp_path: Path) -> None:
    """JSONL of messages, a list of them and an object around them read alike"""
    listed = read_conversations(write_json(tmp_path / "hats.json", MESSAGES))
    assert read_conversations(write_lines(tmp_path / "hats.jsonl", MESSAGES)) == listed
    assert read_conversations(write_json(tmp_path / "hats.txt", {"messages": MESSAGES})) == listed


def test_chats_of_messages_are_sessions(tmp_path: Path) -> None:
    """Each chat is a session, by its id or its place; a session id of a message goes before; users are kept apart"""
    chats = [
        {"messages": [{"role": "user", "content": "one"}]},
        {
            "id": 7,
            "messages": [
                {"role": "user", "content": "two"},
                {"role": "user", "content": "3", "session_id": "x"},
            ],
        },
        {"session_id": "x", "messages": [{"role": "user", "content": "four"}]},
        {"user_id": "odd", "messages": [{"role": "user", "content": "five", "id": "m5"}]},
    ]
    mine, odd = read_conversations(write_lines(tmp_path / "c.jsonl", chats)).conversations
    found = {
        session.session_id: [(turn.index, turn.text) for turn in session.turns] for session in mine.sessions
    }
    assert found == {"c-1": [(0, "one")], "7": [(0, "two")], "x": [(0, "3"), (1, "four")]}
    assert (odd.conversation_id, odd.sessions[0].turns[0].turn_id) == ("odd", "m5")


def test_message_parts_become_text_caption_and_tools(tmp_path: Path) -> None:
    """Text parts are joined, described images become captions, calls and results of tools a tool's turns"""
    calls = [{"function": {"name": "f", "arguments": "{}"}}]
    messages = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, "c"],
        },
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "alt": "a red hat"}}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": "42", "tool_call_id": "t1"},
        {"role": "assistant", "content": "Asking", "function_call": {"name": "f"}},
        {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "ok"}]}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "content": "ok"}, {"type": "text", "text": "And?"}],
        },
        {"role": "developer", "content": "Be brief."},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}, 5]},
    ]
    reading = read_conversations(write_json(tmp_path / "m.json", messages))
    turns = turns_of(reading.conversations[0])
    assert [(turn.role.value, turn.text, turn.caption) for turn in turns] == [
        ("user", "a\n\nb\n\nc", None),
        ("user", "", "a red hat"),
        ("user", "", "[image_url]"),
        ("tool", json.dumps(calls), None),
        ("tool", "42", None),
        ("assistant", "Asking", None),
        ("tool", "ok", None),
        ("user", "And?", None),
        ("system", "Be brief.", None),
    ]
    assert (turns[4].metadata, turns[5].metadata) == ({"tool_call_id": "t1"}, {"tool_calls": [{"name": "f"}]})
    assert turns[7].metadata == {"tool_results": ["ok"]}
    assert reading.left_out == 1


def test_naive_times_need_a_zone(tmp_path: Path) -> None:
    """A time without an offset is refused unless the caller says which zone it is in"""
    path = write_json(
        tmp_path / "m.json", [{"role": "user", "content": "hi", "created_at": "2024-07-01T12:00:00"}]
    )
    with pytest.raises(FormatError, match=r"entry 1: created_at: expected a time with its offset"):
        read_conversations(path)
    (turn,) = turns_of(one_conversation(path, zone=ZoneInfo("Asia/Tokyo")))
    assert turn.said_at == datetime(2024, 7, 1, 12, tzinfo=timezone(timedelta(hours=9)))


@pytest.mark.parametrize(
    ("created_at", "complaint"),
    [
        (True, "expected an ISO 8601 time or seconds since 1970, found true"),
        ("yesterday", "expected an ISO 8601 time, found the text 'yesterday'"),
        (1714543260000, "expected seconds since 1970, found the number 1714543260000 (milliseconds?)"),
        (-99999999999, "expected seconds since 1970"),
        (float("nan"), "expected seconds since 1970, found the number NaN"),
        ("0001-01-01T00:00:00+05:00", "expected a time between the years 1 and 9999"),
    ],
)
def test_impossible_times_are_refused(tmp_path: Path, created_at: object, complaint: str) -> None:
    """A time that is none is refused with what was expected and found"""
    path = write_json(tmp_path / "m.json", [{"role": "user", "content": "hi", "created_at": created_at}])
    with pytest.raises(FormatError) as caught:
        read_conversations(path)
    assert complaint in str(caught.value)
