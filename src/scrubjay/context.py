"""What is handed to a model: the chain as quoted data, a header for each day of a session (DESIGN 5.6)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from scrubjay.datatypes import NewTurn, Turn

OPENING = "<scrubjay>"
CLOSING = "</scrubjay>"
"""The marker of recalled memory: what stands between is never taken as said again."""

MARKER = re.compile(r"<(?=\s*/?\s*scrubjay)", re.IGNORECASE)
LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
CONTINUED = "\n  "  # every later line of a turn is indented: a line that begins at the margin is ours

UNDATED = "undated"
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
    items: Sequence[ContextItem], *, max_tokens: int, count_tokens: Callable[[Sequence[str]], list[int]]
) -> Context:
    """Render the most valuable items that fit in `max_tokens`, in order of sessions and turns.

    Numbers are given to what is shown, so leaving something out can save a header and a digit besides its line:
    the rest is therefore rendered again until it fits.
    """
    kept = sorted(range(len(items)), key=lambda place: (items[place].session, items[place].turn.index))
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


def without_least(lines: Sequence[Line], items: Sequence[ContextItem], *, over: int) -> list[int]:
    """Leave out the least valuable items until their lines make up for what is over."""
    shown = {line.place: line.tokens for line in lines if line.place is not None}
    dropped: set[int] = set()
    for place in sorted(shown, key=lambda place: (items[place].value, -place)):
        dropped.add(place)
        over -= shown[place]
        if over <= 0:
            break
    return [place for place in shown if place not in dropped]


def render_lines(
    items: Sequence[ContextItem], kept: Sequence[int], count_tokens: Callable[[Sequence[str]], list[int]]
) -> list[Line]:
    """Give the lines between the markers: a header for each day of a session, and a line an item."""
    lines: list[Line] = []
    last: tuple[int, str] | None = None
    for number, place in enumerate(kept, start=1):
        item = items[place]
        here = (item.session, day_key(item.turn.said_at))
        if here != last:
            header = header_line(item.turn.said_at)
            lines.append(Line(text=header, tokens=count_tokens([header])[0], place=None))
            last = here
        words = turn_line(item.turn, item.excerpt)
        # tokens add up over parts divided by a blank, so what was counted when the turn was stored still holds
        counted = item.tokens if item.tokens is not None else count_tokens([words])[0]
        lines.append(
            Line(text=f"[{number}] {words}", tokens=count_tokens([f"[{number}]"])[0] + counted, place=place)
        )
    return lines


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
    return (
        f"# {WEEKDAYS[said_at.weekday()]} {said_at.day} {MONTHS[said_at.month - 1]} {said_at.year} "
        f"{said_at.hour:02}:{said_at.minute:02} {said_at.tzname()}"
    )


def day_key(said_at: datetime | None) -> str:
    return UNDATED if said_at is None else said_at.date().isoformat()
