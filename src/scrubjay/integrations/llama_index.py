"""A memory for LlamaIndex's agents and chat engines (extra `llamaindex`)."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrubjay.datatypes import NewTurn, Role
from scrubjay.errors import MissingExtraError, NotFoundError
from scrubjay.formats.messages import CHAT_ROLES
from scrubjay.integrations.earlier import Adding, recall_earlier
from scrubjay.integrations.turn_log import forget_turns, session_turns

try:
    from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.memory.types import BaseMemory
except ImportError as error:
    raise MissingExtraError("llama-index-core", extra="llamaindex") from error

if TYPE_CHECKING:
    from scrubjay.datatypes import Turn
    from scrubjay.memory import Memory

MARK = "llama_index"  # under it a turn's metadata hold the whole message


class ScrubJayMemory(BaseMemory):
    """The messages of one session, each a turn, after what earlier sessions say about the question.

    `get` gives the evidence as one system message, then the last `recent` messages, from a user's on. `set` and
    `reset` forget what they replace, down to the file's bytes, and leave other sessions alone.
    """

    session_id: str
    recent: int = 40
    adding: Adding = Adding()
    _memory: Memory = PrivateAttr()

    def __init__(self, memory: Memory, *, session_id: str, **options: Any) -> None:
        """Take a memory, which stays its giver's to close."""
        super().__init__(session_id=session_id, **options)  # type: ignore[call-arg]  # fields of this class
        self._memory = memory

    @classmethod
    def class_name(cls) -> str:
        return "ScrubJayMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> ScrubJayMemory:
        return cls(**kwargs)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002 -- LlamaIndex's name
        messages = self.get_all()
        said = (message.content for message in reversed(messages) if message.role == MessageRole.USER)
        question = input or next(said, None) or ""
        evidence = recall_earlier(self._memory, question, session_id=self.session_id, adding=self.adding)
        told = [ChatMessage(evidence, role=MessageRole.SYSTEM)] if evidence else []
        return told + last_messages(messages, self.recent)

    def get_all(self) -> list[ChatMessage]:
        return [message_of(turn) for turn in session_turns(self._memory, self.session_id)]

    def put(self, message: ChatMessage) -> None:
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        now = datetime.now(UTC)
        self._memory.add([turn_of(message, now) for message in messages], session_id=self.session_id)

    def set(self, messages: list[ChatMessage]) -> None:
        """Make the session hold these messages: those it begins with already stay, the rest is forgotten."""
        stored = session_turns(self._memory, self.session_id)
        same = 0
        while same < min(len(stored), len(messages)) and message_of(stored[same]) == messages[same]:
            same += 1
        forget_turns(self._memory, [turn.turn_id for turn in reversed(stored[same:])])
        self.put_messages(messages[same:])

    def reset(self) -> None:
        with suppress(NotFoundError):  # it is clear
            self._memory.forget(session=self.session_id)


def last_messages(messages: list[ChatMessage], count: int) -> list[ChatMessage]:
    """Give the last messages, from a user's on, so that no tool's result is without its call."""
    last = messages[max(len(messages) - count, 0) :]
    begins = (place for place, message in enumerate(last) if message.role == MessageRole.USER)
    return last if len(last) == len(messages) else last[next(begins, 0) :]


def turn_of(message: ChatMessage, now: datetime) -> NewTurn:
    """Make a message a turn: its words to be found, and all of it in the metadata."""
    calls = [f"{b.tool_name}({b.tool_kwargs})" for b in message.blocks if isinstance(b, ToolCallBlock)]
    text = "\n".join(filter(None, [message.content, *calls]))
    return NewTurn(
        role=CHAT_ROLES.get(message.role.value, Role.ASSISTANT),
        text=text or f"({', '.join(block.block_type for block in message.blocks) or 'no words'})",
        said_at=now,
        metadata={MARK: message.model_dump(mode="json")},
    )


def message_of(turn: Turn) -> ChatMessage:
    """Give a turn's message; of a turn that came by other means, one with its words."""
    kept = turn.metadata.get(MARK)
    if kept is not None:
        return ChatMessage.model_validate(kept)
    return ChatMessage(turn.text or turn.caption, role=MessageRole(turn.role.value))
