"""Fusion: each candidate once, by its best score and its ranks, whatever the order they come in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.fuse import fuse_routes, merge_route, quota_of
from scrubjay.reading_settings import SelectionSettings

PAPER = SelectionSettings()
SCORED = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.1, 0.5, 0.9])), max_size=15)


def merge(scored: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    candidates = np.array([candidate for candidate, _ in scored], np.intp)
    scores = np.array([score for _, score in scored], np.float64)
    route = merge_route(candidates, scores, keys=candidates.astype(np.uint64))
    return route.candidates.tolist(), route.scores.tolist()


@given(SCORED, st.randoms(use_true_random=False))
def test_duplicates_merge_in_any_order(scored: list[tuple[int, float]], chance: object) -> None:
    """What several channels found stands once, with its best score, and equals are ordered by what they hold."""
    shuffled = scored.copy()
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    candidates, scores = merge(scored)
    assert (candidates, scores) == merge(shuffled)
    assert len(set(candidates)) == len(candidates)
    best = {candidate: max(s for c, s in scored if c == candidate) for candidate in candidates}
    assert scores == [best[candidate] for candidate in candidates] == sorted(scores, reverse=True)


def test_the_papers_score() -> None:
    """0.82 of the best route's score and 0.18 of the reciprocal ranks, over those of a candidate that leads all."""
    one = merge_route(np.array([0, 1]), np.array([0.9, 0.5]), keys=np.zeros(2, np.uint64))
    other = merge_route(np.array([1, 2]), np.array([0.8, 0.7]), keys=np.zeros(2, np.uint64))
    fused = fuse_routes([one, other], PAPER)
    top = 2 / 61
    expected = {
        0: 0.82 * 0.9 + 0.18 * (1 / 61) / top,
        1: 0.82 * 0.8 + 0.18 * (1 / 62 + 1 / 61) / top,
        2: 0.82 * 0.7 + 0.18 * (1 / 62) / top,
    }
    assert dict(zip(fused.candidates.tolist(), fused.scores.tolist(), strict=True)) == pytest.approx(expected)
    assert fused.scores.tolist() == sorted(fused.scores, reverse=True)
    assert fused.routes[fused.candidates.tolist().index(1)] == 1


def test_nothing_fuses_to_nothing() -> None:
    """Routes may be empty."""
    empty = merge_route(np.empty(0, np.intp), np.empty(0), keys=np.empty(0, np.uint64))
    assert len(fuse_routes([empty, empty], PAPER).candidates) == 0


@pytest.mark.parametrize(
    ("results", "routes", "quota"), [(15, 1, 4), (15, 4, 3), (15, 20, 1), (2, 3, 1), (15, 0, 4)]
)
def test_quotas(results: int, routes: int, quota: int) -> None:
    """max(1, min(4, k // routes))."""
    assert quota_of(results, routes, most=4) == quota
