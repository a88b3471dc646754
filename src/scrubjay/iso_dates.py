"""Dates of day, month or year precision, as records carry them: "2024-03-12", "2024-03", "2024"."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date

WRITTEN = re.compile(
    r"(\d{4})(?:\s*[-/.年]\s*(\d{1,2}|xx)(?:\s*[-/.月]\s*(\d{1,2}|xx)\s*日?|\s*月)?|\s*年)?(?:[T ].*)?",
    re.IGNORECASE,
)


def read_iso(written: str) -> str | None:
    """Give a date as written by a model in ISO form, a time of day left off; None for what is no date of the calendar."""
    found = WRITTEN.fullmatch(written.strip())
    if found is None:
        return None
    year, month, day = (int(part) if part and part.isdecimal() else None for part in found.groups())
    if not year or (month is not None and not 1 <= month <= 12):
        return None
    if month is None:
        return f"{year:04}"
    if day is None:
        return f"{year:04}-{month:02}"
    return f"{year:04}-{month:02}-{day:02}" if 1 <= day <= monthrange(year, month)[1] else None


def first_and_last_day(iso: str) -> tuple[date, date]:
    """Give the first and the last day of the day, month or year that an ISO date names."""
    year, month, day = ([int(part) for part in iso.split("-")] + [0, 0])[:3]
    if day:
        return date(year, month, day), date(year, month, day)
    if month:
        return date(year, month, 1), date(year, month, monthrange(year, month)[1])
    return date(year, 1, 1), date(year, 12, 31)
