"""What is counted for Prometheus. No user, session or key is in a label."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from scrubjay.server.crew import METRICS

if TYPE_CHECKING:
    from scrubjay.datatypes import Usage
    from scrubjay.evidence import Evidence
    from scrubjay.server.crew import Crew

METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH"})
OTHER = "other"
FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The counters of one application, in a registry of its own; with a crew, what is told is of all its processes."""

    def __init__(self, crew: Crew | None = None) -> None:
        self._crew = crew
        self.registry = CollectorRegistry()
        if crew is None:
            ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "scrubjay_http_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self.problems = Counter(
            "scrubjay_http_problems",
            "Requests answered with a problem, such as busy.",
            ("code",),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "scrubjay_http_request_seconds",
            "Seconds until a request was answered whole.",
            ("method", "route"),
            registry=self.registry,
            buckets=FAST,
        )
        self.under_way = Gauge(
            "scrubjay_http_requests_under_way",
            "Requests being answered.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.turns = Counter("scrubjay_turns_added", "New turns stored.", registry=self.registry)
        self.stages = Histogram(
            "scrubjay_recall_stage_seconds",
            "Seconds of each stage of a recall.",
            ("stage",),
            registry=self.registry,
            buckets=FAST,
        )
        self.fallbacks = Counter(
            "scrubjay_recall_fallbacks",
            "Stages that took a cheaper path, because of a deadline or a failure.",
            ("stage",),
            registry=self.registry,
        )
        self.tokens = Counter(
            "scrubjay_model_tokens", "Tokens of model calls.", ("stage", "direction"), registry=self.registry
        )
        self.operations = Counter(
            "scrubjay_operations", "Operations that ended.", ("state",), registry=self.registry
        )

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        known = method if method in METHODS else OTHER
        self.requests.labels(known, route, str(status)).inc()
        self.seconds.labels(known, route).observe(seconds)

    def count_evidence(self, evidence: Evidence) -> None:
        for stage in evidence.trace:
            self.stages.labels(stage.name).observe(stage.milliseconds / 1_000)
            if stage.fallback:
                self.fallbacks.labels(stage.name).inc()

    def count_usage(self, usage: Iterable[Usage]) -> None:
        for one in usage:
            self.tokens.labels(one.stage, "input").inc(one.input_tokens)
            self.tokens.labels(one.stage, "output").inc(one.output_tokens)

    def render(self) -> bytes:
        if self._crew is None:
            return generate_latest(self.registry)
        folder = self._crew.folder / METRICS
        for process in {int(path.stem.rpartition("_")[2]) for path in folder.glob("gauge_live*.db")}:
            if not self._crew.lives(process):
                mark_process_dead(process, str(folder))  # type: ignore[no-untyped-call]  # its authors gave no types
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]  # likewise
        return generate_latest(registry)
