"""EDGE: memories over HTTP: requests are checked here, answered by `AsyncMemory`, and nothing is decided (extra `server`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.errors import MissingExtraError
from scrubjay.server.settings import ServerSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from scrubjay.home import Home
    from scrubjay.server.keys import KeyRing

__all__ = ["ServerSettings", "create_app"]


def create_app(
    home: Home,
    *,
    keys: KeyRing | None = None,
    settings: ServerSettings | None = None,
    on_stop: Callable[[], object] | None = None,
) -> FastAPI:
    """Make the application that serves a home's memories; the home stays its giver's to close.

    Without `keys`, or while there is none, only loopback is answered. `on_stop` is called when the server stops, before
    it waits for what is under way: such as the `close` of a model. Raise MissingExtraError without the extra.
    """
    try:
        from scrubjay.server.app import build_app
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("scrubjay"):
            raise
        raise MissingExtraError("fastapi", extra="server") from error
    return build_app(home, keys=keys, settings=settings or ServerSettings(), on_stop=on_stop)
