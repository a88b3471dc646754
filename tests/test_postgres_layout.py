"""How memories lie in PostgreSQL: every statement looks at one partition, and nobody sees another's rows."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psycopg
import pytest
from postgres_server import PostgresServer, fresh_database, with_parts
from record_stores import (
    EMBEDDER,
    NO_USAGE,
    NOON,
    Backend,
    add,
    close,
    complete,
    current,
    encode_all,
    lease,
    must_lease,
    prepare_turn,
    record,
)
from small_memories import finish, open_home, say, start, texts

from scrubjay.datatypes import NodeKey, NodeKind, RecordType, Role, SegmentState
from scrubjay.errors import StoreError, StoreSetupError
from scrubjay.memory import Memory
from scrubjay.settings import Settings
from scrubjay.store.opening import Opening, open_stores
from scrubjay.store.postgres import open_database
from scrubjay.store.postgres.schema import TABLES
from scrubjay.store.postgres.work import TAKE_NEXT
from scrubjay.store_settings import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[1] / "docs" / "postgres.md"
SMALL = PostgresSettings(partitions=4, connections=3)
OTHER = replace(EMBEDDER, name="another", dimension=2)
ENTRY = re.compile(
    r"@@LOG:  (?:execute <unnamed>|statement): (.*?)(?:\n@@DETAIL:  [Pp]arameters: (.*?))?\n(?=@@)", re.DOTALL
)
VALUE = re.compile(r"\$(\d+) = ('(?:[^']|'')*'|NULL)")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Give a server whose log can be read."""
    started = PostgresServer()
    yield started
    started.remove()


@pytest.fixture
def database(server: PostgresServer) -> Iterator[str]:
    with fresh_database(server.dsn()) as dsn:
        yield dsn


def open_backend(dsn: str, user_id: str) -> Backend:
    stores = open_stores(dsn, Opening(user_id=user_id, postgres=SMALL))
    stores.turns.name_embedder(EMBEDDER)
    return Backend(stores.turns, stores.segments, stores.records, stores.place.close)


def do_everything(backend: Backend) -> None:
    """Use each method of the three stores, so that all their statements are issued."""
    ids = add(backend, "monday", "one", "two", "three", "four")
    add(backend, "tuesday", "five")
    again = prepare_turn("monday", "one")
    placed = replace(again, turn=replace(again.turn, turn_id=ids[0], index=0))
    backend.turns.append([placed])
    backend.turns.known([("monday", placed.turn)])
    backend.turns.write_meta("owner", "ana")
    backend.segments.sessions_with_open_turns()
    close(backend, "monday", 1, 1, 1)
    close(backend, "tuesday", 1)
    complete(backend, must_lease(backend), record("r", ids[:1]), record("s", ids[:1]), note="a note")
    second = must_lease(backend)
    backend.segments.reference_context(second)
    backend.segments.renew_lease(second, now=NOON, lease_seconds=9)
    backend.segments.release_segment(second)
    backend.segments.fail_segment(must_lease(backend), "no", retry_at=None, max_attempts=1, usage=NO_USAGE)
    backend.segments.retry_failed()
    backend.segments.next_lease_at(current(backend))
    state = backend.records.load().state
    encode_all(backend)
    backend.records.load(after=state)
    read_everything(backend)
    rebuild(backend)
    stage_and_adopt(backend)
    assert backend.turns.check() == ()
    backend.turns.forget(turn_id=ids[0], dry_run=True)
    backend.turns.forget(turn_id=ids[0])
    backend.turns.forget(session_id="tuesday")
    backend.turns.forget(before=NOON + timedelta(days=1))
    backend.turns.forget(everything=True)


def read_everything(backend: Backend) -> None:
    rows = [int(row) for row in backend.turns.load(after=0).turn_row]
    for session_id in (None, "monday"):
        list(backend.turns.turns(session_id=session_id))
    list(backend.turns.turns(rows=rows))
    backend.turns.turn("monday:0")
    backend.turns.sessions()
    backend.turns.totals()
    backend.turns.read_meta("owner")
    backend.segments.open_turns("monday")
    backend.segments.progress()
    backend.segments.segments(session_id="monday", state=SegmentState.ENCODED)
    backend.segments.usage()
    backend.segments.add_usage(NO_USAGE)
    backend.records.nodes()
    backend.records.record("none")
    backend.records.records_at(backend.records.load().row.tolist())
    key = NodeKey(kind=NodeKind.ENTITY, key="ana")
    assert list(backend.records.records(type=RecordType.FACT, node=key, session_id="monday"))


def rebuild(backend: Backend) -> None:
    backend.records.name_encoding(model="a", prompt_version="1")
    backend.records.begin_encoding(model="b", prompt_version="1")
    backend.records.drop_encoding()
    run = backend.records.begin_encoding(model="b", prompt_version="2")
    while (leased := lease(backend, encoding_row=run.encoding_row)) is not None:
        complete(backend, leased, *(record(turn.text, [turn.turn_id]) for turn in leased.turns))
    backend.records.switch_encoding()


def stage_and_adopt(backend: Backend) -> None:
    passages = backend.turns.unstaged(OTHER, limit=99)
    backend.turns.stage_vectors([found.row for found in passages], np.ones((len(passages), 2), np.float32))
    waiting = backend.records.unstaged_texts(limit=99)
    backend.records.stage_text_vectors(waiting, np.ones((len(waiting), 2), np.float32))
    backend.turns.adopt_vectors(OTHER)


def statements_of(log: str) -> dict[str, str]:
    """Give each statement of ours that a server was sent, with the values of one call in their places."""
    found = {}
    for statement, values in ENTRY.findall(log):
        if "scrubjay." in statement and not statement.startswith("SET LOCAL"):
            found[statement] = fill(statement, dict(VALUE.findall(values)))
    return found


def fill(statement: str, values: dict[str, str]) -> str:
    return re.sub(r"\$(\d+)", lambda place: values[place[1]], statement)


def partitions_of(plan: object) -> set[str]:
    """Give the numbers of the partitions that a plan reads or changes."""
    if isinstance(plan, list):
        return set().union(*map(partitions_of, plan))
    if not isinstance(plan, dict):
        return set()
    number = re.search(r"_(\d+)$", str(plan.get("Relation Name", "")))
    return {number[1]} if number else set[str]() | partitions_of(list(plan.values()))


def test_every_statement_touches_one_partition(server: PostgresServer) -> None:
    """Of every statement that the stores send, PostgreSQL's own plan reads one partition of each table only."""
    with fresh_database(server.dsn()) as dsn:
        name = str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
        for user_id in ("alice", "bob"):  # more than one, lest a partition be empty for the want of rows
            open_backend(dsn, user_id).close()
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} SET log_statement = 'all'")
            connection.execute("ALTER SYSTEM SET log_line_prefix = '@@'")
            connection.execute("SELECT pg_reload_conf()")
        begin = server.log.stat().st_size
        backend = open_backend(dsn, "alice")
        do_everything(backend)
        backend.close()
        database = open_database(dsn, SMALL)
        assert database.forget_user("alice")
        database.close()
        statements = statements_of(server.log.read_bytes()[begin:].decode("utf-8", "replace"))
        assert len(statements) > 90
        with psycopg.connect(dsn, autocommit=True) as connection:
            for statement, filled in statements.items():
                if "scrubjay.migration" in statement:
                    continue
                row = connection.execute(f"EXPLAIN (FORMAT JSON) {filled}".replace("%", "%%")).fetchone()
                assert row is not None
                plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
                assert len(partitions_of(plan)) <= 1, statement


def test_the_memory_leads_every_key(database: str) -> None:
    """Every primary, unique and foreign key and every index begins with the memory's id, but for what workers share."""
    open_backend(database, "alice").close()
    with psycopg.connect(database) as connection:
        keys = connection.execute(
            "SELECT conrelid::regclass::text, contype, attname FROM pg_constraint "
            "JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1] "
            "WHERE connamespace = 'scrubjay'::regnamespace AND contype IN ('p', 'u', 'f') "
            "AND conrelid NOT IN ('scrubjay.migration'::regclass, 'scrubjay.budget'::regclass)"
        ).fetchall()
        indexes = connection.execute(
            "SELECT indrelid::regclass::text, attname FROM pg_index JOIN pg_class ON pg_class.oid = indrelid "
            "JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] "
            "WHERE relnamespace = 'scrubjay'::regnamespace AND indrelid NOT IN "
            "('scrubjay.migration'::regclass, 'scrubjay.budget'::regclass)"
        ).fetchall()
    assert {kind for _, kind, _ in keys} == {"p", "u", "f"}
    others = [row for row in (*keys, *indexes) if row[-1] != "memory_id"]
    assert {(table.rstrip("0123456789"), column) for table, column in others} == {
        ("scrubjay.work", "due_at"),
        ("scrubjay.work_", "due_at"),
    }


def test_the_next_of_the_queue(database: str) -> None:
    """Taking the memory that waits longest reads the heads of the queue's indexes, in order, and sorts nothing."""
    open_backend(database, "alice").close()
    with psycopg.connect(database) as connection:
        connection.execute("SET LOCAL enable_seqscan TO off")
        row = connection.execute(f"EXPLAIN (FORMAT JSON) {TAKE_NEXT}", {"now": 1, "until": 2}).fetchone()
    plan = json.dumps(row)
    assert '"Merge Append"' in plan
    assert plan.count("due_at_idx") == SMALL.partitions
    assert '"Sort"' not in plan


def test_what_citus_asks_of_tables(database: str) -> None:
    """Unpartitioned, the tables are such as Citus spreads by the memory's id, in the order of the page's statements."""
    listed = re.findall(r"create_distributed_table\('scrubjay\.(\w+)', 'memory_id'", PAGE.read_text("utf-8"))
    assert sorted(listed) == sorted(TABLES)
    open_database(database, replace(SMALL, partitions=0)).close()
    with psycopg.connect(database) as connection:
        keys = connection.execute(
            "SELECT conrelid::regclass::text, contype, confrelid::regclass::text, confdeltype, "
            "(SELECT array_agg(attname ORDER BY place) FROM unnest(conkey) WITH ORDINALITY AS key (number, place) "
            "JOIN pg_attribute ON attrelid = conrelid AND attnum = number), "
            "(SELECT array_agg(attname ORDER BY place) FROM unnest(confkey) WITH ORDINALITY AS key (number, place) "
            "JOIN pg_attribute ON attrelid = confrelid AND attnum = number) "
            "FROM pg_constraint WHERE connamespace = 'scrubjay'::regnamespace AND conrelid <> ALL "
            "(ARRAY['scrubjay.migration'::regclass, 'scrubjay.budget'::regclass]) AND contype IN ('p', 'u', 'f', 'x')"
        ).fetchall()
        others = connection.execute(
            "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'scrubjay'::regnamespace AND relkind IN ('S', 'v', 'm')), "
            "(SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal)"
        ).fetchone()
    assert others == (0, 0)
    assert {kind for _, kind, _, _, _, _ in keys} == {"p", "u", "f"}
    for table, kind, referred, when_deleted, columns, referred_columns in keys:
        assert columns[0] == "memory_id"
        if kind == "f":
            assert (referred_columns[0], when_deleted in "ac") == ("memory_id", True)
            place, before = (listed.index(name.removeprefix("scrubjay.")) for name in (table, referred))
            assert place > before


@pytest.mark.parametrize("partitions", [0, 4])
def test_the_second_wall(database: str, partitions: int) -> None:
    """With the roles that the page sets up, nobody sees a row of a memory that their transaction hasn't named, nor the tables' owner."""
    prepare, grant = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(prepare)
    settings = Settings(postgres=replace(SMALL, partitions=partitions))
    owner, app = (with_parts(database, user=f"scrubjay_{role}") for role in ("owner", "app"))
    Memory(owner, user_id="alice", settings=settings, embedder="hash:64").close()
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute(grant)
    for user_id in ("alice", "bob"):
        with Memory(app, user_id=user_id, settings=settings, embedder="hash:64") as memory:
            say(memory, f"I am {user_id}.")
            assert [hit.turn.text for hit in memory.search("I am")] == [f"I am {user_id}."]
            assert memory.doctor() == ()
    for role in (owner, app):
        with psycopg.connect(role) as connection:
            tables = connection.execute(
                "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'scrubjay'::regnamespace "
                "AND relkind IN ('r', 'p') AND relname NOT IN ('migration', 'budget')"
            ).fetchall()
            assert len(tables) == 17 * (partitions + 1)
            for (table,) in tables:
                assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
            connection.execute("SELECT set_config('scrubjay.memory_id', gen_random_uuid()::text, false)")
            assert connection.execute("SELECT count(*) FROM scrubjay.turn").fetchone() == (0,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(
                    "INSERT INTO scrubjay.meta SELECT gen_random_uuid(), 'key', 'written for another'"
                )
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP SCHEMA scrubjay CASCADE")
        connection.execute("DROP OWNED BY scrubjay_app, scrubjay_owner")
        connection.execute("DROP ROLE scrubjay_app, scrubjay_owner")


def deploy(dsn: str) -> None:
    open_home(dsn).close()


def test_two_deployers_at_once(database: str) -> None:
    """Processes that find no tables at the same moment make them once, and all of them go on."""
    finish(*[start(deploy, database) for _ in range(4)])
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT version, partitions FROM scrubjay.migration").fetchall() == [
            (1, 3),
            (2, 3),
        ]
    with open_home(database) as home, home.borrow("alice") as memory:
        say(memory, "hello")
        assert texts(memory) == ["hello"]


def test_a_migration_that_fails_leaves_nothing(database: str) -> None:
    """Where a table can't be made, none is; once what stood in the way is gone, all are."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA scrubjay")
        connection.execute("CREATE TABLE scrubjay.node_record (x int)")
        with pytest.raises(StoreError, match="node_record"):
            open_home(database)
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'scrubjay'").fetchall()
        assert found == [("node_record",)]
        connection.execute("DROP TABLE scrubjay.node_record")
    deploy(database)


def test_more_partitions_than_the_server_has_locks_for(database: str) -> None:
    """Tables that the server can't make are refused with what to change, and none is left; fewer are made."""
    too_many = PostgresSettings(partitions=256)
    with pytest.raises(StoreSetupError, match="max_locks_per_transaction"):
        open_database(database, too_many)
    open_database(database, SMALL).close()
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT DISTINCT partitions FROM scrubjay.migration").fetchall() == [(4,)]


def test_nearest_by_sql(database: str) -> None:
    """Vectors lie in pgvector's type: the database orders by distance as the search in the process does."""
    settings = Settings(postgres=SMALL)
    with Memory(database, user_id="alice", settings=settings, embedder="hash:64") as memory:
        say(memory, "the red boat", "a green boat", "no match at all", "the red boat on the lake")
        rows = memory._store.load(after=0)
        query = memory._embedder.embed(["red boat"])[0]
        mine = np.argsort(-(rows.vectors @ query), kind="stable")
        assert memory.turn("monday:0").role is Role.USER
    with psycopg.connect(database) as connection:
        theirs = connection.execute(
            "SELECT passage_row FROM scrubjay.passage ORDER BY vector <#> %s::vector, passage_row",
            (str(query.tolist()),),
        ).fetchall()
    assert [row - 1 for (row,) in theirs] == mine.tolist()
