"""Take the pictures of docs/page.md: the page over the shipped conversation, in Chromium (`make pictures`)."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from playwright.sync_api import sync_playwright

from scrubjay import MemoryHome
from scrubjay.bench.datasets import sample_path
from scrubjay.server import create_app

if TYPE_CHECKING:
    from collections.abc import Iterator

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH, HEIGHT = 1280, 900
QUESTION = "How did the missing dachshund really get into the cellar?"
ASKED = f"#/kai/ask?q={QUESTION}&tokens=600"
SHOTS = (
    ("page", ASKED, False, ".card.anchor"),
    ("page_conversation", "#/kai/conversation?turn=s01:13", True, ".said.marked"),
)
"""Each picture's name, address, whether it is dark, and what the pointer is on."""


@contextmanager
def serve_sample() -> Iterator[str]:
    """Serve a memory of the shipped conversation; give the address."""
    with tempfile.TemporaryDirectory() as folder, MemoryHome(folder) as home:
        home.memory("kai").import_(sample_path())
        server = uvicorn.Server(uvicorn.Config(create_app(home), port=0, log_config=None))
        thread = threading.Thread(target=server.run)
        thread.start()
        while thread.is_alive() and not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        server.should_exit = True
        thread.join()


def main() -> None:
    """Open each address, put the pointer where it belongs, and keep what there is to see."""
    with serve_sample() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, view, is_dark, pointed in SHOTS:
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.emulate_media(color_scheme="dark" if is_dark else "light")
            page.goto(address + view)
            page.reload()  # so that the time shown is not that of opening the memory
            page.locator(pointed).first.hover()
            page.screenshot(path=PICTURES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
