"""Vectors in LanceDB beside a memory's file: the same hits, made of the rows and of nothing else, gone when they are."""

from __future__ import annotations

import os
import random
import shutil
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from commands import Output, command_runner
from record_stores import BACKENDS, add
from small_memories import EMBEDDER, PATIENCE, PROCESSES, conversation, database_of, fill, say

from scrubjay.errors import (
    MissingExtraError,
    NotFoundError,
    SettingsError,
    StoreBusyError,
    StoreCorruptError,
)
from scrubjay.home import MemoryHome
from scrubjay.lance_vectors import LanceVectorIndex, VectorPlace, read_all, write_index
from scrubjay.memory import Memory
from scrubjay.settings import Settings
from scrubjay.store.vector_folder import Stage, vectors_folder
from scrubjay.store_settings import VectorSettings
from scrubjay.vectors import Built, ExactVectorIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from numpy.typing import NDArray

pytest.importorskip("lancedb")

LANCE = VectorSettings(index="lancedb")
DIMENSION = 32
BUILT = Built(memory_id="m", embedder="e", generation=0, last_passage=0, count=0)
QUESTION = "Who holds the ladder in the kitchen, and who plays the bassoon?"
SECRET = "Wolframite is buried under the seventh larch."


def open_lance(path: str | Path, *, read_only: bool = False, vectors: VectorSettings = LANCE) -> Memory:
    return Memory(path, settings=Settings(vectors=vectors), embedder=EMBEDDER, read_only=read_only)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    return command_runner(monkeypatch, capsys)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Give a filled memory with its index made."""
    with open_lance(tmp_path / "m.jay") as opened:
        fill(opened)
        assert opened.doctor(rebuild=True) == ()
        yield opened


def index_of(memory: Memory) -> LanceVectorIndex | None:
    """Give the index that the memory's reads use by now."""
    memory.recall(QUESTION)
    vectors = memory._corpus.current(memory._store).vectors
    return vectors if isinstance(vectors, LanceVectorIndex) else None


def unit_rows(count: int, seed: int) -> NDArray[np.float32]:
    raw = np.random.default_rng(seed).normal(size=(count, DIMENSION))
    rows: NDArray[np.float32] = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    return rows


def make(path: Path, rows: NDArray[np.float32], *, nearest: int) -> tuple[LanceVectorIndex, ExactVectorIndex]:
    """Give an index of these rows, and its exact twin."""
    built = replace(BUILT, count=len(rows))
    write_index(str(path), built, rows, nearest=nearest)
    exact = ExactVectorIndex(DIMENSION)
    exact.append(rows)
    return LanceVectorIndex(vectors_folder(str(path)), built, nearest=nearest), exact


def test_few_rows_are_as_exact(tmp_path: Path) -> None:
    """Where all rows are among the nearest asked for, every cosine is the exact one, to a millionth; later rows too."""
    index, exact = make(tmp_path / "m", unit_rows(90, 1), nearest=100)
    for added in (0, 1, 300):
        index.append(unit_rows(added, 2))
        exact.append(unit_rows(added, 2))
        for query in unit_rows(5, 3):
            assert len(index) == len(exact)
            np.testing.assert_allclose(index.scores(query), exact.scores(query), atol=1e-6)
        places = np.array([len(index) - 1, 0, 89, 0])
        np.testing.assert_array_equal(index.rows(places), exact.rows(places))


def test_many_rows_are_nearly_as_exact(tmp_path: Path) -> None:
    """Of many rows, nine tenths of the nearest are found; what is looked at is exact, the mean and spread of all too."""
    index, exact = make(tmp_path / "m", unit_rows(4_000, 1), nearest=100)
    shares = []
    for query in unit_rows(20, 3):
        looked: list[NDArray[np.intp]] = []

        def look(nearest: NDArray[np.intp], looked: list[NDArray[np.intp]] = looked) -> NDArray[np.intp]:
            looked.append(np.union1d(nearest, np.arange(50)))
            return looked[-1]

        scores, truth = index.scores(query, look), exact.scores(query)
        np.testing.assert_allclose(scores[looked[0]], truth[looked[0]], atol=1e-6)
        np.testing.assert_allclose((scores.mean(), scores.std()), (truth.mean(), truth.std()), atol=1e-3)
        shares.append(len(np.intersect1d(looked[0], np.argsort(-truth)[:100])) / 100)
    assert np.mean(shares) > 0.9


def test_a_large_memory_gives_nearly_the_same_hits(tmp_path: Path) -> None:
    """Where the index finds a few of many, nine tenths of the first hits are those of an exact search."""
    words = [
        "boat",
        "ferry",
        "harbour",
        "ladder",
        "bassoon",
        "kitchen",
        "violin",
        "lantern",
        "orchard",
        "river",
        "station",
        "museum",
    ]
    chance = random.Random(4)
    said = [" ".join(chance.choices(words, k=5)) for _ in range(1_500)]
    few = VectorSettings(index="lancedb", nearest=150)
    shares = []
    with (
        open_lance(tmp_path / "m.jay", vectors=few) as memory,
        Memory(":memory:", embedder=EMBEDDER) as exact,
    ):
        for one in (memory, exact):
            for session in range(50):
                say(one, *said[30 * session : 30 * session + 30], session_id=f"s{session}")
        memory.doctor(rebuild=True)
        for question in ("Who took the ferry?", "the bassoon in the kitchen", "an orchard by the river"):
            mine, theirs = ([hit.turn.turn_id for hit in one.search(question)] for one in (memory, exact))
            shares.append(len({*mine} & {*theirs}) / len(theirs))
        assert index_of(memory) is not None
    assert np.mean(shares) > 0.9


def test_evidence_is_the_same(memory: Memory, tmp_path: Path) -> None:
    """A small memory gives the evidence of one without an index, also of turns added since it was made."""
    with Memory(tmp_path / "other.jay", embedder=EMBEDDER) as exact:
        exact.add_many(conversation())
        for text in ("", "Oleg sold his bassoon.", "The ladder went to the neighbour."):
            for one in (memory, exact):
                say(one, *filter(None, [text]), session_id="later")
            assert index_of(memory) is not None
            assert memory.recall(QUESTION).text == exact.recall(QUESTION).text


def test_its_vectors_are_not_read(memory: Memory) -> None:
    """What the index has isn't held in the process too; a read makes and changes nothing on disk."""
    say(memory, "One turn more.")
    with open_lance(memory.path, read_only=True) as other:
        index = index_of(other)
        assert index is not None
        assert (index.built.count, len(index._since)) == (11, 1)
    assert VectorPlace(str(memory.path), LANCE).check(memory._store) == ()


@pytest.mark.parametrize("name", BACKENDS)
def test_loading_without_vectors(name: str) -> None:
    """Both stores leave out the vectors of the first passages where asked to, and nothing else."""
    with closing(BACKENDS[name](":memory:")) as backend:
        add(backend, "monday", "one", "two", "three")
        whole, part = backend.turns.load(after=0), backend.turns.load(after=0, vectors_after=2)
        assert np.array_equal(part.vectors, whole.vectors[2:])
        assert np.array_equal(part.terms, whole.terms)
        assert backend.turns.load(after=1, vectors_after=9).vectors.shape == (0, whole.vectors.shape[1])


def bytes_in(folder: Path, raw: bytes) -> bool:
    return any(raw in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_forgotten_vectors_leave_no_byte(memory: Memory, tmp_path: Path) -> None:
    """The index holds a turn's vector, and after forgetting it no file does; another process's reads find it no more."""
    say(memory, SECRET, session_id="secret")
    memory.doctor(rebuild=True)
    vector = memory._store.load(after=0).vectors[-1].tobytes()
    assert bytes_in(vectors_folder(memory.path), vector)
    with open_lance(memory.path) as other:
        assert index_of(other) is not None
        memory.forget(session="secret")
        assert not bytes_in(tmp_path, vector)
        assert index_of(other) is None
        assert SECRET not in other.recall("Where is the wolframite?").text
    memory.doctor(rebuild=True)
    assert index_of(memory) is not None
    assert not bytes_in(tmp_path, vector)


def test_a_forgetting_that_was_broken_off(memory: Memory) -> None:
    """Where a process ends between deleting rows and removing the index, nobody uses it, and the next to open removes it."""
    memory._store.forget(turn_id="kitchen:0")  # the rows alone, as a kill just then leaves it
    assert vectors_folder(memory.path).exists()
    assert index_of(memory) is None
    (fault,) = memory.doctor()
    assert "before something was forgotten" in fault.found
    with open_lance(memory.path, read_only=True) as reader:
        assert index_of(reader) is None
    with Memory(memory.path, embedder=EMBEDDER) as other:  # whatever it is set to
        assert not vectors_folder(memory.path).exists()
        assert other.doctor() == ()


def rebuild_for_ever(path: str, told: Connection) -> None:
    with open_lance(path) as memory:
        while True:
            memory.doctor(rebuild=True)
            told.send("made")


def test_killed_while_it_is_made(memory: Memory) -> None:
    """Kills at any moment leave a whole index or none; the next build removes what they left."""
    for number in range(3):
        here, there = PROCESSES.Pipe()
        process = PROCESSES.Process(target=rebuild_for_ever, args=(memory.path, there), daemon=True)
        process.start()
        assert here.poll(PATIENCE)
        time.sleep(0.02 * number)
        process.kill()
        process.join(PATIENCE)
        assert memory.doctor() == ()
        assert memory.recall(QUESTION).links
    memory.forget(turn="kitchen:0")
    assert not any(vectors_folder(memory.path, stage).exists() for stage in Stage)
    assert memory.doctor(rebuild=True) == ()
    assert index_of(memory) is not None


def test_made_anew_under_a_reader(memory: Memory) -> None:
    """A memory that has the index open goes over to the one made since."""
    before = index_of(memory)
    with open_lance(memory.path) as other:
        say(other, "One turn more.")
        other.doctor(rebuild=True)
    after = index_of(memory)
    assert before is not None
    assert after is not None
    assert (before.built.count, after.built.count) == (11, 12)


def test_another_memory_has_other_vectors(memory: Memory, tmp_path: Path) -> None:
    """An index that was made of another file is neither used nor left."""
    shutil.copytree(vectors_folder(memory.path), vectors_folder(str(tmp_path / "other.jay")))
    with open_lance(tmp_path / "other.jay") as other:
        assert not vectors_folder(other.path).exists()
        fill(other)
        assert index_of(other) is None


def test_doctor_compares(memory: Memory) -> None:
    """Vectors that are not the rows' are a fault, and `rebuild` mends it."""
    index = index_of(memory)
    assert index is not None
    held = read_all(vectors_folder(memory.path))
    shutil.rmtree(vectors_folder(memory.path))
    write_index(memory.path, index.built, held[::-1].copy(), nearest=LANCE.nearest)
    (fault,) = memory.doctor()
    assert (fault.found, "--rebuild" in fault.remedy) == ("it holds others", True)
    assert memory.doctor(rebuild=True) == ()


def test_a_damaged_index(memory: Memory) -> None:
    """What can't be read is an error that says what to do, and so is what another process removes just then."""
    for path in vectors_folder(memory.path).rglob("*.lance"):
        if path.is_file():
            os.truncate(path, 3)
    with open_lance(memory.path) as other:
        with pytest.raises(StoreCorruptError, match="doctor --rebuild"):
            other.recall(QUESTION)
        assert other.doctor(rebuild=True) == ()
        index = index_of(other)
        assert index is not None
        VectorPlace(other.path, LANCE).drop()
        with pytest.raises(StoreBusyError, match="ask again"):
            index.scores(np.ones(64, np.float32))
        assert other.recall(QUESTION).links


def test_another_embedder(memory: Memory) -> None:
    """Vectors of the embedder before are removed with the index that holds them."""
    memory.reembed("hash:128")
    assert not vectors_folder(memory.path).exists()
    assert memory.recall(QUESTION).links


def test_a_forgotten_user(tmp_path: Path) -> None:
    """Forgetting a user removes the index with the file."""
    with MemoryHome(tmp_path, settings=Settings(vectors=LANCE), embedder=EMBEDDER) as home:
        with home.borrow("mira") as memory:
            fill(memory).doctor(rebuild=True)
            assert database_of(memory).size()
            assert vectors_folder(memory.path).exists()
        assert home.users() == ("mira",)
        home.forget("mira")
    assert list(tmp_path.iterdir()) == []


def test_the_command(memory: Memory, run: Callable[..., Output], monkeypatch: pytest.MonkeyPatch) -> None:
    """`scrubjay doctor --rebuild` makes what the environment asks for, and removes it where it asks for nothing."""
    assert run("doctor", "--rebuild", "--memory", memory.path).code == 0
    assert not vectors_folder(memory.path).exists()
    monkeypatch.setenv("SCRUBJAY_VECTOR_INDEX", "lancedb")
    assert run("doctor", "--rebuild", "--memory", memory.path).code == 0
    assert index_of(memory) is not None
    assert run("ask", "Who plays the bassoon?", "--memory", memory.path).out.count("bassoon")


@pytest.mark.parametrize("path", [":memory:", "postgresql://app@db.example.org/app (memory of 'mira')"])
def test_only_beside_a_file(path: str) -> None:
    """A memory that isn't a file can't have an index beside it; the names of indexes are known."""
    with pytest.raises(SettingsError, match="only a memory in a file"):
        VectorPlace(path, LANCE)
    with pytest.raises(SettingsError, match="exact or lancedb, found 'hnsw'"):
        VectorPlace(path, VectorSettings(index="hnsw"))


def test_nothing_to_index(tmp_path: Path) -> None:
    """An empty memory gets no index, and none is made for what isn't there."""
    with open_lance(tmp_path / "m.jay") as memory:
        assert memory.doctor(rebuild=True) == ()
        assert not vectors_folder(memory.path).exists()
        with pytest.raises(NotFoundError):
            memory.forget(turn="nothing")
    assert issubclass(MissingExtraError, ImportError)
