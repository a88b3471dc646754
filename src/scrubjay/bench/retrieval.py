"""The retrieval benchmark: how much of the gold evidence each system finds, and how fast; no model is needed."""

from __future__ import annotations

import json
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.adapters import Adapter
from scrubjay.bench.contenders import open_contender
from scrubjay.bench.measures import QuestionRun, require_measures, score_run, summarize
from scrubjay.trace import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from scrubjay.bench.contenders import Contender
    from scrubjay.bench.datasets import BenchQuestion, BenchSample, Dataset
    from scrubjay.bench.measures import ScoreTable
    from scrubjay.bench.systems import Finding, System
    from scrubjay.embed import Embedder
    from scrubjay.settings import Settings

BUDGETS = (500, 1000, 2000, 4000)  # context tokens
SHOWN = ("R@5", "R@10", "R@25", "R@50", "R@500tok", "R@1000tok", "R@2000tok", "R@4000tok", "full@10", "nDCG@10",
         "session-any@5", "session-all@5", "session-any@10", "session-all@10")  # fmt: skip
STATUS = Path("/proc/self/status")
PEAK = "VmHWM:"  # of a process since it began; getrusage would count the one that started it
KIBIBYTE = 1 << 10
LATENCY_QUANTILES = {"p50": 0.5, "p95": 0.95}


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """What it took to keep the turns; systems that read one memory share it."""

    turns: int
    seconds: float
    bytes: int  # on disk, when closed; 0 for what is kept in memory only
    peak_bytes: int | None  # most memory the process had held when all was asked


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRun:
    """One system's answers to all questions, their scores, and the milliseconds each context took."""

    system: str
    about: str
    version: str  # of another's package; of ours the hash of the settings
    runs: tuple[QuestionRun, ...]
    table: ScoreTable
    latency_ms: Mapping[str, float]
    writing: Writing


@dataclass(slots=True)
class Tally:
    """What a contender has given so far."""

    runs: dict[str, list[QuestionRun]] = field(default_factory=lambda: defaultdict(list))
    milliseconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    turns: int = 0
    seconds: float = 0.0
    bytes: int = 0

    def take(self, question: BenchQuestion, found: Iterable[tuple[str, Finding]]) -> None:
        """Note what each system found for a question."""
        for system, finding in found:
            run = QuestionRun(
                sample=question.sample,
                question_index=question.question_index,
                ranking=finding.ranking,
                evidence=finding.evidence,
            )
            self.runs[system].append(run)
            self.milliseconds[system].append(finding.milliseconds)


def run_retrieval(
    dataset: Dataset,
    systems: Sequence[System | Adapter],
    *,
    embedder: Embedder,
    limit: int | None = None,
    records: Path | None = None,
    advance: Callable[[int, int], None] = ignore_progress,
) -> list[SystemRun]:
    """Ask every system every question, over memories that hold the same turns; `limit` takes the first samples.

    `records` is a recording that fills each memory of ours with records before it is asked (bench/replay.py).
    """
    require_measures()
    samples = dataset.samples[:limit]
    groups = group_systems(systems)
    total = len(groups) * sum(len(sample.questions) for sample in samples)
    done = 0
    found: dict[str, SystemRun] = {}
    for group in groups:
        tally = Tally()
        for sample in samples:
            for _ in ask_sample(sample, group, tally, embedder=embedder, records=records):
                done += 1
                advance(done, total)
        found |= {run.system: run for run in close_tally(samples, group, tally)}
    return [found[system.name] for system in systems]


def group_systems(systems: Iterable[System | Adapter]) -> list[Sequence[System] | Adapter]:
    """Put together the systems that read one memory."""
    ours: list[System] = []
    groups: list[Sequence[System] | Adapter] = []
    for system in systems:
        if isinstance(system, Adapter):
            groups.append(system)
        else:
            ours.append(system)
    return [ours, *groups] if ours else groups


def ask_sample(
    sample: BenchSample,
    group: Sequence[System] | Adapter,
    tally: Tally,
    *,
    embedder: Embedder,
    records: Path | None,
) -> Iterator[None]:
    """Fill a store with a conversation and ask every question about it; give a sign after each."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        opened = open_contender(sample, group, folder=folder, embedder=embedder, records=records)
        with closing(opened):
            for question in feed_and_ask(sample, opened, tally):
                tally.take(question, opened.ask(question, BUDGETS))
                yield
        tally.bytes += sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def feed_and_ask(sample: BenchSample, contender: Contender, tally: Tally) -> Iterator[BenchQuestion]:
    """Give the questions in an order in which each finds the store holding what it may know, and no more."""
    sessions = sample.conversation.sessions
    fed = 0
    for question in sorted(sample.questions, key=lambda question: known_sessions(question, len(sessions))):
        known = known_sessions(question, len(sessions))
        if known > fed:
            started = time.perf_counter()
            contender.add(sessions[fed:known])
            tally.seconds += time.perf_counter() - started
            tally.turns += sum(len(session.turns) for session in sessions[fed:known])
            contender.prepare()
        fed = known
        yield question


def known_sessions(question: BenchQuestion, all_of_them: int) -> int:
    return all_of_them if question.sessions_before is None else question.sessions_before


def close_tally(
    samples: Sequence[BenchSample], group: Sequence[System] | Adapter, tally: Tally
) -> list[SystemRun]:
    """Score what every system of a group gave."""
    writing = Writing(turns=tally.turns, seconds=tally.seconds, bytes=tally.bytes, peak_bytes=peak_bytes())
    return [
        SystemRun(
            system=system.name,
            about=system.about,
            version=system.version if isinstance(system, Adapter) else hash_settings(system.settings),
            runs=tuple(tally.runs[system.name]),
            table=summarize(score_run(samples, tally.runs[system.name])),
            latency_ms={
                name: float(np.quantile(tally.milliseconds[system.name], q))
                for name, q in LATENCY_QUANTILES.items()
            },
            writing=writing,
        )
        for system in ([group] if isinstance(group, Adapter) else group)
    ]


def peak_bytes() -> int | None:
    """Give the most memory this process has held, where the system says so."""
    if not STATUS.exists():
        return None
    lines = (line.split() for line in STATUS.read_text("utf-8").splitlines())
    return next((int(words[1]) * KIBIBYTE for words in lines if words and words[0] == PEAK), None)


def restrict_run(run: SystemRun, samples: Sequence[BenchSample]) -> SystemRun:
    """Score a run on some of its samples alone; what it took stays that of all."""
    names = {sample.sample for sample in samples}
    kept = tuple(answer for answer in run.runs if answer.sample in names)
    return replace(run, runs=kept, table=summarize(score_run(samples, kept)))


def hash_settings(settings: Settings) -> str:
    return sha256(json.dumps(asdict(settings), sort_keys=True, default=str).encode()).hexdigest()[:16]
