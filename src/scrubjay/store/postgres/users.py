"""The users of a database: who they are, and forgetting one of them whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.store.postgres.schema import LISTING, TABLES
from scrubjay.store.postgres.transaction import begin
from scrubjay.store.postgres.values import from_sql_text, memory_key

if TYPE_CHECKING:
    from scrubjay.store.postgres.connection import Connection
    from scrubjay.store_settings import PostgresSettings


def read_users(connection: Connection) -> tuple[str, ...]:
    """Give all users, sorted; a query that looks at every partition, as only taking the next from the queue does too."""
    with connection.transaction():
        connection.execute(f"SET LOCAL {LISTING} TO 'on'")
        found = connection.execute("SELECT user_id FROM scrubjay.memory").fetchall()
    return tuple(sorted(from_sql_text(user_id) for (user_id,) in found))


def delete_memory(connection: Connection, user_id: str, settings: PostgresSettings) -> bool:
    """Delete every row of a user's memory in one transaction; say whether there was one."""
    key = memory_key(user_id)
    found = begin(connection, key, writing=settings)
    for table in TABLES if found else ():
        connection.execute(f"DELETE FROM scrubjay.{table} WHERE memory_id = %s", (key,))
    connection.execute("COMMIT")
    return found is not None
