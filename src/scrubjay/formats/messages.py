"""OpenAI-style messages, in JSON or JSONL: loose messages, or chats that hold a list of `messages`.

Optional beside role and content: `name`, `id`, `created_at`, `session_id`, `user_id`. Loose messages without a session
belong to one session named after the file; chats are a session each. All is one memory named after the file, unless
`user_id` says whose it is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrubjay.datatypes import NewTurn, Role
from scrubjay.formats.conversation import Conversation, ConversationSession
from scrubjay.formats.parts import make_body, sort_parts
from scrubjay.formats.validation import Untrusted, check_shape, read_role, read_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from scrubjay.datatypes import JsonValue
    from scrubjay.formats.conversation import ReadingLog
    from scrubjay.formats.source import Entry, Source

CHAT_ROLES = {
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}


class ChatShape(Untrusted):
    messages: list[Any]
    id: str | int | None = None
    session_id: str | None = None
    user_id: str | None = None


class MessageShape(Untrusted):
    role: str
    content: str | list[Any] | None = None
    name: str | None = None
    id: str | int | None = None
    created_at: object = None
    session_id: str | None = None
    user_id: str | None = None
    tool_calls: list[Any] | None = None
    function_call: dict[str, Any] | None = None
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Whose memory and which session a turn belongs to."""

    user_id: str
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """Turns by place, in order of first appearance, and how many messages each place has had."""

    zone: tzinfo | None
    log: ReadingLog
    turns: dict[Place, list[NewTurn]] = field(default_factory=dict)
    seen: Counter[Place] = field(default_factory=Counter)


def matches(source: Source) -> bool:
    return any(
        isinstance(entry, dict) and ("role" in entry or isinstance(entry.get("messages"), list))
        for entry in source.peek()
    )


def read(source: Source, log: ReadingLog, zone: tzinfo | None) -> Iterator[Conversation]:
    """Give one conversation a user; a file that names no users has one, called like the file."""
    gathering = Gathering(zone=zone, log=log)
    stem = source.path.stem
    several = source.is_lines or isinstance(source.document, list)
    for entry, value in source.entries(log):
        with log.noting_bad():
            if isinstance(value, dict) and "messages" in value:
                name = f"{stem}-{entry.number}" if several else stem
                _gather_chat(value, Place(stem, name), entry=entry, gathering=gathering)
            else:
                _gather_message(value, Place(stem, stem), entry=entry, gathering=gathering)
    by_user: dict[str, list[ConversationSession]] = {}
    for place, turns in gathering.turns.items():
        session = ConversationSession(session_id=place.session_id, turns=tuple(turns))
        by_user.setdefault(place.user_id, []).append(session)
    for user_id, sessions in by_user.items():
        yield Conversation(conversation_id=user_id, sessions=tuple(sessions))


def _gather_chat(value: JsonValue, default: Place, *, entry: Entry, gathering: Gathering) -> None:
    chat = check_shape(ChatShape, value, entry=entry)
    name = chat.session_id if chat.session_id is not None else chat.id
    place = Place(
        chat.user_id if chat.user_id is not None else default.user_id,
        str(name) if name is not None else default.session_id,
    )
    for number, message in enumerate(chat.messages, 1):
        with gathering.log.noting_bad():
            _gather_message(message, place, entry=entry.inside(f"message {number}"), gathering=gathering)


def _gather_message(value: JsonValue, default: Place, *, entry: Entry, gathering: Gathering) -> None:
    """Add one message to its place; a bad or empty one keeps its number there, so that mending it moves no other."""
    place = _find_place(value, default)
    index = gathering.seen[place]
    gathering.seen[place] += 1
    turn = _read_turn(check_shape(MessageShape, value, entry=entry), index, entry=entry, zone=gathering.zone)
    if turn is None:
        gathering.log.left_out += 1
    else:
        gathering.turns.setdefault(place, []).append(turn)


def _find_place(value: JsonValue, default: Place) -> Place:
    if not isinstance(value, dict):
        return default
    user_id, session_id = value.get("user_id"), value.get("session_id")
    return Place(
        user_id if isinstance(user_id, str) else default.user_id,
        session_id if isinstance(session_id, str) else default.session_id,
    )


def _read_turn(message: MessageShape, index: int, *, entry: Entry, zone: tzinfo | None) -> NewTurn | None:
    role = read_role(message.role, CHAT_ROLES, entry=entry)
    said_at = read_time(message.created_at, zone=zone, entry=entry, field="created_at")
    content = [message.content] if isinstance(message.content, str) else message.content or []
    parts = sort_parts(content)
    parts.calls.extend(message.tool_calls or [])
    if message.function_call is not None:
        parts.calls.append(message.function_call)
    body = make_body(parts, role)
    if body is None:
        return None
    if message.tool_call_id is not None:
        body.metadata["tool_call_id"] = message.tool_call_id
    return NewTurn(
        role=body.role,
        text=body.text,
        speaker=message.name or None,
        said_at=said_at,
        caption=body.caption,
        turn_id=str(message.id) if message.id is not None else None,
        index=index,
        metadata=body.metadata,
    )
