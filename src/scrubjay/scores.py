"""What relevance hands to the chain: the channels' scores of every turn, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scrubjay.settings import ChainSettings

MASK_BITS = 64  # terms of a question that a mask of them can hold; the others are in none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Channels:
    """What words and vectors say of every turn, by its best passage; n turns, m terms of the question."""

    lexical: NDArray[np.float32]  # (n,) BM25
    dense: NDArray[np.float32]  # (n,) cosine
    covered: NDArray[np.uint64]  # (n,) bit j is set where the turn holds term j
    idf: NDArray[np.float32]  # (m,) of the terms; 0 for a speaker's name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TurnScores:
    """How likely each of n turns is evidence."""

    relevance: NDArray[np.float32]  # (n,) a probability; 0 outside the pool
    order: NDArray[np.intp]  # rows of the pool, most relevant first
    promise: float  # probability of the best turn, had it no rivals; 0 without turns
    channels: Channels


def relevant_rows(scores: TurnScores, settings: ChainSettings) -> NDArray[np.intp]:
    """Return the rows that may be shown, most relevant first; none where nothing looks like evidence at all."""
    if scores.promise < settings.least_promise:
        return scores.order[:0]
    likely = scores.relevance[scores.order] >= settings.least_relevance
    return scores.order[: np.count_nonzero(likely)]


def pack(marks: NDArray[np.bool_]) -> np.uint64:
    """Return the mask that has the bits of the marked terms."""
    return np.uint64(sum(1 << place for place in np.flatnonzero(marks[:MASK_BITS]).tolist()))


def unpack(masks: NDArray[np.uint64], terms: int) -> NDArray[np.float32]:
    """Return masks as rows of 0 and 1, a column a term."""
    places = np.arange(min(terms, MASK_BITS), dtype=np.uint64)
    return ((masks[:, None] >> places) & np.uint64(1)).astype(np.float32)
