"""Values of a memory's way from one place to another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MigrationOutcome(StrEnum):
    """What became of one memory."""

    COPIED = "copied"
    REPLACED = "replaced"  # an older copy of it
    ALREADY_THERE = "already there"  # row for row
    WOULD_COPY = "would be copied"
    WOULD_REPLACE = "would be replaced"
    EMPTY = "empty"  # made, and never used: nothing to copy
    REFUSED = "refused"  # it can't be read, or another memory is in its place


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSum:
    """How many rows of a memory one table has, and a checksum over all that they say."""

    table: str
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedMemory:
    """What became of one memory, and the sums that both places agree on."""

    user_id: str | None  # None: a file that says of no user to be theirs
    source: str
    target: str
    outcome: MigrationOutcome
    sums: tuple[TableSum, ...] = ()
    changed_meanwhile: bool = (
        False  # written to while it was copied: the copy is of the moment the copying began
    )
    error: str = ""

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.sums)

    def count(self, table: str) -> int:
        return sum(found.rows for found in self.sums if found.table == table)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport:
    """What became of each memory, in the order of their users."""

    memories: tuple[MigratedMemory, ...]
    dry_run: bool

    @property
    def refused(self) -> int:
        return sum(memory.outcome is MigrationOutcome.REFUSED for memory in self.memories)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationProgress:
    """How far a migration is: at which memory of how many, and at which row of that one."""

    user_id: str | None
    memory: int  # from 1
    memories: int
    rows: int
    total_rows: int
