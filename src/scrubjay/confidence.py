"""READ: whether a question can be answered at all, told from the scores of its evidence, without a model. Pure.

How likely the best turn is evidence says little: what was never told is asked in the words of what was. Who says it tells
more: where a question names somebody, and what fits best was said by another, it asks the wrong person (docs/answers.md).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scrubjay.datatypes import TurnTable
    from scrubjay.question import Question
    from scrubjay.scores import TurnScores
    from scrubjay.settings import ConfidenceSettings

TINY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceSignals:
    """What a question's confidence is reckoned from; log-odds of a turn being evidence, as relevance has them."""

    asked: float  # of the best turn of those named; of all turns where nobody is, or everybody
    others: float  # of the best turn of the others; 0 where there are none to tell apart
    names: float  # 1 where the question names some of the speakers and not all; else 0


def measure_confidence(
    question: Question, table: TurnTable, scores: TurnScores, settings: ConfidenceSettings
) -> float:
    """Reckon the probability that a question can be answered from the turns that were scored for it."""
    signals = read_signals(question, table, scores, least=settings.least_log_odds)
    log_odds = float(np.dot(astuple(signals), (settings.asked, settings.others, settings.names)))
    return 1 / (1 + float(np.exp(-log_odds - settings.bias)))


def read_signals(
    question: Question, table: TurnTable, scores: TurnScores, *, least: float
) -> ConfidenceSignals:
    """Read the signals; a turn is never less likely evidence than `least`."""
    named = np.isin(table.speaker, question.named)
    tells_apart = 0 < len(question.named) < len(table.speakers)
    if not tells_apart:
        return ConfidenceSignals(asked=best_of(scores.relevance, least), others=0.0, names=0.0)
    return ConfidenceSignals(
        asked=best_of(scores.relevance[named], least),
        others=best_of(scores.relevance[~named], least),
        names=1.0,
    )


def best_of(relevance: NDArray[np.float32], least: float) -> float:
    best = min(max(float(relevance.max(initial=0)), TINY), 1 - TINY)
    return max(float(np.log(best / (1 - best))), least)
