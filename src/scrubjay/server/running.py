"""Run the server: the home, the model and the socket, from start to stop."""

from __future__ import annotations

import signal
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from scrubjay.errors import InputError
from scrubjay.llm import load_model
from scrubjay.server.app import build_app
from scrubjay.server.gate import is_loopback, read_rate
from scrubjay.server.observing import log_to_stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrubjay.home import Home
    from scrubjay.llm import ChatModel
    from scrubjay.server.keys import KeyRing
    from scrubjay.server.settings import ServerSettings
    from scrubjay.settings import Settings

KEEP_ALIVE_SECONDS = 30
MOST_CONNECTIONS = 1_000  # at a time; more are answered 503


def run_server(
    open_home: Callable[[ChatModel | None], Home],
    *,
    address: tuple[str, int],
    keys: KeyRing,
    settings: ServerSettings,
    memory_settings: Settings,
) -> None:
    """Serve until a signal; then finish what is under way, within the settings' patience.

    `open_home` is given the model that all memories are to share, if one is configured. Raise InputError where the
    address isn't loopback and there is no key.
    """
    host, port = address
    if not is_loopback(host) and not keys.has_keys:
        raise InputError(
            f"--host {host} can be reached from other machines, and there is no key: make one first with "
            f"`scrubjay keys add NAME --keys {keys.path}`, or serve on 127.0.0.1"
        )
    if settings.rate:
        read_rate(settings.rate)  # wrong ones are told before anything is opened
    log_to_stderr(log_content=settings.log_content)
    with ExitStack() as opened:
        opened.callback(keys.close)
        model = load_model(memory_settings.chat) if memory_settings.chat.model else None
        if model is not None:
            opened.callback(model.close)
        home = open_home(model)
        opened.callback(home.close)
        app = build_app(home, keys=keys, settings=settings, on_stop=None if model is None else model.close)
        opened.enter_context(unwinding())
        uvicorn.run(
            app,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=round(settings.stop_seconds),
            limit_concurrency=MOST_CONNECTIONS,
        )


@contextmanager
def unwinding() -> Iterator[None]:
    """Let the program go on after SIGTERM has stopped the server, so that what is open is closed."""
    before = signal.signal(
        signal.SIGTERM, lambda *_: None
    )  # uvicorn raises the signal again when it has stopped
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
