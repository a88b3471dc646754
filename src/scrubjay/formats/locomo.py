"""LoCoMo's public file: samples of dated sessions between two people, turns with ids such as D1:3."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from scrubjay.datatypes import NewTurn, Role
from scrubjay.formats.conversation import Conversation, ConversationSession
from scrubjay.formats.source import describe
from scrubjay.formats.validation import Untrusted, check_shape, place_in_zone, read_each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

    from scrubjay.formats.conversation import ReadingLog
    from scrubjay.formats.source import Entry, Source

SESSION_KEY = re.compile(r"session_([0-9]{1,9})")
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
SESSION_DATE = re.compile(  # "1:56 pm on 8 May, 2023"
    rf"\s*(\d{{1,2}}):(\d\d)\s*([ap])m on (\d{{1,2}}) ({'|'.join(MONTHS)}),? (\d{{4}})\s*",
    re.ASCII | re.IGNORECASE,
)


class SampleShape(Untrusted):
    sample_id: str
    conversation: dict[str, object]


class TurnShape(Untrusted):
    dia_id: str
    speaker: str
    text: str
    blip_caption: str | None = None


def matches(source: Source) -> bool:
    return any(
        isinstance(sample, dict)
        and isinstance(conversation := sample.get("conversation"), dict)
        and any(SESSION_KEY.fullmatch(key) for key in conversation)
        for sample in source.peek()
    )


def read(source: Source, log: ReadingLog, zone: tzinfo | None) -> Iterator[Conversation]:
    """Give one conversation a sample; both people speak as users. Times are read as UTC unless a zone is given."""
    for entry, value in source.entries(log):
        with log.noting_bad():
            sample = check_shape(SampleShape, value, entry=entry)
            sessions = tuple(_read_sessions(sample.conversation, entry=entry, log=log, zone=zone))
            yield Conversation(conversation_id=sample.sample_id, sessions=sessions)


def _read_sessions(
    conversation: dict[str, object], *, entry: Entry, log: ReadingLog, zone: tzinfo | None
) -> Iterator[ConversationSession]:
    """Read the sessions by their numbers; dates of sessions that don't exist are passed over."""
    numbered = sorted((int(found[1]), key) for key in conversation if (found := SESSION_KEY.fullmatch(key)))
    for _, key in numbered:
        inside = entry.inside(key)
        said_at: datetime | None = None  # a session whose date can't be read is kept, undated
        turns: tuple[NewTurn, ...] = ()
        with log.noting_bad():
            said_at = _read_date(conversation.get(f"{key}_date_time"), zone=zone, entry=inside)
        with log.noting_bad():
            turns = read_each(
                conversation[key], partial(_read_turn, said_at=said_at), part="turn", entry=inside, log=log
            )
        if turns:
            yield ConversationSession(session_id=key, turns=turns)


def _read_turn(value: object, index: int, entry: Entry, *, said_at: datetime | None) -> NewTurn | None:
    turn = check_shape(TurnShape, value, entry=entry)
    if not turn.text.strip() and not (turn.blip_caption or "").strip():
        return None
    return NewTurn(
        role=Role.USER,
        text=turn.text,
        speaker=turn.speaker or None,
        said_at=said_at,
        caption=turn.blip_caption or None,
        turn_id=turn.dia_id,
        index=index,
    )


def _read_date(value: object, *, zone: tzinfo | None, entry: Entry) -> datetime | None:
    """Read the date all turns of a session share; the file gives no other time, and none is made up."""
    if value is None:
        return None
    field, expected = "date_time", "a time such as '1:56 pm on 8 May, 2023'"
    found = SESSION_DATE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise entry.fault(field, expected=expected, found=describe(value))
    hour, minute, half, day, month, year = found.groups()
    hour_of_day = int(hour) % 12 + (12 if half.lower() == "p" else 0)
    try:
        time = datetime(int(year), MONTHS.index(month.lower()) + 1, int(day), hour_of_day, int(minute))  # noqa: DTZ001 -- zoned below
    except ValueError as error:
        raise entry.fault(field, expected=expected, found=describe(value)) from error
    return place_in_zone(time, zone=zone, entry=entry, field=field)
