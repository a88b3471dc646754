"""READ: candidates of all routes in one list: reciprocal-rank fusion beside the best score (LycheeMemory V2, C.4). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrubjay.route_lists import Fused, RouteList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scrubjay.reading_settings import SelectionSettings


def merge_route(
    candidates: NDArray[np.intp], scores: NDArray[np.float64], *, keys: NDArray[np.uint64]
) -> RouteList:
    """Merge a route's candidates: what several channels or queries found keeps its best score.

    `keys` says of each what stands in it: equals are ordered by that, not by when they were written.
    """
    order = np.lexsort((candidates, keys, -scores))
    _, first = np.unique(candidates[order], return_index=True)
    kept = order[np.sort(first)]
    return RouteList(candidates=candidates[kept], scores=scores[kept])


def fuse_routes(routes: Sequence[RouteList], settings: SelectionSettings) -> Fused:
    """Fuse the routes' lists; where fusion is off, candidates keep their best score."""
    size = 1 + max((int(route.candidates.max(initial=-1)) for route in routes), default=-1)
    best, ranked, route_of = np.zeros(size), np.zeros(size), np.zeros(size, np.intp)
    place = np.full(size, np.iinfo(np.intp).max)
    for number, route in enumerate(routes):
        ranks = np.arange(1, len(route.candidates) + 1)
        ranked[route.candidates] += 1 / (settings.kappa + ranks)
        best[route.candidates] = np.maximum(best[route.candidates], route.scores)
        earlier = ranks < place[route.candidates]
        route_of[route.candidates[earlier]] = number
        place[route.candidates[earlier]] = ranks[earlier]
    top = len(routes) / (settings.kappa + 1)  # of a candidate that every route ranks first
    final = settings.best_share * best + settings.route_share * ranked / top if settings.fused else best
    found = np.flatnonzero(ranked)
    order = found[np.lexsort((place[found], -final[found]))]
    return Fused(candidates=order, scores=final[order], routes=route_of[order])


def quota_of(results: int, routes: int, *, most: int) -> int:
    """Give how many results each route may keep for itself (C.4)."""
    return max(1, min(most, results // max(routes, 1)))
