"""The benchmark's commands: what they print, write and refuse."""

from __future__ import annotations

import hashlib
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from commands import Output, command_runner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    return command_runner(monkeypatch, capsys)


def test_ablation(run: Callable[..., Output], tmp_path: Path) -> None:
    """Without a recording the sample's construction is reckoned; the figures are written as JSON too."""
    out = tmp_path / "construction.json"
    printed = run("bench", "ablation", "construction", "--out", out).out
    assert "eager-turn" in printed
    assert "reckoned" in printed
    document = json.loads(out.read_text("utf-8"))
    assert document["ablation"] == "construction"
    assert [row["variant"] for row in document["variants"]][:2] == ["default", "lychee-v2"]
    assert json.loads(run("bench", "ablation", "construction", "--json").out) == document


def test_sweep(run: Callable[..., Output]) -> None:
    """A threshold is swept over a range; something else, or no range, is refused."""
    document = json.loads(run("bench", "sweep", "threshold", "0.3..0.7", "--step", "0.2", "--json").out)
    assert [row["variant"] for row in document["variants"]] == ["0.30", "0.50", "0.70"]
    for arguments in (("tokens", "0.3..0.7"), ("threshold", "many")):
        refused = run("bench", "sweep", *arguments)
        assert refused.code == 2
        assert "expected" in refused.err


def test_beside(run: Callable[..., Output]) -> None:
    """Another memory stands in the same tables, with its version and how fast it wrote."""
    printed = run("bench", "retrieval", "--dataset", "sample", "--no-baselines", "--beside", "naive-rag").out
    assert printed.count("naive-rag") > 5
    assert "turns a second" in printed
    assert run("bench", "retrieval", "--dataset", "sample", "--beside", "nobody").code == 2


def test_fetch(run: Callable[..., Output], tmp_path: Path) -> None:
    """The licence is told first, on standard error; what came is told with its checksum, or why it can't be taken."""
    content = b'[{"sample_id": "tiny"}]'
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "locomo10.json").write_bytes(content)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/locomo10.json"
        refused = run("bench", "fetch", "locomo", "--url", url, "--to", tmp_path / "a.json")
        got = run(
            "bench", "fetch", "locomo", "--url", url, "--to", tmp_path / "b.json", "--sha256", "any", "--json"
        )
        server.shutdown()
        thread.join()
    assert refused.code == 1
    assert "--sha256 any" in refused.err
    assert not (tmp_path / "a.json").exists()
    assert "CC BY-NC 4.0" in got.err
    document = json.loads(got.out)
    assert document["sha256"] == hashlib.sha256(content).hexdigest()
    assert document["checked"] is False
    assert (tmp_path / "b.json").read_bytes() == content


def test_sizes_and_plot(run: Callable[..., Output], tmp_path: Path) -> None:
    """What one command measured and wrote, the other draws; figures without anything to draw are an error."""
    out = tmp_path / "sizes.json"
    printed = run("bench", "sizes", "--turns", "40,80", "--out", out).out
    assert printed.count("chain") == 2
    drawn = run("bench", "plot", out, "--to", tmp_path / "pictures")
    assert drawn.out.strip().endswith("latency-by-size.png")
    assert (tmp_path / "pictures" / "latency-by-size.png").exists()
    out.write_text('{"sizes": []}', "utf-8")
    empty = run("bench", "plot", out)
    assert empty.code == 1
    assert "nothing to draw" in empty.err
