"""The command, run as a user runs it: what it prints, where, and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main
from commands import Output, command_runner

from scrubjay import Memory
from scrubjay.bench.datasets import sample_path
from scrubjay.cli import app

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    return command_runner(monkeypatch, capsys)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "sample.jay"
    with Memory(path) as memory:
        memory.import_(sample_path())
    return path


def test_import_then_ask(run: Callable[..., Output], tmp_path: Path) -> None:
    """A file is imported into one memory, and a question shows the turn that answers it."""
    memory = tmp_path / "m.jay"
    imported = run("import", sample_path(), "--memory", memory)
    assert (imported.code, "208" in imported.out) == (0, True)
    asked = run("ask", "How did the missing dachshund really get into the cellar?", "--memory", memory)
    assert asked.code == 0
    assert "The boy from the bakery" in asked.out
    assert "tokens" in asked.err


def test_import_again_adds_nothing(run: Callable[..., Output], tmp_path: Path) -> None:
    """Importing a file again finds all of it there."""
    memory = tmp_path / "m.jay"
    run("import", sample_path(), "--memory", memory)
    (again,) = run("import", sample_path(), "--memory", memory, "--json").document
    assert again["memories"] == [{"memory": str(memory), "sessions": 12, "added": 0, "unchanged": 208}]


def test_import_into_a_home(run: Callable[..., Output], tmp_path: Path) -> None:
    """Several conversations go into a folder, each into a memory of its own, and not into one memory."""
    chats = tmp_path / "chats.json"
    chats.write_text(
        json.dumps([{"role": "user", "content": "Hi", "user_id": name} for name in ("ana", "bo")])
    )
    refused = run("import", chats, "--memory", tmp_path / "one.jay")
    assert (refused.code, "--into" in refused.err) == (2, True)
    assert not (tmp_path / "one.jay").exists()
    assert run("import", chats, "--into", tmp_path / "home").code == 0
    assert {path.name for path in (tmp_path / "home").glob("*.jay")} == {"ana.jay", "bo.jay"}


def test_bad_file_imports_nothing(run: Callable[..., Output], tmp_path: Path) -> None:
    """A bad entry is named with what was expected, nothing is stored; --skip-bad leaves it out and says so."""
    chats = tmp_path / "chats.json"
    chats.write_text(json.dumps([{"role": "user", "content": "Hi"}, {"role": "narrator", "content": "Then"}]))
    refused = run("import", chats, "--memory", tmp_path / "m.jay")
    assert refused.code == 1
    assert "role" in refused.err
    assert not (tmp_path / "m.jay").exists()
    skipped = run("import", chats, "--memory", tmp_path / "m.jay", "--skip-bad")
    assert (skipped.code, "skipped" in skipped.err) == (0, True)


def test_import_needs_a_place(run: Callable[..., Output]) -> None:
    """Without a memory or a folder the command says what is missing."""
    refused = run("import", sample_path())
    assert (refused.code, "--memory" in refused.err) == (2, True)


def test_memory_from_the_environment(
    run: Callable[..., Output], sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCRUBJAY_MEMORY names the memory where no option does."""
    monkeypatch.setenv("SCRUBJAY_MEMORY", str(sample))
    assert run("sessions").code == 0


def test_ask_explains(run: Callable[..., Output], sample: Path) -> None:
    """--explain adds a table with a reason and the channels' scores for each turn."""
    asked = run(
        "ask", "What food makes Miso scratch?", "--memory", sample, "--explain", "--max-tokens", "300"
    )
    assert "likely evidence" in asked.out
    assert "likely evidence" in asked.out
    assert "lexical" in asked.out


def test_ask_within_tokens_as_json(run: Callable[..., Output], sample: Path) -> None:
    """--json gives the whole evidence, within the budget asked for."""
    (document,) = run(
        "ask", "What food makes Miso scratch?", "-m", sample, "--json", "--max-tokens", "150"
    ).document
    assert isinstance(document["tokens"], int)
    assert 0 < document["tokens"] <= 150
    assert document["links"]


def test_relative_dates_count_from_now(run: Callable[..., Output], sample: Path) -> None:
    """--now says what 'last month' means; without an offset it is refused."""
    (document,) = run(
        "ask", "What happened last month?", "-m", sample, "--now", "2024-12-20T12:00:00+01:00", "--json"
    ).document
    time_range = document["time_range"]
    assert isinstance(time_range, dict)
    assert str(time_range["start"]).startswith("2024-11-01")
    refused = run("ask", "What happened?", "-m", sample, "--now", "2024-12-20T12:00:00")
    assert (refused.code, "time zone" in refused.err) == (2, True)


def test_ask_by_a_strategy(run: Callable[..., Output], sample: Path) -> None:
    """--strategy says what evidence is looked for in; one that is none is refused with those that are."""
    for strategy in ("chain", "planned"):
        (found,) = run(
            "ask", "What may Miso not eat?", "-m", sample, "--strategy", strategy, "--json"
        ).document
        assert found["strategy"] == strategy
    refused = run("ask", "What may Miso not eat?", "-m", sample, "--strategy", "best")
    assert (refused.code, "auto, chain, planned" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("SCRUBJAY_VECTOR_INDEX", ("ask",)),
        ("SCRUBJAY_VECTOR_INDEX", ("search",)),
        ("SCRUBJAY_RERANKER", ("ask", "--strategy", "planned")),
    ],
)
def test_reading_heeds_the_environment(
    run: Callable[..., Output],
    sample: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    command: tuple[str, ...],
) -> None:
    """What the environment says of how memories are read counts for commands that read: what is none is refused."""
    monkeypatch.setenv(name, "nosuch:x")
    refused = run(*command, "What may Miso not eat?", "-m", sample)
    assert (refused.code, "nosuch" in refused.err) == (2, True)


def test_who_asks_is_named(run: Callable[..., Output], tmp_path: Path) -> None:
    """--as says whom 'my' means, in a question and in a search."""
    path = tmp_path / "two.jay"
    with Memory(path) as memory:
        for name, month in (("Ana", "May"), ("Ben", "June")):
            said = (f"The wedding is in {month}.", "It rained all day.", "The shop was closed.")
            memory.add(({"role": "user", "content": text, "name": name} for text in said), session_id=name)
    for name, month in (("Ana", "May"), ("Ben", "June")):
        (hit,) = run("search", "my wedding", "-m", path, "--as", name, "--limit", "1", "--json").document
        assert month in str(hit["turn"])
        (asked,) = run("ask", "When is my wedding?", "-m", path, "--as", name, "--json").document
        links = asked["links"]
        assert isinstance(links, list)
        assert month in str(max(links, key=lambda link: link["probability"])["turn"])


def test_search_lists_hits(run: Callable[..., Output], sample: Path) -> None:
    """A search lists turns best first, as a table and as JSON."""
    assert "s03:4" in run("search", "chicken allergy", "-m", sample).out
    hits = run("search", "chicken allergy", "-m", sample, "--limit", "3", "--json").document
    assert [hit["rank"] for hit in hits] == [1, 2, 3]


def test_show_turns(run: Callable[..., Output], sample: Path) -> None:
    """Turns are printed as they were said: one, or a session's."""
    assert run("show", "-m", sample, "--turn", "s03:4").out.startswith("[s03:4] 2024-")
    assert len(run("show", "-m", sample, "--session", "s03", "--json").document) > 10
    missing = run("show", "-m", sample, "--turn", "nope")
    assert (missing.code, "no turn 'nope'" in missing.err) == (1, True)


def test_sessions_and_status(run: Callable[..., Output], sample: Path) -> None:
    """Sessions and status say what the memory holds."""
    assert len(run("sessions", "-m", sample, "--json").document) == 12
    assert "s12" in run("sessions", "-m", sample).out
    (status,) = run("status", "-m", sample, "--json").document
    assert (status["turns"], status["sessions"]) == (208, 12)
    assert "208" in run("status", "-m", sample).out


def test_export_comes_back_whole(run: Callable[..., Output], sample: Path, tmp_path: Path) -> None:
    """An export is imported without loss, also from standard output."""
    file = tmp_path / "out.jsonl"
    assert run("export", "-m", sample, "--to", file).code == 0
    assert run("export", "-m", sample).out == file.read_text("utf-8")
    run("import", file, "--memory", tmp_path / "copy.jay")
    with Memory(sample, read_only=True) as first, Memory(tmp_path / "copy.jay") as second:
        told = [(t.turn_id, t.text, t.said_at, t.speaker, t.caption) for t in first.turns()]
        assert told == [(t.turn_id, t.text, t.said_at, t.speaker, t.caption) for t in second.turns()]


def test_forget(run: Callable[..., Output], tmp_path: Path) -> None:
    """A session is forgotten with a report; all of it only after --yes; what isn't there is an error."""
    memory = tmp_path / "m.jay"
    run("import", sample_path(), "--memory", memory)
    (told,) = run("forget", "-m", memory, "--session", "s01", "--dry-run", "--json").document
    (report,) = run("forget", "-m", memory, "--session", "s01", "--json").document
    assert told["turns"] == report["turns"]
    assert report["scrubbed"] is True
    assert run("forget", "-m", memory, "--session", "s01").code == 1
    assert run("forget", "-m", memory, "--before", "2024-03-01T00:00:00+01:00").code == 0
    assert run("forget", "-m", memory).code == 2
    assert run("forget", "-m", memory, "--everything", "--yes").code == 0
    (status,) = run("status", "-m", memory, "--json").document
    assert status["turns"] == 0


def test_reembed_and_doctor(run: Callable[..., Output], tmp_path: Path) -> None:
    """The embedder is changed, and doctor finds all well, or says what isn't and exits 1."""
    memory = tmp_path / "m.jay"
    run("import", sample_path(), "--memory", memory)
    assert run("reembed", "hash:32", "-m", memory).code == 0
    assert "All well" in run("doctor", "-m", memory).out
    assert run("doctor", "-m", memory, "--scrub", "--json").document == []
    assert "hash:32" in run("status", "-m", memory).out


def test_no_memory_there(run: Callable[..., Output], tmp_path: Path) -> None:
    """Asking a memory that isn't there is an error, and makes none."""
    missing = run("ask", "Who?", "-m", tmp_path / "none.jay")
    assert (missing.code, "no memory" in missing.err) == (1, True)
    assert not (tmp_path / "none.jay").exists()


def test_blank_question(run: Callable[..., Output], sample: Path) -> None:
    """A blank question is a usage error."""
    assert run("ask", "  ", "-m", sample).code == 2


def test_bench_on_the_sample(run: Callable[..., Output], tmp_path: Path) -> None:
    """The benchmark measures beside its baselines, and writes a line a question that can be scored again."""
    out = tmp_path / "run.jsonl"
    (summary,) = run("bench", "retrieval", "--dataset", "sample", "--out", out, "--json").document
    systems = summary["systems"]
    assert isinstance(systems, list)
    assert [system["system"] for system in systems] == ["chain", "bm25", "vectors", "rrf", "last-turns"]
    recalls = {system["system"]: system["overall"]["R@50"]["mean"] for system in systems}
    assert recalls["chain"] > recalls["bm25"] > recalls["last-turns"]
    lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [line["question_index"] for line in lines] == list(range(47))
    assert {"sample", "category", "ranking", "evidence"} <= lines[0].keys()
    assert len(lines[0]["ranking"]) >= 100
    assert list(lines[0]["evidence"]) == ["500", "1000", "2000", "4000"]


def test_bench_prints_tables(run: Callable[..., Output]) -> None:
    """For people, the benchmark prints a table a measure with intervals."""
    printed = run("bench", "retrieval", "--dataset", "sample", "--no-baselines").out
    assert "95 % interval" in printed
    assert "R@10" in printed
    refused = run("bench", "retrieval", "--dataset", "locomo")
    assert (refused.code, "path" in refused.err) == (2, True)


def test_installed_command() -> None:
    """The installed command prints help without any extra loaded."""
    command = Path(sys.executable).with_name("scrubjay")
    shown = subprocess.run([str(command), "--help"], check=True, capture_output=True, text=True)
    for name in (
        "import",
        "ask",
        "search",
        "show",
        "sessions",
        "status",
        "forget",
        "export",
        "reembed",
        "doctor",
        "bench",
    ):
        assert name in shown.stdout


def test_every_command_is_documented() -> None:
    """Each command and option says what it is for."""
    found = [("scrubjay", typer.main.get_command(app))]
    for name, command in found:  # and those of groups, found on the way
        assert command.help, name
        assert [given.name for given in command.params if not getattr(given, "help", None)] == [], name
        found += [(f"{name} {each}", below) for each, below in getattr(command, "commands", {}).items()]
