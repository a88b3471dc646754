"""Workers and servers over one database, struck at random for a few seconds: nothing lost, nothing twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from small_memories import PATIENCE

CHAOS = Path(__file__).parents[1] / "benchmarks" / "chaos.py"


def test_a_little_chaos() -> None:
    """Killed, stopped and cut off, they keep every turn that was acknowledged, in one state and with one call's records."""
    options = ["--seconds", "12", "--memories", "12", "--calm", "3", "--lease", "2", "--rate", "10"]
    ran = subprocess.run(
        [sys.executable, str(CHAOS), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "| violations | 0 |" in ran.stdout
    assert "cut off for 5 s" in ran.stdout
