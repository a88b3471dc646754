"""Make the stores of earlier schemas that tests open: run once for each new schema, and commit what it makes.

python tests/stores/make.py
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from small_memories import fill, open_memory  # noqa: E402 -- found only from here on

from scrubjay.store.schema import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION  # noqa: E402

KEPT = ("meta", "session", "turn", "passage")  # all that a memory without records holds


def main() -> None:
    newest = FOLDER / f"schema_{SCHEMA_VERSION}.jay"
    if not newest.exists():
        fill(open_memory(newest)).close()
    for version in range(1, SCHEMA_VERSION):
        older = FOLDER / f"schema_{version}.jay"
        if not older.exists():
            write_older(older, newest, version=version)


def write_older(path: Path, newest: Path, *, version: int) -> None:
    """Write what a store holds as a store of an earlier schema."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for number, apply in enumerate(MIGRATIONS[:version], start=1):
            apply(connection)
            connection.execute("INSERT INTO migration VALUES (?, 0)", (number,))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.commit()
        connection.execute("ATTACH ? AS newest", (str(newest),))
        for table in KEPT:
            columns = ", ".join(row[1] for row in connection.execute(f"PRAGMA main.table_info({table})"))
            connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newest.{table}")


if __name__ == "__main__":
    main()
