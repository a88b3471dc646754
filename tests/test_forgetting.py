"""Forgotten means gone: the words, their hashes and their vectors are in none of the memory's files."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_memories import (
    EMBEDDER,
    PATIENCE,
    PROCESSES,
    SPRING,
    database_of,
    fill,
    finish,
    open_memory,
    say,
    start,
    texts,
)

from scrubjay.embed import load_embedder
from scrubjay.errors import InputError, NotFoundError
from scrubjay.terms import extract_terms, hash_terms

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from scrubjay.memory import Memory

SECRET = "Wolframite is buried under the seventh larch."
SPEAKER, CAPTION, META = "Zsofia", "a hand-drawn treasure map", "quicksilver"


def traces() -> dict[str, bytes]:
    """Give every form in which the secret turn may lie in a file."""
    indexed = f"{SPEAKER}: {SECRET} [image: {CAPTION}]"
    return {
        **{word: word.encode() for word in ("Wolframite", "seventh larch")},
        **{f"hash of {term}": hash_terms([term]).tobytes() for term in extract_terms("wolframite larch")},
        "speaker": SPEAKER.encode(),
        "caption": CAPTION.encode(),
        "metadata": META.encode(),
        "session": b"secret session",
        "id": b"secret-id",
        "vector": load_embedder(EMBEDDER).embed([indexed])[0].tobytes(),
    }


def tell_secret(memory: Memory) -> None:
    memory.add(
        {
            "role": "user",
            "name": SPEAKER,
            "content": SECRET,
            "caption": CAPTION,
            "metadata": {"key": META},
            "id": "secret-id",
            "created_at": SPRING - timedelta(days=1),
        },
        session_id="secret session",
    )


def found_in(folder: Path, wanted: dict[str, bytes]) -> set[str]:
    """Name what stands in the raw bytes of any file of the folder."""
    content = b"\n".join(path.read_bytes() for path in sorted(folder.iterdir()))
    return {name for name, raw in wanted.items() if raw in content}


FILTERS = {
    "turn": {"turn": "secret-id"},
    "session": {"session": "secret session"},
    "before": {"before": SPRING},
    "everything": {"everything": True},
}


@pytest.mark.parametrize("by", FILTERS)
@pytest.mark.parametrize("reopened", [False, True], ids=["same process", "reopened"])
def test_no_byte_is_left(tmp_path: Path, by: str, *, reopened: bool) -> None:
    """After each way of forgetting, the file, its log and its index hold none of the words, hashes and vectors."""
    memory = fill(open_memory(tmp_path / "m.jay"))
    tell_secret(memory)
    assert found_in(tmp_path, traces()) == set(traces())  # what is looked for would be seen
    if reopened:
        memory.close()
        memory = open_memory(tmp_path / "m.jay")
        assert found_in(tmp_path, traces()) == set(traces())
    memory.recall("What is buried under the larch?")
    report = memory.forget(**FILTERS[by])  # type: ignore[arg-type] # one filter each
    assert report.turns == (1 if by != "everything" else 12)
    assert (report.sessions >= 1, report.scrubbed, report.pending) == (True, True, "")
    assert found_in(tmp_path, traces()) == set()
    memory.close()
    assert found_in(tmp_path, traces()) == set()


def test_others_stay(full_memory: Memory) -> None:
    """What isn't forgotten is still there and found, word for word, in every index."""
    before = [turn for turn in full_memory.turns() if turn.turn_id != "kitchen:2"]
    assert full_memory.forget(turn="kitchen:2").turns == 1
    assert list(full_memory.turns()) == before
    assert full_memory.doctor() == ()
    assert full_memory.search("pistachio")[0].turn.turn_id in {"kitchen:0", "kitchen:1"}


@pytest.mark.parametrize("by", ["turn", "session", "everything"])
def test_a_forgotten_name_finds_nothing_else(full_memory: Memory, by: str) -> None:
    """A search for what was forgotten returns neither it nor a new turn in its place, in this process and the next."""
    tell_secret(full_memory)
    assert full_memory.search("wolframite")[0].turn.text == SECRET
    full_memory.forget(**FILTERS[by])  # type: ignore[arg-type] # one filter each
    say(full_memory, "Something quite unrelated.", "And another thing.")
    with open_memory(full_memory.path, read_only=True) as other:
        for memory in (full_memory, other):
            assert [
                hit
                for hit in memory.search("Wolframite seventh larch Zsofia")
                if hit.channels["lexical"].score > 0
            ] == []
            assert "larch" not in memory.recall("Wolframite under the larch").text


def test_staged_vectors_go_too(tmp_path: Path) -> None:
    """Vectors waiting for a change of embedder are forgotten with their turn."""
    new = load_embedder("hash:200")
    staged = {"staged vector": new.embed([f"{SPEAKER}: {SECRET} [image: {CAPTION}]"])[0].tobytes()}
    with fill(open_memory(tmp_path / "m.jay")) as memory:
        tell_secret(memory)

        def stop(_done: int, _total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            memory.reembed(new, advance=stop)
        assert found_in(tmp_path, staged) == {"staged vector"}
        memory.forget(turn="secret-id")
        assert found_in(tmp_path, staged | traces()) == set()
        assert memory.reembed(new) == 11


def test_vectors_of_an_old_embedder_go_too(tmp_path: Path) -> None:
    """After a change of embedder and a forgetting, the old embedder's vector isn't left either."""
    with open_memory(tmp_path / "m.jay") as memory:
        tell_secret(memory)
        memory.reembed("hash:32")
        memory.forget(turn="secret-id")
        assert found_in(tmp_path, traces()) == set()


def test_a_turn_said_twice_stays_once(full_memory: Memory) -> None:
    """Forgetting one of two turns with the same words leaves the other, and its words."""
    say(full_memory, SECRET, SECRET)
    full_memory.forget(turn="monday:0")
    assert full_memory.search("wolframite")[0].turn.turn_id == "monday:1"


def test_unknown_times_stay(memory: Memory) -> None:
    """`before` takes what is known to be older; turns of unknown time stay, whatever the moment."""
    say(memory, "undated")
    memory.add({"role": "user", "content": "dated", "created_at": SPRING}, session_id="monday")
    assert memory.forget(before=SPRING).turns == 0
    assert memory.forget(before=SPRING + timedelta(days=36_500)).turns == 1
    assert texts(memory) == ["undated"]


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"turn": "a", "session": "b"},
        {"everything": False},
        {"everything": True, "turn": "a"},
        {"before": SPRING.replace(tzinfo=None)},
    ],
    ids=["none", "two", "not everything", "everything and more", "naive"],
)
def test_exactly_one_filter(full_memory: Memory, filters: dict[str, str]) -> None:
    """Anything but exactly one filter, and a naive time, is refused, and nothing is forgotten."""
    with pytest.raises(InputError):
        full_memory.forget(**filters)  # type: ignore[arg-type] # wrong on purpose
    assert len(texts(full_memory)) == 11


@pytest.mark.parametrize("filters", [{"turn": "no such"}, {"session": "no such"}, {"turn": ""}], ids=str)
def test_what_is_not_there_cannot_be_forgotten(full_memory: Memory, filters: dict[str, str]) -> None:
    """A turn or session that isn't there is an error, so that a mistyped id isn't taken for success."""
    with pytest.raises(NotFoundError):
        full_memory.forget(**filters)  # type: ignore[arg-type] # one filter each
    assert len(texts(full_memory)) == 11


def read_and_hold(path: str, told: Connection) -> None:
    """Hold one unfinished read of the memory until told to end it."""
    with open_memory(path) as memory, database_of(memory).read() as connection:
        connection.execute("SELECT count(*) FROM turn").fetchone()
        told.send("reading")
        told.recv()


def test_while_another_process_reads(tmp_path: Path) -> None:
    """While another process is in the middle of a read, forgetting says what is pending; `doctor(scrub=True)` finishes it."""
    path = str(tmp_path / "m.jay")
    with open_memory(path) as memory:
        tell_secret(memory)
        here, there = PROCESSES.Pipe()
        reader = start(read_and_hold, path, there)
        assert here.poll(PATIENCE)
        assert here.recv() == "reading"
        report = memory.forget(turn="secret-id")
        assert (report.turns, report.scrubbed) == (1, False)
        assert "scrub" in report.pending
        assert memory.search("wolframite") == ()  # gone for every question already
        (fault,) = memory.doctor(scrub=True)
        assert (fault.check, fault.found) == ("no forgotten bytes are left", report.pending)
        here.send("end")
        finish(reader)
        assert memory.doctor(scrub=True) == ()
        assert found_in(tmp_path, traces()) == set()


def test_another_process_has_it_open(tmp_path: Path) -> None:
    """A memory that other processes have open, but aren't reading just then, is scrubbed at once."""
    with fill(open_memory(tmp_path / "m.jay")) as memory, open_memory(tmp_path / "m.jay") as other:
        tell_secret(memory)
        assert other.search("wolframite")[0].turn.text == SECRET
        assert memory.forget(session="secret session").scrubbed
        assert found_in(tmp_path, traces()) == set()
        assert all(hit.turn.text != SECRET for hit in other.search("wolframite"))


def test_much_is_forgotten_at_once(tmp_path: Path) -> None:
    """Forgetting a long session among others leaves none of its words, however many pages they took."""
    with open_memory(tmp_path / "m.jay") as memory:
        words = [f"wolframite{number}" for number in range(400)]
        say(memory, *(f"{word} lies under the larch" for word in words), session_id="long")
        say(memory, *(f"other {number}" for number in range(400)), session_id="other")
        wanted = {word: word.encode() for word in words} | {"larch": b"larch"}
        assert found_in(tmp_path, wanted) == set(wanted)
        assert memory.forget(session="long").turns == 400
        assert found_in(tmp_path, wanted) == set()
        assert texts(memory) == [f"other {number}" for number in range(400)]


def test_vectors_of_others_are_untouched(full_memory: Memory) -> None:
    """Forgetting rewrites the file, and every vector that stays is the same to the bit."""
    tell_secret(full_memory)
    before = full_memory._store.load(after=0).vectors[:11]
    full_memory.forget(turn="secret-id")
    assert np.array_equal(full_memory._store.load(after=0).vectors, before)
