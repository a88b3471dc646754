"""A reranker within a planned read: what it changes, and what happens where it fails."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import numpy as np
import pytest
from planned_memories import recollect, record, remember

from scrubjay.reranking import rearranged
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrubjay.evidence import Evidence

QUESTION = "Who plays the bassoon?"


def with_reranker(name: str, *, preset: str = "default") -> Settings:
    settings = Settings.preset(preset)
    return replace(settings, rerank=replace(settings.rerank, reranker=name))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "memory.jay"
    others = [record(f"Mira has bought chair number {n}.", "kitchen:0") for n in range(20)]
    remember(found, [*others, record("Oleg, Mira's neighbour, plays the bassoon.", "kitchen:2")])
    return found


@pytest.fixture
def reversing_server() -> Iterator[str]:
    """Serve a reranker that likes best what it is given last."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            results = [{"index": n, "relevance_score": float(n)} for n in range(len(asked["documents"]))]
            body = json.dumps({"results": results}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/rerank#reverse"
    server.shutdown()
    server.server_close()
    thread.join()


def ask(path: Path, settings: Settings, *, max_tokens: int = 90) -> Evidence:
    with recollect(path, settings) as memory:
        return memory.recall(QUESTION, strategy="planned", max_tokens=max_tokens)


def fallbacks(evidence: Evidence) -> list[str]:
    return [stage.fallback for stage in evidence.trace if stage.name == "rerank"]


@pytest.mark.parametrize("preset", ["default", "lychee-v2"])
def test_reranking_changes_what_is_shown(path: Path, reversing_server: str, preset: str) -> None:
    """The pool is larger than what is shown, so that a reranker decides what is in it, not only its order."""
    plain = ask(path, Settings.preset(preset))
    reranked = ask(path, with_reranker(reversing_server, preset=preset))
    assert fallbacks(plain) == []
    assert fallbacks(reranked) == [""]
    shown = [{link.turn.turn_id for link in found.links} for found in (plain, reranked)]
    told = [{link.record.text for link in found.records} for found in (plain, reranked)]
    assert shown[0] != shown[1] or told[0] != told[1]


def test_an_agreeing_reranker_finds_the_same(path: Path) -> None:
    """The exact twin agrees that what shares the question's words comes first."""
    evidence = ask(path, with_reranker("overlap"))
    assert "bassoon" in evidence.text
    assert fallbacks(evidence) == [""]


def test_a_failing_reranker_leaves_the_order(path: Path) -> None:
    """Where the reranker can't be reached the evidence is as without it, and the trace says why."""
    plain = ask(path, Settings())
    failed = ask(path, with_reranker("http://127.0.0.1:9/v1/rerank#none"))
    assert failed == plain
    (fallback,) = fallbacks(failed)
    assert "the order is that of recall" in fallback


def test_only_the_order_is_taken() -> None:
    """Reranked rows share out the scores they had; the others keep theirs."""
    scores = np.array([0.9, 0.1, 0.5, 0.7])
    moved = rearranged(scores, np.array([0, 2, 1]), np.array([1, 0, 2]))
    assert moved.tolist() == [0.5, 0.9, 0.1, 0.7]
