"""What is shown of what was found: each link with its reason in words and its probability."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scrubjay import Memory, Settings
from scrubjay.datatypes import Purpose
from scrubjay.results import percent

if TYPE_CHECKING:
    from scrubjay.settings import ChainSettings

TALK = (
    ("Ana", "We drove to the coast and ate far too much fish."),
    ("Ana", "And what is the name of that new colleague of yours?"),
    ("Ben", "Marmaduke Featherstone"),
    ("Ana", "My sister wants to paint the shed green."),
)
WIDE = replace(Settings().chain, need=0.0, anchors=1, before=1, after=1)


@pytest.mark.parametrize(
    ("chain", "purpose", "reason"),
    [
        (Settings().chain, Purpose.QUESTION, "the question that [{}] answers"),
        (WIDE, Purpose.WINDOW, "beside [{}]"),
    ],
    ids=["needed to read", "whatever it says"],
)
def test_a_link_says_why_it_is_there(chain: ChainSettings, purpose: Purpose, reason: str) -> None:
    """In words, by its purpose, and with its probability; the document has all three."""
    settings = replace(Settings(), chain=chain)
    with Memory(":memory:", settings=settings) as memory:
        memory.add([{"role": "user", "name": who, "content": text} for who, text in TALK], session_id="s")
        evidence = memory.recall("Marmaduke Featherstone", strategy="chain")
    links = {link.turn.text: link for link in evidence.links}
    asked, answer = links[TALK[1][1]], links[TALK[2][1]]
    assert (asked.purpose, asked.anchor, answer.purpose) == (purpose, answer.number, None)
    assert asked.reason.startswith(reason.format(answer.number))
    for link in evidence.links:
        assert f"{percent(link.probability)} likely evidence" in link.reason
    document = evidence.to_dict()["links"]
    assert isinstance(document, list)
    for link, shown in zip(evidence.links, document, strict=True):
        assert isinstance(shown, dict)
        assert shown["probability"] == round(link.probability, 6)
        assert shown["purpose"] == (None if link.purpose is None else link.purpose.value)


def test_small_and_great_probabilities_stay_doubtful() -> None:
    """Nothing is written as impossible or certain."""
    written = {chance: percent(chance) for chance in (0.0001, 0.01, 0.123, 0.994, 0.999)}
    assert list(written.values()) == ["< 1 %", "1 %", "12 %", "99 %", "> 99 %"]


@pytest.mark.parametrize(
    ("question", "text", "words"),
    [
        ("What did Ana's sister decide?", "my sister decided to stay", ("sister", "decide")),
        ("Wann kaufte sie die Möhren?", "heute habe ich Möhren gekauft", ("Möhren",)),
        ("¿Dónde fueron las CLASES de cerámica?", "la clase de ceramica", ("CLASES", "cerámica")),
        ("Когда он видел кошку?", "у нас живут кошки", ("кошку",)),
        ("小满的击剑课在哪家剑馆上？", "我今天去上击剑课", ("击剑课",)),
        ("Where is RMA-1234 now?", "it is 1234, I think", ("1234",)),
        ("Where is RMA-1234 now?", "rma1234 left today", ("RMA-1234",)),
    ],
)
def test_reasons_are_written_in_words_of_the_question(
    question: str, text: str, words: tuple[str, ...]
) -> None:
    """What a turn was first with is told in the question's words as they are written, in any language."""
    with Memory(":memory:") as memory:
        memory.add({"role": "user", "content": text}, session_id="s")
        (link,) = memory.recall(question, strategy="chain").links
    assert link.new_terms == words
    assert link.reason.endswith(f"first with {', '.join(words)}")
