"""Memories of many users in one PostgreSQL database; psycopg and pgvector are loaded when one is opened."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from scrubjay.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from scrubjay.store.opening import Opening, Stores
    from scrubjay.store.postgres.connection import PostgresDatabase
    from scrubjay.store_settings import PostgresSettings


def require_driver() -> None:
    """Raise MissingExtraError where what a database needs isn't installed."""
    try:
        import_module("scrubjay.store.postgres.turns")
    except ImportError as error:
        raise MissingExtraError(error.name or "psycopg", extra="postgres") from error


def open_database(dsn: str, settings: PostgresSettings, *, read_only: bool = False) -> PostgresDatabase:
    """Connect to a database, its tables brought up to date; raise a StoreError saying what is wrong."""
    require_driver()
    from scrubjay.store.postgres.connection import PostgresDatabase

    return PostgresDatabase(dsn, settings, read_only=read_only)


def open_stores(location: str, opening: Opening) -> Stores:
    """Open one user's memory in a database, which is closed with it."""
    if opening.user_id is None:
        raise InputError("a database holds the memories of many: say whose, by user_id or --user")
    database = open_database(location, opening.postgres, read_only=opening.read_only)
    try:
        return stores_of(
            database,
            opening.user_id,
            create=opening.create and not opening.read_only,
            owns_database=True,
        )
    except BaseException:
        database.close()
        raise


def stores_of(database: PostgresDatabase, user_id: str, *, create: bool, owns_database: bool) -> Stores:
    """Give one user's memory in a database that is open; raise NotFoundError if it isn't there or to be made."""
    from scrubjay.store.opening import Stores
    from scrubjay.store.postgres.place import MemoryPlace
    from scrubjay.store.postgres.records import PostgresRecordStore
    from scrubjay.store.postgres.segments import PostgresSegmentStore
    from scrubjay.store.postgres.turns import PostgresStore

    place = MemoryPlace(database, user_id, owns_database=owns_database)
    place.open(create=create)
    return Stores(
        location=place.location,
        turns=PostgresStore(place),
        segments=PostgresSegmentStore(place),
        records=PostgresRecordStore(place),
        place=place,
    )
