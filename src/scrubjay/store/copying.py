"""A memory's rows as every store has them, so that they can be written to another store and compared there.

Rows keep their numbers, and vectors their bits; text is text, whatever a store writes where it can't hold it. What
stays behind: leases, for whoever holds one works on the memory that is left; a database's count of its transactions,
and when its workers are to look at the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from scrubjay.datatypes import TableSum

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

Value = int | float | str | bytes | None
Row = tuple[Value, ...]

INDEXED = ("tokens", "length", "terms", "counts", "vector")

TABLES: dict[str, tuple[str, ...]] = {
    "meta": ("key", "value"),
    "session": ("session_row", "session_id", "next_position", "segmenter"),
    "encoding": ("encoding_row", "model", "prompt_version", "state", "created_at"),
    "usage": ("stage", "model", "calls", "input_tokens", "output_tokens"),
    "segment": ("segment_row", "session_row", "number", "reason", "probability", "signals", "created_at"),
    "segment_state": (
        *("encoding_row", "segment_row", "state", "attempts", "last_error", "retry_at", "leases", "note"),
        "updated_at",
    ),
    "turn": (
        *("turn_row", "turn_id", "session_row", "position", "role", "speaker", "text", "caption", "said_at"),
        *("said_offset", "added_at", "metadata", "tokens", "flags", "segment_row"),
    ),
    "passage": ("passage_row", "turn_row", "start", "stop", *INDEXED),
    "staged_vector": ("passage_row", "vector"),
    "record": (
        *("record_row", "encoding_row", "record_id", "type", "text", "entities", "tags", "t_ref"),
        *("t_valid_from", "t_valid_to", "stance", "speaker", "supported", "support_reason", *INDEXED),
    ),
    "provenance": ("provenance_row", "record_row", "turn_row"),
    "staged_record_vector": ("record_row", "vector"),
    "node": ("node_row", "encoding_row", "segment_row", "kind", "key", "text", *INDEXED),
    "node_record": ("link_row", "node_row", "record_row"),
    "staged_node_vector": ("node_row", "vector"),
}
"""Every table with a memory's rows → what of it is copied; each after those it refers to, the order to write in."""

LEFT_BEHIND: Mapping[str, frozenset[str]] = {"segment_state": frozenset({"lease_owner", "lease_until"})}
"""Columns that are not copied, by table."""

TEXTS = frozenset(
    {
        *("key", "value", "session_id", "segmenter", "model", "prompt_version", "state", "stage", "reason"),
        *("signals", "last_error", "note", "turn_id", "role", "speaker", "text", "caption", "metadata"),
        *("record_id", "type", "entities", "tags", "t_ref", "t_valid_from", "t_valid_to", "stance"),
        *("support_reason", "kind"),
    }
)
"""The columns that hold text, which stores write differently where their database can't hold it."""

NUMBERED: Mapping[str, int] = {
    table: 2 if table == "segment_state" else 1 for table in TABLES if table not in {"meta", "usage"}
}
"""The tables whose rows lie in the order of numbers → how many of their first columns give it; the rest are small."""

COUNTERS = (
    "session",
    "turn",
    "passage",
    "segment",
    "encoding",
    "record",
    "provenance",
    "node",
    "node_record",
)
"""The tables of which a memory keeps the last row number it gave: none is given twice."""

HEADING = frozenset({"memory_id", "embedder", "staged_embedder", "generation", "owner"})
"""What a file has among `meta`, and a Heading says."""

MEMORY = "memory"  # what the sum of a heading goes by

ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What a memory says of itself, beside its rows."""

    memory_id: str
    owner: str | None
    embedder: str | None  # JSON
    staged_embedder: str | None
    made_at: int  # microseconds since 1970 UTC
    generation: int  # how often its rows began anew: what indexes in processes go by
    current_encoding: int
    last: Mapping[str, int]  # the last row number given in each table

    def row(self) -> Row:
        """Give what must be the same in a copy: whose it is and the generation are its place's."""
        said = (self.memory_id, self.embedder, self.staged_embedder, self.made_at, self.current_encoding)
        return (*said, repr(sorted(self.last.items())))


class MemoryRows(Protocol):
    """One memory within a transaction, which sees no write of others."""

    @property
    def version(self) -> int:
        """A number that another process's write to the memory changes."""
        ...

    def heading(self) -> Heading | None:
        """Give what the memory says of itself; None where none was made here, or its making was broken off."""
        ...

    def count(self, table: str) -> int: ...

    def rows(self, table: str) -> Iterator[Row]:
        """Give the rows of a table in order, what TABLES names of each."""
        ...


class WritableRows(MemoryRows, Protocol):
    """One memory within a transaction that writes it, alone, and is committed whole or not at all."""

    def clear(self) -> None:
        """Delete all rows; what the memory says of itself stays until it is written anew."""
        ...

    def write_heading(self, heading: Heading) -> None: ...

    def write_rows(self, table: str, rows: Sequence[Row]) -> None: ...


class CopyPlace(Protocol):
    """Where one memory lies, or is to lie."""

    @property
    def location(self) -> str:
        """What to call it in messages; holds no password."""
        ...

    def exists(self) -> bool: ...

    def wait(self) -> None:
        """Wait a while where it is away just now; raise StoreUnavailableError where it stays away."""
        ...

    def reading(self) -> AbstractContextManager[MemoryRows]:
        """Begin a transaction that reads one unchanging view; raise NotFoundError where there is no memory."""
        ...

    def writing(self) -> AbstractContextManager[WritableRows]:
        """Begin a transaction that is committed at the block's end, and rolled back where that raises."""
        ...

    def close(self) -> None: ...


class Tally:
    """Counts rows and sums up what they say, in the order given."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._rows = 0
        self._hash = blake2b(digest_size=16)

    def add(self, row: Row) -> None:
        self._rows += 1
        self._hash.update(repr(row).encode())

    def total(self) -> TableSum:
        return TableSum(table=self._table, rows=self._rows, checksum=self._hash.hexdigest())


def sum_up(memory: MemoryRows) -> tuple[TableSum, ...]:
    """Sum up all that a memory holds, a table each."""
    return (sum_heading(memory), *(sum_table(memory, table) for table in TABLES))


def sum_heading(memory: MemoryRows) -> TableSum:
    heading, tally = memory.heading(), Tally(MEMORY)
    if heading is not None:
        tally.add(heading.row())
    return tally.total()


def sum_table(memory: MemoryRows, table: str) -> TableSum:
    tally = Tally(table)
    for row in memory.rows(table):
        tally.add(row)
    return tally.total()
