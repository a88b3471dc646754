"""Questions with the signals of every turn and which turns are gold: what ranking is fitted to and calibrated on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.bench.measures import QuestionRun
from scrubjay.bench.retrieval import known_sessions
from scrubjay.corpus import CorpusCache
from scrubjay.dates import find_time_range
from scrubjay.indexing import prepare_turns
from scrubjay.reading import find_turns, organise_chain
from scrubjay.relevance import choose_pool, rank_pool, turn_signals, weigh_signals
from scrubjay.store.connection import IN_MEMORY, Database
from scrubjay.store.sqlite import SqliteStore
from scrubjay.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from scrubjay.bench.questions import BenchQuestion, BenchSample
    from scrubjay.embed import Embedder
    from scrubjay.results import Found
    from scrubjay.settings import RelevanceSettings, Settings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedQuestion:
    """A question over one memory: what was found for it, and the signals of the p turns looked at closely."""

    question: BenchQuestion
    found: Found
    turn_ids: tuple[str, ...]  # by row of the memory's table
    pool: NDArray[np.intp]  # (p,) rows
    signals: NDArray[np.float64]  # (p, signals)
    gold: NDArray[np.bool_]  # (p,)


def judge_sample(sample: BenchSample, *, embedder: Embedder, settings: Settings) -> Iterator[JudgedQuestion]:
    """Fill a memory with a conversation and read its questions against it, those without an answer too.

    Raise ValueError for a question that may know only some sessions: a memory that grows can't be kept.
    """
    sessions = sample.conversation.sessions
    if any(known_sessions(question, len(sessions)) < len(sessions) for question in sample.questions):
        raise ValueError(f"{sample.sample} has questions asked before its last session")
    turns = [(session.session_id, turn) for session in sessions for turn in session.turns]
    database = Database(IN_MEMORY, read_only=False, create=True)
    try:
        store = SqliteStore(database)
        store.name_embedder(embedder.identity)
        passage_tokens = settings.passage_tokens
        store.append(
            prepare_turns(
                turns, known=[False] * len(turns), embedder=embedder, passage_tokens=passage_tokens
            )
        )
        cache = CorpusCache(settings.lexical)
        cache.current(store)
        turn_ids = tuple(turn.turn_id for turn in store.turns(rows=cache.current(store).turns.row.tolist()))
        for question in sample.questions:
            vector = embedder.embed([question.question])[0]
            found = find_turns(
                question.question,
                cache.current(store),
                settings,
                vector=vector,
                time_range=find_time_range(question.question, question.asked_at or datetime.now(UTC)),
                narrow=False,
                trace=Trace(),
            )
            yield judge_question(question, found, turn_ids, settings.relevance)
    finally:
        database.close()


def judge_question(
    question: BenchQuestion, found: Found, turn_ids: tuple[str, ...], settings: RelevanceSettings
) -> JudgedQuestion:
    table, channels = found.corpus.turns, found.scores.channels
    pool = choose_pool(table, channels, settings)
    return JudgedQuestion(
        question=question,
        found=found,
        turn_ids=turn_ids,
        pool=pool,
        signals=turn_signals(found.question, table, channels, pool, settings),
        gold=np.isin([turn_ids[row] for row in pool], question.evidence),
    )
