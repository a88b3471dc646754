"""Users never meet: each has a file of its own, whatever the id, and is forgotten with it."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_memories import (
    EMBEDDER,
    PATIENCE,
    PROCESSES,
    database_of,
    fill,
    finish,
    open_home,
    open_memory,
    say,
    start,
    texts,
)

from scrubjay.errors import InputError, NotFoundError, StoreClosedError, StoreError
from scrubjay.home import MemoryHome, file_name, read_owner

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ODD_IDS = (
    "../../etc/passwd",
    "..",
    ".",
    "/root",
    "a/b",
    "a\\b",
    "CON",
    "con",
    "con.txt",
    "nul",
    "com1",
    "a\0b",
    "\ud800",
    " ",
    "Ä",
    "ä",
    "a\u0308",
    "Alice",
    "alice",
    "ALICE",
    "conv-26",
    "-rf",
    "_",
    "a.jay",
    "a.jay-wal",
    "é" * 300,
    "x" * 100,
    "x" * 101,
    "🐦",
    "'; DROP TABLE turn; --",
    "a?mode=memory",
    "%2e%2e",
    "~",
)
ids = st.text(st.characters(exclude_categories=()), min_size=1, max_size=40) | st.sampled_from(ODD_IDS)


@pytest.mark.parametrize("user_id", ["conv-26", "alice", "a.b_c-1", "x" * 100])
def test_a_plain_id_names_its_file(user_id: str) -> None:
    """An id of small letters, digits, dots, dashes and underscores can be read off the file's name."""
    assert file_name(user_id) == f"{user_id}.jay"


@pytest.mark.parametrize("user_id", ["", None, 7, b"alice"])
def test_a_user_id_is_text(user_id: str) -> None:
    """An empty id, or one that is no text, is refused."""
    with pytest.raises(InputError, match="user id"):
        file_name(user_id)


@given(st.lists(ids, min_size=2, max_size=200, unique=True))
@settings(max_examples=100)
@example(list(ODD_IDS))
def test_no_two_ids_share_a_file(user_ids: list[str]) -> None:
    """Different ids have different files, also on a disk that ignores case, and no file lies outside the folder."""
    names = [file_name(user_id) for user_id in user_ids]
    assert len({name.casefold() for name in names}) == len(user_ids)
    for name in names:
        assert Path("home", name).resolve().parent == Path("home").resolve()
        assert name.isascii()
        assert len(name) <= 104
        assert not set(name) & set('/\\:*?"<>|\0 ')
        assert name.split(".")[0].upper() not in {"CON", "PRN", "AUX", "NUL", "COM1", "LPT1"}


def test_ten_thousand_ids() -> None:
    """Of ten thousand random ids no two share a file."""
    chance = random.Random(0)
    alphabet = "abAB01._-/\\ äÄßé\0火"
    user_ids = {"".join(chance.choices(alphabet, k=chance.randint(1, 8))) for _ in range(15_000)}
    assert len(user_ids) > 10_000
    assert len({file_name(user_id).casefold() for user_id in user_ids}) == len(user_ids)


def test_users_are_listed_by_their_ids(place: str) -> None:
    """Every id comes back from `users` as it was given, now and after reopening, and finds its own memory only."""
    with open_home(place) as home:
        assert home.users() == ()
        for user_id in ODD_IDS:
            say(home.memory(user_id), f"I am number {ODD_IDS.index(user_id)}.")
        assert home.users() == tuple(sorted(ODD_IDS))
    with open_home(place) as home:
        assert home.users() == tuple(sorted(ODD_IDS))
        for user_id in ODD_IDS:
            assert texts(home.memory(user_id, create=False)) == [f"I am number {ODD_IDS.index(user_id)}."]
            assert home.memory(user_id).owner == user_id


def test_a_user_who_is_not_there(place: str) -> None:
    """Without `create` an unknown user is an error, and neither file nor folder is made."""
    with open_home(place) as home:
        with pytest.raises(NotFoundError, match="nobody"):
            home.memory("nobody", create=False)
        assert not home.forget("nobody")
    assert not Path(place).exists()


def test_a_memory_is_opened_once(place: str) -> None:
    """Threads that ask for one user get the same open memory."""
    with open_home(place) as home, ThreadPoolExecutor(8) as pool:
        assert len({id(memory) for memory in pool.map(home.memory, ["alice"] * 40)}) == 1


def test_a_memory_made_by_the_command_is_its_users(tmp_path: Path) -> None:
    """A file named after a user, made without the home, is that user's memory."""
    fill(open_memory(tmp_path / "alice.jay")).close()
    with MemoryHome(tmp_path) as home:
        assert home.users() == ("alice",)
        assert len(texts(home.memory("alice", create=False))) == 11


def test_forgetting_a_user_deletes_the_file(tmp_path: Path) -> None:
    """Forgetting a user leaves no file of theirs, log and backup included, and no other user loses anything."""
    with MemoryHome(tmp_path, embedder=EMBEDDER) as home:
        for user_id in ("alice", "Bob/7"):
            say(home.memory(user_id), "My secret is wolframite.")
        alice = home.memory("alice")
        (tmp_path / "alice.jay.before-2").write_bytes(b"left by a killed migration: wolframite")
        assert home.forget("alice")
        with pytest.raises(StoreClosedError):
            alice.recall("secret")
        assert home.users() == ("Bob/7",)
        assert home.memory("Bob/7").search("wolframite")
        assert home.memory("alice").search("wolframite") == ()  # a new one, empty
    assert sorted(found.name for found in tmp_path.iterdir()) == [file_name("Bob/7"), "alice.jay"]


def hold_and_add(place: str, link: Connection) -> None:
    """Hold a user's memory open while another process forgets the user; then go on with that user."""
    with open_home(place) as home:
        held = home.memory("alice")
        say(held, "My secret is wolframite.")
        link.send("held")
        link.recv()
        for use in (lambda: say(held, "lost?"), lambda: held.recall("secret")):
            with pytest.raises(StoreClosedError, match="deleted or replaced"):
                use()
        say(home.memory("alice"), "A new beginning.")


def test_forgotten_in_another_process(place: str) -> None:
    """A user forgotten by one process is forgotten in all: none answers from the old file or writes into it."""
    here, there = PROCESSES.Pipe()
    other = start(hold_and_add, place, there)
    assert here.poll(PATIENCE)
    assert here.recv() == "held"
    with open_home(place) as home:
        assert home.forget("alice")
        here.send("forgotten")
        finish(other)
        assert texts(home.memory("alice", create=False)) == ["A new beginning."]


def test_two_tenants_at_once(place: str) -> None:
    """Two users who add and ask at the same time from many threads never see a word of each other's."""
    users = {"Alice/Ä": "pistachio", "alice/ä": "wolframite"}

    def use(job: tuple[str, str]) -> None:
        user_id, word = job
        other = next(said for said in users.values() if said != word)
        for number in range(25):
            memory = home.memory(user_id)
            say(memory, f"My word is {word}, for the time number {number}.")
            for asked in (word, other):
                evidence = memory.recall(f"Whose word is {asked}?")
                assert word in evidence.text
                assert other not in evidence.text
            assert all(other not in hit.turn.text for hit in memory.search(f"{word} {other}", limit=100))

    with open_home(place) as home:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(use, list(users.items()) * 3))
        for user_id, word in users.items():
            assert len(texts(home.memory(user_id))) == 75
            assert {text.split(",")[0] for text in texts(home.memory(user_id))} == {f"My word is {word}"}


def test_names_of_columns_and_filters_are_only_text(place: str) -> None:
    """Ids and session names that look like SQL or a filter are kept and compared as text."""
    hostile = ['") or true or ("', "' OR '1'='1", "%", "_", "*", "monday' --", "monday"]
    with open_home(place) as home:
        memory = home.memory(hostile[0])
        for name in hostile:
            memory.add({"role": "user", "content": f"said in {name}", "id": f"id {name}"}, session_id=name)
        for name in hostile:
            assert [turn.text for turn in memory.turns(session_id=name)] == [f"said in {name}"]
            assert memory.turn(f"id {name}").session_id == name
        for done, name in enumerate(hostile, start=1):
            assert memory.forget(session=name).turns == 1
            assert len(texts(memory)) == len(hostile) - done


def test_a_file_deleted_by_hand(tmp_path: Path) -> None:
    """A user whose file was deleted or replaced under an open home gets the file that is there now, or a new one."""
    with MemoryHome(tmp_path, embedder=EMBEDDER) as home:
        old = home.memory("alice")
        say(old, "before")
        for part in ("", "-wal", "-shm"):
            (tmp_path / f"alice.jay{part}").unlink()
        assert texts(home.memory("alice")) == []
        with pytest.raises(StoreClosedError):
            texts(old)
        assert read_owner(tmp_path / "vanished.jay") is None


def test_a_memory_that_cannot_be_given_its_owner(tmp_path: Path) -> None:
    """When a memory can't be marked as its user's, it isn't handed out, and nothing is left open."""
    with open_memory(tmp_path / "alice.jay") as memory, database_of(memory).write() as connection:
        connection.execute("CREATE TRIGGER full BEFORE INSERT ON meta BEGIN SELECT RAISE(ABORT, 'no'); END")
    with MemoryHome(tmp_path, embedder=EMBEDDER) as home:
        for _ in range(2):
            with pytest.raises(StoreError, match="could not be used"):
                home.memory("alice")
    assert [found.name for found in tmp_path.iterdir()] == ["alice.jay"]


def test_a_crash_while_a_memory_is_made(tmp_path: Path) -> None:
    """A file whose making was broken off before it got its owner lists nobody, and becomes its user's later."""
    open_memory(tmp_path / file_name("Ä")).close()
    with MemoryHome(tmp_path, embedder=EMBEDDER) as home:
        assert home.users() == ()
        say(home.memory("Ä"), "hello")
        assert home.users() == ("Ä",)


def test_listing_users_needs_no_embedder(tmp_path: Path) -> None:
    """Users are listed without loading the embedder their memories were made with."""
    with MemoryHome(tmp_path, embedder=EMBEDDER) as home:
        memory = home.memory("Ä")
        memory._store.write_meta("embedder", '{"name": "openai:none", "dimension": 3, "normalized": true}')
    with MemoryHome(tmp_path) as home:
        assert home.users() == ("Ä",)
