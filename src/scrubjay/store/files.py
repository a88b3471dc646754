"""Opening a memory kept in one SQLite file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.errors import InputError
from scrubjay.store.connection import Database
from scrubjay.store.opening import Stores
from scrubjay.store.records import SqliteRecordStore
from scrubjay.store.segments import SqliteSegmentStore
from scrubjay.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from scrubjay.store.opening import Opening


def open_stores(location: str, opening: Opening) -> Stores:
    """Open a memory's file, or create it; ":memory:" keeps one in memory only."""
    if opening.user_id is not None:
        raise InputError(
            f"{location} is a file, and a file is one user's memory: leave user_id (--user) out, or give a database's address"
        )
    if not location:
        raise InputError('the path of a memory is empty: give a file, or ":memory:" for one in memory only')
    database = Database(
        location, read_only=opening.read_only, create=opening.create and not opening.read_only
    )
    return Stores(
        location=location,
        turns=SqliteStore(database),
        segments=SqliteSegmentStore(database),
        records=SqliteRecordStore(database),
        place=database,
    )
