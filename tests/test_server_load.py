"""A small load on loopback: nothing fails, and no turn is lost, not even when the server is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from small_memories import PATIENCE

LOAD = Path(__file__).parents[1] / "benchmarks" / "server_load.py"


def test_a_small_load() -> None:
    """Users who ask and add at once get no error; every turn they were told of is there, after a kill too."""
    options = ["--seconds", "4", "--users", "6", "--connections", "6", "--rate", "40"]
    ran = subprocess.run(
        [sys.executable, str(LOAD), *options], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count(" 0 errors") == 2
    assert ran.stdout.rstrip().endswith(" 0 lost")
