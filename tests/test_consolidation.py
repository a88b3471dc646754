"""Consolidation from end to end: what is encoded, in which order, at what cost, and where it stops."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from models import scripted_model, serve_tiny_model
from scribes import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Scribe,
    cited,
    most,
    open_eager,
    spent_tokens,
    states,
    told,
)
from small_memories import EMBEDDER, PATIENCE, fill, open_memory, say, wait_until

from scrubjay import Memory, Settings
from scrubjay.bench.replay import load_replay
from scrubjay.embed import count_tokens, load_embedder
from scrubjay.errors import InputError, SettingsError, StoreReadOnlyError
from scrubjay.formats import read_conversations
from scrubjay.settings import ChatSettings, EncoderSettings
from scrubjay.terms import hash_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrubjay.llm import ChatRequest

FACTS = ("Pepper is a beagle.", "Oleg plays the bassoon.", "Mira lives in Visby.", "Jonas bakes rye bread.")


@pytest.fixture
def scribe() -> Scribe:
    return Scribe()


@pytest.fixture
def eager(tmp_path: Path, scribe: Scribe) -> Iterator[Memory]:
    """Give an empty memory whose turns are each a segment, with a model that repeats them."""
    with open_eager(tmp_path / "memory.jay", scribe) as opened:
        yield opened


# --- what becomes of turns ---


def test_turns_become_records(eager: Memory) -> None:
    """Every turn ends in a segment that is encoded, and its record cites it."""
    ids = say(eager, *FACTS)
    report = eager.consolidate(flush=True)
    assert (report.closed, report.encoded, report.records, report.failed) == (4, 4, 4, 0)
    assert (report.stopped, report.retry_at) == ("", None)
    assert told(eager) == list(FACTS)
    assert cited(eager) == sorted(ids)
    assert states(eager) == (0, 0, 4, 0)
    assert eager.doctor() == ()
    again = eager.consolidate(flush=True)
    assert (again.encoded, again.usage) == (0, ())


def test_the_last_turn_stays_open(eager: Memory) -> None:
    """What may go on stays open until more is said, a flush, or long enough silence."""
    say(eager, *FACTS[:2])
    say(eager, *FACTS[2:], session_id="tuesday")
    eager.consolidate()
    assert states(eager) == (2, 0, 2, 0)
    eager.consolidate(idle=timedelta(hours=1))
    assert states(eager) == (2, 0, 2, 0)
    eager.consolidate(idle=timedelta(0))
    assert states(eager) == (0, 0, 4, 0)


def test_said_again(eager: Memory) -> None:
    """The same statement in another session is the same record, with the turns of both."""
    say(eager, FACTS[0])
    say(eager, FACTS[0], session_id="tuesday")
    report = eager.consolidate(flush=True)
    assert (report.records, report.repeated) == (1, 1)
    (record,) = eager.records.records()
    assert record.turn_ids == ("monday:0", "tuesday:0")


def test_small_conversation(tmp_path: Path, scribe: Scribe) -> None:
    """With the segments of every day, all sessions are encoded, whatever their language."""
    with Memory(tmp_path / "m.jay", embedder=EMBEDDER, model=scribe) as memory:
        fill(memory)
        memory.consolidate(flush=True)
        assert len(told(memory)) == 11
        assert "我昨天在上海买了一把小提琴。" in told(memory)
        assert len(scribe.asked) == len(memory.segments.segments()) < 11


def test_earlier_segments_are_referred_to(eager: Memory, scribe: Scribe) -> None:
    """A segment's encoder sees the session's last note and records, and those of no other session."""
    say(eager, *FACTS[:2])
    say(eager, *FACTS[2:], session_id="tuesday")
    eager.consolidate(flush=True)
    references = {request.turn_ids[0]: request.user.partition("<turns>")[0] for request in scribe.asked}
    assert references["monday:0"] == references["tuesday:0"] == ""
    assert f"After {FACTS[0]}\n- {FACTS[0]}" in references["monday:1"]
    assert f"After {FACTS[2]}\n- {FACTS[2]}" in references["tuesday:1"]


def test_recalled_memory_is_not_said_again(eager: Memory, scribe: Scribe) -> None:
    """What an agent recalls and pastes into a conversation makes no record, nor does it reach the model."""
    say(eager, *FACTS)
    eager.consolidate(flush=True)
    recalled = eager.recall("Who plays the bassoon?").text
    assert FACTS[1] in recalled
    before = list(eager.records.records())
    eager.add(
        [
            {"role": "system", "content": f"Be brief.\n{recalled}"},
            {"role": "user", "content": f"{recalled}\nMy train leaves at nine."},
        ],
        session_id="tuesday",
    )
    eager.consolidate(flush=True)
    assert [record.text for record in eager.records.records()] == [*FACTS, "My train leaves at nine."]
    assert list(eager.records.records())[:4] == before
    assert "bassoon" not in scribe.asked[-1].user
    assert recalled in eager.turn("tuesday:1").text  # the log keeps all of it


def test_nothing_to_say(eager: Memory, scribe: Scribe) -> None:
    """A segment of instructions alone is done without a call, and leaves no cost behind."""
    eager.add({"role": "system", "content": "Be brief."}, session_id="monday")
    report = eager.consolidate(flush=True)
    assert (report.encoded, report.records, report.usage) == (1, 0, ())
    assert (scribe.asked, eager.segments.usage()) == ([], ())
    assert states(eager) == (0, 0, 1, 0)


# --- limits, cost, order ---


def test_budget_stops_it(eager: Memory) -> None:
    """A budget ends it after the call that spends it, says what is left, and the next run goes on."""
    say(eager, *FACTS)
    report = eager.consolidate(limits=most(budget_tokens=2 * (INPUT_TOKENS + OUTPUT_TOKENS)), flush=True)
    assert report.encoded == 2
    assert report.stopped == "the budget of 220 tokens is spent; 2 segments left: run it again"
    assert states(eager) == (0, 2, 2, 0)
    assert eager.consolidate().stopped == ""
    assert told(eager) == list(FACTS)


def test_most_segments(eager: Memory) -> None:
    """A number of segments ends it, which is no stop where there are no more."""
    say(eager, *FACTS)
    report = eager.consolidate(limits=most(3), flush=True)
    assert (report.encoded, report.turns.pending) == (3, 1)
    assert "the limit of 3 segments is reached; 1 segment left" in report.stopped
    assert eager.consolidate(limits=most(1)).stopped == ""


@pytest.mark.parametrize("limits", [most(0), most(budget_tokens=0), most(workers=0)])
def test_limits_that_nothing_meets(eager: Memory, limits: object) -> None:
    """A limit of nothing is a mistake, told before anything is done."""
    say(eager, *FACTS)
    with pytest.raises(InputError, match="expected at least 1, found 0"):
        eager.consolidate(limits=limits, flush=True)  # type: ignore[arg-type] # what most() gives
    assert states(eager) == (4, 0, 0, 0)


def test_sessions_side_by_side(tmp_path: Path) -> None:
    """Four workers have four sessions at once under way, and each session's segments stay in order."""
    together = threading.Barrier(4, timeout=PATIENCE)
    scribe = Scribe(before=lambda request: together.wait() if request.turn_ids[0].endswith(":0") else None)
    with open_eager(tmp_path / "m.jay", scribe) as memory:
        for session in range(4):
            say(memory, *(f"Fact {session} {turn}." for turn in range(3)), session_id=f"s{session}")
        report = memory.consolidate(limits=most(workers=4), flush=True)
        assert (report.encoded, report.failed) == (12, 0)
        for session in range(4):
            asked = [request.turn_ids[0] for request in scribe.asked if f"s{session}:" in request.turn_ids[0]]
            assert asked == [f"s{session}:{turn}" for turn in range(3)]
        assert len(set(cited(memory))) == len(cited(memory)) == 12


def test_every_token_is_kept_count_of(eager: Memory, scribe: Scribe) -> None:
    """The store's totals are the sum of what the provider reported, over all runs."""
    say(eager, *FACTS)
    first = eager.consolidate(limits=most(1), flush=True)
    eager.consolidate()
    assert [(one.stage, one.model, one.calls) for one in first.usage] == [("encode", "scribe", 1)]
    assert spent_tokens(eager) == (4, 4 * INPUT_TOKENS, 4 * OUTPUT_TOKENS)
    assert len(scribe.asked) == 4


def test_progress_is_told(eager: Memory) -> None:
    """After each segment, how many are done of how many."""
    say(eager, *FACTS)
    seen: list[tuple[int, int]] = []
    eager.consolidate(flush=True, advance=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_broken_progress_bar_costs_nothing(eager: Memory) -> None:
    """What `advance` raises ends the run; the segment it was told of stays encoded, and is counted once."""
    say(eager, *FACTS)

    def fail(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        eager.consolidate(flush=True, advance=fail)
    assert states(eager) == (0, 3, 1, 0)
    assert (eager.segments.progress().leased, spent_tokens(eager)[0]) == (0, 1)


# --- the dry run ---


def all_bytes(folder: Path) -> dict[str, bytes]:
    """Give what a memory's files hold, but for marks of who reads."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


def test_dry_run_writes_nothing(eager: Memory, scribe: Scribe, tmp_path: Path) -> None:
    """A plan changes no byte of the file, asks nobody, and has as many calls as are then made."""
    say(eager, *FACTS, "word " * 2_000)  # the last in three pieces
    eager.add({"role": "system", "content": "Be brief."}, session_id="rules")
    before = all_bytes(tmp_path)
    plan = eager.plan_consolidation(flush=True)
    assert all_bytes(tmp_path) == before
    assert scribe.asked == []
    report = eager.consolidate(limits=most(2), flush=True)
    rest = eager.plan_consolidation()
    report = eager.consolidate()
    assert (plan.segments, plan.calls) == (6, len(scribe.asked)) == (6, 7)
    assert (rest.segments, rest.calls) == (report.encoded, 5)
    assert eager.plan_consolidation(flush=True).calls == 0


def test_dry_run_is_near_the_truth(tmp_path: Path) -> None:
    """The input tokens of a plan are within a tenth of those the calls then have, reference context included."""
    path = Path(__file__).parents[1] / "src" / "scrubjay" / "sample" / "conversation.json"
    sessions = read_conversations(path).conversations[0].sessions
    scribe = Scribe()
    with Memory(tmp_path / "m.jay", model=scribe) as memory:
        memory.add_many((session.session_id, turn) for session in sessions for turn in session.turns)
        plan = memory.plan_consolidation(flush=True)
        memory.consolidate(flush=True)
        assert plan.calls == len(scribe.asked)
        sent = sum(
            count_tokens([text for request in scribe.asked for text in (request.system, request.user)])
        )
        assert plan.input_tokens == pytest.approx(sent, rel=0.1)


# --- beside other work ---


def test_adding_goes_on_during_a_call(tmp_path: Path) -> None:
    """While the model takes its time, another thread and another connection can write."""
    asked, answered = threading.Event(), threading.Event()

    def be_slow(_request: ChatRequest) -> None:
        asked.set()
        assert answered.wait(PATIENCE)

    path = tmp_path / "m.jay"
    with open_eager(path, Scribe(before=be_slow)) as memory, open_memory(path) as other:
        say(memory, FACTS[0])
        worker = threading.Thread(target=lambda: memory.consolidate(flush=True))
        worker.start()
        assert asked.wait(PATIENCE)
        say(memory, FACTS[1], session_id="tuesday")
        say(other, FACTS[2], session_id="tuesday")
        assert (states(memory), memory.segments.progress().leased) == ((2, 1, 0, 0), 1)
        answered.set()
        worker.join()
        assert states(other) == (2, 0, 1, 0)


@pytest.mark.parametrize(
    ("forgotten", "left"),
    [("monday:0", (0, 0, 3, 0)), ("monday:2", (0, 0, 3, 0)), ("tuesday:0", (0, 0, 3, 0))],
)
def test_forgetting_during_a_call(tmp_path: Path, forgotten: str, left: tuple[int, ...]) -> None:
    """A turn forgotten while a model reads it, or before, leaves nothing; what was read in vain is paid and read again."""
    forget: list[Callable[[], object]] = []
    scribe = Scribe(before=lambda _request: forget.pop()() if forget else None)
    with open_eager(tmp_path / "m.jay", scribe) as memory:
        say(memory, *FACTS[:3])
        say(memory, FACTS[3], session_id="tuesday")
        forget.append(lambda: memory.forget(turn=forgotten))
        memory.consolidate(flush=True)
        memory.consolidate(flush=True)
        assert states(memory) == left
        assert forgotten not in cited(memory)
        assert len(cited(memory)) == 3
        assert spent_tokens(memory)[0] == len(scribe.asked)
        assert memory.doctor() == ()


def leased_until(memory: Memory) -> datetime:
    """Give when the only lease of a segment runs out."""
    until = memory.segments.next_lease_at(memory.records.encodings()[0].encoding_row)
    assert until is not None
    return until


def test_a_slow_worker(tmp_path: Path) -> None:
    """However long a model takes, its worker keeps the segment: no other encodes it, and it is paid for once."""
    asked, answered = threading.Event(), threading.Event()

    def be_slow(_request: ChatRequest) -> None:
        asked.set()
        assert answered.wait(PATIENCE)

    path = tmp_path / "m.jay"
    hasty = EncoderSettings(lease_seconds=6.0)
    slow, quick = Scribe(signs=True, before=be_slow), Scribe(signs=True)
    with open_eager(path, slow, encoder=hasty) as one, open_eager(path, quick, encoder=hasty) as other:
        say(one, FACTS[0])
        worker = threading.Thread(target=lambda: one.consolidate(flush=True))
        worker.start()
        assert asked.wait(PATIENCE)
        first = leased_until(other)
        wait_until(lambda: leased_until(other) > first)
        second = leased_until(other)
        wait_until(lambda: leased_until(other) > second)
        assert other.consolidate().encoded == 0
        answered.set()
        worker.join()
        assert (states(one), spent_tokens(one)[0], quick.asked) == ((0, 0, 1, 0), 1, [])


def test_a_lost_lease(tmp_path: Path) -> None:
    """Of two that encode one segment, as one was away so long, one result is kept; both are paid for."""
    asked, answered = threading.Event(), threading.Event()

    def be_slow(_request: ChatRequest) -> None:
        asked.set()
        assert answered.wait(PATIENCE)

    path = tmp_path / "m.jay"
    slow, quick = Scribe(signs=True, before=be_slow), Scribe(signs=True)
    with open_eager(path, slow) as one, open_eager(path, quick) as other:
        say(one, FACTS[0])
        worker = threading.Thread(target=lambda: one.consolidate(flush=True))
        worker.start()
        assert asked.wait(PATIENCE)
        lease = other.segments.lease_segment(
            1, owner="x", now=datetime.now(UTC) + timedelta(days=1), lease_seconds=1
        )
        assert lease is not None
        other.segments.release_segment(lease)
        assert other.consolidate().encoded == 1
        before = list(other.records.records())
        answered.set()
        worker.join()
        assert (list(one.records.records()), len(before)) == (before, 1)
        assert (states(one), spent_tokens(one)[0]) == ((0, 0, 1, 0), 2)


def test_everything_forgotten_during_a_call(tmp_path: Path) -> None:
    """When all is forgotten meanwhile, the reply is thrown away."""
    forget: list[Callable[[], object]] = []
    scribe = Scribe(before=lambda _request: forget.pop()() if forget else None)
    with open_eager(tmp_path / "m.jay", scribe) as memory:
        say(memory, *FACTS)
        forget.append(lambda: memory.forget(everything=True))
        assert memory.consolidate(flush=True).encoded == 0
        assert (told(memory), states(memory), spent_tokens(memory)[0]) == ([], (0, 0, 0, 0), 1)


def test_deleted_from_the_bytes(tmp_path: Path) -> None:
    """After forgetting a session, no word, hash or vector of its records and nodes is in any of the memory's files."""
    secret = "Wolframite is buried under the seventh larch."
    folder = tmp_path / "one"
    folder.mkdir()
    entities = '"entities": ["Zsofia"], "tags": ["treasure"], "t_ref": "1987-03-04", "speaker": null'
    reply = f'{{"records": [{{"turns": [1], "type": "event", "text": "{secret}", {entities}}}], "note": "Quicksilver"}}'
    vector = load_embedder(EMBEDDER).embed([secret])[0].tobytes()
    traces = {
        "text": b"seventh larch",
        "entity": b"Zsofia",
        "key": b"zsofia",
        "topic": b"treasure",
        "day": b"1987-03-04",
        "note": b"Quicksilver",
        "hash": hash_terms(["larch"]).tobytes(),
        "vector": vector,
    }

    def found() -> set[str]:
        raw = b"\n".join(all_bytes(folder).values())
        return {name for name, trace in traces.items() if trace in raw}

    with scripted_model(reply) as (model, _), open_eager(folder / "m.jay", model) as memory:
        memory.add({"role": "user", "content": f"{secret} Zsofia, 4 March 1987"}, session_id="secret")
        memory.consolidate(flush=True)
        assert found() == set(traces)  # what is looked for would be seen
        say(memory, *FACTS)
        report = memory.forget(session="secret")
        assert (report.records, report.scrubbed) == (1, True)
        assert report.nodes >= 5
        assert (told(memory), found()) == ([], set())
        assert memory.doctor() == ()
    assert found() == set()


# --- encoding again ---


def test_reconsolidate(tmp_path: Path) -> None:
    """New records are made beside the old, which serve until all are there; an interrupted run goes on."""
    path = tmp_path / "m.jay"
    with open_eager(path, Scribe()) as memory:
        say(memory, *FACTS)
        memory.consolidate(flush=True)
        before = list(memory.records.records())
    newer = Scribe(name="newer", signs=True)
    with open_eager(path, newer) as memory:
        report = memory.reconsolidate(limits=most(3))
        assert "1 segment left" in report.stopped
        assert (report.encoded, report.turns.pending) == (3, 1)
        assert list(memory.records.records()) == before
    with open_eager(path, newer) as memory:
        report = memory.reconsolidate()
        assert (report.encoded, report.stopped, report.turns.encoded) == (1, "", 4)
        assert [text.rpartition(" ")[0] for text in told(memory)] == list(FACTS)
        assert [run.model for run in memory.records.encodings()] == ["newer"]
        assert (len(newer.asked), spent_tokens(memory)[0]) == (4, 8)
        assert memory.doctor() == ()
        say(memory, "One more.")
        memory.consolidate(flush=True)
        assert len(told(memory)) == 5


def test_reconsolidate_is_reckoned_beforehand(tmp_path: Path) -> None:
    """A plan for encoding again writes and asks nothing: all segments, or what is left of a run that would go on."""
    path = tmp_path / "m.jay"
    with open_eager(path, Scribe()) as memory:
        say(memory, *FACTS)
        first = memory.plan_consolidation(flush=True)
        assert memory.plan_reconsolidation().calls == 0
        memory.consolidate(flush=True)
        before = all_bytes(tmp_path)
        assert memory.plan_reconsolidation() == first
        assert all_bytes(tmp_path) == before
    newer = Scribe(name="newer")
    with open_eager(path, newer) as memory:
        memory.reconsolidate(limits=most(3))
        rest = memory.plan_reconsolidation()
        assert (rest.segments, rest.calls) == (1, 1)
    with Memory(path) as memory:  # with no model, that run is taken to go on
        assert memory.plan_reconsolidation() == rest
    with open_eager(path, Scribe(name="newest")) as memory:
        assert memory.plan_reconsolidation() == first
    with open_eager(path, newer) as memory:
        assert memory.reconsolidate().encoded == rest.segments
        assert memory.plan_reconsolidation() == first


def test_reconsolidate_keeps_what_it_cannot_make_anew(tmp_path: Path) -> None:
    """Where a segment that has records fails in the new encoding, the old one stays until it is retried."""
    path = tmp_path / "m.jay"
    with open_eager(path, Scribe()) as memory:
        say(memory, *FACTS[:2])
        memory.consolidate(flush=True)
    once = EncoderSettings(attempts=1, retry_seconds=0.0)
    good = '{"records": [{"turns": [1], "type": "fact", "text": "Pepper is a beagle."}], "note": ""}'
    with (
        scripted_model("no", "no", good, good) as (model, _),
        open_eager(path, model, encoder=once) as memory,
    ):
        report = memory.reconsolidate()
        assert (report.failed, report.encoded) == (1, 1)
        assert "the old one stays" in report.stopped
        assert told(memory) == list(FACTS[:2])
        assert memory.segments.retry_failed() == 1
        assert memory.reconsolidate().stopped == ""
        assert [run.model for run in memory.records.encodings()] == [model.name]


def test_turns_added_while_encoding_again(tmp_path: Path) -> None:
    """Turns that come before the switch are in the new encoding too."""
    path = tmp_path / "m.jay"
    with open_eager(path, Scribe()) as memory:
        say(memory, *FACTS[:2])
        memory.consolidate(flush=True)
    with open_eager(path, Scribe(name="newer")) as memory:
        memory.reconsolidate(limits=most(1))
        say(memory, *FACTS[2:])
        memory.consolidate(flush=True)
        assert told(memory) == list(FACTS)
        assert memory.reconsolidate().encoded == 3
        assert sorted(told(memory)) == sorted(FACTS)


# --- no model, a real model, a recorded one ---


def test_without_a_model(memory: Memory) -> None:
    """With no model configured, consolidating says what to set, and all the rest goes on."""
    fill(memory)
    for consolidate in (memory.consolidate, memory.reconsolidate):
        with pytest.raises(SettingsError, match="SCRUBJAY_MODEL"):
            consolidate()
    assert states(memory) == (11, 0, 0, 0)
    assert memory.plan_consolidation(flush=True).calls > 0
    assert "Oleg" in memory.recall("Who held the ladder?").text
    assert memory.search("bassoon")
    assert memory.status().progress.turns.open == 11
    assert memory.forget(session="kitchen").turns == 4
    assert memory.doctor() == ()


def test_read_only(tmp_path: Path) -> None:
    """A memory opened to be read isn't consolidated, but can be planned for."""
    path = tmp_path / "m.jay"
    with open_memory(path) as memory:
        say(memory, *FACTS)
    with Memory(path, read_only=True, model=Scribe()) as memory:
        assert memory.plan_consolidation(flush=True).segments > 0
        with pytest.raises(StoreReadOnlyError):
            memory.consolidate(flush=True)


def test_status(eager: Memory) -> None:
    """The status counts turns and segments by state, records, nodes and cost, and shows what fails."""
    say(eager, *FACTS)
    eager.consolidate(limits=most(2), flush=True)
    status = eager.status()
    assert status.progress.turns.total == status.totals.turns == 4
    assert (status.progress.segments.encoded, status.progress.segments.pending) == (2, 2)
    assert (status.progress.records, status.progress.nodes) == (2, 2)
    assert [(usage.model, usage.calls) for usage in status.usage] == [("scribe", 2)]
    assert (status.failing, status.background) == ((), None)


def test_tiny_model(tmp_path: Path) -> None:
    """A real model, served over HTTP, encodes a segment; what it costs is what its server counted."""
    encoder = EncoderSettings(summaries=True, max_output_tokens=200)  # typed records are too much for it
    with serve_tiny_model() as url:
        chat = ChatSettings(model="smollm2", base_url=url, timeout_seconds=10 * PATIENCE, attempts=1)
        settings = Settings(chat=chat, encoder=encoder)
        with Memory(tmp_path / "m.jay", embedder=EMBEDDER, settings=settings) as memory:
            ids = say(memory, "I moved to Lisbon last month.", "And I am allergic to nuts, by the way.")
            report = memory.consolidate(flush=True)
            (record,) = memory.records.records()
            assert (report.encoded, states(memory), record.turn_ids) == (1, (0, 0, 2, 0), ids)
            assert ("Lisbon" in record.text, record.support.supported) == (True, True)
            assert report.usage == memory.segments.usage()
            assert 200 < report.usage[0].input_tokens < 500
            assert 0 < report.usage[0].output_tokens <= 200


RECORDED = Path(__file__).parents[2] / "shared" / "data" / "locomo"


@pytest.mark.skipif(not RECORDED.exists(), reason="the LoCoMo data set isn't here")
def test_recorded_model(tmp_path: Path) -> None:
    """What a model once wrote about a long conversation goes through the whole path, every record once."""
    conversation = read_conversations(RECORDED / "locomo_dev.json").conversations[0]
    name = conversation.conversation_id
    model = load_replay(RECORDED / "recorded_segments.json", name, count_tokens=count_tokens)
    with Memory(tmp_path / "m.jay", embedder=EMBEDDER, model=model) as memory:
        memory.add_many(
            (session.session_id, turn) for session in conversation.sessions for turn in session.turns
        )
        plan = memory.plan_consolidation(flush=True)
        report = memory.consolidate(flush=True)
        assert (report.encoded, report.failed, report.usage[0].calls) == (plan.segments, 0, plan.calls)
        assert report.records == memory.segments.progress().records > 300
        assert plan.input_tokens == pytest.approx(report.usage[0].input_tokens, rel=0.1)
        assert plan.output_tokens == pytest.approx(report.usage[0].output_tokens, rel=0.2)
        assert memory.doctor() == ()
