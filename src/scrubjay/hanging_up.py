"""Standard input that a signal ends, as a client does that hangs up."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD_INPUT = 0
PIECE = 65_536  # bytes
ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Make interrupt, termination and hangup the end of standard input during the block; a second does as ever.

    A thread that waits for input can't be woken, so what comes in is handed on through a pipe, which the signal closes:
    whoever reads it answers what was asked before, and ends in order. Only in the main thread.
    """
    wire = os.dup(STANDARD_INPUT)
    reading, writing = os.pipe()
    os.dup2(reading, STANDARD_INPUT)
    os.close(reading)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    before = {number: signal.getsignal(number) for number in ENDING}

    def end(number: int, _frame: object) -> None:
        os.dup2(
            nowhere, writing
        )  # not closed: its number could be another file's by the time the thread writes
        signal.signal(number, before[number])

    for number in ENDING:
        signal.signal(number, end)
    threading.Thread(target=hand_on, args=(wire, writing, nowhere), daemon=True).start()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.dup2(wire, STANDARD_INPUT)


def hand_on(wire: int, writing: int, nowhere: int) -> None:
    """Write all that comes in to the pipe, and end that where the input ends."""
    while piece := os.read(wire, PIECE):
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(writing, rest) :]
    os.dup2(nowhere, writing)
