"""Pieces of a turn that are indexed each by itself."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from scrubjay.datatypes import NewTurn, Role
from scrubjay.passages import split_passages


def words_of(text: str) -> list[int]:
    return [found.start() for found in re.finditer(r"\S+", text)]


@given(st.text(st.sampled_from("ab .\n。"), max_size=300), st.integers(min_value=1, max_value=20))
def test_passages_tile_the_turn(text: str, most: int) -> None:
    """Passages follow each other without gap or overlap, and none has more tokens than it may."""
    starts = words_of(text)
    turn = NewTurn(role=Role.USER, text=text)
    passages = split_passages(turn, starts, most_tokens=most)
    assert "".join(text[p.start : p.stop] for p in passages) == text
    for passage in passages:
        assert sum(passage.start <= start < passage.stop for start in starts) <= most


def test_cut_at_a_sentence() -> None:
    """A long text is cut where a sentence ends rather than in the middle of one."""
    text = "One two three four five. Six seven eight nine ten eleven twelve."
    passages = split_passages(NewTurn(role=Role.USER, text=text), words_of(text), most_tokens=8)
    assert [text[p.start : p.stop].strip() for p in passages] == [
        "One two three four five.",
        "Six seven eight nine ten eleven twelve.",
    ]


def test_every_passage_says_who_and_what_is_shown() -> None:
    """The speaker and an image's caption are indexed with every piece."""
    turn = NewTurn(role=Role.USER, text="one two three four", speaker="Ana", caption="a cat")
    passages = split_passages(turn, words_of(turn.text), most_tokens=2)
    assert all(p.text.startswith("Ana: ") and p.text.endswith("[image: a cat]") for p in passages)
    assert len(passages) == 2


def test_image_alone() -> None:
    """A turn without words is one passage, its caption."""
    (passage,) = split_passages(NewTurn(role=Role.USER, text="", caption="a cat"), [], most_tokens=8)
    assert passage.text == "[image: a cat]"
