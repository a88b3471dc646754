"""Errors as HTTP tells them: application/problem+json (RFC 9457), with a code for each kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fastapi.exceptions import HTTPException, RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException

from scrubjay import errors
from scrubjay.documents import usage_document
from scrubjay.server.replies import Json

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.types import Scope

    from scrubjay.datatypes import JsonValue

MEDIA_TYPE = "application/problem+json"
SOON = 1  # seconds, of Retry-After
BUSY = "busy"  # the code of a request that there was no room for
STATUS: Mapping[type[errors.ScrubJayError], int] = {
    errors.InputError: 422,
    errors.TurnConflictError: 409,
    errors.SettingsError: 501,  # there is no model, or none that can be used
    errors.NotFoundError: 404,
    errors.StoreError: 500,
    errors.StoreBusyError: 503,
    errors.StoreClosedError: 503,  # forgotten just now: asked again, it is there anew, or not at all
    errors.StoreUnavailableError: 503,
    errors.StoreReadOnlyError: 503,
    errors.StoreFullError: 507,
    errors.LeaseLostError: 409,
    errors.SegmentsChangedError: 409,
    errors.EncodingUnfinishedError: 409,
    errors.EmbedderError: 502,
    errors.EmbedderMismatchError: 500,
    errors.ModelError: 502,
    errors.ModelRateLimitError: 503,
    errors.ModelUnavailableError: 503,
    errors.RerankerError: 502,
    errors.MissingExtraError: 501,
    errors.ScrubJayError: 500,
}
"""The nearest of an error's classes says its status."""

WORDS: Mapping[type[errors.ScrubJayError], str] = {
    errors.StoreError: "the memory can't be used as it is: the server's log says why",
    errors.StoreBusyError: "the memory is being written by another process: try again",
    errors.StoreClosedError: "the memory was forgotten or closed meanwhile: try again",
    errors.StoreUnavailableError: "the database of memories can't be reached: try again",
    errors.StoreReadOnlyError: "the memory can't be written: the server's log says why",
    errors.StoreFullError: "the server's disk is full",
    errors.EmbedderMismatchError: "the memory was made with another embedder than the server's",
}
"""What is said instead of messages that name the server's files."""

CODE_WORDS = re.compile(r"(?<!^)(?=[A-Z])")
NAMED_PLACE = re.compile(r"^.*? has no ", re.DOTALL)


class ProblemError(HTTPException):
    """A request that the server itself refuses."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self.code = code
        self.more = dict(more or {})
        super().__init__(status, detail, dict(headers or {}))


def nearest(error: errors.ScrubJayError, table: Mapping[type[errors.ScrubJayError], object]) -> object:
    return next((table[kind] for kind in type(error).__mro__ if kind in table), None)


def problem_of(error: errors.ScrubJayError) -> ProblemError:
    """Give the problem that an error of ours is to a caller."""
    status = nearest(error, STATUS)
    words = nearest(error, WORDS)
    detail = str(words or error)
    if isinstance(error, errors.NotFoundError):
        detail = NAMED_PLACE.sub("there is no ", str(error))
    headers = {}
    if status == 503:
        wait = error.retry_after if isinstance(error, errors.ModelRateLimitError) else None
        headers["Retry-After"] = str(SOON if wait is None else max(SOON, round(wait)))
    more: dict[str, JsonValue] = {}
    if error.spent:
        more["usage"] = [usage_document(usage) for usage in error.spent]
    known = status if isinstance(status, int) else 500
    return ProblemError(known, code_of(error), detail, headers=headers, more=more)


def code_of(error: errors.ScrubJayError) -> str:
    """Give an error's class as words: store_busy, turn_error."""
    words = CODE_WORDS.sub("_", type(error).__name__).lower()
    return words.removesuffix("_error") if words.count("_") > 1 else words


def problem_document(problem: ProblemError, *, request_id: str) -> dict[str, JsonValue]:
    return {
        "type": "about:blank",
        "title": problem.code.replace("_", " "),
        "status": problem.status_code,
        "code": problem.code,
        "detail": problem.detail,
        "request_id": request_id,
        **problem.more,
    }


def render_problem(problem: ProblemError, scope: Scope) -> Json:
    scope["state"]["problem"] = problem
    document = problem_document(problem, request_id=scope["state"].get("request_id", ""))
    return Json(document, status_code=problem.status_code, headers=problem.headers, media_type=MEDIA_TYPE)


async def tell_ours(request: Request, error: Exception) -> Json:
    """Answer with an error of ours, whose own words go to the log where the caller doesn't get them."""
    if not isinstance(error, errors.ScrubJayError):
        raise error
    request.scope["state"]["error"] = error
    return render_problem(problem_of(error), request.scope)


async def tell_http(request: Request, error: Exception) -> Json:
    """Answer with a problem, or with what the framework refuses."""
    if isinstance(error, ProblemError):
        return render_problem(error, request.scope)
    if not isinstance(error, StarletteHTTPException):
        raise error
    code = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
    return render_problem(
        ProblemError(error.status_code, code, error.detail, headers=error.headers), request.scope
    )


async def tell_invalid(request: Request, error: Exception) -> Json:
    """Answer what is wrong with each field, but not with what it held: that may be anybody's words."""
    if not isinstance(error, RequestValidationError):
        raise error
    faults: list[JsonValue] = [
        {"field": ".".join(map(str, fault["loc"])), "message": fault["msg"]} for fault in error.errors()
    ]
    first = error.errors()[0]
    detail = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return render_problem(ProblemError(422, "invalid", detail, more={"errors": faults}), request.scope)


def register(app: FastAPI) -> None:
    app.add_exception_handler(errors.ScrubJayError, tell_ours)
    app.add_exception_handler(StarletteHTTPException, tell_http)
    app.add_exception_handler(RequestValidationError, tell_invalid)
