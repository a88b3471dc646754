"""The vectors of one memory in LanceDB, beside its file: derived from its rows, made anew whenever asked for, never by a read.

A build is whole or not there, for it is moved to its place by one renaming; it says of what rows it was made. Passages
written since are searched exactly in the process. Once something was forgotten no build from before is used, and none is left.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

import numpy as np

from scrubjay.datatypes import Fault
from scrubjay.errors import MissingExtraError, SettingsError, StoreBusyError, StoreCorruptError
from scrubjay.store.connection import IN_MEMORY
from scrubjay.store.vector_folder import Stage, remove_vectors, vectors_folder
from scrubjay.vectors import Built, ExactVectorIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import lancedb
    import pyarrow as pa
    from numpy.typing import NDArray

    from scrubjay.store import Store
    from scrubjay.store_settings import VectorSettings
    from scrubjay.vectors import Look

EXACT, LANCEDB = "exact", "lancedb"
BUILT, MOMENTS, TABLE = "built.json", "moments.npy", "passages"
REMEDY = "run `scrubjay doctor --rebuild`"


class LanceVectorIndex:
    """Vectors before `built.last_passage` in LanceDB, those since in a matrix.

    Of those in LanceDB, the ones that a search looks at get their own cosine. The others, of which most are far away, get
    values with which the mean and the spread of all are right.
    """

    def __init__(self, folder: Path, built: Built, *, nearest: int) -> None:
        self.built = built
        self._folder, self._nearest = folder, min(nearest, built.count)
        self._written = when_written(folder / BUILT)
        with readable(folder):
            self._moments = np.load(folder / MOMENTS)
            self._table = open_table(folder)
        self._since = ExactVectorIndex(self._moments.shape[1])

    @property
    def is_gone(self) -> bool:
        """Whether it was removed or made anew since it was opened."""
        return when_written(self._folder / BUILT) != self._written

    def __len__(self) -> int:
        return self.built.count + len(self._since)

    def append(self, vectors: NDArray[np.float32]) -> None:
        self._since.append(vectors)

    def rows(self, places: NDArray[np.intp]) -> NDArray[np.float32]:
        """Give the vectors at these places, (n, dimension)."""
        since = places >= self.built.count
        vectors = np.empty((len(places), self._moments.shape[1]), np.float32)
        vectors[since] = self._since.rows(places[since] - self.built.count)
        with readable(self._folder):
            vectors[~since] = self._take(places[~since])
        return vectors

    def _take(self, places: NDArray[np.intp]) -> NDArray[np.float32]:
        wanted, at = np.unique(places, return_inverse=True)  # what is taken comes rising
        return read_rows(self._table.take_offsets(wanted.tolist()).to_arrow())[at]

    def scores(self, vector: NDArray[np.float32], look: Look | None = None) -> NDArray[np.float32]:
        with readable(self._folder):
            places = self._find_nearest(vector)
            if look is not None:
                places = look(places)
            places = np.sort(places[places < self.built.count])
            own = np.einsum("ij,j->i", self._take(places), vector)
        scores = np.empty(len(self), np.float32)
        scores[: self.built.count] = self._usual(vector, places, own)
        scores[places] = own
        scores[self.built.count :] = self._since.scores(vector)
        return scores

    def _find_nearest(self, vector: NDArray[np.float32]) -> NDArray[np.intp]:
        from lancedb.query import LanceVectorQueryBuilder

        query = self._table.search(vector, vector_column_name="vector")
        assert isinstance(query, LanceVectorQueryBuilder)
        query = query.distance_type("dot").limit(self._nearest).ef(2 * self._nearest)
        found = query.select(["place", "_distance"]).to_arrow()["place"].to_numpy()
        return cast("NDArray[np.intp]", found)

    def _usual(
        self, vector: NDArray[np.float32], places: NDArray[np.intp], own: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Give values, a spread above and below the mean by turns, that with these cosines have the moments of all."""
        count = self.built.count
        mean, square = self._moments[0] @ vector, vector @ self._moments[1:] @ vector
        left = max(count - len(places), 1)
        middle = (count * mean - own.sum()) / left
        spread = np.sqrt(max((count * square - np.square(own).sum()) / left - middle**2, 0))
        usual: NDArray[np.float64] = middle + spread * np.where(np.arange(count) % 2, 1, -1)
        return usual


class VectorPlace:
    """Where a memory's index of vectors may lie; for what isn't a file there is none."""

    def __init__(self, path: str, settings: VectorSettings) -> None:
        """Raise SettingsError for an index that is unknown or can't be, and MissingExtraError."""
        if settings.index not in (EXACT, LANCEDB):
            raise SettingsError(f"an index of vectors is {EXACT} or {LANCEDB}, found {settings.index!r}")
        is_file = path != IN_MEMORY and "://" not in path
        self._settings, self._path = settings, path if is_file else None
        self._wanted = settings.index == LANCEDB
        if self._wanted and self._path is None:
            raise SettingsError(f"{path}: only a memory in a file can have its vectors in LanceDB beside it")
        if self._wanted and find_spec("lancedb") is None:
            raise MissingExtraError("lancedb", extra="lancedb")

    def find(self, store: Store) -> LanceVectorIndex | None:
        """Give the index, if one is wanted and was made of rows that all are still there."""
        built = None if self._path is None or not self._wanted else self._read()
        if self._path is None or built is None or not is_current(built, store):
            return None
        return LanceVectorIndex(vectors_folder(self._path), built, nearest=self._settings.nearest)

    def _read(self, stage: Stage = Stage.WHOLE) -> Built | None:
        folder = vectors_folder(self._path or "", stage)
        with readable(folder):
            try:
                return Built(**json.loads((folder / BUILT).read_text("utf-8")))
            except FileNotFoundError:
                return None

    def rebuild(self, store: Store) -> None:
        """Make the index anew, or remove it where none is wanted.

        Raise StoreBusyError, with no index left, where something was forgotten meanwhile.
        """
        self.drop()
        if self._path is None or not self._wanted:
            return
        rows = store.load(after=0)
        built = Built(
            memory_id=store.memory_id,
            embedder=str(store.embedder),
            generation=rows.state.generation,
            last_passage=rows.state.last_passage,
            count=len(rows.vectors),
        )
        if not built.count:
            return
        write_index(self._path, built, rows.vectors, nearest=self._settings.nearest)
        if not is_current(built, store):
            self.drop()
            raise StoreBusyError(
                f"{self._path}: something was forgotten while its index was made: {REMEDY} again"
            )

    def drop(self) -> None:
        """Remove the index with all its bytes."""
        if self._path is not None:
            remove_vectors(self._path)

    def drop_stale(self, store: Store) -> None:
        """Remove an index from before a forgetting, or of another memory, also one that is being made."""
        for stage in (Stage.WHOLE, Stage.NEW) if self._path is not None else ():
            built = self._read(stage)
            if self._path is not None and built is not None and not is_current(built, store):
                remove_vectors(self._path, stage)
        if self._path is not None:
            remove_vectors(self._path, Stage.GONE)

    def check(self, store: Store) -> tuple[Fault, ...]:
        """Compare what the index holds with the rows it was made of."""
        built = None if self._path is None else self._read()
        if self._path is None or built is None or find_spec("lancedb") is None:
            return ()
        found = "it was made before something was forgotten"
        if is_current(built, store):
            with readable(vectors_folder(self._path)):
                held = read_all(vectors_folder(self._path))
            rows = store.load(after=0).vectors[: built.count]
            if held.shape == rows.shape and np.array_equal(held, rows):
                return ()
            found = "it holds others"
        return (Fault(check="the index of vectors holds those of the rows", found=found, remedy=REMEDY),)


def open_vectors(path: str, settings: VectorSettings, store: Store, *, read_only: bool) -> VectorPlace:
    """Give the place of a memory's index; who may write removes what a forgetting that was broken off left there."""
    place = VectorPlace(path, settings)
    if not read_only:
        place.drop_stale(store)
    return place


def is_current(built: Built, store: Store) -> bool:
    """Say whether all rows that an index was made of are there still."""
    named = (built.memory_id, built.embedder, built.generation)
    return named == (store.memory_id, str(store.embedder), store.state().generation)


def write_index(path: str, built: Built, vectors: NDArray[np.float32], *, nearest: int) -> None:
    """Write an index beside its place and put it there at once, safe from a power cut."""
    import lancedb
    import pyarrow as pa
    from lancedb.index import HnswSq

    new = vectors_folder(path, Stage.NEW)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    rows = pa.table({"place": pa.array(np.arange(len(vectors))), "vector": column})
    try:
        new.mkdir()
        (new / BUILT).write_text(
            json.dumps(asdict(built)), "utf-8"
        )  # first, so that it is known of what this is
        table = lancedb.connect(new).create_table(TABLE, rows)
        if len(vectors) > nearest:
            table.create_index("vector", config=HnswSq(distance_type="dot", num_partitions=1))
        moments = [vectors.mean(axis=0, keepdims=True), vectors.T @ vectors / len(vectors)]
        np.save(new / MOMENTS, np.concatenate(moments).astype(np.float64))
        for file in [part for part in new.rglob("*") if part.is_file()]:
            with file.open("rb+") as opened:
                os.fsync(opened.fileno())
        new.rename(vectors_folder(path))
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreBusyError(
            f"{new} could not be written ({error}); another process may be making or removing it: {REMEDY} again"
        ) from error


def when_written(path: Path) -> int | None:
    """Give what tells a file from the one that comes after it, None where there is none."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Raise what LanceDB says of a folder that is damaged, or was removed just now, as ours."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        if not folder.exists():
            raise StoreBusyError(
                f"{folder} was removed by another process while it was read: ask again"
            ) from error
        raise StoreCorruptError(
            f"{folder}, the index of vectors, can't be read ({error}): {REMEDY}"
        ) from error


def open_table(folder: Path) -> lancedb.table.Table:
    import lancedb

    return lancedb.connect(folder).open_table(TABLE)


def read_all(folder: Path) -> NDArray[np.float32]:
    """Give all vectors, in the order of their places."""
    return read_rows(open_table(folder).to_arrow().sort_by("place"))


def read_rows(rows: pa.Table) -> NDArray[np.float32]:
    """Give the vectors of rows of our table, (rows, dimension)."""
    flat = rows["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return cast("NDArray[np.float32]", flat.reshape(rows.num_rows, -1))
