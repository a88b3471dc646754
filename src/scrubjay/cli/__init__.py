"""The command `scrubjay`: each command parses, calls one method and prints.

Data goes to standard output, everything else to standard error. Exit codes: 0, 1 (failed), 2 (usage).
"""

from __future__ import annotations

import sys

import typer

from scrubjay.cli import (
    bench,
    consolidating,
    migrating,
    output,
    reading,
    serving,
    serving_http,
    working,
    writing,
)
from scrubjay.errors import FormatError, InputError, MissingExtraError, ScrubJayError

app = typer.Typer(
    name="scrubjay",
    help="A long-term memory for LLM agents: keeps every turn unchanged, and shows the evidence for a question.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
writing.register(app)
reading.register(app)
consolidating.register(app)
migrating.register(app)
serving.register(app)
serving_http.register(app)
working.register(app)
bench.register(app)


def main() -> None:
    """Run the command; our errors are one line on standard error, never a traceback."""
    try:
        app()
    except (FormatError, MissingExtraError) as error:
        fail(error, code=1)
    except InputError as error:
        fail(error, code=2)
    except ScrubJayError as error:
        fail(error, code=1)
    except OSError as error:
        if error.filename is None:  # nothing that was given
            raise
        fail(ScrubJayError(f"{error.filename}: {error.strerror}"), code=1)


def fail(error: ScrubJayError, *, code: int) -> None:
    spent = "".join(f"spent: {usage.stage}, {output.spent(usage)}, {usage.model}\n" for usage in error.spent)
    sys.stderr.write(f"scrubjay: {error}\n{spent}")
    sys.exit(code)
