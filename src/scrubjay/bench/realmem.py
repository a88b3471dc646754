"""RealMem: a persona's dated sessions with an assistant; some user turns are questions about earlier sessions.

A reply names the memories it used, and each memory the turn that it was made from, if not always one that is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field

from scrubjay.bench.questions import BenchQuestion, BenchSample, resolve
from scrubjay.datatypes import NewTurn, Role
from scrubjay.formats import Conversation, ConversationSession
from scrubjay.formats.conversation import ReadingLog
from scrubjay.formats.source import describe
from scrubjay.formats.validation import Untrusted, check_shape, read_role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrubjay.formats.source import Entry, Source

DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d) \([A-Za-z]+\)", re.ASCII)  # "2025-12-15 (Monday)"
SPEAKERS = {"User": Role.USER, "Assistant": Role.ASSISTANT}
UNNAMED = "unlabelled"


class AboutShape(Untrusted):
    person_name: str


class PersonaShape(Untrusted):
    about: AboutShape = Field(alias="_metadata")
    dialogues: list[Any]


class DialogueShape(Untrusted):
    session_uuid: str
    current_time: str
    dialogue_turns: list[Any]
    extracted_memory: list[Any] = Field(default_factory=list)


class UsedMemoryShape(Untrusted):
    session_uuid: str
    content: str


class MemoryShape(UsedMemoryShape):
    source_turn: int  # from 1
    source_role_snapshot: str = ""


class TurnShape(Untrusted):
    speaker: str
    content: str
    is_query: bool = False
    category_name: str | None = None
    memory_session_uuids: list[str] | None = None
    memory_used: list[UsedMemoryShape] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """A session as the file has it, checked."""

    session_id: str
    time: datetime
    turns: tuple[TurnShape, ...]
    memories: tuple[MemoryShape, ...]


def load(source: Source) -> Iterator[BenchSample]:
    """Give a persona as one sample.

    A question has gold turns where every memory that its reply used names the turn it was made from; else gold sessions
    alone. A question may be answered from the sessions that come before its own in the file (`sessions_before`), never from
    its own or a later one. `question_index` counts the questions of the file. The file has dates without a time or a
    zone: all turns of a day are said, and asked, at its first minute in UTC.
    """
    for entry, value in source.entries(ReadingLog(skip_bad=False)):
        persona = check_shape(PersonaShape, value, entry=entry)
        name = persona.about.person_name
        dialogues = [
            _read_dialogue(raw, entry=entry.inside(f"dialogue {number}"))
            for number, raw in enumerate(persona.dialogues, 1)
        ]
        sessions = tuple(
            ConversationSession(session_id=each.session_id, turns=_turns(each)) for each in dialogues
        )
        yield BenchSample(
            sample=name,
            conversation=Conversation(conversation_id=name, sessions=sessions),
            questions=tuple(_questions(name, dialogues)),
        )


def _read_dialogue(value: object, *, entry: Entry) -> Dialogue:
    shape = check_shape(DialogueShape, value, entry=entry)
    turns = tuple(
        check_shape(TurnShape, raw, entry=entry.inside(f"turn {number}"))
        for number, raw in enumerate(shape.dialogue_turns, 1)
    )
    for turn in turns:
        read_role(turn.speaker, SPEAKERS, entry=entry, field="speaker")
    memories = tuple(
        check_shape(MemoryShape, raw, entry=entry.inside(f"memory {number}"))
        for number, raw in enumerate(shape.extracted_memory, 1)
    )
    return Dialogue(
        session_id=shape.session_uuid,
        time=_read_date(shape.current_time, entry=entry),
        turns=turns,
        memories=memories,
    )


def _read_date(value: str, *, entry: Entry) -> datetime:
    expected = "a date such as '2025-12-15 (Monday)'"
    found = DATE.fullmatch(value)
    if found is None:
        raise entry.fault("current_time", expected=expected, found=describe(value))
    try:
        return datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
    except ValueError as error:
        raise entry.fault("current_time", expected=expected, found=describe(value)) from error


def _turns(dialogue: Dialogue) -> tuple[NewTurn, ...]:
    """Make turns of those that say anything; numbers are those of the file."""
    return tuple(
        NewTurn(
            role=SPEAKERS[turn.speaker],
            text=turn.content,
            said_at=dialogue.time,
            turn_id=f"{dialogue.session_id}:{index}",
            index=index,
        )
        for index, turn in enumerate(dialogue.turns)
        if turn.content.strip()
    )


def _questions(sample: str, dialogues: list[Dialogue]) -> Iterator[BenchQuestion]:
    count = 0
    sources = _sources(dialogues)
    for before, dialogue in enumerate(dialogues):
        known = {earlier.session_id for earlier in dialogues[:before]}
        for turn, reply in zip(dialogue.turns, (*dialogue.turns[1:], None), strict=True):
            if not turn.is_query:
                continue
            cited = (reply.memory_session_uuids or []) if reply is not None else []
            sessions, unresolved = resolve(cited, known)
            used = (reply.memory_used or []) if reply is not None else []
            yield BenchQuestion(
                sample=sample,
                question_index=count,
                question=turn.content,
                answer=reply.content if reply is not None else "",
                category=turn.category_name or UNNAMED,
                category_name=turn.category_name or UNNAMED,
                evidence=_gold_turns(used, sources, known),
                evidence_sessions=sessions,
                unresolved=unresolved,
                asked_at=dialogue.time,
                unanswerable=False,
                sessions_before=before,
            )
            count += 1


def _sources(dialogues: list[Dialogue]) -> dict[tuple[str, str], str]:
    """Map memories, by session and content, to the id of the turn each was made from, where there is such a turn."""
    held = {dialogue.session_id: dialogue.turns for dialogue in dialogues}
    found: dict[tuple[str, str], str] = {}
    for memory in (memory for dialogue in dialogues for memory in dialogue.memories):
        turns, index = held.get(memory.session_uuid, ()), memory.source_turn - 1
        if 0 <= index < len(turns) and turns[index].content.strip():
            said_by = turns[index].speaker
            if memory.source_role_snapshot in ("", said_by):
                found[memory.session_uuid, memory.content] = f"{memory.session_uuid}:{index}"
    return found


def _gold_turns(
    used: list[UsedMemoryShape], sources: dict[tuple[str, str], str], known: set[str]
) -> tuple[str, ...]:
    """Give the turns that all memories used were made from; none where one of them is unknown."""
    turns = [sources.get((memory.session_uuid, memory.content)) for memory in used]
    found = tuple(dict.fromkeys(turn for turn in turns if turn is not None))
    is_whole = None not in turns and all(memory.session_uuid in known for memory in used)
    return found if is_whole else ()
