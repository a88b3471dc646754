"""The queue of memories that have something for a worker to do, which all workers of a database share.

Taking the next memory is, beside listing users, the one statement that looks at every partition: it reads the first
entry of a small index in each, which holds only memories with something to do, and no word of theirs.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrubjay.store import rows
from scrubjay.store.postgres.place import MemoryPlace
from scrubjay.store.postgres.scheduling import keep_cut, schedule_encoding
from scrubjay.store.postgres.schema import FINDING, LISTING
from scrubjay.store.postgres.transaction import limit_waiting
from scrubjay.store.postgres.values import from_sql_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta
    from uuid import UUID

    from scrubjay.store.postgres.connection import Connection, PostgresDatabase

TAKE_NEXT = """
    WITH next AS (
        UPDATE scrubjay.work SET held_until = %(until)s,
            encode_at = CASE WHEN encode_at IS NOT NULL THEN greatest(encode_at, %(now)s) END
        WHERE memory_id = (
            SELECT memory_id FROM scrubjay.work WHERE due_at <= %(now)s ORDER BY due_at LIMIT 1
            FOR UPDATE SKIP LOCKED
        ) RETURNING memory_id, cut_at
    )
    SELECT memory_id, user_id, coalesce(cut_at <= %(now)s, false) FROM next JOIN scrubjay.memory USING (memory_id)
"""
"""Whoever waits longest comes first, and once served waits behind all others: so no memory starves another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A memory that a worker has to look at."""

    memory_id: UUID
    user_id: str
    is_cut_due: bool  # open turns may make a segment


class WorkQueue:
    """The memories of a database that have something for a worker to do."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def claim(self, *, now: datetime, seconds: float) -> Claim | None:
        """Take the memory that waits longest, and hide it from others for so long, or until it was served."""
        moment = rows.to_microseconds(now)

        def attempt() -> Claim | None:
            with self._finding() as connection:
                connection.execute(f"SET LOCAL {LISTING} TO 'on'")
                row = connection.execute(
                    TAKE_NEXT, {"now": moment, "until": moment + round(seconds * rows.MICROSECONDS)}
                ).fetchone()
            if row is None:
                return None
            return Claim(memory_id=row[0], user_id=from_sql_text(row[1]), is_cut_due=row[2])

        return self._database.keep_trying(attempt)

    def last_turn(self, user_id: str) -> int:
        """Give the number of the last turn that a memory was given."""
        return self._place(user_id).peek().last["turn"]

    def cut(self, user_id: str, *, seen: int, idle: timedelta) -> None:
        """Say that the open turns up to `seen` were looked at; they are again once a session has been idle so long."""
        seconds = self._database.settings.settle_seconds
        self._place(user_id).write(
            lambda transaction: keep_cut(transaction, seen=seen, idle=idle, seconds=seconds)
        )

    def give_back(self, user_id: str) -> None:
        """Let others have a memory that was claimed."""
        self._place(user_id).write(schedule_encoding)

    def is_drained(self, *, now: datetime) -> bool:
        """Say whether nothing is left to encode, or to look at yet."""
        query = (
            "SELECT NOT EXISTS (SELECT 1 FROM scrubjay.work WHERE encode_at IS NOT NULL OR cut_at <= %(now)s)"
        )

        def attempt() -> bool:
            with self._finding() as connection:
                row = connection.execute(query, {"now": rows.to_microseconds(now)}).fetchone()
            return row is not None and bool(row[0])

        return self._database.keep_trying(attempt)

    @contextmanager
    def _finding(self) -> Iterator[Connection]:
        with self._database.borrow() as connection, connection.transaction():
            limit_waiting(connection, self._database.settings)
            connection.execute(f"SET LOCAL {FINDING} TO 'on'")
            yield connection

    def _place(self, user_id: str) -> MemoryPlace:
        place = MemoryPlace(self._database, user_id, owns_database=False)
        place.open(create=False)
        return place
