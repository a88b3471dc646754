"""What the memories of benchmarks/scale.py take on disk, table by table, and which partitions PostgreSQL looks at."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg

from scrubjay.store.postgres.values import memory_key

if TYPE_CHECKING:
    from pathlib import Path

Figures = dict[str, float]

SHOWN = 6  # tables and indexes, the largest
STATEMENTS = {
    "reading an index": "SELECT terms, counts, vector FROM scrubjay.passage WHERE memory_id = '{key}' AND passage_row > 0",
    "reading turns": "SELECT text FROM scrubjay.turn JOIN scrubjay.session USING (memory_id, session_row) "
    "WHERE memory_id = '{key}' AND turn_row = ANY('{{1,2,3,4,5,6,7,8,9,10}}')",
    "looking for news": "SELECT generation FROM scrubjay.memory WHERE memory_id = '{key}'",
}


def weigh_files(folder: Path, turns: int) -> Figures:
    """Give bytes a turn, in all and by table and index, of all files."""
    weights: Counter[str] = Counter()
    paths = sorted(folder.glob("*.jay"))
    for path in paths:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            for name, size in connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"):
                weights[name] += size
            weights["free pages"] += connection.execute("PRAGMA freelist_count").fetchone()[0] * 4_096
    disk = sum(path.stat().st_blocks * 512 for path in paths)
    return {
        "disk, bytes a turn": disk / turns,
        "an empty memory, bytes": smallest(paths),
        **largest(weights, turns),
    }


def smallest(paths: list[Path]) -> float:
    return min(path.stat().st_size for path in paths)


def largest(weights: Counter[str], turns: int) -> Figures:
    return {f"of it {name}, bytes a turn": size / turns for name, size in weights.most_common(SHOWN)}


def weigh_database(dsn: str, turns: int) -> Figures:
    """Give bytes a turn, in all and by table and index, partitions put together; what is yet to be written out is."""
    weights: Counter[str] = Counter()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        total = connection.execute(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = 'scrubjay'::regnamespace AND relkind = 'r'"
        ).fetchone()
        for name, is_index, size in connection.execute(
            "SELECT relname, relkind = 'i', pg_table_size(oid) FROM pg_class "
            "WHERE relnamespace = 'scrubjay'::regnamespace AND relkind IN ('r', 'i')"
        ):
            weights[re.sub(r"_\d+(?=_|$)", "", name) + " (index)" * is_index] += int(size)
    assert total is not None
    return {"disk, bytes a turn": float(total[0]) / turns, **largest(weights, turns)}


def explain_pruning(dsn: str, user_id: str) -> Figures:
    """Have PostgreSQL tell which partitions the statements of a recall look at, and how long it plans and runs them."""
    figures: Figures = {}
    with psycopg.connect(dsn) as connection:
        key = memory_key(user_id)
        for name, statement in STATEMENTS.items():
            explained = "EXPLAIN (ANALYZE, FORMAT JSON) " + statement.format(key=key)
            connection.execute(explained)  # the first of a connection reads the catalogue
            row = connection.execute(explained).fetchone()
            assert row is not None
            plan = row[0][0]
            touched = set(re.findall(r"'Relation Name': '\w+?_(\d+)'", str(plan)))
            figures |= {
                f"{name}, partitions": len(touched),
                f"{name}, planned in ms": plan["Planning Time"],
                f"{name}, run in ms": plan["Execution Time"],
            }
    return figures
