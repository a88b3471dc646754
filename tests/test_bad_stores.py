"""Files that aren't a sound memory, and disks that won't take one: a typed error, and nothing lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from small_memories import database_of, fill, finish, open_memory, run_python, say, start, texts

from scrubjay.errors import (
    NotFoundError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreNewerError,
    StoreReadOnlyError,
)
from scrubjay.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STORES = Path(__file__).parent / "stores"
NOBODY = 65_534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the file of a closed memory that holds the small conversation."""
    path = tmp_path / "memory.jay"
    fill(open_memory(path)).close()
    return path


def damage(path: Path, *statements: str) -> None:
    """Change a memory's tables behind its back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


# --- not a memory ---


def other_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE bookmark (url TEXT)")


def write_bytes(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


OTHERS: dict[str, Callable[[Path], object]] = {
    "text": write_bytes(b"Dear diary, " * 500),
    "noise": write_bytes(bytes(range(256)) * 64),
    "other program's": other_program,
    "half a header": write_bytes(b"SQLite form"),
    "torn header": write_bytes(b"SQLite format 3\0" + b"\xff" * 4_080),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_no_memory(tmp_path: Path, kind: str, *, read_only: bool) -> None:
    """A file that is something else is refused by name, and not a byte of it is changed."""
    path = tmp_path / "memory.jay"
    OTHERS[kind](path)
    before = path.read_bytes()
    with pytest.raises(StoreCorruptError, match=r"memory\.jay"):
        open_memory(path, read_only=read_only)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["memory.jay"]


def test_a_folder_is_no_memory(tmp_path: Path) -> None:
    """A folder in place of the file is refused with a typed error."""
    with pytest.raises(StoreError, match="can't be opened"):
        open_memory(tmp_path)


def test_an_empty_file(tmp_path: Path) -> None:
    """An empty file, such as `touch` leaves, becomes a memory when written to; to read there is none yet."""
    (tmp_path / "memory.jay").touch()
    with pytest.raises(StoreReadOnlyError, match="open it once for writing"):
        open_memory(tmp_path / "memory.jay", read_only=True)
    with open_memory(tmp_path / "memory.jay") as memory:
        say(memory, "hello")


# --- damaged ---


def test_a_newer_memory(path: Path) -> None:
    """A memory written by a newer ScrubJay is refused unchanged, and the error says how to upgrade."""
    damage(path, "PRAGMA user_version = 99")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreNewerError, match=r"schema 99.*pip install -U scrubjay"):
            open_memory(path, read_only=read_only)
    assert path.read_bytes() == before


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_file_cut_short(path: Path, share: float) -> None:
    """Of a file that was cut, whatever is asked either works or raises one typed error; `doctor` sees the damage."""
    os.truncate(path, int(path.stat().st_size * share))
    try:
        with Memory(path) as memory:
            faults = memory.doctor()
            assert faults
            assert "backup" in faults[0].remedy
    except StoreCorruptError as error:
        assert "damaged" in str(error)  # noqa: PT017 -- either is right


def test_every_page_flipped(path: Path) -> None:
    """Whichever page is overwritten, no call fails but by a typed error, and `doctor` never calls the file sound."""
    whole = path.read_bytes()
    for page in range(1, len(whole) // 4096):
        path.write_bytes(whole[: page * 4096] + b"\xaa" * 4096 + whole[(page + 1) * 4096 :])
        sound = False
        try:
            with Memory(path) as memory:
                sound = memory.doctor() == ()
                memory.recall("Who plays the bassoon?")
                texts(memory)
        except StoreCorruptError:
            continue
        assert not sound, page


DAMAGE = {
    "a passage gone": (
        "DELETE FROM passage WHERE turn_row = 3",
        "every turn is in the indexes",
    ),
    "a turn gone": (
        "DELETE FROM turn WHERE turn_row = 3",
        "every index entry has its turn",
    ),
    "a session gone": (
        "DELETE FROM session WHERE session_id = 'ferry'",
        "every turn has its session",
    ),
    "a vector too short": (
        "UPDATE passage SET vector = zeroblob(12) WHERE passage_row = 2",
        "every vector has the embedder's dimension",
    ),
    "counts lost": (
        "UPDATE passage SET counts = x'0100' WHERE passage_row = 1",
        "every full-text entry counts each of its terms",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_doctor_finds_damage(path: Path, kind: str) -> None:
    """What is missing from an index, or doesn't fit, is found and named, with what mends it; else all is well."""
    with Memory(path) as memory:
        assert memory.doctor() == ()
    statement, check = DAMAGE[kind]
    damage(path, statement)
    with Memory(path, read_only=True) as memory:
        (fault,) = memory.doctor()
    assert (fault.check, fault.found) == (check, "1 are not" if kind != "a session gone" else "3 are not")
    assert fault.remedy


def test_a_damaged_index_is_mended_by_export_and_import(path: Path, tmp_path: Path) -> None:
    """The remedy that `doctor` names works: an export of the turns, read into a new file, has every index."""
    damage(path, "DELETE FROM passage WHERE turn_row > 5")
    with Memory(path) as memory, open_memory(tmp_path / "new.jay") as mended:
        assert memory.doctor()[0].remedy.startswith("export")
        memory.export(tmp_path / "all.jsonl")
        mended.import_(tmp_path / "all.jsonl")
        assert mended.doctor() == ()
        assert texts(mended) == texts(memory)
        assert mended.search("Lübeck")[0].turn.session_id == "sprachen"


# --- disks that won't take it ---


@contextmanager
def somebody() -> Iterator[Path]:
    """Give a folder of ours while we have only the rights of anybody: permissions mean nothing to root."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    is_root = os.geteuid() == 0
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


def give_up_rights(folder: Path) -> None:
    """Leave files and folder readable only, to us as well."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)


def test_a_file_that_may_not_be_written(path: Path) -> None:
    """A memory without write permission can be read and asked; a write is refused, and nothing is left beside it."""
    with somebody() as folder:
        shutil.copy(path, folder / "m.jay")
        before = path.read_bytes()
        give_up_rights(folder)
        with Memory(folder / "m.jay", read_only=True) as memory:
            assert memory.recall("Who plays the bassoon?").links
            assert (len(texts(memory)), memory.doctor()) == (11, ())
            for write in (
                lambda: say(memory, "x"),
                lambda: memory.forget(everything=True),
                lambda: memory.reembed("hash:8"),
            ):
                with pytest.raises(StoreReadOnlyError, match="permissions"):
                    write()
        with pytest.raises(StoreReadOnlyError, match="permissions"):
            Memory(folder / "m.jay")
        with pytest.raises(StoreReadOnlyError):
            open_memory(folder / "new.jay")
        assert [(found.name, found.read_bytes()) for found in folder.iterdir()] == [("m.jay", before)]


def test_a_memory_without_its_log_is_not_read(path: Path) -> None:
    """Where a killed writer left a log that can't be read with the file, that is said; the file alone may be behind."""
    with somebody() as folder:
        shutil.copy(path, folder / "m.jay")
        finish_badly(folder / "m.jay")
        assert Path(folder / "m.jay-wal").stat().st_size
        Path(folder / "m.jay-shm").unlink()
        give_up_rights(folder)
        with pytest.raises(StoreError):
            Memory(folder / "m.jay", read_only=True)


def finish_badly(path: Path) -> None:
    """Add a turn in a process that ends without closing."""
    run_python(
        "import os, sys\nfrom small_memories import *\nmemory = Memory(sys.argv[1])\nsay(memory, 'late')\nos._exit(0)",
        str(path),
    )


def test_opened_to_read_only(path: Path) -> None:
    """A memory opened to read refuses every write with a typed error, also where the disk would take it."""
    with Memory(path, read_only=True) as memory:
        for write in (
            lambda: say(memory, "x"),
            lambda: memory.forget(turn="ferry:0"),
            lambda: memory.set_owner("me"),
        ):
            with pytest.raises(StoreReadOnlyError):
                write()
        assert memory.doctor(scrub=True) != ()
        assert len(texts(memory)) == 11


def test_a_full_disk_found_by_sqlite(path: Path) -> None:
    """When the file can't grow, the add fails as a whole; all that was there can be asked, and later adds work."""
    with Memory(path) as memory:
        (pages,) = database_of(memory)._connection.execute("PRAGMA page_count").fetchone()
        database_of(memory)._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreFullError, match="disk is full"):
            say(memory, *(f"more and more {number}" for number in range(300)))
        assert len(texts(memory)) == 11
        assert memory.recall("Who plays the bassoon?").links
        assert memory.doctor() == ()
        database_of(memory)._connection.execute("PRAGMA max_page_count = 1000000")
        say(memory, "room again")
        assert memory.search("room")[0].turn.session_id == "monday"


FILL_UP = """
import sys
from small_memories import *
from scrubjay.errors import StoreError, StoreFullError
if sys.argv[2] != "disk":
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, 800_000))
memory = fill(open_memory(sys.argv[1]))
kept = 11
while kept < 10_000:
    try:
        say(memory, f"turn {kept} " + "and so on " * 20)
    except StoreError as error:
        assert sys.argv[2] != "disk" or isinstance(error, StoreFullError), repr(error)
        break
    kept += 1
assert len(texts(memory)) == kept
assert memory.recall("bassoon").links and memory.doctor() == ()
try:
    report = memory.forget(session="monday")  # makes room, even if it can't rewrite the file
    assert report.scrubbed or report.pending
except StoreError:
    pass
print(kept)
"""


@pytest.mark.parametrize("how", ["disk", "limit"])
def test_a_full_disk(tmp_path: Path, how: str) -> None:
    """On a disk that fills up, every acknowledged turn stays, questions are answered, and the error says what to do."""
    folder = tmp_path / "small"
    folder.mkdir()
    if how == "disk" and not mount(folder):
        pytest.skip("mounting a small file system needs root")
    try:
        kept = int(run_python(FILL_UP, str(folder / "m.jay"), how).stdout)
        assert 20 < kept < 10_000
        with Memory(folder / "m.jay", read_only=True) as memory:
            stored = texts(memory)
            assert len(stored) in {11, kept}
            assert memory.doctor() == ()
    finally:
        if how == "disk":
            subprocess.run(["umount", "--lazy", folder], check=False)


def mount(folder: Path) -> bool:
    """Mount a file system of one megabyte; say whether that was allowed."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    return (
        shutil.which("mount") is not None
        and subprocess.run(command, check=False, capture_output=True).returncode == 0
    )


# --- old stores ---


@pytest.mark.parametrize("store", sorted(STORES.glob("*.jay")), ids=lambda store: store.stem)
def test_a_store_of_every_version_opens(tmp_path: Path, store: Path) -> None:
    """A memory of every earlier schema opens with every turn in every index, and can be written, asked and forgotten."""
    path = tmp_path / "old.jay"
    shutil.copy(store, path)
    with Memory(path) as memory, fill(open_memory(":memory:")) as today:
        assert [(t.turn_id, t.text, t.speaker, t.said_at) for t in memory.turns()] == [
            (t.turn_id, t.text, t.speaker, t.said_at) for t in today.turns()
        ]
        assert memory.sessions() == today.sessions()
        assert (
            memory.recall("Who plays the bassoon?").turn_ids
            == today.recall("Who plays the bassoon?").turn_ids
        )
        assert memory.doctor() == ()
        say(memory, "A new turn in an old store.")
        assert memory.search("old store")[0].turn.session_id == "monday"
        assert memory.forget(session="ferry").scrubbed
    assert [found.name for found in tmp_path.iterdir()] == ["old.jay"]


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_an_old_store_is_kept_until_the_new_one_is_there(tmp_path: Path) -> None:
    """An upgrade that fails changes nothing; it leaves a copy only until the next opening has worked."""
    path = tmp_path / "old.jay"
    shutil.copy(STORES / "schema_1.jay", path)
    damage(path, "CREATE TABLE segment (clashes)")  # the second migration can't make its own
    before = dump(path)
    with pytest.raises(StoreError):
        Memory(path)
    assert dump(path) == before
    damage(path, "DROP TABLE segment")
    with Memory(path) as memory:
        assert len(texts(memory)) == 11
    assert [found.name for found in tmp_path.iterdir()] == ["old.jay"]


def test_an_old_store_is_not_changed_by_reading(tmp_path: Path) -> None:
    """An old store opened to read is refused, says how to upgrade it, and isn't touched."""
    path = tmp_path / "old.jay"
    shutil.copy(STORES / "schema_1.jay", path)
    before = path.read_bytes()
    with pytest.raises(StoreReadOnlyError, match="open it once for writing"):
        Memory(path, read_only=True)
    assert path.read_bytes() == before


def open_and_add(path: str, name: str) -> None:
    with Memory(path) as memory:
        say(memory, name)


def test_processes_upgrade_one_store_together(tmp_path: Path) -> None:
    """Processes that open an old store at the same moment all find it upgraded, once, and lose nothing."""
    path = tmp_path / "old.jay"
    shutil.copy(STORES / "schema_1.jay", path)
    finish(*(start(open_and_add, str(path), f"process {number}") for number in range(4)))
    with Memory(path) as memory:
        assert len(texts(memory)) == 15
        assert memory.doctor() == ()
    assert [found.name for found in tmp_path.iterdir()] == ["old.jay"]


def test_no_store_is_missing_here() -> None:
    """Each schema has its store among the test files, so that a later version is tried on it."""
    from scrubjay.store.schema import SCHEMA_VERSION

    assert {store.stem for store in STORES.glob("*.jay")} == {
        f"schema_{n}" for n in range(1, SCHEMA_VERSION + 1)
    }


def test_a_missing_memory(tmp_path: Path) -> None:
    """Opening what isn't there, without `create`, names the path."""
    with pytest.raises(NotFoundError, match=r"absent\.jay"):
        Memory(tmp_path / "absent.jay", create=False)
