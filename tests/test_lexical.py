"""BM25 over passages, against a plain computation."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scrubjay.lexical import LexicalIndex
from scrubjay.settings import LexicalSettings
from scrubjay.terms import hash_terms

Passages = list[list[str]]
SMALL = LexicalSettings(tail_passages=4)
words = st.sampled_from(["apple", "pear", "plum", "fig", "lime", "kiwi"])
passages = st.lists(st.lists(words, max_size=8), max_size=40)


def append(index: LexicalIndex, texts: Passages) -> None:
    held = [np.unique(hash_terms(text), return_counts=True) for text in texts]
    index.append(
        terms=np.concatenate([np.empty(0, np.uint64), *(terms for terms, _ in held)]),
        counts=np.concatenate([np.empty(0, np.uint16), *(counts.astype(np.uint16) for _, counts in held)]),
        distinct=np.array([len(terms) for terms, _ in held], np.int32),
        length=np.array([len(text) for text in texts], np.int32),
    )


def plain_bm25(texts: Passages, question: list[str], chosen: LexicalSettings) -> list[float]:
    mean = max(sum(map(len, texts)) / max(len(texts), 1), 1)
    total = [0.0] * len(texts)
    for term in question:
        held = sum(term in text for text in texts)
        idf = math.log1p((len(texts) - held + 0.5) / (held + 0.5))
        for place, text in enumerate(texts):
            count = Counter(text)[term]
            total[place] += (
                idf
                * (chosen.k1 + 1)
                * count
                / (count + chosen.k1 * (1 - chosen.b + chosen.b * len(text) / mean))
            )
    return total


@given(texts=passages, question=st.lists(words, unique=True), batch=st.integers(1, 9))
@settings(max_examples=60)
def test_scores_are_okapi_bm25_however_passages_were_added(
    texts: Passages, question: list[str], batch: int
) -> None:
    """Segments, merges and tail give the scores of a plain BM25."""
    index = LexicalIndex(SMALL)
    for first in range(0, len(texts), batch):
        append(index, texts[first : first + batch])
    assert len(index) == len(texts)
    np.testing.assert_allclose(
        index.scores(hash_terms(question)), plain_bm25(texts, question, SMALL), rtol=1e-4, atol=1e-5
    )


@given(texts=passages, question=st.lists(words, unique=True))
@settings(max_examples=60)
def test_covered_terms_are_those_the_passage_holds(texts: Passages, question: list[str]) -> None:
    """Bit j of a passage is set if and only if it holds term j; the document frequency counts them."""
    index = LexicalIndex(SMALL)
    append(index, texts)
    hashes = hash_terms(question)
    match = index.match(hashes)
    for text, mask in zip(texts, match.covered.tolist(), strict=True):
        assert [bool(mask >> place & 1) for place in range(len(question))] == [
            term in text for term in question
        ]
    assert index.document_frequency(hashes).tolist() == [
        sum(term in text for text in texts) for term in question
    ]


def test_a_weight_of_zero_leaves_a_term_out_of_the_score_only() -> None:
    """A name that counts nothing is still reported as covered."""
    index = LexicalIndex(SMALL)
    append(index, [["ann", "pear"], ["pear"], ["plum"]])
    match = index.match(hash_terms(["ann", "pear"]), np.array([0, 1], np.float32))
    assert match.scores[0] < match.scores[1]  # longer, and no more of what counts
    assert match.covered.tolist() == [3, 2, 0]


def test_term_sets_are_what_was_added() -> None:
    """The distinct terms of passages come back, in the order asked."""
    index = LexicalIndex(SMALL)
    append(index, [["pear", "pear"], [], ["plum", "fig"]])
    sets = index.term_sets(np.array([2, 1, 0], np.int32))
    assert [set(terms.tolist()) for terms in sets] == [
        set(hash_terms(["plum", "fig"]).tolist()),
        set(),
        set(hash_terms(["pear"]).tolist()),
    ]


def test_an_empty_index_and_a_question_without_terms_score_nothing() -> None:
    """Nothing to search and nothing to search for are no errors."""
    index = LexicalIndex(SMALL)
    assert index.scores(hash_terms(["pear"])).tolist() == []
    append(index, [["pear"]])
    assert index.scores(hash_terms([])).tolist() == [0.0]


def test_more_terms_than_bits_still_count() -> None:
    """The score knows all terms of a long question; only the first 64 are told apart."""
    names = [f"word{number}" for number in range(100)]
    index = LexicalIndex(SMALL)
    append(index, [names[90:], ["other"]])
    match = index.match(hash_terms(names))
    assert match.scores[0] > 0
    assert match.covered[0] == 0
