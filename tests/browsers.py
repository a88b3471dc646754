"""A real browser for tests, and a server whose page it opens."""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import uvicorn

from scrubjay.server import create_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from scrubjay.home import Home
    from scrubjay.server.keys import KeyRing

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_SECONDS = 30


def find_chromium() -> str | None:
    return os.environ.get("SCRUBJAY_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium; skip, saying so, where there is none."""
    executable = find_chromium()
    if executable is None:
        pytest.skip("no Chromium here: install Debian's `chromium`, or name it in SCRUBJAY_CHROMIUM")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def serve_home(home: Home, *, keys: KeyRing | None = None) -> Iterator[str]:
    """Serve a home on a free port of this machine; give its address."""
    server = uvicorn.Server(
        uvicorn.Config(create_app(home, keys=keys), host="127.0.0.1", port=0, log_config=None)
    )
    thread = threading.Thread(target=server.run, name="page-server")
    thread.start()
    try:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < give_up
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
