"""Other memories under measurement: each real package keeps turns without a model and finds them, and nobody is called."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest

from scrubjay import Role
from scrubjay.bench.adapters import ADAPTERS, Adapter, find_adapter
from scrubjay.bench.adapters.naive_rag import CHUNK_TOKENS, cut_chunks
from scrubjay.bench.apart import AblationJob, Job, run_ablation, run_jobs, start_pool
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.retrieval import restrict_run, run_retrieval
from scrubjay.bench.systems import find_system
from scrubjay.datatypes import Turn
from scrubjay.embed import count_tokens, load_embedder
from scrubjay.errors import MissingExtraError, SettingsError

SAID = (
    ("Nora", "I keep bees behind the old mill."),
    ("Kai", "Bees? I would be stung on the first day."),
    ("Nora", "Yes."),
    ("Kai", "The ferry to the island leaves at seven."),
    ("Nora", "Yes."),
    ("Kai", "我下周去北京开会。"),
)
PACKAGES = {"mem0": "mem0", "langgraph-store": "langgraph", "memos": "memos"}
ON_DISK = {"mem0", "memos"}
installed = [
    pytest.param(
        adapter,
        id=name,
        marks=pytest.mark.skipif(
            name in PACKAGES and find_spec(PACKAGES[name]) is None, reason=f"{name} isn't installed"
        ),
    )
    for name, adapter in ADAPTERS.items()
]


def make_turns(said: tuple[tuple[str, str], ...] = SAID, *, session: str = "one") -> list[Turn]:
    return [
        Turn(
            turn_id=f"{session}:{place}",
            session_id=session,
            index=place,
            role=Role.ASSISTANT if speaker == "Kai" else Role.USER,
            speaker=speaker,
            text=text,
            caption=None,
            said_at=datetime(2024, 5, 1, 9, place, tzinfo=UTC),
            added_at=datetime(2024, 5, 1, 10, tzinfo=UTC),
            metadata={},
        )
        for place, (speaker, text) in enumerate(said)
    ]


@pytest.mark.parametrize("adapter", installed)
def test_turns_are_found(adapter: Adapter, tmp_path: Path) -> None:
    """Every turn is kept, repeated words too, across sessions, and found by its id, each once, within the limit."""
    with closing(adapter.open(tmp_path, load_embedder())) as store:
        assert list(store.search("bees", limit=5)) == []
        store.add(make_turns())
        store.add(make_turns((("Nora", "Plums are ripe."),), session="two"))
        everything = list(store.search("When does the ferry leave?", limit=50))
        assert sorted(everything) == sorted([*(f"one:{place}" for place in range(6)), "two:0"])
        assert len(store.search("When does the ferry leave?", limit=2)) == 2
        if adapter.name != "naive-rag":  # whose chunk of all six comes in order
            assert everything[0] == "one:3"
        assert store.search("ripe plums", limit=1)[0] == "two:0"


@pytest.mark.parametrize("adapter", installed)
def test_an_adapter_runs_in_the_benchmark(adapter: Adapter) -> None:
    """Beside our own systems, over the same questions, with its version and what it took to write."""
    dataset = load_dataset("sample")
    ours, theirs = run_retrieval(dataset, [find_system("vectors"), adapter], embedder=load_embedder())
    assert [len(run.runs) for run in (ours, theirs)] == [len(dataset.samples[0].questions)] * 2
    assert theirs.system == adapter.name
    assert theirs.version == adapter.version
    assert ours.writing.turns == theirs.writing.turns > 0
    assert theirs.writing.seconds > 0
    assert (theirs.writing.bytes > 0) == (adapter.name in ON_DISK)
    assert theirs.table.overall["R@50"].mean > 0.5


CALLS_NOBODY = """
import sys, tempfile
from pathlib import Path

def refuse(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.bind"}:
        raise AssertionError(f"{event}: {arguments}")

sys.addaudithook(refuse)
from scrubjay.bench.adapters import find_adapter
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.retrieval import run_retrieval
from scrubjay.embed import load_embedder

run = run_retrieval(load_dataset("sample"), [find_adapter(sys.argv[1])], embedder=load_embedder())
assert run[0].table.overall["R@50"].mean > 0.5
"""


@pytest.mark.parametrize("adapter", installed)
def test_nobody_is_called(adapter: Adapter, tmp_path: Path) -> None:
    """A run opens no connection and looks up no name, and leaves nothing in the home folder."""
    ran = subprocess.run(
        [sys.executable, "-c", CALLS_NOBODY, adapter.name],
        env={"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "AssertionError" not in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_our_vectors_and_mem0_agree(tmp_path: Path) -> None:
    """With one embedder, what mem0 finds by cosine is what we find by cosine: neither store loses or bends anything."""
    pytest.importorskip("mem0", reason="mem0 isn't installed")
    dataset = load_dataset("sample")
    runs = run_retrieval(
        dataset, [find_system("vectors"), find_adapter("mem0")], embedder=load_embedder("hash:64")
    )
    ours, theirs = (run.table.overall["R@10"].mean for run in runs)
    assert ours == pytest.approx(theirs, abs=0.03)  # ties of equal cosines fall differently


def test_chunks_hold_whole_turns() -> None:
    """A chunk is as many whole turns as fit; a turn over the size is a chunk by itself; none is lost."""
    turns = make_turns(
        (("Nora", "word " * 100), ("Kai", "word " * 100), ("Nora", "word " * 600), ("Kai", "End."))
    )
    chunks = list(cut_chunks(turns))
    assert [[turn.turn_id for turn in chunk] for chunk in chunks] == [
        ["one:0", "one:1"],
        ["one:2"],
        ["one:3"],
    ]
    assert sum(count_tokens([turn.text for turn in chunks[0]])) <= CHUNK_TOKENS
    assert list(cut_chunks([])) == []


def test_jobs_run_in_processes_of_their_own() -> None:
    """Their results are those of one process, in order, each with the memory it held."""
    jobs = [Job(dataset="sample", data=None, systems=names) for names in (("chain", "bm25"), ("naive-rag",))]
    with start_pool(2) as pool:
        apart = run_jobs(jobs, pool)
        ablated = pool.submit(
            run_ablation, AblationJob(kind="construction", dataset="sample", data=None, records=None)
        ).result()
    assert ablated.document["ablation"] == "construction"
    assert ablated.tables[0].rows[0][0] == "default"
    assert [run.system for run in apart] == ["chain", "bm25", "naive-rag"]
    here = run_retrieval(load_dataset("sample"), [find_system("chain")], embedder=load_embedder())
    assert apart[0].runs == here[0].runs
    assert apart[0].table == here[0].table
    if Path("/proc/self/status").exists():
        assert all((run.writing.peak_bytes or 0) > 1 << 20 for run in apart)


def test_some_of_the_samples_can_be_scored(tmp_path: Path) -> None:
    """A run restricted to samples has their questions and no others."""
    document = json.loads(
        (Path(__file__).parents[1] / "src/scrubjay/sample/conversation.json").read_text("utf-8")
    )
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({**document, "id": name}), "utf-8")
    dataset = load_dataset("labelled", tmp_path)
    (run,) = run_retrieval(dataset, [find_adapter("naive-rag")], embedder=load_embedder("hash:64"))
    part = restrict_run(run, dataset.samples[:1])
    assert part.table.questions * 2 == run.table.questions
    assert {answer.sample for answer in part.runs} == {"a"}


def test_what_is_not_there_is_named() -> None:
    """Another name is refused with those there are; a missing package with the way to get it."""
    with pytest.raises(SettingsError, match="naive-rag, mem0, langgraph-store, memos"):
        find_adapter("nobody")
    absent = Adapter(name="x", about="", module="naive_rag", package="not-a-package", extra="bench-x")
    with pytest.raises(MissingExtraError, match=r'pip install "scrubjay\[bench-x\]"'):
        absent.open(Path(), load_embedder("hash:8"))
