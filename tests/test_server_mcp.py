"""/mcp of the HTTP server: the SDK's client with a home's keys, each for its users and rights."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent, TextResourceContents
from servers import application, listening, running_server
from small_memories import EMBEDDER, PATIENCE

from scrubjay.home import MemoryHome
from scrubjay.server import create_app
from scrubjay.server.keys import KEYS_FILE, KeyRing, Right

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

Given = TypeVar("Given")
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
ASKED = {"question": "Who plays the bassoon?"}


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[KeyRing]:
    """Give the keys of the home at `tmp_path / "home"`, none yet."""
    opened = KeyRing(tmp_path / "home" / KEYS_FILE)
    yield opened
    opened.close()


def talk(
    url: str,
    use: Callable[[Client], Awaitable[Given]],
    *,
    key: str = "",
    user: str = "",
    mode: str = "auto",
) -> Given:
    """Give the SDK's client of a server to a function, and what that gives."""
    named = {"Authorization": f"Bearer {key}", "X-ScrubJay-User": user}
    headers = {name: value for name, value in named.items() if value.removeprefix("Bearer ")}

    async def run() -> Given:
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            with anyio.fail_after(PATIENCE):
                async with Client(
                    streamable_http_client(f"{url}/mcp", http_client=http), mode=mode
                ) as client:
                    return await use(client)

    return anyio.run(run)


def told(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def say_and_ask(client: Client, words: str = "Oleg plays the bassoon.") -> str:
    turns = [{"role": "user", "content": words}]
    stored = await client.call_tool("remember", {"session_id": "stairs", "turns": turns})
    assert not stored.is_error, told(stored)
    return told(await client.call_tool("recall", ASKED))


async def ask(client: Client) -> str:
    return told(await client.call_tool("recall", ASKED))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_server_answers_by_its_keys(tmp_path: Path, ring: KeyRing, mode: str) -> None:
    """The SDK's client with a key remembers and recalls over a real server, each user their own, in both eras."""
    _, mira = ring.add("mira's", right=Right.WRITE, users=["mira"])
    _, team = ring.add("the team's", right=Right.WRITE, users=["team/*"])
    with running_server(tmp_path / "home") as server:
        assert "Oleg plays the bassoon." in talk(server.url, say_and_ask, key=mira, mode=mode)
        nothing = talk(server.url, ask, key=team, user="team/jonas", mode=mode)
        assert "Oleg" not in nothing
        assert "Oleg plays the bassoon." in talk(server.url, ask, key=mira, user="mira", mode=mode)
        answer = httpx2.post(f"{server.url}/mcp", json=LIST, headers=ACCEPT, timeout=PATIENCE)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        logged = [line for line in server.stop() if line["event"] == "request"]
    assert {line["route"] for line in logged if line["status"] == 200} == {"/mcp"}
    assert "bassoon" not in str(logged)
    with MemoryHome(tmp_path / "home") as home:
        assert [turn.text for turn in home.memory("mira").turns()] == ["Oleg plays the bassoon."]


@contextmanager
def serving(folder: Path, ring: KeyRing | None = None) -> Iterator[str]:
    """Serve a folder's memories from a thread, and give the address."""
    with MemoryHome(folder, embedder=EMBEDDER) as home, listening(create_app(home, keys=ring)) as port:
        yield f"http://127.0.0.1:{port}"


def status(url: str, *, key: str = "", **headers: str) -> int:
    named = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx2.post(
        f"{url}/mcp", json=LIST, headers={**ACCEPT, **named, **headers}, timeout=PATIENCE
    ).status_code


def test_a_key_is_for_its_users_and_rights(tmp_path: Path, ring: KeyRing) -> None:
    """What a key isn't for is refused, on the way in or by the tool, and changes nothing."""
    _, reader = ring.add("reader", right=Right.READ)
    _, writer = ring.add("writer", right=Right.WRITE, users=["mira", "jonas"])
    _, admin = ring.add("admin", right=Right.ADMIN, users=["mira"])

    async def add(client: Client) -> str:
        return told(
            await client.call_tool(
                "remember", {"session_id": "s", "turns": [{"role": "user", "content": "x"}]}
            )
        )

    async def forget(client: Client) -> CallToolResult:
        return await client.call_tool("forget", {"everything": True})

    with serving(tmp_path / "home", ring) as url:
        talk(url, say_and_ask, key=writer, user="mira")
        assert "may not write" in talk(url, add, key=reader, user="mira")
        assert "there is no memory" in talk(url, ask, key=reader, user="nobody")
        assert "Oleg plays the bassoon." in talk(url, ask, key=reader, user="mira")
        refused = talk(url, forget, key=writer, user="mira")
        assert (refused.is_error, "may not admin" in told(refused)) == (True, True)
        assert status(url, key=writer) == 422  # for two users: it must say which
        assert status(url, key=writer, **{"X-ScrubJay-User": "oleg"}) == 403
        assert status(url, key=admin, **{"X-ScrubJay-User": "mira/../jonas"}) == 403
        assert not talk(url, forget, key=admin).is_error
    with MemoryHome(tmp_path / "home") as home:
        assert home.users() == ("mira",)
        assert list(home.memory("mira").turns()) == []


@pytest.mark.parametrize("sent", ["", "Bearer", "Bearer x", "Basic {key}", "{key}", "bearer {key}x"])
def test_without_a_valid_key(tmp_path: Path, ring: KeyRing, sent: str) -> None:
    """Whoever sends no valid key is answered 401 with a challenge, before anything of the protocol."""
    _, key = ring.add("any", right=Right.ADMIN)
    with application(tmp_path / "home", keys=ring) as client:
        given = {"Authorization": sent.format(key=key)} if sent else {}
        answer = client.post("/mcp", json=LIST, headers={**ACCEPT, **given, "X-ScrubJay-User": "mira"})
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert answer.json()["code"] == "unauthorized"


def test_a_revoked_key_is_refused_at_once(tmp_path: Path, ring: KeyRing) -> None:
    """A key that is revoked while its client is connected opens nothing from the next call on."""
    key, text = ring.add("mira's", right=Right.WRITE, users=["mira"])

    async def go_on(client: Client) -> None:
        await say_and_ask(client)
        await anyio.to_thread.run_sync(ring.revoke, key.key_id)
        with pytest.raises(MCPError):
            await client.call_tool("recall", ASKED)

    with serving(tmp_path / "home", ring) as url:
        talk(url, go_on, key=text)
        assert status(url, key=text) == 401


def test_without_keys_only_this_machine(tmp_path: Path) -> None:
    """While there is no key programs on this machine are served, who say whose memory; no web page and nobody else is."""
    user = {"X-ScrubJay-User": "mira"}
    with serving(tmp_path / "home") as url:
        assert "Oleg plays the bassoon." in talk(url, say_and_ask, user="mira")
        assert status(url) == 422
        assert status(url, **user, Host="evil.example") == 401
        assert status(url, **user, Origin="https://evil.example") == 401
        assert httpx2.get(f"{url}/mcp", headers=ACCEPT, timeout=PATIENCE).status_code == 405
    with application(tmp_path / "home", address="192.0.2.7") as client:
        assert client.post("/mcp", json=LIST, headers={**ACCEPT, **user}).status_code == 401


def test_calls_at_once_keep_apart(tmp_path: Path, ring: KeyRing) -> None:
    """Calls of many users, interleaved on one server, each see their own memory alone."""
    users = [f"user{number}" for number in range(6)]
    keys = {user: ring.add(user, right=Right.WRITE, users=[user])[1] for user in users}

    async def one(url: str, user: str) -> str:
        headers = {"Authorization": f"Bearer {keys[user]}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            for number in range(3):
                await say_and_ask(client, f"{user} plays the bassoon, time {number}.")
            return await ask(client)

    async def together(url: str) -> dict[str, str]:
        found: dict[str, str] = {}

        async def keep(user: str) -> None:
            found[user] = await one(url, user)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                for user in users:
                    group.start_soon(keep, user)
        return found

    with serving(tmp_path / "home", ring) as url:
        found = anyio.run(together, url)
    for user, text in found.items():
        assert {other for other in users if f"{other} plays" in text} == {user}


def test_errors_name_no_file(tmp_path: Path, ring: KeyRing) -> None:
    """What isn't there, and a memory that is damaged, are told without where the server keeps it."""
    _, key = ring.add("any", right=Right.ADMIN)
    (tmp_path / "home" / "broken.jay").write_bytes(b"no memory" * 1000)

    async def read(client: Client) -> str:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("scrubjay://turns/none")
        return str(caught.value)

    async def sessions(client: Client) -> str:
        result = await client.read_resource("scrubjay://sessions")
        (content,) = result.contents
        assert isinstance(content, TextResourceContents)
        return content.text

    with serving(tmp_path / "home", ring) as url:
        missing = talk(url, read, key=key, user="mira")
        damaged = talk(url, ask, key=key, user="broken")
        assert '"total": 0' in talk(url, sessions, key=key, user="mira")
    assert "'none'" in missing
    assert "can't be used" in damaged
    assert str(tmp_path) not in missing + damaged
