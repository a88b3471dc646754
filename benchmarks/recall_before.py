"""How long a recall takes beside an earlier commit of this repository, both in the same run.

    python benchmarks/recall_before.py [--before COMMIT] [--turns 10000] [--rounds 5]

Each commit's source lies in a folder of its own and is asked in a process of its own, by turns, the same questions over the same
turns (benchmarks/speed.py's). Printed are the medians of processor time, and of each round's ratio
the median, the least and the greatest.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEFORE = "497e49e"  # the first to rank turns
FILL = """
import sys
sys.path.insert(0, sys.argv[3])
from speed import make_turns
from scrubjay import Memory
with Memory(sys.argv[1]) as memory:
    memory.add_many(make_turns(int(sys.argv[2])))
"""
ASK = """
import statistics, sys, time
sys.path.insert(0, sys.argv[3])
from speed import sample_sentences
from scrubjay import Memory
questions = sample_sentences()[1]
taken = []
with Memory(sys.argv[1]) as memory:
    memory.recall("warm up")
    for number in range(int(sys.argv[2])):
        started = time.process_time()
        memory.recall(questions[number % len(questions)])
        taken.append((time.process_time() - started) * 1000)
print(statistics.median(taken))
"""
RECALLS = 100


def run(source: Path, code: str, *arguments: str) -> str:
    """Run code with the package of a source tree, and the turns of this one's speed benchmark."""
    environment = os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *arguments, str(ROOT / "benchmarks")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return done.stdout


def main() -> int:
    """Fill a memory with each, ask each in turn, and print what it took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", default=BEFORE, help="a commit")
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        earlier = Path(folder) / "before"
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", given.before, "src"], check=True, capture_output=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(earlier, filter="data")
        sources = {"before": earlier, "now": ROOT}
        for name, source in sources.items():
            run(source, FILL, str(Path(folder) / f"{name}.jay"), str(given.turns))
        taken = [
            {
                name: float(run(source, ASK, str(Path(folder) / f"{name}.jay"), str(RECALLS)))
                for name, source in sources.items()
            }
            for _ in range(given.rounds)
        ]
    before, now = (statistics.median(round_[name] for round_ in taken) for name in ("before", "now"))
    ratios = sorted(round_["now"] / round_["before"] for round_ in taken)
    print(
        f"recall over {given.turns:,} turns, processor time: {before:.2f} ms at {given.before}, {now:.2f} ms now, "
        f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) in {given.rounds} rounds"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
