"""The page to look inside: its few files, and the policy that holds a browser to them and this server's /v1."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import Response

from scrubjay.server.problems import ProblemError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

router = APIRouter(include_in_schema=False)

FILES: Traversable = files("scrubjay") / "web"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = {
    # Words of a conversation can't become a script here, nor leave for anywhere else.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@router.get("/")
async def show_page() -> Response:
    return give_file("index.html")


@router.get("/web/{name}")
async def show_part(name: str) -> Response:
    return give_file(name)


def give_file(name: str) -> Response:
    """Give one of the page's files by its name; nothing else has one."""
    found = {part.name: part for part in FILES.iterdir()}.get(name)
    media_type = MEDIA_TYPES.get(f".{name.rpartition('.')[2]}")
    if found is None or media_type is None:
        raise ProblemError(404, "not_found", "the page has no such file")
    return Response(found.read_bytes(), media_type=media_type, headers=POLICY)
