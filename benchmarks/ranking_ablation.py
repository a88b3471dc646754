"""What each part of ranking is worth: signals, cues, neighbours, a second hop, rankers, calibration, with 95 % intervals.

    python benchmarks/ranking_ablation.py [--data FOLDER] [--quick] [--write] [--only PART]

`FOLDER` holds locomo/locomo_dev.json, longmemeval/longmemeval_dev.json, memdaily_zh/memdaily_dev.json and realmem/; one that
isn't there is passed over with a message. `--quick` asks every fifth question. `--write` puts the tables into docs/ranking.md.
A cell is the share of the gold turns found, or the difference to the way named, a question at a time, bootstrapped over
questions. What is marked refitted was fitted anew, and for calibrations and rankers beside it calibrated anew: LongMemEval's
questions and our own conversations are ranked by fits that they took no part in, four by turns. What isn't refitted has the
shipped weights, which were fitted to both.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.fitting import split_labelled
from scrubjay.bench.ranking import MEASURES, compare, examine, measure_way
from scrubjay.bench.ranking_ways import OURS, PARTS, Bench
from scrubjay.embed import load_embedder
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from scrubjay.bench.measures import Interval
    from scrubjay.bench.questions import Dataset
    from scrubjay.bench.ranking import Exam, Way

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "ranking.md"
MARKS = ("<!-- ablation -->", "<!-- /ablation -->")
SETS = {
    "LoCoMo": ("locomo", "locomo/locomo_dev.json"),
    "LongMemEval": ("longmemeval", "longmemeval/longmemeval_dev.json"),
    "RealMem": ("realmem", "realmem"),
    "MemDaily": ("memdaily", "memdaily_zh/memdaily_dev.json"),
}
TRAINED = {OURS, "LongMemEval"}
QUICK = 5
SAME = "0"  # no question differs; a way that changes none of a table's has no row in it
TITLES = {"R@5": "R@5", "R@10": "R@10", "R@1000tok": "Within 1,000 tokens"}


def load_exams(folder: Path, settings: Settings, *, every: int) -> Iterator[Exam]:
    """Judge the questions of every data set; fits are made to ours and LongMemEval's."""
    ours, held = split_labelled(ROOT / "datasets")
    chosen: list[tuple[str, Dataset]] = [("held out", held), (OURS, ours)]
    for name, (kind, path) in SETS.items():
        if (folder / path).exists():
            chosen.append((name, load_dataset(kind, folder / path)))
        else:
            print(f"{folder / path} isn't there: passed over", file=sys.stderr)
    for name, dataset in chosen:
        yield examine(
            name,
            dataset,
            settings,
            embedder=load_embedder(),
            trained=name in TRAINED,
            every=1 if name == "LongMemEval" else every,
        )


def show(interval: Interval, *, signed: bool) -> str:
    if signed and interval.low == interval.high == 0:
        return SAME
    sign = "+" if signed else ""
    mean, low, high = (f"{100 * value:{sign}.1f}" for value in (interval.mean, interval.low, interval.high))
    cell = f"{mean} [{low}, {high}]"
    return f"**{cell}**" if signed and (interval.low > 0 or interval.high < 0) else cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    part: str
    way: Way
    found: dict[str, NDArray[np.float64]]  # by exam, (questions, measures)


def measure_all(bench: Bench, parts: Sequence[str]) -> list[Row]:
    rows = []
    for part in parts:
        for way in PARTS[part](bench):
            found = {exam.name: measure_way(exam, way) for exam in bench.exams}
            rows.append(Row(part=part, way=way, found=found))
            print(f"{part}: {way.name}", file=sys.stderr, flush=True)
    return rows


def write_tables(exams: Sequence[Exam], rows: Sequence[Row]) -> list[str]:
    """Give a table of each measure, Markdown."""
    by_name = {row.way.name: row for row in rows}
    lines = []
    head = "".join(f" {exam.name}, {len(exam.cases):,} |" for exam in exams)
    for place, measure in enumerate(MEASURES):
        lines += ["", f"**{TITLES[measure]}**", "", f"| |{head}", "|---|" + "---:|" * len(exams)]
        for row in rows:
            other = by_name.get(row.way.beside)
            cells = [
                show(compare(found, other.found[name] if other else None)[place], signed=other is not None)
                for name, found in row.found.items()
            ]
            if set(cells) != {SAME}:
                lines.append(f"| {row.part}: {row.way.name} | {' | '.join(cells)} |")
    return [*lines[1:], ""]


def put_into_page(lines: Sequence[str]) -> None:
    text = PAGE.read_text("utf-8")
    before, rest = text.split(MARKS[0], 1)
    after = rest.split(MARKS[1], 1)[1]
    PAGE.write_text("\n".join([before + MARKS[0], *lines, MARKS[1] + after]), "utf-8")


def main() -> int:
    """Measure and print each way as it is done, then the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--quick", action="store_true", help="every fifth question")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/ranking.md")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="this part; may be repeated")
    given = parser.parse_args()
    started = time.monotonic()
    settings = Settings()
    exams = list(load_exams(given.data, settings, every=QUICK if given.quick else 1))
    parts = [part for part in PARTS if part == "all" or part in (given.only or PARTS)]
    lines = write_tables(exams, measure_all(Bench(exams=exams, settings=settings), parts))
    print("\n".join(lines))
    if given.write and (given.only or given.quick or len(exams) < len(SETS) + 2):
        print("the page stays as it is: not everything was measured", file=sys.stderr)
    elif given.write:
        put_into_page(lines)
    print(f"{time.monotonic() - started:,.0f} seconds", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
