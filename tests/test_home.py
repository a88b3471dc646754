"""A home keeps as many memories open as it may, and none is closed under whoever uses it."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from small_memories import EMBEDDER, PATIENCE, open_home, run_python, say, texts

from scrubjay.errors import InputError, NotFoundError, StoreClosedError
from scrubjay.home import MemoryHome

if TYPE_CHECKING:
    from scrubjay.memory import Memory


def open_files(folder: Path) -> int:
    """Give how many memories under a folder this process holds open."""
    held = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return len({path for path in held if path.parent == folder and path.suffix == ".jay"})


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")


@needs_proc
def test_the_least_recently_used_is_closed(tmp_path: Path) -> None:
    """At most max_open memories stay open; one used again stays, and the one unused for longest is closed."""
    with MemoryHome(tmp_path, embedder=EMBEDDER, max_open=2) as home:
        lent: dict[str, Memory] = {}
        for user_id in ("alice", "bob", "alice", "carol"):
            with home.borrow(user_id) as memory:
                lent.setdefault(user_id, memory)
                say(memory, f"I am {user_id}.")
            assert open_files(tmp_path) <= 2
        assert texts(lent["alice"]) == ["I am alice."] * 2
        with pytest.raises(StoreClosedError):
            texts(lent["bob"])
        with home.borrow("bob") as memory:
            assert texts(memory) == ["I am bob."]
    assert open_files(tmp_path) == 0


@needs_proc
def test_what_is_used_stays_open(tmp_path: Path) -> None:
    """More memories than max_open may be in use at once; those given back are closed down to the limit."""
    with MemoryHome(tmp_path, embedder=EMBEDDER, max_open=2) as home:
        users = [f"user-{number}" for number in range(6)]
        together = threading.Barrier(len(users))

        def use(user_id: str) -> None:
            with home.borrow(user_id) as memory:
                together.wait(PATIENCE)
                say(memory, f"I am {user_id}.")

        with ThreadPoolExecutor(len(users)) as pool:
            list(pool.map(use, users))
        assert open_files(tmp_path) == 2
        for user_id in users:
            with home.borrow(user_id, create=False) as memory:
                assert texts(memory) == [f"I am {user_id}."]


def test_a_memory_that_was_handed_out_is_kept(place: str) -> None:
    """What `memory` gives stays open until the home is closed, whoever else is served meanwhile."""
    with open_home(place, max_open=1) as home:
        alice = home.memory("alice")
        for number in range(5):
            with home.borrow(f"user-{number}") as memory:
                say(memory, "hello")
        assert home.memory("alice") is alice
        say(alice, "still here")
        assert texts(alice) == ["still here"]


def test_forgotten_while_borrowed(place: str) -> None:
    """A user forgotten while their memory is borrowed is gone: the borrower is told, and the next borrower starts anew."""
    with open_home(place) as home:
        with home.borrow("alice") as memory:
            say(memory, "My secret is wolframite.")
            assert home.forget("alice")
            with pytest.raises(StoreClosedError):
                say(memory, "lost?")
            assert home.users() == ()
        with home.borrow("alice") as memory:
            assert texts(memory) == []
        assert home.forget("alice")
        assert not home.forget("alice")


def test_what_cannot_be_borrowed(place: str) -> None:
    """A user who isn't there can be asked for without being made, and leaves nothing behind."""
    with open_home(place, max_open=1) as home:
        for _ in range(3):
            with pytest.raises(NotFoundError, match="alice"), home.borrow("alice", create=False):
                pass
        assert home.users() == ()
        with home.borrow("bob") as memory:
            say(memory, "hello")
        assert home.users() == ("bob",)
    with pytest.raises(InputError, match="max_open"):
        open_home(place, max_open=0)


def test_closed_while_borrowed(place: str) -> None:
    """Closing a home closes what is in use too."""
    home = open_home(place)
    with home.borrow("alice") as memory:
        home.close()
        with pytest.raises(StoreClosedError):
            say(memory, "too late")
    with open_home(place) as again, again.borrow("alice") as memory:
        assert texts(memory) == []


def test_a_folder_opens_again(tmp_path: Path) -> None:
    """A home of files that was closed gives memories again, and closes them again."""
    home = MemoryHome(tmp_path, embedder=EMBEDDER)
    for _ in range(2):
        with home.borrow("alice") as memory:
            assert texts(memory) == []
        home.close()


def test_many_threads_many_users(place: str) -> None:
    """Threads that borrow, forget and list with far fewer places than users lose nothing that wasn't forgotten."""
    users = [f"user-{number}" for number in range(12)] + ["Ä", "a/b"]
    kept = dict.fromkeys(users, 0)
    guards = {user_id: threading.Lock() for user_id in users}

    def use(seed: int) -> None:
        chance = random.Random(seed)
        for number in range(40):
            user_id = chance.choice(users)
            with guards[user_id]:
                if chance.random() < 0.1:
                    home.forget(user_id)
                    kept[user_id] = 0
                    continue
                with home.borrow(user_id) as memory:
                    say(memory, f"{user_id}: {seed} {number}")
                    kept[user_id] += 1
                    assert all(text.startswith(f"{user_id}:") for text in texts(memory))

    with open_home(place, max_open=3) as home:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(use, range(8)))
        for user_id in users:
            with home.borrow(user_id) as memory:
                assert len(texts(memory)) == kept[user_id], user_id
        assert set(home.users()) == set(users)


FEW_FILES = """
import resource, sys
from scrubjay import MemoryHome
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
with MemoryHome(sys.argv[1], embedder="hash:64", max_open=8) as home:
    for turn in range(2):
        for number in range(100):
            with home.borrow(f"user {number}") as memory:
                memory.add({"role": "user", "content": f"turn {turn}"}, session_id="s")
                assert len(list(memory.turns())) == turn + 1
    print(len(home.users()))
"""


def test_few_files_may_be_open(tmp_path: Path) -> None:
    """A hundred users are served in a process that may hold no more than sixty files."""
    pytest.importorskip("resource")
    assert run_python(FEW_FILES, str(tmp_path)).stdout == "100\n"
