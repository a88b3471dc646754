"""Check untrusted values with pydantic, and say what is wrong in the words of the file."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from scrubjay.datatypes import Role
from scrubjay.formats.source import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic_core import ErrorDetails

    from scrubjay.formats.conversation import ReadingLog
    from scrubjay.formats.source import Entry

EXPECTATIONS = {
    "missing": "a value",
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}
ROLES = {role.value: role for role in Role}
MILLISECONDS_FROM = 1e11  # seconds since 1970 reach this in the year 5138; milliseconds did in 1973


class Untrusted(BaseModel):
    """A shape that comes from outside: no conversions are made, what isn't asked for is passed over."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


Shape = TypeVar("Shape", bound=Untrusted)
Item = TypeVar("Item")


def check_shape(shape: type[Shape], value: object, *, entry: Entry) -> Shape:
    """Return the value as the shape says; raise a FormatError that names the field otherwise."""
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    raise entry.fault(_field(first), expected=_expected(first), found=_found(first))


def read_each(
    value: object,
    read_one: Callable[[object, int, Entry], Item | None],
    *,
    part: str,
    entry: Entry,
    log: ReadingLog,
) -> tuple[Item, ...]:
    """Read the elements of a list, each with its place from 0; those that give None are counted as left out."""
    if not isinstance(value, list):
        raise entry.fault(f"{part}s", expected="a list", found=describe(value))
    items: list[Item] = []
    for index, raw in enumerate(value):
        with log.noting_bad():
            item = read_one(raw, index, entry.inside(f"{part} {index + 1}"))
            if item is None:
                log.left_out += 1
            else:
                items.append(item)
    return tuple(items)


def _field(error: ErrorDetails) -> str:
    return ".".join(str(part) for part in error["loc"]) or "the entry"


def _expected(error: ErrorDetails) -> str:
    return EXPECTATIONS.get(error["type"]) or error["msg"].removeprefix("Input should be ")


def _found(error: ErrorDetails) -> str:
    return "nothing" if error["type"] == "missing" else describe(error["input"])


def read_role(name: str, roles: Mapping[str, Role], *, entry: Entry, field: str = "role") -> Role:
    if name not in roles:
        raise entry.fault(field, expected=" or ".join(roles), found=describe(name))
    return roles[name]


def read_time(value: object, *, zone: tzinfo | None, entry: Entry, field: str) -> datetime | None:
    """Read an ISO 8601 text with an offset, or seconds since 1970; None stays None.

    A time without an offset is refused unless the caller names the zone it was written in.
    """
    match value:
        case None:
            return None
        case bool():
            pass
        case int() | float():
            return _from_seconds(value, entry=entry, field=field)
        case str():
            return _from_iso(value, zone=zone, entry=entry, field=field)
    raise entry.fault(field, expected="an ISO 8601 time or seconds since 1970", found=describe(value))


def _from_seconds(value: float, *, entry: Entry, field: str) -> datetime:
    if not math.isfinite(value) or abs(value) >= MILLISECONDS_FROM:
        hint = " (milliseconds?)" if math.isfinite(value) else ""
        raise entry.fault(field, expected="seconds since 1970", found=describe(value) + hint)
    try:
        return datetime.fromtimestamp(value, tz=UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise entry.fault(field, expected="seconds since 1970", found=describe(value)) from error


def _from_iso(value: str, *, zone: tzinfo | None, entry: Entry, field: str) -> datetime:
    try:
        time = datetime.fromisoformat(value)
    except ValueError as error:
        raise entry.fault(field, expected="an ISO 8601 time", found=describe(value)) from error
    if time.utcoffset() is None and zone is None:
        raise entry.fault(
            field,
            expected="a time with its offset, such as 2024-05-01T09:30:00+02:00, or a zone given by the caller",
            found=describe(value),
        )
    return place_in_zone(time, zone=zone, entry=entry, field=field)


def place_in_zone(time: datetime, *, zone: tzinfo | None, entry: Entry, field: str) -> datetime:
    """Fix the offset of a time: its own, or the one the zone had then (UTC where no zone is given)."""
    aware = time if time.utcoffset() is not None else time.replace(tzinfo=zone or UTC)
    try:
        aware.astimezone(UTC)
    except OverflowError as error:
        raise entry.fault(
            field, expected="a time between the years 1 and 9999 UTC", found=str(aware)
        ) from error
    return aware.replace(tzinfo=timezone(aware.utcoffset() or timedelta()))
