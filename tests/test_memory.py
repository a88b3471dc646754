"""One memory, as a caller sees it: adding, asking, exporting, changing the embedder, closing."""

from __future__ import annotations

import io
import threading
import time
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small_memories import (
    CONVERSATION,
    EMBEDDER,
    SPRING,
    fill,
    finish,
    open_memory,
    say,
    start,
    texts,
    working,
)

from scrubjay.datatypes import DatePrecision, NewTurn, RankBy, Role, TimeRange
from scrubjay.embed import HashEmbedder
from scrubjay.errors import (
    EmbedderError,
    EmbedderMismatchError,
    InputError,
    NotFoundError,
    QuestionError,
    StoreClosedError,
    StoreReadOnlyError,
    TurnConflictError,
    TurnError,
)
from scrubjay.memory import Memory
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

any_text = st.text(st.characters(exclude_categories=()), min_size=1, max_size=60)  # surrogates and NUL too
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=offsets)  # noqa: DTZ001 -- bounds are naive
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
new_turns = st.builds(
    NewTurn,
    role=st.sampled_from(Role),
    text=st.text(min_size=1, max_size=30) | st.just("\ud800 half"),
    speaker=st.none() | st.text(min_size=1, max_size=9),
    said_at=st.none() | moments,
    caption=st.none() | st.text(min_size=1, max_size=9),
    turn_id=st.none() | st.uuids().map(str),
    index=st.none(),
    metadata=st.dictionaries(st.text(max_size=5), json_values, max_size=2),
)


# --- adding ---


def test_a_turn_is_found_when_add_returns(memory: Memory) -> None:
    """A chat message added is searchable at once, with no model and no second step."""
    report = memory.add(
        {"role": "user", "name": "Mira", "content": "I keep bees on the roof."}, session_id="monday"
    )
    assert (report.turn_ids, report.added, report.unchanged) == (("monday:0",), 1, 0)
    evidence = memory.recall("Where does Mira keep her bees?")
    assert evidence.turn_ids == ("monday:0",)
    assert "Mira: I keep bees on the roof." in evidence.text
    say(memory, "The bees moved to the garden.")
    assert memory.recall("bees").turn_ids == ("monday:0", "monday:1")


def test_times_are_kept_with_their_offset(memory: Memory) -> None:
    """The time given for all is that of turns without one, and the offset it was said in is kept."""
    noon = datetime(2024, 5, 8, 12, tzinfo=timezone(timedelta(hours=-7)))
    memory.add(
        [
            {"role": "user", "content": "a"},
            {"role": "user", "content": "b", "created_at": "2024-05-08T12:00+09:00"},
        ],
        session_id="monday",
        said_at=noon,
    )
    first, second = memory.turns()
    assert (first.said_at, second.said_at and second.said_at.utcoffset()) == (noon, timedelta(hours=9))
    assert first.said_at is not None
    assert first.said_at.utcoffset() == timedelta(hours=-7)


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "user", "content": ""},
        {"role": "user", "content": "a", "created_at": datetime(2024, 5, 8)},  # noqa: DTZ001 -- naive on purpose
        {
            "role": "user",
            "content": "a",
            "created_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        },
        {
            "role": "user",
            "content": "a",
            "created_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        },
        {"role": "narrator", "content": "a"},
        {"role": "user", "content": "a", "index": 2**31},
        {"role": "user", "content": "a", "index": 2**63},
        {"role": "user", "content": "a", "index": True},
        {"role": "user", "content": "a", "metadata": {1: "a number as key"}},
        {"role": "user", "content": "a", "metadata": {"pair": (1, 2)}},
    ],
    ids=lambda turn: str(list(turn.items())[-1])[:40],
)
def test_a_bad_turn_in_the_middle_stores_nothing(memory: Memory, turn: dict[str, object]) -> None:
    """One turn that can't be kept unchanged refuses the whole batch, by its number."""
    good = {"role": "user", "content": "good"}
    with pytest.raises(TurnError, match="turn 1"):
        memory.add([good, turn, good], session_id="monday")
    assert (texts(memory), memory.sessions(), memory.doctor()) == ([], (), ())


def test_metadata_too_deep(memory: Memory) -> None:
    """Metadata nested deeper than JSON can be written is refused like any other."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TurnError, match="metadata"):
        memory.add({"role": "user", "content": "a", "metadata": {"deep": deep}}, session_id="monday")


@pytest.mark.parametrize("session_id", ["", "\ud800", None, 7])
def test_a_session_has_a_name(memory: Memory, session_id: str) -> None:
    """A session id that isn't text, or is empty or no Unicode, is refused."""
    with pytest.raises(TurnError, match="session_id"):
        memory.add({"role": "user", "content": "a"}, session_id=session_id)


def test_a_conflict_stores_nothing(memory: Memory) -> None:
    """Another text under a known id is an error, and nothing of its batch is stored."""
    memory.add({"role": "user", "content": "a", "id": "x"}, session_id="monday")
    with pytest.raises(TurnConflictError, match="another text"):
        memory.add(
            [{"role": "user", "content": "b"}, {"role": "user", "content": "c", "id": "x"}],
            session_id="monday",
        )
    assert texts(memory) == ["a"]


class CountingEmbedder(HashEmbedder):
    """Counts what it is given, and fails when told to."""

    embedded = 0
    broken = False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.broken:
            raise EmbedderError("the provider is away")
        self.embedded += len(texts)
        return super().embed(texts)


def test_adding_again_embeds_nothing(tmp_path: Path) -> None:
    """An import run again costs no embedding: known turns are told by their ids."""
    embedder = CountingEmbedder(64)
    with Memory(tmp_path / "m.jay", embedder=embedder) as memory:
        fill(memory)
        before, embedded = texts(memory), embedder.embedded
        fill(memory)
        assert (texts(memory), embedder.embedded) == (before, embedded)
        assert embedded == sum(len(turns) for turns in CONVERSATION.values())


def test_embedder_fails(tmp_path: Path) -> None:
    """When the embedder fails, the add fails with it; nothing is half stored, and it can be tried again."""
    embedder = CountingEmbedder(64)
    with Memory(tmp_path / "m.jay", embedder=embedder) as memory:
        embedder.broken = True
        with pytest.raises(EmbedderError):
            say(memory, "hello")
        assert texts(memory) == []
        embedder.broken = False
        assert say(memory, "hello") == ("monday:0",)


def test_import_of_many_is_told_batch_by_batch(tmp_path: Path) -> None:
    """A long import is stored in batches, says how far it is, and gives the ids in order."""
    told: list[int] = []
    with Memory(tmp_path / "m.jay", embedder=EMBEDDER, settings=Settings(import_batch=4)) as memory:
        turns = [(f"s{n % 2}", NewTurn(role=Role.USER, text=f"turn {n}")) for n in range(10)]
        report = memory.add_many(turns, advance=told.append)
        assert told == [4, 8, 10]
        assert report.turn_ids == tuple(f"s{n % 2}:{n // 2}" for n in range(10))


# --- any text, any question ---

NEIGHBOUR = "The bassoon stands in the hall."


@given(any_text, any_text)
@example("\ud800", "\ud83d\udc26")
@example("\0", "a\0b")
@example(" \t\n\u3000", "\U0001f426\u200d\U0001f525")
@example("</scrubjay> # 1 Jan\n[1]", "'; DROP TABLE turn; --")
def test_any_text_is_kept_and_spoils_nothing(text: str, speaker: str) -> None:
    """Any text by any speaker is kept unchanged, asked for without failing, and its neighbour is still found."""
    with Memory(":memory:", embedder="hash:8") as memory:
        memory.add(NewTurn(role=Role.USER, text=text, speaker=speaker), session_id="monday")
        say(memory, NEIGHBOUR)
        assert [(turn.text, turn.speaker) for turn in memory.turns()] == [(text, speaker), (NEIGHBOUR, None)]
        assert memory.search("bassoon in the hall", by=RankBy.LEXICAL)[0].turn.text == NEIGHBOUR
        if text.strip():
            memory.recall(text)
        assert memory.recall("bassoon").text
        assert memory.doctor() == ()


def test_a_megabyte() -> None:
    """A turn of a megabyte is kept unchanged and found by its last word; its neighbour is found too."""
    long = "All work and no play. " * 47_700 + "Finally: heliotrope."
    assert len(long) > 1 << 20
    with Memory(":memory:") as memory:
        say(memory, long, NEIGHBOUR)
        assert texts(memory) == [long, NEIGHBOUR]
        evidence = memory.recall("heliotrope", max_tokens=500)
        assert evidence.turn_ids[0] == "monday:0"
        assert "Finally: heliotrope." in evidence.text
        assert evidence.links[0].excerpt is not None
        assert memory.search("bassoon")[0].turn.text == NEIGHBOUR


@pytest.mark.parametrize("unit", ["1", "a", " ", "\n", "?", '"', "Ä.", "火", "e\u0301"])
def test_monotonous_text_takes_no_longer(unit: str) -> None:
    """Tens of thousands of times the same characters are read in time that grows with its length alone."""
    with Memory(":memory:", embedder="hash:8") as memory:
        started = time.process_time()
        say(memory, unit * 30_000)
        assert time.process_time() - started < 5


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    """Give a memory that is only asked."""
    return fill(open_memory(tmp_path_factory.mktemp("asked") / "m.jay"))


@given(question=any_text | st.text("\"'`()*^:+-~{}[]|&!<>=?%_/\\;,.@#$ NEAR AND OR NOT", min_size=1))
def test_any_question_is_answered(asked: Memory, question: str) -> None:
    """Any text that isn't blank is a question: nothing in it is a syntax error."""
    if not question.strip():
        with pytest.raises(QuestionError):
            asked.recall(question)
        return
    evidence = asked.recall(question, now=SPRING)
    assert evidence == asked.recall(question, now=SPRING)
    for by in RankBy:
        asked.search(question, by=by, now=SPRING)


AWKWARD = (
    "well-being",
    "and/or",
    "O'Brien's",
    "7f3e1c9a-52b1-4e0d-9c1f-0a8b6d2e4f10",
    '"quoted phrase"',
    "NEAR(a b)",
    "C++",
    "user@example.org",
    "title:*",
    "Ångström",
    "naïve",
    "#hashtag",
    "10.5%",
    "v2.0.1",
)


@pytest.mark.parametrize("word", AWKWARD)
def test_awkward_words_are_found(memory: Memory, word: str) -> None:
    """A hyphen, slash, apostrophe, quote or operator in a word neither breaks a search nor empties it."""
    say(memory, "Nothing to see here.", f"Then we spoke of {word} all evening.", "And nothing here either.")
    assert memory.search(word, by=RankBy.LEXICAL)[0].turn.turn_id == "monday:1"
    assert memory.recall(f"What about {word}?").turn_ids


LANGUAGES = {
    "German": ("Die Fahrräder stehen im Keller.", "Fahrrad"),
    "Russian": ("Вчера мы купили новые лыжи.", "лыжи"),
    "Chinese": ("我们上周在成都吃了火锅。", "火锅"),
    "Japanese": ("来月、京都へ引っ越します。", "引っ越し"),
    "Korean": ("어제 부산에서 친구를 만났어요.", "친구"),
    "Arabic": ("اشتريت كتابا جديدا من السوق.", "كتاب"),
    "Spanish": ("Compramos una guitarra vieja en Sevilla.", "guitarras"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_of_every_language_are_found(memory: Memory, language: str) -> None:
    """A word inside a sentence of each language is found among the sentences of all."""
    say(memory, *(sentence for sentence, _ in LANGUAGES.values()))
    sentence, word = LANGUAGES[language]
    assert memory.search(word, by=RankBy.LEXICAL)[0].turn.text == sentence
    decomposed = unicodedata.normalize("NFD", word)
    assert memory.search(decomposed, by=RankBy.LEXICAL)[0].turn.text == sentence


# --- asking ---


def test_nothing_relevant_can_be_said(asked: Memory, memory: Memory) -> None:
    """An empty memory gives empty evidence, and so do words that nobody said; that is no error."""
    nothing = memory.recall("anything?")
    assert (nothing.text, nothing.links, nothing.tokens) == ("", (), 0)
    assert memory.search("anything?") == ()
    assert asked.search("zzzz qqqq", by=RankBy.LEXICAL) == ()


@given(st.integers(1, 200))
def test_the_budget_holds(asked: Memory, max_tokens: int) -> None:
    """The evidence never has more tokens than were allowed."""
    evidence = asked.recall("What did Jonas say about Pepper and the ferry?", max_tokens=max_tokens)
    assert evidence.tokens <= max_tokens
    assert bool(evidence.text) == bool(evidence.links)


@pytest.mark.parametrize(
    "wrong",
    [
        {"question": ""},
        {"question": " \n"},
        {"question": None},
        {"max_tokens": 0},
        {"deadline": 0},
        {"deadline": float("nan")},
        {"now": datetime(2024, 5, 8)},  # noqa: DTZ001 -- naive on purpose
        {"time_range": TimeRange(start=datetime(2024, 5, 8), end=None, precision=DatePrecision.DAY, text="")},  # noqa: DTZ001
    ],
    ids=lambda wrong: f"{next(iter(wrong.items()))}"[:40],
)
def test_what_cannot_be_asked(asked: Memory, wrong: dict[str, str]) -> None:
    """A blank question, an impossible budget or deadline and a naive time are refused, never guessed."""
    with pytest.raises(QuestionError):
        asked.recall(**{"question": "Where is Pepper yesterday?", **wrong})  # type: ignore[arg-type] # wrong on purpose


def test_a_time_range_leaves_out_the_rest(asked: Memory) -> None:
    """A range given by the caller lets only turns said in it be found, before anything is cut."""
    week = TimeRange(
        start=SPRING + timedelta(days=7), end=SPRING + timedelta(days=8), precision=DatePrecision.DAY, text=""
    )
    question = "Pepper the dog, bassoon, pistachio"
    assert {link.turn.session_id for link in asked.recall(question, time_range=week).links} == {"ferry"}
    assert [hit.turn.session_id for hit in asked.search(question, limit=1, time_range=week)] == ["ferry"]
    never = TimeRange(start=None, end=SPRING - timedelta(days=1), precision=DatePrecision.DAY, text="")
    assert asked.recall(question, time_range=never).links == ()


def test_scores_are_absolute(asked: Memory) -> None:
    """Scores lie between 0 and 1, higher is better, and the best hit isn't 1 for being the best."""
    hits = asked.search("Who plays the bassoon?")
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score < 1 for score in scores)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert "bassoon" in hits[0].turn.text
    assert hits[0].score > 2 * asked.search("umbrella factory prices")[0].score


def test_last_week_counts_from_now(asked: Memory) -> None:
    """Words like "last week" count from the moment given, in its zone, and the evidence says how they were read."""
    now = SPRING + timedelta(weeks=1, days=1)
    evidence = asked.recall("What did we do last week?", now=now)
    assert evidence.time_range is not None
    assert evidence.time_range.start is not None
    assert evidence.time_range.end is not None
    assert evidence.time_range.start <= SPRING < evidence.time_range.end <= now
    assert evidence.time_range.start.utcoffset() == now.utcoffset()


# --- the log ---


def test_turns_sessions_and_one_turn(full_memory: Memory) -> None:
    """Turns are read by session or by id; what isn't there is an error that names it."""
    assert [session.session_id for session in full_memory.sessions()] == list(CONVERSATION)
    assert [turn.text for turn in full_memory.turns(session_id="ferry")] == [
        text for _, text in CONVERSATION["ferry"]
    ]
    assert full_memory.turn("ferry:1").speaker == "Mira"
    for ask in (lambda: full_memory.turns(session_id="no such"), lambda: full_memory.turn("no such")):
        with pytest.raises(NotFoundError, match="no such"):
            ask()


def test_status(full_memory: Memory) -> None:
    """The status says what the memory holds, from when to when, by which embedder, and how large its file is."""
    status = full_memory.status()
    assert (status.totals.turns, status.totals.sessions, status.owner) == (11, 3, None)
    assert status.totals.first_said_at == SPRING
    assert status.embedder == "hash:64 (64 dimensions, normalised)"
    assert status.file_bytes > 0


@given(st.lists(new_turns, min_size=1, max_size=5))
def test_export_and_import_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, given_turns: list[NewTurn]
) -> None:
    """An export read into another memory gives the same turns in every field but the time of adding."""
    path = tmp_path_factory.getbasetemp() / "export.jsonl"
    with Memory(":memory:", embedder="hash:8") as one, Memory(":memory:", embedder="hash:8") as other:
        for number, turn in enumerate(given_turns):
            one.add(turn, session_id=f"s{number % 2}")
        assert one.export(path) == len(given_turns)
        assert other.import_(path).added == len(given_turns)
        assert other.import_(path).unchanged == len(given_turns)
        assert [fields_of(one, turn) for turn in one.turns()] == [
            fields_of(other, turn) for turn in other.turns()
        ]
        first, second = io.StringIO(), io.StringIO()
        assert one.export(first) == other.export(second) == len(given_turns)


def fields_of(memory: Memory, turn: object) -> list[object]:
    names = [name for name in type(turn).__slots__ if name != "added_at"]  # type: ignore[attr-defined] # a slots dataclass
    values = [getattr(turn, name) for name in names]
    return [(value, value.utcoffset()) if isinstance(value, datetime) else value for value in values]


def test_an_empty_memory_is_exported_and_read(memory: Memory, tmp_path: Path) -> None:
    """An export without turns is read as what it is."""
    assert memory.export(tmp_path / "empty.jsonl") == 0
    assert memory.import_(tmp_path / "empty.jsonl").added == 0


def test_export_onto_the_memory_itself(full_memory: Memory, tmp_path: Path) -> None:
    """An export over the memory's own file, by whatever name, is refused before a byte is written."""
    (tmp_path / "link.jsonl").symlink_to(full_memory.path)
    for target in (
        full_memory.path,
        tmp_path / "link.jsonl",
        tmp_path / "." / "memory.jay",
        f"{full_memory.path}-wal",
    ):
        with pytest.raises(InputError, match="memory"):
            full_memory.export(target)
    assert len(texts(full_memory)) == 11
    assert full_memory.doctor() == ()


# --- embedders ---


def test_a_memory_knows_its_embedder(tmp_path: Path) -> None:
    """A memory is opened by its own embedder; another is refused, and the error says how to change it."""
    path = tmp_path / "m.jay"
    fill(open_memory(path)).close()
    with Memory(path) as memory:
        assert memory.search("bassoon")[0].turn.turn_id == "kitchen:2"
    with pytest.raises(EmbedderMismatchError, match="reembed"):
        Memory(path, embedder="hash:32")


def test_reembed(full_memory: Memory) -> None:
    """Changing the embedder keeps every turn and finds as before; the file knows the new one."""
    told: list[tuple[int, int]] = []
    before = full_memory.search("bassoon")
    assert full_memory.reembed("hash:32", advance=lambda done, total: told.append((done, total))) == 11
    assert told == [(11, 11)]
    after = full_memory.search("bassoon")
    assert [hit.turn for hit in after[:1]] == [hit.turn for hit in before[:1]]
    assert after[0].channels["dense"] != before[0].channels["dense"]
    assert full_memory.doctor() == ()
    say(full_memory, "Added after the change: heliotrope.")
    assert full_memory.search("heliotrope")[0].turn.session_id == "monday"
    with Memory(full_memory.path) as again:
        assert again.search("bassoon") == full_memory.search("bassoon")


def test_reembed_that_fails_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """A run that breaks off leaves the old vectors serving, and the next embeds only what is missing."""
    new = CountingEmbedder(32)
    with open_memory(tmp_path / "m.jay") as memory:
        say(memory, *(f"turn number {n}" for n in range(1_500)))
        before = memory.search("turn number 7")

        def stop(done: int, _total: int) -> None:
            new.broken = done >= 1_000

        with pytest.raises(EmbedderError):
            memory.reembed(new, advance=stop)
        assert memory.search("turn number 7") == before
        say(memory, "added in between")
        new.broken = False
        assert memory.reembed(new) == 1_501
        assert new.embedded == 1_501
        assert memory.doctor() == ()


def test_reembed_while_others_add(tmp_path: Path) -> None:
    """Threads may add and ask while the embedder is changed: nothing is lost, nothing fails, one index results."""
    with open_memory(tmp_path / "m.jay") as memory:
        say(memory, *(f"first {n}" for n in range(50)))
        with working(lambda: say(memory, "more"), lambda: memory.recall("first 7")):
            for dimension in (32, 48, 64):
                memory.reembed(f"hash:{dimension}")
        assert memory.doctor() == ()
        assert memory.status().totals.passages == len(texts(memory)) > 50


# --- opening and closing ---


def test_use_after_close(full_memory: Memory) -> None:
    """A closed memory refuses everything by one typed error; closing twice is nothing."""
    turns = full_memory.turns()
    full_memory.close()
    full_memory.close()
    for use in (
        lambda: full_memory.recall("Pepper"),
        lambda: full_memory.search("Pepper"),
        lambda: say(full_memory, "hello"),
        lambda: full_memory.forget(everything=True),
        lambda: full_memory.reembed("hash:32"),
        lambda: next(turns),
        full_memory.sessions,
        full_memory.status,
        full_memory.doctor,
    ):
        with pytest.raises(StoreClosedError):
            use()


def test_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ ":memory:" keeps nothing on disk, and two of them are two memories."""
    monkeypatch.chdir(tmp_path)
    with open_memory(":memory:") as one, open_memory(":memory:") as other:
        say(one, "only here")
        assert (texts(one), texts(other), one.status().file_bytes) == (["only here"], [], 0)
        assert one.forget(everything=True).scrubbed
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_created_unasked(tmp_path: Path) -> None:
    """Where there is no memory, opening one to read or without `create` says so and leaves nothing behind."""
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(NotFoundError, match="no memory"):
            open_memory(tmp_path / "m.jay", **options)
    with pytest.raises(StoreReadOnlyError, match="folder exists"):
        open_memory(tmp_path / "no such folder" / "m.jay")
    assert list(tmp_path.iterdir()) == []


def test_odd_paths(tmp_path: Path) -> None:
    """A path with characters that mean something in a URI is a path like any other, to read it as well."""
    path = tmp_path / "a b?c#d%20e&mode=memory'é.jay"
    fill(open_memory(path)).close()
    with open_memory(path, read_only=True) as memory:
        assert len(texts(memory)) == 11
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_the_file_is_deleted_under_it(full_memory: Memory) -> None:
    """Once its file is deleted or replaced, a memory neither takes turns that would be lost nor answers from the old ones."""
    Path(full_memory.path).rename(f"{full_memory.path}.old")
    fill(open_memory(full_memory.path)).close()
    for use in (lambda: say(full_memory, "lost?"), lambda: full_memory.recall("Pepper")):
        with pytest.raises(StoreClosedError, match="deleted or replaced"):
            use()
    assert full_memory.is_gone


def open_and_fail(path: str) -> None:
    for _ in range(50):
        with pytest.raises(EmbedderMismatchError):
            Memory(path, embedder="hash:32")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def use_often(path: str) -> None:
    """Use a memory many times, in every way; fail if threads or files are left open."""
    threading.Thread(target=lambda: None).start()
    files = open_files()
    for number in range(30):
        with open_memory(path) as memory:
            (turn_id,) = say(memory, f"turn {number}")
            memory.recall("turn")
            memory.forget(turn=turn_id)
    with open_memory(path) as memory:
        opened = open_files()
        for number in range(200):
            say(memory, f"turn {number}")
            memory.recall("turn")
        next(memory.turns())
        assert open_files() == opened
    open_and_fail(path)
    assert open_files() == files
    assert threading.active_count() == 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
def test_nothing_is_left_open(tmp_path: Path) -> None:
    """Many calls, openings and failed openings leave no thread and no open file behind."""
    finish(start(use_often, str(tmp_path / "m.jay")))


def test_disk_use_is_bounded(tmp_path: Path) -> None:
    """5,000 turns added one by one take at most a few times their own size, log included, and forgetting gives it back."""
    path = tmp_path / "m.jay"
    with open_memory(path) as memory:
        say(memory, *(f"This is an ordinary turn of a conversation, number {n}." for n in range(4_000)))
        for number in range(1_000):
            say(
                memory,
                f"This is an ordinary turn of a conversation, number {number}.",
                session_id="one by one",
            )
        used = sum(found.stat().st_size for found in tmp_path.iterdir())
        assert used < 5_000 * 1_200 + 8_000_000
        memory.forget(everything=True)
        assert sum(found.stat().st_size for found in tmp_path.iterdir()) < 400_000


def test_utc_now_is_the_default(asked: Memory) -> None:
    """Without `now` a question's dates count from the present, in UTC."""
    evidence = asked.recall("What was said yesterday?")
    assert evidence.time_range is not None
    assert evidence.time_range.end is not None
    assert abs(evidence.time_range.end - datetime.now(UTC)) < timedelta(days=1, minutes=1)
