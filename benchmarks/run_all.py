"""Every benchmark that needs no model, in one run of some minutes: retrieval beside other memories, then speed.

    python benchmarks/run_all.py [--data FOLDER] [--all] [--workers N] [--write]

`FOLDER` holds locomo/locomo_dev.json, longmemeval/longmemeval_dev.json, memdaily_zh/memdaily_dev.json and realmem/; a data
set that isn't there is passed over with a message. `--all` measures RealMem and our own conversations too. `--write`
puts the tables into README.md and docs/benchmarks.md. Nothing is downloaded, and no model is asked.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay import __version__
from scrubjay.bench.apart import Job, run_jobs
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.systems import ABLATION, BASELINES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.datasets import Dataset
    from scrubjay.bench.measures import Interval
    from scrubjay.bench.retrieval import SystemRun

ROOT = Path(__file__).parents[1]
SETS = {
    "locomo": "locomo/locomo_dev.json",
    "longmemeval": "longmemeval/longmemeval_dev.json",
    "memdaily": "memdaily_zh/memdaily_dev.json",
    "sample": None,
    "realmem": "realmem",
    "labelled": None,
}
MORE = {"realmem", "labelled"}  # with --all
OURS = ("chain", *BASELINES)
OTHERS = {
    "naive-rag": "scrubjay",
    "mem0": "mem0",
    "langgraph-store": "langgraph",
}  # and what must be importable
OTHERS_IN = {"locomo", "longmemeval", "memdaily", "sample"}
ABLATED_IN = {"locomo", "longmemeval"}
SLOWEST_FIRST = (("longmemeval", "mem0"), ("locomo", "chain"), ("locomo", "cod-relevance"))
MEASURES = (
    "R@5",
    "R@10",
    "R@25",
    "R@50",
    "R@500tok",
    "R@1000tok",
    "R@2000tok",
    "R@4000tok",
    "full@10",
    "nDCG@10",
)
SESSIONS = ("session-any@5", "session-all@5", "session-any@10", "session-all@10")
IN_README = ("R@10", "R@50", "R@1000tok", "R@2000tok")
READ_BY = {"R@1000tok": "within 1,000 tokens", "R@2000tok": "2,000"}
WITH_INTERVALS = (*IN_README, "session-all@5")
NOT_IN_README = {"last-turns", "langgraph-store", *ABLATION}
TITLES = {"locomo": "LoCoMo dev", "longmemeval": "LongMemEval dev", "memdaily": "MemDaily dev (Chinese)",
          "realmem": "RealMem dev", "labelled": "our own conversations", "sample": "the sample"}  # fmt: skip
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One data set with every system's figures."""

    dataset: Dataset
    runs: list[SystemRun]


def plan_jobs(paths: dict[str, Path | None], others: Sequence[str]) -> list[Job]:
    """Give a job for each store, the longest first so that none is left alone at the end."""
    jobs = []
    for name, path in paths.items():
        groups = [OURS, *([ABLATION] if name in ABLATED_IN else [])]
        groups += [(other,) for other in others if name in OTHERS_IN]
        jobs += [Job(dataset=name, data=path, systems=group) for group in groups]
    return sorted(jobs, key=lambda job: (job.dataset, job.systems[0]) not in SLOWEST_FIRST)


def measure_all(paths: dict[str, Path | None], others: Sequence[str], *, workers: int) -> list[Result]:
    jobs = plan_jobs(paths, others)
    runs = iter(run_jobs(jobs, workers=workers))
    found = {(job.dataset, system): next(runs) for job in jobs for system in job.systems}
    order = (*OURS, *others, *ABLATION)
    return [
        Result(
            dataset=load_dataset(name, path),
            runs=[found[name, system] for system in order if (name, system) in found],
        )
        for name, path in paths.items()
    ]


def find_data(folder: Path, *, more: bool) -> dict[str, Path | None]:
    """Give where each data set is, and say which ones aren't there."""
    paths: dict[str, Path | None] = {}
    for name, relative in SETS.items():
        if name in MORE and not more:
            continue
        path = ROOT / "datasets" if name == "labelled" else folder / relative if relative else None
        if path is not None and not path.exists():
            print(f"{name}: {path} is not there, passed over", file=sys.stderr)
            continue
        paths[name] = path
    return paths


def percent(value: Interval | None, *, interval: bool = False) -> str:
    if value is None:
        return ""
    spread = f" [{100 * value.low:.1f}, {100 * value.high:.1f}]" if interval else ""
    return f"{100 * value.mean:.1f}{spread}"


def describe(result: Result) -> list[str]:
    """Give a data set's tables as Markdown."""
    table = result.runs[0].table
    measures = [name for name in (*MEASURES, *SESSIONS) if name in table.overall]
    shown = [name for name in WITH_INTERVALS if name in table.overall]
    counts = (
        f"{table.questions} questions, {table.scored} scored, {table.unanswerable} unanswerable, "
        f"{table.without_evidence} without valid evidence; {result.runs[0].writing.turns:,} turns; "
        f"data sha256 `{result.dataset.sha256[:16]}…`; settings `{result.runs[0].version}`."
    )
    lines = [
        f"### {TITLES[result.dataset.name]}",
        "",
        counts,
        "",
        "| system, with 95 % intervals | " + " | ".join(shown) + " |",
        "|---|" + "---:|" * len(shown),
    ]
    for run in result.runs:
        cells = [percent(run.table.overall.get(name), interval=True) for name in shown]
        lines.append(f"| {run.system} | " + " | ".join(cells) + " |")
    others = [name for name in measures if name not in shown]
    lines += ["", "| system | " + " | ".join(others) + " |", "|---|" + "---:|" * len(others)]
    for run in result.runs:
        cells = [percent(run.table.overall.get(name)) for name in others]
        lines.append(f"| {run.system} | " + " | ".join(cells) + " |")
    lines += ["", *describe_costs(result.runs), "", *describe_categories(result.runs[0]), ""]
    return lines


def describe_costs(runs: Sequence[SystemRun]) -> list[str]:
    """Give what reading and writing took; systems that read one memory share what writing took."""
    lines = [
        "| system | p50 ms | p95 ms | turns written a second | bytes a turn on disk | process at most, MiB | version |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for run in runs:
        writing = run.writing
        size = f"{writing.bytes / writing.turns:,.0f}" if writing.bytes else "in memory"
        peak = f"{writing.peak_bytes / MEBIBYTE:,.0f}" if writing.peak_bytes else ""
        lines.append(
            f"| {run.system} | {run.latency_ms['p50']:.1f} | {run.latency_ms['p95']:.1f} "
            f"| {writing.turns / writing.seconds:,.0f} | {size} | {peak} | {run.version} |"
        )
    return lines


def describe_categories(run: SystemRun) -> list[str]:
    shown = [name for name in (*IN_README, "session-all@5") if name in run.table.overall]
    lines = ["| category | questions | " + " | ".join(shown) + " |", "|---|---:|" + "---:|" * len(shown)]
    for category, values in run.table.categories.items():
        count = max(value.questions for value in values.values())
        lines.append(
            f"| {category} | {count} | "
            + " | ".join(percent(values.get(n), interval=True) for n in shown)
            + " |"
        )
    return lines


def describe_for_readme(results: Sequence[Result]) -> list[str]:
    head = " | ".join(READ_BY.get(name, name) for name in IN_README)
    lines = [
        f"| | system | {head} | p50 ms | turns/s |",
        "|---|---|" + "---:|" * (len(IN_README) + 2),
    ]
    for result in results:
        if result.dataset.name in MORE:
            continue
        for run in (run for run in result.runs if run.system not in NOT_IN_README):
            ours = run.system == "chain"
            name = (
                "**ScrubJay**"
                if ours
                else run.version.replace("mem0ai", "mem0")
                if run.system == "mem0"
                else run.system
            )
            cells = " | ".join(
                percent(run.table.overall.get(measure), interval=ours) for measure in IN_README
            )
            speed = f"{run.latency_ms['p50']:.1f} | {run.writing.turns / run.writing.seconds:,.0f}"
            lines.append(f"| {TITLES[result.dataset.name]} | {name} | {cells} | {speed} |")
    return lines


def put_between(page: Path, mark: str, lines: Sequence[str]) -> None:
    text = page.read_text("utf-8")
    before, rest = text.split(f"<!-- {mark} -->", 1)
    after = rest.split(f"<!-- /{mark} -->", 1)[1]
    page.write_text(f"{before}<!-- {mark} -->\n" + "\n".join(lines) + f"\n<!-- /{mark} -->{after}", "utf-8")


def main() -> None:
    """Run, print, and write if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--all", action="store_true", help="RealMem and our own conversations too")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    started = time.monotonic()
    others = [name for name, module in OTHERS.items() if find_spec(module) is not None]
    for name in OTHERS.keys() - others:
        print(f"{name} is not installed, passed over", file=sys.stderr)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as many processes as cores
    paths = find_data(arguments.data, more=arguments.all)
    results = measure_all(paths, others, workers=arguments.workers)
    machine = f"ScrubJay {__version__}, Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores."
    tables = [machine, "", *(line for result in results for line in describe(result))]
    print("\n".join(tables), flush=True)
    speed = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "speed.py")], check=True, capture_output=True, text=True
    ).stdout
    print(speed)
    if arguments.write:
        put_between(ROOT / "README.md", "results", describe_for_readme(results))
        put_between(ROOT / "docs" / "benchmarks.md", "retrieval", tables)
        put_between(ROOT / "docs" / "benchmarks.md", "speed", speed.strip().splitlines())
    print(f"{time.monotonic() - started:,.0f} seconds in all", file=sys.stderr)


if __name__ == "__main__":
    main()
