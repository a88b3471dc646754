"""The command `scrubjay`, run in this process as a user runs it: what it prints, where, and its exit code."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from scrubjay.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMED = (
    "SCRUBJAY_MEMORY",
    "SCRUBJAY_MODEL",
    "SCRUBJAY_BASE_URL",
    "SCRUBJAY_API_KEY",
    "SCRUBJAY_JUDGE_BASE_URL",
)
"""What a tester's own environment may name, and a test's command must not see."""


@dataclass(frozen=True)
class Output:
    code: int
    out: str
    err: str

    @property
    def document(self) -> list[dict[str, object]]:
        """The JSON printed."""
        found = json.loads(self.out)
        return found if isinstance(found, list) else [found]


def command_runner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *first: str, columns: int = 200
) -> Callable[..., Output]:
    """Give what runs the command with arguments after the `first`, on a screen so wide."""
    for name in NAMED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))

    def run_command(*arguments: str | Path) -> Output:
        monkeypatch.setattr(sys, "argv", ["scrubjay", *first, *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        code = ended.value.code
        return Output(code=code if isinstance(code, int) else 0, out=printed.out, err=printed.err)

    return run_command
