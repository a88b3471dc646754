"""The HTTP interface does what Memory does, and tells its errors as problems."""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING

import pytest
from models import scripted_model
from scribes import Scribe
from servers import SPOKEN, add_spoken, application, spoken_turns, user_path
from small_memories import EMBEDDER, PATIENCE, open_memory, wait_until

from scrubjay.home import MemoryHome
from scrubjay.json_log import JsonLines
from scrubjay.memory import Memory
from scrubjay.server import ServerSettings
from scrubjay.settings import SEGMENT_PRESETS, EncoderSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.testclient import TestClient

NDJSON = {"Content-Type": "application/x-ndjson"}
ODD_IDS = (
    "a/b",
    "../../etc/passwd",
    "é?#&%2F",
    "Ä Ö",
    "'; DROP TABLE turn; --",
    "a\0b",
    "🐦",
    "%2e",
    "a\\b",
    "x" * 300,
)
EAGER = Settings(segment=SEGMENT_PRESETS["eager-turn"], encoder=EncoderSettings(retry_seconds=0.0))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """Give a client of a server without keys or model."""
    with application(tmp_path) as opened:
        yield opened


# --- turns ---


def test_turns_are_added_and_read_back(client: TestClient) -> None:
    """Turns come back as they were sent, one by one, by session and page by page; adding them again changes nothing."""
    body = {
        "session_id": "kitchen",
        "turns": [{**turn, "id": f"t{n}"} for n, turn in enumerate(spoken_turns())],
    }
    path = user_path("mira", "/turns")
    assert client.post(path, json=body).json() == {"turn_ids": ["t0", "t1", "t2"], "added": 3, "unchanged": 0}
    assert client.post(path, json=body).json() == {"turn_ids": ["t0", "t1", "t2"], "added": 0, "unchanged": 3}
    turn = client.get(f"{path}/t2").json()
    assert (turn["text"], turn["speaker"], turn["said_at"]) == (
        SPOKEN[2][1],
        "Mira",
        "2024-03-04T18:32:00+01:00",
    )
    assert [
        session["turns"] for session in client.get(user_path("mira", "/sessions")).json()["sessions"]
    ] == [3]
    client.post(path, json={"session_id": "hall", "turns": {"role": "user", "content": "no list"}})
    client.post(path, json={"session_id": "hall", "turns": [{"role": "tool", "text": "In the hall."}]})
    page = client.get(path, params={"limit": 2}).json()
    assert [turn["turn_id"] for turn in page["turns"]] == ["t0", "t1"]
    page = client.get(path, params={"limit": 2, "after": page["next"]}).json()
    assert [turn["turn_id"] for turn in page["turns"]] == ["t2", "hall:0"]
    assert page["next"] is None
    only = client.get(path, params={"session_id": "kitchen", "after": "t0", "limit": 1}).json()
    assert ([turn["turn_id"] for turn in only["turns"]], only["next"]) == (["t1"], "t1")
    hall = client.get(path, params={"session_id": "hall", "after": "t2"}).json()
    assert ([turn["turn_id"] for turn in hall["turns"]], hall["next"]) == (["hall:0"], None)
    assert client.get(path, params={"session_id": "kitchen", "after": "hall:0"}).json()["turns"] == []
    assert client.get(path, params={"session_id": "loft", "after": "t2"}).status_code == 404
    assert client.get(path, params={"after": "t9"}).status_code == 404


@pytest.mark.parametrize("user_id", ODD_IDS)
def test_any_text_is_a_user_id(client: TestClient, tmp_path: Path, user_id: str) -> None:
    """A user id may be any text, percent-encoded: it reaches its own memory, in the home's folder, and no other."""
    add_spoken(client, "somebody else")
    add_spoken(client, user_id)
    assert set(client.get("/v1/users").json()["users"]) == {user_id, "somebody else"}
    assert client.get(user_path(user_id, "/status")).json()["owner"] == user_id
    assert {path.parent for path in tmp_path.rglob("*")} == {tmp_path}
    assert client.delete(user_path(user_id)).json() == {"user": user_id, "forgotten": True}
    assert client.delete(user_path(user_id)).json() == {"user": user_id, "forgotten": False}
    assert client.get("/v1/users").json() == {"users": ["somebody else"], "next": None}


def test_a_misspelt_filter(client: TestClient) -> None:
    """A query parameter that isn't there is refused, with those that are: it is no filter that lets everything through."""
    add_spoken(client)
    answer = client.get(user_path("mira", "/turns"), params={"session": "kitchen"})
    assert answer.status_code == 422
    assert (
        answer.json()["detail"] == "there is no query parameter 'session': there are after, limit, session_id"
    )
    assert client.get(user_path("mira", "/sessions"), params={"limit": 1}).status_code == 422


def test_users_page_by_page(client: TestClient) -> None:
    """Users are listed sorted, a page at a time."""
    for name in ("c", "a", "b"):
        add_spoken(client, name)
    assert client.get("/v1/users", params={"limit": 2}).json() == {"users": ["a", "b"], "next": "b"}
    assert client.get("/v1/users", params={"limit": 2, "after": "b"}).json() == {"users": ["c"], "next": None}


def test_a_bulk_upload(client: TestClient) -> None:
    """Lines are stored in batches; an empty line counts for nothing; the report says how many there were."""
    lines = [
        json.dumps({"session_id": f"s{n % 3}", "role": "user", "content": f"line {n}", "id": f"l{n}"})
        for n in range(1_201)
    ]
    path = user_path("bulk", "/turns/bulk")
    report = client.post(path, content="\n\n".join(lines), headers=NDJSON).json()
    assert report == {"lines": 1_201, "added": 1_201, "unchanged": 0, "batches": 3}
    assert client.post(path, content="\n".join(lines) + "\n", headers=NDJSON).json()["unchanged"] == 1_201
    assert client.get(user_path("bulk", "/status")).json()["turns"] == 1_201


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("{", 422, "JSON"),
        ('{"session_id": "s", "role": "user", "content": ""}', 422, "empty"),
        ('{"session_id": "s", "role": "pope", "content": "x"}', 422, "role"),
        ('{"role": "user", "content": "x"}', 422, "session_id"),
        ('{"session_id": "s", "role": "user", "content": "other", "id": "l0"}', 409, "already stored"),
        (
            '{"session_id": "s", "role": "user", "content": "x", "created_at": "2024-03-04T10:00"}',
            422,
            "time zone",
        ),
        ('"' + "x" * 2_000 + '"', 413, "bytes"),
    ],
)
def test_a_bad_line_in_a_bulk_upload(tmp_path: Path, line: str, status: int, said: str) -> None:
    """The problem names the line and says what was stored before it, which is there."""
    good = "".join(
        f'{{"session_id": "s", "role": "user", "content": "line {n}", "id": "l{n}"}}\n' for n in range(600)
    )
    with application(tmp_path, settings=ServerSettings(most_line_bytes=1_000)) as client:
        answer = client.post(user_path("bulk", "/turns/bulk"), content=f"{good}{line}\n", headers=NDJSON)
        problem = answer.json()
        assert answer.status_code == status
        assert said in problem["detail"]
        assert problem["line"] == 601 - (status == 413)
        assert problem["stored"] == {"lines": 500, "added": 500, "unchanged": 0, "batches": 1}
        assert client.get(user_path("bulk", "/status")).json()["turns"] == 500


def test_a_bulk_upload_says_what_it_is(client: TestClient) -> None:
    """A bulk upload of another kind is refused."""
    assert client.post(user_path("bulk", "/turns/bulk"), content="{}").status_code == 415


# --- reading ---


def test_recall_gives_the_evidence_of_the_command(client: TestClient, tmp_path: Path) -> None:
    """The evidence is the document that Memory.recall gives; options are passed on."""
    add_spoken(client)
    body = {"question": "Who held the ladder?", "max_tokens": 200, "strategy": "chain", "asker": "Mira"}
    found = client.post(user_path("mira", "/recall"), json=body).json()
    assert found.pop("trace")
    with open_memory(tmp_path / "mira.jay", read_only=True) as memory:
        assert (
            found
            == memory.recall("Who held the ladder?", max_tokens=200, strategy="chain", asker="Mira").to_dict()
        )
    late = client.post(user_path("mira", "/recall"), json={"question": "ladder", "deadline": 1e-9}).json()
    assert any(stage["fallback"] for stage in late["trace"])
    past = {"question": "ladder", "time_range": {"end": "2020-01-01T00:00Z"}, "now": 1_700_000_000}
    assert client.post(user_path("mira", "/recall"), json=past).json()["links"] == []
    too_long = {"question": "ladder", "max_tokens": 10_000_000}
    assert client.post(user_path("mira", "/recall"), json=too_long).status_code == 422


def test_an_answer_whole_and_streamed(tmp_path: Path) -> None:
    """An answer comes whole, or as events: the evidence, the pieces, the whole answer."""
    with (
        scripted_model("Oleg held it [1]", "Oleg held it [1]") as (model, _),
        application(tmp_path, model=model) as client,
    ):
        add_spoken(client)
        whole = client.post(user_path("mira", "/answer"), json={"question": "Who held the ladder?"}).json()
        assert whole["answer"] == "Oleg held it [1]"
        assert whole["citations"] == [whole["evidence"]["links"][0]["turn"]["turn_id"]]
        answer = client.post(
            user_path("mira", "/answer"),
            json={"question": "Who held the ladder?"},
            headers={"Accept": "text/event-stream"},
        )
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [
            (event.partition("\n")[0], json.loads(event.partition("data: ")[2]))
            for event in answer.text.strip().split("\n\n")
        ]
        assert [name for name, _ in events] == [
            "event: evidence",
            *["event: piece"] * (len(events) - 2),
            "event: answer",
        ]
        assert (
            "".join(data["text"] for name, data in events if name == "event: piece").strip()
            == "Oleg held it [1]"
        )
        assert events[-1][1]["citations"] == whole["citations"]
        assert 'scrubjay_model_tokens_total{direction="input",stage="answer"}' in client.get("/metrics").text


def test_an_answer_that_fails(tmp_path: Path) -> None:
    """Where the model fails that is a problem, told as an event where the answer had begun."""
    with scripted_model("", "", "") as (model, _), application(tmp_path, model=model) as client:
        add_spoken(client)
        answer = client.post(user_path("mira", "/answer"), json={"question": "Who held the ladder?"})
        assert (answer.status_code, answer.json()["code"]) == (502, "model_reply")
        (spent,) = answer.json()["usage"]
        assert (spent["stage"], spent["calls"] > 0) == ("answer", True)
        counted = f'scrubjay_model_tokens_total{{direction="input",stage="answer"}} {spent["input_tokens"]}'
        assert counted in client.get("/metrics").text
        model.close()
        answer = client.post(
            user_path("mira", "/answer"),
            json={"question": "Who held the ladder?"},
            headers={"Accept": "text/event-stream"},
        )
        assert answer.text.rpartition("event: ")[2].startswith("problem\n")
        assert '"code": "model_closed"' in answer.text


@pytest.mark.parametrize(("rest", "body"), [("/answer", {"question": "Who?"}), ("/consolidate", {})])
def test_without_a_model(client: TestClient, rest: str, body: dict[str, str]) -> None:
    """What needs a model says at once that there is none."""
    add_spoken(client)
    answer = client.post(user_path("mira", rest), json=body)
    assert (answer.status_code, answer.json()["code"]) == (501, "settings_error")


# --- consolidating ---


def wait_for_end(client: TestClient, where: str) -> dict[str, object]:
    wait_until(lambda: client.get(where).json()["state"] != "running")
    operation: dict[str, object] = client.get(where).json()
    return operation


def test_a_consolidation_is_an_operation(tmp_path: Path) -> None:
    """Consolidating answers at once with an operation, whose report says in the end what was done; one at a time."""
    may_end = threading.Event()
    scribe = Scribe(before=lambda _request: may_end.wait(PATIENCE))
    with application(tmp_path, model=scribe, memory_settings=EAGER) as client:
        add_spoken(client)
        plan = client.post(user_path("mira", "/consolidate"), json={"dry_run": True, "flush": True})
        assert (plan.status_code, plan.json()["segments"]) == (200, 3)
        begun = client.post(
            user_path("mira", "/consolidate"), json={"flush": True, "limits": {"most_segments": 2}}
        )
        assert begun.status_code == 202
        again = client.post(user_path("mira", "/consolidate"), json={})
        assert (again.status_code, again.json()["operation_id"]) == (409, begun.json()["operation_id"])
        may_end.set()
        ended = wait_for_end(client, begun.headers["Location"])
        assert (ended["state"], ended["done"], ended["problem"]) == ("done", 2, None)
        report = ended["report"]
        assert isinstance(report, dict)
        assert (report["encoded"], report["records"]) == (2, 2)
        records = client.get(user_path("mira", "/records"), params={"limit": 1}).json()
        assert (records["records"][0]["text"], records["next"]) == (SPOKEN[0][1], 1)
        rest = client.get(user_path("mira", "/records"), params={"after": 1, "session_id": "kitchen"}).json()
        assert [record["turn_ids"] for record in rest["records"]] == [["kitchen:1"]]
        assert client.get(user_path("mira", "/records"), params={"type": "event"}).json()["records"] == []
        pending = client.get(user_path("mira", "/segments"), params={"state": "pending"}).json()["segments"]
        assert [segment["turn_ids"] for segment in pending] == [["kitchen:2"]]
        assert client.post(user_path("mira", "/segments/retry")).json() == {"retried": 0}
        assert client.get(user_path("mira", "/operations/none")).status_code == 404
        add_spoken(client, "oleg")
        assert client.get(begun.headers["Location"].replace("mira", "oleg")).status_code == 404


def test_an_operation_that_fails(tmp_path: Path) -> None:
    """An operation that failed says why; the next may begin."""
    with scripted_model() as (model, _), application(tmp_path, model=model, memory_settings=EAGER) as client:
        add_spoken(client)
        model.close()
        begun = client.post(user_path("mira", "/consolidate"), json={"flush": True})
        ended = wait_for_end(client, begun.headers["Location"])
        report = ended["report"]
        assert isinstance(report, dict)
        assert report["encoded"] == 0
        assert "closed" in report["stopped"]
        assert client.post(user_path("mira", "/consolidate"), json={}).status_code == 202


def test_old_operations_are_dropped(tmp_path: Path) -> None:
    """Only so many operations that ended are kept."""
    settings = ServerSettings(kept_operations=1)
    with application(tmp_path, model=Scribe(), memory_settings=EAGER, settings=settings) as client:
        places = []
        for _ in range(3):
            add_spoken(client)
            places.append(client.post(user_path("mira", "/consolidate"), json={}).headers["Location"])
            wait_for_end(client, places[-1])
        assert [client.get(place).status_code for place in places] == [404, 404, 200]


# --- keeping ---


def test_forgetting_and_exporting(client: TestClient, tmp_path: Path) -> None:
    """What is forgotten is gone, the export has what is left, and is read back without loss."""
    add_spoken(client)
    add_spoken(client, session_id="again")
    report = client.post(user_path("mira", "/forget"), json={"session": "again"}).json()
    assert (report["turns"], report["scrubbed"]) == (3, True)
    assert client.post(user_path("mira", "/forget"), json={"session": "again"}).status_code == 404
    assert client.post(user_path("mira", "/forget"), json={}).status_code == 422
    export = client.get(user_path("mira", "/export"))
    (tmp_path / "out.jsonl").write_text(export.text, encoding="utf-8")
    with Memory(":memory:", embedder=EMBEDDER) as memory, open_memory(tmp_path / "mira.jay") as original:
        memory.import_(tmp_path / "out.jsonl")
        assert [(t.turn_id, t.text, t.said_at) for t in memory.turns()] == [
            (t.turn_id, t.text, t.said_at) for t in original.turns()
        ]
    assert (
        client.post(user_path("mira", "/forget"), json={"before": "2100-01-01T00:00:00Z"}).json()["turns"]
        == 3
    )
    assert client.post(user_path("mira", "/forget"), json={"everything": True}).json()["turns"] == 0


def test_text_that_utf8_cannot_hold(tmp_path: Path) -> None:
    """A turn with a lone surrogate, stored by a program, is served in escapes."""
    with MemoryHome(tmp_path, embedder=EMBEDDER) as home, home.borrow("mira") as memory:
        memory.add({"role": "user", "content": "half \ud83d a bird"}, session_id="s")
    with application(tmp_path) as client:
        answer = client.get(user_path("mira", "/turns"))
        assert json.loads(answer.content)["turns"][0]["text"] == "half \ud83d a bird"
        assert "\\ud83d" in client.get(user_path("mira", "/export")).text


@pytest.mark.parametrize(
    "rest", ["/turns", "/turns/x", "/sessions", "/status", "/records", "/segments", "/export"]
)
def test_a_user_who_is_not_there(client: TestClient, tmp_path: Path, rest: str) -> None:
    """Reading makes nobody a memory, and says that there is none without naming the server's files."""
    answer = client.get(user_path("nobody", rest))
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer.json()["detail"] == "there is no memory of user 'nobody'"
    assert list(tmp_path.iterdir()) == []


# --- health, logs and counts ---


def test_health_and_counts(client: TestClient) -> None:
    """The server says that it is well, and counts by route, without any user's name."""
    add_spoken(client)
    client.post(user_path("mira", "/recall"), json={"question": "ladder"})
    client.get("/nowhere")
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ok"}
    counts = client.get("/metrics").text
    assert (
        'scrubjay_http_requests_total{method="POST",route="/v1/users/{user}/recall",status="200"} 1.0'
        in counts
    )
    assert 'scrubjay_http_requests_total{method="GET",route="other",status="404"} 1.0' in counts
    assert "scrubjay_turns_added_total 3.0" in counts
    assert "mira" not in counts


def test_the_log_has_nobody_s_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each request is a line with its id, route, status and time; words, ids and queries only where asked for."""
    caplog.set_level(logging.INFO, "scrubjay.server")
    for log_content in (False, True):
        caplog.clear()
        with application(tmp_path, settings=ServerSettings(log_content=log_content)) as client:
            add_spoken(client)
            client.get(
                user_path("mira", "/turns"),
                params={"session_id": "bassoon"},
                headers={"X-Request-ID": "my-1"},
            )
            client.post(
                user_path("mira", "/turns"),
                json={"session_id": "s", "turns": [{"role": "user", "bassoon": "?"}]},
            )
        lines = [
            json.loads(JsonLines().format(record))
            for record in caplog.records
            if record.name == "scrubjay.server"
        ]
        assert [line["status"] for line in lines] == [200, 404, 422]
        assert lines[1]["request_id"] == "my-1"
        assert lines[1]["route"] == "/v1/users/{user}/turns"
        assert lines[1]["code"] == "not_found"
        assert ("mira" in json.dumps(lines)) is log_content
        assert ("bassoon" in json.dumps(lines)) is log_content


def test_a_failure_of_the_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A fault of ours is a problem with the request's id; the log says where, and only what is said of files."""
    with application(tmp_path, raises=False) as client:
        add_spoken(client)
        client.app.state.service.home = None  # type: ignore[attr-defined]
        answer = client.get(user_path("mira", "/turns"))
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert answer.json()["request_id"] == answer.headers["X-Request-ID"]
    (tmp_path / "mira.jay").write_bytes(b"no database, but long enough to be taken for one" * 100)
    with application(tmp_path, raises=False) as client:
        answer = client.get(user_path("mira", "/turns"))
        assert answer.status_code == 500
        assert str(tmp_path) not in answer.text
    logged = "\n".join(
        JsonLines().format(record) for record in caplog.records if record.name == "scrubjay.server"
    )
    assert "service.py" in logged
    assert "is not a ScrubJay memory" in logged


def test_what_takes_too_long(tmp_path: Path) -> None:
    """A request that takes longer than the server allows is told so."""
    settings = ServerSettings(model_seconds=0.05, long_threads=1)
    may_end = threading.Event()
    scribe = Scribe(before=lambda _request: may_end.wait(PATIENCE))
    with application(tmp_path, settings=settings, model=scribe, memory_settings=EAGER) as client:
        add_spoken(client)
        client.post(user_path("mira", "/consolidate"), json={"flush": True})  # takes the only thread
        answer = client.post(user_path("mira", "/answer"), json={"question": "Who held the ladder?"})
        may_end.set()
        assert (answer.status_code, answer.json()["code"]) == (504, "too_slow")
