"""WRITE: make turns searchable: passages, their terms, their vectors."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.context import turn_line
from scrubjay.cues import turn_flags
from scrubjay.datatypes import IndexedPassage, IndexedText, PreparedTurn
from scrubjay.embed import count_tokens, token_starts
from scrubjay.passages import split_passages
from scrubjay.terms import extract_terms, hash_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scrubjay.datatypes import NewTurn, Passage
    from scrubjay.embed import Embedder

MOST_COUNTED = int(np.iinfo(np.uint16).max)


def prepare_turns(
    turns: Sequence[tuple[str, NewTurn]], *, known: Sequence[bool], embedder: Embedder, passage_tokens: int
) -> list[PreparedTurn]:
    """Index turns, each given with its session's id; those known to be stored get no passages.

    A passage has at most `passage_tokens` tokens, by the bundled tokenizer whatever the embedder. All are embedded
    in one call.
    """
    pieces = [
        [] if is_known else split_turn(turn, most_tokens=passage_tokens)
        for (_, turn), is_known in zip(turns, known, strict=True)
    ]
    line_tokens = count_tokens([turn_line(turn, None) for _, turn in turns])
    vectors = iter(embedder.embed([piece.text for of_turn in pieces for piece in of_turn]))
    return [
        PreparedTurn(
            session_id=session_id,
            turn=turn,
            tokens=line_tokens[place],
            flags=turn_flags(turn.text),
            passages=tuple(
                index_passage(piece, next(vectors), tokens)
                for piece, tokens in zip(
                    pieces[place], passage_lengths(pieces[place], line_tokens[place]), strict=True
                )
            ),
            embedder=embedder.identity,
        )
        for place, (session_id, turn) in enumerate(turns)
    ]


def split_turn(turn: NewTurn, *, most_tokens: int) -> list[Passage]:
    """Split a turn; a text with no more characters than a passage has tokens can't need it."""
    starts = token_starts(turn.text) if len(turn.text) > most_tokens else []
    return split_passages(turn, starts, most_tokens=most_tokens)


def passage_lengths(pieces: Sequence[Passage], line_tokens: int) -> list[int]:
    """Count the tokens of passages; that of a turn with one is its line."""
    return [line_tokens] if len(pieces) == 1 else count_tokens([piece.text for piece in pieces])


def index_texts(texts: Sequence[str], *, embedder: Embedder) -> list[IndexedText]:
    """Index records and evidence nodes; all are embedded in one call."""
    return [
        IndexedText(tokens=tokens, length=length, terms=terms, counts=counts, vector=vector)
        for text, vector, tokens in zip(texts, embedder.embed(texts), count_tokens(texts), strict=True)
        for length, terms, counts in (count_terms(text),)
    ]


def index_passage(piece: Passage, vector: NDArray[np.float32], tokens: int) -> IndexedPassage:
    length, terms, counts = count_terms(piece.text)
    return IndexedPassage(
        start=piece.start,
        stop=piece.stop,
        tokens=tokens,
        length=length,
        terms=terms,
        counts=counts,
        vector=vector,
    )


def count_terms(text: str) -> tuple[int, NDArray[np.uint64], NDArray[np.uint16]]:
    """Give how many terms a text has, the sorted hashes of the distinct ones, and how often each occurs."""
    counted = sorted(Counter(hash_terms(extract_terms(text)).tolist()).items())
    terms = np.array([term for term, _ in counted], np.uint64)
    counts = np.array([min(count, MOST_COUNTED) for _, count in counted], np.uint16)
    return sum(count for _, count in counted), terms, counts
