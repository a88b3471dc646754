"""How much a request may bring and how long it may take; paths are routed as they were sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from scrubjay.server.problems import ProblemError, render_problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from scrubjay.server.settings import ServerSettings

BULK = "/turns/bulk"  # as long as it likes, if it keeps coming
ASKS_MODEL = ("/answer", "/chat/completions", "/mcp")
CLOSE = {"Connection": "close"}  # what is left of the body isn't read


class Bounds:
    """Hold a request to the size and time that the settings allow."""

    def __init__(self, app: ASGIApp, *, settings: ServerSettings) -> None:
        self.app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = Body(receive, self._settings, is_bulk=scope["path"].endswith(BULK))
        begun = False

        async def note_begin(message: Message) -> None:
            nonlocal begun
            begun = True
            clock.reschedule(None)  # what is streamed may take as long as it likes
            await send(message)

        problem = None
        try:
            async with asyncio.timeout(self._seconds(scope["path"])) as clock:
                body.require_announced(Headers(scope=scope))
                await self.app(scope, body.receive, note_begin)
        except ProblemError as refused:
            problem = refused
        except TimeoutError as error:
            if not clock.expired() or begun:
                raise
            problem = ProblemError(504, "too_slow", "this took longer than the server allows: ask for less")
            problem.__cause__ = error
        if problem is not None:
            await render_problem(problem, scope)(scope, receive, send)

    def _seconds(self, path: str) -> float | None:
        if path.endswith(BULK):
            return None
        return self._settings.model_seconds if path.endswith(ASKS_MODEL) else self._settings.request_seconds


class Body:
    """A request's body as it arrives: not too much of it, and not too slowly."""

    def __init__(self, receive: Receive, settings: ServerSettings, *, is_bulk: bool) -> None:
        self._receive = receive
        self._settings = settings
        self._most = None if is_bulk else settings.most_body_bytes
        self._until: float | None = None  # when all of it must be there; a bulk upload's next piece
        self._came = 0
        self._whole = False

    def require_announced(self, headers: Headers) -> None:
        """Refuse a body that says itself that it is too long."""
        length = headers.get("content-length", "")
        if self._most is not None and length.isdigit() and int(length) > self._most:
            raise self._too_long()

    def _too_long(self) -> ProblemError:
        return ProblemError(
            413,
            "too_long",
            f"a request may bring {self._most} bytes: send turns in several, or line by line to /turns/bulk",
            headers=CLOSE,
        )

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()  # that the caller hung up, which may take for ever
        now = asyncio.get_running_loop().time()
        if self._until is None or self._most is None:
            self._until = now + self._settings.body_seconds
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError as error:
            raise ProblemError(
                408, "body_too_slow", "the request's body didn't arrive in time", headers=CLOSE
            ) from error
        self._came += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._most is not None and self._came > self._most:
            raise self._too_long()
        return message


class RawPath:
    """Route by the path as it was sent: a slash within an id is %2F, and no part of the way."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("raw_path") is not None:
            scope["path"] = scope["raw_path"].decode("latin-1")
        await self.app(scope, receive, send)
