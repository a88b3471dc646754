"""The conversations of `datasets/`: they are sound, their card is current, and the checks find what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.fitting import HELD_OUT

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "datasets").glob("*.json"))
START = datetime(2025, 3, 1, 9, tzinfo=UTC)


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def make_conversation() -> dict[str, Any]:
    """Give a small sound conversation as it lies in a file."""
    said = ["Did the seeds come, Wren?", "They did, on Monday: leeks and kale.", "Then I'll dig."]
    turns = [
        {
            "id": f"s01:{index}",
            "role": "user",
            "speaker": ("Ole", "Wren")[index % 2],
            "text": text,
            "said_at": (START + timedelta(minutes=index)).isoformat(),
        }
        for index, text in enumerate(said)
    ]
    asked_at = (START + timedelta(days=1)).isoformat()
    answered = {
        "id": "q01",
        "question": "What will Wren be able to sow?",
        "answer": "Leeks and kale",
        "evidence": ["s01:1"],
        "category": "single-hop",
        "asked_by": None,
        "asked_at": asked_at,
    }
    unanswered = answered | {"id": "q02", "question": "How deep will Ole dig?", "answer": "", "evidence": []}
    return {
        "id": "seeds",
        "title": "Seeds",
        "kind": "friends",
        "about": "Two neighbours sow.",
        "languages": ["en"],
        "license": "CC0-1.0",
        "sessions": [{"session_id": "s01", "turns": turns}],
        "questions": [answered, unanswered | {"category": "unanswerable"}],
    }


def test_the_conversations_are_sound() -> None:
    """No conversation, the shipped sample included, has a fault the checks know."""
    sample = ROOT / "src" / "scrubjay" / "sample" / "conversation.json"
    checked = run_tool("check_conversations.py", str(sample), *map(str, FILES))
    assert (checked.returncode, checked.stderr) == (0, "")
    assert all(path.name in checked.stdout for path in FILES)


def test_the_card_is_current() -> None:
    """The table of the card counts what the files hold."""
    assert run_tool("write_dataset_card.py", "--check").returncode == 0


def test_what_is_held_out_is_said_once() -> None:
    """The files say they are held out where the fit leaves them out, and nowhere else."""
    marked = {path.stem for path in FILES if json.loads(path.read_text("utf-8")).get("held_out")}
    assert marked == HELD_OUT


def test_the_benchmark_reads_them() -> None:
    """Every question is loaded with all its gold turns."""
    dataset = load_dataset("labelled", ROOT / "datasets")
    assert [sample.sample for sample in dataset.samples] == [path.stem for path in FILES]
    for sample in dataset.samples:
        for question in sample.questions:
            assert bool(question.evidence) is not question.unanswerable
            assert not question.unresolved


def test_a_sound_conversation_has_no_faults(tmp_path: Path) -> None:
    """What follows changes one thing in a conversation that passes."""
    path = tmp_path / "seeds.json"
    path.write_text(json.dumps(make_conversation()), encoding="utf-8")
    assert run_tool("check_conversations.py", str(path)).returncode == 0


def set_turn(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda conversation: conversation["sessions"][0]["turns"][1].update({key: value})


def set_question(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda conversation: conversation["questions"][0].update({key: value})


def set_whole(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda conversation: conversation.update({key: value})


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (set_whole("license", "MIT"), "conversation: license is 'MIT', expected CC0-1.0"),
        (set_whole("held_out", False), "conversation: held_out is False, expected true, or no such key"),
        (set_turn("id", "s01:7"), "s01:1: id is 's01:7', expected s01:1"),
        (set_turn("said_at", "2025-03-01T09:01:00"), "expected ISO 8601 with an offset"),
        (set_turn("said_at", "2025-02-28T09:00:00+00:00"), "said at 2025-02-28"),
        (set_turn("role", "friend"), "s01:1: role is 'friend'"),
        (set_turn("mood", "glad"), "unknown key 'mood'"),
        (set_question("evidence", ["s09:1"]), "q01: evidence 's09:1' doesn't exist"),
        (set_question("evidence", []), "q01: 0 evidence turns, expected 1 or more"),
        (set_question("evidence", ["s01:2", "s01:1"]), "q01: evidence is ['s01:2', 's01:1']"),
        (set_question("category", "multi-hop"), "q01: 1 evidence turns, expected 2 or more"),
        (set_question("category", "unanswerable"), "q01: unanswerable with 1 evidence turns"),
        (set_question("asked_by", "Ida"), "q01: asked_by is 'Ida', expected null or one of Ole, Wren"),
        (set_question("asked_by", "Wren"), "q01: 'Wren' asks about 'Wren', expected the first person"),
        (set_question("asked_at", "2025-03-01T09:00:30+00:00"), "later than its evidence s01:1"),
        (set_question("question", "How deep will Ole dig?!"), "q02: says the same as q01"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, change: Callable[[dict[str, Any]], None], fault: str) -> None:
    """A fault is told with its place, what was found and what was expected."""
    conversation = make_conversation()
    change(conversation)
    path = tmp_path / "seeds.json"
    path.write_text(json.dumps(conversation), encoding="utf-8")
    checked = run_tool("check_conversations.py", str(path))
    assert checked.returncode == 1
    assert fault in checked.stderr
