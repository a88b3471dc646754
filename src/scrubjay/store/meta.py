"""What a memory says of itself: its id, its embedder, how often its rows began anew."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scrubjay.datatypes import EmbedderIdentity, StoreState
from scrubjay.store import rows

if TYPE_CHECKING:
    import sqlite3


def read_meta(connection: sqlite3.Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else rows.from_sql_text(row[0])


def write_meta(connection: sqlite3.Connection, key: str, value: str) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, rows.to_sql_text(value)))


def next_generation(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")


def read_state(connection: sqlite3.Connection) -> StoreState:
    generation, last = connection.execute(
        "SELECT (SELECT value FROM meta WHERE key = 'generation'), "
        "(SELECT seq FROM sqlite_sequence WHERE name = 'passage')"
    ).fetchone()
    return StoreState(generation=int(generation or 0), last_passage=int(last or 0))


def identity_text(identity: EmbedderIdentity) -> str:
    return json.dumps(
        {"name": identity.name, "dimension": identity.dimension, "normalized": identity.normalized}
    )


def stored_identity(text: str) -> EmbedderIdentity:
    return EmbedderIdentity(**json.loads(text))
