"""READ, composed for one question over one corpus: recall → relevance → chain; called by memory.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrubjay.chain import build_chain
from scrubjay.context import CLOSING, OPENING
from scrubjay.embed import count_tokens
from scrubjay.question import as_seconds, read_question, said_within
from scrubjay.relevance import read_channels, score_turns
from scrubjay.results import Found, find_best_passages, line_costs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scrubjay.chain import Chain
    from scrubjay.corpus import Corpus
    from scrubjay.datatypes import TimeRange
    from scrubjay.settings import Settings
    from scrubjay.trace import Trace

HURRIED = "the deadline has passed: the most relevant turns, not organised further"


def find_turns(
    text: str,
    corpus: Corpus,
    settings: Settings,
    *,
    vector: NDArray[np.float32],
    time_range: TimeRange | None,
    narrow: bool,
    trace: Trace,
) -> Found:
    """Score every turn for a question: what its words and its vector find, and what stands around.

    What was said in `time_range` counts more; with `narrow`, nothing else counts.
    """
    with trace.stage("recall"):
        question = read_question(
            text, vector=vector, speakers=corpus.turns.speakers, time_range=as_seconds(time_range)
        )
        match, cosines = (
            corpus.lexical.match(question.hashes, question.weights),
            corpus.vectors.scores(vector),
        )
        channels = read_channels(question, match, cosines, corpus.passages.turn)
    with trace.stage("relevance"):
        allowed = said_within(corpus.turns, time_range) if narrow and time_range is not None else None
        scores = score_turns(question, corpus.turns, channels, settings.relevance, allowed=allowed)
        best = find_best_passages(match.scores, cosines, corpus.passages.turn, len(corpus.turns))
    return Found(question=question, time_range=time_range, corpus=corpus, scores=scores, best_passage=best)


def organise_chain(found: Found, settings: Settings, *, budget: int, trace: Trace) -> Chain:
    """Choose anchors and neighbours for a budget of tokens; past the deadline, the most relevant turns alone."""
    late = trace.is_late
    lexical, passage = found.corpus.lexical, found.best_passage
    with trace.stage("chain", fallback=HURRIED if late else ""):
        return build_chain(
            found.scores,
            found.corpus.turns,
            lambda rows: lexical.term_sets(passage[rows].astype(np.int32)),
            settings.chain.hurried() if late else settings.chain,
            max_tokens=budget - sum(count_tokens([OPENING, CLOSING])),
            cost=line_costs(found, whole_tokens=settings.context.whole_turn_tokens),
        )
