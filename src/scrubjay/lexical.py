"""Exact Okapi BM25 over one memory's passages, held in memory as postings that grow in place.

The truth is the passages' rows in the store; this is a cache built from them. Full-text tables of SQLite were measured at 35 ms
for a question's words over 100,000 turns and keep deleted words in their segments, so they are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scrubjay.settings import LexicalSettings

Column = TypeVar("Column", bound=np.generic)

MOST_COUNTED = 255  # occurrences of a term in a passage; BM25 hardly tells more apart
MOST_TERMS = 64  # of a question, told apart by the bits of a word


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LexicalMatch:
    """What a question's terms find: m distinct terms against n passages."""

    scores: NDArray[np.float32]  # (n,) BM25
    covered: NDArray[np.uint64]  # (n,) bit j is set where the passage holds term j; the first 64 terms
    idf: NDArray[np.float32]  # (m,) of each term, before its weight


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Segment:
    """The postings of a stretch of passages, by term."""

    first: int  # passage the stretch begins with
    stop: int
    terms: NDArray[np.uint64]  # sorted: the leading bits of the hashes, as many as the row numbers leave
    offsets: NDArray[np.int64]  # (len(terms) + 1,) into the postings
    passages: NDArray[np.int32]
    counts: NDArray[np.uint8]
    row_bits: int

    def find(self, term: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        leading = np.uint64(term >> self.row_bits)
        place = int(np.searchsorted(self.terms, leading))
        if place == len(self.terms) or self.terms[place] != leading:
            return self.passages[:0], self.counts[:0]
        stretch = slice(int(self.offsets[place]), int(self.offsets[place + 1]))
        return self.passages[stretch], self.counts[stretch]


class LexicalIndex:
    """Postings of passages numbered in the order they were added.

    New passages wait in an unsorted tail, which is searched by comparison; a full tail becomes a segment, and segments of
    equal size merge, so that adding and asking by turns stays cheap at any size. 14 bytes a posting and 16 a
    segment's term.
    """

    def __init__(self, settings: LexicalSettings) -> None:
        self._settings = settings
        self._terms = np.empty(0, np.uint64)
        self._counts = np.empty(0, np.uint8)
        self._ends = np.zeros(1, np.int64)  # (n + 1,) where each passage's terms begin
        self._lengths = np.empty(0, np.float32)
        self._passages = 0
        self._total_length = 0.0
        self._segments: list[_Segment] = []

    def __len__(self) -> int:
        return self._passages

    def append(
        self,
        *,
        terms: NDArray[np.uint64],
        counts: NDArray[np.uint16],
        distinct: NDArray[np.int32],
        length: NDArray[np.int32],
    ) -> None:
        """Add passages: their sorted distinct term hashes and counts one after the other, and of each how many, and its length."""
        known, old = int(self._ends[self._passages]), self._passages
        self._terms = _grown(self._terms, known, terms)
        self._counts = _grown(self._counts, known, np.minimum(counts, MOST_COUNTED))
        self._ends = _grown(self._ends, old + 1, known + np.cumsum(distinct, dtype=np.int64))
        self._lengths = _grown(self._lengths, old, length)
        self._passages = old + len(distinct)
        self._total_length += float(np.sum(length))
        self._close_tail()

    def document_frequency(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return in how many passages each term occurs."""
        return np.array([len(self.postings(int(term))[0]) for term in hashes], dtype=np.int64)

    def postings(self, term: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return the passages that hold a term, rising, and how often it occurs in each."""
        found = [*(segment.find(term) for segment in self._segments), self._find_in_tail(term)]
        found = [held for held in found if len(held[0])] or found[:1]
        if len(found) == 1:
            return found[0]
        passages, counts = zip(*found, strict=True)
        return np.concatenate(passages), np.concatenate(counts)

    def match(self, hashes: NDArray[np.uint64], weights: NDArray[np.float32] | None = None) -> LexicalMatch:
        """Score every passage for a question's distinct terms, each counting `weights` times."""
        count = self._passages
        scores = np.zeros(count, np.float32)
        covered = np.zeros(count, np.uint64)
        idf = np.zeros(len(hashes), np.float32)
        k1 = np.float32(self._settings.k1)
        saturation = self._saturation()
        for place, term in enumerate(hashes.tolist()):
            passages, counts = self.postings(term)
            held = len(passages)
            idf[place] = np.log1p((count - held + 0.5) / (held + 0.5))
            if place < MOST_TERMS:
                covered[passages] |= np.uint64(1 << place)
            weight = idf[place] if weights is None else idf[place] * weights[place]
            if weight:
                occurs = counts.astype(np.float32)
                scores[passages] += weight * (k1 + 1) * occurs / (occurs + saturation[passages])
        return LexicalMatch(scores=scores, covered=covered, idf=idf)

    def scores(
        self, hashes: NDArray[np.uint64], weights: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return the BM25 score of every passage, (n,)."""
        return self.match(hashes, weights).scores

    def term_sets(self, passages: NDArray[np.integer[Any]]) -> list[NDArray[np.uint64]]:
        """Return the sorted distinct term hashes of each of these passages."""
        ends = self._ends
        return [self._terms[ends[passage] : ends[passage + 1]] for passage in passages.tolist()]

    def _saturation(self) -> NDArray[np.float32]:
        """Return what a term's count is weighed against in each passage: k1 (1 - b + b length / mean length)."""
        k1, b = self._settings.k1, self._settings.b
        mean = max(self._total_length / max(self._passages, 1), 1.0)
        return np.float32(k1 * (1 - b)) + np.float32(k1 * b / mean) * self._lengths[: self._passages]

    def _find_in_tail(self, term: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        first = self._segments[-1].stop if self._segments else 0
        begin, end = int(self._ends[first]), int(self._ends[self._passages])
        places = np.flatnonzero(self._terms[begin:end] == np.uint64(term)) + begin
        passages = np.searchsorted(self._ends[: self._passages + 1], places, side="right") - 1
        return passages.astype(np.int32), self._counts[places]

    def _close_tail(self) -> None:
        """Turn a full tail into a segment, and join it with those before it while they are not much larger."""
        first = self._segments[-1].stop if self._segments else 0
        size = self._passages - first
        if size < self._settings.tail_passages:
            return
        while (
            self._segments
            and self._segments[-1].stop - self._segments[-1].first < self._settings.merge_factor * size
        ):
            first = self._segments.pop().first
            size = self._passages - first
        self._segments.append(self._build_segment(first))

    def _build_segment(self, first: int) -> _Segment:
        """Sort the postings from a passage on by term; one sort of packed integers is 10 times as fast as an argsort."""
        begin, end = int(self._ends[first]), int(self._ends[self._passages])
        row_bits = max(1, (self._passages - first - 1).bit_length())
        sizes = np.diff(self._ends[first : self._passages + 1])
        rows = np.repeat(np.arange(self._passages - first, dtype=np.uint64), sizes)
        packed = self._terms[begin:end] >> np.uint64(row_bits)
        packed <<= np.uint64(row_bits)
        packed |= rows
        repeated = np.flatnonzero(self._counts[begin:end] != 1)
        repeated_keys, repeated_counts = packed[repeated], self._counts[begin:end][repeated]
        packed.sort()
        counts = np.ones(len(packed), np.uint8)
        order = np.argsort(repeated_keys)
        counts[np.searchsorted(packed, repeated_keys[order])] = repeated_counts[order]
        passages = (packed & np.uint64((1 << row_bits) - 1)).astype(np.int32)
        passages += np.int32(first)
        packed >>= np.uint64(row_bits)
        starts = np.flatnonzero(np.concatenate(([True], packed[1:] != packed[:-1]))[: len(packed)])
        return _Segment(
            first=first,
            stop=self._passages,
            terms=packed[starts],
            offsets=np.append(starts, len(packed)).astype(np.int64),
            passages=passages,
            counts=counts,
            row_bits=row_bits,
        )


def _grown(old: NDArray[Column], used: int, new: NDArray[Any]) -> NDArray[Column]:
    """Return an array holding the used part of `old`, then `new`; room is doubled, so copies stay rare."""
    needed = used + len(new)
    if needed > len(old):
        grown = np.empty(needed if used <= 1 else max(needed, 2 * len(old)), old.dtype)
        grown[:used] = old[:used]
        old = grown
    old[used:needed] = new
    return old
