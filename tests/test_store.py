"""The contract of a store of turns, the same for every backend."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_stores import BACKENDS, EMBEDDER, Backend, prepare_turn, vector_of

from scrubjay.datatypes import EmbedderIdentity, NewTurn, Role
from scrubjay.errors import EmbedderMismatchError, StoreBusyError, StoreClosedError, TurnConflictError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrubjay.datatypes import PreparedTurn

NOON = datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
OTHER = EmbedderIdentity(name="another", dimension=2, normalized=True)

any_text = st.text(st.characters(exclude_categories=()), min_size=1, max_size=30)  # surrogates and NUL too
ids = st.text(min_size=1, max_size=20)
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=offsets)  # noqa: DTZ001 -- bounds are naive
json_values = st.none() | st.booleans() | st.integers() | st.lists(st.text(max_size=5), max_size=2)
new_turns = st.builds(
    NewTurn,
    role=st.sampled_from(Role),
    text=any_text,
    speaker=st.none() | any_text,
    said_at=st.none() | moments,
    caption=st.none() | any_text,
    turn_id=ids,
    index=st.integers(0, 10**9),
    metadata=st.dictionaries(st.text(max_size=5), json_values, max_size=2),
)


@pytest.fixture(params=sorted(BACKENDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "memory.jay")


@pytest.fixture
def backend(kind: str, path: str) -> Iterator[Backend]:
    with closing(BACKENDS[kind](path)) as opened:
        yield opened


def prepared(turn: NewTurn, session_id: str = "monday") -> PreparedTurn:
    return replace(prepare_turn(session_id, turn.text), turn=turn)


def said(
    text: str, *, turn_id: str | None = None, index: int | None = None, at: datetime | None = NOON
) -> NewTurn:
    return NewTurn(role=Role.USER, text=text, speaker="Ana", said_at=at, turn_id=turn_id, index=index)


def add(backend: Backend, *turns: NewTurn, session_id: str = "monday") -> tuple[str, ...]:
    return backend.turns.append([prepared(turn, session_id) for turn in turns]).turn_ids


def texts(backend: Backend) -> list[str]:
    return [turn.text for turn in backend.turns.turns()]


# --- what is kept ---


@pytest.mark.parametrize("kind", sorted(BACKENDS))
@given(
    given_turns=st.lists(
        new_turns, max_size=4, unique_by=(lambda turn: turn.turn_id, lambda turn: turn.index)
    )
)
def test_every_field_comes_back_unchanged(kind: str, given_turns: list[NewTurn]) -> None:
    """Any text (lone surrogates, NUL, emoji, only spaces), time and metadata is read as it was written."""
    with closing(BACKENDS[kind](":memory:")) as backend:
        backend.turns.append([prepared(turn) for turn in given_turns])
        for before, after in zip(
            sorted(given_turns, key=lambda turn: turn.index or 0), backend.turns.turns(), strict=True
        ):
            assert (after.turn_id, after.session_id, after.index) == (before.turn_id, "monday", before.index)
            assert (after.role, after.speaker, after.text) == (before.role, before.speaker, before.text)
            assert (after.caption, after.metadata, after.said_at) == (
                before.caption,
                before.metadata,
                before.said_at,
            )
            assert before.said_at is None or after.said_at is not None
            if before.said_at is not None and after.said_at is not None:
                assert after.said_at.utcoffset() == before.said_at.utcoffset()


def test_a_turn_says_when_it_was_added(backend: Backend) -> None:
    """`added_at` is the time of adding in UTC, and not the time it was said."""
    before = datetime.now(UTC)
    add(backend, said("hello"))
    (turn,) = backend.turns.turns()
    assert before - timedelta(milliseconds=1) <= turn.added_at <= datetime.now(UTC)
    assert turn.added_at.utcoffset() == timedelta(0)


def test_more_turns_than_a_page(backend: Backend) -> None:
    """However many turns there are, they come in order of sessions and places, each once."""
    for number in range(3):
        add(backend, *(said(f"{number} {place}") for place in range(401)), session_id=f"s{number}")
    assert texts(backend) == [f"{number} {place}" for number in range(3) for place in range(401)]
    assert [turn.index for turn in backend.turns.turns(session_id="s1")] == list(range(401))


def test_turns_past_one(backend: Backend) -> None:
    """What comes past a turn begins right behind it, goes on with later sessions, and is nothing past one that isn't there."""
    for number in range(3):
        add(backend, *(said(f"{number} {place}") for place in range(3)), session_id=f"s{number}")
    past = [turn.text for turn in backend.turns.turns(after="s1:1")]
    assert past == ["1 2", "2 0", "2 1", "2 2"]
    assert [turn.text for turn in backend.turns.turns(session_id="s1", after="s1:1")] == ["1 2"]
    assert [turn.text for turn in backend.turns.turns(session_id="s0", after="s1:1")] == []
    assert list(backend.turns.turns(after="s2:2")) == list(backend.turns.turns(after="nowhere")) == []


def test_reading_while_writing(backend: Backend) -> None:
    """Turns may be added while turns are read; nothing is locked, and what was there comes whole."""
    add(backend, *(said(f"old {place}") for place in range(600)))
    seen = []
    for turn in backend.turns.turns():
        seen.append(turn.text)
        if len(seen) == 10:
            add(backend, said("new"), session_id="later")
    assert seen == [*(f"old {place}" for place in range(600)), "new"]


def test_turns_of_rows(backend: Backend) -> None:
    """Turns asked for by row come in the order asked for, without those that are gone, however many."""
    add(backend, *(said(str(place)) for place in range(1_100)))
    rows = [int(row) for row in backend.turns.load(after=0).turn_row]
    backend.turns.forget(turn_id="monday:7")
    found = [turn.text for turn in backend.turns.turns(rows=rows[::-1])]
    assert found == [str(place) for place in reversed(range(1_100)) if place != 7]
    assert list(backend.turns.turns(rows=[])) == []


# --- idempotence, conflicts, places ---


@pytest.mark.parametrize(
    "again", [said("hello", turn_id="a"), said("hello", index=0), said("hello", turn_id="a", index=0)]
)
def test_adding_again_changes_nothing(backend: Backend, again: NewTurn) -> None:
    """The same turn again, by its id or by its place, is counted as unchanged and keeps its first time."""
    add(backend, said("hello", turn_id="a"))
    report = backend.turns.append(
        [prepared(replace(again, said_at=NOON + timedelta(days=1), metadata={"x": 1}))]
    )
    assert (report.turn_ids, report.added, report.unchanged) == (("a",), 0, 1)
    (turn,) = backend.turns.turns()
    assert (turn.said_at, turn.metadata) == (NOON, {})


def test_twice_in_one_batch(backend: Backend) -> None:
    """A turn that stands twice in one batch is stored once."""
    report = backend.turns.append(
        [prepared(said("hello", turn_id="a")), prepared(said("hello", turn_id="a"))]
    )
    assert (report.turn_ids, report.added, report.unchanged) == (("a", "a"), 1, 1)


def test_same_words_are_two_turns(backend: Backend) -> None:
    """Without an id or a place the same words said twice are two turns."""
    assert add(backend, said("yes"), said("yes")) == ("monday:0", "monday:1")


@pytest.mark.parametrize(
    ("turn", "session_id", "field"),
    [
        (said("hi", turn_id="a"), "monday", "text"),
        (said("hi", index=0), "monday", "text"),
        (replace(said("hello", turn_id="a"), role=Role.TOOL), "monday", "role"),
        (replace(said("hello", turn_id="a"), speaker="Ben"), "monday", "speaker"),
        (replace(said("hello", turn_id="a"), caption="a cat"), "monday", "caption"),
        (said("hello", turn_id="a"), "tuesday", "session"),
        (said("hello", turn_id="a", index=1), "monday", "place"),
        (said("hello", turn_id="b", index=0), "monday", "id"),
        (said("hello", index=1), "tuesday", "place"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_conflict_leaves_nothing(backend: Backend, turn: NewTurn, session_id: str, field: str) -> None:
    """An id or place taken by other content is an error that names the field, and its whole batch is left out."""
    add(backend, said("hello", turn_id="a"))
    add(backend, said("taken", turn_id="tuesday:1"), session_id="wednesday")
    good = prepared(said("good"), "new session")
    before, state = texts(backend), backend.turns.state()
    with pytest.raises(TurnConflictError) as caught:
        backend.turns.append([good, prepared(turn, session_id), good])
    assert caught.value.field == field
    assert (texts(backend), backend.turns.state()) == (before, state)
    assert backend.turns.check() == ()
    assert [session.session_id for session in backend.turns.sessions()] == ["monday", "wednesday"]


def test_places(backend: Backend) -> None:
    """Turns without a place follow the highest; given places may come in any order and leave gaps."""
    add(backend, said("c", index=7), said("d"), said("a", index=0), said("b", index=3), said("e"))
    assert [(turn.text, turn.index) for turn in backend.turns.turns()] == [
        ("a", 0),
        ("b", 3),
        ("c", 7),
        ("d", 8),
        ("e", 9),
    ]


def test_places_are_not_used_again(backend: Backend) -> None:
    """After its last turn is forgotten a session goes on with a fresh place, so ids never mean another turn."""
    add(backend, said("a"), said("b"))
    backend.turns.forget(turn_id="monday:1")
    assert add(backend, said("c")) == ("monday:2",)


def test_known(backend: Backend) -> None:
    """What is stored is known by its id or its place, so that it need not be embedded again."""
    add(backend, said("hello", turn_id="a"))
    asked = [
        ("monday", said("hello", turn_id="a")),
        ("monday", said("hello", index=0)),
        ("monday", said("hello")),
        ("monday", said("hello", turn_id="b")),
        ("tuesday", said("hello", index=0)),
    ]
    assert backend.turns.known(asked) == [True, True, False, False, False]


def test_forgotten_while_added_again(backend: Backend) -> None:
    """A turn thought to be known, but forgotten by another process since, is refused rather than left unindexed."""
    with pytest.raises(StoreBusyError, match="add it once more"):
        backend.turns.append([replace(prepared(said("hello", turn_id="a")), passages=())])
    assert texts(backend) == []


# --- what it says of itself ---


def test_sessions(backend: Backend) -> None:
    """Sessions come in the order they began, with speakers in order of speaking and times in their own offsets."""
    late, early = (
        NOON + timedelta(days=1),
        (NOON - timedelta(hours=1)).astimezone(timezone(timedelta(hours=-8))),
    )
    add(backend, said("x", at=None), session_id="b")
    add(backend, said("z", at=late), said("y", at=early), replace(said("w"), speaker="Ben"), session_id="a")
    undated, dated = backend.turns.sessions()
    assert (undated.session_id, undated.turns, undated.first_said_at, undated.last_said_at) == (
        "b",
        1,
        None,
        None,
    )
    assert (dated.session_id, dated.turns, dated.speakers) == ("a", 3, ("Ana", "Ben"))
    assert dated.first_said_at == early
    assert dated.last_said_at == late
    assert [moment and moment.utcoffset() for moment in (dated.first_said_at, dated.last_said_at)] == [
        timedelta(hours=-8),
        timedelta(hours=2),
    ]


def test_first_and_last_moment_of_the_calendar(backend: Backend) -> None:
    """Times at the calendar's ends are kept, whatever the offsets of other turns."""
    ends = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
    far = [datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=hours))) for hours in (-12, 14)]
    add(backend, *(said(str(moment), at=moment) for moment in [*ends, *far]))
    (session,) = backend.turns.sessions()
    assert [session.first_said_at, session.last_said_at] == ends
    totals = backend.turns.totals()
    assert [totals.first_said_at, totals.last_said_at] == ends


def test_totals(backend: Backend) -> None:
    """Totals count turns, sessions and passages; an empty store has none of them, and no times."""
    totals = backend.turns.totals()
    assert (totals.turns, totals.sessions, totals.passages, totals.first_said_at) == (0, 0, 0, None)
    backend.turns.append([prepare_turn("monday", "one two", pieces=3), prepare_turn("tuesday", "three")])
    totals = backend.turns.totals()
    assert (totals.turns, totals.sessions, totals.passages) == (2, 2, 4)


@pytest.mark.parametrize("value", ["", "plain", "Ä\0\U0001f426", "\ud800"])
def test_meta(backend: Backend, value: str) -> None:
    """A memory keeps any text under a key, the last one written; None where there was none."""
    assert backend.turns.read_meta("owner") is None
    backend.turns.write_meta("owner", "before")
    backend.turns.write_meta("owner", value)
    assert backend.turns.read_meta("owner") == value


def test_memory_id(kind: str, tmp_path: Path) -> None:
    """Each memory has an id of its own, the same at every opening."""
    memory_ids = []
    for name in ("a", "a", "b"):
        with closing(BACKENDS[kind](str(tmp_path / name))) as backend:
            memory_ids.append(backend.turns.memory_id)
    assert memory_ids[0] == memory_ids[1] != memory_ids[2]
    assert all(memory_ids)


def test_closed(kind: str, path: str) -> None:
    """Whatever is asked of a closed store is refused by one typed error."""
    backend = BACKENDS[kind](path)
    turns = backend.turns.turns()
    backend.close()
    backend.close()
    for use in (
        backend.turns.state,
        backend.turns.check,
        lambda: next(turns),
        lambda: add(backend, said("x")),
    ):
        with pytest.raises(StoreClosedError):
            use()


# --- index columns ---


def test_load_everything_then_what_is_new(backend: Backend) -> None:
    """Rows after a passage are those written since, and no turn comes without its passages."""
    add(backend, said("one two"), replace(said("three", at=None), speaker=None))
    first = backend.turns.load(after=0)
    backend.turns.append([prepare_turn("monday", "four five", pieces=2)])
    new = backend.turns.load(after=first.state.last_passage)
    assert (first.speaker, new.speaker) == (("Ana", None), ("Ana",))
    assert np.isnan(first.said_at).tolist() == [False, True]
    assert first.said_at[0] == NOON.timestamp()
    assert (list(first.position), list(new.position)) == ([0, 1], [2])
    assert list(new.passage_turn) == [new.turn_row[0]] * 2
    assert list(first.distinct) == [2, 1]
    assert len(first.terms) == len(first.counts) == 3
    assert np.array_equal(first.vectors, [vector_of("one two"), vector_of("three")])
    assert new.state == backend.turns.state()
    nothing = backend.turns.load(after=new.state.last_passage)
    assert (len(nothing.turn_row), nothing.vectors.shape) == (0, (0, EMBEDDER.dimension))


def test_state_moves_with_every_write(backend: Backend) -> None:
    """A cache can tell by the state that something was written or forgotten, and a read leaves it as it is."""
    states = [backend.turns.state()]
    add(backend, said("a"), said("b"))
    states.append(backend.turns.state())
    backend.turns.forget(turn_id="monday:1")
    states.append(backend.turns.state())
    add(backend, said("c"))
    states.append(backend.turns.state())
    list(backend.turns.turns())
    backend.turns.check()
    assert backend.turns.state() == states[-1]
    assert all(before != after for before, after in pairwise(states))
    assert [state.generation for state in states] == [0, 0, 1, 1]


# --- forgetting ---


def test_forget_a_turn(backend: Backend) -> None:
    """Forgetting a turn takes its passages, and its session only if that is left empty."""
    add(backend, said("a"), said("b"))
    first = backend.turns.forget(turn_id="monday:0")
    second = backend.turns.forget(turn_id="monday:1")
    assert [(report.turns, report.passages, report.sessions) for report in (first, second)] == [
        (1, 1, 0),
        (1, 1, 1),
    ]
    assert (texts(backend), backend.turns.sessions(), backend.turns.check()) == ([], (), ())


def test_forget_a_session(backend: Backend) -> None:
    """Forgetting a session takes its turns and no other's."""
    add(backend, said("a"), said("b"))
    add(backend, said("c"), session_id="tuesday")
    report = backend.turns.forget(session_id="monday")
    assert (report.turns, report.sessions, texts(backend)) == (2, 1, ["c"])


def test_forget_before(backend: Backend) -> None:
    """What was said before a moment goes; what was said at it, later, or at no known time stays."""
    elsewhere = NOON.astimezone(timezone(timedelta(hours=-11)))
    second = timedelta(microseconds=1)
    add(
        backend,
        said("before", at=NOON - second),
        said("at", at=elsewhere),
        said("undated", at=None),
        said("after", at=NOON + second),
    )
    assert backend.turns.forget(before=NOON).turns == 1
    assert texts(backend) == ["at", "undated", "after"]


def test_forget_everything(backend: Backend) -> None:
    """Forgetting everything leaves an empty memory that can be used on, with its id and embedder."""
    memory_id = backend.turns.memory_id
    add(backend, said("a"), said("b", at=None))
    assert backend.turns.forget(everything=True).turns == 2
    assert (texts(backend), backend.turns.memory_id, backend.turns.embedder) == ([], memory_id, EMBEDDER)
    assert add(backend, said("c")) == ("monday:0",)


def test_forget_nothing(backend: Backend) -> None:
    """Forgetting what isn't there removes nothing and tells caches nothing."""
    add(backend, said("a"))
    state = backend.turns.state()
    assert backend.turns.forget(turn_id="no such").turns == 0
    assert backend.turns.state() == state


# --- embedders ---


def test_another_embedder_is_refused(backend: Backend) -> None:
    """A memory names one embedder; any other name, dimension or normalisation is refused."""
    for other in (OTHER, replace(EMBEDDER, dimension=5), replace(EMBEDDER, normalized=False)):
        with pytest.raises(EmbedderMismatchError, match=EMBEDDER.name):
            backend.turns.name_embedder(other)
        with pytest.raises(EmbedderMismatchError, match=EMBEDDER.name):
            backend.turns.append([replace(prepared(said("x")), embedder=other)])
    assert texts(backend) == []


def stage_all(backend: Backend, identity: EmbedderIdentity, *, limit: int = 2) -> int:
    staged = 0
    while batch := backend.turns.unstaged(identity, limit=limit):
        vectors = np.full((len(batch), identity.dimension), 0.5, np.float32)
        backend.turns.stage_vectors([passage.row for passage in batch], vectors)
        staged += len(batch)
    return staged


def test_old_vectors_serve_until_all_are_there(backend: Backend) -> None:
    """Staged vectors change nothing until they are adopted, and then replace all at once."""
    add(backend, said("one"), said("two"), said("three"))
    state, vectors = backend.turns.state(), backend.turns.load(after=0).vectors
    assert stage_all(backend, OTHER) == 3
    assert backend.turns.state() == state
    assert np.array_equal(backend.turns.load(after=0).vectors, vectors)
    backend.turns.adopt_vectors(OTHER)
    assert backend.turns.embedder == OTHER
    assert backend.turns.state() != state
    assert np.array_equal(backend.turns.load(after=0).vectors, np.full((3, 2), 0.5))
    assert backend.turns.check() == ()


def test_adopting_too_early_is_refused(backend: Backend) -> None:
    """While a passage has no new vector, or the new ones are another's, nothing is exchanged."""
    add(backend, said("one"))
    stage_all(backend, OTHER)
    add(backend, said("two"))
    with pytest.raises(EmbedderMismatchError, match="with 1 vectors missing"):
        backend.turns.adopt_vectors(OTHER)
    stage_all(backend, OTHER)
    with pytest.raises(EmbedderMismatchError):
        backend.turns.adopt_vectors(replace(OTHER, name="a third"))
    assert backend.turns.embedder == EMBEDDER


def test_staging_for_a_third_embedder_starts_anew(backend: Backend) -> None:
    """Vectors staged for one embedder are dropped when another is asked for; for the same one they are kept."""
    add(backend, said("one"), said("two"))
    (first,) = backend.turns.unstaged(OTHER, limit=1)
    backend.turns.stage_vectors([first.row], np.zeros((1, 2), np.float32))
    assert [passage.turn.text for passage in backend.turns.unstaged(OTHER, limit=9)] == ["two"]
    assert len(backend.turns.unstaged(replace(OTHER, name="a third"), limit=9)) == 2


def test_forgotten_while_staged(backend: Backend) -> None:
    """A passage forgotten while its new vector is made is passed over."""
    add(backend, said("one"), said("two"))
    batch = backend.turns.unstaged(OTHER, limit=9)
    backend.turns.forget(turn_id="monday:0")
    backend.turns.stage_vectors([passage.row for passage in batch], np.zeros((2, 2), np.float32))
    backend.turns.adopt_vectors(OTHER)
    assert (texts(backend), backend.turns.check()) == (["two"], ())


def test_embedder_changed_by_another_process(kind: str, path: str) -> None:
    """Whoever opened the memory before its embedder was changed can neither add nor search by the old one."""
    with closing(BACKENDS[kind](path)) as one, closing(BACKENDS[kind](path)) as other:
        add(one, said("one"))
        stage_all(other, OTHER)
        other.turns.adopt_vectors(OTHER)
        with pytest.raises(EmbedderMismatchError, match="was embedded with another"):
            add(one, said("two"))
        with pytest.raises(EmbedderMismatchError, match="was embedded with another"):
            one.turns.load(after=0)
        assert (texts(one), len(other.turns.load(after=0).vectors)) == (["one"], 1)
