"""Read conversations from files of eight formats, told apart by what is in them.

A module a format, loaded when it is used: pydantic, which checks what comes in, takes longer to import than a recall.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from scrubjay.errors import TurnError
from scrubjay.formats.conversation import Conversation, ConversationSession, Reading, ReadingLog
from scrubjay.formats.export import write_export
from scrubjay.formats.source import Entry, Source, describe, open_source, printable
from scrubjay.turns import require_id, require_valid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from pathlib import Path

    from scrubjay.datatypes import NewTurn, Turn

__all__ = [
    "FORMATS",
    "Conversation",
    "ConversationSession",
    "Reading",
    "detect_format",
    "read_conversations",
    "read_export",
    "read_source",
    "write_export",
]


class FormatReader(Protocol):
    """What each format's module offers."""

    def matches(self, source: Source, /) -> bool: ...

    def read(self, source: Source, log: ReadingLog, zone: tzinfo | None, /) -> Iterator[Conversation]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format by its module and what its files look like."""

    module: str
    looks_like: str
    repeats: bool = False  # what another file of its kind holds, under the same ids


# In the order they are tried, the most particular first.
FORMATS = {
    "scrubjay": Format(module="scrubjay_jsonl", looks_like="JSONL that begins with a scrubjay_export header"),
    "locomo": Format(module="locomo", looks_like="samples with a conversation of session_1, session_2, …"),
    "longmemeval": Format(module="longmemeval", looks_like="questions with haystack_session_ids"),
    "chatgpt": Format(module="chatgpt", looks_like="chats with a mapping of messages"),
    "claude": Format(module="claude", looks_like="chats with chat_messages"),
    "claude-code": Format(
        module="claude_code", looks_like="entries with type, sessionId and uuid", repeats=True
    ),
    "labelled": Format(module="labelled", looks_like="an object with id and sessions"),
    "messages": Format(module="messages", looks_like="messages with a role"),
}


def detect_format(path: Path) -> str:
    """Name the format of a file by its content; raise FormatError, listing what was tried, when none fits."""
    return _detect(open_source(path))


def read_conversations(
    path: Path,
    *,
    format: str = "auto",  # noqa: A002 -- the word of the command line and the documents
    skip_bad: bool = False,
    zone: tzinfo | None = None,
) -> Reading:
    """Read a whole file before anything of it is stored.

    The first bad entry raises FormatError, unless `skip_bad`: then it is kept in `bad` and passed over.
    `zone` is the zone of times written without one. Only `locomo` and `longmemeval` read such times without it, as UTC.
    """
    source = open_source(path)
    name = _detect(source) if format == "auto" else format
    return read_source(source, name, skip_bad=skip_bad, zone=zone)


def read_source(source: Source, name: str, *, skip_bad: bool = False, zone: tzinfo | None = None) -> Reading:
    """Read a file that is open already, as the format of this name."""
    whole = Entry(path=source.path, where="file")
    if name not in FORMATS:
        raise whole.fault("format", expected=f"auto or one of {', '.join(FORMATS)}", found=repr(name))
    log = ReadingLog(skip_bad=skip_bad)
    conversations = _check_all(_load(name).read(source, log, zone), path=source.path, log=log)
    if not conversations and not log.bad:
        raise whole.fault("content", expected=f"at least one conversation ({name})", found="none")
    return Reading(format=name, conversations=conversations, bad=tuple(log.bad), left_out=log.left_out)


def read_export(path: Path) -> Iterator[Turn]:
    """Give the turns of a ScrubJay export as they were, one at a time; raise FormatError at the first bad line."""
    from scrubjay.formats import scrubjay_jsonl

    return scrubjay_jsonl.read_turns(path)


def _load(name: str) -> FormatReader:
    return cast("FormatReader", import_module(f"scrubjay.formats.{FORMATS[name].module}"))


def _detect(source: Source) -> str:
    for name in FORMATS:
        if _load(name).matches(source):
            return name
    tried = "; ".join(f"{name}: {candidate.looks_like}" for name, candidate in FORMATS.items())
    found = describe(source.document) if not source.is_lines else "lines of other JSON"
    whole = Entry(path=source.path, where="file")
    raise whole.fault("format", expected=f"one of these formats ({tried})", found=found)


def _check_all(
    conversations: Iterator[Conversation], *, path: Path, log: ReadingLog
) -> tuple[Conversation, ...]:
    """Refuse whatever a memory would refuse, while nothing is stored yet, and whatever has the id of one before it."""
    checked: list[Conversation] = []
    seen: set[str] = set()
    for conversation in conversations:
        entry = Entry(path=path, where=f"conversation {printable(conversation.conversation_id)}")
        with log.noting_bad():
            _claim(conversation.conversation_id, seen, entry=entry, field="id")
            checked.append(
                replace(conversation, sessions=_check_sessions(conversation, entry=entry, log=log))
            )
    return tuple(checked)


def _check_sessions(
    conversation: Conversation, *, entry: Entry, log: ReadingLog
) -> tuple[ConversationSession, ...]:
    checked: list[ConversationSession] = []
    seen_sessions: set[str] = set()
    seen_turns: set[str] = set()
    for session in conversation.sessions:
        inside = entry.inside(f"session {session.session_id}")
        turns: tuple[NewTurn, ...] = ()
        with log.noting_bad():
            _claim(session.session_id, seen_sessions, entry=inside, field="session id")
            turns = _check_turns(session, seen_turns, entry=inside, log=log)
        if turns:
            checked.append(replace(session, turns=turns))
    return tuple(checked)


def _check_turns(
    session: ConversationSession, seen: set[str], *, entry: Entry, log: ReadingLog
) -> tuple[NewTurn, ...]:
    checked: list[NewTurn] = []
    seen_places: set[int] = set()
    for number, turn in enumerate(session.turns, 1):
        with log.noting_bad():
            _check_turn(turn, seen, seen_places, entry=entry.inside(f"turn {number}"))
            checked.append(turn)
    return tuple(checked)


def _check_turn(turn: NewTurn, seen: set[str], seen_places: set[int], *, entry: Entry) -> None:
    try:
        require_valid(turn, 0)
    except TurnError as error:
        found = str(error).removeprefix("turn 0: ")
        raise entry.fault("turn", expected="one that a memory can keep", found=found) from error
    if turn.turn_id is not None:
        _claim(turn.turn_id, seen, entry=entry, field="turn id")
    if turn.index is not None:
        if turn.index in seen_places:
            raise entry.fault("index", expected="a place not used before", found=describe(turn.index))
        seen_places.add(turn.index)


def _claim(name: str, seen: set[str], *, entry: Entry, field: str) -> None:
    try:
        require_id(name, field)
    except TurnError as error:
        raise entry.fault(
            field, expected="a text that isn't empty, in valid Unicode", found=describe(name)
        ) from error
    if name in seen:
        raise entry.fault(field, expected="an id not used before", found=describe(name))
    seen.add(name)
