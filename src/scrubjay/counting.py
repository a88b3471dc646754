"""Numbers of things, as people write them."""

from __future__ import annotations


def number_of(count: int, noun: str) -> str:
    """Give "1 turn", "2,000 turns": of nouns whose plural takes an s."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
