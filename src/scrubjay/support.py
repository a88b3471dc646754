"""Whether a record follows from the turns it cites: its names, numbers, dates and words stand there. Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from scrubjay.datatypes import Support
from scrubjay.date_names import has_cue, read_tokens
from scrubjay.date_spans import unit_span
from scrubjay.dates import find_mentions, is_yearless
from scrubjay.iso_dates import first_and_last_day
from scrubjay.terms import extract_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrubjay.datatypes import RecordTime, ReferenceContext, Turn
    from scrubjay.date_names import Token
    from scrubjay.date_spans import Span
    from scrubjay.settings import SupportSettings

NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
CAPITALISED = re.compile(r"(?<![\w'’.-])[^\W\d_a-z][\w'’-]*")
WORD = re.compile(r"[^\W\d_][\w'’-]*")
SENTENCE_START = re.compile(r"(?:^|[.!?:;…\"“„(]\s*)$")
NUMBER_KINDS = frozenset({"number", "ordinal", "day", "year"})
CALENDAR_KINDS = frozenset({"month", "weak-month", "weekday"})
PREFIX = 4  # letters that a name's forms share: Italy, Italian
LASTING = frozenset({"day", "week", "month", "year"})
WEEK = timedelta(days=7)
FEBRUARY, SHORTEST_FEBRUARY = 2, 28
SOME_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # where a turn has no time, only dates with a year are read


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What a record may follow from: turns with the words shown of them, and the reference context.

    Without slots, so that what is read off the turns is read once.
    """

    cited: tuple[tuple[Turn, str], ...]
    around: tuple[tuple[Turn, str], ...]  # all turns of the segment: a name may be resolved from any
    reference: ReferenceContext

    @cached_property
    def cited_parts(self) -> tuple[str, ...]:
        """Give the texts whose words and numbers may be repeated."""
        return (*parts_of(self.cited), self.reference.note, *self.reference.records)

    @cached_property
    def cited_terms(self) -> frozenset[str]:
        return terms_of([*self.cited_parts, *(turn.speaker or "" for turn, _ in self.around)])

    @cached_property
    def all_parts(self) -> tuple[str, ...]:
        """Give the texts that may name someone or something."""
        return (*self.cited_parts, *parts_of(self.around))

    @cached_property
    def all_terms(self) -> frozenset[str]:
        return terms_of(self.all_parts)

    @cached_property
    def said_numbers(self) -> frozenset[str]:
        return frozenset(number for part in self.cited_parts for number in numbers_said(part))

    @cached_property
    def days(self) -> tuple[tuple[date, date], ...]:
        """Give the first and last day of every time that the cited turns were said at, or name."""
        found = [days for turn, words in self.cited for days in days_named(turn.said_at, words)]
        for text in (self.reference.note, *self.reference.records):
            found.extend(days_named(None, text))
        return tuple(found)


def parts_of(shown: Sequence[tuple[Turn, str]]) -> Iterator[str]:
    for turn, words in shown:
        yield from (part for part in (turn.role.value, turn.speaker, words, turn.caption) if part)


def terms_of(texts: Iterable[str]) -> frozenset[str]:
    """Give the terms of each text by itself: the language of one must not be taken for another's."""
    return frozenset(term for text in texts for term in extract_terms(text))


def check_support(
    text: str, *, entities: Sequence[str], time: RecordTime, sources: Sources, settings: SupportSettings
) -> Support:
    """Say whether a statement is supported by its sources, and if not, by what not."""
    plain = unicodedata.normalize("NFKC", text)
    faults = [
        *missing_names(plain, entities, sources, settings),
        *missing_numbers(plain, sources),
        *missing_dates(time, sources),
        *missing_words(plain, sources, settings),
    ]
    return Support(supported=not faults, reason="; ".join(faults))


def missing_names(
    text: str, entities: Sequence[str], sources: Sources, settings: SupportSettings
) -> Iterator[str]:
    for name in (*entities, *names_in(text, settings)):
        terms = set(extract_terms(name))
        found = sum(has_form(term, sources.all_terms) for term in terms)
        if found < settings.name_share * len(terms) and not any(name in part for part in sources.all_parts):
            yield f"the name {name!r} stands in none of its turns"


def names_in(text: str, settings: SupportSettings) -> list[str]:
    """Give the words written with a capital inside sentences, unless so many are that it says nothing."""
    names = [
        found.group()
        for found in CAPITALISED.finditer(text)
        if found.group()[0].isupper() and not SENTENCE_START.search(text, 0, found.start())
    ]
    words = len(WORD.findall(text))
    calendar = {name for name in names if is_calendar_word(name)}
    if len(names) - len(calendar) > settings.capital_share * words:
        return []
    return [name for name in dict.fromkeys(names) if name not in calendar]


def is_calendar_word(word: str) -> bool:
    return any(meaning.kind in CALENDAR_KINDS for token in read_tokens(word) for meaning in token.meanings)


def has_form(term: str, terms: frozenset[str]) -> bool:
    """Tell whether a name's term is there, or a word that begins like it."""
    return term in terms or (len(term) >= PREFIX and any(other.startswith(term[:PREFIX]) for other in terms))


def missing_numbers(text: str, sources: Sources) -> Iterator[str]:
    dated = {str(part) for days in sources.days for day in days for part in (day.year, day.month, day.day)}
    for number in dict.fromkeys(numbers_written(text)):
        if number not in sources.said_numbers and number not in dated:
            yield f"the number {number} stands in none of its turns"


def numbers_written(text: str) -> list[str]:
    """Give the numbers written in digits, without leading zeros and separators of thousands."""
    digits = THOUSANDS.sub("", unicodedata.normalize("NFKC", text))
    return [found.lstrip("0") or "0" for found in NUMBER.findall(digits)]


def numbers_said(text: str) -> Iterator[str]:
    """Give the numbers in digits, their parts (2024-03-12 holds 12), and those in words."""
    for number in numbers_written(text):
        yield number
        yield from (part.lstrip("0") or "0" for part in re.split(r"[.,:]", number))
    for token in read_tokens(text):
        yield from (str(meaning.number) for meaning in token.meanings if meaning.kind in NUMBER_KINDS)


def missing_dates(time: RecordTime, sources: Sources) -> Iterator[str]:
    for iso in dict.fromkeys((time.t_ref, time.t_valid_from, time.t_valid_to)):
        if iso and not is_date_supported(iso, sources):
            yield f"the date {iso} isn't said, and doesn't follow from when its turns were said"


def is_date_supported(iso: str, sources: Sources) -> bool:
    """Tell whether a date lies in a time that the cited turns name, or were said at."""
    first, last = first_and_last_day(iso)
    return any(first <= end and start <= last for start, end in sources.days)


def days_named(said_at: datetime | None, words: str) -> Iterator[tuple[date, date]]:
    """Give the days that words name, seen from when they were said; a weekday or yearless date may be the next one."""
    if said_at is not None:
        yield said_at.date(), said_at.date()
    tokens = read_tokens(words)
    if said_at is not None:
        yield from begun(tokens, said_at)
    if not has_cue(words):
        return
    for mention in find_mentions(tokens, said_at or SOME_DAY):
        outright = {"year", "date"} & mention.match.parts.keys()
        if said_at is None and not outright:
            continue
        start, end = days_of(mention.span)
        yield start, end
        if "weekday" in mention.match.parts:
            yield start + WEEK, end + WEEK
        if is_yearless(mention):
            yield next_year(start), next_year(end)


def begun(tokens: Sequence[Token], said_at: datetime) -> Iterator[tuple[date, date]]:
    """Give the year, month, week or day in which something began that has lasted "five years"."""
    for counted, named in pairwise(tokens):
        units = {meaning.name for meaning in named.meanings if meaning.kind == "unit"} & LASTING
        for count in (meaning.number for meaning in counted.meanings if meaning.kind == "number"):
            yield from (
                days_of(unit_span(said_at, unit, -count)) for unit in sorted(units) if count < said_at.year
            )


def days_of(span: Span) -> tuple[date, date]:
    return span.start.date(), (span.end - timedelta(microseconds=1)).date()


def next_year(day: date) -> date:
    last = SHORTEST_FEBRUARY if day.month == FEBRUARY else day.day
    return day.replace(year=day.year + 1, day=min(day.day, last))


def missing_words(text: str, sources: Sources, settings: SupportSettings) -> Iterator[str]:
    terms = {term for term in extract_terms(text) if not term[0].isdecimal()}
    found = len(terms & sources.cited_terms)
    if len(terms) >= settings.fewest_words and found < settings.content_share * len(terms):
        yield f"only {found} of its {len(terms)} words stand in its turns"
