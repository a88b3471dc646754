"""What is told of each request: an id in the answer, a line in the log, counts for Prometheus; nobody's words."""

from __future__ import annotations

import logging
import re
import time
import uuid
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

from scrubjay.errors import StoreError
from scrubjay.json_log import frames_of
from scrubjay.server.problems import BUSY, ProblemError, render_problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from scrubjay.server.metrics import Metrics

LOGGER = logging.getLogger("scrubjay.server")
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
OTHER = "other"  # a path that is none of ours, or the description
FAILED = 500
NOT_CONFIGURED = 501  # such as a model: no fault of the server's
HANGUP = 499  # what logs say of a caller who left before the answer


class Observer:
    """Name, time and log each request."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, log_content: bool) -> None:
        self.app = app
        self._metrics = metrics
        self._log_content = log_content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        given = Headers(scope=scope).get("x-request-id", "")
        state["request_id"] = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        started, status = time.perf_counter(), HANGUP

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = state["request_id"]
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        self._metrics.under_way.inc()
        try:
            await self.app(scope, receive, note_status)
        except Exception as error:
            state["error"] = error
            if status == HANGUP:
                problem = ProblemError(500, "internal", "the server failed: its log says how")
                await render_problem(problem, scope)(scope, receive, note_status)
            raise
        finally:
            self._metrics.under_way.dec()
            self._tell(scope, status, time.perf_counter() - started)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        state, route = scope["state"], scope.get("route")
        path = OTHER if route is None else str(route.path)
        self._metrics.count_request(scope["method"], path, status, seconds)
        fields: dict[str, object] = {
            "request_id": state["request_id"],
            "method": scope["method"],
            "route": path,
            "status": status,
            "milliseconds": round(seconds * 1_000, 3),
            "caller": state["caller"].name if "caller" in state else None,
        }
        if "problem" in state:
            fields["code"] = state["problem"].code
            self._metrics.problems.labels(state["problem"].code).inc()
        if "error" in state:
            fields["error"] = type(state["error"]).__name__
        if self._log_content:
            fields |= {"path": scope["path"], "query": scope["query_string"].decode("latin-1")}
            fields["message"] = str(state.get("error") or state.get("problem") or "")
        elif status >= FAILED and "error" in state:
            fields["frames"] = frames_of(state["error"])
            if isinstance(state["error"], StoreError):  # these speak of files, never of what was said
                fields["message"] = str(state["error"])
        failed = status >= FAILED and status != NOT_CONFIGURED and fields.get("code") != BUSY
        LOGGER.log(logging.ERROR if failed else logging.INFO, "request", extra={"fields": fields})
