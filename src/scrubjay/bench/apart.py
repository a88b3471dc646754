"""The retrieval benchmark with every store in a process of its own: several at a time, and the memory each one takes."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING

from scrubjay.bench.adapters import ADAPTERS, find_adapter
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.retrieval import run_retrieval
from scrubjay.bench.systems import find_system
from scrubjay.embed import load_embedder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scrubjay.bench.retrieval import SystemRun


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


def run_jobs(jobs: Sequence[Job], *, workers: int) -> list[SystemRun]:
    """Run jobs in processes of their own; give all their runs, in order."""
    with start_pool(workers) as pool:
        return [run for runs in pool.map(run_job, jobs) for run in runs]


def run_job(job: Job) -> list[SystemRun]:
    return run_retrieval(
        load_dataset(job.dataset, job.data),
        [find_adapter(name) if name in ADAPTERS else find_system(name) for name in job.systems],
        embedder=load_embedder(job.embedder),
    )
