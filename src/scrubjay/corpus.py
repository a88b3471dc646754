"""One memory's index in memory: columns of its turns, postings, vectors, kept current with the store."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from scrubjay.datatypes import ROLES, TurnTable
from scrubjay.lexical import LexicalIndex
from scrubjay.vectors import ExactVectorIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from scrubjay.datatypes import IndexRows, StoreState
    from scrubjay.settings import LexicalSettings
    from scrubjay.store import Store
    from scrubjay.vectors import BuiltVectorIndex, VectorIndex

    FindIndex = Callable[[Store], BuiltVectorIndex | None]

NO_ROW = -1
AROUND = 2  # turns before and after one whose cosines tell of it (relevance.neighbour_signals)
Column = TypeVar("Column", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassageTable:
    """The passages of one memory as columns, in the order they were written; n rows."""

    turn: NDArray[np.int32]  # row of its turn in the TurnTable
    start: NDArray[np.int32]  # characters into the turn's text
    stop: NDArray[np.int32]
    tokens: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Corpus:
    """All a recall reads of a memory, at one state of the store."""

    state: StoreState
    turns: TurnTable
    passages: PassageTable
    lexical: LexicalIndex
    vectors: VectorIndex

    def cosines(self, vector: NDArray[np.float32], lexical: NDArray[np.float32]) -> NDArray[np.float32]:
        """Give the cosine of every passage; an index on disk has to be told which are looked at closely."""
        return self.vectors.scores(vector, lambda nearest: self._looked_at(nearest, lexical))

    def _looked_at(self, nearest: NDArray[np.intp], lexical: NDArray[np.float32]) -> NDArray[np.intp]:
        """Give the passages of the nearest turns, of as many with the best words, and of those around in their sessions."""
        found = np.flatnonzero(lexical > 0)
        if len(found) > len(nearest):
            found = found[np.argpartition(-lexical[found], len(nearest))[: len(nearest)]]
        before = after = np.unique(self.passages.turn[np.union1d(nearest, found)])
        seen = [before]
        for _ in range(AROUND):
            before, after = (
                step[rows][step[rows] >= 0]
                for step, rows in ((self.turns.previous, before), (self.turns.following, after))
            )
            seen += [before, after]
        is_seen = np.zeros(len(self.turns), np.bool_)
        is_seen[np.concatenate(seen)] = True
        return np.flatnonzero(is_seen[self.passages.turn])


def no_index(_store: Store) -> None:
    """Find none: all vectors are searched in the process."""


class CorpusCache:
    """The corpus of one memory, brought up to date by the rows written since, or read anew after a forgetting.

    The indexes grow in place, so they are read and brought up to date under one lock.
    """

    def __init__(self, settings: LexicalSettings, find_index: FindIndex = no_index) -> None:
        """`find_index` gives an index of the first vectors that is there already."""
        self._settings = settings
        self._find_index = find_index
        self._index: BuiltVectorIndex | None = None
        self._corpus: Corpus | None = None
        self.lock = threading.RLock()

    def current(self, store: Store) -> Corpus:
        """Give the corpus at the store's present state; hold `lock` while using it."""
        if self._index is not None and self._index.is_gone:
            self._corpus = None
        corpus = self._corpus
        state = None if corpus is None else store.state()
        if corpus is not None and corpus.state == state:
            return corpus
        if corpus is None or state is None or corpus.state.generation != state.generation:
            self._corpus = self._read_anew(store)
            return self._corpus
        rows = store.load(after=corpus.state.last_passage)
        if rows.state.generation != corpus.state.generation:  # forgotten meanwhile: these are the newest only
            self._corpus = None
            return self.current(store)
        self._corpus = extend_corpus(corpus, rows)
        return self._corpus

    def _read_anew(self, store: Store) -> Corpus:
        """Read all, but for the vectors that an index has."""
        index = self._index = self._find_index(store)
        if index is None:
            rows = store.load(after=0)
            return extend_corpus(empty_corpus(rows, self._settings), rows)
        rows = store.load(after=0, vectors_after=index.built.last_passage)
        if rows.state.generation != index.built.generation:  # forgotten between the two reads
            return self._read_anew(store)
        return extend_corpus(replace(empty_corpus(rows, self._settings), vectors=index), rows)


def empty_corpus(rows: IndexRows, settings: LexicalSettings) -> Corpus:
    whole, real = np.empty(0, np.int32), np.empty(0, np.float64)
    turns = TurnTable(
        row=whole.astype(np.int64),
        session=whole,
        position=whole,
        previous=whole,
        following=whole,
        speaker=whole,
        role=whole.astype(np.int8),
        said_at=real,
        tokens=whole,
        flags=whole,
        speakers=(),
    )
    return Corpus(
        state=rows.state,
        turns=turns,
        passages=PassageTable(turn=whole, start=whole, stop=whole, tokens=whole),
        lexical=LexicalIndex(settings),
        vectors=ExactVectorIndex(rows.vectors.shape[1]),
    )


def extend_corpus(corpus: Corpus, rows: IndexRows) -> Corpus:
    """Add rows written since; the indexes grow in place."""
    turns = extend_turns(corpus.turns, rows)
    corpus.lexical.append(terms=rows.terms, counts=rows.counts, distinct=rows.distinct, length=rows.length)
    corpus.vectors.append(rows.vectors)
    old = corpus.passages
    passages = PassageTable(
        turn=joined(old.turn, np.searchsorted(turns.row, rows.passage_turn)),
        start=joined(old.start, rows.start),
        stop=joined(old.stop, rows.stop),
        tokens=joined(old.tokens, rows.passage_tokens),
    )
    return replace(corpus, state=rows.state, turns=turns, passages=passages)


def extend_turns(old: TurnTable, rows: IndexRows) -> TurnTable:
    session, position = joined(old.session, rows.session), joined(old.position, rows.position)
    previous, following = find_neighbours(session, position)
    speakers = dict.fromkeys((*old.speakers, *(name for name in rows.speaker if name is not None)))
    place_of_speaker = {name: place for place, name in enumerate(speakers)}
    speaker = [NO_ROW if name is None else place_of_speaker[name] for name in rows.speaker]
    place_of_role = {role.value: place for place, role in enumerate(ROLES)}
    return TurnTable(
        row=joined(old.row, rows.turn_row),
        session=session,
        position=position,
        previous=previous,
        following=following,
        speaker=joined(old.speaker, np.array(speaker, np.int32)),
        role=joined(old.role, np.array([place_of_role[role] for role in rows.role], np.int8)),
        said_at=joined(old.said_at, rows.said_at),
        tokens=joined(old.tokens, rows.tokens),
        flags=joined(old.flags, rows.flags),
        speakers=tuple(speakers),
    )


def find_neighbours(
    session: NDArray[np.int32], position: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Give the row of the turn before and after each in its session, -1 where there is none."""
    order = np.lexsort((position, session)).astype(np.int32)
    same = session[order][1:] == session[order][:-1]
    previous, following = np.full(len(order), NO_ROW, np.int32), np.full(len(order), NO_ROW, np.int32)
    previous[order[1:][same]] = order[:-1][same]
    following[order[:-1][same]] = order[1:][same]
    return previous, following


def joined(old: NDArray[Column], new: NDArray[Any]) -> NDArray[Column]:
    return np.concatenate((old, new.astype(old.dtype)))
