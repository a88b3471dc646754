"""Every benchmark that needs no model, in one run of some minutes: retrieval beside other memories, ablations, speed.

    python benchmarks/run_all.py [--data FOLDER] [--all] [--workers N] [--write] [--out FOLDER]

`FOLDER` holds locomo/locomo_dev.json, longmemeval/longmemeval_dev.json, memdaily_zh/memdaily_dev.json and realmem/; a data
set that isn't there is passed over with a message. `--all` measures RealMem and our own conversations too, and ablates
representation and the boundary threshold. `--write` puts the tables into README.md and docs/benchmarks.md, `--out` the
figures into files for `scrubjay bench plot`. Nothing is downloaded, and no model is asked.
"""

from __future__ import annotations

import argparse
import json
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
from scrubjay.bench.apart import AblationJob, Job, run_ablation, run_jobs, start_pool
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.documents import summary_document
from scrubjay.bench.systems import ABLATION, BASELINES
from scrubjay.bench.tables import write_markdown
from scrubjay.bench.variants import ABLATIONS
from scrubjay.embed import load_embedder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import ProcessPoolExecutor

    from scrubjay.bench.apart import AblationResult
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
RECORDED = "locomo/recorded_segments.json"  # what an encoder wrote of LoCoMo dev
ABLATED = ("construction", "retrieval")
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7)  # the paper's Figure 5
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
SHOWN_AS = {"rrf": "both, by rank", "naive-rag": "naive RAG", "mem0": "mem0, no model"}
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


def plan_ablations(paths: Mapping[str, Path | None], folder: Path, *, more: bool) -> dict[str, AblationJob]:
    """Name the ablations: with records where LoCoMo and its recording are, and what the sample can show without."""
    jobs = {
        f"{kind}-sample": AblationJob(kind=kind, dataset="sample", data=None, records=None)
        for kind in ABLATED
    }
    if "locomo" not in paths or not (folder / RECORDED).exists():
        print(
            f"{folder / RECORDED} or its data set is not there: only the sample is ablated", file=sys.stderr
        )
        return jobs
    kinds = {kind: (kind, (), "") for kind in (ABLATIONS if more else ABLATED)}
    sweeps = {f"threshold-{preset}": ("threshold", THRESHOLDS, preset) for preset in ("lychee-v2", "default")}
    return jobs | {
        name: AblationJob(
            kind=kind,
            dataset="locomo",
            data=paths["locomo"],
            records=folder / RECORDED,
            thresholds=thresholds,
            preset=preset,
        )
        for name, (kind, thresholds, preset) in (kinds | (sweeps if more else {})).items()
    }


def measure_all(
    paths: dict[str, Path | None], others: Sequence[str], pool: ProcessPoolExecutor
) -> list[Result]:
    jobs = plan_jobs(paths, others)
    runs = iter(run_jobs(jobs, pool))
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
            name = "**ScrubJay**" if ours else SHOWN_AS.get(run.system, run.system)
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
    parser.add_argument("--all", action="store_true", help="more data sets and ablations too")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--out", type=Path, help="a folder for the figures as JSON")
    arguments = parser.parse_args()
    started = time.monotonic()
    others = [name for name, module in OTHERS.items() if find_spec(module) is not None]
    for name in OTHERS.keys() - others:
        print(f"{name} is not installed, passed over", file=sys.stderr)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as many processes as cores
    paths = find_data(arguments.data, more=arguments.all)
    with start_pool(arguments.workers) as pool:
        jobs = plan_ablations(paths, arguments.data, more=arguments.all)
        pending = {name: pool.submit(run_ablation, job) for name, job in jobs.items()}
        results = measure_all(paths, others, pool)
        ablations = {name: future.result() for name, future in pending.items()}
    print("\n".join([line for result in results for line in describe(result)]))
    for name, result in ablations.items():
        print("\n".join([f"### {name}", "", *write_markdown(result.tables)]), flush=True)
    speed = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "speed.py")], check=True, capture_output=True, text=True
    ).stdout
    print(speed)
    missing = SETS.keys() - MORE - paths.keys()
    if arguments.write and missing:
        print(f"the pages stay as they are: {', '.join(sorted(missing))} wasn't measured", file=sys.stderr)
    elif arguments.write:
        write_pages(results, ablations, speed)
    if arguments.out is not None:
        write_files(arguments.out, results, ablations)
    print(f"{time.monotonic() - started:,.0f} seconds in all", file=sys.stderr)


def write_pages(results: Sequence[Result], ablations: Mapping[str, AblationResult], speed: str) -> None:
    """Put the tables between their marks; what was not run stays as it is."""
    page = ROOT / "docs" / "benchmarks.md"
    machine = f"ScrubJay {__version__}, Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores."
    put_between(ROOT / "README.md", "results", describe_for_readme(results))
    usual = [line for result in results if result.dataset.name not in MORE for line in describe(result)]
    put_between(page, "retrieval", [machine, "", *usual])
    more = [line for result in results if result.dataset.name in MORE for line in describe(result)]
    if more:
        put_between(page, "more", more)
    for name, result in ablations.items():
        put_between(page, name.replace("retrieval", "reading"), write_markdown(result.tables))
    put_between(page, "speed", speed.strip().splitlines())


def write_files(folder: Path, results: Sequence[Result], ablations: Mapping[str, AblationResult]) -> None:
    """Write the figures, a file of JSON each."""
    folder.mkdir(parents=True, exist_ok=True)
    embedder = load_embedder()
    documents = {
        f"retrieval-{result.dataset.name}": summary_document(result.dataset, result.runs, embedder=embedder)
        for result in results
    }
    documents |= {f"ablation-{name}": result.document for name, result in ablations.items()}
    for name, document in documents.items():
        text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
