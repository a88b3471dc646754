"""Planned reading end to end: records and turns together, each for a reason, within a budget, and nothing written."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest
from models import scripted_model
from planned_memories import EVENINGS, MARCH, RECORDS, recollect, record, remember
from small_memories import EMBEDDER, fill, run_python

from scrubjay.datatypes import DatePrecision, Purpose, TimeRange
from scrubjay.errors import QuestionError, SettingsError
from scrubjay.memory import Memory
from scrubjay.plan import plan_by_rules
from scrubjay.presets import PRESETS
from scrubjay.reading import HURRIED, LATE_RECALL, ask, read_evidence
from scrubjay.reading_settings import ALL_CHANNELS, RecallChannel
from scrubjay.reranking import LATE
from scrubjay.settings import Settings
from scrubjay.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrubjay.evidence import Evidence

NOW = datetime(2024, 4, 2, 9, 15, tzinfo=UTC)
BASSOON = "Who plays the bassoon?"
FROM_RECORDS = tuple(channel for channel in ALL_CHANNELS if channel is not RecallChannel.TURNS)
QUESTIONS = (
    BASSOON,
    "Where did Jonas sleep?",
    "What happened on 11 March 2024?",
    "What should I cook for Mira?",
    "pistachio",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "memory.jay"
    remember(found)
    return found


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with recollect(path) as opened:
        yield opened


def statements(evidence: Evidence) -> list[str]:
    return [link.record.text for link in evidence.records]


def with_channels(*channels: RecallChannel) -> Settings:
    settings = Settings()
    recall = replace(settings.reading.recall, channels=channels)
    return replace(settings, reading=replace(settings.reading, recall=recall))


# --- which strategy runs ---


def test_auto_is_planned_where_records_are(memory: Memory, tmp_path: Path) -> None:
    """The evidence names what ran: a plan where there are records, the chain where not or where it is asked for."""
    assert memory.recall(BASSOON, now=NOW).strategy == "planned"
    assert memory.recall(BASSOON, now=NOW, strategy="chain").strategy == "chain"
    with Memory(tmp_path / "bare.jay", embedder=EMBEDDER) as bare:
        assert fill(bare).recall(BASSOON).strategy == "chain"
        planned = bare.recall(BASSOON, strategy="planned")
    assert (planned.strategy, planned.records) == ("planned", ())
    assert "bassoon" in planned.text


def test_an_unknown_strategy_is_refused(memory: Memory) -> None:
    """With the names there are."""
    with pytest.raises(QuestionError, match="one of auto, chain, planned, found 'plannd'"):
        memory.recall(BASSOON, strategy="plannd")


def test_a_late_read_takes_the_chain(memory: Memory) -> None:
    """Past its deadline a read is not planned any more, and the trace says so."""
    evidence = memory.recall(BASSOON, now=NOW, deadline=1e-9)
    assert evidence.strategy == "chain"
    assert any("deadline" in stage.fallback for stage in evidence.trace)


@pytest.mark.parametrize("reranker", [None, "overlap"])
def test_wherever_time_runs_out_there_is_evidence(path: Path, reranker: str | None) -> None:
    """A read looks at its deadline before each stage; what it then falls back to is in the trace, and keeps the budget."""
    settings = replace(Settings(), rerank=replace(Settings().rerank, reranker=reranker))
    told: list[tuple[str, ...]] = []
    with recollect(path, settings) as memory:
        for seconds in range(1, 40):
            clock = partial(next, itertools.count(0.0))  # goes on by a second each time it is looked at
            trace = Trace(deadline=seconds, clock=clock)
            asked = replace(
                ask(BASSOON, most=90, deadline=seconds, now=NOW, time_range=None, asker=None),
                plan=plan_by_rules(BASSOON, now=NOW),
            )
            evidence = read_evidence(asked, memory._read_path(), trace)
            assert "bassoon" in evidence.text
            assert evidence.tokens <= 90
            told.append(tuple(stage.fallback for stage in evidence.trace if stage.fallback))
            assert (evidence.strategy == "chain") == (HURRIED in told[-1])
    reranking = [(LATE, HURRIED)] if reranker else []
    assert list(dict.fromkeys(told)) == [(HURRIED,), (LATE_RECALL, HURRIED), *reranking, ()]


def test_a_model_is_asked_once(path: Path) -> None:
    """The plan takes one call, the chain none."""
    plan = {
        "question_type": "comparison",
        "time_range": None,
        "routes": [
            {"goal": "music", "queries": ["plays the bassoon"]},
            {"goal": "ferry", "queries": ["slept in the harbour"]},
        ],
    }
    with (
        scripted_model(json.dumps(plan)) as (model, script),
        Memory(path, embedder=EMBEDDER, model=model) as memory,
    ):
        memory.recall(BASSOON, now=NOW, strategy="chain")
        assert not script.prompts
        evidence = memory.recall("Bassoon or ferry?", now=NOW)
    assert len(script.prompts) == 1
    assert [(usage.stage, usage.calls) for usage in evidence.usage] == [("plan", 1)]
    assert evidence.question_type == "comparison"
    assert {"kitchen:2", "ferry:0"} <= set(evidence.covered_turn_ids)


# --- what is shown ---


def test_a_record_says_why_it_is_there(memory: Memory) -> None:
    """Rank and score in each channel, the turns it was made from, and what it was chosen for."""
    evidence = memory.recall(BASSOON, now=NOW, max_tokens=60)
    link = next(link for link in evidence.records if "bassoon" in link.record.text)
    assert link.turn_ids == ("kitchen:2",)
    assert (link.channels["records"].rank, link.rank) == (1, 1)
    assert "records #1" in link.reason
    assert evidence.text.split("\n")[link.number + 1].startswith(f"[{link.number}] fact")
    document = evidence.to_dict()
    assert json.loads(json.dumps(document)) == document


def test_numbers_run_through(memory: Memory) -> None:
    """Records come first, then turns; each number stands once, and a record names its turns that are shown."""
    evidence = memory.recall("What do Mira and Jonas tell of the kitchen, the ferry and the dog?", now=NOW)
    numbers = [*(link.number for link in evidence.records), *(link.number for link in evidence.links)]
    assert numbers == list(range(1, len(numbers) + 1))
    number_of = {link.turn.turn_id: link.number for link in evidence.links}
    for link in evidence.records:
        assert link.turns == tuple(number_of[one] for one in link.turn_ids if one in number_of)


def test_covered_turns(memory: Memory) -> None:
    """Turns count that are shown, or that a record of three at most stands for; each once."""
    evidence = memory.recall(BASSOON, now=NOW)
    shown = {link.turn.turn_id for link in evidence.links}
    made_from = {turn for link in evidence.records for turn in link.turn_ids}
    assert set(evidence.covered_turn_ids) == shown | made_from
    assert len(set(evidence.covered_turn_ids)) == len(evidence.covered_turn_ids)


def test_a_wide_record_stands_for_no_turn(tmp_path: Path) -> None:
    """A record of more than three turns leads to them; it doesn't tell what each of them said."""
    wide = record("Mira and Jonas spoke of pistachio.", *(f"kitchen:{index}" for index in range(4)))
    remember(tmp_path / "m.jay", [wide])
    with recollect(tmp_path / "m.jay") as memory:
        evidence = memory.recall("pistachio", now=NOW)
    assert set(evidence.covered_turn_ids) == {link.turn.turn_id for link in evidence.links}


def test_unsupported_records_come_last(path: Path) -> None:
    """What no turn bears out is shown after all else, and marked."""
    with recollect(path, with_channels(*FROM_RECORDS)) as memory:
        evidence = memory.recall("Does Jonas own a submarine in Murmansk?", now=NOW)
    ranks = {link.record.support.supported: link.rank for link in evidence.records}
    assert ranks[False] == max(link.rank for link in evidence.records)
    assert "fact, unsupported, Mira: Jonas owns a submarine" in evidence.text


def test_advice_goes_by_the_person(memory: Memory) -> None:
    """What somebody likes and can't have comes first, whatever the question's words; another's doesn't."""
    evidence = memory.recall("What should I serve for Mira at the party?", now=NOW, max_tokens=80)
    assert evidence.question_type == "personalized_advice"
    first = min(evidence.records, key=lambda link: link.rank)
    assert first.record.text == "Mira can't eat walnuts."
    anyone = memory.recall("Any ideas for a party?", now=NOW, max_tokens=100)
    assert {"Mira can't eat walnuts.", "Jonas can't stand coriander."} <= set(statements(anyone))


def test_time_finds_what_was_then(path: Path) -> None:
    """A record of the day asked about is found by that alone."""
    with recollect(path, with_channels(RecallChannel.RECORDS, RecallChannel.TIME)) as memory:
        evidence = memory.recall("What happened to whom on 11 March 2024?", now=NOW)
    link = next(link for link in evidence.records if "harbour" in link.record.text)
    assert link.channels["time"].score == 1


def test_a_time_range_leaves_out_all_else(memory: Memory) -> None:
    """Records count only for turns that were said in it."""
    week = TimeRange(
        start=MARCH, end=MARCH + timedelta(days=1), precision=DatePrecision.DAY, text="that evening"
    )
    evidence = memory.recall("Jonas, ferry, bassoon, walnuts", now=NOW, time_range=week)
    assert {turn.partition(":")[0] for turn in evidence.covered_turn_ids} == {"kitchen"}


def test_nothing_relevant(memory: Memory) -> None:
    """What the memory doesn't know gives no evidence."""
    evidence = memory.recall("zzyzx quux", now=NOW)
    assert (evidence.text, evidence.records, evidence.links) == ("", (), ())


@pytest.mark.parametrize("most", [1, 20, 40, 80, 160, 320])
def test_the_budget_holds(memory: Memory, most: int) -> None:
    """Whatever it is."""
    evidence = memory.recall("Mira, Jonas, Oleg, ferry and kitchen", now=NOW, max_tokens=most)
    assert evidence.tokens <= most


@pytest.mark.parametrize("channel", ALL_CHANNELS)
def test_every_channel_can_be_left_out(path: Path, channel: RecallChannel) -> None:
    """And what it finds is no reason any more."""
    kept = tuple(other for other in ALL_CHANNELS if other is not channel)
    with recollect(path, with_channels(*kept)) as memory:
        evidence = memory.recall(BASSOON, now=NOW)
    assert evidence.records
    assert not any(channel in link.channels for link in evidence.records)
    assert bool(evidence.links) == (channel is not RecallChannel.TURNS)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_reads(path: Path, name: str) -> None:
    """By its name, from the same memory; the paper's answer with its top results."""
    with recollect(path, Settings.preset(name)) as memory:
        for question in QUESTIONS:
            evidence = memory.recall(question, now=NOW)
            assert evidence.text
            assert evidence.strategy == ("chain" if name.startswith("cod") else "planned")


def test_an_unknown_preset_is_refused() -> None:
    """With the names there are."""
    with pytest.raises(SettingsError, match="lychee-v2"):
        Settings.preset("lychee")


def test_an_assistants_words_bring_what_is_around_them(path: Path) -> None:
    """A question for what was told earlier restores the turns beside each turn found."""
    with recollect(path, with_channels(RecallChannel.TURNS)) as memory:
        evidence = memory.recall("Remind me who plays the bassoon", now=NOW)
    assert evidence.question_type == "prior_assistant_response"
    neighbours = [link for link in evidence.links if link.anchor is not None]
    assert neighbours
    assert all(link.reason.startswith("beside [") for link in neighbours)


def test_a_short_answer_stands_with_its_question(path: Path) -> None:
    """A turn that is shown brings what it can't well be read without, with the reason."""
    with recollect(path, with_channels(RecallChannel.TURNS)) as memory:
        evidence = memory.recall("What did Pepper do until the boat to Visby?", now=NOW)
    shown = {link.turn.text: link for link in evidence.links}
    answer = shown["With Pepper, yes. She snored until the 05:40 boat to Visby."]
    question = shown["In the car? With the dog?"]
    assert question.purpose is Purpose.QUESTION
    assert question.anchor == answer.number
    assert question.reason.startswith(f"the question that [{answer.number}] answers")


def test_no_neighbour_is_restored_where_none_is_wanted(path: Path) -> None:
    """Without `need` every turn stands for itself."""
    chosen = with_channels(RecallChannel.TURNS)
    selection = replace(chosen.reading.selection, need=0.0)
    with recollect(path, replace(chosen, reading=replace(chosen.reading, selection=selection))) as memory:
        evidence = memory.recall("What did Pepper do until the boat to Visby?", now=NOW)
    assert {link.purpose for link in evidence.links} == {None}


# --- the same evidence, and no trace of reading ---


@pytest.mark.parametrize("preset", ["default", "lychee-v2"])
def test_order_of_writing_changes_nothing(tmp_path: Path, preset: str) -> None:
    """Sessions and records written in another order give the same text, ties and all."""
    twice = {**EVENINGS, "kitchen again": EVENINGS["kitchen"]}
    records = [*RECORDS, record("Oleg plays the bassoon well.", "kitchen again:2")]
    days = {name: week for week, name in enumerate(twice)}
    texts = []
    for name, order in (("one.jay", list(twice)), ("other.jay", list(reversed(twice)))):
        with Memory(tmp_path / name, embedder=EMBEDDER, settings=Settings.preset(preset)) as memory:
            for session_id in order:
                said_at = MARCH + timedelta(weeks=days[session_id])
                memory.add(
                    [{"role": "user", "name": who, "content": text} for who, text in twice[session_id]],
                    session_id=session_id,
                    said_at=said_at,
                )
        remember(tmp_path / name, records, {})
        with recollect(tmp_path / name, Settings.preset(preset)) as memory:
            texts.append([memory.recall(question, now=NOW).text for question in QUESTIONS])
    assert texts[0] == texts[1]


RECALL = """
import sys
from planned_memories import recollect
from test_planned import NOW, QUESTIONS
with recollect(sys.argv[1]) as memory:
    for question in QUESTIONS:
        sys.stdout.buffer.write(memory.recall(question, now=NOW).text.encode())
"""


def test_another_process_reads_the_same(path: Path, memory: Memory) -> None:
    """With other hash seeds, byte by byte."""
    here = "".join(memory.recall(question, now=NOW).text for question in QUESTIONS)
    for seed in ("1", "2"):
        assert run_python(RECALL, str(path), PYTHONHASHSEED=seed).stdout == here


def test_a_planned_read_writes_nothing(path: Path) -> None:
    """The file stays as it was to the byte, whoever reads."""
    before = path.read_bytes()
    for name in ("default", "lychee-v2"):
        with recollect(path, Settings.preset(name)) as memory:
            for question in QUESTIONS:
                memory.recall(question, now=NOW)
    assert path.read_bytes() == before
    assert not path.with_name(f"{path.name}-wal").exists()


def test_forgotten_turns_take_their_records_along(path: Path) -> None:
    """A memory that is open finds neither any more."""
    with recollect(path, read_only=False) as memory:
        assert "bassoon" in memory.recall(BASSOON, now=NOW).text
        memory.forget(turn="kitchen:2")
        assert "bassoon" not in memory.recall(BASSOON, now=NOW).text
