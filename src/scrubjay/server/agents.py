"""/mcp: users' memories over the Model Context Protocol, by the server's keys (extra `mcp`)."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.routing import Route

from scrubjay.errors import InputError, NotFoundError, ScrubJayError, StoreError
from scrubjay.mcp_server import create_mcp_server
from scrubjay.server.keys import Right
from scrubjay.server.observing import LOGGER
from scrubjay.server.problems import SOON, ProblemError, problem_of
from scrubjay.server.room import busy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from scrubjay.home import Home
    from scrubjay.memory import Memory
    from scrubjay.server.service import Caller

PATH = "/mcp"
USER = "X-ScrubJay-User"
ANY_USER = frozenset("*?[")  # what makes a key's pattern one of many users


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who sent the request under way, and whose memory it is about."""

    caller: Caller
    user_id: str

    @property
    def right(self) -> Right:
        return Right.ADMIN if self.caller.key is None else self.caller.key.right

    def may(self, right: Right) -> bool:
        return self.caller.key is None or self.caller.key.allows(right)


ASKING: ContextVar[Asking] = ContextVar("asking")


class AskersMemory:
    """The memory of whoever is asking (`mcp_memories.Memories`); it is made for who may write."""

    def __init__(self, home: Home) -> None:
        self._home = home

    @contextmanager
    def borrow(self, right: Right, /) -> Iterator[Memory]:
        asking = ASKING.get()
        if not asking.may(right):
            raise InputError(f"this key may not {right}: it is a {asking.right} key")
        try:
            with self._home.borrow(asking.user_id, create=asking.may(Right.WRITE)) as memory:
                yield memory
        except ScrubJayError as error:
            if isinstance(error, StoreError):
                LOGGER.error("a memory failed", exc_info=error)
            raise without_places(error) from error


def without_places(error: ScrubJayError) -> ScrubJayError:
    """Give an error in the words that a caller from elsewhere gets: where files are is nobody's business."""
    if isinstance(error, InputError):
        return error
    kind = NotFoundError if isinstance(error, NotFoundError) else ScrubJayError
    return kind(problem_of(error).detail)


class McpRoute:
    """The protocol's one path. Each request is whole in itself: it is told whose it is, and no session is kept."""

    def __init__(self, home: Home, *, most: int) -> None:
        """Answer `most` requests at a time: what they call has threads of its own, and no end to who waits there."""
        self._most = most
        self._under_way = 0
        self.route = Route(PATH, endpoint=self, methods=["POST"], include_in_schema=False)
        self._server = create_mcp_server(AskersMemory(home))
        self._app: ASGIApp | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer during the block."""
        app = self._server.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            # The gate has seen to it already.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        async with app.router.lifespan_context(app):
            self._app = app
            yield
        self._app = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            raise ProblemError(503, "stopping", "the server isn't running", headers={"Retry-After": "1"})
        caller: Caller = scope["state"]["caller"]
        asking = Asking(caller=caller, user_id=user_of(caller, Headers(scope=scope).get(USER)))
        caller.require(Right.READ, asking.user_id)
        if self._under_way >= self._most:
            raise busy(SOON)
        before = ASKING.set(asking)
        self._under_way += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way -= 1
            ASKING.reset(before)


def user_of(caller: Caller, given: str | None) -> str:
    """Give whose memory is meant: the one named, or else the only one that the key is for."""
    patterns = () if caller.key is None else caller.key.users
    if given:
        return given
    if len(patterns) == 1 and not ANY_USER & set(patterns[0]):
        return patterns[0]
    raise ProblemError(
        422, "no_user", f"say whose memory it is: the header {USER}, or a key for one user alone"
    )
