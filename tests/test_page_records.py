"""The cards of records in the page's Ask view, in a real browser: what each says, and which turns it points at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browsers import looking, open_browser, serve_home, show, view_of
from planned_memories import EVENINGS, remember
from small_memories import EMBEDDER

from scrubjay.home import MemoryHome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator

    from scrubjay.evidence import Evidence

ROWS = "rows => rows.map((row) => [...row.children].map((cell) => cell.textContent))"
QUESTION = "Who plays the bassoon?"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path) -> Iterator[MemoryHome]:
    (tmp_path / "home").mkdir()
    remember(tmp_path / "home" / "mira.jay")
    with MemoryHome(tmp_path / "home", embedder=EMBEDDER) as opened:
        yield opened


@pytest.fixture
def site(home: MemoryHome) -> Iterator[str]:
    with serve_home(home) as address:
        yield address


@pytest.fixture
def evidence(home: MemoryHome) -> Evidence:
    """Give what the page is to show: records whose turns are in the chain and records whose aren't, one with its day."""
    with home.borrow("mira") as memory:
        tries = (
            memory.recall(QUESTION, strategy="planned", max_tokens=tokens) for tokens in range(100, 400, 20)
        )
        return next(found for found in tries if {bool(link.turns) for link in found.records} == {True, False})


def asked(site: str, evidence: Evidence) -> str:
    return view_of(site, "ask", "mira", f"q={QUESTION}&strategy=planned&tokens={evidence.max_tokens}")


def ask(main: Locator) -> Locator:
    """Wait until the evidence is laid out, and give the records' cards."""
    main.locator(".timeline .card").first.wait_for()
    return main.locator(".records-lane .card.record")


def marked(main: Locator) -> set[str]:
    return set(main.locator(".turn.marked").evaluate_all("cards => cards.map((card) => card.id)"))


def test_each_record_is_a_card(browser: Browser, site: str, evidence: Evidence) -> None:
    """Each record of the evidence has a card, in order: its number, type, score, words, and the turns it came from."""
    with looking(browser, site) as page:
        main = show(page, asked(site, evidence))
        cards = ask(main)
        assert cards.count() == len(evidence.records)
        for place, link in enumerate(evidence.records):
            told = cards.nth(place).inner_text()
            assert f"[{link.number}]" in told
            assert link.record.text in told
            assert link.record.type.value in told
            chips = cards.nth(place).locator(".sources a[href^='#turn-']").all_inner_texts()
            assert chips == [f"[{number}]" for number in link.turns]
            hidden = len(link.turn_ids) - len(link.turns)
            assert ("not shown" in told) == (hidden > 0)


@pytest.mark.parametrize("way", ["hover", "focus"])
def test_a_card_tells_why(browser: Browser, site: str, evidence: Evidence, way: str) -> None:
    """Hovered or focused a card tells its reason, rank and score in every channel, when it happened and what bears it out."""
    with looking(browser, site) as page:
        main = show(page, asked(site, evidence))
        cards = ask(main)
        for place, link in enumerate(evidence.records):
            card = cards.nth(place)
            assert not card.locator(".why").is_visible()
            card.hover() if way == "hover" else card.focus()
            assert link.reason in card.locator(".why p").inner_text()
            told = card.locator(".why dl > div").evaluate_all(ROWS)
            expected = {
                name: f"rank {score.rank}, {score.score:.3f}" for name, score in link.channels.items()
            }
            if link.record.time.t_ref is not None:
                expected["happened"] = link.record.time.t_ref
            expected["stance"] = link.record.stance.value
            expected["support"] = "its words stand in its turns"
            assert dict(told) == expected


@pytest.mark.parametrize("way", ["hover", "focus"])
def test_a_card_marks_its_turns(browser: Browser, site: str, evidence: Evidence, way: str) -> None:
    """While a card is hovered or focused its turns on the timeline are marked, those alone, and afterwards none is."""
    with looking(browser, site) as page:
        main = show(page, asked(site, evidence))
        cards = ask(main)
        for place, link in enumerate(evidence.records):
            cards.nth(place).hover() if way == "hover" else cards.nth(place).focus()
            assert marked(main) == {f"turn-{number}" for number in link.turns}
        page.mouse.move(0, 0)
        page.get_by_label("Question").focus()
        assert marked(main) == set()


def test_a_card_leads_to_its_turns(browser: Browser, site: str, evidence: Evidence) -> None:
    """A turn's number on a card leads to the turn's card; a turn that isn't in the chain is shown in its conversation."""
    shown = next(place for place, link in enumerate(evidence.records) if link.turns)
    absent = next(place for place, link in enumerate(evidence.records) if not link.turns)
    with looking(browser, site) as page:
        main = show(page, asked(site, evidence))
        ask(main).nth(shown).locator(".sources a").first.click()
        number = evidence.records[shown].turns[0]
        assert page.evaluate("document.activeElement.id") == f"turn-{number}"
        assert main.locator(f"#turn-{number} .why").is_visible()
        assert page.url.count("#") == 1  # the address still says what was asked
        ask(main).nth(absent).locator(".sources a").click()
        main.locator(".said.marked").wait_for()
        turn_id = evidence.records[absent].turn_ids[0]
        with_words = EVENINGS[turn_id.partition(":")[0]][int(turn_id.partition(":")[2])][1]
        assert with_words in main.locator(".said.marked").inner_text()
