"""A read never writes, needs no network, and gives the same evidence whenever and wherever it is asked."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from small_memories import CONVERSATION, SPRING, fill, open_memory, run_python, say, texts

from scrubjay.datatypes import RankBy
from scrubjay.home import MemoryHome
from scrubjay.memory import Memory

if TYPE_CHECKING:
    from pathlib import Path


RECALLS = 1_000
QUESTIONS = (
    "Who plays the bassoon?",
    "What did Jonas say last week?",
    "¿Cómo se llama el perro?",
    "小提琴",
    "pistachio, ferry, Lübeck",
    "nothing of the kind",
)


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Give every file of a folder by name: its bytes and when it was changed."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.iterdir())}


def ask_everything(memory: Memory, times: int) -> None:
    for number in range(times):
        question = QUESTIONS[number % len(QUESTIONS)]
        memory.recall(f"{question} {number}", now=SPRING)
        if number % 50 == 0:
            memory.search(question, by=RankBy.FUSED, now=SPRING)
            texts(memory)
            memory.sessions()
            memory.status()
            memory.doctor()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_read_never_writes(tmp_path: Path, *, read_only: bool) -> None:
    """A thousand questions and every other read leave the file as it was to the byte, and nothing beside it."""
    path = tmp_path / "memory.jay"
    fill(open_memory(path)).close()
    before = files_of(tmp_path)
    with open_memory(path, read_only=read_only) as memory:
        ask_everything(memory, RECALLS)
        assert files_of(tmp_path)["memory.jay"] == before["memory.jay"]
        assert (
            sum(len(content) for name, (content, _) in files_of(tmp_path).items() if name.endswith("-wal"))
            == 0
        )
    assert files_of(tmp_path) == before


def test_reading_beside_a_writer_does_not_write(tmp_path: Path) -> None:
    """While another has the memory open and its log is full, a reader changes neither file nor log."""
    path = tmp_path / "memory.jay"
    with fill(open_memory(path)) as writer:
        before = files_of(tmp_path)
        with open_memory(path, read_only=True) as reader:
            ask_everything(reader, 20)
            assert len(texts(reader)) == 11
        after = files_of(tmp_path)
        for name in ("memory.jay", "memory.jay-wal"):
            assert after[name] == before[name]
        say(writer, "still at work")


def test_reading_what_a_killed_writer_left(tmp_path: Path) -> None:
    """A log that a killed writer left is read with the file, and stays for the next writer to take in."""
    path = tmp_path / "memory.jay"
    run_python(
        "import os, sys\nfrom small_memories import *\nfill(open_memory(sys.argv[1]))\nos._exit(0)", str(path)
    )
    before = files_of(tmp_path)
    assert len(before["memory.jay-wal"][0]) > 0
    with open_memory(path, read_only=True) as memory:
        assert len(texts(memory)) == 11
        ask_everything(memory, 20)
    after = files_of(tmp_path)
    assert [after[name][0] for name in ("memory.jay", "memory.jay-wal")] == [
        before[name][0] for name in ("memory.jay", "memory.jay-wal")
    ]
    with open_memory(path) as memory:
        assert len(texts(memory)) == 11
    assert list(files_of(tmp_path)) == ["memory.jay"]


def test_reading_users_does_not_write(tmp_path: Path) -> None:
    """Listing users changes no file."""
    with MemoryHome(tmp_path, embedder="hash:64") as home:
        for user_id in ("alice", "Ä"):
            fill(home.memory(user_id))
    before = files_of(tmp_path)
    with MemoryHome(tmp_path) as home:
        assert home.users() == ("alice", "Ä")
    assert files_of(tmp_path) == before


# --- the same again ---

ASK = """
import json, sys
from small_memories import *
from test_reading import QUESTIONS, evidence_of
if sys.argv[2] == "build":
    fill(open_memory(sys.argv[1])).close()
with open_memory(sys.argv[1], read_only=True) as memory:
    print(json.dumps(evidence_of(memory)))
"""


def evidence_of(memory: Memory) -> list[object]:
    return [
        [memory.recall(question, now=SPRING).to_dict() for question in QUESTIONS],
        [[hit.turn.turn_id for hit in memory.search(question, now=SPRING)] for question in QUESTIONS],
    ]


def test_the_same_question_gives_the_same_evidence(full_memory: Memory) -> None:
    """Asked twice, a question gives equal evidence, whatever was asked in between."""
    first = json.dumps(evidence_of(full_memory))
    ask_everything(full_memory, 30)
    assert json.dumps(evidence_of(full_memory)) == first


def test_another_process_gives_the_same_evidence(tmp_path: Path) -> None:
    """Processes with other hash seeds, on the same file or one made anew, give the same evidence to the byte."""
    path = tmp_path / "memory.jay"
    fill(open_memory(path)).close()
    same = [run_python(ASK, str(path), "ask", PYTHONHASHSEED=seed).stdout for seed in ("1", "2")]
    anew = run_python(ASK, str(tmp_path / "anew.jay"), "build", PYTHONHASHSEED="3").stdout
    assert same[0] == same[1]
    assert without_added_at(json.loads(anew)) == without_added_at(json.loads(same[0]))
    assert len(json.loads(anew)[0][0]["links"]) > 0


def without_added_at(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_added_at(inner) for key, inner in value.items() if key != "added_at"}
    return [without_added_at(inner) for inner in value] if isinstance(value, list) else value


def test_the_order_of_adding_sessions_does_not_matter_to_what_is_found(tmp_path: Path) -> None:
    """A memory grown turn by turn, asked in between, finds the same as one filled at once."""
    with open_memory(tmp_path / "slow.jay") as slow, fill(open_memory(tmp_path / "fast.jay")) as fast:
        for session_id, turns in CONVERSATION.items():
            for place in range(len(turns)):
                slow.add(as_new(fast, f"{session_id}:{place}"), session_id=session_id)
                slow.recall("Pepper")
        assert without_added_at(evidence_of(slow)) == without_added_at(evidence_of(fast))


def as_new(memory: Memory, turn_id: str) -> dict[str, object]:
    turn = memory.turn(turn_id)
    return {
        "role": turn.role,
        "content": turn.text,
        "name": turn.speaker,
        "created_at": turn.said_at,
        "index": turn.index,
    }


# --- alone ---

OFFLINE = """
import sys
def forbid(event, arguments):
    if event.startswith(("socket.connect", "socket.getaddrinfo", "socket.bind", "urllib", "http")) or event == "socket.__new__":
        raise AssertionError(event)
sys.addaudithook(forbid)
from scrubjay import Memory
with Memory(sys.argv[1]) as memory:
    memory.add({"role": "user", "name": "Mira", "content": "I keep bees on the roof."}, session_id="monday")
    assert "bees" in memory.recall("Where are the bees?").text
    assert memory.search("bees") and memory.doctor() == ()
    memory.reembed("hash:16")
    memory.forget(everything=True)
import socket
try:
    socket.create_connection(("127.0.0.1", 9))
except AssertionError:
    print("done")  # it would have been noticed
"""


def test_no_socket_is_opened(tmp_path: Path) -> None:
    """Adding, asking, changing the embedder and forgetting open no socket and look no name up."""
    assert run_python(OFFLINE, str(tmp_path / "m.jay")).stdout == "done\n"


HEAVY = ("numpy", "tokenizers", "pydantic", "sqlite3", "asyncio", "typer", "rich")
WEB_OR_MODEL = (
    "pydantic",
    "pydantic_ai",
    "openai",
    "anthropic",
    "httpx",
    "fastapi",
    "torch",
    "transformers",
    "scipy",
    "requests",
)


def loaded_by(code: str, names: tuple[str, ...]) -> set[str]:
    listed = run_python(f"{code}\nimport sys\nprint(*sys.modules)").stdout.split()
    return set(listed) & set(names)


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import scrubjay` loads no library but the standard one, and little of that."""
    assert loaded_by("import scrubjay", HEAVY + WEB_OR_MODEL) == set()
    assert "numpy" in loaded_by("import numpy", HEAVY)


def test_a_memory_needs_no_web_or_model_library() -> None:
    """Opening a memory, adding and asking load no web, model or validation library."""
    code = (
        "from scrubjay import Memory\nm = Memory(':memory:')\n"
        "m.add({'role': 'user', 'content': 'hello'}, session_id='s')\nm.recall('hello')"
    )
    assert loaded_by(code, WEB_OR_MODEL) == set()


def test_public_names_are_there() -> None:
    """Every name that the package offers can be imported from it, and no other is pretended."""
    import scrubjay

    assert set(scrubjay.__all__) <= set(dir(scrubjay))
    for name in scrubjay.__all__:
        assert getattr(scrubjay, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Memmory'"):
        _ = scrubjay.Memmory
    assert sys.modules["scrubjay"] is scrubjay


@pytest.mark.parametrize("strategy", ["chain", "planned"])
def test_who_asks_is_nobody_here(strategy: str) -> None:
    """Where nobody has the name of who asks the trace says so, and what is found is what nobody's asking finds."""
    with Memory(":memory:") as memory:
        memory.add({"role": "user", "name": "Ana", "content": "My kiln is on the roof."}, session_id="monday")
        question = "Where is my kiln?"
        stranger = memory.recall(question, asker="Anna", strategy=strategy)
        nobody = memory.recall(question, strategy=strategy)
        known = memory.recall(question, asker="ana", strategy=strategy)
    told = {stage.name: stage.fallback for stage in stranger.trace if stage.fallback}
    assert list(told) == ["recall"]
    assert "'Anna'" in told["recall"]
    assert stranger.text == nobody.text
    assert [stage.fallback for found in (nobody, known) for stage in found.trace if stage.fallback] == []
