"""A server with more callers than it has room for: who is told to come again, and that nothing of theirs was done."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import httpx2
import pytest
from models import Answer, serve
from servers import add_spoken, listening, user_path
from small_memories import EMBEDDER, PATIENCE, wait_until

from scrubjay.home import MemoryHome
from scrubjay.llm import load_model
from scrubjay.server import ServerSettings, create_app
from scrubjay.server.room import come_again
from scrubjay.settings import ChatSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from scrubjay.llm import ChatModel
    from scrubjay.threads import Threads

ONE_AT_A_TIME = ServerSettings(call_threads=1, waiting_calls=2, long_threads=1, waiting_long=1)
HELD = ("one", "two", "three")
QUESTION = {"question": "Who held the ladder?"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """A server with little room, and what its test holds it by."""

    folder: Path
    port: int
    threads: Threads

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE)

    def recall(self) -> httpx2.Response:
        with self.client() as client:
            return client.post(user_path("mira", "/recall"), json=QUESTION)

    def add(self, turn_id: str) -> httpx2.Response:
        turn = {"role": "user", "content": "said", "id": turn_id}
        with self.client() as client:
            return client.post(user_path("mira", "/turns"), json={"session_id": "s", "turns": [turn]})

    def until_waiting(self, number: int, *, long: bool = False) -> None:
        wait_until(lambda: self.threads.waiting(long=long) == number)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep whoever adds a turn waiting for the memory's file."""
        with closing(sqlite3.connect(self.folder / "mira.jay", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    @contextmanager
    def full(self) -> Iterator[list[Future[httpx2.Response]]]:
        """Have one call run and two wait, until the end of the block; give their answers to come."""
        with ThreadPoolExecutor(3) as pool:
            with self.held():
                calls = [pool.submit(self.add, turn_id) for turn_id in HELD]
                self.until_waiting(2)
                yield calls
            for call in calls:
                assert call.result().status_code == 200


@contextmanager
def served(
    folder: Path, *, settings: ServerSettings = ONE_AT_A_TIME, model: ChatModel | None = None
) -> Iterator[Small]:
    """Serve a small conversation, with room for few."""
    with MemoryHome(folder, embedder=EMBEDDER, model=model) as home:
        app = create_app(home, settings=settings)
        with listening(app) as port:
            small = Small(folder=folder, port=port, threads=app.state.service.threads)
            with small.client() as client:
                add_spoken(client)
            yield small


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    """Give a server where one call runs, and two may wait."""
    with served(tmp_path) as opened:
        yield opened


def assert_busy(answer: httpx2.Response, *, wait: str = "1") -> None:
    assert (answer.status_code, answer.json()["code"]) == (503, "busy")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["Retry-After"] == wait


def test_one_more_than_may_wait(small: Small) -> None:
    """Whoever finds the room full is told to come again; whoever came before gets their answer."""
    with small.full(), small.client() as client:
        assert_busy(small.recall())
        assert_busy(small.add("refused"))
        assert_busy(client.get("/v1/users"))
        assert_busy(client.get(user_path("mira", "/turns")))
        assert_busy(client.post(user_path("mira", "/answer"), json=QUESTION))
    assert small.recall().status_code == 200
    assert small.add("later").status_code == 200
    with small.client() as client:
        kept = {turn["turn_id"] for turn in client.get(user_path("mira", "/turns")).json()["turns"]}
    assert "refused" not in kept
    assert {*HELD, "later"} <= kept


def test_whoever_watches_is_answered(small: Small) -> None:
    """Health and counts are told of a full server too; refusals are counted, and readiness says that it is busy."""
    with small.full(), small.client() as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "busy"})
        assert_busy(small.recall())
        assert_busy(small.recall())
        counts = client.get("/metrics").text
    assert re.search(r'^scrubjay_http_problems_total\{code="busy"\} 2\.0$', counts, re.MULTILINE)
    with small.client() as client:
        assert client.get("/readyz").json() == {"status": "ok"}


def test_many_at_once(tmp_path: Path) -> None:
    """Of many who add at once, so many as there is room for are served: theirs is kept, and nothing of the others'."""
    settings = ServerSettings(call_threads=1, waiting_calls=4)
    with served(tmp_path, settings=settings) as small, ThreadPoolExecutor(40) as pool:
        with small.held():
            adding = {f"t{number}": pool.submit(small.add, f"t{number}") for number in range(40)}
            wait_until(lambda: sum(added.done() for added in adding.values()) == 35)
            small.until_waiting(4)
        answers = {turn_id: added.result() for turn_id, added in adding.items()}
        for answer in answers.values():
            if answer.status_code != 200:
                assert_busy(answer)
        with small.client() as client:
            turns = client.get(user_path("mira", "/turns"), params={"session_id": "s"}).json()["turns"]
    told = {turn_id for turn_id, answer in answers.items() if answer.status_code == 200}
    assert {turn["turn_id"] for turn in turns} == told
    assert len(told) == 5


def test_a_crowd_comes_again_one_by_one() -> None:
    """Of a crowd that is refused at once nobody has to wait for long, and about a hundred come again in each second."""
    again, seconds = 0.0, []
    for _ in range(5_000):
        again = come_again(1_000.0, after=again)
        seconds.append(round(again - 1_000.0))
    assert seconds[:40] == [1] * 40
    assert seconds == sorted(seconds)
    assert {seconds.count(second) for second in range(2, 30)} <= {99, 100, 101}
    assert seconds[-1] == 30
    assert come_again(2_000.0, after=again) == 2_001.0


# --- before anything is read ---


def send(small: Small, *, path: str, kind: str, length: int) -> socket.socket:
    sending = socket.create_connection(("127.0.0.1", small.port), timeout=PATIENCE)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    )
    sending.sendall(head.encode())
    return sending


def test_refused_before_the_body_comes(small: Small) -> None:
    """A refusal doesn't wait for the body."""
    with (
        small.full(),
        closing(send(small, path=user_path("mira", "/turns"), kind="application/json", length=9)) as sending,
    ):
        assert sending.recv(65_536).startswith(b"HTTP/1.1 503")


def test_the_room_fills_while_a_body_comes(small: Small) -> None:
    """Whoever was let in, but whose body comes when the room has filled, is refused before it is read, broken as it is."""
    with closing(send(small, path=user_path("mira", "/turns"), kind="application/json", length=9)) as sending:
        until_under_way(small, 2)
        with small.full():
            sending.sendall(b"{no JSON}")
            assert sending.recv(65_536).startswith(b"HTTP/1.1 503")


def until_under_way(small: Small, number: int) -> None:
    """Wait until so many requests are told as under way, the one that asks among them."""
    told = f"scrubjay_http_requests_under_way {number}.0"
    with small.client() as client:
        wait_until(lambda: told in client.get("/metrics").text)


def test_what_was_let_in_is_not_broken_off(small: Small) -> None:
    """A bulk upload that began while there was room is stored to its end, whoever fills the room meanwhile."""
    lines = [
        json.dumps({"session_id": "bulk", "role": "user", "content": f"line {n}"}) + "\n" for n in range(600)
    ]
    body = "".join(lines).encode()
    path = user_path("oleg", "/turns/bulk")
    with closing(send(small, path=path, kind="application/x-ndjson", length=len(body))) as sending:
        sending.sendall(body[: len(body) // 2])
        until_under_way(small, 2)
        with small.full():
            sending.sendall(body[len(body) // 2 :])
            small.until_waiting(3)
        received = b""
        while not received.endswith(b"}") and (more := sending.recv(65_536)):
            received += more
    assert received.startswith(b"HTTP/1.1 200")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["added"] == 600


class Hold:
    """Keeps a model's answers back until they may come."""

    def __init__(self) -> None:
        self.asked, self.may_reply = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.asked.set()
        assert self.may_reply.wait(PATIENCE)


def test_a_reply_is_remembered_by_a_full_server(tmp_path: Path) -> None:
    """What a model replied through the proxy was paid for: it comes back and is stored, also when the room has filled."""
    hold = Hold()
    said = {"model": "m", "user": "oleg", "messages": [{"role": "user", "content": "Are you there?"}]}
    with serve(Answer(content="Yes.", before=hold)) as upstream:
        settings = replace(ONE_AT_A_TIME, upstream_url=upstream.url)
        with (
            served(tmp_path, settings=settings) as small,
            ThreadPoolExecutor(1) as pool,
            small.client() as client,
        ):
            replied = pool.submit(client.post, "/v1/chat/completions", json=said)
            assert hold.asked.wait(PATIENCE)
            with small.full():
                hold.may_reply.set()
                small.until_waiting(3)
            assert replied.result().status_code == 200
            turns = client.get(user_path("oleg", "/turns")).json()["turns"]
    assert [turn["text"] for turn in turns] == ["Are you there?", "Yes."]


# --- calls of a model ---


def test_answers_have_a_room_of_their_own(tmp_path: Path) -> None:
    """While as many answers wait as may, one more is refused, and a consolidation with it; recalls and turns are not."""
    hold = Hold()
    with (
        serve(*[Answer(content="Oleg [1].", before=hold)] * 2) as upstream,
        closing(load_model(ChatSettings(model="served", base_url=upstream.url))) as model,
        served(tmp_path, model=model) as small,
        ThreadPoolExecutor(2) as pool,
        small.client() as client,
    ):
        path = user_path("mira", "/answer")
        answers = [pool.submit(client.post, path, json=QUESTION) for _ in range(2)]
        small.until_waiting(1, long=True)
        assert_busy(client.post(path, json=QUESTION), wait="10")
        assert_busy(client.post(user_path("mira", "/consolidate"), json={"flush": True}), wait="10")
        assert small.recall().status_code == 200
        assert small.add("meanwhile").status_code == 200
        hold.may_reply.set()
        assert {answer.result().status_code for answer in answers} == {200}


# --- /mcp ---


def test_mcp_has_a_room_of_its_own(tmp_path: Path) -> None:
    """Of tools called over MCP there are so many at a time as there are short calls; one more is told to come again."""
    settings = replace(ONE_AT_A_TIME, waiting_calls=1)
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "remember",
            "arguments": {"session_id": "s", "turns": [{"role": "user", "content": "said"}]},
        },
    }
    headers = {"Accept": "application/json, text/event-stream", "X-ScrubJay-User": "mira"}
    with (
        served(tmp_path, settings=settings) as small,
        ThreadPoolExecutor(2) as pool,
        small.client() as client,
    ):
        with small.held():
            calls = [pool.submit(client.post, "/mcp", json=call, headers=headers) for _ in range(2)]
            until_under_way(small, 3)
            assert_busy(client.post("/mcp", json=call, headers=headers))
            assert client.get("/v1/users").status_code == 200
        assert {answered.result().status_code for answered in calls} == {200}


# --- connections ---

FEW_FILES = """
import resource
from scrubjay.server.listening import allow_files
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 600))
allow_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_as_many_connections_as_the_system_allows() -> None:
    """A process that may open few files, and may ask for more, asks for them."""
    command = [sys.executable, "-c", FEW_FILES]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert ran.stdout == "(600, 600)\n"
