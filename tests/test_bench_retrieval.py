"""The retrieval benchmark with records: memories are filled from a recording, and covered turns are what counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.retrieval import run_retrieval
from scrubjay.bench.systems import PLANNED, find_system
from scrubjay.embed import load_embedder
from scrubjay.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

CONVERSATION = {
    "id": "lake",
    "title": "At the lake",
    "kind": "friends",
    "languages": ["en"],
    "license": "CC0-1.0",
    "about": "A crossing.",
    "sessions": [
        {
            "session_id": "s1",
            "turns": [
                {
                    "id": f"s1:{n}",
                    "role": "user",
                    "speaker": "Ida",
                    "text": text,
                    "said_at": "2024-05-01T10:00:00+02:00",
                }
                for n, text in enumerate(("I rowed across the lake.", "It took an hour.", "Then it rained."))
            ],
        }
    ],
    "questions": [
        {
            "question": "How did Ida cross the lake?",
            "category": "single-hop",
            "answer": "She rowed.",
            "evidence": ["s1:0"],
        }
    ],
}
RECORDING = {
    "lake": [
        {
            "session": 1,
            "turns": ["s1:0", "s1:1", "s1:2"],
            "topic": "the lake",
            "records": [
                {
                    "memory_type": "event",
                    "semantic_text": "Ida rowed across the lake in an hour.",
                    "entities": ["Ida"],
                    "tags": [],
                    "temporal": {},
                    "evidence": ["s1:0", "s1:1"],
                    "speaker": "Ida",
                }
            ],
        }
    ]
}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "records.json"
    path.write_text(json.dumps(RECORDING), "utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "lake.json"
    path.write_text(json.dumps(CONVERSATION), "utf-8")
    return path


def test_records_count_for_their_turns(data: Path, recording: Path) -> None:
    """Every system of the table finds the evidence: turns by themselves, records by what they were made from."""
    systems = [find_system(name) for name in PLANNED]
    runs = run_retrieval(
        load_dataset("labelled", data), systems, embedder=load_embedder("hash:64"), records=recording
    )
    assert [run.system for run in runs] == list(PLANNED)
    for run in runs:
        assert "s1:0" in run.runs[0].evidence[1000], run.system
        assert "s1:0" in run.runs[0].ranking, run.system


def test_a_recording_of_something_else_is_refused(data: Path, tmp_path: Path) -> None:
    """Rather than measuring memories without records."""
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"sea": []}), "utf-8")
    with pytest.raises(SettingsError, match="'lake'"):
        run_retrieval(
            load_dataset("labelled", data),
            [find_system("planned")],
            embedder=load_embedder("hash:64"),
            records=other,
        )
