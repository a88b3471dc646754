"""The contract of a store of segments and records, the same for every backend."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from record_stores import (
    BACKENDS,
    DIMENSION,
    EMBEDDER,
    NO_USAGE,
    NOON,
    Backend,
    add,
    close,
    complete,
    current,
    encode_all,
    index_text,
    lease,
    must_lease,
    new_segment,
    nodes_of,
    open_sqlite,
    prepare_turn,
    record,
    term_of,
    terms_of,
    vector_of,
)

from scrubjay.datatypes import (
    BoundaryReason,
    EmbedderIdentity,
    Encoding,
    EncodingState,
    NodeKey,
    NodeKind,
    RecordType,
    SegmentState,
    StateCounts,
    Usage,
)
from scrubjay.errors import (
    EmbedderMismatchError,
    EncodingUnfinishedError,
    InputError,
    LeaseLostError,
    SegmentsChangedError,
)
from scrubjay.store.connection import connect
from scrubjay.store.schema import APPLICATION_ID, create_turn_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BO = NodeKey(kind=NodeKind.ENTITY, key="bo")


@pytest.fixture(params=sorted(BACKENDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def backend(kind: str, tmp_path: Path) -> Iterator[Backend]:
    opened = BACKENDS[kind](str(tmp_path / "memory.jay"))
    yield opened
    assert opened.turns.check() == ()
    opened.close()


# --- segmenting ---


def test_open_turns(backend: Backend) -> None:
    """Turns in no segment come in order, with tokens, mean vectors and the segmenter's state."""
    backend.turns.append([prepare_turn("monday", "one two"), prepare_turn("monday", "three", pieces=2)])
    add(backend, "tuesday", "four")
    assert backend.segments.sessions_with_open_turns() == ("monday", "tuesday")
    found = backend.segments.open_turns("monday")
    assert [turn.turn.text for turn in found.turns] == ["one two", "three"]
    assert ([turn.tokens for turn in found.turns], found.segmenter) == ([2, 1], "")
    assert np.allclose(found.turns[0].vector, vector_of("one two"))
    assert np.allclose(found.turns[1].vector, (vector_of("three") + vector_of("three1")) / 2)
    assert backend.segments.open_turns("never").turns == ()


def test_close_segments(backend: Backend) -> None:
    """Closed turns are open no more, and the segmenter's state is kept with them."""
    ids = add(backend, "monday", "one", "two two", "three")
    close(backend, "monday", 1, 1, segmenter='{"history": [0.5]}')
    left = backend.segments.open_turns("monday")
    assert ([turn.turn.turn_id for turn in left.turns], left.segmenter) == ([ids[2]], '{"history": [0.5]}')
    first, second = backend.segments.segments()
    assert (first.turn_ids, second.turn_ids) == ((ids[0],), (ids[1],))
    assert (first.number, second.number, second.tokens) == (0, 1, 2)
    assert (first.state, first.reason) == (SegmentState.PENDING, BoundaryReason.SEMANTIC_BOUNDARY)
    assert (first.probability, first.signals) == (0.75, {"surprise": 0.5})


def test_close_segments_second(backend: Backend) -> None:
    """What another process segmented first is not segmented again, nor half of it."""
    add(backend, "monday", "one", "two")
    seen = backend.segments.open_turns("monday")
    close(backend, "monday", 1, segmenter="")  # the state looks as before, the turns do not
    with pytest.raises(SegmentsChangedError) as caught:
        backend.segments.close_segments(
            "monday", [new_segment(seen.rows[1:]), new_segment(seen.rows[:1])], seen="", segmenter="later"
        )
    assert caught.value.session_id == "monday"
    assert backend.segments.open_turns("monday").segmenter == ""
    assert len(backend.segments.segments()) == 1


@pytest.mark.parametrize("session_id", ["monday", "never"])
def test_close_segments_stale(backend: Backend, session_id: str) -> None:
    """A segmenter that went on from another state, or in a session that is gone, is refused."""
    add(backend, "monday", "one")
    rows = backend.segments.open_turns("monday").rows
    with pytest.raises(SegmentsChangedError):
        backend.segments.close_segments(session_id, [new_segment(rows)], seen="other", segmenter="later")


def test_close_segments_of_other_session(backend: Backend) -> None:
    """A turn of another session can't be put into a segment, and a segment can't be empty."""
    add(backend, "monday", "one")
    add(backend, "tuesday", "two")
    rows = backend.segments.open_turns("tuesday").rows
    with pytest.raises(SegmentsChangedError):
        backend.segments.close_segments("monday", [new_segment(rows)], seen="", segmenter="")
    with pytest.raises(InputError):
        backend.segments.close_segments("monday", [new_segment([])], seen="", segmenter="")


# --- leasing ---


def test_lease_order(backend: Backend) -> None:
    """Sessions go side by side, a session's segments one after the other."""
    add(backend, "monday", "one", "two")
    add(backend, "tuesday", "three")
    close(backend, "monday", 1, 1)
    close(backend, "tuesday", 1)
    first, other = must_lease(backend), must_lease(backend)
    assert (first.session_id, first.number, [turn.text for turn in first.turns]) == ("monday", 0, ["one"])
    assert (other.session_id, other.attempts) == ("tuesday", 0)
    assert lease(backend) is None
    assert backend.segments.next_lease_at(current(backend)) == NOON + timedelta(seconds=60)
    complete(backend, first)
    assert must_lease(backend).number == 1


def test_lease_after_failed(backend: Backend) -> None:
    """A segment that has failed for good doesn't hold up those after it."""
    add(backend, "monday", "one", "two")
    close(backend, "monday", 1, 1)
    state = backend.segments.fail_segment(must_lease(backend), "no", retry_at=None, max_attempts=1)
    assert state is SegmentState.FAILED
    assert must_lease(backend).number == 1


def test_lease_expiry(backend: Backend) -> None:
    """A lease that ran out is given again, and the first holder's result is refused whole."""
    ids = add(backend, "monday", "one")
    close(backend, "monday", 1)
    first = must_lease(backend)
    assert lease(backend, after=59) is None
    second = must_lease(backend, after=60)
    with pytest.raises(LeaseLostError) as caught:
        complete(backend, first, record("of the first", ids))
    assert caught.value.segment_row == first.segment_row
    with pytest.raises(LeaseLostError):
        backend.segments.fail_segment(first, "late", retry_at=None, max_attempts=1)
    backend.segments.release_segment(first)
    complete(backend, second, record("of the second", ids))
    assert [item.text for item in backend.records.records()] == ["of the second"]
    assert backend.segments.usage() == (NO_USAGE,)


def test_renewed_lease(backend: Backend) -> None:
    """A renewed lease runs from the renewal on; one that is lost can't be renewed."""
    add(backend, "monday", "one")
    close(backend, "monday", 1)
    first = must_lease(backend)
    backend.segments.renew_lease(first, now=NOON + timedelta(seconds=50), lease_seconds=60)
    assert lease(backend, after=109) is None
    must_lease(backend, after=110)
    with pytest.raises(LeaseLostError):
        backend.segments.renew_lease(first, now=NOON, lease_seconds=60)


def test_complete_late(backend: Backend) -> None:
    """A lease that ran out still counts while nobody else has the segment; but only once."""
    ids = add(backend, "monday", "one")
    close(backend, "monday", 1)
    leased = must_lease(backend)
    assert complete(backend, leased, record("one", ids)).new == 1
    with pytest.raises(LeaseLostError):
        complete(backend, leased, record("two", ids))


def test_release(backend: Backend) -> None:
    """A segment given back may be leased at once, with no attempt counted."""
    add(backend, "monday", "one")
    close(backend, "monday", 1)
    leased = must_lease(backend)
    assert backend.segments.progress().leased == 1
    backend.segments.release_segment(leased)
    assert backend.segments.progress().leased == 0
    assert must_lease(backend).attempts == 0


def test_fail(backend: Backend) -> None:
    """A failed attempt is counted, its error and cost kept, and the segment waits for its time."""
    add(backend, "monday", "one")
    close(backend, "monday", 1)
    later = NOON + timedelta(seconds=30)
    for attempt in (1, 2):
        state = backend.segments.fail_segment(
            must_lease(backend, after=30 * attempt),
            f"error {attempt} \ud800",
            retry_at=later + timedelta(seconds=30 * attempt),
            max_attempts=2,
            usage=NO_USAGE,
        )
        (segment,) = backend.segments.segments()
        assert (segment.state, segment.attempts, segment.last_error) == (
            state,
            attempt,
            f"error {attempt} \ud800",
        )
        assert lease(backend, after=30 * attempt + 29) is None
    assert state is SegmentState.FAILED
    assert [usage.calls for usage in backend.segments.usage()] == [2]
    assert backend.segments.segments(state=SegmentState.FAILED) == (segment,)
    assert backend.segments.segments(state=SegmentState.PENDING) == ()
    assert backend.segments.next_lease_at(current(backend)) is None
    assert backend.segments.retry_failed() == 1
    assert must_lease(backend).attempts == 0


# --- results ---


def test_reference_context(backend: Backend) -> None:
    """A segment is read with the last note and records of its session before it, and of no other."""
    ids = add(backend, "monday", "one", "two", "three", "four")
    add(backend, "tuesday", "other")
    close(backend, "monday", 1, 1, 1, 1)
    close(backend, "tuesday", 1)
    complete(backend, must_lease(backend), record("r1", ids[:1]), record("r2", ids[:1]), note="first")
    other = must_lease(backend)
    assert backend.segments.reference_context(other).records == ("r1", "r2")
    complete(backend, other, record("r1", ids[1:2]), record("r3", ids[1:2]), note="second")
    third = must_lease(backend)
    context = backend.segments.reference_context(third, limit=2)
    assert (context.note, context.records) == ("second", ("r1", "r3"))
    backend.segments.fail_segment(third, "no", retry_at=None, max_attempts=1)
    complete(backend, must_lease(backend), record("r4", ids[3:]), note="fourth")
    backend.segments.retry_failed()
    context = backend.segments.reference_context(must_lease(backend))
    assert (context.note, context.records) == ("second", ("r2", "r1", "r3"))
    tuesday = must_lease(backend)
    assert tuesday.session_id == "tuesday"
    context = backend.segments.reference_context(tuesday)
    assert (context.note, context.records) == ("", ())


def test_complete(backend: Backend) -> None:
    """Records come back as they were given, with their state and cost."""
    ids = add(backend, "monday", "one", "two")
    close(backend, "monday", 2)
    given = record("I moved \ud800 to Lisbon", ids, kind=RecordType.EVENT)
    spent = Usage(stage="encode", model="m", calls=1, input_tokens=7, output_tokens=2)
    done = complete(backend, must_lease(backend), given, usage=spent)
    backend.segments.add_usage(spent)
    assert (done.new, done.repeated, done.left_out) == (1, 0, 0)
    assert backend.records.record(given.record_id) == given
    assert tuple(backend.records.records()) == (given,)
    progress = backend.segments.progress()
    assert progress.turns == StateCounts(open=0, pending=0, encoded=2, failed=0)
    assert (progress.segments.encoded, progress.records, progress.nodes) == (1, 1, 2)
    assert backend.segments.usage() == (
        Usage(stage="encode", model="m", calls=2, input_tokens=14, output_tokens=4),
    )


def test_complete_again(backend: Backend) -> None:
    """The same statement again is the same record with more provenance, left as it was first made."""
    ids = add(backend, "monday", "one", "two")
    close(backend, "monday", 1, 1)
    complete(backend, must_lease(backend), record("likes tea", ids[:1]))
    again = record("likes tea", ids[1:], entity="bo")
    done = complete(backend, must_lease(backend), again, again)
    assert (done.new, done.repeated) == (0, 2)
    (found,) = backend.records.records()
    assert (found.turn_ids, found.entities) == (ids, ("ana",))
    assert set(backend.records.load().nodes.key) == {"ana", "bo", "monday:0", "monday:1"}


def test_complete_unknown_turns(backend: Backend) -> None:
    """A record that cites no turn of the segment is left out, its nodes with it."""
    ids = add(backend, "monday", "one", "two")
    close(backend, "monday", 1, 1)
    leased = must_lease(backend)
    done = complete(
        backend,
        leased,
        record("one", [ids[0], "gone"]),
        record("two", [ids[1]], entity="bo"),
        record("none", []),
    )
    assert (done.new, done.left_out) == (1, 2)
    assert [item.turn_ids for item in backend.records.records()] == [(ids[0],)]
    assert backend.records.load().nodes.key == ("ana", "monday:0")


def test_complete_whole_or_nothing(backend: Backend) -> None:
    """What can't be written whole isn't written: the segment stays leased, and can still be completed."""
    ids = add(backend, "monday", "one")
    close(backend, "monday", 1)
    leased = must_lease(backend)
    given = record("one", ids)
    nodes = nodes_of(leased, [given])
    with pytest.raises(ValueError, match="zip"):
        backend.segments.complete_segment(
            leased,
            Encoding(records=(given,), note="", dropped=(), usage=NO_USAGE),
            nodes,
            record_index=[index_text("one")],
            node_index=[],
            embedder=EMBEDDER,
        )
    assert (list(backend.records.records()), backend.segments.usage()) == ([], ())
    assert complete(backend, leased, given).new == 1


def test_records_filters(backend: Backend) -> None:
    """Records are found by type, entity and session, or all three."""
    monday = add(backend, "monday", "one")
    tuesday = add(backend, "tuesday", "two")
    close(backend, "monday", 1)
    close(backend, "tuesday", 1)
    complete(
        backend,
        must_lease(backend),
        record("a", monday),
        record("b", monday, kind=RecordType.EVENT, entity="bo"),
    )
    complete(backend, must_lease(backend), record("a", tuesday), record("c", tuesday, entity="bo"))
    find = backend.records.records
    assert [item.text for item in find(type=RecordType.FACT)] == ["a", "c"]
    assert [item.text for item in find(node=BO)] == ["b", "c"]
    assert [item.text for item in find(session_id="tuesday")] == ["a", "c"]
    assert [item.text for item in find(type=RecordType.FACT, node=BO, session_id="tuesday")] == ["c"]
    assert list(find(node=NodeKey(kind=NodeKind.ENTITY, key='") or 1 --'))) == []
    assert list(find(node=replace(BO, kind=NodeKind.TOPIC))) == []
    with pytest.raises(InputError):
        list(find(type=cast("RecordType", "novel")))
    assert backend.records.record("none") is None


def test_nodes(backend: Backend) -> None:
    """Nodes are listed by kind and key, with how many records each leads to; of a kind, or all."""
    ids = add(backend, "monday", "one")
    close(backend, "monday", 1)
    assert backend.records.nodes() == ()
    complete(backend, must_lease(backend), record("a", ids), record("b", ids), record("c", ids, entity="bo"))
    entities = backend.records.nodes(NodeKind.ENTITY)
    assert [(node.key, node.records) for node in entities] == [("ana", 2), ("bo", 1)]
    listed = backend.records.nodes()
    assert [(node.kind.value, node.key) for node in listed] == sorted(
        (node.kind.value, node.key) for node in listed
    )
    assert {node.kind for node in listed} > {NodeKind.ENTITY}
    for node in listed:
        found = list(backend.records.records(node=NodeKey(kind=node.kind, key=node.key)))
        assert len(found) == node.records


@pytest.mark.parametrize(
    "chosen", [{"turn_id": "monday:0"}, {"session_id": "monday"}, {"before": NOON}, {"everything": True}]
)
def test_forget_dry_run(backend: Backend, chosen: dict[str, object]) -> None:
    """A dry run tells, place by place, what forgetting then removes, and removes nothing."""
    ids = add(backend, "monday", "one", "two")
    close(backend, "monday", 1, 1)
    complete(backend, must_lease(backend), record("a", ids[:1], entity="bo"), note="a note")
    before = (list(backend.turns.turns()), list(backend.records.records()), backend.records.nodes())
    told = backend.turns.forget(**chosen, dry_run=True)  # type: ignore[arg-type] # one filter each
    assert (list(backend.turns.turns()), list(backend.records.records()), backend.records.nodes()) == before
    assert (told.scrubbed, bool(told.pending)) == (False, True)
    done = backend.turns.forget(**chosen)  # type: ignore[arg-type] # one filter each
    assert replace(done, scrubbed=False, pending=told.pending) == told


def test_many_records(kind: str, backend: Backend, tmp_path: Path) -> None:
    """Records past one page are all given, in order, by row too, and by a memory opened again."""
    ids = add(backend, "monday", "one")
    close(backend, "monday", 1)
    given = [record(f"number {number}", ids) for number in range(1203)]
    complete(backend, must_lease(backend), *given)
    again = BACKENDS[kind](str(tmp_path / "memory.jay"))
    assert list(again.records.records()) == given
    rows = again.records.load().row.tolist()
    assert list(again.records.records_at([*reversed(rows), -1])) == given[::-1]
    again.close()


# --- columns ---


def test_load(backend: Backend) -> None:
    """Columns hold each record's index entry, provenance and nodes."""
    ids = add(backend, "monday", "one")
    close(backend, "monday", 1)
    complete(backend, must_lease(backend), record("likes green tea", ids))
    found = backend.records.load()
    assert (found.whole, found.type, found.time[0].t_ref) == (True, (RecordType.FACT,), "2024-05")
    assert np.array_equal(found.terms, terms_of("likes green tea"))
    assert (found.distinct.tolist(), found.counts.tolist(), found.supported.tolist()) == (
        [3],
        [1, 1, 1],
        [True],
    )
    assert np.array_equal(found.vectors, [vector_of("likes green tea")])
    assert found.provenance_record.tolist() == found.row.tolist()
    assert [turn.turn_id for turn in backend.turns.turns(rows=found.provenance_turn.tolist())] == list(ids)
    assert found.nodes.kind == (NodeKind.ENTITY, NodeKind.EVENT_FRAME)
    assert found.nodes.link_node.tolist() == found.nodes.row.tolist()
    assert found.nodes.link_record.tolist() == found.row.tolist() * 2
    assert found.state == backend.records.state()


def test_load_empty(backend: Backend) -> None:
    """A memory without records gives columns of no rows."""
    found = backend.records.load()
    assert (len(found.row), found.vectors.shape, found.nodes.vectors.shape) == (
        0,
        (0, DIMENSION),
        (0, DIMENSION),
    )


def test_load_since(backend: Backend) -> None:
    """What was written since a state comes alone, new provenance and links of old records too."""
    ids = add(backend, "monday", "one", "two")
    close(backend, "monday", 1, 1)
    complete(backend, must_lease(backend), record("a", ids[:1]))
    first = backend.records.load()
    complete(backend, must_lease(backend), record("a", ids[1:]), record("b", ids[1:]))
    since = backend.records.load(after=first.state)
    assert (since.whole, len(since.row), since.nodes.key) == (False, 1, ("monday:1",))
    assert since.provenance_record.tolist() == [first.row[0], since.row[0]]
    assert since.nodes.link_record.tolist() == [since.row[0], first.row[0], since.row[0]]
    both = backend.records.load()
    assert np.array_equal(
        both.nodes.link_node, np.concatenate([first.nodes.link_node, since.nodes.link_node])
    )
    backend.turns.forget(turn_id=ids[1])
    assert backend.records.load(after=since.state).whole


# --- encodings ---


def test_name_encoding(backend: Backend) -> None:
    """The first model used names the current encoding; a later one doesn't rename it."""
    (unnamed,) = backend.records.encodings()
    assert (unnamed.model, unnamed.state) == ("", EncodingState.CURRENT)
    named = backend.records.name_encoding(model="small", prompt_version="1")
    assert (named.model, named.prompt_version, named.encoding_row) == ("small", "1", unnamed.encoding_row)
    assert backend.records.name_encoding(model="large", prompt_version="2") == named


def test_switch_encoding(backend: Backend) -> None:
    """A new encoding is built beside the current one, and takes its place when it is complete."""
    ids = add(backend, "monday", "one", "two")
    close(backend, "monday", 1)
    complete(backend, must_lease(backend), record("old", ids[:1]), note="old note")
    before = backend.records.load()
    building = backend.records.begin_encoding(model="large", prompt_version="2")
    close(backend, "monday", 1)
    assert backend.records.begin_encoding(model="large", prompt_version="2") == building
    assert backend.segments.progress(building.encoding_row).turns.pending == 2
    complete(backend, must_lease(backend), record("old two", ids[1:]))
    leased = must_lease(backend, encoding_row=building.encoding_row)
    assert backend.segments.reference_context(leased).records == ()
    complete(backend, leased, record("new", ids[:1]))
    with pytest.raises(EncodingUnfinishedError, match="1 segment "):
        backend.records.switch_encoding()
    assert [item.text for item in backend.records.records()] == ["old", "old two"]
    leased = must_lease(backend, encoding_row=building.encoding_row)
    backend.segments.fail_segment(leased, "no", retry_at=None, max_attempts=1)
    assert backend.records.switch_encoding().encoding_row == building.encoding_row
    assert [item.text for item in backend.records.records()] == ["new"]
    assert len(backend.records.encodings()) == 1
    after = backend.records.load(after=before.state)
    assert (after.whole, len(after.row)) == (True, 1)
    with pytest.raises(EncodingUnfinishedError, match="not begun"):
        backend.records.switch_encoding()


def test_replace_building_encoding(backend: Backend) -> None:
    """Building with another model drops what was built, and refuses what is still on its way."""
    ids = add(backend, "monday", "one")
    close(backend, "monday", 1)
    first = backend.records.begin_encoding(model="a", prompt_version="1")
    leased = must_lease(backend, encoding_row=first.encoding_row)
    second = backend.records.begin_encoding(model="b", prompt_version="1")
    assert second.encoding_row != first.encoding_row
    with pytest.raises(LeaseLostError):
        complete(backend, leased, record("one", ids))
    backend.records.drop_encoding()
    assert len(backend.records.encodings()) == 1


# --- embedding anew ---


def test_reembed(backend: Backend) -> None:
    """Vectors of another embedder are put in place with those of passages, all or none."""
    ids = add(backend, "monday", "one", "two")
    close(backend, "monday", 2)
    complete(backend, must_lease(backend), record("a", ids[:1]), record("b", ids[1:]))
    backend.turns.forget(turn_id=ids[1])  # blanks the event frame
    other = EmbedderIdentity(name="other", dimension=2, normalized=True)
    passages = backend.turns.unstaged(other, limit=9)
    backend.turns.stage_vectors([item.row for item in passages], np.ones((len(passages), 2), np.float32))
    with pytest.raises(EmbedderMismatchError, match="2 vectors missing"):
        backend.turns.adopt_vectors(other)
    while texts := backend.records.unstaged_texts(limit=1):
        backend.records.stage_text_vectors(texts, np.ones((1, 2), np.float32))
    backend.turns.adopt_vectors(other)
    found = backend.records.load()
    assert found.vectors.tolist() == [[1, 1]]
    assert found.nodes.vectors.tolist() == [[1, 1], [0, 0]]


def test_reembed_with_another(backend: Backend) -> None:
    """Staging for another embedder drops what was staged before."""
    ids = add(backend, "monday", "one")
    close(backend, "monday", 1)
    complete(backend, must_lease(backend), record("a", ids))
    backend.turns.unstaged(EMBEDDER, limit=1)
    texts = backend.records.unstaged_texts(limit=9)
    backend.records.stage_text_vectors(texts, np.ones((len(texts), DIMENSION), np.float32))
    assert backend.records.unstaged_texts(limit=9) == ()
    backend.turns.unstaged(EmbedderIdentity(name="other", dimension=2, normalized=True), limit=1)
    assert backend.records.unstaged_texts(limit=9) == texts


# --- forgetting ---


def test_forget(backend: Backend) -> None:
    """A record goes with the last turn it was made from, a node with its last record."""
    ids = add(backend, "monday", "one", "two", "three")
    close(backend, "monday", 1, 1, 1)
    complete(
        backend, must_lease(backend), record("both", ids[:1]), record("mine", ids[:1], entity="bo"), note="n1"
    )
    complete(backend, must_lease(backend), record("both", ids[1:2]), note="n2")
    report = backend.turns.forget(turn_id=ids[0])
    assert (report.turns, report.records, report.nodes, report.notes) == (1, 1, 2, 2)
    assert [(item.text, item.turn_ids) for item in backend.records.records()] == [("both", (ids[1],))]
    assert backend.records.load().nodes.key == ("ana", "monday:1")
    assert [segment.turn_ids for segment in backend.segments.segments()] == [(ids[1],), (ids[2],)]
    assert backend.segments.reference_context(must_lease(backend)).note == ""
    assert backend.segments.open_turns("monday").segmenter == ""
    everything = backend.turns.forget(everything=True)
    assert (everything.turns, everything.records, everything.nodes) == (2, 1, 2)
    assert backend.segments.segments() == ()


def test_forget_part_of_segment(backend: Backend) -> None:
    """An event frame that told of a forgotten turn holds its other records together, with no words left."""
    ids = add(backend, "monday", "one", "two")
    close(backend, "monday", 2)
    complete(backend, must_lease(backend), record("a", ids), record("b", ids[:1]))
    backend.turns.forget(turn_id=ids[0])
    found = backend.records.load()
    assert [item.turn_ids for item in backend.records.records()] == [(ids[1],)]
    assert (found.nodes.kind, found.nodes.length.tolist()) == (
        (NodeKind.ENTITY, NodeKind.EVENT_FRAME),
        [1, 0],
    )
    assert not found.nodes.vectors[1].any()


def test_forget_cuts_frames(backend: Backend) -> None:
    """A record is cut from the event frame of a segment of which it cites no turn any more."""
    ids = add(backend, "monday", "one", "two", "three")
    close(backend, "monday", 2, 1)
    complete(backend, must_lease(backend), record("a", ids[:1]), record("b", ids[1:2]))
    complete(backend, must_lease(backend), record("a", ids[2:]))
    backend.turns.forget(turn_id=ids[0])
    found = backend.records.load()
    frames = {
        row: key for row, key in zip(found.nodes.row.tolist(), found.nodes.key, strict=True) if ":" in key
    }
    texts = {row: backend.records.records_at([row])[0].text for row in found.row.tolist()}
    links = zip(found.nodes.link_node.tolist(), found.nodes.link_record.tolist(), strict=True)
    assert {(frames[node], texts[row]) for node, row in links if node in frames} == {
        ("monday:0", "b"),
        ("monday:1", "a"),
    }


@pytest.mark.parametrize("forgotten", [0, 1])
def test_forget_while_leased(backend: Backend, forgotten: int) -> None:
    """A result made from a session before turns of it were forgotten is refused: it may hold their words."""
    ids = add(backend, "monday", "one", "two")
    add(backend, "tuesday", "three")
    close(backend, "monday", 1, 1)
    close(backend, "tuesday", 1)
    complete(backend, must_lease(backend))
    leased, other = must_lease(backend), must_lease(backend)
    backend.turns.forget(turn_id=ids[forgotten])
    with pytest.raises(LeaseLostError):
        complete(backend, leased, record("two", ids[1:]))
    complete(backend, other)
    left = backend.segments.progress().turns
    assert (left.encoded, left.pending) == ((1, 1) if forgotten == 0 else (2, 0))


def test_forget_leaves_no_bytes(tmp_path: Path) -> None:
    """Words, term hashes and vectors of a forgotten turn's records are in no byte of the file, nor of its log."""
    backend = open_sqlite(str(tmp_path / "memory.jay"))
    secret, kept = "xylophone quokka", "harmless gardening"
    ids = add(backend, "monday", secret, kept, "later words")
    close(backend, "monday", 2, 1, segmenter='{"note": "quokka"}')
    complete(
        backend,
        must_lease(backend),
        record(f"she owns a {secret}", ids[:1], entity="quokka"),
        record(f"she does {kept}", ids[1:2]),
        note="it is the quokka",
    )
    backend.segments.fail_segment(must_lease(backend), "model said quokka", retry_at=None, max_attempts=9)
    traces = [
        b"quokka",
        b"xylophone",
        vector_of(f"she owns a {secret}").tobytes(),
        vector_of(f"she owns a {secret} she does {kept}").tobytes(),
        term_of("quokka").to_bytes(8, "little"),
    ]
    assert all(found_in(tmp_path, trace) for trace in traces)
    report = backend.turns.forget(turn_id=ids[0])
    assert (report.scrubbed, report.records, report.nodes, report.notes) == (True, 1, 1, 2)
    assert not [trace for trace in traces if found_in(tmp_path, trace)]
    assert found_in(tmp_path, b"she does harmless gardening")
    assert found_in(tmp_path, vector_of(f"she does {kept}").tobytes())
    assert backend.turns.check() == ()
    backend.close()


def found_in(folder: Path, trace: bytes) -> bool:
    return any(trace in path.read_bytes() for path in folder.iterdir())


# --- files of before ---


def test_migration(tmp_path: Path) -> None:
    """A memory written before there were segments opens with all its turns open, and goes on."""
    path = tmp_path / "memory.jay"
    with closing(connect(str(path), uri=False)) as old:
        create_turn_log(old)
        old.execute("INSERT INTO meta VALUES ('generation', '0')")
        old.execute("INSERT INTO session VALUES (NULL, 'monday', 1)")
        old.execute(
            "INSERT INTO turn VALUES (NULL, 'monday:0', 1, 0, 'user', NULL, 'old words', NULL, NULL, NULL, 0, '{}', 2, 0)"
        )
        vector = vector_of("old words").tobytes()
        old.execute("INSERT INTO passage VALUES (NULL, 1, 0, 9, 2, 0, x'', x'', ?)", (vector,))
        old.execute("INSERT INTO migration VALUES (1, 0)")
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        old.execute("PRAGMA user_version = 1")
    backend = open_sqlite(str(path))
    assert [turn.turn.text for turn in backend.segments.open_turns("monday").turns] == ["old words"]
    assert backend.segments.progress().turns == StateCounts(open=1, pending=0, encoded=0, failed=0)
    add(backend, "monday", "new words")
    close(backend, "monday", 2)
    encode_all(backend)
    assert backend.segments.progress().turns.encoded == 2
    assert backend.turns.check() == ()
    backend.close()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["memory.jay"]


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        ("DELETE FROM provenance", "every record has a turn it was made from"),
        ("DELETE FROM node_record", "every record is linked to an evidence node of its encoding"),
        ("DELETE FROM node_record", "every evidence node has a record"),
        ("UPDATE segment_state SET state = 'pending'", "every record was made from encoded turns"),
        ("DELETE FROM segment_state", "every segment has a state in every encoding"),
        ("UPDATE turn SET segment_row = NULL", "every segment has turns"),
        ("UPDATE turn SET segment_row = 99", "every turn is in no segment or in one of its session"),
        ("UPDATE encoding SET state = 'building'", "exactly one encoding is current"),
        ("DELETE FROM provenance", "every record of an event frame cites a turn of its segment"),
        ("UPDATE record SET counts = x''", "every record and evidence node counts each of its terms"),
        (
            "UPDATE node SET vector = x''",
            "every vector of a record or evidence node has the embedder's dimension",
        ),
    ],
)
def test_doctor(tmp_path: Path, damage: str, check: str) -> None:
    """Each fault that a store of records can have is found."""
    path = str(tmp_path / "memory.jay")
    backend = open_sqlite(path)
    add(backend, "monday", "one")
    close(backend, "monday", 1)
    encode_all(backend)
    assert backend.turns.check() == ()
    with closing(connect(path, uri=False)) as other:
        other.execute("PRAGMA foreign_keys = OFF")
        other.execute(damage)
    assert check in [fault.check for fault in backend.turns.check()]
    backend.close()
