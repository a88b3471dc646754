"""PostgreSQL's errors as ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from scrubjay.errors import (
    StoreAccessError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreSetupError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

BUSY = "is busy: another process held this memory for too long, or the server is at its limit: try again"
AWAY = "can't be reached: check that the server runs, and its address"
REFUSED = "refuses us: check the user, password and database of the DSN, and the role's rights"

REFUSALS = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "not permitted to log in",
    "permission denied",
    '" does not exist',
)
"""What a server says when it refuses a connection: the driver hands on no code there, only words."""

ERRORS: Mapping[str, tuple[type[StoreError], str]] = {
    "08": (StoreUnavailableError, AWAY),
    "28": (StoreAccessError, REFUSED),
    "3D": (StoreAccessError, REFUSED),
    "42501": (StoreAccessError, REFUSED),
    "25P03": (StoreUnavailableError, AWAY),
    "25006": (StoreReadOnlyError, "can't be written: it is a standby, or was set read-only"),
    "53200": (
        StoreSetupError,
        "has no memory for so many locks: raise its max_locks_per_transaction, or make fewer partitions (docs/scale.md)",
    ),
    "53100": (StoreFullError, "can't grow, its disk is full: free some space and try again"),
    "53300": (StoreBusyError, BUSY),
    "40001": (StoreBusyError, BUSY),
    "40P01": (StoreBusyError, BUSY),
    "55P03": (StoreBusyError, BUSY),
    "57014": (StoreBusyError, BUSY),
    "57P": (StoreUnavailableError, AWAY),
    "58": (StoreError, "has a fault outside: see the server's log"),
    "XX001": (StoreCorruptError, "is damaged: restore it from a backup"),
    "XX002": (StoreCorruptError, "has a damaged index: REINDEX it, or restore it from a backup"),
}
"""The beginning of an SQLSTATE → our error, and what to say of the database."""


def translate(error: psycopg.Error, location: str) -> StoreError:
    """Give PostgreSQL's error as ours, naming the database."""
    state = error.sqlstate or ""
    for length in (5, 3, 2):
        if state[:length] in ERRORS:
            kind, words = ERRORS[state[:length]]
            break
    else:
        kind, words = (StoreError, "could not be used")
    if not state and isinstance(error, psycopg.OperationalError):
        refused = any(sign in str(error) for sign in REFUSALS)
        kind, words = (StoreAccessError, REFUSED) if refused else (StoreUnavailableError, AWAY)
    return kind(f"{location} {words} ({describe(error)})")


def describe(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def is_lost(error: psycopg.Error, connection: psycopg.Connection[object]) -> bool:
    """Say whether the connection broke, rather than that a statement failed."""
    state = error.sqlstate or ""
    return connection.closed or connection.broken or state.startswith(("08", "57P", "25P03"))
