"""Run the server: the home, the model and the socket, from start to stop."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
import webbrowser
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn

from scrubjay.errors import InputError
from scrubjay.json_log import log_to_stderr
from scrubjay.llm import load_model
from scrubjay.server.app import build_app
from scrubjay.server.gate import is_loopback, read_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrubjay.home import Home
    from scrubjay.llm import ChatModel
    from scrubjay.server.keys import KeyRing
    from scrubjay.server.settings import ServerSettings
    from scrubjay.settings import Settings

KEEP_ALIVE_SECONDS = 30
TRIES, TRY_SECONDS = 300, 0.1  # for the server to start
MOST_CONNECTIONS = 1_000  # at a time; more are answered 503


def run_server(
    open_home: Callable[[ChatModel | None], Home],
    *,
    address: tuple[str, int],
    keys: KeyRing | None,
    settings: ServerSettings,
    memory_settings: Settings,
) -> None:
    """Serve until a signal; then finish what is under way, within the settings' patience.

    `open_home` is given the model that all memories are to share, if one is configured. Raise InputError where the
    address isn't loopback and there is no key.
    """
    host, port = address
    if not is_loopback(host) and (keys is None or not keys.has_keys):
        where = "FILE" if keys is None else keys.path
        raise InputError(
            f"--host {host} can be reached from other machines, and there is no key: make one first with "
            f"`scrubjay keys add NAME --keys {where}`, or serve on 127.0.0.1"
        )
    if settings.rate:
        read_rate(settings.rate)  # wrong ones are told before anything is opened
    log_to_stderr(log_content=settings.log_content)
    with ExitStack() as opened:
        if keys is not None:
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


def announce_page(address: str, *, open_page: bool) -> None:
    """Say where the page is, and open it in a browser, as soon as the server answers there."""

    def announce() -> None:
        port = urlsplit(address).port or 0
        for _ in range(TRIES):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(TRY_SECONDS)
        else:
            return  # the server didn't start, and says why itself
        sys.stderr.write(f"The page is at {address} (Ctrl-C ends it)\n")
        if open_page:
            webbrowser.open(address)

    threading.Thread(target=announce, name="scrubjay-announce", daemon=True).start()


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
