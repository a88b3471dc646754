"""Bringing a database up to date: is it one we can use, has it our tables, are they of this version."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from scrubjay.errors import StoreNewerError, StoreSetupError
from scrubjay.store.postgres.errors import describe
from scrubjay.store.postgres.schema import MIGRATIONS, SCHEMA_VERSION, Layout

if TYPE_CHECKING:
    from scrubjay.store.postgres.bounded import BoundedConnection

OLDEST_SERVER = 150_000
OLDEST_PGVECTOR = (0, 7)
MIGRATION_LOCK = 0x534A4159  # the advisory lock of whoever migrates; "SJAY"

EXAMINE = """
    SELECT current_setting('server_version_num')::int, current_setting('server_version'),
        current_setting('server_encoding'), extversion, quote_ident(nspname) || '.vector',
        to_regclass('scrubjay.migration') IS NOT NULL
    FROM (SELECT) AS one LEFT JOIN pg_extension ON extname = 'vector'
    LEFT JOIN pg_namespace ON pg_namespace.oid = extnamespace
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a database has of what a memory needs."""

    pgvector: str | None  # its version
    vector_type: str | None  # with its schema
    version: int  # of our tables; 0: none


def prepare(connection: BoundedConnection, location: str, *, partitions: int, read_only: bool) -> int:
    """Bring the tables up to date in one transaction, each step numbered; give the number of pgvector's type.

    Whoever comes while another does that waits, and finds nothing left to do.
    """
    found = examine(connection, location)
    if found.version < SCHEMA_VERSION:
        if read_only:
            raise StoreSetupError(
                f"{location} has tables of version {found.version}, this ScrubJay needs {SCHEMA_VERSION}: "
                "open it once for writing"
            )
        migrate(connection, location, partitions=partitions)
        found = examine(connection, location)
    require_pgvector(found, location)
    row = connection.execute("SELECT %s::regtype::oid", (found.vector_type,)).fetchone()
    assert row is not None
    return int(row[0])


def examine(connection: BoundedConnection, location: str) -> Found:
    """Ask what is there; raise StoreSetupError or StoreNewerError where it can't be used."""
    row = connection.execute(EXAMINE).fetchone()
    assert row is not None
    number, name, encoding, pgvector, vector_type, has_tables = row
    if number < OLDEST_SERVER:
        raise StoreSetupError(f"{location} is PostgreSQL {name}: ScrubJay needs 15 or newer")
    if encoding != "UTF8":
        raise StoreSetupError(f"{location} keeps text as {encoding}: make a database with ENCODING 'UTF8'")
    version = 0
    if has_tables:
        last = connection.execute("SELECT coalesce(max(version), 0) FROM scrubjay.migration").fetchone()
        version = 0 if last is None else int(last[0])
    if version > SCHEMA_VERSION:
        raise StoreNewerError(
            f"{location} was written by a newer ScrubJay (tables of version {version}, this one knows "
            f"{SCHEMA_VERSION}): upgrade with pip install -U scrubjay"
        )
    return Found(pgvector=pgvector, vector_type=vector_type, version=version)


def require_pgvector(found: Found, location: str) -> None:
    if found.pgvector is None:
        raise StoreSetupError(
            f"{location} has no pgvector: have a superuser run CREATE EXTENSION vector in this database"
        )
    if tuple(int(part) for part in found.pgvector.split(".")[:2]) < OLDEST_PGVECTOR:
        oldest = ".".join(map(str, OLDEST_PGVECTOR))
        raise StoreSetupError(
            f"{location} has pgvector {found.pgvector}, ScrubJay needs {oldest} or newer: install that, then have a "
            "superuser run ALTER EXTENSION vector UPDATE"
        )


def migrate(connection: BoundedConnection, location: str, *, partitions: int) -> None:
    connection.answer_seconds = (
        None  # a migration takes as long as it takes, and whoever comes second waits for it
    )
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        found = examine(connection, location)
        if found.pgvector is None:
            create_extension(connection, location)
            found = examine(connection, location)
        require_pgvector(found, location)
        if found.version == 0:
            create_migration_table(connection)
        else:
            partitions = read_partitions(connection)
        layout = Layout(partitions=partitions, vector_type=found.vector_type or "")
        for number in range(found.version + 1, SCHEMA_VERSION + 1):
            for statement in MIGRATIONS[number - 1](layout):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO scrubjay.migration VALUES (%s, %s, %s)",
                (number, time.time_ns() // 1000, partitions),
            )


def read_partitions(connection: BoundedConnection) -> int:
    """Give the number of partitions that the first tables were made with: those of later versions have as many."""
    row = connection.execute("SELECT partitions FROM scrubjay.migration WHERE version = 1").fetchone()
    assert row is not None
    return int(row[0])


def create_migration_table(connection: BoundedConnection) -> None:
    row = connection.execute("SELECT to_regnamespace('scrubjay') IS NULL").fetchone()
    if row is not None and row[0]:  # a role that may not make schemas can be given an empty one
        connection.execute("CREATE SCHEMA scrubjay")
    connection.execute(
        "CREATE TABLE scrubjay.migration "
        "(version integer PRIMARY KEY, applied_at bigint NOT NULL, partitions integer NOT NULL)"
    )


def create_extension(connection: BoundedConnection, location: str) -> None:
    """Have pgvector in the database; most servers let only a superuser do that."""
    try:
        connection.execute("CREATE EXTENSION vector")
    except (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.FeatureNotSupported,
        psycopg.errors.UndefinedFile,
    ) as error:
        raise StoreSetupError(
            f"{location} has no pgvector ({describe(error)}): install it on the server, and have a superuser run "
            "CREATE EXTENSION vector in this database"
        ) from error
