"""A real browser for tests, and a server whose page it opens."""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest
import uvicorn

from scrubjay.server import create_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Dialog, Locator, Page

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


@contextmanager
def looking(
    browser: Browser, address: str, *, width: int = 1200, scheme: str = "light", quiet: bool = True
) -> Iterator[Page]:
    """Open a page that fails the test for any script error, dialog, or request to anywhere else."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type] # light or dark
    page = context.new_page()
    troubles: list[str] = []

    def refuse(dialog: Dialog) -> None:
        troubles.append(dialog.message)
        dialog.dismiss()

    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: troubles.append(said.text) if quiet and said.type == "error" else None)
    page.on("dialog", refuse)
    page.on(
        "request",
        lambda asked: (
            troubles.append(asked.url) if urlsplit(asked.url).netloc != urlsplit(address).netloc else None
        ),
    )
    page.set_default_timeout(60_000)  # of a busy machine
    try:
        yield page
    finally:
        context.close()
    assert troubles == []


def view_of(address: str, name: str, user: str, options: str = "") -> str:
    """Give the address of a view of a user's memory."""
    return f"{address}/#/{quote(user, safe='')}/{name}{'?' + options if options else ''}"


def show(page: Page, address: str) -> Locator:
    """Open an address, wait until its view is there, and give it."""
    page.goto("about:blank")
    page.goto(address)
    page.locator("main h2").first.wait_for(state="attached")
    return page.locator("main")
