"""ScrubJay's own export, read back: see `export` for what is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from scrubjay.datatypes import NewTurn, Turn
from scrubjay.formats.conversation import Conversation, ConversationSession, ReadingLog
from scrubjay.formats.export import EXPORT_VERSION, HEADER_KEY
from scrubjay.formats.source import Entry, open_source
from scrubjay.formats.validation import ROLES, Untrusted, check_shape, read_role, read_time
from scrubjay.turns import HIGHEST_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from pathlib import Path

    from scrubjay.datatypes import JsonValue
    from scrubjay.formats.source import Source


class HeaderShape(Untrusted):
    scrubjay_export: int
    user_id: str | None = None
    turns: int | None = None


class TurnShape(Untrusted):
    turn_id: str
    session_id: str
    index: int = Field(ge=0, le=HIGHEST_INDEX)
    role: str
    speaker: str | None
    text: str
    caption: str | None
    said_at: object
    added_at: object
    metadata: dict[str, Any]


def read_turns(path: Path) -> Iterator[Turn]:
    """Give the turns as they were, one at a time; raise FormatError at the first bad line."""
    log = ReadingLog(skip_bad=False)
    source = open_source(path)
    entries = source.entries(log)
    yield from _read_turns(source, entries, _read_header(source, entries), log)


def matches(source: Source) -> bool:
    return any(isinstance(entry, dict) and HEADER_KEY in entry for entry in source.peek()[:1])


def read(source: Source, log: ReadingLog, _zone: tzinfo | None) -> Iterator[Conversation]:
    """Give the one conversation of an export, named after its memory, or after the file where it had no name."""
    entries = source.entries(log)
    header = _read_header(source, entries)
    sessions: dict[str, list[NewTurn]] = {}
    for turn in _read_turns(source, entries, header, log):
        sessions.setdefault(turn.session_id, []).append(_as_new(turn))
    yield Conversation(
        conversation_id=header.user_id if header.user_id is not None else source.path.stem,
        sessions=tuple(
            ConversationSession(session_id=session_id, turns=tuple(turns))
            for session_id, turns in sessions.items()
        ),
    )


def _read_header(source: Source, entries: Iterator[tuple[Entry, JsonValue]]) -> HeaderShape:
    entry, value = next(entries, (Entry(path=source.path, where="line 1"), None))
    header = check_shape(HeaderShape, value, entry=entry)
    if header.scrubjay_export != EXPORT_VERSION:
        found = f"version {header.scrubjay_export}"
        raise entry.fault(HEADER_KEY, expected=f"version {EXPORT_VERSION}; update ScrubJay", found=found)
    return header


def _read_turns(
    source: Source, entries: Iterator[tuple[Entry, JsonValue]], header: HeaderShape, log: ReadingLog
) -> Iterator[Turn]:
    count, bad_before = 0, len(log.bad)
    for entry, value in entries:
        with log.noting_bad():
            turn = _read_turn(value, entry=entry)
            count += 1
            yield turn
    count += len(log.bad) - bad_before
    if header.turns is not None and header.turns != count:
        with log.noting_bad():
            end = Entry(path=source.path, where="the end")
            raise end.fault(
                "content", expected=f"{header.turns} turns in all", found=f"{count}: the file was cut"
            )


def _read_turn(value: JsonValue, *, entry: Entry) -> Turn:
    turn = check_shape(TurnShape, value, entry=entry)
    added_at = read_time(turn.added_at, zone=None, entry=entry, field="added_at")
    if added_at is None:
        raise entry.fault("added_at", expected="an ISO 8601 time", found="null")
    return Turn(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        index=turn.index,
        role=read_role(turn.role, ROLES, entry=entry),
        speaker=turn.speaker,
        text=turn.text,
        caption=turn.caption,
        said_at=read_time(turn.said_at, zone=None, entry=entry, field="said_at"),
        added_at=added_at,
        metadata=turn.metadata,
    )


def _as_new(turn: Turn) -> NewTurn:
    """Leave out what the memory that takes the turn gives it: its session and when it was added."""
    return NewTurn(
        role=turn.role,
        text=turn.text,
        speaker=turn.speaker,
        said_at=turn.said_at,
        caption=turn.caption,
        turn_id=turn.turn_id,
        index=turn.index,
        metadata=turn.metadata,
    )
