"""Questions judged turn by turn, and how far their probabilities can be believed."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from scrubjay.bench.chains import question_of, run_chains, share_in_sight
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.fitting import Material, fit_listwise, line_up, weigh
from scrubjay.bench.judged import JudgedQuestion, judge_samples, run_question, score_again
from scrubjay.bench.reliability import (
    ReliabilityBin,
    bin_reliability,
    format_reliability,
    likelihoods,
    measure_floors,
)
from scrubjay.embed import load_embedder
from scrubjay.memory import Memory
from scrubjay.relevance import SIGNALS
from scrubjay.settings import RelevanceSettings, RelevanceWeights, Settings

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[1]


@cache
def judged() -> tuple[JudgedQuestion, ...]:
    """Judge the first questions of the shipped sample, and of its first half as a second memory."""
    (whole,) = load_dataset("sample").samples
    early = replace(whole.conversation, sessions=whole.conversation.sessions[:5])
    held = {turn.turn_id for session in early.sessions for turn in session.turns}
    questions = tuple(
        replace(question, sample="early")
        for question in whole.questions
        if held.issuperset(question.evidence)
    )
    samples = (
        replace(whole, questions=whole.questions[:8]),
        replace(whole, sample="early", conversation=early, questions=questions[:4]),
    )
    return tuple(judge_samples(samples, embedder=load_embedder(), settings=Settings(), strangers=True))


def test_gold_turns_are_those_a_question_cites() -> None:
    """Every turn of a small memory has its signals, and the gold ones are marked by id."""
    for each in judged():
        assert each.signals.shape == (len(each.pool), len(SIGNALS))
        assert {each.turn_ids[row] for row in each.pool[each.gold]} == set(each.question.evidence)


def test_a_stranger_is_a_question_of_the_next_memory_without_an_answer_here() -> None:
    """Each memory is asked its own questions, then the next one's, which cite nothing."""
    assert [each.is_stranger for each in judged()] == [False] * 8 + [True] * 4 + [False] * 4 + [True] * 8
    assert not any(each.gold.any() for each in judged() if each.is_stranger)


def test_a_judged_question_ranks_as_the_memory_does() -> None:
    """With the settings as they are, ranking and probabilities are those of a search."""
    with Memory(":memory:") as memory:
        (sample,) = load_dataset("sample").samples
        memory.add_many(
            (session.session_id, turn) for session in sample.conversation.sessions for turn in session.turns
        )
        for each in judged()[:3]:
            asked = each.question
            hits = memory.search(asked.question, limit=10, now=asked.asked_at, asker=asked.asked_by)
            run = run_question(each, Settings(), budgets=(500,))
            assert run.ranking[:10] == tuple(hit.turn.turn_id for hit in hits)
            scores = score_again(each, RelevanceSettings())
            assert scores.relevance[scores.order[:10]].tolist() == pytest.approx([hit.score for hit in hits])
            assert 0 < len(run.evidence[500]) < len(each.turn_ids)


def test_a_question_is_judged_when_the_memory_holds_what_it_may_know() -> None:
    """A memory grows between questions; what was read of it before stays as it was."""
    (sample,) = load_dataset("sample").samples
    early = replace(sample.questions[0], sessions_before=2)
    asked = replace(sample, questions=(sample.questions[1], early))
    first, last = judge_samples([asked], embedder=load_embedder(), settings=Settings())
    assert (first.question, last.question) == (early, sample.questions[1])
    held = [len(session.turns) for session in sample.conversation.sessions]
    assert [len(first.turn_ids), len(last.turn_ids)] == [sum(held[:2]), sum(held)]
    assert len(first.pool) == len(first.found.corpus.turns) == sum(held[:2])


def test_bins_compare_what_is_expected_with_what_is_so() -> None:
    """A bin has the turns between its bounds, their mean probability and the share that is evidence."""
    bins = bin_reliability(np.array([0.0, 0.55, 0.57, 1.0]), np.array([False, True, False, True]))
    assert bins[1] == ReliabilityBin(low=0.5, high=0.6, turns=2, expected=bins[1].expected, observed=0.5)
    assert bins[1].expected == pytest.approx(0.56)
    assert [each.turns for each in bins] == [1, 2, 1]
    assert bins[-1].high == 1
    assert "0.5 to 0.6" in format_reliability(bins)


def test_probabilities_of_the_sample_can_be_believed() -> None:
    """Over all turns of its questions, about as much evidence is expected as there is."""
    probabilities, gold = likelihoods(
        [each for each in judged() if not each.is_stranger], RelevanceSettings()
    )
    assert 0.4 < probabilities.sum() / gold.sum() < 2.5


def test_floors_say_what_is_left_out() -> None:
    """Without floors nothing is, with high ones everything, in shares."""
    settings = Settings()
    free = replace(settings, chain=replace(settings.chain, least_relevance=0, least_promise=0))
    none = replace(settings, chain=replace(settings.chain, least_promise=1.1))
    assert measure_floors(judged(), free).turns == 0
    assert measure_floors(judged(), none).gold == 1
    assert measure_floors(judged(), none).strangers_silenced == 1
    assert measure_floors([], settings).turns == 0
    assert measure_floors(judged(), settings).silenced == 0


@cache
def fitting() -> ModuleType:
    pytest.importorskip("scipy")
    spec = importlib.util.spec_from_file_location("fit_relevance", ROOT / "tools" / "fit_relevance.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fit_relevance"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def plant(seed: int, weights: np.ndarray[Any, Any]) -> JudgedQuestion:
    """Draw signals, and a gold turn by the softmax of their weighted sum."""
    generator = np.random.default_rng(seed)
    signals = generator.normal(size=(150, len(SIGNALS)))
    chances = np.exp(signals @ weights)
    gold = np.arange(150) == generator.choice(150, p=chances / chances.sum())
    first = judged()[0]
    return replace(first, signals=signals, gold=gold, pool=np.arange(150), turn_ids=("",) * 150)


def test_fitting_finds_weights_that_were_planted() -> None:
    """Questions whose gold turn was drawn by a weighted sum give back about those weights."""
    planted = np.where(np.arange(len(SIGNALS)) < 3, 2.0, 0.0)
    questions = [plant(seed, planted) for seed in range(120)]
    fitted = fit_listwise([questions], [np.ones(len(questions))])
    np.testing.assert_allclose(fitted, planted, atol=0.6)


def test_calibration_makes_odds_of_scores() -> None:
    """Scores that are already log-odds of one turn in its memory keep their scale, and the odds sum to the evidence."""
    planted = np.where(np.arange(len(SIGNALS)) < 3, 2.0, 0.0)
    questions = [plant(seed, planted) for seed in range(120)]
    material = Material(
        dataset=load_dataset("sample"), own=questions, strangers=[], folds=np.zeros(len(questions), np.intp)
    )
    settings = fitting().settle(
        planted,
        line_up([material], [weigh(planted)] * 4, weigh(planted), fewest=100),
        RelevanceSettings(),
    )
    assert settings.weights.lexical == pytest.approx(2, abs=0.4)
    probabilities, gold = likelihoods(questions, settings)
    assert probabilities.sum() == pytest.approx(gold.sum(), rel=0.1)


def test_the_weights_shipped_are_rounded_as_the_fit_rounds_them() -> None:
    """Nobody typed other digits."""
    for name in SIGNALS:
        weight = getattr(RelevanceWeights(), name)
        assert weight == round(round(weight / fitting().GRAIN) * fitting().GRAIN, 2), name


# --- chains ---


def test_chains_are_compared_over_the_same_questions() -> None:
    """A setting against itself gains nothing; no anchors find nothing; all keep the budget."""
    default = Settings().chain
    variants = {
        "default": default,
        "again": replace(default),
        "none": replace(default, anchors=0),
        "every neighbour": replace(default, need=0.0, before=1, after=1),
    }
    runs = run_chains(judged(), Settings(), variants, budget=1000)
    assert runs["default"].gain_over(runs["again"]) == (0, 0)
    assert (runs["none"].found.sum(), runs["none"].tokens.sum(), len(runs["none"].in_sight)) == (0, 0, 0)
    assert runs["none"].gain_over(runs["default"])[0] == pytest.approx(-runs["default"].found.mean())
    assert runs["every neighbour"].in_sight.mean() >= runs["default"].in_sight.mean() > 0
    answered = [each for each in judged() if each.gold.any() and not each.question.unanswerable]
    assert {len(run.found) for run in runs.values()} == {len(answered)}
    assert all(run.tokens.max() <= 1000 for run in runs.values())


def test_a_question_in_sight() -> None:
    """Words of the question count that stand in the turn itself, or in one beside it that is shown."""
    each = next(each for each in judged() if each.gold.any())
    row = int(each.pool[each.gold][0])
    beside = {
        int(row) for row in (each.found.corpus.turns.previous[row], each.found.corpus.turns.following[row])
    }
    assert 0 < share_in_sight(row, set(), each) <= share_in_sight(row, beside, each) <= 1
    assert question_of(row, each, replace(Settings().chain, short_answer=0.0)) == -1
