"""Whether a memory knows when it doesn't know: questions with and without an answer, and how confidence parts them.

Few data sets have questions without an answer, so more are made of those that have one: `removed`, the same question to a
memory without its evidence turns; `swapped`, the same question about another speaker, where it names exactly one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.judged import fill_corpus, find_for
from scrubjay.bench.tried_signals import read_tried_signals
from scrubjay.confidence import measure_confidence, read_signals
from scrubjay.datatypes import ROLES, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.questions import BenchQuestion, BenchSample, Dataset
    from scrubjay.confidence import ConfidenceSignals
    from scrubjay.corpus import Corpus
    from scrubjay.embed import Embedder
    from scrubjay.settings import Settings

COVERAGES = (0.25, 0.5, 0.75, 0.9)
MOST_SWAPS = 2  # other speakers that a question is put about


class Origin(StrEnum):
    """Where a question comes from."""

    NATURAL = "natural"  # the data set's own
    REMOVED = "removed"  # its evidence is left out of the memory
    SWAPPED = "swapped"  # it names another speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstentionCase:
    """A question, whether its memory can answer it, and what its confidence is reckoned from."""

    dataset: str
    sample: str
    category: str
    origin: Origin
    answerable: bool
    signals: ConfidenceSignals
    confidence: float
    best: float  # relevance of the most relevant turn, which is what one would look at first
    tried: Mapping[str, float]  # signals that confidence doesn't use, where questions are made


def collect_cases(
    dataset: Dataset, *, embedder: Embedder, settings: Settings, made: bool = False
) -> Iterator[AbstentionCase]:
    """Put every question to its memory; with `made`, also the questions without an answer that are made of it."""
    for sample in dataset.samples:
        whole = fill_corpus(sample, embedder=embedder, settings=settings)
        said = {turn.turn_id: turn.text for session in sample.conversation.sessions for turn in session.turns}
        for question in sample.questions:
            origins = [(Origin.NATURAL, question, whole)]
            if made and not question.unanswerable:
                origins += [(Origin.SWAPPED, other, whole) for other in swap_speakers(question, whole[0])]
            if made and question.evidence:
                rest = without_evidence(sample, question)
                filled = fill_corpus(rest, embedder=embedder, settings=settings)
                origins.append((Origin.REMOVED, question, filled))
            for origin, asked, (memory, turn_ids) in origins:
                found = find_for(asked, memory, embedder=embedder, settings=settings)
                scored = (found.question, memory.turns, found.scores)
                yield AbstentionCase(
                    dataset=dataset.name,
                    sample=sample.sample,
                    category=question.category_name,
                    origin=origin,
                    answerable=origin is Origin.NATURAL and not question.unanswerable,
                    signals=read_signals(*scored, least=settings.confidence.least_log_odds),
                    confidence=measure_confidence(*scored, settings.confidence),
                    best=float(found.scores.relevance.max(initial=0)),
                    tried=read_tried_signals(found, [said[turn_id] for turn_id in turn_ids]) if made else {},
                )


def without_evidence(sample: BenchSample, question: BenchQuestion) -> BenchSample:
    """Leave the evidence turns of a question out of its conversation."""
    gold = set(question.evidence)
    sessions = tuple(
        replace(session, turns=tuple(turn for turn in session.turns if turn.turn_id not in gold))
        for session in sample.conversation.sessions
    )
    return replace(sample, conversation=replace(sample.conversation, sessions=sessions))


def swap_speakers(question: BenchQuestion, corpus: Corpus) -> list[BenchQuestion]:
    """Put a question that names exactly one person who speaks about others, the first by name."""
    table = corpus.turns
    people = np.unique(table.speaker[(table.role == ROLES.index(Role.USER)) & (table.speaker >= 0)])
    names = sorted(table.speakers[place] for place in people)
    named = [name for name in names if re.search(whole_word(name), question.question)]
    if len(named) != 1:
        return []
    others = [name for name in names if name != named[0]][:MOST_SWAPS]
    parts = re.split(whole_word(named[0]), question.question)
    return [replace(question, question=other.join(parts)) for other in others]


def whole_word(name: str) -> str:
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def measure_auroc(answerable: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Give the chance that a question with an answer scores higher than one without; equals count half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positive, negative = int(answerable.sum()), int((~answerable).sum())
    return float((ranks[answerable].sum() - positive * (positive + 1) / 2) / (positive * negative))


def measure_risks(answerable: NDArray[np.bool_], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the risk at each coverage: of the first n questions by score, the share without an answer; equals share it."""
    values, place, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    wrong = np.bincount(place, ~answerable, len(values)) / counts
    return np.cumsum(np.repeat(wrong, counts)) / np.arange(1, len(scores) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selectivity:
    """How well a score parts questions with an answer from those without."""

    questions: int
    unanswerable: int
    auroc: float
    aurc: float  # mean risk over all coverages
    accuracy: Mapping[float, float]  # at each coverage: share of the questions covered that have an answer


def measure_selectivity(answerable: Sequence[bool], scores: Sequence[float]) -> Selectivity:
    truth, values = np.array(answerable, np.bool_), np.array(scores, np.float64)
    risks = measure_risks(truth, values)
    return Selectivity(
        questions=len(truth),
        unanswerable=int((~truth).sum()),
        auroc=measure_auroc(truth, values),
        aurc=float(risks.mean()),
        accuracy={share: float(1 - risks[max(0, round(share * len(truth)) - 1)]) for share in COVERAGES},
    )
