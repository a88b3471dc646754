"""LongMemEval: questions, each over its own haystack of dated sessions; a conversation a question.

Two layouts: the official one, turns inside each question (`haystack_sessions`), and the one that keeps every session
once in a `sessions.jsonl` beside the questions. Labels of gold turns (`has_answer`) are never carried into a turn.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING

from scrubjay.datatypes import NewTurn, Role
from scrubjay.formats.conversation import Conversation, ConversationSession
from scrubjay.formats.source import Entry, describe, open_source
from scrubjay.formats.validation import Untrusted, check_shape, place_in_zone, read_each, read_role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scrubjay.formats.conversation import ReadingLog
    from scrubjay.formats.source import Source

SESSIONS_FILE = "sessions.jsonl"
# "2023/05/20 (Sat) 02:21"
DATE = re.compile(r"(\d{4})/(\d\d)/(\d\d) \([A-Za-z]{3}\) (\d\d):(\d\d)", re.ASCII)
SPEAKERS = {"user": Role.USER, "assistant": Role.ASSISTANT}


class QuestionShape(Untrusted):
    question_id: str
    haystack_session_ids: list[str]
    haystack_dates: list[str]
    haystack_sessions: list[object] | None = None


class SharedSessionShape(Untrusted):
    session_id: str
    turns: list[object]


class TurnShape(Untrusted):
    role: str
    content: str


def matches(source: Source) -> bool:
    return any(isinstance(entry, dict) and "haystack_session_ids" in entry for entry in source.peek())


def read(source: Source, log: ReadingLog, zone: tzinfo | None) -> Iterator[Conversation]:
    """Give one conversation a question. Times are read as UTC unless a zone is given."""
    shared: Mapping[str, list[object]] | None = None
    for entry, value in source.entries(log):
        question: QuestionShape | None = None
        with log.noting_bad():
            question = _check_question(value, entry=entry)
        if question is None:
            continue
        if question.haystack_sessions is None and shared is None:
            shared = _read_shared_sessions(source, log)  # without them nothing can be read: not one bad entry
        with log.noting_bad():
            turns = _turns_of_sessions(question, shared or {}, entry=entry)
            yield _read_question(question, turns, entry=entry, log=log, zone=zone)


def name_sessions(session_ids: list[str]) -> list[str]:
    """Tell the occurrences of one session id in a haystack apart: the second of x is x#2."""
    taken = set(session_ids)
    used: set[str] = set()
    names: list[str] = []
    for session_id in session_ids:
        name, occurrence = session_id, 1
        while name in used or (occurrence > 1 and name in taken):
            occurrence += 1
            name = f"{session_id}#{occurrence}"
        used.add(name)
        names.append(name)
    return names


def read_date(value: object, *, zone: tzinfo | None, entry: Entry, field: str) -> datetime:
    expected = "a time such as '2023/05/20 (Sat) 02:21'"
    found = DATE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise entry.fault(field, expected=expected, found=describe(value))
    year, month, day, hour, minute = map(int, found.groups())
    try:
        time = datetime(year, month, day, hour, minute, tzinfo=zone or UTC)
    except ValueError as error:
        raise entry.fault(field, expected=expected, found=describe(value)) from error
    return place_in_zone(time, zone=zone, entry=entry, field=field)


def _read_shared_sessions(source: Source, log: ReadingLog) -> dict[str, list[object]]:
    beside = open_source(source.path.with_name(SESSIONS_FILE))
    sessions: dict[str, list[object]] = {}
    for entry, value in beside.entries(log):
        with log.noting_bad():
            session = check_shape(SharedSessionShape, value, entry=entry)
            sessions[session.session_id] = session.turns
    return sessions


def _check_question(value: object, *, entry: Entry) -> QuestionShape:
    question = check_shape(QuestionShape, value, entry=entry)
    count = len(question.haystack_session_ids)
    if len(question.haystack_dates) != count:
        found = f"{len(question.haystack_dates)} dates for {count} ids"
        raise entry.fault("haystack_dates", expected="a date for each session id", found=found)
    if question.haystack_sessions is not None and len(question.haystack_sessions) != count:
        found = f"{len(question.haystack_sessions)} sessions for {count} ids"
        raise entry.fault("haystack_sessions", expected="a session for each session id", found=found)
    return question


def _turns_of_sessions(
    question: QuestionShape, shared: Mapping[str, list[object]], *, entry: Entry
) -> list[object]:
    """Find the turns of each session of the haystack, in its order."""
    if question.haystack_sessions is not None:
        return question.haystack_sessions
    for name in question.haystack_session_ids:
        if name not in shared:
            raise entry.fault(
                "haystack_session_ids", expected=f"ids in {SESSIONS_FILE}", found=describe(name)
            )
    return [shared[name] for name in question.haystack_session_ids]


def _read_question(
    question: QuestionShape, turns: list[object], *, entry: Entry, log: ReadingLog, zone: tzinfo | None
) -> Conversation:
    sessions: list[ConversationSession] = []
    names = name_sessions(question.haystack_session_ids)
    for number, (name, date, raw) in enumerate(zip(names, question.haystack_dates, turns, strict=True), 1):
        inside = entry.inside(f"session {number}")
        with log.noting_bad():
            said_at = read_date(date, zone=zone, entry=inside, field="haystack_dates")
            read_one = partial(_read_turn, session_id=name, said_at=said_at)
            kept = read_each(raw, read_one, part="turn", entry=inside, log=log)
            if kept:
                sessions.append(ConversationSession(session_id=name, turns=kept))
    return Conversation(conversation_id=question.question_id, sessions=tuple(sessions))


def _read_turn(
    value: object, index: int, entry: Entry, *, session_id: str, said_at: datetime
) -> NewTurn | None:
    turn = check_shape(TurnShape, value, entry=entry)
    if not turn.content.strip():
        return None  # the official file has some; the numbers of the others stay as they are
    return NewTurn(
        role=read_role(turn.role, SPEAKERS, entry=entry),
        text=turn.content,
        said_at=said_at,
        turn_id=f"{session_id}:{index}",
        index=index,
    )
