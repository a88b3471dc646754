"""Memories from one place to another: nothing lost, nothing doubled, whatever breaks it off."""

from __future__ import annotations

import io
import os
import signal
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planned_memories import recollect, remember
from postgres_server import fresh_database
from scribes import Scribe, most, open_eager
from small_memories import EMBEDDER, fill, finish, open_home, open_memory, say, start, texts

from scrubjay.bench.datasets import load_dataset
from scrubjay.datatypes import NewTurn, Role
from scrubjay.embed import load_embedder
from scrubjay.errors import (
    InputError,
    NotFoundError,
    StoreReadOnlyError,
    StoreSetupError,
)
from scrubjay.memory import Memory
from scrubjay.migration import migrate as migrate_memories
from scrubjay.postgres_home import PostgresHome
from scrubjay.settings import Settings
from scrubjay.store.connection import Database
from scrubjay.store.copying import COUNTERS, HEADING, LEFT_BEHIND, TABLES, sum_up
from scrubjay.store.file_rows import FilePlace
from scrubjay.store.postgres import open_database
from scrubjay.store.postgres.work import WorkQueue
from scrubjay.store_settings import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scrubjay.datatypes import Hit, MigrationProgress, MigrationReport, TableSum

STORES = Path(__file__).parent / "stores"
FEW = PostgresSettings(partitions=2, connections=4)


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    """Give a database for tests that each have users of their own."""
    with fresh_database() as dsn:
        yield dsn


@pytest.fixture
def database() -> Iterator[str]:
    with fresh_database() as dsn:
        yield dsn


def migrate(
    source: str | Path,
    to: str | Path,
    *users: str,
    replace: bool = False,
    dry_run: bool = False,
    advance: Callable[[MigrationProgress], None] = lambda _: None,
) -> MigrationReport:
    return migrate_memories(
        source, to, users=users, replace=replace, dry_run=dry_run, postgres=FEW, advance=advance
    )


def outcomes(report: MigrationReport) -> list[str]:
    assert [memory.error for memory in report.memories if memory.error] == []
    return [memory.outcome.value for memory in report.memories]


def sums_of(path: Path) -> tuple[TableSum, ...]:
    with closing(FilePlace(path, read_only=True)) as place, place.reading() as memory:
        return sum_up(memory)


def exported(memory: Memory) -> str:
    written = io.StringIO()
    memory.export(written)
    return written.getvalue()


def hits(memory: Memory, *questions: str) -> list[list[Hit]]:
    return [[*memory.search(question, limit=50)] for question in questions]


def in_database(dsn: str, user_id: str, *, read_only: bool = False) -> Memory:
    return Memory(
        dsn, user_id=user_id, settings=Settings(postgres=FEW), embedder=EMBEDDER, read_only=read_only
    )


# --- whole ---


def test_every_column_is_copied_or_left_behind_on_purpose(tmp_path: Path, database: str) -> None:
    """Each column of each table of both stores is copied, made of what is copied, or named as one that isn't."""
    copied = {(table, column) for table, columns in TABLES.items() for column in columns}
    left = {(table, column) for table, columns in LEFT_BEHIND.items() for column in columns}
    with closing(Database(str(tmp_path / "memory.jay"))) as opened, opened.read() as connection:
        in_file = {
            (table, column)
            for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            for (column,) in connection.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchall()
        }
    own = {("migration", "version"), ("migration", "applied_at")} | {
        ("sqlite_sequence", name) for name in ("name", "seq")
    }
    assert in_file == copied | left | own
    migrate(tmp_path / "memory.jay", database, "alice")
    with psycopg.connect(database) as connected:
        found = connected.execute(
            "SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE attnum > 0 "
            "AND relnamespace = 'scrubjay'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition "
            "AND relname NOT IN ('migration', 'budget')"
        ).fetchall()
    keys = {(table, "memory_id") for table in (*TABLES, "memory")}
    digests = {("session", "session_digest"), ("turn", "turn_digest"), ("node", "key_digest")}
    heading = {"public_id", "created_at", "current_encoding", *(HEADING - {"owner", "memory_id"})}
    heading |= {f"last_{table}" for table in COUNTERS}
    of_the_place = {"user_id", "writes", "last_write"}
    memory = {("memory", column) for column in heading | of_the_place}
    queue = {("work", column) for column in ("memory_id", "cut_at", "encode_at", "held_until", "due_at")}
    assert set(found) == copied | left | keys | digests | memory | queue


WORDS = st.text(
    st.one_of(st.characters(), st.sampled_from("\0\x1aéß\ud800語 ")), min_size=1, max_size=12
).filter(str.strip)
MOMENTS = st.one_of(
    st.none(),
    st.builds(
        lambda seconds, minutes: datetime.fromtimestamp(seconds, timezone(timedelta(minutes=minutes))),
        st.integers(0, 2_000_000_000),
        st.sampled_from([0, 60, -330, 345]),
    ),
)
TURNS = st.tuples(
    st.sampled_from(["monday", "tuesday", "среда\x1a"]),
    st.builds(
        NewTurn,
        role=st.sampled_from(list(Role)),
        text=WORDS,
        speaker=st.sampled_from([None, "Zoé", "\x1a", "\ud800"]),
        said_at=MOMENTS,
        metadata=st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), WORDS), max_size=2),
    ),
)


@settings(max_examples=12)
@given(
    turns=st.lists(TURNS, min_size=1, max_size=8),
    segments=st.integers(0, 4),
    forgotten=st.one_of(st.none(), st.integers(0, 7)),
    staged=st.booleans(),
    rebuilding=st.booleans(),
)
def test_there_and_back(
    tmp_path_factory: pytest.TempPathFactory,
    shared: str,
    turns: Sequence[tuple[str, NewTurn]],
    segments: int,
    forgotten: int | None,
    *,
    staged: bool,
    rebuilding: bool,
) -> None:
    """Any memory, half done as it may be, is the same in a database and in a file again: row for row, hit for hit."""
    folder = tmp_path_factory.mktemp("there-and-back")
    first, last = folder / "first.jay", folder / "last.jay"
    user_id = str(folder)
    with open_eager(first, Scribe()) as memory:
        memory.add_many(turns)
        if segments:
            memory.consolidate(limits=most(segments), flush=True)
        if forgotten is not None and forgotten < len(turns):
            memory.forget(turn=[*memory.turns()][forgotten].turn_id)
        if rebuilding:
            memory.records.begin_encoding(model="another", prompt_version="2")
        if staged:
            other = load_embedder("hash:32")
            found = memory._store.unstaged(other.identity, limit=3)
            memory._store.stage_vectors(
                [passage.row for passage in found], other.embed([passage.turn.text for passage in found])
            )
        questions = [turn.text for _, turn in turns][:3]
        before = (exported(memory), hits(memory, *questions), memory.recall(questions[0]).text)
    assert outcomes(migrate(first, shared, user_id)) == ["copied"]
    assert outcomes(migrate(shared, last, user_id)) == ["copied"]
    assert sums_of(first) == sums_of(last)
    for opened in (in_database(shared, user_id), open_memory(last)):
        with opened as memory:
            assert (exported(memory), hits(memory, *questions), memory.recall(questions[0]).text) == before
            assert memory.doctor() == ()
            assert len(say(memory, "and on it goes")) == 1  # no row number is given twice
            assert memory.segments.progress().leased == 0


def test_the_sample_ranks_alike_before_and_after(tmp_path: Path, shared: str) -> None:
    """Every question about the sample has the same hits and the same evidence in a copy, from records too."""
    (sample,) = load_dataset("sample").samples
    said = [(session.session_id, turn) for session in sample.conversation.sessions for turn in session.turns]
    with Memory(tmp_path / "sample.jay") as memory:
        memory.add_many(said)
    remember(tmp_path / "records.jay")
    for name in ("sample", "records"):
        migrate(tmp_path / f"{name}.jay", shared, name)
    with (
        Memory(tmp_path / "sample.jay") as in_file,
        Memory(shared, user_id="sample", settings=Settings(postgres=FEW)) as copy,
    ):
        for question in sample.questions:
            one, other = (
                memory.search(question.question, limit=50, now=question.asked_at)
                for memory in (in_file, copy)
            )
            assert one == other
        assert len(sample.questions) > 40
    with (
        recollect(tmp_path / "records.jay") as in_file,
        in_database(shared, "records", read_only=True) as copy,
    ):
        for asked in ("Who plays the bassoon?", "What can Mira not eat?", "Where did Jonas sleep?"):
            asked_at = datetime(2024, 4, 1, tzinfo=UTC)
            mine, theirs = (
                memory.recall(asked, strategy="planned", now=asked_at) for memory in (in_file, copy)
            )
            assert (mine.text, mine.links, mine.records) == (theirs.text, theirs.links, theirs.records)
            assert mine.records


def test_a_home_there_and_back(tmp_path: Path, database: str) -> None:
    """All users of a folder, whatever their ids, come into a database and from there into a folder; or one of them."""
    users = ["alice", "Bob", "../é\x1a", "with space"]
    with open_home(tmp_path / "home") as home:
        for user in users:
            with home.borrow(user) as memory:
                say(fill(memory), f"I am {user}.")
    assert outcomes(migrate(tmp_path / "home", database, "Bob")) == ["copied"]
    report = migrate(tmp_path / "home", database)
    assert {memory.user_id: memory.outcome.value for memory in report.memories} == {
        user: "already there" if user == "Bob" else "copied" for user in users
    }
    with PostgresHome(database, settings=Settings(postgres=FEW)) as home, home.borrow("Bob") as memory:
        assert (home.users(), memory.owner) == (tuple(sorted(users)), "Bob")
        assert texts(memory)[-1] == "I am Bob."
    assert outcomes(migrate(database, tmp_path / "back")) == ["copied"] * 4
    assert outcomes(migrate(database, tmp_path / "home")) == ["already there"] * 4
    with open_home(tmp_path / "back") as home:
        assert home.users() == tuple(sorted(users))


def test_the_source_stays_as_it_is(tmp_path: Path, shared: str) -> None:
    """Not a byte of the file that is copied changes, and nothing is left beside it."""
    folder = tmp_path / "source"
    folder.mkdir()
    with open_memory(folder / "memory.jay") as memory:
        fill(memory)
    before = (folder / "memory.jay").read_bytes()
    assert outcomes(migrate(folder / "memory.jay", shared, "untouched", dry_run=True)) == ["would be copied"]
    assert outcomes(migrate(folder / "memory.jay", shared, "untouched")) == ["copied"]
    assert ((folder / "memory.jay").read_bytes(), len(list(folder.iterdir()))) == (before, 1)


def test_leases_stay_behind(tmp_path: Path, database: str) -> None:
    """A segment that a worker holds in the source is free in the copy, which waits for a worker of its own."""
    now = datetime.now(UTC)
    with open_eager(tmp_path / "memory.jay", Scribe()) as memory:
        fill(memory).consolidate(limits=most(1), flush=True)
        row = memory.records.encodings()[0].encoding_row
        held = memory.segments.lease_segment(row, owner="worker", now=now, lease_seconds=600)
        assert held is not None
        migrate(tmp_path / "memory.jay", database, "leased")
        with closing(open_database(database, FEW)) as opened:
            claim = WorkQueue(opened).claim(now=datetime.now(UTC), seconds=1)
        assert claim is not None
        assert claim.user_id == "leased"
        with in_database(database, "leased") as copy:
            assert (memory.segments.progress().leased, copy.segments.progress().leased) == (1, 0)
            again = copy.segments.lease_segment(row, owner="another", now=now, lease_seconds=600)
            assert again is not None
            assert [turn.text for turn in again.turns] == [turn.text for turn in held.turns]


# --- broken off ---


def migrate_and_die(source: str, to: str, steps: int) -> None:
    """Migrate until so many parts of it are written, and end as `kill -9` ends a process."""
    left = steps

    def advance(_: MigrationProgress) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    migrate(source, to, advance=advance)


@pytest.mark.parametrize("way", ["there", "back"])
def test_killed_at_any_moment(tmp_path: Path, database: str, way: str) -> None:
    """However often it is killed, what is there meanwhile is whole memories, and in the end all, as in one go."""
    users = ["alice", "bob", "carol"]
    home, back = tmp_path / "home", tmp_path / "back"
    for user in users:
        home.mkdir(exist_ok=True)
        remember(home / f"{user}.jay")
    expected = {user: sums_of(home / f"{user}.jay") for user in users}
    source, target = str(home), database
    if way == "back":
        migrate(home, database)
        source, target = database, str(back)
    for steps in (1, 5, 9, 20, 15):
        process = start(migrate_and_die, source, target, steps)
        process.join(120)
        assert process.exitcode == -signal.SIGKILL
    report = migrate(source, target)
    assert {memory.outcome.value for memory in report.memories} == {"copied", "already there"}
    assert {memory.user_id: memory.sums for memory in report.memories} == expected
    assert outcomes(migrate(source, target)) == ["already there"] * 3


def migrate_all(source: str, to: str) -> None:
    migrate(source, to)


def test_two_at_once(tmp_path: Path, database: str) -> None:
    """Two processes that migrate the same folder at the same time end well, and each memory is there once."""
    with open_home(tmp_path / "home") as home:
        for user in ("alice", "bob"):
            with home.borrow(user) as memory:
                fill(memory)
    migrate(tmp_path / "home", database, "alice")  # the tables are there
    finish(*[start(migrate_all, str(tmp_path / "home"), database) for _ in range(2)])
    assert outcomes(migrate(tmp_path / "home", database)) == ["already there"] * 2


def test_the_database_goes_away_meanwhile(tmp_path: Path, database: str) -> None:
    """Where the connection breaks in the middle, that memory is copied from the beginning again."""
    with open_memory(tmp_path / "memory.jay") as memory:
        fill(memory)
    cuts = 2

    def cut(_: MigrationProgress) -> None:
        nonlocal cuts
        cuts -= 1
        if cuts >= 0:
            with psycopg.connect(database, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'scrubjay' AND datname = current_database()"
                )

    assert outcomes(migrate(tmp_path / "memory.jay", database, "alice", advance=cut)) == ["copied"]
    cuts = 2
    assert outcomes(migrate(database, tmp_path / "back.jay", "alice", advance=cut)) == ["copied"]
    assert sums_of(tmp_path / "back.jay") == sums_of(tmp_path / "memory.jay")


def test_written_to_meanwhile(tmp_path: Path, shared: str) -> None:
    """A source that is written to is copied as it was when that began; the report says so, and `replace` catches up."""
    path = tmp_path / "memory.jay"
    with open_memory(path) as memory:
        fill(memory)
        late = iter(["a late word"])

        def write(_: MigrationProgress) -> None:
            for word in late:
                say(memory, word)

        (copied,) = migrate(path, shared, "meanwhile", advance=write).memories
        assert (copied.changed_meanwhile, copied.count("turn")) == (True, 11)
        with in_database(shared, "meanwhile") as copy:
            assert len(texts(copy)) == 11
            assert copy.search("bassoon")
            refused = migrate(path, shared, "meanwhile").memories[0]
            assert "11 turns there, 12 to be copied" in refused.error
            assert outcomes(migrate(path, shared, "meanwhile", replace=True, dry_run=True)) == [
                "would be replaced"
            ]
            (copied,) = migrate(path, shared, "meanwhile", replace=True).memories
            assert (copied.outcome.value, copied.changed_meanwhile) == ("replaced", False)
            assert copy.search("late word")[0].turn.text == "a late word"  # as whoever had it open finds too


# --- refused ---


def test_a_copy_that_differs_is_not_kept(tmp_path: Path, database: str) -> None:
    """Where the target doesn't keep what it is given, the copy is rolled back, and the tables that differ are named."""
    with open_home(tmp_path / "home") as home, home.borrow("alice") as memory:
        fill(memory)
    with open_home(database):
        pass
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN NEW.text := upper(NEW.text); RETURN NEW; END $$"
        )
        connection.execute(
            "CREATE TRIGGER shout BEFORE INSERT ON scrubjay.turn FOR EACH ROW EXECUTE FUNCTION shout()"
        )
    (refused,) = migrate(tmp_path / "home", database).memories
    assert (refused.outcome.value, "differs from its source in turn," in refused.error) == ("refused", True)
    with open_home(database) as home:
        assert home.users() == ()


def test_another_memory_in_its_place(tmp_path: Path, shared: str) -> None:
    """A memory that isn't a copy stays as it is, whatever is asked, and the others go on; an empty one makes room."""
    with open_home(tmp_path / "home") as home:
        for user in ("ann", "ben", "cem"):
            with home.borrow(user) as memory:
                fill(memory)
    with in_database(shared, "ann") as memory:
        say(memory, "I was here first.")
    with in_database(shared, "ben") as memory:
        assert texts(memory) == []
    for replace in (False, True):
        report = migrate(tmp_path / "home", shared, replace=replace)
        first, *others = report.memories
        assert (first.outcome.value, report.refused) == ("refused", 1)
        assert "another memory" in first.error
        assert [one.outcome.value for one in others] == [["copied"] * 2, ["already there"] * 2][replace]
    with in_database(shared, "ann") as memory:
        assert texts(memory) == ["I was here first."]


def test_what_can_not_be_chosen(tmp_path: Path, database: str) -> None:
    """Whose memory goes where must be said, and be so; nothing is made where it isn't."""
    with open_home(tmp_path / "home") as home:
        for user in ("ann", "ben"):
            with home.borrow(user) as memory:
                fill(memory)
    with open_memory(tmp_path / "plain.jay") as memory:
        fill(memory)
    home_folder, owned = tmp_path / "home", tmp_path / "home" / "ann.jay"
    for error, words, source, to, users in (
        (InputError, "name its user", tmp_path / "plain.jay", database, ()),
        (InputError, "memory of 'ann', not of ben", owned, database, ("ben",)),
        (InputError, "name one user", home_folder, tmp_path / "one.jay", ()),
        (NotFoundError, "'zoe'", home_folder, database, ("ann", "zoe")),
        (NotFoundError, "no memory", tmp_path / "none.jay", database, ()),
        (InputError, "mysql", home_folder, "mysql://x/y", ()),
        (InputError, "in memory only", home_folder, ":memory:", ()),
    ):
        with pytest.raises(error, match=words):
            migrate(source, to, *users)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "plain.jay"]
    with open_home(database) as home:
        assert home.users() == ()
    assert outcomes(migrate(owned, tmp_path / "copy.jay")) == ["copied"]


def test_old_files_and_new_databases(tmp_path: Path, database: str) -> None:
    """A file of an older version is to be opened once; a dry run makes no tables, and says that there are none."""
    with open_memory(tmp_path / "memory.jay") as memory:
        fill(memory)
    with pytest.raises(StoreSetupError, match="open it once for writing"):
        migrate(tmp_path / "memory.jay", database, "alice", dry_run=True)
    old = tmp_path / "old.jay"
    old.write_bytes((STORES / "schema_1.jay").read_bytes())
    with pytest.raises(StoreReadOnlyError, match="open it once for writing"):
        migrate(old, database, "alice")
