"""A transcript of Claude Code (`~/.claude/projects/…/SESSION.jsonl`): what user and assistant said to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import StringConstraints

from scrubjay.datatypes import NewTurn, Role
from scrubjay.formats.conversation import Conversation, ConversationSession, ReadingLog
from scrubjay.formats.source import Source
from scrubjay.formats.validation import Untrusted, check_shape, read_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, tzinfo

    from scrubjay.datatypes import JsonValue
    from scrubjay.formats.source import Entry

ROLE_OF = {"user": Role.USER, "assistant": Role.ASSISTANT}
NOBODY_SAID = (
    "isMeta",
    "isSidechain",
    "isCompactSummary",
    "isApiErrorMessage",
)  # marks of entries that are no part of the conversation
MACHINES = ("task-notification", "coordinator", "auto-continuation", "peer")  # origins of what no person said
SYNTHETIC = "<synthetic>"  # the model of answers that no model gave
TOLD_BY_THE_HOST = (
    "<command-",
    "<local-command-",
    "<bash-",
    "<task-notification>",
    "<system-reminder>",
    "<ide_opened_file>",
    "<ide_selection>",
    "<user-prompt-submit-hook>",
    "[Request interrupted by user",
)  # what begins a text that stands as the user's and is none


class MessageShape(Untrusted):
    content: Any = None
    model: object = None


class EntryShape(Untrusted):
    type: str
    uuid: Annotated[str, StringConstraints(min_length=1)]
    message: MessageShape
    sessionId: str | None = None  # noqa: N815 -- Claude Code's name
    timestamp: object = None
    cwd: str = ""
    forkedFrom: object = None  # noqa: N815

    @property
    def text(self) -> str:
        """What was said; tool calls, their results, thoughts and what the host adds say nothing."""
        if self.message.model == SYNTHETIC:
            return ""
        content = self.message.content
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        texts = [part.get("text") for part in blocks if isinstance(part, dict) and part.get("type") == "text"]
        return "\n".join(text for text in texts if isinstance(text, str) and self._is_said(text)).strip()

    def _is_said(self, text: str) -> bool:
        return ROLE_OF[self.type] is not Role.USER or not text.lstrip().startswith(TOLD_BY_THE_HOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an entry stands: its session's transcript, and its id in it."""

    session: str
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forks:
    """Finds the entry that a fork's entry is a copy of: copies may have ids of their own, and name what they copy."""

    folder: Path  # of the transcripts
    copied: dict[str, dict[str, Place]] = field(default_factory=dict)  # by session and id, once read

    def first(self, said: EntryShape) -> str:
        """Give the id of the entry that was written first; of a transcript that is gone, the copy's that is there."""
        place, seen = copied_place(said.forkedFrom), set[Place]()
        uuid = said.uuid
        while place is not None and place not in seen:
            seen.add(place)
            uuid = place.uuid
            place = self._copied_by(place.session).get(uuid)
        return uuid

    def _copied_by(self, session: str) -> dict[str, Place]:
        if session not in self.copied:
            self.copied[session] = read_copied(self.folder / f"{session}.jsonl", session)
        return self.copied[session]


def copied_place(value: object) -> Place | None:
    match value:
        case {"sessionId": str(session), "messageUuid": str(uuid)}:
            return Place(session=session, uuid=uuid)
    return None


def read_copied(path: Path, session: str) -> dict[str, Place]:
    """Give what each copy in a transcript is one of; nothing where there is no such transcript."""
    if PurePath(session).name != session or not path.is_file():
        return {}
    lines = Source(path=path, is_lines=True, document=None)
    copies: dict[str, Place] = {}
    for _, value in lines.entries(ReadingLog(skip_bad=True)):
        match value:
            case {"uuid": str(uuid), "forkedFrom": dict(origin)} if place := copied_place(origin):
                copies[uuid] = place
    return copies


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
    """Give the entries in which user or assistant said something, each once, a copy under the id of what it copies."""
    forks, seen = Forks(folder=source.path.parent), set[str]()
    for entry, value in source.entries(log):
        with log.noting_bad():
            message = as_message(value)
            if message is None:
                continue
            said = check_shape(EntryShape, message, entry=entry)
            uuid = forks.first(said) if said.text else said.uuid
            if said.text and uuid not in seen:
                seen.add(uuid)
                yield entry, said.model_copy(update={"uuid": uuid})
            else:
                log.left_out += 1


def as_message(value: JsonValue) -> dict[str, JsonValue] | None:
    """Give an entry that is a part of the conversation as a message; None for the many others of a transcript."""
    if not isinstance(value, dict):
        return None
    message = value if value.get("type") != "attachment" else typed_meanwhile(value)
    if message.get("type") not in list(ROLE_OF) or any(message.get(mark) for mark in NOBODY_SAID):
        return None
    match message.get("origin"):
        case {"kind": str(kind)} if kind in MACHINES:
            return None
    return message


def typed_meanwhile(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Make what a user typed while Claude worked, which is an attachment, a message; give others as they are."""
    queued = value.get("attachment")
    if not isinstance(queued, dict) or queued.get("type") != "queued_command":
        return value
    if queued.get("commandMode", "prompt") != "prompt":
        return value
    message: dict[str, JsonValue] = {"content": queued.get("prompt")}
    marks = {"origin": queued.get("origin"), "isMeta": queued.get("isMeta")}
    return {**value, **marks, "type": "user", "message": message}


def make_turn(said: EntryShape, said_at: datetime | None) -> NewTurn:
    """Make an entry a turn under the entry's id, by which it is known wherever else it is read."""
    return NewTurn(
        role=ROLE_OF[said.type],
        text=said.text,
        said_at=said_at,
        turn_id=f"claude-code:{said.uuid}",
        metadata={"host": "claude-code", "cwd": said.cwd},
    )
