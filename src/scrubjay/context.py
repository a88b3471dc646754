"""What is handed to a model: records, then turns, as quoted data with a header for each day."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from scrubjay.datatypes import Stance
from scrubjay.quoting import CONTINUED, LINE_BREAK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from scrubjay.datatypes import NewTurn, Record, RecordTime, Turn

OPENING = "<scrubjay>"
CLOSING = "</scrubjay>"
"""The marker of recalled memory: what stands between is never taken as said again."""

MARKER = re.compile(r"<(?=\s*/?\s*scrubjay)", re.IGNORECASE)

UNDATED = "undated"
RECORDS = -1  # stands for the session of what was made from several
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    """A turn that wants a place in the context."""

    turn: Turn
    session: int  # sessions are shown in this order
    value: float  # the least valuable are left out first
    excerpt: tuple[int, int] | None  # characters to show of a long turn
    tokens: int | None = None  # of its line without the number, where known


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordItem:
    """A record that wants a place in the context, before the turns."""

    record: Record
    said_at: datetime | None  # of the last turn it was made from
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The rendered text, its length, and which items it shows, in order of their numbers."""

    text: str
    tokens: int
    shown: tuple[int, ...]  # places in the items given; the n-th is number n
    line_tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the context, its tokens, and the place of the item it shows; a header shows none."""

    text: str
    tokens: int
    place: int | None


def render_context(
    items: Sequence[ContextItem | RecordItem],
    *,
    max_tokens: int,
    count_tokens: Callable[[Sequence[str]], list[int]],
) -> Context:
    """Render the most valuable items that fit in `max_tokens`: records, the newest first, then turns in their order.

    Numbers are given to what is shown, so leaving something out can save a header and a digit besides its line:
    the rest is therefore rendered again until it fits.
    """
    kept = arrange_items(items)
    markers = sum(count_tokens([OPENING, CLOSING]))
    while kept:
        lines = render_lines(items, kept, count_tokens)
        tokens = markers + sum(line.tokens for line in lines)
        if tokens <= max_tokens:
            shown = [line for line in lines if line.place is not None]
            return Context(
                text="\n".join([OPENING, *(line.text for line in lines), CLOSING]),
                tokens=tokens,
                shown=tuple(kept),
                line_tokens=tuple(line.tokens for line in shown),
            )
        kept = without_least(lines, items, over=tokens - max_tokens)
    return Context(text="", tokens=0, shown=(), line_tokens=())


def arrange_items(items: Sequence[ContextItem | RecordItem]) -> list[int]:
    """Put records before turns: by day said, the newest first, in a day what is supported first; undated ones last."""
    records = [
        (*record_order(item), place) for place, item in enumerate(items) if isinstance(item, RecordItem)
    ]
    turns = [
        (item.session, item.turn.index, place)
        for place, item in enumerate(items)
        if isinstance(item, ContextItem)
    ]
    return [*(place for *_, place in sorted(records)), *(place for *_, place in sorted(turns))]


def record_order(item: RecordItem) -> tuple[int, bool, float]:
    day = -item.said_at.date().toordinal() if item.said_at else 1
    return day, not item.record.support.supported, -item.value


def without_least(
    lines: Sequence[Line], items: Sequence[ContextItem | RecordItem], *, over: int
) -> list[int]:
    """Leave out the least valuable items until their lines, and headers left without any, make up for what is over."""
    header_of_place: dict[int, int] = {}
    header = 0
    for at, line in enumerate(lines):
        if line.place is None:
            header = at
        else:
            header_of_place[line.place] = header
    under = Counter(header_of_place.values())
    shown = {line.place: line.tokens for line in lines if line.place is not None}
    dropped: set[int] = set()
    for place in sorted(shown, key=lambda place: (items[place].value, -place)):
        if over <= 0:
            break
        dropped.add(place)
        header = header_of_place[place]
        under[header] -= 1
        over -= shown[place] + (0 if under[header] else lines[header].tokens)
    return [place for place in shown if place not in dropped]


def render_lines(
    items: Sequence[ContextItem | RecordItem],
    kept: Sequence[int],
    count_tokens: Callable[[Sequence[str]], list[int]],
) -> list[Line]:
    """Give the lines between the markers: a header for each day of records and of each session, and a line an item."""
    number_of = {
        item.turn.turn_id: number
        for number, place in enumerate(kept, start=1)
        if isinstance(item := items[place], ContextItem)
    }
    texts: list[tuple[str, int | None, int | None]] = []  # a line, its item's place, its tokens where known
    last: tuple[int, str] | None = None
    for number, place in enumerate(kept, start=1):
        item = items[place]
        here, header = header_of(item)
        if here != last:
            texts.append((header, None, None))
            last = here
        if isinstance(item, RecordItem):
            texts.append((f"[{number}] {record_line(item, number_of)}", place, None))
        else:
            texts.append((f"[{number}] {turn_line(item.turn, item.excerpt)}", place, item.tokens))
    return count_lines(texts, count_tokens)


def count_lines(
    texts: Sequence[tuple[str, int | None, int | None]], count_tokens: Callable[[Sequence[str]], list[int]]
) -> list[Line]:
    """Count the tokens of lines; of those whose words are counted, only the number: they add up over parts that a blank divides."""
    asked = [text if known is None else text.partition(" ")[0] for text, _, known in texts]
    return [
        Line(text=text, tokens=counted + (known or 0), place=place)
        for (text, place, known), counted in zip(texts, count_tokens(asked), strict=True)
    ]


def header_of(item: ContextItem | RecordItem) -> tuple[tuple[int, str], str]:
    """Give what an item shares its header with, and the header."""
    if isinstance(item, RecordItem):
        day = "at an unknown time" if item.said_at is None else day_text(item.said_at.date())
        return (RECORDS, day), f"# said {day}"
    said_at = item.turn.said_at
    return (item.session, day_key(said_at)), header_line(said_at)


def record_line(item: RecordItem, number_of: Mapping[str, int]) -> str:
    """Give a record's type, standing, speaker, time and statement, and the numbers of its turns where they are shown."""
    record = item.record
    said_on = None if item.said_at is None else item.said_at.date()
    words = [record.type.value.replace("_", " ")]
    words += [record.stance.value] if record.stance is not Stance.ASSERTED else []
    words += [] if record.support.supported else ["unsupported"]
    words += [LINE_BREAK.sub(" ", name) for name in shown_speaker(record)]
    words += [when for when in (time_text(record.time, said_on),) if when]
    numbers = sorted({number_of[turn_id] for turn_id in record.turn_ids if turn_id in number_of})
    source = f" (from {', '.join(f'[{number}]' for number in numbers)})" if numbers else ""
    return quote(f"{', '.join(words)}: {record.text}") + source


def shown_speaker(record: Record) -> tuple[str, ...]:
    """Give who said it, unless the statement begins with that name or nobody is known."""
    return (record.speaker,) if record.speaker and not record.text.startswith(record.speaker) else ()


def time_text(time: RecordTime, said_on: date | None) -> str:
    """Give when a record's content happened or holds, with weekdays; the day on which it was said is "that day"."""
    start, stop = time.t_valid_from, time.t_valid_to
    if time.t_ref is not None and start in (None, time.t_ref) and stop in (None, time.t_ref):
        return iso_text(time.t_ref, said_on)
    if start is not None and start == stop:
        return iso_text(start, said_on)
    parts = [
        f"{word} {iso_text(iso, None)}"
        for word, iso in (("of", time.t_ref), ("from", start), ("until", stop))
        if iso is not None
    ]
    return " ".join(parts)


def iso_text(iso: str, said_on: date | None) -> str:
    """Give an ISO date of any precision as it is read."""
    parts = [int(part) for part in iso.split("-")]
    if len(parts) == 1:
        return f"{parts[0]}"
    if len(parts) == 2:
        return f"{MONTHS[parts[1] - 1]} {parts[0]}"
    day = date(*parts)
    return "that day" if day == said_on else day_text(day)


def day_text(day: date) -> str:
    return f"{WEEKDAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]} {day.year}"


def turn_line(turn: Turn | NewTurn, excerpt: tuple[int, int] | None) -> str:
    """Give who spoke and what they said, on one line and indented ones."""
    words = turn.text
    if excerpt is not None:
        start, stop = excerpt
        words = (
            f"{'… ' if start else ''}{turn.text[start:stop].strip()}{' …' if stop < len(turn.text) else ''}"
        )
    if turn.caption:
        words = f"{words} [image: {turn.caption}]" if words else f"[image: {turn.caption}]"
    return quote(f"{LINE_BREAK.sub(' ', turn.speaker or turn.role.value)}: {words}")


def quote(words: str) -> str:
    """Keep stored words from ending the quotation or posing as a line of ours."""
    return LINE_BREAK.sub(CONTINUED, MARKER.sub("&lt;", words))


def header_line(said_at: datetime | None) -> str:
    """Give the day, time and zone of what follows."""
    if said_at is None:
        return f"# {UNDATED}"
    return f"# {day_text(said_at.date())} {said_at.hour:02}:{said_at.minute:02} {said_at.tzname()}"


def day_key(said_at: datetime | None) -> str:
    return UNDATED if said_at is None else said_at.date().isoformat()
