"""Vectors by another embedder, kept beside the current ones until all are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pgvector import Vector

from scrubjay.datatypes import StoredText, TextOwner
from scrubjay.errors import EmbedderMismatchError
from scrubjay.store.meta import identity_text
from scrubjay.store.postgres.values import from_sql_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.datatypes import EmbedderIdentity
    from scrubjay.store.postgres.transaction import Transaction

STAGES = {
    "passage": "staged_vector",
    TextOwner.RECORD.value: "staged_record_vector",
    TextOwner.NODE.value: "staged_node_vector",
}
"""Whose vectors → the table where another embedder's are kept."""

NOT_STAGED = (
    "NOT EXISTS (SELECT 1 FROM scrubjay.staged_vector AS staged WHERE staged.memory_id = %(memory)s "
    "AND staged.passage_row = passage.passage_row)"
)


def begin(transaction: Transaction, name: str) -> None:
    """Drop what was staged for another embedder."""
    if transaction.memory.staged_embedder != name:
        drop(transaction)
        transaction.memory.staged_embedder = name


def drop(transaction: Transaction) -> None:
    for table in STAGES.values():
        transaction.execute(f"DELETE FROM scrubjay.{table} WHERE memory_id = %(memory)s")


def write(transaction: Transaction, owner: str, table: str, staged: Sequence[tuple[int, Vector]]) -> None:
    """Keep the vectors; what was forgotten meanwhile is passed over."""
    there = {
        row
        for (row,) in transaction.all(
            f"SELECT {owner}_row FROM scrubjay.{owner} WHERE memory_id = %(memory)s AND {owner}_row = ANY(%(rows)s)",
            rows=[row for row, _ in staged],
        )
    }
    transaction.insert(
        f"{table} ({owner}_row, vector)",
        list({row: (row, vector) for row, vector in staged if row in there}.values()),
        otherwise=f"ON CONFLICT (memory_id, {owner}_row) DO UPDATE SET vector = excluded.vector",
    )


def find_unstaged(transaction: Transaction, *, limit: int | None) -> tuple[StoredText, ...]:
    """Give texts that have no staged vector yet; a blanked event frame has no text."""
    found = transaction.all(
        "SELECT 'record', record_row, text FROM scrubjay.record WHERE memory_id = %(memory)s AND NOT EXISTS "
        "(SELECT 1 FROM scrubjay.staged_record_vector AS staged WHERE staged.memory_id = %(memory)s "
        "AND staged.record_row = record.record_row) "
        "UNION ALL SELECT 'node', node_row, text FROM scrubjay.node WHERE memory_id = %(memory)s AND text <> '' "
        "AND NOT EXISTS (SELECT 1 FROM scrubjay.staged_node_vector AS staged WHERE staged.memory_id = %(memory)s "
        "AND staged.node_row = node.node_row) LIMIT %(limit)s",
        limit=limit,
    )
    return tuple(
        StoredText(owner=TextOwner(owner), row=row, text=from_sql_text(text)) for owner, row, text in found
    )


def adopt(transaction: Transaction, identity: EmbedderIdentity) -> None:
    """Put staged vectors in place of the current ones; a blanked event frame gets one of zeros."""
    missing = transaction.first(
        f"SELECT count(*) FROM scrubjay.passage WHERE memory_id = %(memory)s AND {NOT_STAGED}"
    )
    missing += len(find_unstaged(transaction, limit=None))
    memory = transaction.memory
    if missing or memory.staged_embedder != identity_text(identity):
        raise EmbedderMismatchError(
            stored=str(memory.identity), given=f"{identity} with {missing} vectors missing"
        )
    transaction.execute(
        "UPDATE scrubjay.node SET vector = %(zeros)s WHERE memory_id = %(memory)s AND text = ''",
        zeros=Vector(np.zeros(identity.dimension, np.float32)),
    )
    for owner, table in STAGES.items():
        transaction.execute(
            f"UPDATE scrubjay.{owner} SET vector = staged.vector FROM scrubjay.{table} AS staged "
            f"WHERE {owner}.memory_id = %(memory)s AND staged.memory_id = %(memory)s "
            f"AND staged.{owner}_row = {owner}.{owner}_row"
        )
    drop(transaction)
    memory.staged_embedder = None
    memory.embedder = identity_text(identity)
    memory.generation += 1
