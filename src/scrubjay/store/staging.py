"""Vectors of records and evidence nodes by another embedder, kept beside the current ones until all are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.datatypes import StoredText, TextOwner
from scrubjay.store import rows

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

FLOAT32_BYTES = 4


def find_unstaged(connection: sqlite3.Connection, *, limit: int) -> tuple[StoredText, ...]:
    """Give texts that have no staged vector yet; a blanked event frame has no text."""
    found = connection.execute(
        "SELECT 'record', record_row, text FROM record "
        "WHERE record_row NOT IN (SELECT record_row FROM staged_record_vector) "
        "UNION ALL SELECT 'node', node_row, text FROM node "
        "WHERE text <> '' AND node_row NOT IN (SELECT node_row FROM staged_node_vector) LIMIT ?",
        (limit,),
    ).fetchall()
    return tuple(
        StoredText(owner=TextOwner(owner), row=row, text=rows.from_sql_text(text))
        for owner, row, text in found
    )


def count_unstaged(connection: sqlite3.Connection) -> int:
    return len(find_unstaged(connection, limit=-1))


def write_staged(
    connection: sqlite3.Connection, texts: Sequence[StoredText], vectors: NDArray[np.float32]
) -> None:
    """Keep the vectors; a record or node forgotten meanwhile is passed over."""
    for owner in TextOwner:
        connection.executemany(
            f"INSERT OR REPLACE INTO staged_{owner}_vector SELECT {owner}_row, ? FROM {owner} WHERE {owner}_row = ?",
            [
                (vector.tobytes(), text.row)
                for text, vector in zip(texts, vectors, strict=True)
                if text.owner is owner
            ],
        )


def drop_staged(connection: sqlite3.Connection) -> None:
    for owner in TextOwner:
        connection.execute(f"DELETE FROM staged_{owner}_vector")


def adopt_staged(connection: sqlite3.Connection, *, dimension: int) -> None:
    """Put staged vectors in place of the current ones; a blanked event frame keeps one of zeros."""
    for owner in TextOwner:
        connection.execute(
            f"UPDATE {owner} SET vector = coalesce((SELECT staged.vector FROM staged_{owner}_vector staged "
            f"WHERE staged.{owner}_row = {owner}.{owner}_row), zeroblob(?))",
            (dimension * FLOAT32_BYTES,),
        )
    drop_staged(connection)
