"""What the routes share: the home, threads, keys and counts of one server, and who is asking."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import httpx2
from fastapi import Depends, FastAPI, Path, Request
from fastapi.security import HTTPBearer

from scrubjay.async_memory import AsyncMemory
from scrubjay.home import Home
from scrubjay.server.crew import Crew
from scrubjay.server.keys import ApiKey, KeyRing, Right
from scrubjay.server.metrics import Metrics
from scrubjay.server.operations import Operations
from scrubjay.server.problems import ProblemError
from scrubjay.server.settings import ServerSettings
from scrubjay.threads import Threads

BEARER = HTTPBearer(auto_error=False, description="An API key, as `scrubjay keys add` shows it once.")
UserInPath = Annotated[str, Path(description="The user's id, percent-encoded; any text.", min_length=1)]


@dataclass(slots=True, kw_only=True, eq=False)
class Service:
    """One running server."""

    home: Home
    keys: KeyRing | None
    settings: ServerSettings
    threads: Threads
    operations: Operations
    metrics: Metrics
    crew: Crew | None = None  # where several processes are one server
    upstream: httpx2.AsyncClient | None = None  # to the server behind the proxy
    stopping: bool = False
    _endings: set[asyncio.Task[None]] = field(default_factory=set)
    _queries: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def keep(self, ending: asyncio.Task[None]) -> None:
        """Keep what ends a request after its caller has hung up, so that stopping waits for it."""
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def close(self) -> None:
        """Wait for what is under way, and let go of threads and connections."""
        self.stopping = True
        await self.operations.stop(seconds=self.settings.stop_seconds)
        if self._endings:
            await asyncio.wait(self._endings)
        await self.threads.close()
        self.operations.board.close()
        if self.crew is not None:
            self.crew.close()
        if self.upstream is not None:
            await self.upstream.aclose()

    def known_queries(self, app: FastAPI, path: str, method: str) -> frozenset[str]:
        """Give the names of a route's query parameters, as the description has them."""
        if (path, method) not in self._queries:
            parameters = app.openapi()["paths"][path][method.lower()].get("parameters", [])
            names = frozenset(given["name"] for given in parameters if given["in"] == "query")
            self._queries[path, method] = names
        return self._queries[path, method]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request: the owner of a key, or whoever is on this machine while there are no keys."""

    name: str  # in the log, and what rates are counted by
    key: ApiKey | None

    def require(self, right: Right, user_id: str | None = None) -> None:
        """Refuse what the key isn't for; without a user, what isn't about one."""
        if self.key is None:
            return
        if not self.key.allows(right):
            raise ProblemError(
                403, "forbidden", f"this key may not {right.value}: it is a {self.key.right} key"
            )
        if user_id is not None and not self.key.covers(user_id):
            raise ProblemError(403, "forbidden", "this key is not for that user")

    def covers(self, user_id: str) -> bool:
        return self.key is None or self.key.covers(user_id)


def service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


def caller_of(request: Request) -> Caller:
    found: Caller = request.scope["state"]["caller"]
    return found


async def give_service(request: Request) -> Service:
    return service_of(request)


async def give_caller(request: Request) -> Caller:
    return caller_of(request)


async def refuse_unknown(request: Request) -> None:
    """Refuse query parameters that a route doesn't have: a misspelt filter would else be no filter."""
    path = request.scope["route"].path
    known = service_of(request).known_queries(request.app, path, request.method)
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        choice = f"there are {', '.join(sorted(known))}" if known else "there are none here"
        raise ProblemError(422, "invalid", f"there is no query parameter {unknown[0]!r}: {choice}")


ServiceGiven = Annotated[Service, Depends(give_service)]
CallerGiven = Annotated[Caller, Depends(give_caller)]


def decode_part(part: str) -> str:
    """Decode a part of a path, which is routed as it was sent so that an id may hold a slash."""
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError as error:
        raise ProblemError(
            400, "bad_path", "a part of the path is not UTF-8: percent-encode its bytes"
        ) from error


def memory_for(
    right: Right, *, create: bool = False
) -> Callable[[Request, UserInPath], Coroutine[Any, Any, AsyncMemory]]:
    """Make the dependency that gives a user's memory to whoever has the right."""

    async def give_memory(request: Request, user: UserInPath) -> AsyncMemory:
        service, user_id = service_of(request), decode_part(user)
        caller_of(request).require(right, user_id)
        return AsyncMemory.of_user(service.home, user_id, create=create, threads=service.threads)

    return give_memory


ToRead = Annotated[AsyncMemory, Depends(memory_for(Right.READ))]
ToWrite = Annotated[AsyncMemory, Depends(memory_for(Right.WRITE))]
ToCreate = Annotated[AsyncMemory, Depends(memory_for(Right.WRITE, create=True))]
ToForget = Annotated[AsyncMemory, Depends(memory_for(Right.ADMIN))]
