"""Numbered migrations of the embedded store, each applied in one transaction with its record."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

APPLICATION_ID = 0x534A4159  # "SJAY": marks an SQLite file as a ScrubJay memory


def create_turn_log(connection: sqlite3.Connection) -> None:
    """Version 1: sessions, turns, and the passages that index them.

    AUTOINCREMENT keeps a row number from being used twice, so that "rows after N" finds all that is new.
    A passage's term hashes and vector lie in its own row: deleting the row deletes every trace of its words.
    """
    create_turn_tables(connection)
    create_passage_tables(connection)


def create_turn_tables(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    connection.execute(
        "CREATE TABLE migration (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL)",
    )
    connection.execute(
        """
        CREATE TABLE session (
            session_row INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id TEXT NOT NULL UNIQUE,
            next_position INTEGER NOT NULL DEFAULT 0
        )
        """
    )
    connection.execute(
        """
        CREATE TABLE turn (
            turn_row INTEGER PRIMARY KEY AUTOINCREMENT,
            turn_id TEXT NOT NULL UNIQUE,
            session_row INTEGER NOT NULL REFERENCES session,
            position INTEGER NOT NULL,
            role TEXT NOT NULL,
            speaker,              -- TEXT, or BLOB (UTF-8 with surrogates) where TEXT can't hold it
            text NOT NULL,        -- likewise
            caption,              -- likewise
            said_at INTEGER,      -- microseconds since 1970 UTC
            said_offset INTEGER,  -- seconds east of UTC in which it was given
            added_at INTEGER NOT NULL,
            metadata TEXT NOT NULL,
            tokens INTEGER NOT NULL,
            flags INTEGER NOT NULL,
            UNIQUE (session_row, position)
        )
        """
    )


def create_passage_tables(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE passage (
            passage_row INTEGER PRIMARY KEY AUTOINCREMENT,
            turn_row INTEGER NOT NULL REFERENCES turn,
            start INTEGER NOT NULL,   -- characters into the turn's text
            stop INTEGER NOT NULL,
            tokens INTEGER NOT NULL,
            length INTEGER NOT NULL,  -- terms, repeats counted
            terms BLOB NOT NULL,      -- sorted uint64 hashes of the distinct terms
            counts BLOB NOT NULL,     -- uint16, how often each occurs
            vector BLOB NOT NULL      -- float32
        )
        """
    )
    connection.execute("CREATE INDEX passage_of_turn ON passage (turn_row)")
    connection.execute(  # vectors of another embedder, until all are there (reembed)
        """
        CREATE TABLE staged_vector (
            passage_row INTEGER PRIMARY KEY REFERENCES passage ON DELETE CASCADE,
            vector BLOB NOT NULL
        )
        """
    )


def create_records(connection: sqlite3.Connection) -> None:
    """Version 2: segments of turns, and what encoding them gave: records, provenance, evidence nodes.

    Records and nodes belong to an encoding; deleting it deletes them. A memory has a current encoding from the start,
    unnamed until a model is used, so that every segment always has a state. As in version 1, a text's term hashes and
    vector lie in its own row, and AUTOINCREMENT makes "rows after N" find all that is new, links too.
    """
    create_encoding_tables(connection)
    create_segment_tables(connection)
    create_record_tables(connection)
    create_node_tables(connection)


def create_encoding_tables(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE encoding (
            encoding_row INTEGER PRIMARY KEY AUTOINCREMENT,
            model TEXT NOT NULL,
            prompt_version TEXT NOT NULL,
            state TEXT NOT NULL UNIQUE,  -- current or building, one of each at most
            created_at INTEGER NOT NULL
        )
        """
    )
    connection.execute("INSERT INTO encoding VALUES (NULL, '', '', 'current', ?)", (time.time_ns() // 1000,))
    connection.execute(
        """
        CREATE TABLE usage (
            stage TEXT NOT NULL,
            model TEXT NOT NULL,
            calls INTEGER NOT NULL,
            input_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            PRIMARY KEY (stage, model)
        ) WITHOUT ROWID
        """
    )


def create_segment_tables(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE session ADD COLUMN segmenter TEXT NOT NULL DEFAULT ''")  # its own JSON
    connection.execute(
        """
        CREATE TABLE segment (
            segment_row INTEGER PRIMARY KEY AUTOINCREMENT,
            session_row INTEGER NOT NULL REFERENCES session,
            number INTEGER NOT NULL,
            reason TEXT NOT NULL,
            probability REAL,
            signals TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            UNIQUE (session_row, number)
        )
        """
    )
    # NULL while the turn is in no segment
    connection.execute("ALTER TABLE turn ADD COLUMN segment_row INTEGER REFERENCES segment")
    connection.execute("CREATE INDEX turn_of_segment ON turn (segment_row, session_row)")
    connection.execute(
        """
        CREATE TABLE segment_state (
            encoding_row INTEGER NOT NULL REFERENCES encoding ON DELETE CASCADE,
            segment_row INTEGER NOT NULL REFERENCES segment ON DELETE CASCADE,
            state TEXT NOT NULL DEFAULT 'pending',  -- pending, encoded or failed
            attempts INTEGER NOT NULL DEFAULT 0,
            last_error TEXT NOT NULL DEFAULT '',
            retry_at INTEGER,
            lease_owner TEXT,
            lease_until INTEGER,
            leases INTEGER NOT NULL DEFAULT 0,      -- how often it was leased: tells one lease from the next
            note TEXT NOT NULL DEFAULT '',
            updated_at INTEGER NOT NULL,
            PRIMARY KEY (encoding_row, segment_row)
        ) WITHOUT ROWID
        """
    )
    connection.execute("CREATE INDEX state_of_segment ON segment_state (segment_row)")
    connection.execute("CREATE INDEX segment_by_state ON segment_state (encoding_row, state, segment_row)")


def create_record_tables(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE record (
            record_row INTEGER PRIMARY KEY AUTOINCREMENT,
            encoding_row INTEGER NOT NULL REFERENCES encoding ON DELETE CASCADE,
            record_id TEXT NOT NULL,
            type TEXT NOT NULL,
            text NOT NULL,            -- TEXT, or BLOB where TEXT can't hold it; speaker, support_reason likewise
            entities TEXT NOT NULL,   -- JSON
            tags TEXT NOT NULL,       -- JSON
            t_ref TEXT,
            t_valid_from TEXT,
            t_valid_to TEXT,
            stance TEXT NOT NULL,
            speaker,
            supported INTEGER NOT NULL,
            support_reason NOT NULL,
            tokens INTEGER NOT NULL,
            length INTEGER NOT NULL,
            terms BLOB NOT NULL,
            counts BLOB NOT NULL,
            vector BLOB NOT NULL,
            UNIQUE (encoding_row, record_id)
        )
        """
    )
    connection.execute(
        """
        CREATE TABLE provenance (
            provenance_row INTEGER PRIMARY KEY AUTOINCREMENT,
            record_row INTEGER NOT NULL REFERENCES record ON DELETE CASCADE,
            turn_row INTEGER NOT NULL REFERENCES turn,
            UNIQUE (record_row, turn_row)
        )
        """
    )
    connection.execute("CREATE INDEX provenance_of_turn ON provenance (turn_row)")
    connection.execute(
        """
        CREATE TABLE staged_record_vector (
            record_row INTEGER PRIMARY KEY REFERENCES record ON DELETE CASCADE,
            vector BLOB NOT NULL
        )
        """
    )


def create_node_tables(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE node (
            node_row INTEGER PRIMARY KEY AUTOINCREMENT,
            encoding_row INTEGER NOT NULL REFERENCES encoding ON DELETE CASCADE,
            segment_row INTEGER REFERENCES segment,  -- of an event frame, whose text is the segment's
            kind TEXT NOT NULL,
            key NOT NULL,                            -- TEXT, or BLOB where TEXT can't hold it; text likewise
            text NOT NULL,                           -- empty once turns of its segment were forgotten
            tokens INTEGER NOT NULL,
            length INTEGER NOT NULL,
            terms BLOB NOT NULL,
            counts BLOB NOT NULL,
            vector BLOB NOT NULL,
            UNIQUE (encoding_row, kind, key)
        )
        """
    )
    connection.execute("CREATE INDEX frame_of_segment ON node (segment_row) WHERE segment_row IS NOT NULL")
    connection.execute(
        """
        CREATE TABLE node_record (
            link_row INTEGER PRIMARY KEY AUTOINCREMENT,
            node_row INTEGER NOT NULL REFERENCES node ON DELETE CASCADE,
            record_row INTEGER NOT NULL REFERENCES record ON DELETE CASCADE,
            UNIQUE (node_row, record_row)
        )
        """
    )
    connection.execute("CREATE INDEX node_of_record ON node_record (record_row)")
    connection.execute(
        """
        CREATE TABLE staged_node_vector (
            node_row INTEGER PRIMARY KEY REFERENCES node ON DELETE CASCADE,
            vector BLOB NOT NULL
        )
        """
    )


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (create_turn_log, create_records)
"""The migration at place i brings a store from version i to version i + 1."""

SCHEMA_VERSION = len(MIGRATIONS)
