"""The phrases that name a time, and what each stands for.

The tables at the end are the grammar, in the notation of `date_rules`; the functions before them turn the words
of a phrase into a span. Each takes the reference moment and the named words, and raises ValueError where the
calendar has no such span or the words are too vague for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay import date_spans as spans
from scrubjay.date_names import Meaning
from scrubjay.date_rules import index_rules, make_rules

if TYPE_CHECKING:
    from datetime import datetime

    from scrubjay.date_rules import Parts, Table
    from scrubjay.date_spans import Span

FIRST_YEAR, LAST_YEAR = 1900, 2099
"""Years that may stand without a month: "in 2023", not "in 4096"."""


def numeric_date(reference: datetime, parts: Parts) -> Span:
    """Read 2023-05-03, 2023-05, 03.05.2023 and 05/23/2023; 05/03/2023 names two days and so none."""
    written = parts["date"].name
    numbers = [int(part) for part in written.replace("/", "-").replace(".", "-").split("-")]
    if len(numbers) == 2:
        return spans.months_span(reference, numbers[0], numbers[1], "month")
    if written[:4].isdecimal():
        return spans.date_span(reference, numbers[0], numbers[1], numbers[2])
    day, month, year = numbers
    if "." not in written and day != month:
        day, month = max(day, month), min(day, month)
        if day <= spans.MONTHS["year"]:
            raise ValueError(f"{written} names two days")
    return spans.date_span(reference, year, month, day)


def written_day(reference: datetime, parts: Parts) -> Span:
    """Read "3 May 2023"; without a year, the latest such day that has come."""
    month, day = parts["month"].number, parts["day"].number
    if "year" not in parts:
        return spans.latest_date(reference, month, day)
    return spans.date_span(reference, parts["year"].number, month, day)


def written_days(reference: datetime, parts: Parts) -> Span:
    """Read "3 to 10 May 2023"."""
    last = written_day(reference, {**parts, "day": parts["last"]})
    return spans.join(
        spans.date_span(reference, last.start.year, parts["month"].number, parts["day"].number), last
    )


def written_month(reference: datetime, parts: Parts) -> Span:
    """Read "May 2023", "last May"; without either, the latest May that has begun."""
    month = parts["month"].number
    if "year" in parts:
        return spans.months_span(reference, parts["year"].number, month, "month")
    return spans.recurring_span(reference, month, "month", parts["step"].number if "step" in parts else None)


def week_of_month(reference: datetime, parts: Parts) -> Span:
    """Read "the second week of May": the days from the 8th to the 14th."""
    require_unit(parts["unit"], "week")
    return spans.week_of_month(written_month(reference, parts), parts["number"].number)


def written_season(reference: datetime, parts: Parts) -> Span:
    """Read "summer 2023", "last summer"; seasons are the northern ones, a winter is named by its December."""
    month = parts["season"].number
    if "year" in parts:
        return spans.months_span(reference, parts["year"].number, month, "season")
    return spans.recurring_span(reference, month, "season", parts["step"].number if "step" in parts else None)


def written_quarter(reference: datetime, parts: Parts) -> Span:
    if "unit" in parts:
        require_unit(parts["unit"], "quarter")
    year = parts["year"].number if "year" in parts else reference.year
    return spans.months_span(reference, year, 3 * parts["number"].number - 2, "quarter")


def written_half(reference: datetime, parts: Parts) -> Span:
    return spans.months_span(reference, reference.year, 6 * parts["half"].number - 5, "half")


def written_year(reference: datetime, parts: Parts) -> Span:
    """Read "the year 2023", "2023年"."""
    if "unit" in parts:
        require_unit(parts["unit"], "year")
    year = parts["year"].number
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise ValueError(f"{year} is not taken for a year")
    return spans.months_span(reference, year, 1, "year")


def within_year(reference: datetime, parts: Parts) -> Span:
    """Read "May last year": a month, or a day of it, in a year counted from now."""
    year = shifted_unit(reference, parts)
    require_unit(parts["unit"], "year")
    dated = {**parts, "year": Meaning("year", "", year.start.year)}
    return written_day(reference, dated) if "day" in parts else written_month(reference, dated)


def weekday(reference: datetime, parts: Parts) -> Span:
    """Read "last Friday"; in Chinese and Japanese, "the Friday of last week"."""
    number = parts["weekday"].number
    if "unit" in parts:
        require_unit(parts["unit"], "week")
        return spans.weekday_span(shifted_unit(reference, parts).start, number, step=0)
    return spans.weekday_span(reference, number, parts["step"].number if "step" in parts else -1)


def relative(reference: datetime, parts: Parts) -> Span:
    return spans.unit_span(reference, parts["unit"].name, parts["unit"].number)


def shifted_unit(reference: datetime, parts: Parts) -> Span:
    """Read "last week", one word or two; "this day" and "the last minute" name no time."""
    if "step" not in parts:
        return relative(reference, parts)
    unit = parts["unit"].name
    if unit in {"day", "hour", "minute"}:
        raise ValueError(f"a {unit} is not named by last, this or next")
    return spans.unit_span(reference, unit, parts["step"].number)


def units_back(reference: datetime, parts: Parts) -> Span:
    return spans.unit_span(reference, parts["unit"].name, -parts["number"].number)


def units_ahead(reference: datetime, parts: Parts) -> Span:
    return spans.unit_span(reference, parts["unit"].name, parts["number"].number)


def fuzzy_back(reference: datetime, parts: Parts) -> Span:
    return spans.fuzzy_span(reference, parts["unit"].name, parts["fuzzy"].name)


def rolling(reference: datetime, parts: Parts) -> Span:
    """Read "the past three weeks", "the next few days", "the past year"."""
    if "number" in parts:
        count = parts["number"].number
    elif "fuzzy" in parts:
        count = spans.FUZZY_REACH[parts["fuzzy"].name][0]
    elif parts["unit"].name in {"minute", "day", "weekend"}:
        raise ValueError(f"a {parts['unit'].name} is no length of time up to now")
    else:
        count = 1
    if "step" in parts and parts["step"].kind == "shift":
        count *= -parts["step"].number
    return spans.rolling_span(reference, parts["unit"].name, count)


def unit_around(reference: datetime, parts: Parts) -> Span:
    """Read "the week of" a day."""
    require_unit(parts["unit"], "week")
    return spans.unit_span(reference, "week", 0)


def unit_beside(reference: datetime, parts: Parts) -> Span:
    """Read "the week before", "last weekend before" or "two days after" a day, which is the reference."""
    unit, step = parts["unit"].name, side(parts)
    if "number" in parts:
        return spans.unit_span(reference, unit, step * parts["number"].number)
    if "step" in parts:
        return shifted_unit(reference, parts)
    return spans.span_beside(reference, unit, step)


def weekday_beside(reference: datetime, parts: Parts) -> Span:
    return spans.weekday_span(reference, parts["weekday"].number, side(parts))


def side(parts: Parts) -> int:
    """Give -1 for before, 1 for after; "Monday since May" is no time."""
    sides = {"before": -1, "after": 1}
    if parts["bound"].name not in sides:
        raise ValueError(f"{parts['bound'].name} is neither before nor after")
    return sides[parts["bound"].name]


def require_unit(meaning: Meaning, unit: str) -> None:
    if meaning.name != unit:
        raise ValueError(f"expected a {unit}, found a {meaning.name}")


MONTH = "month=month|weak-month|short-month"
SURE_MONTH = "month=month|short-month"
FULL_MONTH = "month=month"
DAY = "day=day|ordinal"
WEEKDAY = "weekday=weekday|lone-weekday"
SEASON = "season=season|weak-season"
COUNT = "number=number unit=unit"
FUZZY = "fuzzy=fuzzy of? unit=unit"

DAYS: Table = (
    ("date=date", numeric_date),
    (f"{DAY} sep? of? {MONTH} sep? of? year=year of?", written_day),
    (f"month=month|weak-month sep? the? {DAY} sep? of? year=year", written_day),
    (f"{DAY} sep? of? {SURE_MONTH}", written_day),
    (f"day=ordinal of? {MONTH}", written_day),
    (f"{FULL_MONTH} sep? the? {DAY}", written_day),
    ("month=month|weak-month the? day=ordinal", written_day),
    (f"{DAY} to|dash last=day|ordinal sep? of? {MONTH} sep? of? year=year", written_days),
    (f"{DAY} to|dash last=day|ordinal sep? of? {SURE_MONTH}", written_days),
    (f"month=month|weak-month {DAY} to|dash last=day|ordinal sep? year=year", written_days),
    (f"{FULL_MONTH} {DAY} to|dash last=day|ordinal", written_days),
    (f"from the? {DAY} sep? and last=day|ordinal sep? of? {MONTH} sep? of? year=year", written_days),
    (f"from {FULL_MONTH} {DAY} and last=day|ordinal sep? year=year", written_days),
    ("year=year year-mark month=number month-mark day=day day-mark", written_day),
    ("year=year year-mark month=month day=day day-mark", written_day),
    ("month=number month-mark day=day day-mark", written_day),
    ("month=month day=day day-mark", written_day),
    ("unit=relative month=number month-mark day=day day-mark", within_year),
)
"""Patterns that name a day, or days, of the calendar."""

PERIODS: Table = (
    (f"{MONTH} sep? of? year=year of?", written_month),
    ("year=year year-mark of? month=number month-mark", written_month),
    ("year=year year-mark of? month=month", written_month),
    (f"number=ordinal unit=unit of {MONTH} sep? of? year=year", week_of_month),
    (f"number=ordinal unit=unit of {MONTH}", week_of_month),
    (f"{SEASON} sep? of? year=year", written_season),
    (f"year=year year-mark? of? {SEASON}", written_season),
    ("number=ordinal unit=unit of? the? year=year", written_quarter),
    ("quarter-letter number=number of? year=year", written_quarter),
    ("year=year year-mark of? ordinal-mark? number=number unit=unit", written_quarter),
    ("year=year year-mark", written_year),
    ("unit=unit year=year", written_year),
    ("year=year unit=unit", written_year),
)
"""Patterns that name a month, season, quarter or year of the calendar."""

RELATIVE: Table = (
    ("unit=relative", relative),
    ("unit=relative of? weekday=weekday|lone-weekday|weekday-end", weekday),
    ("unit=relative of? month=month", within_year),
    ("unit=relative of? month=number month-mark", within_year),
    (f"{MONTH} of? the? step=shift unit=unit", within_year),
    (f"{MONTH} of? the? unit=unit step=shift", within_year),
    ("past unit=unit !of", rolling),
    ("step=shift unit=unit !of", shifted_unit),
    ("unit=unit step=shift", shifted_unit),
    (f"step=shift {WEEKDAY}", weekday),
    (f"{WEEKDAY} step=shift", weekday),
    (f"step=shift {MONTH}", written_month),
    (f"{SURE_MONTH} step=shift", written_month),
    (f"step=shift {SEASON}", written_season),
    (f"{SEASON} step=shift", written_season),
    (f"{COUNT} ago-after", units_back),
    (f"ago-before {COUNT}", units_back),
    ("number=number unit=short-unit ago-after", units_back),
    (f"in-before {COUNT}", units_ahead),
    (f"{COUNT} in-after", units_ahead),
    (f"{FUZZY} ago-after", fuzzy_back),
    (f"ago-before {FUZZY}", fuzzy_back),
    (f"step=past|shift {COUNT}", rolling),
    ("number=number step=past unit=unit", rolling),
    (f"step=past|shift {FUZZY}", rolling),
    ("month=lone-month", written_month),
    ("month=number month-mark", written_month),
    ("weekday=lone-weekday", weekday),
    ("season=lone-season", written_season),
    ("half=half", written_half),
    ("ordinal-mark number=number unit=unit", written_quarter),
)
"""Patterns that name a time as seen from now."""

SUPPORTED: Table = (
    (MONTH, written_month),
    ("weekday=weekday", weekday),
    (SEASON, written_season),
    ("year=year", written_year),
    ("number=ordinal unit=unit !of", written_quarter),
    ("quarter-letter number=number", written_quarter),
)
"""Patterns that name a time only after a word such as "in", "since" or between two ends: May, Sunday, 2023."""

LEADING: Table = ((f"in-head {COUNT}", units_ahead),)
"""Patterns that name a time only where a question begins: elsewhere "in two weeks" may say how long it took."""

BESIDE: Table = (
    ("unit=unit of the?", unit_around),
    (f"{COUNT} bound=bound the?", unit_beside),
    ("unit=unit bound=bound the?", unit_beside),
    ("step=shift unit=unit bound=bound the?", unit_beside),
    (f"{WEEKDAY} bound=bound the?", weekday_beside),
)
"""Patterns that, right before a day, name a time by it: "the week before 3 May"."""


PHRASES = index_rules(
    [
        *make_rules(DAYS, absolute=True),
        *make_rules(PERIODS, absolute=True),
        *make_rules(RELATIVE),
        *make_rules(SUPPORTED, supported=True),
        *make_rules(LEADING, leading=True),
    ]
)
BESIDE_PHRASES = index_rules(make_rules(BESIDE))
