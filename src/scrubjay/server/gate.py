"""Who may come in: keys, loopback, rates; before anything of a request's body is read."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import Headers

from scrubjay.addresses import is_loopback
from scrubjay.errors import SettingsError
from scrubjay.server.problems import ProblemError, render_problem
from scrubjay.server.service import Caller

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from scrubjay.server.keys import KeyRing

GUARDED = ("/v1/", "/metrics", "/mcp")  # what else there is tells nothing of anybody
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Gate:
    """Find who is calling and refuse whom the keys don't know, or who calls too often."""

    def __init__(self, app: ASGIApp, *, keys: KeyRing | None, rate: str) -> None:
        self.app = app
        self._keys = keys
        self._rate = read_rate(rate) if rate else None
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(GUARDED):
            await self.app(scope, receive, send)
            return
        try:
            scope["state"]["caller"] = caller = self._identify(scope)
            await self._count(caller)
        except ProblemError as problem:
            await render_problem(problem, scope)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _identify(self, scope: Scope) -> Caller:
        headers = Headers(scope=scope)
        if self._keys is None or not self._keys.has_keys:
            return stranger(scope, headers)
        given = headers.getlist("authorization")
        scheme, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        key = self._keys.find(text.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise ProblemError(
                401,
                "unauthorized",
                "send a valid key: Authorization: Bearer sj_…; `scrubjay keys add` makes one",
                headers=CHALLENGE,
            )
        return Caller(name=key.key_id, key=key)

    async def _count(self, caller: Caller) -> None:
        if self._rate is None or await self._limiter.hit(self._rate, caller.name):
            return
        window = await self._limiter.get_window_stats(self._rate, caller.name)
        wait = max(1, math.ceil(window.reset_time - time.time()))
        raise ProblemError(
            429, "too_many_requests", f"more than {self._rate}: wait", headers={"Retry-After": str(wait)}
        )


def read_rate(text: str) -> RateLimitItem:
    """Read a rate such as 100/minute; raise SettingsError for what is none."""
    try:
        return parse(text)
    except ValueError as error:
        raise SettingsError(f"rate: expected one such as 100/minute, found {text!r}") from error


def stranger(scope: Scope, headers: Headers) -> Caller:
    """Let in whoever is on this machine, but no web page that a browser here has open, under whatever name."""
    address = (scope.get("client") or ("", 0))[0]
    names = [urlsplit(f"//{headers.get('host', '')}").hostname]
    if "origin" in headers:
        names.append(urlsplit(headers["origin"]).hostname)
    if not is_loopback(address) or not all(name in LOOPBACK_NAMES for name in names):
        raise ProblemError(
            401,
            "unauthorized",
            "without a key only programs on the server's own machine are answered: make one with `scrubjay keys add`",
            headers=CHALLENGE,
        )
    return Caller(name=address, key=None)
