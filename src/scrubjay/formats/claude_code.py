"""A transcript of Claude Code (`~/.claude/projects/…/SESSION.jsonl`): what user and assistant said to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import StringConstraints

from scrubjay.datatypes import NewTurn, Role
from scrubjay.formats.conversation import Conversation, ConversationSession
from scrubjay.formats.validation import Untrusted, check_shape, read_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, tzinfo

    from scrubjay.datatypes import JsonValue
    from scrubjay.formats.conversation import ReadingLog
    from scrubjay.formats.source import Entry, Source

ROLE_OF = {"user": Role.USER, "assistant": Role.ASSISTANT}
NOBODY_SAID = (
    "isMeta",
    "isSidechain",
    "isCompactSummary",
)  # marks of entries that are no part of the conversation
COMMANDS = ("<command-", "<local-command-", "<bash-")  # what begins a command's echo


class MessageShape(Untrusted):
    content: Any = None


class EntryShape(Untrusted):
    type: str
    uuid: Annotated[str, StringConstraints(min_length=1)]
    message: MessageShape
    sessionId: str | None = None  # noqa: N815 -- Claude Code's name
    timestamp: object = None
    cwd: str = ""

    @property
    def text(self) -> str:
        """What was said; tool calls, their results and thoughts say nothing."""
        content = self.message.content
        if isinstance(content, str):
            return content.strip()
        blocks = content if isinstance(content, list) else []
        said = [part.get("text") for part in blocks if isinstance(part, dict) and part.get("type") == "text"]
        return "\n".join(text for text in said if isinstance(text, str)).strip()


def matches(source: Source) -> bool:
    return any(isinstance(value, dict) and {"sessionId", "type"} <= value.keys() for value in source.peek())


def read(source: Source, log: ReadingLog, zone: tzinfo | None) -> Iterator[Conversation]:
    """Give the transcript as one conversation; a session that was resumed in it is one of its own."""
    sessions: dict[str, list[NewTurn]] = {}
    for entry, said in read_said(source, log):
        with log.noting_bad():
            said_at = read_time(said.timestamp, zone=zone, entry=entry, field="timestamp")
            turns = sessions.setdefault(said.sessionId or source.path.stem, [])
            turns.append(make_turn(said, said_at))
    if sessions:
        held = (ConversationSession(session_id=name, turns=tuple(turns)) for name, turns in sessions.items())
        yield Conversation(conversation_id=source.path.stem, sessions=tuple(held))


def read_said(source: Source, log: ReadingLog) -> Iterator[tuple[Entry, EntryShape]]:
    """Give the entries in which user or assistant said something."""
    for entry, value in source.entries(log):
        with log.noting_bad():
            said = check_shape(EntryShape, value, entry=entry) if is_message(value) else None
            if said is None:
                continue
            if said.text and not said.text.startswith(COMMANDS):
                yield entry, said
            else:
                log.left_out += 1


def is_message(value: JsonValue) -> bool:
    """Tell whether an entry is a part of the conversation, not one of the many others that a transcript has."""
    return (
        isinstance(value, dict)
        and value.get("type") in ("user", "assistant")
        and not any(value.get(mark) for mark in NOBODY_SAID)
    )


def make_turn(said: EntryShape, said_at: datetime | None) -> NewTurn:
    """Make an entry a turn under the entry's id, by which it is known wherever else it is read."""
    return NewTurn(
        role=ROLE_OF[said.type],
        text=said.text,
        said_at=said_at,
        turn_id=f"claude-code:{said.uuid}",
        metadata={"host": "claude-code", "cwd": said.cwd},
    )
