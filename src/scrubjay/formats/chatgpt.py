"""ChatGPT's export (`conversations.json`): chats as trees of messages, of which one branch was last looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from scrubjay.datatypes import NewTurn, Role
from scrubjay.formats.conversation import Conversation, ConversationSession
from scrubjay.formats.parts import make_body, sort_parts
from scrubjay.formats.validation import ROLES, Untrusted, check_shape, read_role, read_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from scrubjay.datatypes import JsonValue
    from scrubjay.formats.conversation import ReadingLog
    from scrubjay.formats.source import Entry, Source

# Everything else (a model's thoughts, the user's custom instructions, browsing pages) is nothing anybody said here.
SPOKEN_TYPES = frozenset({"text", "multimodal_text", "code", "execution_output", "tether_quote"})


class ChatShape(Untrusted):
    mapping: dict[str, Any]
    current_node: str | None = None
    conversation_id: str | None = None
    id: str | None = None


class NodeShape(Untrusted):
    parent: str | None = None
    children: tuple[str, ...] = Field(default=(), strict=False)
    message: object = None


class AuthorShape(Untrusted):
    role: str
    name: str | None = None


class ContentShape(Untrusted):
    content_type: str
    parts: list[Any] | None = None
    text: str | None = None


class FlagsShape(Untrusted):
    is_visually_hidden_from_conversation: bool | None = None


class MessageShape(Untrusted):
    id: str
    author: AuthorShape
    content: ContentShape
    create_time: float | int | None = None
    recipient: str | None = None
    metadata: FlagsShape | None = None


def matches(source: Source) -> bool:
    return any(isinstance(chat, dict) and isinstance(chat.get("mapping"), dict) for chat in source.peek())


def read(source: Source, log: ReadingLog, _zone: tzinfo | None) -> Iterator[Conversation]:
    """Give the whole export as one conversation, each chat a session."""
    sessions: list[ConversationSession] = []
    for entry, value in source.entries(log):
        with log.noting_bad():
            sessions.append(_read_chat(value, entry=entry, log=log))
    if sessions:
        yield Conversation(conversation_id=source.path.stem, sessions=tuple(sessions))


def _read_chat(value: JsonValue, *, entry: Entry, log: ReadingLog) -> ConversationSession:
    chat = check_shape(ChatShape, value, entry=entry)
    name = chat.conversation_id or chat.id or f"chat-{entry.number}"
    nodes = {
        key: check_shape(NodeShape, node, entry=entry.inside(f"node {key!a}"))
        for key, node in chat.mapping.items()
    }
    turns: list[NewTurn] = []
    for key in _shown_branch(nodes, chat.current_node):
        if nodes[key].message is None:
            continue  # the root holds none
        with log.noting_bad():
            turn = _read_turn(nodes[key].message, name, entry=entry.inside(f"node {key!a}"))
            if turn is None:
                log.left_out += 1
            else:
                turns.append(turn)
    return ConversationSession(session_id=name, turns=tuple(turns))


def _shown_branch(nodes: dict[str, NodeShape], current: str | None) -> list[str]:
    """Follow parents from the current message to the root, and give them from the first on.

    Where the export names no current message it is the last child of the last child and so on.
    """
    leaf = current if current in nodes else _last_leaf(nodes)
    branch: dict[str, None] = {}
    while leaf is not None and leaf in nodes and leaf not in branch:
        branch[leaf] = None
        leaf = nodes[leaf].parent
    return list(reversed(branch))


def _last_leaf(nodes: dict[str, NodeShape]) -> str | None:
    leaf = next((key for key, node in nodes.items() if node.parent is None), None)
    seen: set[str] = set()
    while leaf is not None and leaf not in seen:
        seen.add(leaf)
        children = [child for child in nodes[leaf].children if child in nodes]
        if not children:
            return leaf
        leaf = children[-1]
    return leaf


def _read_turn(value: object, session_id: str, *, entry: Entry) -> NewTurn | None:
    """Read one message; no index is given, as another branch may be shown in the next export."""
    message = check_shape(MessageShape, value, entry=entry)
    role = read_role(message.author.role, ROLES, entry=entry, field="author.role")
    hidden = message.metadata is not None and message.metadata.is_visually_hidden_from_conversation
    if hidden or message.content.content_type not in SPOKEN_TYPES:
        return None
    if role is Role.ASSISTANT and message.recipient not in (None, "all"):
        role = Role.TOOL  # a call: the assistant speaks to a tool
    body = make_body(sort_parts(_content_parts(message.content)), role)
    if body is None:
        return None
    return NewTurn(
        role=body.role,
        text=body.text,
        speaker=message.author.name or None,
        said_at=read_time(message.create_time, zone=None, entry=entry, field="create_time"),
        caption=body.caption,
        turn_id=f"{session_id}:{message.id}",  # a chat forked from another may repeat its messages
        metadata=body.metadata,
    )


def _content_parts(content: ContentShape) -> list[JsonValue]:
    """Give the parts, with ChatGPT's own kinds (`content_type`) as the kinds the others use."""
    if content.text is not None:
        return [content.text]
    return [
        {"type": part["content_type"], **part} if isinstance(part, dict) and "content_type" in part else part
        for part in content.parts or []
    ]
