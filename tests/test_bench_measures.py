"""Measures of found evidence, against values worked out by hand."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.bench.measures import QuestionRun, average, bootstrap_means, score_run, summarize
from scrubjay.bench.questions import BenchQuestion, BenchSample
from scrubjay.datatypes import NewTurn, Role
from scrubjay.errors import InputError, MissingExtraError
from scrubjay.formats import Conversation, ConversationSession

if TYPE_CHECKING:
    from collections.abc import Mapping


def make_question(index: int = 0, **changes: object) -> BenchQuestion:
    fields: dict[str, object] = {
        "sample": "x",
        "question_index": index,
        "question": "?",
        "answer": "",
        "category": "a",
        "category_name": "a",
        "evidence": (),
        "evidence_sessions": (),
        "unresolved": (),
        "asked_at": None,
        "unanswerable": False,
        **changes,
    }
    return BenchQuestion(**fields)  # type: ignore[arg-type]  # the fields are those above


def make_sample(*questions: BenchQuestion) -> BenchSample:
    """Make a sample of 12 sessions a, b, … of 10 turns each: a:0, a:1, …"""
    sessions = tuple(
        ConversationSession(
            session_id=name,
            turns=tuple(
                NewTurn(role=Role.USER, text="hm", turn_id=f"{name}:{index}", index=index)
                for index in range(10)
            ),
        )
        for name in "abcdefghijkl"
    )
    return BenchSample(
        sample="x", conversation=Conversation(conversation_id="x", sessions=sessions), questions=questions
    )


def score_one(
    question: BenchQuestion, ranking: list[str], **evidence: tuple[str, ...]
) -> Mapping[str, float]:
    budgets = {int(name.removeprefix("t")): turns for name, turns in evidence.items()}
    run = QuestionRun(sample="x", question_index=0, ranking=tuple(ranking), evidence=budgets)
    return score_run([make_sample(question)], [run])[0].values


def test_turn_measures_by_hand() -> None:
    """Recall, full coverage and nDCG of a ranking with gold at ranks 2, 6 and 30 are what they are on paper"""
    ranking = [f"{name}:{index}" for name in "abcdef" for index in range(10)]
    gold = (ranking[1], ranking[5], ranking[29])
    values = score_one(make_question(evidence=gold), ranking)
    assert [values[f"R@{depth}"] for depth in (5, 10, 25, 50)] == pytest.approx([1 / 3, 2 / 3, 2 / 3, 1])
    assert [values[f"full@{depth}"] for depth in (5, 10, 25, 50)] == [0, 0, 0, 1]
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert values["nDCG@10"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(7)) / ideal)


def test_budget_measures_by_hand() -> None:
    """Within a token budget counts which gold turns the context holds, in whatever order"""
    values = score_one(
        make_question(evidence=("a:1", "b:2")), ["a:1"], t500=("a:1", "a:0"), t2000=("b:2", "a:1")
    )
    assert (values["R@500tok"], values["full@500tok"]) == (0.5, 0)
    assert (values["R@2000tok"], values["full@2000tok"]) == (1, 1)


def test_session_measures_count_different_sessions() -> None:
    """The first five sessions are five different ones, however many turns of one come first"""
    ranking = [*(f"a:{index}" for index in range(10)), "b:0", "c:0", "d:0", "e:0", "f:0"]
    values = score_one(make_question(evidence_sessions=("e", "f")), ranking)
    assert [values[f"session-any@{depth}"] for depth in (5, 10)] == [1, 1]
    assert [values[f"session-all@{depth}"] for depth in (5, 10)] == [0, 1]
    assert "R@5" not in values


def test_a_repeated_turn_counts_once() -> None:
    """A ranking that names a turn twice gains no place by it, and turns nobody knows are only wrong"""
    values = score_one(
        make_question(evidence=("b:0",), evidence_sessions=("b",)), ["a:0"] * 9 + ["zz", "b:0"]
    )
    assert (values["R@5"], values["session-any@5"]) == (1, 1)


def test_an_unanswered_question_scores_zero() -> None:
    """A question the run doesn't answer, or gives no context of some budget, scores zero in it"""
    questions = [make_question(index, evidence=("a:0",), evidence_sessions=("a",)) for index in range(2)]
    run = QuestionRun(sample="x", question_index=0, ranking=("a:0",), evidence={500: ("a:0",)})
    answered, unanswered = score_run([make_sample(*questions)], [run])
    assert set(answered.values.values()) == {1.0}
    assert set(unanswered.values.values()) == {0.0}
    assert set(answered.values) == set(unanswered.values)
    assert summarize([answered, unanswered]).unanswered == 1


def test_an_empty_run_scores_zero() -> None:
    """A run without a single answer is all zeros"""
    (score,) = score_run([make_sample(make_question(evidence=("a:0",)))], [])
    assert set(score.values.values()) == {0.0}


def test_a_question_answered_twice_is_refused() -> None:
    """A run with two lines for one question is no run"""
    run = QuestionRun(sample="x", question_index=0, ranking=())
    with pytest.raises(InputError, match="question 0 of 'x' twice"):
        score_run([make_sample(make_question())], [run, run])


def test_questions_without_evidence_are_counted_apart() -> None:
    """What can't be measured is left out of the means and counted; unanswerable questions have rows of their own"""
    questions = [
        make_question(0, evidence=("a:0",), evidence_sessions=("a",)),
        make_question(1, evidence=("b:0",), category_name="b"),
        make_question(2, unresolved=("zz",)),
        make_question(3, unanswerable=True),
        make_question(4, unanswerable=True, evidence=("c:0",), category_name="trick"),
    ]
    runs = [QuestionRun(sample="x", question_index=index, ranking=("a:0", "c:0")) for index in range(5)]
    table = summarize(score_run([make_sample(*questions)], runs))
    assert (table.questions, table.scored, table.unanswerable, table.without_evidence) == (5, 2, 2, 1)
    assert (table.overall["R@5"].mean, table.overall["R@5"].questions) == (0.5, 2)
    assert (table.overall["session-any@5"].mean, table.overall["session-any@5"].questions) == (1, 1)
    assert {name: row["R@5"].mean for name, row in table.categories.items()} == {"a": 1, "b": 0, "trick": 1}


def test_measures_come_in_reading_order() -> None:
    """Tables list turns before tokens before sessions, each by depth"""
    rows = [
        dict.fromkeys(
            ["session-all@10", "R@1000tok", "R@500tok", "R@50", "full@5", "R@5", "session-all@5"], 1.0
        )
    ]
    expected = ["R@5", "R@50", "full@5", "R@500tok", "R@1000tok", "session-all@5", "session-all@10"]
    assert list(average(rows)) == expected


def test_nothing_to_average_gives_nothing() -> None:
    """No questions, or none with a measure, make an empty table rather than a zero"""
    assert average([]) == average([{}]) == {}
    assert summarize([]).overall == {}


def test_intervals_cover_a_known_error() -> None:
    """For a share of one half over 400 questions the 95 % interval is about 0.05 to either side"""
    interval = average([{"R@5": float(number % 2)} for number in range(400)])["R@5"]
    assert interval.mean == 0.5
    assert interval.low == pytest.approx(0.451, abs=0.008)
    assert interval.high == pytest.approx(0.549, abs=0.008)


def test_intervals_are_the_same_every_time() -> None:
    """The same scores and seed give the same interval; another seed another"""
    rows = [{"R@5": float(number % 3 == 0)} for number in range(50)]
    assert average(rows) == average(rows)
    assert average(rows) != average(rows, seed=1)


@given(
    st.lists(st.lists(st.none() | st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=20),
    st.integers(0, 3),
)
def test_resampled_means_agree_with_drawing_rows(values: list[list[float | None]], seed: int) -> None:
    """One matrix product gives the means that drawing the rows one by one gives, missing values left out"""
    table = np.array([[np.nan if value is None else value for value in row] for row in values])
    means = bootstrap_means(table, resamples=7, seed=seed)
    drawn = np.random.default_rng(seed).multinomial(len(table), np.full(len(table), 1 / len(table)), size=7)
    for mean, counts in zip(means, drawn, strict=True):
        rows = np.repeat(table, counts, axis=0)
        for column in range(3):
            there = rows[~np.isnan(rows[:, column]), column]
            np.testing.assert_allclose(mean[column], there.mean() if len(there) else np.nan)


@given(st.data())
def test_scores_stay_between_zero_and_one(data: st.DataObject) -> None:
    """Every measure of any ranking is between 0 and 1, recall never falls with depth, and full means recall of 1"""
    turns = st.sampled_from([f"{name}:{index}" for name in "abc" for index in range(10)])
    gold = data.draw(st.lists(turns, min_size=1, max_size=5, unique=True))
    ranking = data.draw(st.lists(turns, max_size=40))
    values = score_one(
        make_question(evidence=tuple(gold), evidence_sessions=("a",)), ranking, t500=tuple(ranking[:3])
    )
    assert all(0 <= value <= 1 for value in values.values())
    recalls = [values[f"R@{depth}"] for depth in (5, 10, 25, 50)]
    assert recalls == sorted(recalls)
    assert [recall == 1 for recall in recalls] == [values[f"full@{depth}"] == 1 for depth in (5, 10, 25, 50)]


def test_without_the_extra_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ir-measures the error says what to install"""
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtraError, match=r'pip install "scrubjay\[bench\]"'):
        score_run([make_sample(make_question())], [])
