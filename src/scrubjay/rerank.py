"""READ: candidates are put in the order of a reranker, as many of them as time allows (paper 3.5, C.4, Table 14).

PORT: a reranker; none by default. `sentence-transformers:<name or path>` runs a cross-encoder here, `http:<url>#<model>`
asks a server. OverlapReranker is their exact twin for tests.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from scrubjay.errors import MissingExtraError, RerankerError, SettingsError
from scrubjay.terms import extract_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrubjay.settings import RerankSettings

OVERLAP = "overlap"
LOCAL = "sentence-transformers"


class Reranker(Protocol):
    """Scores how well texts answer a query, from any thread; higher is better, on a scale of its own."""

    @property
    def name(self) -> str: ...

    def score(self, query: str, texts: Sequence[str], *, deadline: float) -> list[float]:
        """Score texts, from the first, as many as it can in `deadline` seconds; raise RerankerError if it can't."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reranking:
    """The new order of candidates, and the scores of those that were reranked."""

    order: tuple[
        int, ...
    ]  # places among the candidates: reranked ones first, best first, then the rest as they were
    scores: tuple[float, ...]  # of the first candidates, in the order they were given


class Pace:
    """How long a pair takes to score, as measured so far; any thread may use it."""

    def __init__(self) -> None:
        self._seconds: float | None = None
        self._lock = threading.Lock()

    def pairs_within(self, seconds: float, *, unmeasured: int) -> int:
        """Say how many pairs fit in so many seconds; `unmeasured` before anything was measured."""
        with self._lock:
            return unmeasured if not self._seconds else max(0, math.floor(seconds / self._seconds))

    def measure(self, pairs: int, seconds: float) -> None:
        """Take a measurement in; half of what is expected from then on comes from the last one."""
        with self._lock:
            latest = seconds / pairs
            self._seconds = latest if self._seconds is None else (self._seconds + latest) / 2


class OverlapReranker:
    """Scores by the share of the query's terms that a text has; exact, for tests."""

    name = OVERLAP

    def score(self, query: str, texts: Sequence[str], *, deadline: float) -> list[float]:  # noqa: ARG002 -- the port's
        asked = set(extract_terms(query))
        return [len(asked & set(extract_terms(text))) / max(1, len(asked)) for text in texts]


class CrossEncoderReranker:
    """Scores with a model on this machine, in batches, and stops before the deadline would pass."""

    def __init__(
        self, name: str, predict: Callable[[list[tuple[str, str]]], Iterable[float]], *, batch: int
    ) -> None:
        self.name = name
        self._predict = predict
        self._batch = batch
        self._pace = Pace()

    def score(self, query: str, texts: Sequence[str], *, deadline: float) -> list[float]:
        """Score at least one text, whatever the deadline: else a slow start would never be forgotten."""
        began = time.perf_counter()
        scores: list[float] = []
        while len(scores) < len(texts):
            left = deadline - (time.perf_counter() - began)
            fitting = self._pace.pairs_within(left, unmeasured=self._batch) or (not scores)
            if not fitting:
                break
            scores += self._score(query, texts[len(scores) : len(scores) + min(fitting, self._batch)])
        return scores

    def _score(self, query: str, texts: Sequence[str]) -> list[float]:
        began = time.perf_counter()
        try:
            scores = [float(score) for score in self._predict([(query, text) for text in texts])]
        except (
            RuntimeError,
            ValueError,
            TypeError,
            MemoryError,
        ) as error:  # what torch and a wrong model raise
            raise RerankerError(f"{self.name}: {error}") from error
        self._pace.measure(len(texts), time.perf_counter() - began)
        return scores


def rerank(
    query: str,
    texts: Sequence[str],
    *,
    limit: int,
    reranker: Reranker,
    settings: RerankSettings,
    deadline: float | None = None,
) -> Reranking:
    """Put candidates, given in the order they have so far, in the reranker's; those it had no time for come after.

    The pool is larger than `limit`, so that what is taken of the new order can differ. `deadline` is in seconds from
    now. Raise RerankerError where it fails: the order so far stands.
    """
    pool = texts[: max(settings.pool, settings.pool_share * limit)]
    seconds = settings.timeout_seconds if deadline is None else min(deadline, settings.timeout_seconds)
    shown = [text[: settings.longest_text] for text in pool]
    scores = reranker.score(query, shown, deadline=seconds) if shown and seconds > 0 else []
    if len(scores) > len(shown) or not all(map(math.isfinite, scores)):
        raise RerankerError(
            f"{reranker.name}: expected at most {len(shown)} finite scores, found {scores[:5]}…"
        )
    best = sorted(range(len(scores)), key=lambda place: -scores[place])  # equals stay in order
    return Reranking(order=(*best, *range(len(scores), len(texts))), scores=tuple(scores))


def load_reranker(settings: RerankSettings) -> Reranker | None:
    """Make the reranker that is configured; None where none is.

    Raise SettingsError for a name that means nothing, MissingExtraError where a package is missing, RerankerError
    where a model can't be loaded.
    """
    if not settings.reranker:
        return None
    kind, _, name = settings.reranker.partition(":")
    loader = LOADERS.get(kind)
    if loader is None:
        raise SettingsError(
            f"no reranker is named {settings.reranker!r}: it begins with one of {', '.join(LOADERS)}"
        )
    return loader(settings.reranker, name, settings)


def load_overlap(_whole: str, _name: str, _settings: RerankSettings) -> Reranker:
    return OverlapReranker()


def load_cross_encoder(whole: str, name: str, settings: RerankSettings) -> Reranker:
    if not name:
        raise SettingsError(f"{whole!r} names no model: it is written {LOCAL}:<name or path>")
    try:
        from sentence_transformers import CrossEncoder
    except ImportError as error:
        raise MissingExtraError("sentence-transformers", extra="rerank") from error
    try:
        model = CrossEncoder(name)
    except (OSError, RuntimeError, ValueError) as error:  # no such model, no network, a damaged file
        raise RerankerError(f"{whole} can't be loaded: {error}") from error
    predict = partial(model.predict, show_progress_bar=False)
    return CrossEncoderReranker(whole, predict, batch=settings.batch)


def load_http(whole: str, _name: str, settings: RerankSettings) -> Reranker:
    from scrubjay.http_reranker import open_reranker

    return open_reranker(whole, settings, pace=Pace())


LOADERS: dict[str, Callable[[str, str, RerankSettings], Reranker]] = {
    OVERLAP: load_overlap,
    LOCAL: load_cross_encoder,
    "http": load_http,
    "https": load_http,
}
