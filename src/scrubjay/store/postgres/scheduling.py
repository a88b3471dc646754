"""A memory's place in the queue of those that wait for a worker, kept by each write that changes what there is to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.store import rows

if TYPE_CHECKING:
    from datetime import timedelta

    from scrubjay.store.postgres.transaction import Transaction

FIRST_SEGMENTS = """
    SELECT min(segment_row) FROM scrubjay.segment_state JOIN scrubjay.segment USING (memory_id, segment_row)
    WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s AND state = 'pending' GROUP BY session_row
"""
"""Each session's first segment to do: those after it wait, for their reference context comes from it."""

NEXT_LEASE = f"""
    SELECT min(greatest(coalesce(lease_until, 0), coalesce(retry_at, 0))) AS at FROM scrubjay.segment_state
    WHERE memory_id = %(memory)s AND encoding_row = %(encoding)s AND segment_row IN ({FIRST_SEGMENTS})
"""
"""When the next segment can be leased; NULL where none is to be encoded."""

SAVE_ENCODE = f"""
    UPDATE scrubjay.work SET held_until = 0, encode_at = CASE
        WHEN next.at > %(now)s THEN next.at WHEN next.at IS NOT NULL THEN least(encode_at, %(now)s) END
    FROM ({NEXT_LEASE}) AS next WHERE memory_id = %(memory)s RETURNING cut_at IS NULL AND encode_at IS NULL
"""
"""A memory that waits keeps its place in the queue; one that was just served comes last."""

ADD_ENCODE = f"""
    INSERT INTO scrubjay.work (memory_id, encode_at) SELECT %(memory)s, greatest(next.at, %(now)s)
    FROM ({NEXT_LEASE}) AS next WHERE next.at IS NOT NULL
"""

SAVE_CUT = """
    INSERT INTO scrubjay.work AS before (memory_id, cut_at) VALUES (%(memory)s, %(at)s)
    ON CONFLICT (memory_id) DO UPDATE SET cut_at = least(before.cut_at, excluded.cut_at)
"""

LAST_ADDED = """
    SELECT min(last_added) FROM (
        SELECT max(added_at) AS last_added FROM scrubjay.turn
        WHERE memory_id = %(memory)s AND segment_row IS NULL GROUP BY session_row
    ) AS of_session
"""


def schedule_encoding(transaction: Transaction) -> None:
    """Say from when a segment of the current encoding can be leased; leave the queue where there is nothing to do."""
    values = {"encoding": transaction.memory.current_encoding, "now": rows.stamp()}
    found = transaction.one(SAVE_ENCODE, **values)
    if found is None:
        transaction.execute(ADD_ENCODE, **values)
    elif found[0]:
        leave_queue(transaction)


def schedule_cut(transaction: Transaction, *, seconds: float) -> None:
    """Have a worker look at open turns after so many seconds, if not before."""
    transaction.execute(SAVE_CUT, at=rows.stamp() + round(seconds * rows.MICROSECONDS))


def keep_cut(transaction: Transaction, *, seen: int, idle: timedelta, seconds: float) -> None:
    """Say when to look at open turns again, after a look at those up to `seen`: once the next session has gone idle.

    Where turns came meanwhile, after so many seconds.
    """
    at: int | None
    if transaction.memory.last["turn"] != seen:
        at = rows.stamp() + round(seconds * rows.MICROSECONDS)
    else:
        last = transaction.first(LAST_ADDED)
        at = None if last is None else last + round(idle.total_seconds() * rows.MICROSECONDS)
    transaction.execute("UPDATE scrubjay.work SET cut_at = %(at)s WHERE memory_id = %(memory)s", at=at)
    schedule_encoding(transaction)


def leave_queue(transaction: Transaction) -> None:
    transaction.execute("DELETE FROM scrubjay.work WHERE memory_id = %(memory)s")
