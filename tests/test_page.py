"""The page to look inside, in a real browser against a real server."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from browsers import looking, open_browser, serve_home, show, view_of
from scribes import Scribe
from small_memories import EMBEDDER

from scrubjay.cli.serving_http import find_keys
from scrubjay.errors import ModelReplyError
from scrubjay.home import FileHome, MemoryHome
from scrubjay.memory import Memory
from scrubjay.server.keys import Right
from scrubjay.settings import EncoderSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

MIRA = "mira/../ <b>"  # a user id may be any text
EVENINGS = {
    "monday": (
        ("Mira", "We painted the kitchen in pistachio.", None),
        ("Jonas", "Who held the ladder?", None),
        ("Mira", "My neighbour Oleg did, between two bassoon lessons.", None),
        ("Mira", "This is the wall now.", "a wall in pale green, still wet"),
    ),
    "tuesday": (("Jonas", "It rained all day and nothing happened.", None),),
    "wednesday": (("Jonas", "Is there any rice left?", None), ("Mira", "One bag, next to the flour.", None)),
    "thursday": (
        (
            "Mira",
            "<img src=x onerror=\"document.title='owned'\"><script>alert('owned')</script> bassoon",
            None,
        ),
        ("دانا", "يعزف أوليغ على الباسون كل مساء", None),
        ("小明", "奥列格会吹巴松管 bassoon。", None),
    ),
}
BASSOON = "Who plays the bassoon?"
VIEWS = ("ask", "conversation", "segments", "records", "nodes", "forget", "status")


def tell(memory: Memory) -> None:
    for day, (session_id, said) in enumerate(EVENINGS.items()):
        turns = [
            {
                "role": "user",
                "name": name,
                "content": text,
                "caption": caption,
                "created_at": f"2024-03-0{day + 4}T18:{minute:02}:00+01:00",
            }
            for minute, (name, text, caption) in enumerate(said)
        ]
        memory.add([{k: v for k, v in turn.items() if v} for turn in turns], session_id=session_id)


def view(address: str, name: str, user: str = MIRA, options: str = "") -> str:
    return view_of(address, name, user, options)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path) -> Iterator[MemoryHome]:
    settings = Settings(encoder=EncoderSettings(retry_seconds=0.0, attempts=1))
    with MemoryHome(tmp_path / "home", embedder=EMBEDDER, model=Scribe(), settings=settings) as opened:
        with opened.borrow(MIRA) as memory:
            tell(memory)
        yield opened


@pytest.fixture
def site(home: MemoryHome) -> Iterator[str]:
    with serve_home(home) as address:
        yield address


def test_welcome(browser: Browser, home: MemoryHome, site: str) -> None:
    """Of several users one is chosen; the only one's memory opens by itself."""
    with looking(browser, site) as page:
        page.goto(site)
        page.wait_for_url(view(site, "ask"))
        home.memory("zoe")
        page.goto("about:blank")
        page.goto(site)
        page.get_by_role("link", name="zoe").click()
        page.wait_for_url(view(site, "ask", "zoe"))
        page.get_by_label("Memory of").fill(MIRA)
        page.get_by_role("button", name="Open").click()
        page.wait_for_url(view(site, "ask"))


def test_ask(browser: Browser, home: MemoryHome, site: str) -> None:
    """Evidence lies on the timeline: a column a session in their order, cards in the order of turns, gaps told, tokens used."""
    with home.borrow(MIRA) as memory:
        evidence = memory.recall(BASSOON, max_tokens=150)
    with looking(browser, site) as page:
        main = show(page, view(site, "ask"))
        page.get_by_label("Tokens at most").fill("150")
        page.get_by_label("Question").fill(BASSOON)
        page.keyboard.press("Enter")
        main.locator(".timeline .card").first.wait_for()
        shown = main.locator(".timeline .card").evaluate_all("cards => cards.map((card) => card.id)")
        by_time = sorted(evidence.links, key=lambda link: (link.turn.said_at, link.turn.index))
        assert shown == [f"turn-{link.number}" for link in by_time]
        assert f"{evidence.tokens} of 150" in main.inner_text()
        columns = main.locator(".session header .id").all_inner_texts()
        assert columns == list(dict.fromkeys(link.turn.session_id for link in by_time))
        folded = [name for name in EVENINGS if name not in columns]
        told = " ".join(
            title or ""
            for title in main.locator(".folded").evaluate_all("all => all.map((one) => one.title)")
        )
        assert sum(map(int, re.findall(r"(\d+) sessions? without", told))) == len(folded)
        best = evidence.links[0]
        card = main.locator(f"#turn-{best.number}")
        assert not card.locator(".why").is_visible()
        card.hover()
        why = card.locator(".why").inner_text()
        assert best.reason in why
        assert all(f"rank {score.rank}, {score.score:.3f}" in why for score in best.channels.values())
        page.goto(page.url)  # the address says it all
        main.locator(".timeline .card").first.wait_for()
        main.locator("summary", has_text="as a model is given it").click()
        assert main.locator(".context pre").inner_text() == evidence.text.rstrip()


def test_nothing_relevant(browser: Browser, home: MemoryHome, site: str) -> None:
    """That nothing is relevant is said, and is another thing than an error."""
    with looking(browser, site, quiet=False) as page:
        home.memory("zoe")
        main = show(page, view(site, "ask", "zoe", options="q=xyzzy"))
        main.get_by_text("Nothing in this memory is relevant").wait_for()
        page.goto(view(site, "status", "nobody"))
        page.locator("#message", has_text="nobody").wait_for()


def test_words_stay_words(browser: Browser, site: str) -> None:
    """HTML and scripts in turns, session ids and user ids are shown as they were written, and never run."""
    with looking(browser, site) as page:
        main = show(page, view(site, "ask", options="q=bassoon"))
        main.locator(".card", has_text="<script>alert('owned')</script>").wait_for()
        for name in VIEWS:
            show(page, view(site, name, options="session=thursday"))
            assert "owned" not in page.title()
            assert page.locator("main img, main script").count() == 0


def test_policy(browser: Browser, site: str) -> None:
    """The browser itself refuses inline scripts and requests to anywhere else."""
    with looking(browser, site, quiet=False) as page:
        show(page, view(site, "status"))
        policy = page.evaluate("async () => (await fetch('/')).headers.get('content-security-policy')")
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        page.evaluate(
            "() => { const script = document.createElement('script'); script.textContent = 'window.ran = true';"
            " document.body.append(script); }"
        )
        assert page.evaluate("window.ran") is None


def test_keyboard(browser: Browser, site: str) -> None:
    """Everything is reached by keys alone; a card's reason shows when it is focused."""
    with looking(browser, site) as page:
        main = show(page, view(site, "ask"))
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.name") == "question":
                break
        page.keyboard.type("bassoon")
        page.keyboard.press("Enter")
        main.locator(".timeline .card").first.wait_for()
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.classList.contains('card')"):
                break
        focused = main.locator(".card:focus")
        assert focused.locator(".why").is_visible()
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.parametrize("width", [380, 320])
def test_narrow(browser: Browser, site: str, width: int) -> None:
    """Every view fits a phone: nothing lies beyond its right edge."""
    with looking(browser, site, width=width) as page:
        for name in VIEWS:
            show(page, view(site, name, options="q=bassoon&session=thursday"))
            if name == "ask":
                page.locator(".timeline .card").first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_directions(browser: Browser, site: str) -> None:
    """Arabic runs from right to left, Chinese and English from left to right, side by side."""
    with looking(browser, site) as page:
        main = show(page, view(site, "conversation", options="session=thursday"))
        directions = main.locator(".turns .words").evaluate_all(
            "all => all.map((one) => getComputedStyle(one).direction)"
        )
        assert directions == ["ltr", "rtl", "ltr"]
        assert "奥列格会吹巴松管" in main.inner_text()


def test_a_session_id_turns_nothing_around_it(browser: Browser, home: MemoryHome, site: str) -> None:
    """A session id that runs from right to left leaves the words after it where they belong."""
    home.memory("noa").add({"role": "user", "content": "שלום"}, session_id="מפגש-1")
    with looking(browser, site) as page:
        main = show(page, view(site, "conversation", "noa"))
        id_at, words_at = main.locator(".sessions small").evaluate(PLACES_OF, ["מ", "turn"])
        assert id_at < words_at


PLACES_OF = """(element, sought) => sought.map((words) => {
  const text = element.firstChild, range = document.createRange();
  range.setStart(text, text.data.indexOf(words));
  range.setEnd(text, text.data.indexOf(words) + 1);
  return range.getBoundingClientRect().x;
})"""


def test_long_turns_are_cut_until_they_are_read(browser: Browser, home: MemoryHome, site: str) -> None:
    """Of a long turn a card shows the beginning, and all of it once it is focused."""
    long = "The bassoon is a woodwind instrument. " + "It was raining. " * 60
    home.memory("long").add({"role": "user", "content": long}, session_id="1")
    hidden = "element => element.scrollHeight - element.clientHeight"
    with looking(browser, site) as page:
        main = show(page, view(site, "ask", "long", options="q=bassoon"))
        words = main.locator(".timeline .card .words")
        words.wait_for()
        assert words.evaluate(hidden) > 100
        main.locator(".timeline .card").focus()
        assert words.evaluate(hidden) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser: Browser, site: str, scheme: str) -> None:
    """In light and in dark, all text stands out from its ground by 4.5 to 1 at least (WCAG AA)."""
    with looking(browser, site, scheme=scheme) as page:
        grounds = set()
        for name in VIEWS:
            main = show(page, view(site, name, options="q=bassoon"))
            if name == "ask":
                main.locator(".timeline .card").first.wait_for()
            for ink, ground in page.evaluate(COLOURS):
                assert contrast(ink, ground) >= 4.5, (name, ink, ground)
            grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert len(grounds) == 1
        assert (luminance(grounds.pop()) > 0.5) == (scheme == "light")


COLOURS = """() => {
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const spoken = [...document.querySelectorAll("body *")].filter((one) =>
    one.checkVisibility() && !one.disabled && [...one.childNodes].some((part) => part.nodeType === 3 && part.data.trim()));
  return [...new Set(spoken.map((one) => JSON.stringify([getComputedStyle(one).color, ground(one)])))].map((pair) => JSON.parse(pair));
}"""


def luminance(colour: str) -> float:
    """Give the relative luminance of a CSS colour (WCAG 2.2)."""
    shares = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_conversation(browser: Browser, site: str) -> None:
    """The log is browsed by session; a turn that is linked to is found and marked."""
    with looking(browser, site) as page:
        main = show(page, view(site, "conversation", options="session=monday"))
        assert main.locator(".said .words").all_inner_texts() == [
            text
            for _, said, caption in EVENINGS["monday"]
            for text in (said, caption and f"Image: {caption}")
            if text
        ]
        main.get_by_role("navigation", name="Sessions").get_by_text("wednesday").click()
        main.get_by_text("One bag, next to the flour.").wait_for()
        show(page, view(site, "conversation", options="turn=monday:2"))
        assert page.locator(".said.marked").inner_text().endswith("between two bassoon lessons.")


def test_consolidating(browser: Browser, home: MemoryHome, site: str) -> None:
    """Segments are encoded from the page; their records lead to their turns, and nodes to their records."""
    with looking(browser, site) as page:
        main = show(page, view(site, "segments"))
        main.get_by_label("close open segments too").check()
        main.get_by_role("button", name="What would it cost?").click()
        main.get_by_text("calls, about").or_(main.get_by_text("call, about")).wait_for()
        main.get_by_role("button", name="Consolidate now").click()
        main.locator(".segment.encoded").first.wait_for()
        with home.borrow(MIRA) as memory:
            segments, records = memory.segments.segments(), list(memory.records.records())
            days = [node.key for node in memory.records.nodes() if node.kind.value == "day"]
        assert main.locator(".segment").count() == len(segments)
        reasons = {segment.reason.value.replace("_", " ") for segment in segments}
        assert all(f"closed: {reason}" in main.inner_text() for reason in reasons)
        main = show(page, view(site, "records"))
        assert main.locator(".record > .words").all_inner_texts() == [record.text for record in records]
        main = show(page, view(site, "nodes", options="kind=day"))
        assert main.locator("tbody tr").count() == len(days)
        main = show(page, view(site, "records"))
        main.locator(".record .sources a").first.click()
        page.locator(".said.marked").wait_for()
        main = show(page, view(site, "ask", options="q=bassoon&strategy=planned"))
        card = main.locator(".card").first
        card.wait_for()
        card.hover()
        assert card.locator(".why").is_visible()
        main = show(page, view(site, "status"))
        assert "encode" in main.inner_text()


def fail(_request: Any) -> None:
    raise ModelReplyError("the model wrote <b>nonsense</b>")


def test_failed_segments(browser: Browser, tmp_path: Path) -> None:
    """A segment that failed shows its error, and is tried again on request."""
    scribe = Scribe(before=fail)
    settings = Settings(encoder=EncoderSettings(retry_seconds=0.0, attempts=1))
    with (
        MemoryHome(tmp_path, embedder=EMBEDDER, model=scribe, settings=settings) as home,
        serve_home(home) as site,
    ):
        with home.borrow(MIRA) as memory:
            tell(memory)
            memory.consolidate(flush=True)
        with looking(browser, site) as page:
            main = show(page, view(site, "segments", options="state=failed"))
            assert "the model wrote <b>nonsense</b>" in main.locator(".segment .warning").first.inner_text()
            main.get_by_role("button", name="Try failed ones again").click()
            page.locator("#message", has_text="will be tried again").wait_for()
        with home.borrow(MIRA) as memory:
            assert memory.status().progress.segments.failed == 0


def test_forget(browser: Browser, home: MemoryHome, site: str) -> None:
    """What would go is shown before anything goes, and only what was shown can be forgotten."""
    with home.borrow(MIRA) as memory:
        told = memory.forget(session="monday", dry_run=True)
    with looking(browser, site) as page:
        main = show(page, view(site, "forget", options="session=monday"))
        button = main.get_by_role("button", name="Forget it for good")
        assert button.is_disabled()
        main.get_by_role("button", name="Show what would go").click()
        main.get_by_text("Would go", exact=True).wait_for()
        assert f"turns\t{told.turns}" in main.locator("table").inner_text()
        main.locator("select").nth(1).select_option("tuesday")
        assert button.is_disabled()
        main.locator("select").nth(1).select_option("monday")
        main.get_by_role("button", name="Show what would go").click()
        main.get_by_text("Would go", exact=True).wait_for()
        button.click()
        main.get_by_text("Gone").wait_for()
        with home.borrow(MIRA) as memory:
            assert {turn.session_id for turn in memory.turns()} == set(EVENINGS) - {"monday"}
        main.locator("select").nth(0).select_option("everything")
        main.get_by_role("button", name="Show what would go").click()
        page.locator("#message.bad", has_text="user id").wait_for()
        assert button.is_disabled()


def test_key(browser: Browser, home: MemoryHome) -> None:
    """Where the server asks for a key the page asks its reader, again if it is wrong, and keeps it for this tab."""
    ring = find_keys(home.folder, None)
    try:
        _, key = ring.add("page", right=Right.READ, users=[MIRA])
        with serve_home(home, keys=ring) as site, looking(browser, site, quiet=False) as page:
            for given in ("sj_wrong", key):
                page.goto(view(site, "status"))
                page.get_by_label("API key").fill(given)
                page.get_by_role("button", name="Use it").click()
                if given != key:
                    page.get_by_label("API key").wait_for()
                    page.goto("about:blank")
            page.locator("main table").first.wait_for()
            page.goto(view(site, "ask", options="q=bassoon"))
            page.locator(".timeline .card").first.wait_for()
            assert page.evaluate("localStorage.length + document.cookie.length") == 0
    finally:
        ring.close()


def test_one_file(browser: Browser, tmp_path: Path) -> None:
    """A memory that is one file is looked into as well as a home's."""
    path = tmp_path / "alice.jay"
    with Memory(path, embedder=EMBEDDER) as memory:
        tell(memory)
    with FileHome(path, embedder=EMBEDDER) as home, serve_home(home) as site, looking(browser, site) as page:
        page.goto(site)
        page.wait_for_url(view(site, "ask", "alice"))
        main = show(page, view(site, "conversation", "alice"))
        main.get_by_text("奥列格会吹巴松管").wait_for()


def test_command(browser: Browser, tmp_path: Path) -> None:
    """`scrubjay ui` serves the page for a memory's file until it is ended; without one it says what is missing."""
    path = tmp_path / "alice.jay"
    with Memory(path, embedder=EMBEDDER) as memory:
        tell(memory)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-c",
        "from scrubjay.cli import main; main()",
        "ui",
        "--no-open",
        "--port",
        str(port),
    ]
    missing = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (missing.returncode, "--memory" in missing.stderr) == (2, True)
    with subprocess.Popen([*command, "-m", str(path)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any(f"http://127.0.0.1:{port}/" in line for line in process.stderr)
            with looking(browser, f"http://127.0.0.1:{port}") as page:
                page.goto(f"http://127.0.0.1:{port}")
                page.wait_for_url("**/#/alice/ask")
        finally:
            process.terminate()
            process.stderr.close()
