"""Open what a process serves: keys, model and memories, and close them again."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypedDict

from scrubjay.llm import load_model
from scrubjay.server.app import build_app
from scrubjay.server.crew import Crew
from scrubjay.server.keys import KeyRing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastapi import FastAPI

    from scrubjay.server.places import Serving
    from scrubjay.server.settings import ServerSettings

KEEP_ALIVE_SECONDS = 30
MOST_CONNECTIONS = 4_000  # at a time, of a process; more are answered 503 and closed


class ServingOptions(TypedDict):
    """How uvicorn serves."""

    log_config: None
    access_log: bool
    server_header: bool
    proxy_headers: bool
    timeout_keep_alive: int
    timeout_graceful_shutdown: int
    limit_concurrency: int


def serving_options(settings: ServerSettings) -> ServingOptions:
    return ServingOptions(
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=round(settings.stop_seconds),
        limit_concurrency=MOST_CONNECTIONS,
    )


@contextmanager
def opened_application(serving: Serving, *, on_end: Callable[[], object] | None = None) -> Iterator[FastAPI]:
    """Give the application; `on_end` is called when it has stopped, and may close what is opened here."""
    with ExitStack() as opened:
        keys = None
        if serving.keys_path is not None:
            keys = KeyRing(serving.keys_path)
            opened.callback(keys.close)
        chat = serving.memory_settings.chat
        model = load_model(chat) if chat.model else None
        if model is not None:
            opened.callback(model.close)
        home = serving.place.open(serving.memory_settings, model)
        opened.callback(home.close)
        yield build_app(
            home,
            keys=keys,
            settings=serving.settings,
            on_stop=None if model is None else model.close,
            on_end=on_end,
            crew=None if serving.shared is None else Crew(serving.shared),
        )
