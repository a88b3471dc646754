"""Pieces of a turn that are short enough to be indexed each by itself."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from scrubjay.datatypes import Passage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.datatypes import NewTurn, Turn

BREAK = re.compile(r"\n\s*\n|\n|(?<=[.!?])\s|(?<=[。！？])")
"""Where a piece may end: a blank line, a line, a sentence."""


def passage_text(turn: NewTurn | Turn, start: int, stop: int) -> str:
    """Give what is indexed of a piece: who speaks, the words, what an image shows."""
    words = turn.text[start:stop]
    if turn.caption:
        words = f"{words} [image: {turn.caption}]" if words else f"[image: {turn.caption}]"
    return f"{turn.speaker}: {words}" if turn.speaker else words


def split_passages(turn: NewTurn, token_starts: Sequence[int], *, most_tokens: int) -> list[Passage]:
    """Cut a turn into passages of at most `most_tokens` tokens, at the ends of sentences where there are any.

    `token_starts` are the characters at which the tokens of the turn's text begin.
    """
    cuts = [0, *cut_places(turn.text, token_starts, most_tokens=most_tokens), len(turn.text)]
    return [
        Passage(start=start, stop=stop, text=passage_text(turn, start, stop))
        for start, stop in pairwise(cuts)
    ]


def cut_places(text: str, token_starts: Sequence[int], *, most_tokens: int) -> list[int]:
    cuts: list[int] = []
    first = 0  # token at which the passage begins
    while len(token_starts) - first > most_tokens:
        middle, end = token_starts[first + most_tokens // 2], token_starts[first + most_tokens]
        breaks = [found.end() for found in BREAK.finditer(text, middle, end)]
        cut = breaks[-1] if breaks else end
        cuts.append(cut)
        while first < len(token_starts) and token_starts[first] < cut:
            first += 1
    return cuts
