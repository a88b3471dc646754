"""Calendar arithmetic for dates in questions: spans of days, weeks, months and years around a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scrubjay.datatypes import DatePrecision

DAY = timedelta(days=1)
MONTHS = {"month": 1, "quarter": 3, "half": 6, "year": 12}
CLOCK = {"hour": timedelta(hours=1), "minute": timedelta(minutes=1)}
SEASON_MONTHS = 3

FUZZY_REACH = {"couple": (3, 1), "few": (5, 2)}
"""How many units back "a couple" and "a few" reach: from the first to the second."""

FUZZY_DAYS = {"day": 1, "week": 7, "month": 30}
"""Days of the units that may be counted loosely; a few years ago is too vague to be a range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A half-open stretch of time of a said precision."""

    start: datetime
    end: datetime
    precision: DatePrecision


def midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def add_months(moment: datetime, months: int) -> datetime:
    """Move by months, to the last day of a month that is too short."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    first = moment.replace(year=year, month=month + 1, day=1)
    last = (first.replace(day=28) + 4 * DAY).replace(day=1) - DAY if moment.day > 28 else None
    return first.replace(day=min(moment.day, last.day) if last else moment.day)


def add_units(moment: datetime, unit: str, count: int) -> datetime:
    if unit in MONTHS:
        return add_months(moment, count * MONTHS[unit])
    return moment + count * (CLOCK.get(unit) or (DAY if unit == "day" else 7 * DAY))


def day_span(moment: datetime) -> Span:
    start = midnight(moment)
    return Span(start=start, end=start + DAY, precision=DatePrecision.DAY)


def date_span(reference: datetime, year: int, month: int, day: int) -> Span:
    return day_span(reference.replace(year=year, month=month, day=day))


def months_span(reference: datetime, year: int, month: int, unit: str) -> Span:
    """Give the span of a month, quarter, half, season or year that begins with a month."""
    start = midnight(reference).replace(year=year, month=month, day=1)
    precision = DatePrecision.OTHER if unit == "half" else DatePrecision(unit)
    return Span(start=start, end=add_months(start, MONTHS.get(unit, SEASON_MONTHS)), precision=precision)


def unit_span(reference: datetime, unit: str, offset: int) -> Span:
    """Give the calendar unit that lies `offset` units from the one the reference is in; weeks begin on Monday."""
    if unit in CLOCK:
        start = (
            midnight(reference)
            + (reference - midnight(reference)) // CLOCK[unit] * CLOCK[unit]
            + offset * CLOCK[unit]
        )
        return Span(start=start, end=start + CLOCK[unit], precision=DatePrecision(unit))
    today = midnight(reference)
    if unit == "day":
        return day_span(today + offset * DAY)
    monday = today + (7 * offset - today.weekday()) * DAY if unit in {"week", "weekend"} else today
    if unit == "week":
        return Span(start=monday, end=monday + 7 * DAY, precision=DatePrecision.WEEK)
    if unit == "weekend":
        return Span(start=monday + 5 * DAY, end=monday + 7 * DAY, precision=DatePrecision.OTHER)
    first = (today.month - 1) // MONTHS[unit] * MONTHS[unit] + 1
    begin = add_months(today.replace(month=first, day=1), offset * MONTHS[unit])
    return months_span(reference, begin.year, begin.month, unit)


def rolling_span(reference: datetime, unit: str, count: int) -> Span:
    """Give the last `count` units, today included, or the next ones from today where `count` is negative."""
    if not count:
        raise ValueError(f"no {unit} is no length of time")
    if unit in CLOCK:
        start, end = sorted((reference, add_units(reference, unit, -count)))
        return Span(start=start, end=end, precision=DatePrecision(unit))
    today = midnight(reference)
    start, end = sorted((today, add_units(today, unit, -count)))
    return Span(start=start, end=end + DAY, precision=DatePrecision.DAY)


def span_beside(reference: datetime, unit: str, step: int) -> Span:
    """Give the unit that ends where the reference's day begins (step -1), or begins where it ends (step 1)."""
    day = day_span(reference)
    if unit == "weekend":
        near = unit_span(reference, unit, min(step, 0))
        return near if step < 0 or near.start >= day.end else unit_span(reference, unit, step)
    if step < 0:
        return Span(start=add_units(day.start, unit, step), end=day.start, precision=day.precision)
    return Span(start=day.end, end=add_units(day.end, unit, step), precision=day.precision)


def week_of_month(month: Span, number: int) -> Span:
    start = month.start + 7 * (number - 1) * DAY
    if not month.start <= start < month.end:
        raise ValueError(f"a month has no week {number}")
    return Span(start=start, end=start + 7 * DAY, precision=DatePrecision.WEEK)


def fuzzy_span(reference: datetime, unit: str, amount: str) -> Span:
    """Give the days that "a few weeks ago" may mean."""
    if unit not in FUZZY_DAYS:
        raise ValueError(f"{amount} of {unit} is too vague for a range")
    far, near = FUZZY_REACH[amount]
    today = midnight(reference)
    start, last = today - far * FUZZY_DAYS[unit] * DAY, today - near * FUZZY_DAYS[unit] * DAY
    return Span(start=start, end=last + DAY, precision=DatePrecision(unit))


def recurring_span(reference: datetime, month: int, unit: str, step: int | None = None) -> Span:
    """Give a month or season without a year: the latest that has begun, or the last, this or next one."""
    spans = [months_span(reference, reference.year + year, month, unit) for year in (-2, -1, 0, 1)]
    if step is None:
        return max((span for span in spans if span.start <= reference), key=lambda span: span.start)
    if step < 0:
        return max((span for span in spans if span.end <= reference), key=lambda span: span.start)
    if step > 0:
        return min((span for span in spans if span.start > reference), key=lambda span: span.start)
    return spans[2]


def latest_date(reference: datetime, month: int, day: int) -> Span:
    """Give the latest such day that is not after the reference; the 29th of February may be years back."""
    for year in range(reference.year, reference.year - 9, -1):
        try:
            span = date_span(reference, year, month, day)
        except ValueError:  # this year has no such day
            continue
        if span.start <= reference:
            return span
    raise ValueError(f"no year has a day {day} of month {month}")


def weekday_span(reference: datetime, weekday: int, step: int = -1) -> Span:
    """Give the nearest such weekday before the reference's day, in its week (step 0), or after it."""
    today = midnight(reference)
    if step == 0:
        return day_span(today + (weekday - today.weekday()) * DAY)
    distance = (
        (today.weekday() - weekday - 1) % 7 + 1 if step < 0 else -((weekday - today.weekday() - 1) % 7 + 1)
    )
    return day_span(today - distance * DAY)


def join(first: Span, last: Span) -> Span:
    """Give the stretch from the start of one span to the end of a later one."""
    if last.end <= first.start:
        raise ValueError(f"{last.end} is not after {first.start}")
    return Span(start=first.start, end=last.end, precision=last.precision)
