"""Load a server on loopback: users who ask and add at once; what it takes, and that no turn is lost, also when it is killed.

python benchmarks/server_load.py            60 s at a paced rate, then 15 s as fast as it goes, then killed in the middle
python benchmarks/server_load.py --seconds 5 --users 20 --connections 8
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

from scrubjay.home import MemoryHome

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
WORDS = (
    "kitchen ladder bassoon harbour ferry bicycle violin neighbour pistachio island winter lantern orchard market "
    "letter garden piano kettle mountain river station engine bakery museum window curtain pepper saffron"
)
TURNS_BEFORE = 200  # of each user, before the load begins
ALONE = 200  # recalls by one user, to compare with
GRACE = 10.0  # seconds for a request
RECALLS = 0.8  # share of the requests


@dataclass(kw_only=True)
class Load:
    """What one run saw."""

    recalls: list[float] = field(default_factory=list)  # milliseconds
    adds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    told: set[tuple[str, str]] = field(default_factory=set)  # user and turn id that the server acknowledged
    memory_mib: list[float] = field(default_factory=list)

    def describe(self, name: str, seconds: float) -> str:
        count = len(self.recalls) + len(self.adds)
        return (
            f"{name}: {count} requests in {seconds:.0f} s ({count / seconds:.0f}/s), {len(self.errors)} errors; recall p50 "
            f"{share(self.recalls, 0.5):.1f} p95 {share(self.recalls, 0.95):.1f} ms, add p50 {share(self.adds, 0.5):.1f} "
            f"p95 {share(self.adds, 0.95):.1f} ms; memory {self.memory_mib[0]:.0f} to {self.memory_mib[-1]:.0f} MiB"
        )


def share(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else float("nan")


@contextmanager
def server(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `scrubjay serve` on a free port; give its process and address."""
    code = "from scrubjay.cli import main; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "serve",
        "--home",
        str(folder),
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


def resident_mib(process: subprocess.Popen[str]) -> float:
    """Give the memory a process holds; 0 where the system doesn't say."""
    status = Path(f"/proc/{process.pid}/status")
    found = re.search(r"VmRSS:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else 0.0


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS.split(), k=12))


def fill(folder: Path, users: int) -> None:
    chance = random.Random(0)
    with MemoryHome(folder) as home:
        for number in range(users):
            with home.borrow(f"user {number}") as memory:
                turns = [{"role": "user", "content": sentence(chance)} for _ in range(TURNS_BEFORE)]
                memory.add(turns, session_id="before")


class Connection:
    """One of the connections: asks and adds, one request after the other."""

    def __init__(self, client: httpx2.AsyncClient, load: Load, *, seed: int, users: int) -> None:
        self._client = client
        self._load = load
        self._chance = random.Random(seed)
        self._seed = seed
        self._users = users
        self._count = 0

    async def recall(self, user: str) -> None:
        body = {"question": f"Who spoke of the {sentence(self._chance)}?", "max_tokens": 1_000}
        started = time.perf_counter()
        answer = await self._client.post(f"/v1/users/{user}/recall", json=body)
        self._load.recalls.append((time.perf_counter() - started) * 1_000)
        if answer.status_code != httpx2.codes.OK:
            self._load.errors.append(answer.text)

    async def add(self, user: str) -> None:
        self._count += 1
        turn_id = f"{self._seed}-{self._count}"
        body = {
            "session_id": "now",
            "turns": [{"role": "user", "content": sentence(self._chance), "id": turn_id}],
        }
        started = time.perf_counter()
        answer = await self._client.post(f"/v1/users/{user}/turns", json=body)
        self._load.adds.append((time.perf_counter() - started) * 1_000)
        if answer.status_code == httpx2.codes.OK:
            self._load.told.add((user, turn_id))
        else:
            self._load.errors.append(answer.text)

    async def work(self, *, until: float, pause: float) -> None:
        """Ask and add until a time; with a pause, at random moments that come so far apart on average."""
        while time.monotonic() < until:
            if pause:
                await asyncio.sleep(self._chance.expovariate(1 / pause))
            user = f"user%20{self._chance.randrange(self._users)}"
            await (self.recall(user) if self._chance.random() < RECALLS else self.add(user))


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
    until = time.monotonic() + seconds
    async with httpx2.AsyncClient(
        base_url=url, timeout=GRACE, limits=httpx2.Limits(max_connections=plan.connections)
    ) as client:
        working = [
            asyncio.create_task(
                Connection(client, load, seed=time.time_ns() + n, users=plan.users).work(
                    until=until, pause=pause
                )
            )
            for n in range(plan.connections)
        ]
        watching = asyncio.create_task(watch(process, load))
        if kill:
            await asyncio.sleep(seconds / 2)
            process.kill()
        ended = await asyncio.gather(*working, return_exceptions=kill)
        watching.cancel()
        faults = [fault for fault in ended if isinstance(fault, BaseException)]
        if any(not isinstance(fault, httpx2.TransportError) for fault in faults):
            raise ExceptionGroup("load", [fault for fault in faults if isinstance(fault, Exception)])
    return load


async def watch(process: subprocess.Popen[str], load: Load) -> None:
    while True:
        load.memory_mib.append(resident_mib(process))
        await asyncio.sleep(1)


async def ask_alone(url: str, plan: argparse.Namespace) -> Load:
    """Have every memory opened, then one question asked after the other."""
    load = Load()
    async with httpx2.AsyncClient(base_url=url, timeout=GRACE) as client:
        connection = Connection(client, load, seed=1, users=plan.users)
        for number in range(plan.users):
            await connection.recall(f"user%20{number}")
        load.recalls.clear()  # these read the memories from disk
        for number in range(ALONE):
            await connection.recall(f"user%20{number % plan.users}")
    return load


def count_lost(folder: Path, told: set[tuple[str, str]]) -> int:
    """Count turns that the server acknowledged and that aren't there."""
    kept: set[tuple[str, str]] = set()
    with MemoryHome(folder) as home:
        for user_id in home.users():
            with home.borrow(user_id) as memory:
                kept |= {(user_id.replace(" ", "%20"), turn.turn_id) for turn in memory.turns()}
    return len(told - kept)


def main() -> int:
    """Run all; exit 1 where a turn was lost or a request failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rate", type=float, default=60, help="requests a second of the paced run")
    plan = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, plan.users)
        return 1 if measure(folder, plan) else 0


def measure(folder: Path, plan: argparse.Namespace) -> int:
    """Give how many requests failed and turns were lost."""
    quick, pause = plan.seconds / 4, plan.connections / plan.rate
    with server(folder, "--max-open", str(plan.users)) as (process, url):
        alone = asyncio.run(ask_alone(url, plan))
        paced = asyncio.run(run_load(process, url, plan, seconds=plan.seconds, pause=pause))
        fast = asyncio.run(run_load(process, url, plan, seconds=quick, pause=0))
    with server(folder, "--max-open", str(plan.users)) as (process, url):
        killed = asyncio.run(run_load(process, url, plan, seconds=quick, pause=0, kill=True))
    single = share(alone.recalls, 0.5)
    print(f"one user alone: recall p50 {single:.1f} p95 {share(alone.recalls, 0.95):.1f} ms")
    print(paced.describe(f"{plan.connections} connections at {plan.rate:.0f}/s", plan.seconds))
    print(f"  p95 of recall: {share(paced.recalls, 0.95) / single:.1f} times the p50 of one user alone")
    print(fast.describe(f"{plan.connections} connections, as fast as it goes", quick))
    print(f"  p95 of recall: {share(fast.recalls, 0.95) / single:.1f} times the p50 of one user alone")
    told = paced.told | fast.told | killed.told
    lost = count_lost(folder, told)
    print(f"{len(told)} turns acknowledged, {len(killed.told)} of them before the kill: {lost} lost")
    return lost + len(paced.errors) + len(fast.errors)


if __name__ == "__main__":
    sys.exit(main())
