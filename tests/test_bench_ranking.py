"""Ways of ranking compared a question at a time (benchmarks/ranking_ablation.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.judged import run_question
from scrubjay.bench.measures import score_run
from scrubjay.bench.ranking import MEASURES, Case, Exam, compare, examine, measure_way, rank_by
from scrubjay.bench.ranking_ways import PARTS, REFITTED, SHIPPED, Bench, see_around_everyone, see_several
from scrubjay.embed import load_embedder
from scrubjay.relevance import SIGNALS
from scrubjay.settings import Settings

SETTINGS = Settings()


@cache
def exam() -> Exam:
    dataset = load_dataset("sample")
    return examine("the sample", dataset, SETTINGS, embedder=load_embedder(), trained=True, every=3)


@cache
def bench() -> Bench:
    names = ("ours", "LongMemEval", "RealMem")
    exams = [replace(exam(), name=name, is_trained=name != "RealMem", cases=renamed(name)) for name in names]
    return Bench(exams=exams, settings=SETTINGS)


def renamed(name: str) -> tuple[Case, ...]:
    """Give the questions as another exam's, those of each quarter by turns."""
    return tuple(replace(case, exam=name, fold=place % 4) for place, case in enumerate(exam().cases))


def test_the_shipped_way_measures_what_a_run_measures() -> None:
    """What is counted here is what `scrubjay bench` counts of the same ranking and context."""
    shipped = next(iter(PARTS["all"](bench())))
    runs = [run_question(case.judged, SETTINGS, budgets=(1000,)) for case in exam().cases]
    by_index = {score.question_index: score.values for score in score_run(exam().dataset.samples, runs)}
    official = [
        [by_index[case.judged.question.question_index][measure] for measure in MEASURES]
        for case in exam().cases
    ]
    np.testing.assert_allclose(measure_way(exam(), shipped), official)


@pytest.mark.parametrize("part", PARTS)
def test_every_way_ranks_every_question(part: str) -> None:
    """Each way gives finite log-odds for all turns, and says what it is compared with."""
    for way in PARTS[part](bench()):
        found = [measure_way(each, way) for each in bench().exams]
        assert all(np.all((values >= 0) & (values <= 1)) for values in found), way.name
        assert way.beside in {"", SHIPPED, REFITTED}
        for case in exam().cases:
            assert sorted(way.rank(case).order.tolist()) == case.judged.pool.tolist() or "chain" in way.name


def test_a_difference_is_taken_a_question_at_a_time() -> None:
    """Turning the order round loses what is found first, with its interval; a way differs from itself by nothing."""
    shipped = next(iter(PARTS["all"](bench())))
    turned = rank_by(
        lambda case: -np.log(np.maximum(shipped.rank(case).relevance, 1e-9))[case.judged.pool],
        SETTINGS.relevance,
    )
    found = measure_way(exam(), shipped)
    lost = compare(measure_way(exam(), replace(shipped, rank=turned)), found)[MEASURES.index("R@10")]
    assert -1 <= lost.low <= lost.mean <= lost.high < 0
    assert {(same.low, same.high) for same in compare(found, found)} == {(0, 0)}


def test_signals_of_neighbours_are_there_for_all() -> None:
    """As if each turn had a speaker of its own, only what stands around a turn is read otherwise."""
    for case in exam().cases:
        seen = see_around_everyone(SETTINGS.relevance)(case)
        others = [
            place for place, name in enumerate(SIGNALS) if not name.startswith(("prev", "foll", "window"))
        ]
        np.testing.assert_array_equal(seen[:, others], case.judged.signals[:, others])


def test_questions_of_several_things_are_told() -> None:
    """The second half of the signals is there where a question asks for more than one thing, and 0 elsewhere."""
    case = exam().cases[0]
    for text, several in (("Which cities did Ana visit?", True), ("Where does Ana live?", False)):
        asked = replace(case.judged, question=replace(case.judged.question, question=text))
        half = see_several(replace(case, judged=asked))[:, len(SIGNALS) :]
        assert bool(half.any()) is several
