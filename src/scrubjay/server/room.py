"""How many requests may wait: one more is told to come again, before anything of it is read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scrubjay.server.bounds import BULK
from scrubjay.server.problems import BUSY, SOON, ProblemError, render_problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from scrubjay.server.settings import ServerSettings
    from scrubjay.threads import Threads

ROOMED = ("/v1/", "/mcp")  # whoever watches over the server is answered at any time
LONG = ("/answer", "/consolidate")
LATER = 10  # seconds of Retry-After, where models are waited for
APART = 0.01  # seconds, about what a call takes
LATEST = 30  # seconds of Retry-After at most


class Room:
    """Refuse a request while as many calls wait for a thread as may; what was let in is never broken off."""

    def __init__(self, app: ASGIApp, *, threads: Threads, settings: ServerSettings) -> None:
        self.app = app
        self._threads = threads
        self._settings = settings
        self._again = 0.0  # when the one refused last was told to come

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(ROOMED):
            await self.app(scope, receive, send)
            return
        is_long = scope["path"].endswith(LONG)
        may_fill = scope["method"] == "POST" and not scope["path"].endswith(BULK)

        async def receive_and_look() -> Message:
            """Look again when the body is there, before it is read: meanwhile others may have come."""
            nonlocal may_fill
            message = await receive()
            if may_fill and not message.get("more_body", False):
                may_fill = False
                self._require(long=is_long)
            return message

        try:
            self._require(long=is_long)
        except ProblemError as problem:
            await render_problem(problem, scope)(scope, receive, send)
            return
        await self.app(scope, receive_and_look, send)

    def _require(self, *, long: bool) -> None:
        """Raise the problem that there is no room for a request."""
        if self._threads.waiting() >= self._settings.waiting_calls:
            now = time.monotonic()
            self._again = come_again(now, after=self._again)
            raise busy(round(self._again - now))
        if long and self._threads.waiting(long=True) >= self._settings.waiting_long:
            raise busy(LATER)


def come_again(now: float, *, after: float) -> float:
    """Give when to come again, a little after whoever was refused last: refusing a whole crowd at once takes as long as serving many."""
    return min(max(after + APART, now + SOON), now + LATEST)


def busy(seconds: int) -> ProblemError:
    return ProblemError(
        503,
        BUSY,
        "too many requests wait already, and nothing of this one was done: come again when Retry-After says",
        headers={"Retry-After": str(seconds)},
    )
