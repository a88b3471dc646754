"""MemDaily: Chinese lists of messages one person noted down, each with its own questions."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrubjay.bench.questions import BenchQuestion, BenchSample, resolve
from scrubjay.datatypes import NewTurn, Role
from scrubjay.formats import Conversation, ConversationSession
from scrubjay.formats.conversation import ReadingLog
from scrubjay.formats.source import describe
from scrubjay.formats.validation import Untrusted, check_shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.formats.source import Entry, Source

TIME = re.compile(
    r"(\d{4})年(\d{1,2})月(\d{1,2})日 周. (\d{1,2}):(\d\d)", re.ASCII
)  # "2024年04月04日 周四 07:42"
KIND = re.compile(r"\d+_(.+)_[a-z]+", re.ASCII)  # "05_post_processing_events": the middle says what is asked
SESSION = "messages"


class ListShape(Untrusted):
    kind: str
    tid: int
    message_list: list[Any]
    question_list: list[Any]


class MessageShape(Untrusted):
    mid: int
    message: str
    time: str
    place: str | None = None


class QuestionShape(Untrusted):
    question: str
    answer: str
    target_step_id: list[int]
    time: str


def load(source: Source) -> Iterator[BenchSample]:
    """Give each list as a sample of one session whose turn ids are the messages' numbers.

    The file names no zone: times are read as UTC. Evidence is turns only, as there is but one session to find.
    """
    for entry, value in source.entries(ReadingLog(skip_bad=False)):
        shape = check_shape(ListShape, value, entry=entry)
        name = f"{shape.kind}-{shape.tid}"
        turns = tuple(
            _read_message(raw, index, entry=entry.inside(f"message {index + 1}"))
            for index, raw in enumerate(shape.message_list)
        )
        known = {turn.turn_id for turn in turns if turn.turn_id is not None}
        questions = tuple(
            _read_question(raw, index, shape=shape, known=known, entry=entry.inside(f"question {index + 1}"))
            for index, raw in enumerate(shape.question_list)
        )
        session = ConversationSession(session_id=SESSION, turns=turns)
        conversation = Conversation(conversation_id=name, sessions=(session,))
        yield BenchSample(sample=name, conversation=conversation, questions=questions)


def _read_message(value: object, index: int, *, entry: Entry) -> NewTurn:
    message = check_shape(MessageShape, value, entry=entry)
    return NewTurn(
        role=Role.USER,
        text=message.message,
        said_at=_read_time(message.time, entry=entry),
        turn_id=str(message.mid),
        index=index,
        metadata={"place": message.place} if message.place else {},
    )


def _read_question(
    value: object, index: int, *, shape: ListShape, known: set[str], entry: Entry
) -> BenchQuestion:
    question = check_shape(QuestionShape, value, entry=entry)
    evidence, unresolved = resolve(map(str, question.target_step_id), known)
    kind = KIND.fullmatch(shape.kind)
    return BenchQuestion(
        sample=f"{shape.kind}-{shape.tid}",
        question_index=index,
        question=question.question,
        answer=question.answer,
        category=shape.kind,
        category_name=kind[1] if kind else shape.kind,
        evidence=evidence,
        evidence_sessions=(),
        unresolved=unresolved,
        asked_at=_read_time(question.time, entry=entry),
        unanswerable=False,
    )


def _read_time(value: str, *, entry: Entry) -> datetime:
    expected = "a time such as '2024年04月04日 周四 07:42'"
    found = TIME.fullmatch(value)
    if found is None:
        raise entry.fault("time", expected=expected, found=describe(value))
    year, month, day, hour, minute = map(int, found.groups())
    try:
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError as error:
        raise entry.fault("time", expected=expected, found=describe(value)) from error
