"""Run the server: the home, the model and the socket, from start to stop."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
import webbrowser
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn

from scrubjay.addresses import is_loopback, listen
from scrubjay.errors import InputError
from scrubjay.json_log import log_to_stderr
from scrubjay.server.gate import read_rate
from scrubjay.server.keys import KeyRing
from scrubjay.server.listening import allow_files
from scrubjay.server.opening import opened_application, serving_options
from scrubjay.server.processes import run_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scrubjay.server.places import Serving

TRIES, TRY_SECONDS = 300, 0.1  # for the server to start


def run_server(
    serving: Serving,
    *,
    address: tuple[str, int],
    processes: int = 1,
    tell: Callable[[], object] | None = None,
) -> None:
    """Serve until a signal; then finish what is under way, within the settings' patience.

    `tell` is called where a person looks on, to tell them where the server is; the log is then for them, and of
    failures alone. Raise InputError where the address isn't loopback and there is no key, and SettingsError where
    the port is taken.
    """
    host, port = address
    if not is_loopback(host):
        require_key(host, serving.keys_path)
    if serving.settings.rate:
        read_rate(serving.settings.rate)  # wrong ones are told before anything is opened
    allow_files()
    listen(host, port).close()  # so is a port that is taken
    log_to_stderr(log_content=serving.settings.log_content, for_person=tell is not None)
    if tell is not None:
        tell()
    if processes > 1:
        run_processes(serving, address=address, count=processes)
        return
    with opened_application(serving) as app, unwinding():
        uvicorn.run(app, host=host, port=port, **serving_options(serving.settings))


def require_key(host: str, path: Path | None) -> None:
    """Refuse to serve an address that others reach while there is no key."""
    if path is not None:
        with closing(KeyRing(path)) as keys:
            if keys.has_keys:
                return
    raise InputError(
        f"--host {host} can be reached from other machines, and there is no key: make one first with "
        f"`scrubjay keys add NAME --keys {path or 'FILE'}`, or serve on 127.0.0.1"
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
