"""Every benchmark that needs no model, in one run: retrieval beside baselines, then speed.

    python benchmarks/run_all.py [--data FOLDER] [--write]

`FOLDER` holds locomo/locomo_dev.json, longmemeval/longmemeval_dev.json, memdaily_zh/memdaily_dev.json and realmem/; a data
set that isn't there is passed over with a message. `--write` puts the tables into README.md and docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay import __version__
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.retrieval import SystemRun, run_retrieval
from scrubjay.bench.systems import ABLATION, BASELINES, find_system
from scrubjay.embed import load_embedder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.datasets import Dataset
    from scrubjay.bench.measures import Interval

ROOT = Path(__file__).parents[1]
SETS = {
    "locomo": "locomo/locomo_dev.json",
    "longmemeval": "longmemeval/longmemeval_dev.json",
    "memdaily": "memdaily_zh/memdaily_dev.json",
    "realmem": "realmem",
    "labelled": None,
    "sample": None,
}
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
TITLES = {"locomo": "LoCoMo dev", "longmemeval": "LongMemEval dev", "memdaily": "MemDaily dev (Chinese)",
          "realmem": "RealMem dev", "labelled": "our own conversations", "sample": "the sample"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One data set with every system's figures."""

    dataset: Dataset
    runs: list[SystemRun]


def measure(name: str, path: Path | None) -> Result:
    dataset = load_dataset(name, path)
    names = ["chain", *BASELINES, *(ABLATION if name in {"locomo", "longmemeval"} else ())]
    systems = [find_system(system) for system in names]
    return Result(dataset=dataset, runs=run_retrieval(dataset, systems, embedder=load_embedder()))


def percent(value: Interval | None, *, interval: bool = False) -> str:
    if value is None:
        return ""
    spread = f" [{100 * value.low:.1f}, {100 * value.high:.1f}]" if interval else ""
    return f"{100 * value.mean:.1f}{spread}"


def describe(result: Result) -> list[str]:
    """Give a data set's tables as Markdown."""
    table = result.runs[0].table
    measures = [name for name in (*MEASURES, *SESSIONS) if name in table.overall]
    counts = (
        f"{table.questions} questions, {table.scored} scored, {table.unanswerable} unanswerable, "
        f"{table.without_evidence} without valid evidence; data sha256 `{result.dataset.sha256[:16]}…`; "
        f"settings `{result.runs[0].settings_hash}`."
    )
    lines = [
        f"### {TITLES[result.dataset.name]}",
        "",
        counts,
        "",
        "| system | " + " | ".join(measures) + " | p50 ms | p95 ms |",
        "|---|" + "---:|" * (len(measures) + 2),
    ]
    for run in result.runs:
        cells = [percent(run.table.overall.get(name), interval=run.system == "chain") for name in measures]
        latency = f"{run.latency_ms['p50']:.1f} | {run.latency_ms['p95']:.1f}"
        lines.append(f"| {run.system} | " + " | ".join(cells) + f" | {latency} |")
    lines += ["", *describe_categories(result.runs[0]), ""]
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
    lines = ["| | system | " + " | ".join(IN_README) + " |", "|---|---|" + "---:|" * len(IN_README)]
    for result in results:
        if not all(name in result.runs[0].table.overall for name in IN_README):
            continue
        for run in result.runs[: 1 + len(BASELINES) - 1]:
            name = "**ScrubJay**" if run.system == "chain" else run.system
            cells = " | ".join(percent(run.table.overall.get(measure)) for measure in IN_README)
            lines.append(f"| {TITLES[result.dataset.name]} | {name} | {cells} |")
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
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    results = []
    for name, relative in SETS.items():
        path = ROOT / "datasets" if name == "labelled" else arguments.data / relative if relative else None
        if path is not None and not path.exists():
            print(f"{name}: {path} is not there, passed over", file=sys.stderr)
            continue
        results.append(measure(name, path))
        print("\n".join(describe(results[-1])), flush=True)
    machine = f"ScrubJay {__version__}, Python {platform.python_version()}, {platform.machine()}."
    tables = [machine, "", *(line for result in results for line in describe(result))]
    speed = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "speed.py")], check=True, capture_output=True, text=True
    ).stdout
    print(speed)
    if arguments.write:
        put_between(ROOT / "README.md", "results", describe_for_readme(results))
        put_between(ROOT / "docs" / "benchmarks.md", "retrieval", tables)
        put_between(ROOT / "docs" / "benchmarks.md", "speed", speed.strip().splitlines())


if __name__ == "__main__":
    main()
