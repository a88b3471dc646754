"""Small files of every format, written for the tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scrubjay.formats import read_conversations

if TYPE_CHECKING:
    from pathlib import Path

    from scrubjay.datatypes import NewTurn
    from scrubjay.formats import Conversation

LOCOMO = [
    {
        "sample_id": "pair-1",
        "conversation": {
            "speaker_a": "Ines",
            "speaker_b": "Odd",
            "session_2_date_time": "12:05 am on 29 February, 2024",
            "session_2": [{"speaker": "Odd", "dia_id": "D2:1", "text": "The kiln cracked."}],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ines", "dia_id": "D1:1", "text": "I bought a kiln!"},
                {"speaker": "Odd", "dia_id": "D1:2", "text": "", "blip_caption": "a cat on a wall"},
                {"speaker": "Odd", "dia_id": "D1:3", "text": "  "},
            ],
            "session_9_date_time": "9:00 am on 1 June, 2024",
        },
    }
]
HAYSTACK = {
    "question_id": "q1",
    "haystack_session_ids": ["s", "t", "s"],
    "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00", "2023/05/22 (Mon) 11:00"],
}
HAYSTACK_SESSIONS = [
    [
        {"role": "user", "content": "My tram is late.", "has_answer": True},
        {"role": "assistant", "content": "Oh no."},
    ],
    [{"role": "user", "content": ""}, {"role": "assistant", "content": "Hello again."}],
    [{"role": "user", "content": "It came at last."}],
]
LABELLED = {
    "id": "kilns",
    "sessions": [
        {
            "session_id": "s01",
            "turns": [
                {
                    "id": "s01:0",
                    "role": "user",
                    "speaker": "Ines",
                    "text": "你好",
                    "said_at": "2024-01-06T10:02:00+01:00",
                }
            ],
        }
    ],
}
CHATGPT = [
    {
        "conversation_id": "chat-a",
        "current_node": "n3",
        "mapping": {
            "root": {"message": None, "parent": None, "children": ["n0"]},
            "n0": {
                "parent": "root",
                "children": ["n1", "n1b"],
                "message": {
                    "id": "n0",
                    "author": {"role": "system"},
                    "content": {"content_type": "text", "parts": ["Be kind."]},
                    "metadata": {"is_visually_hidden_from_conversation": True},
                },
            },
            "n1": {
                "parent": "n0",
                "children": ["n2"],
                "message": {
                    "id": "n1",
                    "author": {"role": "user"},
                    "create_time": 1704528120.5,
                    "content": {
                        "content_type": "multimodal_text",
                        "parts": [{"content_type": "image_asset_pointer"}, "What bird is this?"],
                    },
                },
            },
            "n1b": {
                "parent": "n0",
                "message": {
                    "id": "n1b",
                    "author": {"role": "user"},
                    "content": {"content_type": "text", "parts": ["An abandoned try"]},
                },
            },
            "n2": {
                "parent": "n1",
                "children": ["n3"],
                "message": {
                    "id": "n2",
                    "author": {"role": "assistant"},
                    "recipient": "python",
                    "content": {"content_type": "code", "text": "look()"},
                },
            },
            "n3": {
                "parent": "n2",
                "children": [],
                "message": {
                    "id": "n3",
                    "author": {"role": "assistant"},
                    "recipient": "all",
                    "content": {"content_type": "text", "parts": ["A scrub jay."]},
                },
            },
        },
    }
]
CLAUDE = [
    {
        "uuid": "c1",
        "name": "Pasted",
        "chat_messages": [
            {
                "uuid": "m1",
                "sender": "human",
                "text": "Read this",
                "created_at": "2024-05-01T08:00:00Z",
                "attachments": [{"file_name": "notes.txt", "extracted_content": "Buy millet."}],
            },
            {
                "uuid": "m2",
                "sender": "assistant",
                "text": "This block is not supported",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "Done."},
                    {"type": "tool_use", "name": "list", "input": {"n": 1}},
                ],
            },
            {"uuid": "m3", "sender": "human", "text": ""},
        ],
    }
]
CLAUDE_CODE = [
    {"type": "file-history-snapshot", "messageId": "e1", "snapshot": {}},
    {
        "type": "user",
        "uuid": "e1",
        "sessionId": "s-1",
        "cwd": "/home/ines/kiln",
        "timestamp": "2024-05-01T08:00:00.250Z",
        "message": {"role": "user", "content": "The kiln fires to cone six, never hotter."},
    },
    {
        "type": "assistant",
        "uuid": "e2",
        "sessionId": "s-1",
        "timestamp": "2024-05-01T08:00:09Z",
        "message": {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "Noted."},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {}},
            ],
        },
    },
    {
        "type": "user",
        "uuid": "e3",
        "sessionId": "s-1",
        "message": {"role": "user", "content": [{"type": "tool_result", "content": "rows"}]},
    },
    {
        "type": "user",
        "uuid": "e4",
        "sessionId": "s-2",
        "message": {"role": "user", "content": "And the glaze?"},
    },
]
MESSAGES = [
    {
        "role": "user",
        "name": "Ines",
        "content": "Where is my hat?",
        "created_at": "2024-05-01T08:00:00+02:00",
    },
    {"role": "assistant", "content": "On the shelf.", "created_at": 1714543260},
]


EXAMPLES = {
    "locomo": LOCOMO,
    "longmemeval": [{**HAYSTACK, "haystack_sessions": HAYSTACK_SESSIONS}],
    "labelled": LABELLED,
    "chatgpt": CHATGPT,
    "claude": CLAUDE,
    "claude-code": CLAUDE_CODE,
    "messages": MESSAGES,
    "scrubjay": {"scrubjay_export": 1},
}


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def write_lines(path: Path, values: list[Any]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def turns_of(conversation: Conversation) -> list[NewTurn]:
    return [turn for session in conversation.sessions for turn in session.turns]


def one_conversation(path: Path, **options: Any) -> Conversation:
    (conversation,) = read_conversations(path, **options).conversations
    return conversation
