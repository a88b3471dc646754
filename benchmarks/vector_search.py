"""Search the vectors of one large memory: in the process, as recall does, beside LanceDB and pgvector, without and with their indexes.

    python benchmarks/vector_search.py --rows 100000

A recall reads the cosine of every passage; the others give the nearest `--nearest` only. "found" is how many of the exact
nearest are among those; "of it resident" is what the searching process holds for it, for PostgreSQL the index alone.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from scale_turns import draw_questions, make_turns

from scrubjay.embed import load_embedder
from scrubjay.vectors import ExactVectorIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
    Search = Callable[[Vectors], NDArray[np.int64]]

QUESTIONS = 40
BATCH = 2_000
MEGABYTE = 1 << 20
WAYS = ("exact", "lancedb", "lancedb hnsw", "lancedb ivf", "pgvector", "pgvector hnsw")


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A way to search, ready to be asked."""

    search: Search
    seconds: float  # to make the index of vectors that are there
    disk: float  # bytes
    resident: float  # bytes of it


def make_vectors(rows: int, path: Path) -> None:
    """Embed the turns of one large memory; nothing where that was done before."""
    if path.exists():
        return
    embedder = load_embedder("static")
    texts = [turn.text for _, turn in make_turns(0, rows)]
    np.save(path, np.concatenate([embedder.embed(texts[at : at + BATCH]) for at in range(0, rows, BATCH)]))


def make_exact(vectors: Vectors, folder: Path, nearest: int) -> Made:  # noqa: ARG001 -- as the others
    before, started = resident(), time.perf_counter()
    index = ExactVectorIndex(vectors.shape[1])
    index.append(vectors.copy())
    seconds = time.perf_counter() - started

    def search(query: Vectors) -> NDArray[np.int64]:
        scores = index.scores(query)
        return np.argpartition(-scores, nearest)[:nearest]

    return Made(search=search, seconds=seconds, disk=0, resident=resident() - before)


def make_lance(vectors: Vectors, folder: Path, nearest: int, *, kind: str = "") -> Made:
    import lancedb
    import pyarrow as pa
    from lancedb.index import HnswSq, IvfPq
    from lancedb.query import LanceVectorQueryBuilder

    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    place = folder / f"lance{kind}"
    table = lancedb.connect(place).create_table(
        "vectors", pa.table({"place": pa.array(np.arange(len(vectors))), "vector": column})
    )
    started = time.perf_counter()
    if kind:
        config = (
            HnswSq(distance_type="dot", num_partitions=1) if kind == "hnsw" else IvfPq(distance_type="dot")
        )
        table.create_index("vector", config=config)
    seconds = time.perf_counter() - started
    del table, column
    before = resident()
    opened = lancedb.connect(place).open_table("vectors")

    def search(query: Vectors) -> NDArray[np.int64]:
        asked = opened.search(query, vector_column_name="vector")
        assert isinstance(asked, LanceVectorQueryBuilder)
        asked = asked.distance_type("dot").select(["place", "_distance"]).limit(nearest)
        found = asked.to_arrow()["place"].to_numpy()
        return cast("NDArray[np.int64]", found)

    search(vectors[0])
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    return Made(search=search, seconds=seconds, disk=size, resident=resident() - before)


def make_pgvector(vectors: Vectors, folder: Path, nearest: int, *, kind: str = "") -> Made:
    """Give the search in a table of the vectors alone, its memory's only: no other rows are passed over."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import atexit

    import psycopg
    from pgvector import Vector
    from pgvector.psycopg import register_vector
    from postgres_server import PostgresServer

    folder.chmod(0o755)
    server = PostgresServer(folder / f"postgres{kind}", shared_buffers="1GB")
    atexit.register(server.stop)
    connection = psycopg.connect(server.dsn(), autocommit=True)
    connection.execute("CREATE EXTENSION vector")
    register_vector(connection)
    connection.execute(f"CREATE TABLE passage (place bigint PRIMARY KEY, vector vector({vectors.shape[1]}))")
    copying = "COPY passage FROM STDIN WITH (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(copying) as copy:
        copy.set_types(["int8", "vector"])
        for place, vector in enumerate(vectors):
            copy.write_row((place, Vector(vector)))
    started = time.perf_counter()
    if kind:
        connection.execute("SET maintenance_work_mem = '2GB'")
        connection.execute("CREATE INDEX nearest ON passage USING hnsw (vector vector_ip_ops)")
        connection.execute(f"SET hnsw.ef_search = {min(1_000, nearest)}")
    seconds = time.perf_counter() - started
    connection.execute("SET max_parallel_workers_per_gather = 0")
    connection.execute("VACUUM ANALYZE passage")

    def search(query: Vectors) -> NDArray[np.int64]:
        found = connection.execute(
            f"SELECT place FROM passage ORDER BY vector <#> %s LIMIT {nearest}", (Vector(query),), binary=True
        ).fetchall()
        return np.array(found, np.int64)[:, 0]

    search(vectors[0])
    (sizes,) = connection.execute("SELECT pg_total_relation_size('passage')").fetchall()
    index = connection.execute("SELECT pg_indexes_size('passage')").fetchone() or (0,)
    return Made(search=search, seconds=seconds, disk=sizes[0], resident=index[0] if kind else sizes[0])


MAKERS: dict[str, Callable[[Vectors, Path, int], Made]] = {
    "exact": make_exact,
    "lancedb": make_lance,
    "lancedb hnsw": lambda vectors, folder, nearest: make_lance(vectors, folder, nearest, kind="hnsw"),
    "lancedb ivf": lambda vectors, folder, nearest: make_lance(vectors, folder, nearest, kind="ivf"),
    "pgvector": make_pgvector,
    "pgvector hnsw": lambda vectors, folder, nearest: make_pgvector(vectors, folder, nearest, kind="hnsw"),
}


def measure(way: str, path: Path, folder: Path, nearest: int) -> str:
    """Make one way's index, ask it, and give its line of the table."""
    vectors: Vectors = np.load(path)
    queries = load_embedder("static").embed(list(draw_questions(QUESTIONS, random.Random(1))))
    made = MAKERS[way](vectors, folder, nearest)
    taken, found = [], []
    for query in queries:
        started = time.perf_counter()
        places = made.search(query)
        taken.append((time.perf_counter() - started) * 1_000)
        exact = np.argpartition(-(vectors @ query), nearest)[:nearest]
        found.append(len(np.intersect1d(places, exact)) / nearest)
    rows = len(vectors)
    return (
        f"| {way} | {rows:,} | {np.median(taken):.1f} | {np.quantile(taken, 0.95):.1f} | {100 * np.mean(found):.1f} % "
        f"| {made.seconds:.1f} | {made.disk / rows:,.0f} | {made.resident / MEGABYTE:,.0f} |"
    )


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Print the table, each way in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--nearest", type=int, default=200)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder is not None:
        print(measure(given.ways[0], given.folder / "vectors.npy", given.folder, given.nearest))
        return
    print("| way | rows | p50 ms | p95 ms | found | s to index | disk, bytes a row | of it resident, MB |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        make_vectors(given.rows, Path(name) / "vectors.npy")
        for way in given.ways:
            again = [
                sys.executable,
                __file__,
                "--folder",
                name,
                "--nearest",
                str(given.nearest),
                "--ways",
                way,
            ]
            subprocess.run(again, check=True)


if __name__ == "__main__":
    main()
