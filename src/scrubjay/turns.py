"""Turns as callers give them, checked before anything is stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scrubjay.datatypes import AddReport, NewTurn, Role
from scrubjay.errors import InputError, TurnError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.datatypes import JsonValue

TurnLike = NewTurn | Mapping[str, object]

PAIR = 2
SHOWN = 80  # characters of what was found
HIGHEST_INDEX = 1_000_000_000  # of a turn in its session; indexes keep places in 32 bits

FIELD_OF_KEY = {
    "role": "role",
    "text": "text",
    "content": "text",
    "speaker": "speaker",
    "name": "speaker",
    "said_at": "said_at",
    "created_at": "said_at",
    "turn_id": "turn_id",
    "id": "turn_id",
    "index": "index",
    "caption": "caption",
    "metadata": "metadata",
}
"""The keys a mapping may have, OpenAI's message keys among them → our field."""


def read_turns(
    given: TurnLike | Iterable[TurnLike], *, said_at: datetime | None = None, first: int = 0
) -> list[NewTurn]:
    """Check turns given as NewTurn or as mappings; `said_at` is the time of those that have none.

    Raise TurnError naming the first that can't be stored, counted from `first`, what was found and what to do.
    """
    several = [given] if isinstance(given, NewTurn | Mapping) else given
    if isinstance(several, str) or not isinstance(several, Iterable):
        raise TurnError(
            f"turn {first}: expected turns such as {{'role': 'user', 'content': '…'}}, found {type(several).__name__}: "
            "say who spoke with role= 'user', 'assistant', 'system' or 'tool'"
        )
    turns = []
    for place, item in enumerate(several, start=first):
        turn = complete_turn(item, place) if isinstance(item, NewTurn) else turn_of_mapping(item, place)
        if turn.said_at is None and said_at is not None:
            turn = replace(turn, said_at=said_at)
        require_valid(turn, place)
        turns.append(turn)
    return turns


def read_session(
    session_id: str, turns: TurnLike | Iterable[TurnLike], *, said_at: datetime | None = None
) -> list[tuple[str, NewTurn]]:
    """Check the turns of a session and its id."""
    require_id(session_id, "session_id")
    return [(session_id, turn) for turn in read_turns(turns, said_at=said_at)]


def read_pairs(given: Iterable[tuple[str, TurnLike]]) -> Iterator[tuple[str, NewTurn]]:
    """Check turns given each with its session's id, as they come; raise TurnError for the first that can't be stored."""
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise TurnError(
            f"expected pairs of a session's id and a turn, found {type(given).__name__}: "
            "give [('monday', {'role': 'user', 'content': '…'}), …], or use add for one session"
        )
    for place, pair in enumerate(given):
        if not isinstance(pair, tuple | list) or len(pair) != PAIR:
            raise TurnError(
                f"turn {place}: expected a pair of a session's id and a turn, found {shorten(pair)}: "
                "give ('monday', {'role': 'user', 'content': '…'})"
            )
        session_id, turn = pair
        require_id(session_id, f"turn {place}: session_id")
        yield from ((session_id, checked) for checked in read_turns(turn, first=place))


def complete_turn(given: NewTurn, place: int) -> NewTurn:
    """Read what a NewTurn was given as text, as a mapping's fields are."""
    if isinstance(given.role, Role) and (given.said_at is None or isinstance(given.said_at, datetime)):
        return given
    return replace(given, role=read_role(given.role, place), said_at=read_time(given.said_at, place))


def turn_of_mapping(given: object, place: int) -> NewTurn:
    if not isinstance(given, Mapping):
        raise TurnError(f"turn {place}: expected a NewTurn or a mapping, found {type(given).__name__}")
    fields: dict[str, object] = {}
    for key, value in given.items():
        field = FIELD_OF_KEY.get(key)
        if field is None:
            raise TurnError(
                f"turn {place}: unknown field {key!r}; known are {', '.join(FIELD_OF_KEY)}; put your own into metadata"
            )
        if field in fields:
            raise TurnError(f"turn {place}: {field} is given twice, as {key!r} and by its other name")
        fields[field] = value
    if "role" not in fields:
        raise TurnError(f"turn {place}: role is missing: one of {', '.join(Role)}")
    fields.setdefault("text", "")
    fields["role"] = read_role(fields["role"], place)
    fields["said_at"] = read_time(fields.get("said_at"), place)
    if fields.get("metadata") is None:
        fields.pop("metadata", None)
    return NewTurn(**fields)  # type: ignore[arg-type]  # require_valid checks the types next


def shorten(given: object) -> str:
    shown = repr(given)
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"


def read_role(given: object, place: int) -> Role:
    try:
        return Role(str(given))
    except ValueError as error:
        raise TurnError(f"turn {place}: unknown role {given!r}: one of {', '.join(Role)}") from error


def read_time(given: object, place: int) -> datetime | None:
    """Read a datetime, ISO 8601 text, or seconds since 1970 UTC."""
    if given is None or isinstance(given, datetime):
        return given
    try:
        if isinstance(given, str):
            return datetime.fromisoformat(given)
        if isinstance(given, int | float) and not isinstance(given, bool):
            return datetime.fromtimestamp(given, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise TurnError(f"turn {place}: said_at {given!r} is no time ({error})") from error
    raise TurnError(f"turn {place}: said_at: expected a datetime, ISO 8601 text or seconds, found {given!r}")


def require_valid(turn: NewTurn, place: int) -> None:
    where = f"turn {place}"
    if not isinstance(turn.text, str):
        raise TurnError(
            f"{where}: text: expected text, found {type(turn.text).__name__}: give what was said as one string"
        )
    if not turn.text and not turn.caption:
        raise TurnError(f"{where}: the text is empty: leave the turn out, or give a caption for an image")
    for name, value in (("speaker", turn.speaker), ("caption", turn.caption)):
        if value is not None and not (isinstance(value, str) and value):
            raise TurnError(f"{where}: {name}: expected text or None, found {value!r}")
    if turn.turn_id is not None:
        require_id(turn.turn_id, f"{where}: turn_id")
    if turn.index is not None and not is_place(turn.index):
        raise TurnError(
            f"{where}: index: expected a whole number from 0 to {HIGHEST_INDEX}, found {turn.index!r}"
        )
    require_aware(turn.said_at, where)
    require_json(turn.metadata, where)


def is_place(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= HIGHEST_INDEX


def require_id(given: object, what: str) -> None:
    """Raise TurnError unless this can name a session or a turn: text, not empty, valid Unicode."""
    if not isinstance(given, str) or not given:
        raise TurnError(f"{what}: expected text that isn't empty, found {given!r}")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise TurnError(f"{what}: {given!r} has a lone surrogate, which is no valid Unicode") from error


def require_aware(said_at: datetime | None, where: str) -> None:
    if said_at is None:
        return
    if not isinstance(said_at, datetime):
        raise TurnError(f"{where}: said_at: expected a datetime, found {said_at!r}")
    if said_at.utcoffset() is None:
        raise TurnError(
            f"{where}: said_at {said_at.isoformat()} has no time zone: give one, such as "
            "datetime(..., tzinfo=ZoneInfo('Europe/Berlin')), or leave said_at out if it isn't known"
        )
    try:
        said_at.astimezone(UTC)
    except OverflowError as error:
        raise TurnError(
            f"{where}: said_at {said_at.isoformat()} is in no year from 1 to 9999 of UTC"
        ) from error


def require_json(metadata: Mapping[str, JsonValue], where: str) -> None:
    if not isinstance(metadata, Mapping):
        raise TurnError(f"{where}: metadata: expected a mapping, found {type(metadata).__name__}")
    if not metadata:
        return
    try:
        kept = json.loads(json.dumps(dict(metadata), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TurnError(f"{where}: metadata can't be kept as JSON ({error})") from error
    if kept != dict(metadata):
        raise TurnError(
            f"{where}: metadata can't be kept unchanged: keys are text, and sequences lists, in JSON"
        )


def require_one_filter(
    *, turn: str | None, session: str | None, before: datetime | None, everything: bool
) -> None:
    """Raise InputError unless exactly one thing says what to forget."""
    if sum((turn is not None, session is not None, before is not None, everything)) != 1:
        raise InputError("say what to forget: exactly one of turn=, session=, before= or everything=True")
    if before is not None and before.utcoffset() is None:
        raise InputError(f"before={before.isoformat()} has no time zone: give an aware datetime")


def read_batches(turns: Iterable[tuple[str, TurnLike]], *, size: int) -> Iterator[list[tuple[str, NewTurn]]]:
    """Check turns, each with its session's id, and give so many at a time; the last may be fewer, or none."""
    batch: list[tuple[str, NewTurn]] = []
    for pair in read_pairs(turns):
        batch.append(pair)
        if len(batch) == size:
            yield batch
            batch = []
    yield batch


def join_reports(reports: Sequence[AddReport]) -> AddReport:
    """Give what several additions did together."""
    return AddReport(
        turn_ids=tuple(turn_id for report in reports for turn_id in report.turn_ids),
        added=sum(report.added for report in reports),
        unchanged=sum(report.unchanged for report in reports),
    )
