"""Claude's export (`conversations.json`): chats with `chat_messages`, pasted documents as attachments."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from scrubjay.datatypes import NewTurn, Role
from scrubjay.formats.conversation import Conversation, ConversationSession
from scrubjay.formats.parts import Parts, make_body, sort_parts
from scrubjay.formats.validation import Untrusted, check_shape, read_each, read_role, read_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from scrubjay.formats.conversation import ReadingLog
    from scrubjay.formats.source import Entry, Source

SENDERS = {"human": Role.USER, "assistant": Role.ASSISTANT}


class ChatShape(Untrusted):
    uuid: str
    chat_messages: list[Any]


class FileShape(Untrusted):
    file_name: str | None = None
    extracted_content: str | None = None


class MessageShape(Untrusted):
    uuid: str
    sender: str
    text: str | None = None
    content: list[Any] | None = None
    created_at: str | None = None
    attachments: tuple[FileShape, ...] = Field(default=(), strict=False)
    files: tuple[FileShape, ...] = Field(default=(), strict=False)


def matches(source: Source) -> bool:
    return any(isinstance(chat, dict) and "chat_messages" in chat for chat in source.peek())


def read(source: Source, log: ReadingLog, zone: tzinfo | None) -> Iterator[Conversation]:
    """Give the whole export as one conversation, each chat a session."""
    sessions: list[ConversationSession] = []
    for entry, value in source.entries(log):
        with log.noting_bad():
            chat = check_shape(ChatShape, value, entry=entry)
            read_one = partial(_read_turn, session_id=chat.uuid, zone=zone)
            turns = read_each(chat.chat_messages, read_one, part="message", entry=entry, log=log)
            sessions.append(ConversationSession(session_id=chat.uuid, turns=turns))
    if sessions:
        yield Conversation(conversation_id=source.path.stem, sessions=tuple(sessions))


def _read_turn(
    value: object, _index: int, entry: Entry, *, session_id: str, zone: tzinfo | None
) -> NewTurn | None:
    """Read one message; no index is given, as an edited one gets another id in the next export."""
    message = check_shape(MessageShape, value, entry=entry)
    sender = read_role(message.sender, SENDERS, entry=entry, field="sender")
    body = make_body(_gather_parts(message), sender)
    if body is None:
        return None
    return NewTurn(
        role=body.role,
        text=body.text,
        said_at=read_time(message.created_at, zone=zone, entry=entry, field="created_at"),
        caption=body.caption,
        turn_id=f"{session_id}:{message.uuid}",
        metadata=body.metadata,
    )


def _gather_parts(message: MessageShape) -> Parts:
    """Prefer the parts to `text`, which has a placeholder where a part is no text; add what was pasted as a file."""
    parts = sort_parts(message.content or [])
    if not parts.texts and not parts.calls and message.text:
        parts.texts.append(message.text)
    for file in message.attachments:
        if file.extracted_content and file.extracted_content.strip():
            heading = f"[{file.file_name}]\n" if file.file_name else ""
            parts.texts.append(heading + file.extracted_content)
    parts.attachments.extend(
        file.file_name for file in (*message.attachments, *message.files) if file.file_name
    )
    return parts
