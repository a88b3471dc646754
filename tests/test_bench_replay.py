"""The replay: recorded records come back through the chat port, whatever the segments are."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from models import NO_REFERENCE, make_turn

from scrubjay.bench.replay import ReplayModel, load_replay
from scrubjay.encode import encode_turns
from scrubjay.errors import FormatError, ModelReplyError, SettingsError
from scrubjay.llm import ChatRequest
from scrubjay.settings import EncoderSettings

if TYPE_CHECKING:
    from pathlib import Path

TURNS = [
    make_turn(0, "I moved to Lisbon.", "Ana"),
    make_turn(1, "Why?", "Ben"),
    make_turn(2, "For the sea.", "Ana"),
]


def recorded(text: str, *evidence: str, **fields: Any) -> dict[str, Any]:
    return {
        "memory_type": "fact",
        "semantic_text": text,
        "entities": ["Ana"],
        "tags": [],
        "temporal": {},
        "evidence": list(evidence),
        "speaker": "Ana",
        **fields,
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    segments = [
        {
            "session": 1,
            "turns": ["s:0", "s:1"],
            "topic": "moving",
            "records": [recorded("Ana moved to Lisbon.", "s:0")],
        },
        {
            "session": 1,
            "turns": ["s:2"],
            "topic": "sea",
            "records": [
                recorded(
                    "Ana moved for the sea.", "s:2", "s:0", speaker="", temporal={"t_ref": "2024-03-12"}
                ),
                recorded("Ana likes the sea.", "nowhere"),
            ],
        },
    ]
    path = tmp_path / "recorded.json"
    path.write_text(json.dumps({"one": segments}))
    return path


@pytest.mark.parametrize("cuts", [(0, 3), (0, 1, 3), (0, 2, 3), (0, 1, 2, 3)])
def test_every_record_once(path: Path, cuts: tuple[int, ...]) -> None:
    """However the turns are cut into segments, each record comes once, with the segment of its last turn."""
    model = load_replay(path, "one", count_tokens=lambda texts: [len(text) for text in texts])
    found: dict[str, tuple[str, ...]] = {}
    for start, stop in pairwise(cuts):
        encoding = encode_turns(
            TURNS[start:stop], model=model, reference=NO_REFERENCE, settings=EncoderSettings()
        )
        assert encoding.usage.input_tokens > 0
        assert not encoding.dropped
        for record in encoding.records:
            assert record.text not in found
            found[record.text] = record.turn_ids
    assert found["Ana moved to Lisbon."] == ("s:0",)
    assert found["Ana likes the sea."] == ("s:2",)
    assert found["Ana moved for the sea."] == (("s:0", "s:2") if cuts == (0, 3) else ("s:2",))


def test_summaries(path: Path) -> None:
    """Asked for a summary, the replay joins the statements; without a counter it costs nothing."""
    settings = EncoderSettings(summaries=True)
    encoding = encode_turns(TURNS, model=load_replay(path, "one"), reference=NO_REFERENCE, settings=settings)
    assert encoding.records[0].text == "Ana moved to Lisbon. Ana moved for the sea. Ana likes the sea."
    assert encoding.usage.input_tokens == 0


def test_only_the_encoder_is_replayed() -> None:
    """Other stages are told to bring a model of their own."""
    model = ReplayModel([])
    request = ChatRequest(stage="answer", system="", user="")
    with pytest.raises(ModelReplyError):
        model.complete(request, str)
    with pytest.raises(ModelReplyError, match="answer"):
        list(model.stream(request))
    model.close()


def test_what_is_no_recording(path: Path, tmp_path: Path) -> None:
    """An unknown conversation and a file of another shape are said to be so."""
    with pytest.raises(SettingsError, match="found one"):
        load_replay(path, "two")
    other = tmp_path / "other.json"
    other.write_text('{"one": [{"turns": "s:0"}]}')
    with pytest.raises(FormatError):
        load_replay(other, "one")
