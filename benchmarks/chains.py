"""What each part of the chain does: found within a budget against the default's, tokens, and how gold turns can be read.

`python benchmarks/chains.py labelled=datasets longmemeval=PATH locomo=PATH` prints a table of each data set, with the differences
to the default and their 95 % intervals over questions. "Question shown": of the gold turns shown that answer another's
question in few words, those whose question is shown as well. "In sight": the share of the question's words, by weight, that
stands in a gold turn shown or in a turn shown beside it. A data set whose file isn't there is skipped.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.bench.chains import BUDGETS, run_chains
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.judged import judge_samples
from scrubjay.embed import load_embedder
from scrubjay.settings import CHAIN_PRESETS, ChainSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrubjay.bench.chains import ChainRun

DEFAULT = ChainSettings()
VARIANTS: Mapping[str, ChainSettings] = {
    "default": DEFAULT,
    "no neighbours": replace(DEFAULT, need=0.0),
    "need 0.1": replace(DEFAULT, need=0.1),
    "need 0.4": replace(DEFAULT, need=0.4),
    "every neighbour (± 1)": replace(DEFAULT, need=0.0, before=1, after=1),
    "never stopping": replace(DEFAULT, least_worth=0.0, least_relevance=0.0),
    "stopping at 2 in 100,000 a token": replace(DEFAULT, least_worth=2e-5),
    "stopping at 5 in 100,000 a token": replace(DEFAULT, least_worth=5e-5),
    "the order of relevance": replace(DEFAULT, need=0.0, thrift=0.0, coverage=0.0),
    **{f"`{name}`": chain for name, chain in CHAIN_PRESETS.items() if name != "default"},
}


def describe(name: str, run: ChainRun, default: ChainRun) -> str:
    gain, error = run.gain_over(default)
    found = f"{100 * run.found.mean():.1f}" + (
        "" if run is default else f" ({100 * gain:+.1f} ± {100 * error:.1f})"
    )
    shown = f"{run.asked} of {run.answers}"
    return f"| {name} | {found} | {run.tokens.mean():.0f} | {shown} | {100 * run.in_sight.mean():.1f} |"


def measure(name: str, path: Path | None) -> None:
    settings = Settings()
    samples = load_dataset(name, path).samples
    judged = list(judge_samples(samples, embedder=load_embedder(), settings=settings))
    for budget in BUDGETS:
        runs = run_chains(judged, settings, VARIANTS, budget=budget)
        questions = len(runs["default"].found)
        print(f"\n{name}, {questions} questions, {budget:,} tokens\n")
        print("| chain | found, % | tokens | question shown | in sight, % |\n|---|---:|---:|---:|---:|")
        print("\n".join(describe(variant, run, runs["default"]) for variant, run in runs.items()), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("datasets", nargs="+", help="a name, or name=path")
    given = parser.parse_args()
    for each in given.datasets:
        name, _, path = each.partition("=")
        if path and not Path(path).exists():
            print(f"skipped: {path} isn't there", file=sys.stderr)
            continue
        measure(name, Path(path) if path else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
