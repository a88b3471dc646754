"""Find the time a question asks about, without a model.

A cheap cue first; then the words are read (`date_names`), the phrases among them found (`date_grammar`) and joined
here to ranges ("from June to August 2022") and to what lies before or after ("since last summer").
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from scrubjay.datatypes import DatePrecision, TimeRange
from scrubjay.date_grammar import BESIDE_PHRASES, PHRASES
from scrubjay.date_names import has_cue, read_tokens
from scrubjay.date_rules import Match, find_matches
from scrubjay.date_spans import Span, add_units, join
from scrubjay.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from scrubjay.date_names import Meaning, Token

RESOLUTION = timedelta.resolution
LONGEST_QUESTION = 2_000  # characters that are looked at: what asks about a time is short
LONGEST_BESIDE = 5  # tokens of "two days before the", before a day


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A phrase of a question that names a time: its tokens [first, stop), its span, and how it was found."""

    first: int
    stop: int
    span: Span
    match: Match


def find_time_range(question: str, reference: datetime) -> TimeRange | None:
    """Find the time range that a question names, seen from `reference` and in its time zone.

    Months, days and weekdays without a year are the latest that have come. A date of the calendar goes before a
    relative one; of several, the first counts. What is vague or could be no date at all gives None.
    """
    if reference.tzinfo is None:
        raise QuestionError("the reference time has no time zone; give an aware datetime")
    question = question[:LONGEST_QUESTION]
    if not has_cue(question):
        return None
    tokens = read_tokens(question)
    mentions = list(find_mentions(tokens, reference))
    if joined := next(find_ranges(tokens, mentions), None):
        return bounded_range(question, tokens, joined)
    named = [mention for mention in mentions if is_supported(tokens, mention)]
    if not named:
        return None
    chosen = min(named, key=lambda mention: not mention.match.rule.absolute)
    return bounded_range(question, tokens, beside_day(tokens, chosen))


def find_mentions(tokens: Sequence[Token], reference: datetime) -> Iterator[Mention]:
    """Give the phrases that could name a time, from left to right, each the longest that the calendar allows."""
    place = 0
    while place < len(tokens):
        for match in find_matches(PHRASES, tokens, place) if tokens[place].meanings else ():
            if (place == 0 or not match.rule.leading) and (span := resolve(match, reference)):
                yield Mention(first=place, stop=match.stop, span=span, match=match)
                place = match.stop
                break
        else:
            place += 1


def resolve(match: Match, reference: datetime) -> Span | None:
    try:
        return match.resolve(reference)
    except (ValueError, OverflowError):  # no such day, a year beyond the calendar, or too vague
        return None


def is_article(token: Token) -> bool:
    return any(meaning.kind == "the" for meaning in token.meanings)


def word_before(tokens: Sequence[Token], mention: Mention, *kinds: str) -> tuple[int, Meaning] | None:
    """Give the word of some kinds before a phrase, articles skipped, if it can be of the same language."""
    for place in range(mention.first - 1, -1, -1):
        for meaning in tokens[place].meanings:
            if meaning.kind in kinds and meaning.languages & mention.match.languages:
                return place, meaning
        if not is_article(tokens[place]):
            break
    return None


def word_after(tokens: Sequence[Token], mention: Mention, kind: str) -> Meaning | None:
    for token in tokens[mention.stop : mention.stop + 1]:
        for meaning in token.meanings:
            if meaning.kind == kind and meaning.languages & mention.match.languages:
                return meaning
    return None


def is_supported(tokens: Sequence[Token], mention: Mention) -> bool:
    """Tell whether a phrase names a time here: "May" does after "in", not by itself."""
    if not mention.match.rule.supported:
        return True
    return word_before(tokens, mention, "at", "bound") is not None


def find_ranges(tokens: Sequence[Token], mentions: Sequence[Mention]) -> Iterator[Mention]:
    """Join two phrases that a word between makes the ends of a range: "from June to August 2022"."""
    for first, last in itertools.pairwise(mentions):
        opened = word_before(tokens, first, "from")
        links = {"to", "dash", "and"} if opened else {"to", "dash"}
        link, articles = tokens[first.stop : first.stop + 1], tokens[first.stop + 1 : last.first]
        linked = any(meaning.kind in links for token in link for meaning in token.meanings)
        sure = opened or not (first.match.rule.supported and last.match.rule.supported)
        if linked and sure and all(map(is_article, articles)) and (span := join_ends(first, last)):
            yield replace(last, first=opened[0] if opened else first.first, span=span)


def join_ends(first: Mention, last: Mention) -> Span | None:
    """Join the ends of a range; an end without a year takes it from the other."""
    start, end = first.span, last.span
    try:
        if "year" in first.match.parts and is_yearless(last):
            end = last.match.resolve(add_units(start.start, "year", 1) - RESOLUTION)
        elif is_yearless(first):
            start = first.match.resolve(end.start)
        return join(start, end)
    except (ValueError, OverflowError):  # the ends are in the wrong order, or there is no such day
        return None


def is_yearless(mention: Mention) -> bool:
    return not {"year", "date", "unit", "step"} & mention.match.parts.keys()


def beside_day(tokens: Sequence[Token], day: Mention) -> Mention:
    """Give the time named by a day, if the words before it do so: "the week before 3 May"; else the day itself."""
    if day.span.precision is not DatePrecision.DAY:
        return day
    for place in range(max(0, day.first - LONGEST_BESIDE), day.first):
        for match in find_matches(BESIDE_PHRASES, tokens, place):
            span = resolve(match, day.span.start)
            if span and match.stop == day.first:
                return replace(day, first=place, span=span)
    return day


def bounded_range(question: str, tokens: Sequence[Token], named: Mention) -> TimeRange:
    """Turn what a phrase names into a range, open on one side after "since", "until", "before" or "after"."""
    first, stop, span = named.first, named.stop, named.span
    bound = ""
    if before := word_before(tokens, named, "bound"):
        first, bound = before[0], before[1].name
    elif after := word_after(tokens, named, "bound-end"):
        stop, bound = stop + 1, after.name
    start, end = {
        "since": (span.start, None),
        "after": (span.end, None),
        "before": (None, span.start),
        "until": (None, span.end),
    }.get(bound, (span.start, span.end))
    text = question[tokens[first].start : tokens[stop - 1].end]
    return TimeRange(start=start, end=end, precision=span.precision, text=text)
