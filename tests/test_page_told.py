"""What the page says when there is more than it shows at once, or something can't be done, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browsers import looking, open_browser, serve_home, show, view_of
from models import scripted_model
from scribes import Scribe
from small_memories import EMBEDDER

from scrubjay.errors import ModelUnavailableError
from scrubjay.home import MemoryHome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from scrubjay.llm import ChatRequest

MORE_THAN_A_PAGE = 1_003
AWAY = "nobody answers at http://models.test <b>now</b>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


def be_away(_: ChatRequest) -> None:
    raise ModelUnavailableError(AWAY, reached=False)


def remember(home: MemoryHome, user: str) -> None:
    with home.borrow(user) as memory:
        memory.add({"role": "user", "name": "Mira", "content": "Oleg held the ladder."}, session_id="monday")


def test_more_users_than_a_page(browser: Browser, tmp_path: Path) -> None:
    """Of more users than are listed at once the rest is a button away, none left out and none twice."""
    for number in range(MORE_THAN_A_PAGE):
        (tmp_path / f"user-{number:04}.jay").touch()
    with MemoryHome(tmp_path) as home, serve_home(home) as site, looking(browser, site) as page:
        page.goto(site)
        last = page.get_by_role("link", name=f"user-{MORE_THAN_A_PAGE - 1:04}")
        page.get_by_role("button", name="More users").click()
        last.wait_for()
        assert page.locator(".users li").all_inner_texts() == list(home.users())
        assert page.get_by_role("button", name="More users").count() == 0  # hidden


def test_an_address_that_stands_for_nothing(browser: Browser, tmp_path: Path) -> None:
    """An address that was typed wrong is taken as a name that nobody has."""
    with MemoryHome(tmp_path) as home, serve_home(home) as site, looking(browser, site, quiet=False) as page:
        page.goto(f"{site}/#/100%/ask")
        page.locator("#message", has_text="no memory of user '100%'").wait_for()


def test_a_model_that_fails_while_it_answers(browser: Browser, tmp_path: Path) -> None:
    """Where the model fails after the evidence came, its failure is what is said, and the evidence stays."""
    with (
        scripted_model() as (model, _),
        MemoryHome(tmp_path, embedder=EMBEDDER, model=model) as home,
        serve_home(home) as site,
    ):
        remember(home, "mira")
        model.close()
        with looking(browser, site) as page:
            main = show(page, view_of(site, "ask", "mira", "q=Who held the ladder?"))
            main.get_by_role("button", name="Answer").click()
            page.locator("#message.bad", has_text="the model was closed").wait_for()
            assert page.locator("#message").inner_text().startswith("the model was closed")
            assert main.locator(".card.anchor").count() == 1


@pytest.mark.parametrize(
    ("scribe", "told", "warnings"),
    [
        (Scribe(before=be_away), AWAY, 1),
        (Scribe(), "1 segment encoded, 1 new record", 0),
    ],
    ids=["away", "there"],
)
def test_what_consolidating_did(
    browser: Browser, tmp_path: Path, scribe: Scribe, told: str, warnings: int
) -> None:
    """The page says what a consolidation did, and why it ended before its end, as text."""
    with (
        MemoryHome(tmp_path, embedder=EMBEDDER, model=scribe) as home,
        serve_home(home) as site,
    ):
        remember(home, "mira")
        with looking(browser, site) as page:
            main = show(page, view_of(site, "segments", "mira"))
            assert "A segment is a stretch" in main.inner_text()
            assert "No segment has closed yet" in main.inner_text()
            main.get_by_role("checkbox").check()
            main.get_by_role("button", name="Consolidate now").click()
            page.locator("#message", has_text=told).wait_for()
            assert page.locator("#message.bad").count() == warnings
