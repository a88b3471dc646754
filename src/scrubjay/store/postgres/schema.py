"""Numbered migrations of the tables in PostgreSQL, as statements; applied in one transaction by migrating.py.

The memory's id leads every primary, unique and foreign key, so that tables can be partitioned, or spread over
servers, with all of a memory's rows on one shard. Row numbers count within a memory: they are taken under the lock of
its row in `memory`, so "rows after N" finds all that is new, as in a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrubjay.store.copying import COUNTERS

if TYPE_CHECKING:
    from collections.abc import Callable

SETTING = "scrubjay.memory_id"
"""The transaction's setting that says whose rows may be seen."""

LISTING = "scrubjay.list_memories"
"""The transaction's setting with which the table of memories, and no other, may be read whole."""

FINDING = "scrubjay.find_work"
"""The transaction's setting with which the queue of memories that wait for a worker may be read and changed whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How tables are made in one database."""

    partitions: int  # of each table; 0: not partitioned
    vector_type: str  # pgvector's, with its schema


def create_table(name: str, columns: str, layout: Layout, *, fillfactor: int = 100) -> list[str]:
    """Give the statements for a table of which each memory sees its own rows only."""
    storage = "" if fillfactor == 100 else f" WITH (fillfactor = {fillfactor})"
    rows = f"CREATE TABLE scrubjay.{name} (memory_id uuid NOT NULL, {columns})"
    if not layout.partitions:
        return [rows + storage, *protect(name)]
    parts = [
        f"CREATE TABLE scrubjay.{name}_{number} PARTITION OF scrubjay.{name} "
        f"FOR VALUES WITH (MODULUS {layout.partitions}, REMAINDER {number}){storage}"
        for number in range(layout.partitions)
    ]
    closed = [
        statement for number in range(layout.partitions) for statement in force_security(f"{name}_{number}")
    ]
    return [f"{rows} PARTITION BY HASH (memory_id)", *parts, *protect(name), *closed]


def protect(name: str) -> list[str]:
    """Give the second wall: whoever forgets the memory's id in a query sees nothing; superusers see all."""
    own = f"memory_id = nullif(current_setting('{SETTING}', true), '')::uuid"
    return [
        *force_security(name),
        f"CREATE POLICY own_memory ON scrubjay.{name} USING ({own})",
    ]


def force_security(name: str) -> list[str]:
    """Show no row of a table that has no policy: so a partition is reached through its table only."""
    return [
        f"ALTER TABLE scrubjay.{name} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE scrubjay.{name} FORCE ROW LEVEL SECURITY",
    ]


def create_turn_log(layout: Layout) -> list[str]:
    """Version 1: memories, sessions, turns, the passages that index them, segments, records, evidence nodes.

    What a file has in its first two versions; the columns mean the same. Text that PostgreSQL refuses (NUL, lone
    surrogates) is escaped by U+001A and four hexadecimal digits. `…_digest` stands for a text of any length in a
    unique key: BLAKE2b, 16 bytes. Vectors are pgvector's `vector`, which keeps float32 bit for bit.
    """
    return [
        *create_memory_tables(layout),
        *create_turn_tables(layout),
        *create_segment_tables(layout),
        *create_passage_tables(layout),
        *create_record_tables(layout),
        *create_node_tables(layout),
    ]


def create_memory_tables(layout: Layout) -> list[str]:
    last = ", ".join(f"last_{name} bigint NOT NULL DEFAULT 0" for name in COUNTERS)
    memory = create_table(
        "memory",
        "public_id uuid NOT NULL, "  # another one once the memory was forgotten and made anew
        "user_id text NOT NULL, "
        "embedder text, "  # JSON, NULL before the first was named
        "staged_embedder text, "
        "generation bigint NOT NULL DEFAULT 0, "
        "writes bigint NOT NULL DEFAULT 0, "  # transactions
        "last_write uuid, "  # tells whether a write whose confirmation was lost is there
        "current_encoding bigint NOT NULL DEFAULT 0, "
        f"{last}, "
        "created_at bigint NOT NULL, "
        "PRIMARY KEY (memory_id)",
        layout,
        fillfactor=50,  # its rows change with every write: room for the next version beside the last
    )
    listing = (
        "CREATE POLICY list_memories ON scrubjay.memory FOR SELECT USING "
        f"(current_setting('{LISTING}', true) = 'on')"
    )
    meta = create_table(
        "meta",
        "key text NOT NULL, value text NOT NULL, PRIMARY KEY (memory_id, key), "
        "FOREIGN KEY (memory_id) REFERENCES scrubjay.memory",
        layout,
    )
    return [*memory, listing, *meta]


def create_turn_tables(layout: Layout) -> list[str]:
    return create_table(
        "session",
        "session_row bigint NOT NULL, session_id text NOT NULL, session_digest bytea NOT NULL, "
        "next_position bigint NOT NULL DEFAULT 0, segmenter text NOT NULL DEFAULT '', "
        "PRIMARY KEY (memory_id, session_row), UNIQUE (memory_id, session_digest), "
        "FOREIGN KEY (memory_id) REFERENCES scrubjay.memory",
        layout,
    )


def create_segment_tables(layout: Layout) -> list[str]:
    return [
        *create_table(
            "encoding",
            "encoding_row bigint NOT NULL, model text NOT NULL, prompt_version text NOT NULL, state text NOT NULL, "
            "created_at bigint NOT NULL, PRIMARY KEY (memory_id, encoding_row), UNIQUE (memory_id, state), "
            "FOREIGN KEY (memory_id) REFERENCES scrubjay.memory",
            layout,
        ),
        *create_table(
            "usage",
            'stage text COLLATE "C" NOT NULL, model text COLLATE "C" NOT NULL, calls bigint NOT NULL, '
            "input_tokens bigint NOT NULL, output_tokens bigint NOT NULL, PRIMARY KEY (memory_id, stage, model), "
            "FOREIGN KEY (memory_id) REFERENCES scrubjay.memory",
            layout,
        ),
        *create_table(
            "segment",
            "segment_row bigint NOT NULL, session_row bigint NOT NULL, number bigint NOT NULL, reason text NOT NULL, "
            "probability double precision, signals text NOT NULL, created_at bigint NOT NULL, "
            "PRIMARY KEY (memory_id, segment_row), UNIQUE (memory_id, session_row, number), "
            "FOREIGN KEY (memory_id, session_row) REFERENCES scrubjay.session",
            layout,
        ),
        *create_table(
            "segment_state",
            "encoding_row bigint NOT NULL, segment_row bigint NOT NULL, state text NOT NULL DEFAULT 'pending', "
            "attempts bigint NOT NULL DEFAULT 0, last_error text NOT NULL DEFAULT '', retry_at bigint, "
            "lease_owner text, lease_until bigint, leases bigint NOT NULL DEFAULT 0, note text NOT NULL DEFAULT '', "
            "updated_at bigint NOT NULL, PRIMARY KEY (memory_id, encoding_row, segment_row), "
            "FOREIGN KEY (memory_id, encoding_row) REFERENCES scrubjay.encoding ON DELETE CASCADE, "
            "FOREIGN KEY (memory_id, segment_row) REFERENCES scrubjay.segment ON DELETE CASCADE",
            layout,
        ),
        "CREATE INDEX state_of_segment ON scrubjay.segment_state (memory_id, segment_row)",
        *create_table(
            "turn",
            "turn_row bigint NOT NULL, turn_id text NOT NULL, turn_digest bytea NOT NULL, session_row bigint NOT NULL, "
            "position bigint NOT NULL, role text NOT NULL, speaker text, text text NOT NULL, caption text, "
            "said_at bigint, said_offset integer, added_at bigint NOT NULL, metadata text NOT NULL, "
            "tokens integer NOT NULL, flags integer NOT NULL, segment_row bigint, "
            "PRIMARY KEY (memory_id, turn_row), UNIQUE (memory_id, turn_digest), "
            "UNIQUE (memory_id, session_row, position), "
            "FOREIGN KEY (memory_id, session_row) REFERENCES scrubjay.session, "
            "FOREIGN KEY (memory_id, segment_row) REFERENCES scrubjay.segment",
            layout,
        ),
        "CREATE INDEX turn_of_segment ON scrubjay.turn (memory_id, segment_row)",
    ]


def create_passage_tables(layout: Layout) -> list[str]:
    return [
        *create_table(
            "passage",
            "passage_row bigint NOT NULL, turn_row bigint NOT NULL, start integer NOT NULL, stop integer NOT NULL, "
            f"tokens integer NOT NULL, {index_columns(layout)}, PRIMARY KEY (memory_id, passage_row), "
            "FOREIGN KEY (memory_id, turn_row) REFERENCES scrubjay.turn",
            layout,
        ),
        "CREATE INDEX passage_of_turn ON scrubjay.passage (memory_id, turn_row)",
        *create_staged("passage", "staged_vector", layout),
    ]


def index_columns(layout: Layout) -> str:
    return f"length integer NOT NULL, terms bytea NOT NULL, counts bytea NOT NULL, vector {layout.vector_type} NOT NULL"


def create_staged(owner: str, name: str, layout: Layout) -> list[str]:
    return create_table(
        name,
        f"{owner}_row bigint NOT NULL, vector {layout.vector_type} NOT NULL, PRIMARY KEY (memory_id, {owner}_row), "
        f"FOREIGN KEY (memory_id, {owner}_row) REFERENCES scrubjay.{owner} ON DELETE CASCADE",
        layout,
    )


def create_record_tables(layout: Layout) -> list[str]:
    return [
        *create_table(
            "record",
            "record_row bigint NOT NULL, encoding_row bigint NOT NULL, record_id text NOT NULL, type text NOT NULL, "
            "text text NOT NULL, entities text NOT NULL, tags text NOT NULL, t_ref text, t_valid_from text, "
            "t_valid_to text, stance text NOT NULL, speaker text, supported boolean NOT NULL, "
            f"support_reason text NOT NULL, tokens integer NOT NULL, {index_columns(layout)}, "
            "PRIMARY KEY (memory_id, record_row), UNIQUE (memory_id, encoding_row, record_id), "
            "FOREIGN KEY (memory_id, encoding_row) REFERENCES scrubjay.encoding ON DELETE CASCADE",
            layout,
        ),
        *create_table(
            "provenance",
            "provenance_row bigint NOT NULL, record_row bigint NOT NULL, turn_row bigint NOT NULL, "
            "PRIMARY KEY (memory_id, provenance_row), UNIQUE (memory_id, record_row, turn_row), "
            "FOREIGN KEY (memory_id, record_row) REFERENCES scrubjay.record ON DELETE CASCADE, "
            "FOREIGN KEY (memory_id, turn_row) REFERENCES scrubjay.turn",
            layout,
        ),
        "CREATE INDEX provenance_of_turn ON scrubjay.provenance (memory_id, turn_row)",
        *create_staged("record", "staged_record_vector", layout),
    ]


def create_node_tables(layout: Layout) -> list[str]:
    return [
        *create_table(
            "node",
            "node_row bigint NOT NULL, encoding_row bigint NOT NULL, segment_row bigint, kind text NOT NULL, "
            "key text NOT NULL, key_digest bytea NOT NULL, text text NOT NULL, tokens integer NOT NULL, "
            f"{index_columns(layout)}, PRIMARY KEY (memory_id, node_row), "
            "UNIQUE (memory_id, encoding_row, kind, key_digest), "
            "FOREIGN KEY (memory_id, encoding_row) REFERENCES scrubjay.encoding ON DELETE CASCADE, "
            "FOREIGN KEY (memory_id, segment_row) REFERENCES scrubjay.segment",
            layout,
        ),
        "CREATE INDEX frame_of_segment ON scrubjay.node (memory_id, segment_row) WHERE segment_row IS NOT NULL",
        *create_table(
            "node_record",
            "link_row bigint NOT NULL, node_row bigint NOT NULL, record_row bigint NOT NULL, "
            "PRIMARY KEY (memory_id, link_row), UNIQUE (memory_id, node_row, record_row), "
            "FOREIGN KEY (memory_id, node_row) REFERENCES scrubjay.node ON DELETE CASCADE, "
            "FOREIGN KEY (memory_id, record_row) REFERENCES scrubjay.record ON DELETE CASCADE",
            layout,
        ),
        "CREATE INDEX node_of_record ON scrubjay.node_record (memory_id, record_row)",
        *create_staged("node", "staged_node_vector", layout),
    ]


def create_work_queue(layout: Layout) -> list[str]:
    """Version 2: which memories have something for a worker to do, and from when; what workers spend together.

    A memory has a row in `work` while it has open turns or segments to encode. `cut_at`: when to look whether open
    turns make a segment; `encode_at`: when a segment can be leased; `held_until`: a worker looks at it until then.
    Memories that are there get a row each, and lose it when a worker finds nothing. `budget` is no memory's.
    """
    queue, *walls = create_table(
        "work",
        "cut_at bigint, encode_at bigint, held_until bigint NOT NULL DEFAULT 0, "
        "due_at bigint NOT NULL GENERATED ALWAYS AS (greatest(least(cut_at, encode_at), held_until)) STORED, "
        "PRIMARY KEY (memory_id), FOREIGN KEY (memory_id) REFERENCES scrubjay.memory",
        layout,
        fillfactor=50,
    )
    parts = walls[: layout.partitions]
    return [
        queue,
        *parts,
        "CREATE INDEX work_due ON scrubjay.work (due_at)",
        f"SET LOCAL {LISTING} TO 'on'",
        "INSERT INTO scrubjay.work (memory_id, cut_at, encode_at) SELECT memory_id, created_at, created_at FROM scrubjay.memory",
        *walls[layout.partitions :],
        *(
            f"CREATE POLICY find_{kind.lower()} ON scrubjay.work FOR {kind} "
            f"USING (current_setting('{FINDING}', true) = 'on')"
            for kind in ("SELECT", "UPDATE")
        ),
        "CREATE TABLE scrubjay.budget (name text PRIMARY KEY, starts_at bigint NOT NULL, used bigint NOT NULL)",
    ]


TABLES = (
    "work",
    "staged_node_vector",
    "node_record",
    "node",
    "staged_record_vector",
    "provenance",
    "record",
    "staged_vector",
    "passage",
    "turn",
    "segment_state",
    "segment",
    "usage",
    "encoding",
    "session",
    "meta",
    "memory",
)
"""Every table with a memory's rows; each before those it refers to, the order to delete in."""

MIGRATIONS: tuple[Callable[[Layout], list[str]], ...] = (create_turn_log, create_work_queue)
"""The migration at place i brings the tables from version i to version i + 1."""

SCHEMA_VERSION = len(MIGRATIONS)
