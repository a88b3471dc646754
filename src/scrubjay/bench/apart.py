"""Benchmarks in processes of their own: several at a time, and each store's memory is that of its process."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING

from scrubjay.bench.ablation import Grounds, measure_variants, readable_variants
from scrubjay.bench.adapters import ADAPTERS, find_adapter
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.retrieval import run_retrieval
from scrubjay.bench.systems import find_system
from scrubjay.bench.tables import ablation_document, lay_out
from scrubjay.bench.variants import find_variants, threshold_variants
from scrubjay.embed import load_embedder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scrubjay.bench.retrieval import SystemRun
    from scrubjay.bench.tables import Table
    from scrubjay.datatypes import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Systems that share a store, over a data set."""

    dataset: str
    data: Path | None
    systems: tuple[str, ...]
    embedder: str = "static"


def start_pool(workers: int) -> ProcessPoolExecutor:
    """Make a pool in which every piece of work has a new process, so that its memory is its own."""
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), max_tasks_per_child=1)


def run_jobs(jobs: Sequence[Job], pool: ProcessPoolExecutor) -> list[SystemRun]:
    """Run jobs in processes of their own; give all their runs, in order."""
    return [run for runs in pool.map(run_job, jobs) for run in runs]


def run_job(job: Job) -> list[SystemRun]:
    return run_retrieval(
        load_dataset(job.dataset, job.data),
        [find_adapter(name) if name in ADAPTERS else find_system(name) for name in job.systems],
        embedder=load_embedder(job.embedder),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationJob:
    """An ablation of the paper, or its sweep of the boundary threshold, by replay."""

    kind: str  # of variants.ABLATIONS, or "threshold"
    dataset: str
    data: Path | None
    records: Path | None
    max_tokens: int = 1000
    embedder: str = "static"
    thresholds: tuple[float, ...] = ()
    preset: str = "lychee-v2"  # whose threshold is swept


@dataclass(frozen=True, slots=True, kw_only=True)
class AblationResult:
    """Its tables, and its figures as JSON values."""

    tables: tuple[Table, ...]
    document: dict[str, JsonValue]


def run_ablation(job: AblationJob) -> AblationResult:
    variants = (
        threshold_variants(job.thresholds, preset=job.preset) if job.thresholds else find_variants(job.kind)
    )
    grounds = Grounds(
        dataset=load_dataset(job.dataset, job.data),
        path=job.data,
        records=job.records,
        max_tokens=job.max_tokens,
        embedder=load_embedder(job.embedder),
    )
    outcomes = measure_variants(readable_variants(job.kind, variants, grounds), grounds)
    return AblationResult(
        tables=tuple(lay_out(job.kind, outcomes, grounds)),
        document=ablation_document(
            job.kind, outcomes, grounds, preset=job.preset if job.thresholds else None
        ),
    )
