"""Pictures of what benchmarks wrote, and stores measured as they grow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from scrubjay.bench.figures import read_figures
from scrubjay.bench.plots import draw_pictures
from scrubjay.bench.sizes import SizeJob, make_dataset, read_counts, run_size
from scrubjay.errors import FormatError, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

PNG = b"\x89PNG"


def span(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - 0.05, "high": mean + 0.05}


def system(name: str, mean: float, *, turns: int = 500) -> dict[str, object]:
    measures = {f"R@{budget}tok": span(mean) for budget in (500, 1000, 2000, 4000)}
    return {
        "system": name,
        "overall": measures,
        "categories": {"multi-hop": measures, "temporal": measures},
        "latency_ms": {"p50": 2.0, "p95": 4.5},
        "turns": turns,
    }


def ablation(kind: str, names: tuple[str, ...]) -> dict[str, object]:
    return {
        "ablation": kind,
        "dataset": "locomo",
        "max_tokens": 1000,
        "replayed": True,
        "preset": "lychee-v2" if kind == "threshold" else None,
        "variants": [
            {
                "variant": name,
                "construction_tokens": 1e5,
                "query_tokens": 1500.0,
                "shown": {"R@1000tok": span(0.9)},
            }
            for name in names
        ],
    }


def report(name: str) -> dict[str, object]:
    group = {"questions": 10, "values": {"accuracy": span(0.6), "f1": span(0.4)}, "corrected": {}}
    return {
        "run": {"system": name, "dataset": "locomo"},
        "overall": group,
        "categories": {"multi-hop": group, "temporal": group},
        "cost": {"construction_k": 200.0, "query_k": 4.0},
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = {
        "retrieval": {
            "dataset": "locomo",
            "systems": [system("chain", 0.9), system("mem0", 0.6), system("own", 0.5)],
        },
        "construction": ablation("construction", ("default", "eager")),
        "threshold": ablation("threshold", ("0.30", "0.50")),
        "sizes": {
            "sizes": [system("chain", 0.9, turns=100), system("chain", 0.9, turns=1000), system("own", 0.9)]
        },
    }
    (tmp_path / "figures").mkdir()
    for name, document in documents.items():
        (tmp_path / "figures" / f"{name}.json").write_text(json.dumps(document), "utf-8")
    for name in ("scrubjay", "bm25"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(json.dumps(report(name)), "utf-8")
        (tmp_path / name / "run.json").write_text("{}", "utf-8")
    return tmp_path


def test_every_kind_is_drawn(folder: Path) -> None:
    """Folders of figures and of runs give a picture for each kind there is, the same bytes each time."""
    figures = read_figures([folder / "figures", folder / "scrubjay", folder / "bm25"])
    first = draw_pictures(figures, folder / "first")
    assert [path.stem for path in first] == [
        "evidence-by-tokens",
        "evidence-by-category",
        "cost-against-evidence",
        "threshold",
        "latency-by-size",
        "answers-by-cost",
        "answers-by-category",
    ]
    second = draw_pictures(figures, folder / "second")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert all(path.read_bytes().startswith(PNG) for path in first)


def test_only_what_is_there_is_drawn(folder: Path) -> None:
    """A file by itself gives its own pictures alone."""
    drawn = draw_pictures(read_figures([folder / "figures" / "sizes.json"]), folder / "out")
    assert [path.name for path in drawn] == ["latency-by-size.png"]


def test_what_is_no_figures(folder: Path) -> None:
    """Another file, or figures with a part missing, is refused by name."""
    other = folder / "other.json"
    other.write_text('{"sessions": []}', "utf-8")
    with pytest.raises(SettingsError, match=r"other\.json.*sessions"):
        read_figures([other])
    other.write_text('{"ablation": "construction", "dataset": "locomo"}', "utf-8")
    with pytest.raises(FormatError, match="max_tokens"):
        read_figures([other])


def test_a_store_is_measured_as_it_grows() -> None:
    """As many turns as were asked for are written, in sessions, and the sample's questions are timed."""
    dataset = make_dataset(45)
    assert [len(session.turns) for session in dataset.samples[0].conversation.sessions] == [20, 20, 5]
    assert make_dataset(45).samples[0].conversation == dataset.samples[0].conversation
    run = run_size(SizeJob(system="chain", turns=45, embedder="hash:32"))
    assert (run.writing.turns, len(run.runs)) == (45, len(dataset.samples[0].questions))
    assert 0 < run.latency_ms["p50"] <= run.latency_ms["p95"]
    assert run_size(SizeJob(system="naive-rag", turns=45, embedder="hash:32")).writing.bytes == 0


def test_counts_are_read() -> None:
    """Counts have commas between them; anything else is refused."""
    assert read_counts("250, 1000") == [250, 1000]
    for text in ("", "0", "many", "1,,2"):
        with pytest.raises(SettingsError, match="turns"):
            read_counts(text)
