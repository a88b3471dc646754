"""The paper's ablations by replay: what is counted, what is found, and what can't be told without a recording."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scrubjay.bench.ablation import Grounds, Outcome, measure_variants, readable_variants
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.tables import ablation_document, construction_tokens, lay_out, write_markdown
from scrubjay.bench.variants import find_variants, read_range, threshold_variants
from scrubjay.embed import load_embedder
from scrubjay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scrubjay.bench.variants import Variant

SAID = {
    "s1": (
        ("Ida", "I rowed across the lake on Saturday, all alone."),
        ("Per", "Was the water calm?"),
        ("Ida", "It was, until the rain came."),
        ("Per", "By the way, did you find a flat in Bergen?"),
        ("Ida", "Yes, two rooms near the harbour."),
        ("Per", "Lucky you! What is the rent?"),
    ),
    "s2": (
        ("Per", "My sister Tove has a new dog, a poodle called Nils."),
        ("Ida", "A poodle! Does it bark much?"),
        ("Per", "All night long."),
    ),
}
CITED = {"s1": (("s1:0", "s1:2"), ("s1:4",)), "s2": (("s2:0",),)}
STATEMENTS = {
    "s1:0": "Ida rowed across the lake until it rained.",
    "s1:4": "Ida found a flat with two rooms near the harbour of Bergen.",
    "s2:0": "Per's sister Tove has a poodle called Nils.",
}
QUESTIONS: tuple[tuple[str, str, list[str]], ...] = (
    ("How did Ida cross the lake?", "single-hop", ["s1:0"]),
    ("Where is Ida's flat?", "single-hop", ["s1:4"]),
    ("What is the name of Tove's dog?", "multi-hop", ["s2:0"]),
    ("What does Ida study?", "unanswerable", []),
)


def conversation() -> dict[str, object]:
    return {
        "id": "lake",
        "title": "At the lake",
        "kind": "friends",
        "languages": ["en"],
        "license": "CC0-1.0",
        "about": "A crossing, a flat and a dog.",
        "sessions": [
            {
                "session_id": session,
                "turns": [
                    {
                        "id": f"{session}:{place}",
                        "role": "user",
                        "speaker": speaker,
                        "text": text,
                        "said_at": f"2024-05-0{number}T10:0{place}:00+02:00",
                    }
                    for place, (speaker, text) in enumerate(said)
                ],
            }
            for number, (session, said) in enumerate(SAID.items(), start=1)
        ],
        "questions": [
            {"question": text, "category": category, "answer": "", "evidence": evidence}
            for text, category, evidence in QUESTIONS
        ],
    }


def recording() -> dict[str, object]:
    return {
        "lake": [
            {
                "turns": [f"{session}:{place}" for place in places],
                "topic": "",
                "records": [
                    {
                        "memory_type": "fact",
                        "semantic_text": STATEMENTS[cited[0]],
                        "entities": ["Ida"],
                        "tags": [],
                        "temporal": {},
                        "evidence": list(cited),
                        "speaker": "Ida",
                    }
                    for cited in CITED[session]
                    if int(cited[0][-1]) in places
                ],
            }
            for session, places in (("s1", range(3)), ("s1", range(3, 6)), ("s2", range(3)))
        ]
    }


@pytest.fixture
def grounds(tmp_path: Path) -> Grounds:
    (tmp_path / "lake.json").write_text(json.dumps(conversation()), "utf-8")
    (tmp_path / "records.json").write_text(json.dumps(recording()), "utf-8")
    return Grounds(
        dataset=load_dataset("labelled", tmp_path / "lake.json"),
        path=tmp_path / "lake.json",
        records=tmp_path / "records.json",
        max_tokens=300,
        embedder=load_embedder("hash:64"),
    )


def measure(variants: Sequence[Variant], grounds: Grounds) -> dict[str, Outcome]:
    return {outcome.variant.name: outcome for outcome in measure_variants(variants, grounds)}


def test_construction_is_counted(grounds: Grounds) -> None:
    """A call a turn costs most, a call a session least; every turn is in a segment, and boundaries are compared."""
    found = measure(find_variants("construction"), grounds)
    calls = {name: outcome.spent.calls for name, outcome in found.items()}
    assert calls["eager-turn"] == 9
    assert calls["session"] == 2
    assert calls["session"] <= calls["default"] <= calls["eager-turn"]
    assert construction_tokens(found["eager-turn"]) > construction_tokens(found["session"]) > 0
    assert {outcome.spent.turns for outcome in found.values()} == {9}
    exact = found["eager-turn"].exact
    assert exact is not None
    assert exact.recall[0] == 1.0  # it cuts everywhere, so also where the recording does
    assert exact.precision[0] == pytest.approx(1 / 7)


def test_the_input_is_the_requests(grounds: Grounds) -> None:
    """Tokens of a replayed construction are those of its requests and replies, near what a dry run reckons."""
    variant = find_variants("construction")[0]
    replayed = measure([variant], grounds)["default"].spent
    reckoned = measure([variant], replace(grounds, records=None))["default"].spent
    assert replayed.calls == reckoned.calls
    assert replayed.input_tokens == pytest.approx(reckoned.input_tokens, rel=0.3)
    assert replayed.output_tokens > 0


def test_representations_are_read(grounds: Grounds) -> None:
    """Records alone stand for their turns, turns alone cost nothing to make, and summaries lead to what they cite."""
    found = measure(find_variants("representation"), grounds)
    shown = {name: outcome.covered.overall["R@300tok"] for name, outcome in found.items() if outcome.covered}
    led_to = {name: outcome.reached.overall["R@300tok"] for name, outcome in found.items() if outcome.reached}
    assert shown["records+turns"].questions == 3  # the one without an answer isn't asked
    assert shown["records+turns"].mean == shown["records"].mean == shown["turns"].mean == 1.0
    assert all(led_to[name].mean >= shown[name].mean for name in shown)
    assert construction_tokens(found["turns"]) == 0
    assert construction_tokens(found["summaries"]) < construction_tokens(found["records"])
    assert found["records"].spent == found["records+turns"].spent
    assert found["turns"].query_tokens is not None
    assert found["turns"].query_tokens > 300  # the context, and the instructions around it


def test_retrieval_reads_one_memory(grounds: Grounds) -> None:
    """Every way to read is measured on the same records."""
    variants = find_variants("retrieval")
    found = measure(variants, grounds)
    assert list(found) == [variant.name for variant in variants]
    assert len({outcome.spent.calls for outcome in found.values()}) == 1
    assert all(outcome.covered is not None for outcome in found.values())


def test_thresholds_are_swept(grounds: Grounds) -> None:
    """The higher the threshold, the fewer the calls."""
    outcomes = list(
        measure(threshold_variants(read_range("0.1..0.9", step=0.4), preset="lychee-v2"), grounds).values()
    )
    assert [outcome.variant.name for outcome in outcomes] == ["0.10", "0.50", "0.90"]
    calls = [outcome.spent.calls for outcome in outcomes]
    assert calls == sorted(calls, reverse=True)
    assert calls[0] > calls[-1]


def test_tables_and_documents_say_the_same(grounds: Grounds) -> None:
    """What is printed, written as a page, and given as JSON is one set of figures."""
    variants = find_variants("construction")
    outcomes = measure_variants(variants, grounds)
    costs, evidence = lay_out("construction", outcomes, grounds)
    document = ablation_document("construction", outcomes, grounds)
    assert [row[0] for row in costs.rows] == [row[0] for row in evidence.rows] == [v.name for v in variants]
    assert all(len(row) == len(costs.columns) for row in costs.rows)
    assert all(len(row) == len(evidence.columns) for row in evidence.rows)
    row = json.loads(json.dumps(document))["variants"][2]
    assert row["variant"] == "eager-turn"
    assert f"{row['construction_tokens'] / 1000:.1f}" in costs.rows[2]
    page = write_markdown([costs, evidence])
    assert sum(line.startswith("| default |") for line in page) == 2


def test_without_a_recording(grounds: Grounds) -> None:
    """Cost is reckoned, reading without records is measured, and what needs records is refused."""
    bare = replace(grounds, records=None, path=None)
    variants = readable_variants("construction", find_variants("construction"), bare)
    outcomes = measure_variants(variants, bare)
    (table,) = lay_out("construction", outcomes, bare)
    assert "reckoned" in table.title
    assert not any("boundaries" in column for column in table.columns)
    chains = readable_variants("retrieval", find_variants("retrieval"), bare)
    assert {variant.name for variant in chains} == {
        "chain",
        "cod-relevance",
        "cod-diversity",
        "cod-coverage",
        "cod",
    }
    assert all(outcome.covered is not None for outcome in measure_variants(chains, bare))
    with pytest.raises(SettingsError, match="--records"):
        readable_variants("representation", find_variants("representation"), bare)


@pytest.mark.parametrize("text", ["", "a..b", "0.5..0.3", "0..1", "0.3..", "1.5", "nan"])
def test_what_is_no_range(text: str) -> None:
    """A range is two rising probabilities, or one; anything else is refused and shown."""
    with pytest.raises(SettingsError, match="range"):
        read_range(text, step=0.1)


def test_ranges() -> None:
    """Both ends belong to a range."""
    assert read_range("0.30..0.70", step=0.1) == (0.3, 0.4, 0.5, 0.6, 0.7)
    assert read_range("0.5", step=0.1) == (0.5,)


def test_names_are_checked() -> None:
    """An unknown ablation or preset is refused with those there are."""
    with pytest.raises(SettingsError, match="construction, representation, retrieval"):
        find_variants("answers")
    with pytest.raises(SettingsError, match="lychee-v2"):
        threshold_variants([0.5], preset="nobody")
