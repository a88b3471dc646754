"""Questions with the signals of every turn and which turns are gold: what ranking is fitted to and calibrated on."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.measures import QuestionRun
from scrubjay.bench.retrieval import BUDGETS, known_sessions
from scrubjay.bench.systems import RANKED
from scrubjay.corpus import CorpusCache
from scrubjay.dates import find_time_range
from scrubjay.indexing import prepare_turns
from scrubjay.reading import find_turns, organise_chain
from scrubjay.relevance import choose_pool, rank_pool, turn_signals, weigh_signals
from scrubjay.store.connection import IN_MEMORY, Database
from scrubjay.store.sqlite import SqliteStore
from scrubjay.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from scrubjay.bench.questions import BenchQuestion, BenchSample
    from scrubjay.corpus import Corpus
    from scrubjay.embed import Embedder
    from scrubjay.results import Found
    from scrubjay.scores import TurnScores
    from scrubjay.settings import RelevanceSettings, Settings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedQuestion:
    """A question over one memory: what was found for it, and the signals of the p turns looked at closely."""

    question: BenchQuestion
    memory: str  # the sample the memory was filled with; a stranger's question belongs to another
    found: Found
    turn_ids: tuple[str, ...]  # by row of the memory's table
    pool: NDArray[np.intp]  # (p,) rows
    signals: NDArray[np.float64]  # (p, signals)
    gold: NDArray[np.bool_]  # (p,)

    @property
    def is_stranger(self) -> bool:
        """Whether the question was written for another memory, so that nothing in this one answers it."""
        return self.question.sample != self.memory


def judge_samples(
    samples: Sequence[BenchSample], *, embedder: Embedder, settings: Settings, strangers: bool = False
) -> Iterator[JudgedQuestion]:
    """Fill a memory with each conversation and read its questions against it, those without an answer too.

    With `strangers`, those of the next conversation as well, which nothing in this one answers. A question is read
    when the memory holds what it may know and no more.
    """
    for place, sample in enumerate(samples):
        asked = [*sample.questions]
        if strangers:
            asked += map(estrange, samples[(place + 1) % len(samples)].questions)
        yield from judge_sample(sample, asked, embedder=embedder, settings=settings)


def judge_sample(
    sample: BenchSample, asked: Sequence[BenchQuestion], *, embedder: Embedder, settings: Settings
) -> Iterator[JudgedQuestion]:
    """Read questions against the memory of one conversation, those of its beginnings first."""
    whole = len(sample.conversation.sessions)
    by_known = sorted(asked, key=lambda question: known_sessions(question, whole))
    with filling(embedder, settings) as memory:
        for known, questions in groupby(by_known, key=lambda question: known_sessions(question, whole)):
            corpus, turn_ids = memory.hold(sample, known)
            for question in questions:
                found = find_for(question, corpus, embedder=embedder, settings=settings)
                yield judge_question(
                    question, found, turn_ids, memory=sample.sample, settings=settings.relevance
                )


def estrange(question: BenchQuestion) -> BenchQuestion:
    return replace(
        question, evidence=(), evidence_sessions=(), unanswerable=True, sessions_before=None, asked_by=None
    )


def fill_corpus(
    sample: BenchSample, *, embedder: Embedder, settings: Settings
) -> tuple[Corpus, tuple[str, ...]]:
    """Index a conversation; return it with the ids of its turns by row."""
    with filling(embedder, settings) as memory:
        return memory.hold(sample, len(sample.conversation.sessions))


@contextmanager
def filling(embedder: Embedder, settings: Settings) -> Iterator[GrowingMemory]:
    """Give a memory to fill, which is gone afterwards; what was read of it stays."""
    database = Database(IN_MEMORY, read_only=False, create=True)
    try:
        store = SqliteStore(database)
        store.name_embedder(embedder.identity)
        cache = CorpusCache(settings.lexical)
        yield GrowingMemory(store=store, cache=cache, embedder=embedder, settings=settings)
    finally:
        database.close()


@dataclass(slots=True, kw_only=True)
class GrowingMemory:
    """A memory that a conversation is put into session by session."""

    store: SqliteStore
    cache: CorpusCache
    embedder: Embedder
    settings: Settings
    sessions: int = 0  # that it holds

    def hold(self, sample: BenchSample, sessions: int) -> tuple[Corpus, tuple[str, ...]]:
        """Add what is missing of so many first sessions; return the index with the ids of its turns by row.

        The columns stay as they are when it grows further, the words' and the vectors' indexes don't.
        """
        new = sample.conversation.sessions[self.sessions : sessions]
        turns = [(session.session_id, turn) for session in new for turn in session.turns]
        self.store.append(
            prepare_turns(
                turns,
                known=[False] * len(turns),
                embedder=self.embedder,
                passage_tokens=self.settings.passage_tokens,
            )
        )
        self.sessions = sessions
        corpus = self.cache.current(self.store)
        return corpus, tuple(turn.turn_id for turn in self.store.turns(rows=corpus.turns.row.tolist()))


def find_for(question: BenchQuestion, corpus: Corpus, *, embedder: Embedder, settings: Settings) -> Found:
    text = question.question
    return find_turns(
        text,
        corpus,
        settings,
        vector=embedder.embed([text])[0],
        time_range=find_time_range(text, question.asked_at or datetime.now(UTC)),
        narrow=False,
        trace=Trace(),
        asker=question.asked_by,
    )


def judge_question(
    question: BenchQuestion,
    found: Found,
    turn_ids: tuple[str, ...],
    *,
    memory: str,
    settings: RelevanceSettings,
) -> JudgedQuestion:
    table, channels = found.corpus.turns, found.scores.channels
    pool = choose_pool(table, channels, settings)
    return JudgedQuestion(
        question=question,
        memory=memory,
        found=found,
        turn_ids=turn_ids,
        pool=pool,
        signals=turn_signals(found.question, table, channels, pool, settings),
        gold=np.isin([turn_ids[row] for row in pool], question.evidence),
    )


def score_again(judged: JudgedQuestion, settings: RelevanceSettings) -> TurnScores:
    """Score the turns with other weights than they were found with."""
    log_odds = weigh_signals(judged.signals, settings, among=len(judged.turn_ids))
    return rank_pool(judged.pool, log_odds, judged.found.scores.channels, settings)


def run_question(
    judged: JudgedQuestion, settings: Settings, *, budgets: Sequence[int] = BUDGETS
) -> QuestionRun:
    """Rank turns and build chains with other weights; the chains are taken as they are reckoned, unrendered."""
    return run_scores(judged, score_again(judged, settings.relevance), settings, budgets=budgets)


def run_scores(
    judged: JudgedQuestion, scores: TurnScores, settings: Settings, *, budgets: Sequence[int] = BUDGETS
) -> QuestionRun:
    found = replace(judged.found, scores=scores)
    chains = {budget: organise_chain(found, settings, budget=budget, trace=Trace()) for budget in budgets}
    return QuestionRun(
        sample=judged.question.sample,
        question_index=judged.question.question_index,
        ranking=tuple(judged.turn_ids[row] for row in found.scores.order[:RANKED]),
        evidence={
            budget: tuple(judged.turn_ids[link.row] for link in chain.links)
            for budget, chain in chains.items()
        },
    )
