"""How a question, and the conversation it belongs to, are quoted to a model; for the planner and the answer. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrubjay.quoting import CONTINUED, LINE_BREAK, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

OUR_TAGS = re.compile(r"<(?=\s*/?\s*(?:question|recent|scrubjay)\b)", re.IGNORECASE)
INNER_TAGS = re.compile(r"<(?=\s*/?\s*(?:question|recent)\b)", re.IGNORECASE)


def quote(words: str) -> str:
    """Keep what somebody wrote from ending the quotation or posing as a line of ours."""
    return LINE_BREAK.sub(CONTINUED, OUR_TAGS.sub("&lt;", words))


def quote_evidence(text: str) -> str:
    """Keep what stands in a rendered context, whose lines and markers are quoted already, from posing as the question."""
    return INNER_TAGS.sub("&lt;", text)


def render_moment(now: datetime) -> str:
    """Give a moment with its weekday and zone, which "last Friday" needs."""
    return f"{now.date()}, {WEEKDAYS[now.weekday()]}, {now:%H:%M} {now.tzname()}"


def render_question(question: str) -> str:
    return f"<question>\n{quote(question.strip())}\n</question>"


def render_recent(recent: Sequence[str], *, lines: int, characters: int) -> str:
    """Give as many of the latest lines as fit, in their order; "" where there are none."""
    shown: list[str] = []
    for text in reversed(recent[-lines:] if lines else []):
        line = quote(f"- {text.strip()}")[:characters]
        characters -= len(line)
        if line:
            shown.insert(0, line)
    said = "\n".join(shown)
    return f"<recent>\n{said}\n</recent>\n" if said else ""
