"""Keys: made once, kept as hashes, held to their rights and users; without them only this machine is answered."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from servers import add_spoken, application, user_path
from small_memories import EMBEDDER, PATIENCE, run_python

from scrubjay.addresses import is_loopback
from scrubjay.errors import InputError, NotFoundError
from scrubjay.server import ServerSettings
from scrubjay.server.keys import KEYS_FILE, KeyRing, Right

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[KeyRing]:
    """Give a ring without keys."""
    opened = KeyRing(tmp_path / "home" / KEYS_FILE)
    yield opened
    opened.close()


def test_a_key_is_found_by_its_text_alone(ring: KeyRing) -> None:
    """A key is found by its whole text, until it is revoked; no other text finds one."""
    assert not ring.has_keys
    assert ring.find(f"sj_{'0' * 12}_{'x' * 43}") is None
    key, text = ring.add("laptop", right=Right.READ, users=["alice", "team/*"])
    other, _ = ring.add("phone", right=Right.ADMIN)
    assert ring.find(text) == key
    assert ring.keys() == (key, other)
    secret = text.rpartition("_")[2]
    for wrong in (
        "",
        text[:-1],
        text + "x",
        text.upper(),
        f"sj_{other.key_id}_{text[-43:]}",
        f" {text}",
        secret,
        f"{text}\n",
    ):
        assert ring.find(wrong) is None, wrong
    assert ring.revoke(key.key_id).revoked_at is not None
    assert ring.find(text) is None
    assert ring.has_keys
    for use in (ring.key, ring.revoke):
        with pytest.raises(NotFoundError):
            use("none")


def test_the_secret_is_not_kept(ring: KeyRing) -> None:
    """Neither the key nor its secret part is in the file, which nobody else may read."""
    _, text = ring.add("laptop", right=Right.READ)
    kept = b"".join(path.read_bytes() for path in ring.path.parent.iterdir())
    assert text.encode() not in kept
    assert text.split("_", 2)[2].encode() not in kept
    assert stat.S_IMODE(ring.path.stat().st_mode) == 0o600
    assert [path.name for path in ring.path.parent.iterdir()] == [KEYS_FILE]


@pytest.mark.parametrize(
    ("pattern", "covered", "others"),
    [
        ("alice", ["alice"], ["Alice", "alice2", "", "a"]),
        ("*", ["alice", "", "a/b", "a\nb"], []),
        ("team-a/*", ["team-a/x", "team-a/"], ["team-b/x", "team-a", "x/team-a/"]),
        ("[*]", ["*"], ["alice"]),
        ("?", ["é"], ["ab"]),
    ],
)
def test_patterns_of_users(ring: KeyRing, pattern: str, covered: list[str], others: list[str]) -> None:
    """A key covers the users that one of its patterns matches whole, and no others."""
    key, _ = ring.add("k", right=Right.READ, users=["nobody", pattern])
    assert all(key.covers(user_id) for user_id in covered)
    assert not any(key.covers(user_id) for user_id in others)


def test_rights_hold_those_before(ring: KeyRing) -> None:
    """Who may write may read, who may forget may do both, and not the other way."""
    allowed = {
        right: [wanted for wanted in Right if ring.add("k", right=right)[0].allows(wanted)] for right in Right
    }
    assert allowed == {
        Right.READ: ["read"],
        Right.WRITE: ["read", "write"],
        Right.ADMIN: ["read", "write", "admin"],
    }
    for name, users in (("", ["*"]), ("k", []), ("k", [""])):
        with pytest.raises(InputError):
            ring.add(name, right=Right.READ, users=users)


def test_keys_made_at_once(ring: KeyRing) -> None:
    """Keys made by several at the same time, the file among them, are all there."""

    def add(number: int) -> str:
        other = KeyRing(ring.path)
        try:
            return other.add(f"k{number}", right=Right.READ)[1]
        finally:
            other.close()

    with ThreadPoolExecutor(6) as pool:
        texts = list(pool.map(add, range(24)))
    assert all(ring.find(text) for text in texts)
    assert len(ring.keys()) == 24


# --- at the gate ---


def test_a_key_opens_what_it_is_for(ring: KeyRing, tmp_path: Path) -> None:
    """Another user's memory, a higher right, a revoked or a missing key: each is refused, and tells nothing."""
    texts = {right: ring.add(right, right=right, users=["alice", "a/*"])[1] for right in Right}
    with application(tmp_path, keys=ring, key=ring.add("all", right=Right.ADMIN)[1]) as everybody:
        for user_id in ("alice", "bob", "a/b"):
            add_spoken(everybody, user_id)
        assert everybody.get("/v1/users").json()["users"] == ["a/b", "alice", "bob"]

    def use(key: str, method: str, path: str, body: object = None) -> int:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return client.request(method, path, json=body, headers=headers).status_code

    turn = {"session_id": "s", "turns": [{"role": "user", "content": "hello"}]}
    with application(tmp_path, keys=ring) as client:
        calls: list[tuple[Right, str, str, object]] = [
            (Right.READ, "POST", "/recall", {"question": "ladder"}),
            (Right.READ, "GET", "/turns", None),
            (Right.READ, "GET", "/export", None),
            (Right.WRITE, "POST", "/turns", turn),
            (Right.WRITE, "POST", "/segments/retry", None),
            (Right.ADMIN, "POST", "/forget", {"session": "s"}),
            (Right.ADMIN, "DELETE", "", None),
        ]
        for needed, method, rest, body in calls:
            assert use("", method, user_path("alice", rest), body) == 401
            for right, text in texts.items():
                allowed = list(Right).index(right) >= list(Right).index(needed)
                assert (use(text, method, user_path("a/b", rest), body) == 200) is allowed, (right, rest)
                assert use(text, method, user_path("bob", rest), body) == 403
                assert use(text, method, user_path("nobody", rest), body) == 403
        listed = client.get("/v1/users", headers={"Authorization": f"Bearer {texts[Right.READ]}"})
        assert listed.json()["users"] == ["alice"]
        ring.revoke(texts[Right.READ].split("_")[1])
        assert use(texts[Right.READ], "GET", "/v1/users") == 401
        assert use("", "GET", "/metrics") == 401
        assert use("", "GET", "/healthz") == 200


def test_how_a_key_is_sent(ring: KeyRing, tmp_path: Path) -> None:
    """A key comes as one Bearer token, and in no other way."""
    _, text = ring.add("k", right=Right.READ)
    with application(tmp_path, keys=ring) as client:
        for sent, status in (
            ([f"Bearer {text}"], 200),
            ([f"bearer {text}"], 200),
            ([f"Basic {text}"], 401),
            ([text], 401),
            ([f"Bearer {text}", f"Bearer {text}"], 401),
            ([f"Bearer {text}, Bearer x"], 401),
            (["Bearer "], 401),
        ):
            answer = client.get("/v1/users", headers=[("Authorization", one) for one in sent])
            assert answer.status_code == status, sent
        refused = client.get(f"/v1/users?key={text}")
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {"Host": "[::1]:8420"}, 200),
        ("127.0.0.1", {"Authorization": "Bearer anything"}, 200),
        ("10.0.0.7", {}, 401),
        ("testclient", {}, 401),
        ("127.0.0.1", {"Host": "evil.example"}, 401),
        ("127.0.0.1", {"Host": "localhost.evil.example"}, 401),
        ("127.0.0.1", {"Host": ""}, 401),
        ("127.0.0.1", {"Origin": "https://evil.example"}, 401),
        ("127.0.0.1", {"Origin": "null"}, 401),
        ("127.0.0.1", {"Origin": "http://localhost:8420"}, 200),
    ],
)
def test_without_keys(
    tmp_path: Path, ring: KeyRing, address: str, headers: dict[str, str], status: int
) -> None:
    """While there is no key only programs on this machine are answered: no other machine, no foreign web page."""
    for keys in (None, ring):
        with application(tmp_path, keys=keys, address=address) as client:
            assert client.get("/v1/users", headers=headers).status_code == status


def test_the_first_key_closes_the_door(tmp_path: Path, ring: KeyRing) -> None:
    """From the first key on, made while the server runs, nobody comes in without one; not even once it is revoked."""
    with application(tmp_path, keys=ring) as client:
        assert client.get("/v1/users").status_code == 200
        other = KeyRing(ring.path)
        key, text = other.add("first", right=Right.READ)
        other.close()
        assert client.get("/v1/users").status_code == 401
        assert client.get("/v1/users", headers={"Authorization": f"Bearer {text}"}).status_code == 200
        ring.revoke(key.key_id)
        assert client.get("/v1/users").status_code == 401


def test_too_many_requests(tmp_path: Path, ring: KeyRing) -> None:
    """A key that asks too often is told when to come again; another isn't held up by it."""
    texts = [ring.add(name, right=Right.READ)[1] for name in ("eager", "other")]
    with application(tmp_path, keys=ring, settings=ServerSettings(rate="5/hour")) as client:
        answers = [client.get("/v1/users", headers={"Authorization": f"Bearer {texts[0]}"}) for _ in range(7)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert answers[-1].json()["code"] == "too_many_requests"
        assert client.get("/v1/users", headers={"Authorization": f"Bearer {texts[1]}"}).status_code == 200
        assert client.get("/healthz").status_code == 200
    with application(tmp_path, settings=ServerSettings(rate="")) as client:
        assert {client.get("/healthz").status_code for _ in range(10)} == {200}


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.168.1.5", False),
        ("example.org", False),
    ],
)
def test_which_addresses_are_this_machine(*, host: str, loopback: bool) -> None:
    """Only loopback counts as this machine; whatever can't be told counts as reachable by others."""
    assert is_loopback(host) is loopback


# --- the commands ---


def scrubjay(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python("from scrubjay.cli import main; main()", *arguments, check=False)


def test_the_commands_for_keys(tmp_path: Path) -> None:
    """A key is shown once when it is made, listed without its secret, and revoked."""
    home = ["--home", str(tmp_path)]
    made = scrubjay("keys", "add", "laptop", *home, "--right", "read", "--user", "alice", "--user", "team/*")
    text = made.stdout.strip()
    with_json = json.loads(scrubjay("keys", "add", "phone", *home, "--json").stdout)
    assert with_json["right"] == "write"
    assert with_json["users"] == ["*"]
    listed = json.loads(scrubjay("keys", "list", *home, "--json").stdout)
    assert [key["name"] for key in listed] == ["laptop", "phone"]
    assert listed[0]["users"] == ["alice", "team/*"]
    shown = scrubjay("keys", "list", "--keys", str(tmp_path / KEYS_FILE)).stdout
    assert "laptop" in shown
    assert text.split("_")[2] not in shown
    assert scrubjay("keys", "revoke", listed[0]["key_id"], *home).returncode == 0
    ring = KeyRing(tmp_path / KEYS_FILE)
    assert ring.find(text) is None
    assert ring.find(with_json["key"]) is not None
    ring.close()
    assert scrubjay("keys", "revoke", "none", *home).returncode == 1
    assert scrubjay("keys", "list").returncode == 2


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_a_public_address_needs_a_key(tmp_path: Path, host: str) -> None:
    """On an address that others can reach the server doesn't start without a key, and says how to make one."""
    refused = scrubjay("serve", "--home", str(tmp_path), "--host", host, "--embedder", EMBEDDER)
    assert refused.returncode == 2
    assert "scrubjay keys add" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_serve_says_what_is_missing(tmp_path: Path) -> None:
    """Without a home, or without the packages of the extra, the command says what to do."""
    assert "--home" in scrubjay("serve").stderr
    wrong = scrubjay("serve", "--home", str(tmp_path), "--rate", "often")
    assert (wrong.returncode, "100/minute" in wrong.stderr) == (2, True)
    code = "import sys; sys.modules['fastapi'] = None\nfrom scrubjay.cli import main; main()"
    missing = subprocess.run(
        [sys.executable, "-c", code, "serve", "--home", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (missing.returncode, 'pip install "scrubjay[server]"' in missing.stderr) == (1, True)
