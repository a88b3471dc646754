"""The retrieval benchmark: how much of the gold evidence each system finds, and how fast; no model is needed."""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scrubjay._version import __version__
from scrubjay.bench.measures import QuestionRun, score_run, summarize
from scrubjay.bench.replay import load_replay
from scrubjay.memory import Memory
from scrubjay.trace import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scrubjay.bench.datasets import BenchQuestion, BenchSample, Dataset
    from scrubjay.bench.measures import ScoreTable
    from scrubjay.bench.systems import System
    from scrubjay.datatypes import JsonValue
    from scrubjay.embed import Embedder
    from scrubjay.settings import Settings

BUDGETS = (500, 1000, 2000, 4000)  # context tokens
SHOWN = ("R@5", "R@10", "R@25", "R@50", "R@500tok", "R@1000tok", "R@2000tok", "R@4000tok", "full@10", "nDCG@10",
         "session-any@5", "session-all@5", "session-any@10", "session-all@10")  # fmt: skip
LATENCY_QUANTILES = {"p50": 0.5, "p95": 0.95}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRun:
    """One system's answers to all questions, their scores, and the milliseconds each recall took."""

    system: str
    about: str
    settings_hash: str
    runs: tuple[QuestionRun, ...]
    table: ScoreTable
    latency_ms: Mapping[str, float]


def run_retrieval(
    dataset: Dataset,
    systems: Sequence[System],
    *,
    embedder: Embedder,
    limit: int | None = None,
    records: Path | None = None,
    advance: Callable[[int, int], None] = ignore_progress,
) -> list[SystemRun]:
    """Ask every system every question, over memories that hold the same turns; `limit` takes the first samples.

    `records` is a recording that fills each memory with records before it is asked (bench/replay.py).
    """
    samples = dataset.samples[:limit]
    total = sum(len(sample.questions) for sample in samples)
    answers: dict[str, list[QuestionRun]] = {system.name: [] for system in systems}
    times: dict[str, list[float]] = {system.name: [] for system in systems}
    done = 0
    for sample in samples:
        for system, run, milliseconds in ask_sample(sample, systems, embedder=embedder, records=records):
            answers[system.name].append(run)
            times[system.name].append(milliseconds)
            done += 1
            advance(done // len(systems), total)
    return [
        SystemRun(
            system=system.name,
            about=system.about,
            settings_hash=hash_settings(system.settings),
            runs=tuple(answers[system.name]),
            table=summarize(score_run(samples, answers[system.name])),
            latency_ms={
                name: float(np.quantile(times[system.name], q)) for name, q in LATENCY_QUANTILES.items()
            },
        )
        for system in systems
    ]


def ask_sample(
    sample: BenchSample, systems: Sequence[System], *, embedder: Embedder, records: Path | None
) -> Iterator[tuple[System, QuestionRun, float]]:
    """Fill one memory with a conversation, and have every system answer every question about it."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "memory.jay"
        memories = {
            s.name: stack.enter_context(Memory(path, settings=s.settings, embedder=embedder)) for s in systems
        }
        encode = ignore_progress if records is None else Recording(records, path, sample, embedder).encode
        for question in feed_and_ask(sample, memories[systems[0].name], encode=encode):
            for system in systems:
                yield system, *ask(system, memories[system.name], question)


@dataclass(frozen=True, slots=True)
class Recording:
    """Fills the memory of a sample with records; the systems that read it have no model to ask for plans."""

    records: Path
    memory: Path
    sample: BenchSample
    embedder: Embedder

    def encode(self) -> None:
        model = load_replay(self.records, self.sample.sample)
        with Memory(self.memory, embedder=self.embedder, model=model) as memory:
            memory.consolidate(flush=True)


def feed_and_ask(
    sample: BenchSample, memory: Memory, *, encode: Callable[[], None] = ignore_progress
) -> Iterator[BenchQuestion]:
    """Give the questions in an order in which each finds the memory holding what it may know, and no more.

    `encode` is called after turns were added.
    """
    sessions = sample.conversation.sessions
    fed = 0
    for question in sorted(sample.questions, key=lambda question: known_sessions(question, len(sessions))):
        known = known_sessions(question, len(sessions))
        memory.add_many(
            (session.session_id, turn) for session in sessions[fed:known] for turn in session.turns
        )
        if known > fed:
            encode()
        fed = known
        yield question


def known_sessions(question: BenchQuestion, all_of_them: int) -> int:
    return all_of_them if question.sessions_before is None else question.sessions_before


def ask(system: System, memory: Memory, question: BenchQuestion) -> tuple[QuestionRun, float]:
    ranking = system.rank(memory, question)
    evidence, milliseconds = {}, []
    for budget in BUDGETS:
        started = time.perf_counter()
        evidence[budget] = system.fill(memory, question, budget)
        milliseconds.append((time.perf_counter() - started) * 1000)
    run = QuestionRun(
        sample=question.sample, question_index=question.question_index, ranking=ranking, evidence=evidence
    )
    return run, min(milliseconds)


def hash_settings(settings: Settings) -> str:
    return sha256(json.dumps(asdict(settings), sort_keys=True, default=str).encode()).hexdigest()[:16]


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
        "settings_hash": run.settings_hash,
        "latency_ms": dict(run.latency_ms),
        "overall": measures_document(run.table.overall),
        "categories": {name: measures_document(values) for name, values in run.table.categories.items()},
    }


def measures_document(measures: Mapping[str, object]) -> dict[str, JsonValue]:
    from scrubjay.bench.measures import Interval

    return {
        name: {"mean": value.mean, "low": value.low, "high": value.high, "questions": value.questions}
        for name, value in measures.items()
        if isinstance(value, Interval)
    }
