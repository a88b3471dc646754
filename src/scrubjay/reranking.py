"""READ, with a reranker: each route's best records and turns are put in its order before they are fused (paper B.2, line 14).

A reranker's scores are on a scale of its own, so only its order is taken: the best of what was reranked gets the greatest score
that recall gave to any of it, the next the next. What it had no time for stays as it was.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.errors import RerankerError
from scrubjay.passages import passage_text
from scrubjay.recall import count_results
from scrubjay.rerank import load_reranker, rerank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from scrubjay.planned import Grounds, Recalled
    from scrubjay.recall import RouteRecall
    from scrubjay.rerank import Reranker
    from scrubjay.store import RecordStore, Store
    from scrubjay.trace import Trace

    Rows = NDArray[np.intp]

LATE = "the deadline has passed; the order is that of recall"
KEPT_LOADED = 4  # rerankers a process keeps
load_once = lru_cache(KEPT_LOADED)(load_reranker)


def rerank_recalled(
    recalled: Recalled, grounds: Grounds, trace: Trace, *, turns: Store, records: RecordStore
) -> Recalled:
    """Rerank every route; where the reranker fails or time is up, the order stands, and the trace says so.

    A reranker has part of the time that is left: what it finds is still to be selected from.
    """
    try:
        reranker = load_once(grounds.settings.rerank)
        if reranker is None:
            return recalled
        if trace.is_late:
            with trace.stage("rerank", fallback=LATE):
                return recalled
        with trace.stage("rerank"):
            texts = Texts(grounds, turns, records)
            routes = tuple(
                rerank_route(route, "\n".join(one.queries), texts, reranker, trace)
                for route, one in zip(recalled.routes, recalled.plan.routes, strict=True)
            )
            return recalled.with_routes(routes, grounds)
    except RerankerError as error:
        with trace.stage("rerank", fallback=f"{error}; the order is that of recall"):
            return recalled


class Texts:
    """What records and turns say, read from the stores when a route wants them."""

    def __init__(self, grounds: Grounds, turns: Store, records: RecordStore) -> None:
        self.grounds = grounds
        self._turns = turns
        self._records = records

    def of_records(self, places: Rows) -> list[str]:
        held = self._records.records_at(self.grounds.records.records.row[places].tolist())
        return [record.text for record in held]

    def of_turns(self, places: Rows) -> list[str]:
        held = self._turns.turns(rows=self.grounds.corpus.turns.row[places].tolist())
        return [passage_text(turn, 0, len(turn.text)) for turn in held]


def rerank_route(
    route: RouteRecall, query: str, texts: Texts, reranker: Reranker, trace: Trace
) -> RouteRecall:
    """Put a route's records and its turns in the reranker's order, each among themselves."""
    records = route.records[np.argsort(-route.score[route.records], kind="stable")]
    by_record = reordered(records, query, texts.of_records(records), texts, reranker, trace)
    by_turn = reordered(route.turns, query, texts.of_turns(route.turns), texts, reranker, trace)
    return replace(
        route,
        score=rearranged(route.score, records, by_record),
        turns=by_turn,
        turn_score=rearranged(route.turn_score, route.turns, by_turn),
        log_odds=rearranged(route.log_odds, route.turns, by_turn),
    )


def reordered(
    rows: Rows, query: str, shown: Sequence[str], texts: Texts, reranker: Reranker, trace: Trace
) -> Rows:
    """Give the rows in the reranker's order; as they are, where some were forgotten meanwhile."""
    if len(shown) < len(rows):
        return rows
    grounds = texts.grounds
    limit = count_results(grounds.max_tokens, grounds.settings.reading.recall)
    left = trace.seconds_left
    found = rerank(
        query,
        shown,
        limit=limit,
        reranker=reranker,
        settings=grounds.settings.rerank,
        deadline=None if left is None else grounds.settings.rerank.time_share * left,
    )
    return rows[list(found.order)]


def rearranged(scores: NDArray[np.float64], before: Rows, after: Rows) -> NDArray[np.float64]:
    """Give the same scores to the same rows in another order: the greatest to the first."""
    moved = scores.copy()
    moved[after] = np.sort(scores[before])[::-1]
    return moved
