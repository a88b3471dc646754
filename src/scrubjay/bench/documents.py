"""The results of a retrieval benchmark as files: a line a question to score again, and a summary."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scrubjay._version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from scrubjay.bench.datasets import Dataset
    from scrubjay.bench.measures import Interval
    from scrubjay.bench.retrieval import SystemRun
    from scrubjay.datatypes import JsonValue
    from scrubjay.embed import Embedder


def write_run(path: Path, dataset: Dataset, run: SystemRun) -> None:
    """Write one line a question, in the data set's own ids, so that anyone can score it again."""
    questions = {(q.sample, q.question_index): q for sample in dataset.samples for q in sample.questions}
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for answer in sorted(run.runs, key=lambda answer: (answer.sample, answer.question_index)):
            question = questions[answer.sample, answer.question_index]
            line = {
                "sample": answer.sample,
                "question_index": answer.question_index,
                "category": question.category,
                "ranking": list(answer.ranking),
                "evidence": {str(budget): list(turns) for budget, turns in answer.evidence.items()},
            }
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def summary_document(
    dataset: Dataset, runs: Sequence[SystemRun], *, embedder: Embedder
) -> dict[str, JsonValue]:
    """Give all results with what they were made from."""
    return {
        "scrubjay": __version__,
        "dataset": dataset.name,
        "data_sha256": dataset.sha256,
        "embedder": str(embedder.identity),
        "questions": runs[0].table.questions,
        "scored": runs[0].table.scored,
        "unanswerable": runs[0].table.unanswerable,
        "without_evidence": runs[0].table.without_evidence,
        "systems": [system_document(run) for run in runs],
    }


def system_document(run: SystemRun) -> dict[str, JsonValue]:
    return {
        "system": run.system,
        "about": run.about,
        "version": run.version,
        "latency_ms": dict(run.latency_ms),
        "turns": run.writing.turns,
        "writing_seconds": run.writing.seconds,
        "disk_bytes": run.writing.bytes,
        "peak_bytes": run.writing.peak_bytes,
        "overall": measures_document(run.table.overall),
        "categories": {name: measures_document(values) for name, values in run.table.categories.items()},
    }


def measures_document(measures: Mapping[str, Interval]) -> dict[str, JsonValue]:
    return {
        name: {"mean": value.mean, "low": value.low, "high": value.high, "questions": value.questions}
        for name, value in measures.items()
    }
