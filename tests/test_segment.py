from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrubjay.bench.segmentation import (
    LabelledSession,
    count_matches,
    cut_at_random,
    cut_evenly,
    cut_session,
    measure_agreement,
    pick_threshold,
    read_sessions,
    tally,
)
from scrubjay.boundary import (
    Decision,
    judge_boundary,
    measure_cohesion_drop,
    measure_length,
    measure_turns,
    measure_word_shift,
    standardise_surprise,
)
from scrubjay.datatypes import BoundaryReason, IndexedTurn, Role, Turn
from scrubjay.embed import HashEmbedder
from scrubjay.exchanges import build_exchange, index_turn
from scrubjay.segment import (
    ClosedSegment,
    SegmenterState,
    resume_session,
    segment_turns,
    start_session,
)
from scrubjay.settings import SEGMENT_PRESETS, SegmentSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DIMENSION = 4
PAPER = SEGMENT_PRESETS["lychee-v2"]
WORDS = ("kiln", "glaze", "train", "ticket", "dog", "recently", "anyway", "why?", "ok", "猫", "对了")
NOON = datetime(2024, 5, 4, 12, tzinfo=UTC)


def make_turn(
    place: int,
    text: str = "the kiln is warm",
    *,
    role: Role = Role.USER,
    vector: tuple[float, ...] = (1, 0, 0, 0),
    tokens: int = 30,
    said_at: datetime | None = None,
) -> IndexedTurn:
    turn = Turn(
        turn_id=f"t{place}",
        session_id="s",
        index=place,
        role=role,
        speaker=None,
        text=text,
        caption=None,
        said_at=said_at,
        added_at=NOON,
        metadata={},
    )
    return index_turn(turn, unit(vector), tokens=tokens)


def unit(vector: tuple[float, ...]) -> np.ndarray:
    row = np.array(vector, np.float32)
    length = float(np.linalg.norm(row))
    return row / length if length else row


@st.composite
def sessions(draw: st.DrawFn) -> list[IndexedTurn]:
    sizes = st.integers(1, 400) if draw(st.booleans()) else st.integers(1, 1500)
    turns = []
    for place in range(draw(st.integers(1, 40))):
        words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6))
        turns.append(
            make_turn(
                place,
                " ".join(words),
                role=draw(st.sampled_from((Role.USER, Role.USER, Role.ASSISTANT, Role.TOOL))),
                vector=tuple(draw(st.lists(st.sampled_from((-1, 0, 1, 3)), min_size=4, max_size=4))),
                tokens=draw(sizes),
                said_at=NOON + timedelta(minutes=37 * place) if draw(st.booleans()) else None,
            )
        )
    return turns


presets = st.sampled_from([pytest.param(value, id=name).values[0] for name, value in SEGMENT_PRESETS.items()])


def cut(turns: list[IndexedTurn], rules: SegmentSettings) -> list[tuple[str, ...]]:
    return [segment.turn_ids for segment in segment_turns(turns, fresh(), rules, flush=True).segments]


def fresh() -> SegmenterState:
    return start_session(DIMENSION)


# --- exchanges ---


def exchanges_of(turns: list[IndexedTurn], preset: str = "eager") -> list[int]:
    return [len(ids) for ids in cut(turns, SEGMENT_PRESETS[preset])]


def test_what_follows_a_user_turn_belongs_to_its_exchange() -> None:
    """An exchange is a user turn and every reply and tool result up to the next user turn."""
    roles = (Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT, Role.USER, Role.ASSISTANT)
    assert exchanges_of([make_turn(place, role=role) for place, role in enumerate(roles)]) == [4, 2]


def test_two_people_speaking_as_users_have_an_exchange_a_turn() -> None:
    """Where every turn is a user's, each is an exchange."""
    assert exchanges_of([make_turn(place) for place in range(3)]) == [1, 1, 1]


def test_what_comes_before_the_first_user_turn_joins_its_exchange() -> None:
    """A system prompt and a greeting are no exchange of their own."""
    roles = (Role.SYSTEM, Role.ASSISTANT, Role.USER, Role.ASSISTANT, Role.USER)
    assert exchanges_of([make_turn(place, role=role) for place, role in enumerate(roles)]) == [4, 1]


def test_eager_by_turn_cuts_replies_off_too() -> None:
    """The paper's variant on speaker turns makes a segment of every turn."""
    roles = (Role.USER, Role.ASSISTANT, Role.USER)
    turns = [make_turn(place, role=role) for place, role in enumerate(roles)]
    assert exchanges_of(turns, "eager-turn") == [1, 1, 1]


def test_the_vector_of_an_exchange_weighs_turns_by_tokens() -> None:
    """It is the mean of its turns' vectors by tokens, of length one."""
    turns = [make_turn(0, vector=(1, 0, 0, 0), tokens=30), make_turn(1, vector=(0, 1, 0, 0), tokens=10)]
    assert build_exchange(turns, PAPER).vector == pytest.approx(np.array([3, 1, 0, 0]) / math.sqrt(10))


@pytest.mark.parametrize(
    "text",
    [
        "I saw Ana last week",
        "Ich war gestern im Kino",
        "Fui al médico la semana pasada",
        "On s’est vus l’autre jour",
        "Ieri ho comprato il forno",
        "Mudei de casa recentemente",
        "Ik was vorige week ziek",
        "Я недавно переехала",
        "我上周去了成都",
        "先週引っ越しました",
        "지난주에 이사했어",
    ],
)
def test_a_turn_that_dates_what_it_tells_is_news(text: str) -> None:
    """Words for a recent or coming time are seen in every language of the table."""
    assert build_exchange([make_turn(0, text)], PAPER).tells_news


@pytest.mark.parametrize(
    "text",
    [
        "By the way, the kiln broke",
        "What about you?",
        "Übrigens: der Ofen ist kaputt",
        "Por cierto, ¿vienes?",
        "Au fait, tu viens ?",
        "A proposito, vieni?",
        "Aliás, o forno partiu",
        "Trouwens, de oven is stuk",
        "Кстати, печь сломалась",
        "对了，窑坏了",
        "ところで、窯が壊れた",
        "그나저나 가마가 고장났어",
    ],
)
def test_words_that_announce_another_matter_are_seen(text: str) -> None:
    """Each language's words for changing the subject open a matter."""
    assert build_exchange([make_turn(0, text)], PAPER).opens


def test_parts_of_words_are_no_cues() -> None:
    """A cue is a whole word: "blast" isn't "last", "übrigens" in capitals is one."""
    exchange = build_exchange([make_turn(0, "The blast of the nextdoor kiln was anywayward")], PAPER)
    assert not exchange.tells_news
    assert not exchange.opens
    assert build_exchange([make_turn(0, "ÜBRIGENS")], PAPER).opens


def test_only_an_exchange_whose_end_asks_leaves_a_question_open() -> None:
    """A question the assistant answered in the same exchange is not open; one it asks back is."""
    asked = make_turn(0, "Why did the glaze crack?")
    answered = make_turn(1, "It cooled too fast.", role=Role.ASSISTANT)
    returned = make_turn(1, "你用的是什么釉？", role=Role.ASSISTANT)
    assert build_exchange([asked], PAPER).asks
    assert not build_exchange([asked, answered], PAPER).asks
    assert build_exchange([asked, returned], PAPER).asks


# --- what always holds ---


@given(turns=sessions(), rules=presets)
@settings(max_examples=150, deadline=None)
def test_every_turn_is_in_one_segment_in_order(turns: list[IndexedTurn], rules: SegmentSettings) -> None:
    """Segments laid end to end are the session."""
    assert sum(cut(turns, rules), ()) == tuple(turn.turn.turn_id for turn in turns)


@given(turns=sessions(), rules=presets, data=st.data())
@settings(max_examples=150, deadline=None)
def test_batches_make_no_difference(
    turns: list[IndexedTurn], rules: SegmentSettings, data: st.DataObject
) -> None:
    """One at a time, in any batches or all at once: the same segments, for the same reasons."""
    whole = segment_turns(turns, fresh(), rules, flush=True)
    state = fresh()
    found: list[ClosedSegment] = []
    decisions: list[Decision] = []
    places = sorted(data.draw(st.sets(st.integers(0, len(turns)))) | {0, len(turns)})
    for start, stop in pairwise(places):
        step = segment_turns(turns[start:stop], state, rules, flush=stop == len(turns))
        state = step.state
        found += step.segments
        decisions += step.decisions
    assert tuple(found) == whole.segments
    assert tuple(decisions) == whole.decisions


@given(turns=sessions(), rules=presets, data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_restart_makes_no_difference(
    turns: list[IndexedTurn], rules: SegmentSettings, data: st.DataObject
) -> None:
    """With nothing kept but where and why segments closed, the session goes on as if it had never stopped."""
    whole = segment_turns(turns, fresh(), rules, flush=True).segments
    closed = whole[: data.draw(st.integers(0, len(whole)))]
    done = sum(len(segment.turn_ids) for segment in closed)
    ends = {segment.turn_ids[-1]: segment.reason for segment in closed}
    state = resume_session(turns[:done], ends, rules, dimension=DIMENSION)
    assert segment_turns(turns[done:], state, rules, flush=True).segments == whole[len(closed) :]


@given(turns=sessions(), rules=presets)
@settings(max_examples=150, deadline=None)
def test_the_caps_hold(turns: list[IndexedTurn], rules: SegmentSettings) -> None:
    """A segment is over its tokens only where one exchange alone is, and never over its exchanges."""
    for segment in segment_turns(turns, fresh(), rules, flush=True).segments:
        assert segment.tokens <= rules.most_tokens or segment.exchanges == 1
        assert segment.exchanges <= rules.most_exchanges


@given(turns=sessions(), rules=presets)
@settings(max_examples=80, deadline=None)
def test_a_decision_adds_up(turns: list[IndexedTurn], rules: SegmentSettings) -> None:
    """The contributions sum to the score, the score gives the probability, and the probability the reason."""
    for decision in segment_turns(turns, fresh(), rules, flush=True).decisions:
        assert decision.score == pytest.approx(sum(decision.contributions.values()))
        assert decision.probability == pytest.approx(1 / (1 + math.exp(-rules.bias - decision.score)))
        semantic = decision.reason is BoundaryReason.SEMANTIC_BOUNDARY
        likely = rules.semantic and decision.probability >= rules.cut_probability
        assert semantic == (likely and decision.reason is not BoundaryReason.CAPACITY_LIMIT)


def test_nothing_fed_is_nothing_cut() -> None:
    """A flush with nothing open closes nothing, however often."""
    done = segment_turns([make_turn(0)], fresh(), PAPER, flush=True)
    assert len(done.segments) == 1
    assert segment_turns([], done.state, PAPER, flush=True).segments == ()
    assert segment_turns([], fresh(), PAPER, flush=True).segments == ()


# --- the paper's formula ---


@pytest.mark.parametrize(
    ("tokens", "pressure"),
    [
        (0, -1.3),
        (209, -1.3),
        (210, -0.8),
        (255, -0.4),
        (300, 0.45),
        (450, 1.175),
        (600, 1.9),
        (750, 2.35),
        (900, 3.0),
        (2000, 3.0),
    ],
)
def test_length_pressure_is_the_papers(tokens: int, pressure: float) -> None:
    """C.1: flat when short, rising in three pieces, flat beyond the cap."""
    assert measure_length(tokens, PAPER) == pytest.approx(pressure)


@pytest.mark.parametrize(
    ("exchanges", "pressure"),
    [(1, -0.85), (2, -0.15), (3, 0.15), (4, 0.30), (5, 0.45), (8, 0.90), (9, 1.0), (30, 1.0)],
)
def test_turn_pressure_is_the_papers(exchanges: int, pressure: float) -> None:
    """C.1: -0.85, -0.15, 0.15, then min(1, 0.30 + 0.15 (n - 4))."""
    assert measure_turns(exchanges, PAPER) == pytest.approx(pressure)


def state_of(turns: list[IndexedTurn], rules: SegmentSettings) -> SegmenterState:
    return resume_session([*turns, make_turn(99)], {}, rules, dimension=DIMENSION)


def test_the_score_is_the_papers() -> None:
    """Equations 1 to 4 and C.1, worked out by hand for two exchanges and a third that turns away."""
    turns = [make_turn(0, vector=(1, 0, 0, 0), tokens=150), make_turn(1, vector=(1, 0, 0, 0), tokens=105)]
    state = state_of(turns, PAPER)
    exchange = build_exchange([make_turn(2, vector=(0.8, 0.6, 0, 0))], PAPER)
    decision = judge_boundary(exchange, state, PAPER)
    drop = 1 - math.hypot(2.8, 0.6) / 3
    assert decision.surprise == pytest.approx(0.2)
    assert decision.cohesion_drop == pytest.approx(drop)
    assert decision.robust is None
    score = 0.65 * 0 + 0.45 * drop / 0.06 + 0.90 * -0.4 + 0.30 * -0.15
    assert decision.score == pytest.approx(score, abs=1e-6)
    assert decision.probability == pytest.approx(1 / (1 + math.exp(1.10 - score)), abs=1e-6)


@given(st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=2, max_size=8))
@settings(deadline=None)
def test_the_cohesion_drop_is_equation_3(rows: list[list[float]]) -> None:
    """The shortcut gives the mean cosine to the centroid before, less that after, as written in the paper."""
    vectors = [np.array(row) / np.linalg.norm(row) for row in rows if np.linalg.norm(row) > 1e-3]
    if len(vectors) < 2:
        return
    state = replace(fresh(), total=np.sum(vectors[:-1], axis=0), exchanges=len(vectors) - 1)
    exchange = replace(build_exchange([make_turn(0)], PAPER), vector=vectors[-1])

    def cohesion(members: list[np.ndarray]) -> float:
        centroid = np.mean(members, axis=0)
        length = float(np.linalg.norm(centroid))
        return float(np.mean([row @ centroid / length for row in members])) if length > 1e-9 else 0.0

    expected = max(0.0, cohesion(vectors[:-1]) - cohesion(vectors))
    assert measure_cohesion_drop(exchange, state) == pytest.approx(expected, abs=1e-6)


def test_the_robust_signal_is_off_with_little_history() -> None:
    """Below five values there is none; then it is the distance to the median in deviations, clipped."""
    assert standardise_surprise(0.9, (0.1, 0.2, 0.3, 0.4), PAPER) is None
    history = (0.1, 0.2, 0.3, 0.4, 0.5)
    assert standardise_surprise(0.4, history, PAPER) == pytest.approx(0.1 / (1.4826 * 0.1))
    assert standardise_surprise(9.0, history, PAPER) == 4.0
    assert standardise_surprise(-9.0, history, PAPER) == -2.0
    assert standardise_surprise(0.5, (0.5,) * 5, PAPER) == 0.0


def test_only_the_last_64_surprises_count() -> None:
    """The history is bounded, so the state is, whatever the length of the session."""
    state = segment_turns([make_turn(place) for place in range(200)], fresh(), PAPER).state
    assert len(state.surprises) == 64
    assert len(state.heard) <= PAPER.heard_exchanges


# --- reasons ---


def reasons(turns: list[IndexedTurn], rules: SegmentSettings) -> list[BoundaryReason]:
    return [segment.reason for segment in segment_turns(turns, fresh(), rules, flush=True).segments]


def test_another_matter_closes_before_it() -> None:
    """Vectors that turn away, after enough tokens, are a semantic boundary, and the decision says by how much."""
    near = [make_turn(place, vector=(1, 0, 0, 0), tokens=60) for place in range(5)]
    far = [make_turn(place, vector=(0, 0, 1, 0), tokens=60) for place in range(5, 7)]
    done = segment_turns([*near, *far], fresh(), PAPER, flush=True)
    assert [len(segment.turn_ids) for segment in done.segments] == [5, 2]
    assert [segment.reason for segment in done.segments] == [
        BoundaryReason.SEMANTIC_BOUNDARY,
        BoundaryReason.SESSION_FLUSH,
    ]
    decision = done.segments[0].decision
    assert decision is not None
    assert decision.turn_id == "t5"
    assert decision.contributions["surprise"] == pytest.approx(0.65 * 2.5)


def test_what_would_not_fit_closes_before_it() -> None:
    """An exchange that takes the segment over 900 tokens begins the next, whatever it is about."""
    turns = [make_turn(0, tokens=550), make_turn(1, tokens=400)]
    assert reasons(turns, PAPER) == [BoundaryReason.CAPACITY_LIMIT, BoundaryReason.SESSION_FLUSH]


def test_reaching_the_target_closes_after_it() -> None:
    """600 tokens or 10 exchanges are enough."""
    assert reasons([make_turn(0, tokens=600)], PAPER) == [BoundaryReason.TARGET_REACHED]
    small = [make_turn(place, tokens=1) for place in range(10)]
    assert reasons(small, PAPER) == [BoundaryReason.TARGET_REACHED]


def test_an_oversized_turn_is_a_segment_by_itself() -> None:
    """A turn over the cap isn't cut here; the encoder cuts what it reads of it."""
    turns = [make_turn(0, tokens=20), make_turn(1, tokens=5000), make_turn(2, tokens=20)]
    assert cut(turns, PAPER) == [("t0",), ("t1",), ("t2",)]


def test_fixed_windows_look_at_no_topics() -> None:
    """The fixed-window preset closes by length only, wherever the vectors turn."""
    turns = [make_turn(place, vector=(place % 2, 1 - place % 2, 0, 0), tokens=100) for place in range(12)]
    found = cut(turns, SEGMENT_PRESETS["fixed-window"])
    assert [len(ids) for ids in found] == [6, 6]


# --- what the default adds ---


def judge(
    text: str,
    before: list[IndexedTurn],
    rules: SegmentSettings | None = None,
    said_at: datetime | None = None,
) -> float:
    rules = rules or SegmentSettings()
    exchange = build_exchange([make_turn(50, text, said_at=said_at)], rules)
    return judge_boundary(exchange, state_of(before, rules), rules).probability


def talk(*texts: str) -> list[IndexedTurn]:
    return [make_turn(place, text) for place, text in enumerate(texts)]


def test_an_answer_stays_with_its_question() -> None:
    """A boundary is less likely right after a question than after a statement."""
    told = talk("The kiln is warm", "Good to hear", "The glaze cracked")
    asked = talk("The kiln is warm", "Good to hear", "Why did the glaze crack?")
    assert judge("Too cold", asked) < judge("Too cold", told)


@pytest.mark.parametrize(
    ("plain", "telling"),
    [
        ("I rode the kiln train", "I rode the kiln train last week"),
        ("the kiln train is late", "by the way the kiln train is late"),
        ("the kiln is warm", "my dog ate two train tickets"),
        ("the kiln is warm", "is the kiln warm?"),
    ],
    ids=["news", "opener", "words", "asks"],
)
def test_what_begins_a_matter_makes_a_boundary_likelier(plain: str, telling: str) -> None:
    """News, announcements, unheard words and questions each speak for a boundary."""
    before = talk("the kiln is warm", "the glaze is dry", "the kiln is warm")
    assert judge(telling, before) > judge(plain, before)


def test_words_that_shift_as_they_always_do_say_nothing() -> None:
    """In a session where every turn uses other words, another one with other words is no sign; in a steady one it is."""
    steady = talk(*["the kiln is warm"] * 6)
    brief = talk("kiln", "glaze", "train", "ticket", "dog", "clay")
    rules = SegmentSettings()
    exchange = build_exchange([make_turn(50, "bicycle")], rules)
    usual, unusual = (judge_boundary(exchange, state_of(turns, rules), rules) for turns in (brief, steady))
    assert usual.signals.word_shift < 0.2 < unusual.signals.word_shift
    silent = build_exchange([make_turn(50, "...")], rules)
    assert measure_word_shift(silent, state_of(steady, rules), rules) is None
    assert judge_boundary(silent, state_of(steady, rules), rules).signals.word_shift == 0.0


def test_a_single_turn_is_no_segment_while_its_reply_may_follow() -> None:
    """One turn alone is held open; a user's question with its answer is not."""
    lone = judge("my dog ate two train tickets", talk("the kiln is warm"))
    pair = judge("my dog ate two train tickets", talk("the kiln is warm", "good"))
    assert lone < pair


def test_a_long_pause_speaks_for_a_boundary() -> None:
    """Hours between two turns count, minutes don't, and unknown times say nothing."""
    before = [make_turn(place, said_at=NOON) for place in range(2)]
    timed = resume_session(
        before, {"t1": BoundaryReason.SESSION_FLUSH}, SegmentSettings(), dimension=DIMENSION
    )
    state = replace(timed, turn_ids=("t0", "t1"), exchanges=2, tokens=60, total=timed.session_total)

    def after(delay: timedelta | None) -> float:
        said_at = NOON + delay if delay is not None else None
        exchange = build_exchange([make_turn(2, said_at=said_at)], SegmentSettings())
        return judge_boundary(exchange, state, SegmentSettings()).signals.pause

    assert after(timedelta(hours=8)) == 4.0
    assert after(timedelta(hours=1)) == 1.0
    assert after(timedelta(minutes=5)) == 0.0
    assert after(timedelta(minutes=-5)) == 0.0
    assert after(None) == 0.0


def test_vectors_without_length_are_no_fault() -> None:
    """A turn whose words the embedder doesn't know is judged by everything else."""
    turns = [make_turn(place, "猫猫", vector=(0, 0, 0, 0)) for place in range(12)]
    assert sum(cut(turns, SegmentSettings()), ()) == tuple(f"t{place}" for place in range(12))


def test_the_settings_of_a_memory_hold_the_default() -> None:
    """`Settings().segment` is the preset named default."""
    assert Settings().segment == SEGMENT_PRESETS["default"]


# --- the benchmark's counting ---


def labelled(turns: int, starts: set[int]) -> LabelledSession:
    return LabelledSession(
        conversation_id="c",
        session_id="s",
        turns=tuple(make_turn(place) for place in range(turns)),
        starts=frozenset(starts),
    )


def test_boundaries_pair_once() -> None:
    """Each found boundary takes one recorded boundary at most, the nearest place from the left."""
    assert count_matches([3, 7], frozenset({3, 8}), within=0) == 1
    assert count_matches([3, 7], frozenset({3, 8}), within=1) == 2
    assert count_matches([3, 4], frozenset({4}), within=1) == 1


def test_agreement_is_precision_recall_and_f1() -> None:
    """Perfect boundaries score one in every resample; half of them, half."""
    sessions_of_ten = [labelled(10, {4}), labelled(10, {6})]
    perfect = measure_agreement(tally(sessions_of_ten, [[4], [6]], within=0))
    assert perfect.f1 == (1.0, 1.0, 1.0)
    half = measure_agreement(tally(sessions_of_ten, [[4], [5]], within=0))
    assert half.precision[0] == half.recall[0] == half.f1[0] == 0.5
    assert measure_agreement(tally(sessions_of_ten, [[], []], within=0)).f1 == (0.0, 0.0, 0.0)


def test_even_and_random_cuts_have_the_number_asked_for() -> None:
    """The baselines cut inside sessions only."""
    both = [labelled(10, set()), labelled(5, set())]
    assert cut_evenly(both, 4) == [[4, 8], [4]]
    drawn = cut_at_random(both, 6, np.random.default_rng(0))
    assert sum(map(len, drawn)) == 6
    assert all(
        0 < place < len(session.turns) for session, row in zip(both, drawn, strict=True) for place in row
    )


def read_two(directory: Path, recorded: object | None = None) -> list[LabelledSession]:
    texts = [f"{word} {other}" for word in WORDS[:5] for other in WORDS[:5]]
    turns = [{"id": f"a{place}", "role": "user", "text": text} for place, text in enumerate(texts)]
    conversation = directory / "conversation.json"
    sessions = [
        {"session_id": "one", "turns": turns},
        {"session_id": "two", "turns": [{"id": "b0", "role": "user", "text": "bye"}]},
    ]
    conversation.write_text(json.dumps({"id": "c", "sessions": sessions}))
    segments = directory / "segments.json"
    segments.write_text(json.dumps(recorded))
    return read_sessions(
        conversation, HashEmbedder(), count_words, segments=segments if recorded is not None else None
    )


def count_words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_recorded_segments_become_places_inside_sessions(tmp_path: Path) -> None:
    """The first turn of a session is no boundary; the first turn of each further segment is one."""
    recorded = {"c": [{"turns": ["a0", "a1"]}, {"turns": ["a2", "a3"]}, {"turns": ["a4"]}]}
    one, two = read_two(tmp_path, recorded)
    assert one.starts == {2, 4}
    assert two.starts == frozenset()
    assert [turn.tokens for turn in one.turns[:2]] == [2, 2]
    assert read_two(tmp_path)[0].starts == frozenset()


def test_the_threshold_gives_the_length_wanted(tmp_path: Path) -> None:
    """More turns wanted in a segment means fewer segments, up to the caps."""
    sessions_read = read_two(tmp_path)
    lengths = []
    for wanted in (2.0, 8.0):
        rules = pick_threshold(sessions_read, SegmentSettings(), turns_per_segment=wanted)
        lengths.append(26 / sum(len(cut_session(session, rules)) for session in sessions_read))
    assert lengths[0] < 4 < lengths[1]
