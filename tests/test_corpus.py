"""The index in memory: however it was brought up to date, it is the one that a fresh reading gives."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from record_stores import BACKENDS, prepare_turn, term_of, vector_of

from scrubjay.corpus import Corpus, CorpusCache
from scrubjay.settings import LexicalSettings
from scrubjay.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from scrubjay.datatypes import StoreState

SETTINGS = LexicalSettings(tail_passages=3)  # so that a few turns make segments and merge them
WORDS = ("bassoon", "ferry", "larch", "Pepper")

additions = st.tuples(
    st.just("add"),
    st.sampled_from(("monday", "tuesday", "wednesday")),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
    st.integers(1, 3),
)
forgettings = st.tuples(st.just("forget"), st.integers(0, 30))
questions = st.tuples(st.just("ask"))


def contents(corpus: Corpus) -> dict[str, object]:
    """Give all that a recall reads of a corpus, row numbers of turns included."""
    turns, passages = corpus.turns, corpus.passages
    hashes = np.array([term_of(word) for word in WORDS], np.uint64)
    match = corpus.lexical.match(hashes)
    columns = {
        name: getattr(turns, name) for name in type(turns).__slots__ if name not in {"speaker", "speakers"}
    }
    columns |= {f"passage {name}": getattr(passages, name) for name in type(passages).__slots__}
    columns |= {
        "bm25": match.scores,
        "covered": match.covered,
        "idf": match.idf,
        "cosines": corpus.vectors.scores(vector_of("ferry")),
        "spoken by": np.array([turns.speakers[place] if place >= 0 else "" for place in turns.speaker]),
    }
    return {
        name: column.tolist() if isinstance(column, np.ndarray) else column
        for name, column in columns.items()
    }


@given(st.lists(additions | forgettings | questions, max_size=12))
def test_kept_current_is_as_read_anew(steps: list[tuple[object, ...]]) -> None:
    """After any adding, forgetting and asking in between, the cached index equals a fresh one in every column."""
    with closing(BACKENDS["sqlite"](":memory:")) as backend:
        cache = CorpusCache(SETTINGS)
        for step in steps:
            match step:
                case ("add", session_id, text, pieces):
                    backend.turns.append([prepare_turn(str(session_id), str(text), pieces=int(str(pieces)))])
                case ("forget", int(number)):
                    turns = [turn.turn_id for turn in backend.turns.turns()]
                    if turns:
                        backend.turns.forget(turn_id=turns[number % len(turns)])
                case _:
                    cache.current(backend.turns)
        kept, fresh = cache.current(backend.turns), CorpusCache(SETTINGS).current(backend.turns)
        assert kept.state == fresh.state == backend.turns.state()
        assert str(contents(kept)) == str(contents(fresh))  # as text, so that NaN equals NaN


def test_nothing_new_is_not_read_again() -> None:
    """While nothing is written, the same index is given."""
    with closing(BACKENDS["sqlite"](":memory:")) as backend:
        backend.turns.append([prepare_turn("monday", "ferry")])
        cache = CorpusCache(SETTINGS)
        assert cache.current(backend.turns) is cache.current(backend.turns)


class HurriedStore(SqliteStore):
    """A store in which another process forgets a turn just after its state was asked, once."""

    hurry = False

    def state(self) -> StoreState:
        seen = super().state()
        if self.hurry:
            self.hurry = False
            self.forget(turn_id="monday:0")
        return seen


def test_forgotten_between_two_reads() -> None:
    """A forgetting that falls between asking for the state and reading the rows leaves no forgotten turn in the index."""
    with closing(BACKENDS["sqlite"](":memory:")) as backend:
        assert isinstance(backend.turns, SqliteStore)
        store = HurriedStore(backend.turns._database)
        store.append([prepare_turn("monday", "ferry"), prepare_turn("monday", "larch")])
        cache = CorpusCache(SETTINGS)
        cache.current(store)
        store.append([prepare_turn("monday", "bassoon")])
        store.hurry = True
        kept = cache.current(store)
        assert kept.turns.position.tolist() == [1, 2]
        assert contents(kept) == contents(CorpusCache(SETTINGS).current(store))
