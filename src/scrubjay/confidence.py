"""READ: whether a question can be answered at all, told from the scores of its evidence, without a model. Pure.

How likely the best turn is evidence says little: what was never told is asked in the words of what was. Who says it tells
more: where a question names somebody, and what fits best was said by another, or was only asked by the one named, it asks
the wrong person (docs/answers.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.cues import FLAG_QUESTION

if TYPE_CHECKING:
    from scrubjay.datatypes import TurnTable
    from scrubjay.question import Question
    from scrubjay.scores import TurnScores
    from scrubjay.settings import ConfidenceSettings

TINY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceSignals:
    """What a question's confidence is reckoned from; log-odds of a turn being evidence, as relevance has them."""

    promise: float  # of the best turn, had it no rivals
    others: float  # of the best turn of those not named; 0 where there are none to tell apart
    names: float  # 1 where the question names some of the speakers and not all; else 0
    asks: float  # 1 where it does, and the best turn of those named ends in a question itself; else 0


def measure_confidence(
    question: Question, table: TurnTable, scores: TurnScores, settings: ConfidenceSettings
) -> float:
    """Reckon the probability that a question can be answered from the turns that were scored for it."""
    signals = read_signals(question, table, scores, least=settings.least_log_odds)
    weights = (settings.promise, settings.others, settings.names, settings.asks)
    values = (signals.promise, signals.others, signals.names, signals.asks)
    log_odds = float(np.dot(values, weights))
    return 1 / (1 + float(np.exp(-log_odds - settings.bias)))


def read_signals(
    question: Question, table: TurnTable, scores: TurnScores, *, least: float
) -> ConfidenceSignals:
    """Read the signals; a turn is never less likely evidence than `least`."""
    promise = as_log_odds(scores.promise, least)
    if not 0 < len(question.named) < len(table.speakers):
        return ConfidenceSignals(promise=promise, others=0.0, names=0.0, asks=0.0)
    named = np.isin(table.speaker, question.named)
    best = int(np.argmax(np.where(named, scores.relevance, -1)))
    return ConfidenceSignals(
        promise=promise,
        others=as_log_odds(float(scores.relevance[~named].max(initial=0)), least),
        names=1.0,
        asks=float(bool(table.flags[best] & FLAG_QUESTION)),
    )


def as_log_odds(probability: float, least: float) -> float:
    held = min(max(probability, TINY), 1 - TINY)
    return max(float(np.log(held / (1 - held))), least)
