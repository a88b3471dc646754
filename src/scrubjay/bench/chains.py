"""What a chain's settings do to what it shows: gold turns found, tokens spent, and how readable gold turns stand there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.beside import answer_shares
from scrubjay.reading import organise_chain
from scrubjay.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.judged import JudgedQuestion
    from scrubjay.settings import ChainSettings, Settings

BUDGETS = (500, 1000, 2000)
NORMAL = 1.96  # standard errors to each side of a mean, 95 %


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChainRun:
    """What a chain's settings gave within one budget, a value a question with gold turns; n of them."""

    found: NDArray[np.float64]  # (n,) share of the gold turns
    tokens: NDArray[np.float64]  # (n,) reckoned
    in_sight: NDArray[
        np.float64
    ]  # (n,) share of the question's words, by weight, in and beside the gold turns shown
    answers: int  # gold turns shown that are short answers to a question
    asked: int  # of those, whose question is shown too

    def gain_over(self, other: ChainRun) -> tuple[float, float]:
        """Give how much more is found than with other settings, and the half of its 95 % interval."""
        gain = self.found - other.found
        return float(gain.mean()), NORMAL * float(gain.std()) / len(gain) ** 0.5


def run_chains(
    judged: Sequence[JudgedQuestion],
    settings: Settings,
    variants: Mapping[str, ChainSettings],
    *,
    budget: int,
) -> dict[str, ChainRun]:
    """Build the chain of every question with an answer and gold turns, with each of the settings."""
    with_gold = [each for each in judged if each.gold.any() and not each.question.unanswerable]
    return {
        name: run_chain(with_gold, replace(settings, chain=chain), budget=budget)
        for name, chain in variants.items()
    }


def run_chain(judged: Sequence[JudgedQuestion], settings: Settings, *, budget: int) -> ChainRun:
    found, tokens, in_sight, answers, asked = [], [], [], 0, 0
    for each in judged:
        chain = organise_chain(each.found, settings, budget=budget, trace=Trace())
        rows = {link.row for link in chain.links}
        gold = [row for row in each.pool[each.gold].tolist() if row in rows]
        found.append(len(gold) / len(each.question.evidence))
        tokens.append(chain.tokens)
        in_sight += [share_in_sight(row, rows, each) for row in gold]
        before = [previous for row in gold if (previous := question_of(row, each, settings.chain)) >= 0]
        answers += len(before)
        asked += len(rows.intersection(before))
    return ChainRun(
        found=np.array(found),
        tokens=np.array(tokens),
        in_sight=np.array(in_sight),
        answers=answers,
        asked=asked,
    )


def question_of(row: int, judged: JudgedQuestion, chain: ChainSettings) -> int:
    """Return the row of the question that a turn answers in at most twice the words of a short answer; -1 where it doesn't."""
    table = judged.found.corpus.turns
    answers = answer_shares(np.array([row]), table, chain)[0] >= 0.5
    return int(table.previous[row]) if answers else -1


def share_in_sight(row: int, shown: set[int], judged: JudgedQuestion) -> float:
    """Say which share of the question's words, by weight, stands in a turn and the turns beside it that are shown."""
    channels, table = judged.found.scores.channels, judged.found.corpus.turns
    window = [row, *(int(at) for at in (table.previous[row], table.following[row]) if int(at) in shown)]
    held = int(np.bitwise_or.reduce(channels.covered[window]))
    weights = channels.idf[:64].tolist()
    total = sum(weights)
    return sum(weight for place, weight in enumerate(weights) if held >> place & 1) / total if total else 0.0
