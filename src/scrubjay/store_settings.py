"""How a memory's database is used, where it isn't a file; and where its vectors are searched."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """How PostgreSQL is used (docs/postgres.md)."""

    partitions: int = (
        16  # hash partitions of each table, chosen when the tables are first made; 0: not partitioned
    )
    connections: int = 10  # most that a process holds open
    connect_seconds: float = 5.0  # for making a connection
    patience_seconds: float = 10.0  # a call goes on trying while the database is away
    answer_seconds: float = 120.0  # of silence within a statement or transaction, locks included: the other side is then taken for gone
    lock_seconds: float = 30.0  # a write waits for another process's write to the same memory
    settle_seconds: float = 2.0  # after an add, before a worker looks whether the open turns make a segment


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSettings:
    """How the vectors of turns are searched (docs/scale.md); SCRUBJAY_VECTOR_INDEX is `index`."""

    index: str = "exact"  # in the process; "lancedb": on disk, as `scrubjay doctor --rebuild` makes it
    nearest: int = (
        200  # passages that an index on disk finds; their cosines and those around are read, no others
    )
