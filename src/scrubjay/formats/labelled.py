"""ScrubJay's own labelled conversations: dated sessions with questions and gold turns (`datasets/`, the sample)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from scrubjay.datatypes import NewTurn
from scrubjay.formats.conversation import Conversation, ConversationSession
from scrubjay.formats.validation import ROLES, Untrusted, check_shape, read_each, read_role, read_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from scrubjay.formats.conversation import ReadingLog
    from scrubjay.formats.source import Entry, Source


class ConversationShape(Untrusted):
    id: str
    sessions: list[object]


class SessionShape(Untrusted):
    session_id: str
    turns: list[object]


class TurnShape(Untrusted):
    id: str
    role: str
    text: str
    speaker: str | None = None
    said_at: object = None
    caption: str | None = None


def matches(source: Source) -> bool:
    return any(
        isinstance(entry, dict) and "id" in entry and isinstance(entry.get("sessions"), list)
        for entry in source.peek()
    )


def read(source: Source, log: ReadingLog, zone: tzinfo | None) -> Iterator[Conversation]:
    """Give the conversation of the file; its questions and their gold are not a part of it."""
    for entry, value in source.entries(log):
        with log.noting_bad():
            shape = check_shape(ConversationShape, value, entry=entry)
            read_session = partial(_read_session, log=log, zone=zone)
            sessions = read_each(shape.sessions, read_session, part="session", entry=entry, log=log)
            yield Conversation(conversation_id=shape.id, sessions=sessions)


def _read_session(
    value: object, _index: int, entry: Entry, *, log: ReadingLog, zone: tzinfo | None
) -> ConversationSession:
    session = check_shape(SessionShape, value, entry=entry)
    turns = read_each(session.turns, partial(_read_turn, zone=zone), part="turn", entry=entry, log=log)
    return ConversationSession(session_id=session.session_id, turns=turns)


def _read_turn(value: object, index: int, entry: Entry, *, zone: tzinfo | None) -> NewTurn:
    turn = check_shape(TurnShape, value, entry=entry)
    return NewTurn(
        role=read_role(turn.role, ROLES, entry=entry),
        text=turn.text,
        speaker=turn.speaker or None,
        said_at=read_time(turn.said_at, zone=zone, entry=entry, field="said_at"),
        caption=turn.caption or None,
        turn_id=turn.id,
        index=index,
    )
