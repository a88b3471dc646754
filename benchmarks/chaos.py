"""Three workers and two servers over one database, killed, stopped and cut off at random while clients add and recall.

    python benchmarks/chaos.py                          5 minutes, 200 memories
    python benchmarks/chaos.py --seconds 12 --memories 12 --calm 3 --lease 2 --rate 10

Each worker and server is a host of its own: a network namespace where those may be made, else a process behind proxies.
In the end everything is mended, the workers finish, and all that was acknowledged is looked for. Exits with 1 where a
turn is lost or there twice, is in two states or none, was encoded twice with both kept, or waits where nobody looks.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import psycopg
from chaos_hosts import open_hosts

from scrubjay import PostgresHome, Settings
from scrubjay.datatypes import SegmentState
from scrubjay.server.keys import KeyRing, Right
from scrubjay.store_settings import PostgresSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chaos_hosts import Hosts

    from scrubjay.memory import Memory

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from postgres_server import PostgresServer, fresh_database
from qa_server import between, serve_play
from scribes import TURN_LINE

SCRUBJAY = (sys.executable, "-c", "from scrubjay.cli import main; main()")
EMBEDDER = "hash:64"
IDLE_SECONDS = 3.0
MARK = re.compile(r" \[([0-9a-f]{32})\]$")
WORDS = (
    "kitchen",
    "ladder",
    "bassoon",
    "harbour",
    "ferry",
    "violin",
    "island",
    "winter",
    "lantern",
    "market",
)
HTTP_OK = 200
PATIENCE = 300.0  # seconds for what is left, once all is calm
SESSION_TURNS = 6  # a client says in one session of a memory, before it begins another


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run."""

    seconds: float
    memories: int
    workers: int
    servers: int
    clients: int
    calm: float  # seconds between two blows, on average
    lease: float
    rate: float  # requests a second, of all clients together
    seed: int


@dataclass(kw_only=True)
class Seen:
    """What the clients and whoever struck saw."""

    told: dict[str, set[str]] = field(default_factory=dict)  # by user: the turns that a server acknowledged
    sent: int = 0  # turns
    recalls: int = 0  # answered
    refused: Counter[str] = field(default_factory=Counter)  # requests that failed, by how
    blows: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


# --- the model ---


class Scribe:
    """Makes a record of each turn, signed by the call; is slow, fails and talks nonsense now and then."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self.is_calm = False
        self.answered: Counter[str] = Counter()  # by the turns of a segment

    def __call__(self, _: str, user: str) -> str:
        with self._lock:
            wait, fate = self._chance.uniform(0.5, 2.0), self._chance.random()
        if not self.is_calm:
            time.sleep(wait)
            if fate < 0.01:
                return "HTTP 503"
            if fate < 0.03:
                return "I would rather not."
        mark = uuid.uuid4().hex
        with self._lock:
            self.answered[between(user, "turns")] += 1
        turns = TURN_LINE.findall(between(user, "turns"))
        records = [
            {"turns": [int(number)], "type": "fact", "text": f"{words} [{mark}]"} for number, words in turns
        ]
        return json.dumps({"records": records, "note": ""})


# --- who works, and is struck ---


@dataclass(kw_only=True)
class Member:
    """A worker or server on a host of its own."""

    kind: str
    host: int
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    is_up: bool = False  # or is meant to be
    started_at: float = 0.0  # by time.monotonic
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        with self.lock, self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
            self.is_up, self.started_at = True, time.monotonic()

    def end(self, number: signal.Signals) -> int:
        """End it by a signal, and give its exit code."""
        with self.lock:
            self.is_up = False
            assert self.process is not None
            self.process.send_signal(number)
            return self.process.wait(PATIENCE)

    def start_again(self) -> bool:
        """Start it where it has ended by itself, as a service manager does; say whether it had."""
        with self.lock:
            has_ended = self.is_up and self.process is not None and self.process.poll() is not None
        if has_ended:
            self.start()
        return has_ended


class Chaos(threading.Thread):
    """Strikes members one after the other for the time of a run, and brings back what it took down."""

    def __init__(self, members: Sequence[Member], hosts: Hosts, plan: Plan, seen: Seen) -> None:
        super().__init__(name="chaos")
        self._members = members
        self._hosts = hosts
        self._plan = plan
        self._seen = seen
        self._chance = random.Random(plan.seed)
        self.faults: list[str] = []

    def run(self) -> None:
        """Cut off a worker, later a server, each for longer than a lease, and strike at random in between."""
        began = time.monotonic()
        cuts = ["worker", "server"]
        while cuts or time.monotonic() - began < self._plan.seconds:
            time.sleep(self._chance.expovariate(1 / self._plan.calm))
            due = self._plan.seconds / 4 * (5 - 2 * len(cuts))  # after a quarter, and three
            if cuts and time.monotonic() - began > due:
                self._cut_off(cuts.pop(0))  # of its kind the one that has been up longest: it is busy
            else:
                self._strike(self._chance.choice(self._members))

    def _cut_off(self, kind: str) -> None:
        member = min((one for one in self._members if one.kind == kind), key=lambda one: one.started_at)
        seconds = 2.5 * self._plan.lease
        self._seen.blows[f"{kind} cut off for {seconds:.0f} s"] += 1
        self._hosts.cut(member.host)
        time.sleep(seconds)
        self._hosts.mend(member.host)

    def _strike(self, member: Member) -> None:
        number = self._chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        self._seen.blows[f"{member.kind} {'killed' if number is signal.SIGKILL else 'stopped'}"] += 1
        code = member.end(number)
        if number is signal.SIGTERM and code not in {0, -signal.SIGTERM}:
            self.faults.append(f"{member.kind} {member.host} ended with {code} when told to stop")
        time.sleep(self._chance.uniform(0.2, self._plan.calm))
        member.start()


@contextmanager
def supervised(members: Sequence[Member], seen: Seen) -> Iterator[None]:
    """Start members again that end by themselves, such as where they were started while cut off."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            for member in members:
                if member.start_again():
                    seen.blows[f"{member.kind} ended by itself"] += 1

    looking = threading.Thread(target=look, name="chaos-supervisor")
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()


# --- who asks ---


class Client(threading.Thread):
    """Adds turns and recalls over any server; a turn is sent until one server acknowledges it."""

    def __init__(self, number: int, urls: Sequence[str], key: str, plan: Plan, seen: Seen) -> None:
        super().__init__(name=f"chaos-client-{number}")
        self._number = number
        self._chance = random.Random(f"{plan.seed} {number}")
        self._clients = [
            httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=5.0)
            for url in urls
        ]
        self._plan = plan
        self._seen = seen
        self._over = threading.Event()
        self._count = 0

    def stop(self) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        pause = self._plan.clients / self._plan.rate
        while not self._over.wait(self._chance.expovariate(1 / pause)):
            user = f"user-{self._chance.randrange(self._plan.memories)}"
            if self._chance.random() < 0.75:
                self._add(user)
            else:
                self._recall(user)
        for client in self._clients:
            client.close()

    def _add(self, user: str) -> None:
        self._count += 1
        turn_id = f"{self._number}-{self._count}"
        words = " ".join(self._chance.choices(WORDS, k=12))
        body = {
            "session_id": f"{self._number} {self._count // SESSION_TURNS}",
            "turns": [{"role": "user", "content": f"{words} {turn_id}", "id": turn_id}],
        }
        with self._seen.lock:
            self._seen.sent += 1
        while not self._post(user, "turns", body):
            if self._over.wait(0.2):
                return  # nobody has acknowledged it: it may be there or not
        with self._seen.lock:
            self._seen.told.setdefault(user, set()).add(turn_id)

    def _recall(self, user: str) -> None:
        question = f"Who spoke of the {self._chance.choice(WORDS)}?"
        if self._post(user, "recall", {"question": question, "max_tokens": 500}):
            with self._seen.lock:
                self._seen.recalls += 1

    def _post(self, user: str, path: str, body: Mapping[str, object]) -> bool:
        try:
            answer = self._chance.choice(self._clients).post(f"/v1/users/{user}/{path}", json=body)
        except httpx2.TransportError as error:
            failed = type(error).__name__
        else:
            if answer.status_code == HTTP_OK or (path == "recall" and answer.status_code == 404):
                return True
            failed = f"HTTP {answer.status_code} {answer.json().get('code', '')}".strip()
        with self._seen.lock:
            self._seen.refused[failed] += 1
        return False


# --- what is there in the end ---


@dataclass(kw_only=True)
class Found:
    """What all memories hold, and what is wrong with it."""

    turns: int = 0
    states: Counter[str] = field(default_factory=Counter)  # of turns
    segments: Counter[SegmentState] = field(default_factory=Counter)
    records: int = 0
    faults: list[str] = field(default_factory=list)


def examine(dsn: str, seen: Seen) -> Found:
    """Look at every memory, and at the queue."""
    found = Found()
    with PostgresHome(dsn, settings=Settings(postgres=PostgresSettings(partitions=4))) as home:
        for user in home.users():
            with home.borrow(user) as memory:
                examine_memory(memory, user, seen.told.pop(user, set()), found)
    found.faults += [f"{user}: there is no such memory" for user in seen.told]
    with psycopg.connect(dsn) as connection:
        (waiting,) = connection.execute(
            "SELECT count(*) FROM scrubjay.work WHERE encode_at IS NOT NULL"
        ).fetchone() or (0,)
    if waiting:
        found.faults.append(f"{waiting} memories wait for a worker, and have nothing to encode")
    return found


def examine_memory(memory: Memory, user: str, told: set[str], found: Found) -> None:
    there = Counter(turn.turn_id for turn in memory.turns())
    lost, twice = told - set(there), [turn_id for turn_id, count in there.items() if count > 1]
    in_segments: Counter[str] = Counter()
    calls: dict[str, Counter[str]] = {}  # of a turn: the calls that made records of it
    for record in memory.records.records():
        mark = MARK.search(record.text)
        for turn_id in record.turn_ids:
            calls.setdefault(turn_id, Counter())[mark[1] if mark else ""] += 1
    wrong: list[str] = [str(fault) for fault in memory.doctor()]
    for segment in memory.segments.segments():
        in_segments.update(segment.turn_ids)
        found.segments[segment.state] += 1
        made = [calls.get(turn_id, Counter()) for turn_id in segment.turn_ids]
        if segment.state is SegmentState.ENCODED:
            if {sum(of_turn.values()) for of_turn in made} != {1} or len(set().union(*made)) != 1:
                wrong.append(f"segment {segment.segment_row} has the records of {made}")
        elif any(made):
            wrong.append(f"segment {segment.segment_row} is {segment.state} and has records")
    wrong += [f"lost: {sorted(lost)}"] if lost else []
    wrong += [f"there twice: {twice}"] if twice else []
    wrong += (
        [f"in several segments: {more}"] if (more := [t for t, c in in_segments.items() if c > 1]) else []
    )
    turns = memory.segments.progress().turns
    if (turns.total, turns.total - turns.open) != (there.total(), in_segments.total()):
        wrong.append(
            f"{there.total()} turns, {in_segments.total()} of them in segments, are counted as {turns}"
        )
    if turns.open or turns.pending:
        wrong.append(f"left over: {turns}")
    found.turns += there.total()
    found.records += sum(of_turn.total() for of_turn in calls.values())
    found.states.update(open=turns.open, pending=turns.pending, encoded=turns.encoded, failed=turns.failed)
    found.faults += [f"{user}: {fault}" for fault in wrong]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run went, beside what was seen and found."""

    hosts: str
    told: int  # turns acknowledged
    calls: int  # of the model
    again: int  # calls that answered what another had answered
    seconds: float  # until all was done, once calm


# --- the run ---


def free_port(address: str) -> int:
    with socket.create_server((address, 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


@contextmanager
def database(hosts: Hosts) -> Iterator[tuple[str, int, str]]:
    """Give the DSN of a new database, as seen from here, its server's port, and its name."""
    port = free_port(hosts.common)
    os.environ["PGPORT"] = str(port)
    server = PostgresServer(listen_addresses=hosts.common, port=str(port), fsync="on", max_connections="200")
    try:
        with (server.folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\n")
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
        with fresh_database(server.dsn()) as dsn:
            PostgresHome(dsn, settings=Settings(postgres=PostgresSettings(partitions=4))).close()
            yield dsn, port, str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
    finally:
        server.remove()


def make_members(plan: Plan, hosts: Hosts, folder: Path, reached: tuple[int, str, int]) -> list[Member]:
    """Give the workers, then the servers, none of them started; `reached`: the database's port and name, the model's port."""
    database_port, name, model_port = reached
    members = []
    for host in range(plan.workers + plan.servers):
        at, port = hosts.reach(host, database_port)
        dsn = f"postgresql://postgres@{at}:{port}/{name}"
        if host < plan.workers:
            at, port = hosts.reach(host, model_port)
            url = f"http://{at}:{port}/v1"
            given = ["worker", "--dsn", dsn, "--model", "openai:scripted", "--base-url", url]
            given += ["--idle", str(IDLE_SECONDS / 60), "--lease-seconds", str(plan.lease)]
        else:
            address = hosts.address(host)
            given = ["serve", "--dsn", dsn, "--keys", str(folder / "keys.db"), "--embedder", EMBEDDER]
            given += ["--rate", "", "--host", address, "--port", str(free_port(hosts.common))]
        kind = "worker" if host < plan.workers else "server"
        command = hosts.command(host, [*SCRUBJAY, *given])
        log = folder / f"{kind}{host}.log"
        members.append(Member(kind=kind, host=host, command=command, log=log))
    return members


def wait_until_ready(urls: Sequence[str], workers: Sequence[Member]) -> None:
    give_up = time.monotonic() + PATIENCE
    for worker in workers:
        while "started" not in worker.log.read_text() and time.monotonic() < give_up:
            time.sleep(0.1)
    for url in urls:
        while time.monotonic() < give_up:
            try:
                httpx2.get(f"{url}/readyz", timeout=5.0)
            except httpx2.TransportError:
                time.sleep(0.1)
            else:
                break


def finish_work(dsn: str) -> float:
    """Wait until no memory has anything to do any more; give how long that took."""
    began = time.monotonic()
    with psycopg.connect(dsn, autocommit=True) as connection:
        while time.monotonic() - began < PATIENCE:
            row = connection.execute("SELECT count(*) FROM scrubjay.work").fetchone()
            if row == (0,):
                break
            time.sleep(0.2)
    return time.monotonic() - began


def run(plan: Plan, folder: Path, kind: str) -> int:
    """Give how many faults were found."""
    seen, scribe = Seen(), Scribe(plan.seed)
    with ExitStack() as opened:
        hosts = open_hosts(plan.workers + plan.servers, kind=kind)
        opened.callback(hosts.close)
        dsn, port, name = opened.enter_context(database(hosts))
        model = opened.enter_context(serve_play(scribe, host=hosts.common))
        _, key = KeyRing(folder / "keys.db").add("chaos", right=Right.WRITE)
        members = make_members(plan, hosts, folder, (port, name, model.server_port))
        opened.callback(lambda: [one.end(signal.SIGKILL) for one in members if one.process])
        for member in members:
            member.start()
        urls = [server_url(member, hosts) for member in members[plan.workers :]]
        wait_until_ready(urls, members[: plan.workers])
        chaos = Chaos(members, hosts, plan, seen)
        clients = [Client(number, urls, key, plan, seen) for number in range(plan.clients)]
        opened.enter_context(supervised(members, seen))
        for client in clients:
            client.start()
        time.sleep(2 * IDLE_SECONDS)  # until there are segments to encode
        chaos.start()
        chaos.join()
        for client in clients:
            client.stop()
        scribe.is_calm = True
        told, took = sum(map(len, seen.told.values())), finish_work(dsn)
        again = scribe.answered.total() - len(scribe.answered)
        outcome = Outcome(hosts=hosts.kind, told=told, calls=len(model.asked), again=again, seconds=took)
        found = examine(dsn, seen)
    found.faults += chaos.faults
    print_table(plan, seen, found, outcome)
    if found.faults:
        for member in members:
            print(f"--- {member.kind} {member.host}\n{member.log.read_text()[-3_000:]}", file=sys.stderr)
    return len(found.faults)


def server_url(member: Member, hosts: Hosts) -> str:
    port = int(member.command[-1])
    at, port = hosts.call(member.host, port)
    return f"http://{at}:{port}"


def print_table(plan: Plan, seen: Seen, found: Found, outcome: Outcome) -> None:
    blows = ", ".join(f"{count} × {blow}" for blow, count in sorted(seen.blows.items()))
    refused = ", ".join(f"{count} × {how}" for how, count in sorted(seen.refused.items()))
    states = ", ".join(f"{count} {state}" for state, count in found.states.items())
    rows = (
        ("hosts", f"{plan.workers} workers, {plan.servers} servers: {outcome.hosts}"),
        ("struck", blows or "nothing"),
        ("turns sent, acknowledged, there", f"{seen.sent}, {outcome.told}, {found.turns}"),
        ("their states", states),
        ("recalls answered", str(seen.recalls)),
        ("requests that failed", refused or "none"),
        ("segments", ", ".join(f"{count} {state}" for state, count in found.segments.items())),
        ("calls of the model", f"{outcome.calls}, of which {outcome.again} encoded a segment again"),
        ("until all was done, once calm", f"{outcome.seconds:.0f} s"),
        ("violations", str(len(found.faults))),
    )
    for name, value in rows:
        print(f"| {name} | {value} |")
    for fault in found.faults[:50]:
        print(f"VIOLATION: {fault}")


def main() -> int:
    """Run it; exit 1 where anything is lost, there twice or left over."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--memories", type=int, default=200)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--calm", type=float, default=4, help="seconds between two blows, on average")
    parser.add_argument("--lease", type=float, default=6, help="seconds")
    parser.add_argument("--rate", type=float, default=12, help="requests a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", choices=("auto", "namespaces", "processes"), default="auto")
    given = vars(parser.parse_args())
    kind = given.pop("hosts")
    with tempfile.TemporaryDirectory() as folder:
        return 1 if run(Plan(**given), Path(folder), kind) else 0


if __name__ == "__main__":
    sys.exit(main())
