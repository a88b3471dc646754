"""What fusing takes and gives: candidates of one route, and of all, best first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RouteList:
    """One route's candidates, each once, best first; scores between 0 and 1."""

    candidates: NDArray[np.intp]
    scores: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fused:
    """The candidates of all routes, best first."""

    candidates: NDArray[np.intp]
    scores: NDArray[np.float64]  # the final score, which they are ordered by
    routes: NDArray[np.intp]  # the route that ranks each highest

    def best(self, most: int) -> Fused:
        return Fused(candidates=self.candidates[:most], scores=self.scores[:most], routes=self.routes[:most])
