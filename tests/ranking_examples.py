"""Small conversations as columns, for the tests of relevance and chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scrubjay.corpus import find_neighbours
from scrubjay.cues import turn_flags
from scrubjay.datatypes import ROLES, Role, TurnTable
from scrubjay.lexical import LexicalIndex
from scrubjay.question import read_question
from scrubjay.relevance import read_channels, score_turns
from scrubjay.settings import LexicalSettings, RelevanceSettings
from scrubjay.terms import extract_terms, hash_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scrubjay.scores import TurnScores

DIMENSION = 32


@dataclass(frozen=True, kw_only=True)
class Said:
    """A turn as the examples write it."""

    session: int
    position: int
    text: str
    speaker: str | None = None
    role: Role = Role.USER
    said_at: float = float("nan")


def embed(text: str) -> NDArray[np.float32]:
    """Count terms in a few buckets, so that like texts are alike."""
    vector = np.bincount(
        (hash_terms(extract_terms(text)) % np.uint64(DIMENSION)).astype(int), minlength=DIMENSION
    )
    return (vector / max(float(np.linalg.norm(vector)), 1.0)).astype(np.float32)


def tabulate(turns: list[Said]) -> TurnTable:
    session = np.array([turn.session for turn in turns], np.int32)
    position = np.array([turn.position for turn in turns], np.int32)
    previous, following = find_neighbours(session, position)
    speakers = tuple(sorted({turn.speaker for turn in turns if turn.speaker}))
    return TurnTable(
        row=np.arange(len(turns), dtype=np.int64),
        session=session,
        position=position,
        previous=previous,
        following=following,
        speaker=np.array([speakers.index(turn.speaker) if turn.speaker else -1 for turn in turns], np.int32),
        role=np.array([ROLES.index(turn.role) for turn in turns], np.int8),
        said_at=np.array([turn.said_at for turn in turns], np.float64),
        tokens=np.array([len(turn.text.split()) + 2 for turn in turns], np.int32),
        flags=np.array([turn_flags(turn.text) for turn in turns], np.int32),
        speakers=speakers,
    )


def index(turns: list[Said]) -> LexicalIndex:
    built = LexicalIndex(LexicalSettings())
    for turn in turns:
        hashes = hash_terms(extract_terms(turn.text))
        terms, counts = np.unique(hashes, return_counts=True)
        built.append(
            terms=terms,
            counts=counts.astype(np.uint16),
            distinct=np.array([len(terms)], np.int32),
            length=np.array([len(hashes)], np.int32),
        )
    return built


def ask(
    turns: list[Said],
    text: str,
    *,
    asker: str | None = None,
    time_range: tuple[float, float] | None = None,
    allowed: NDArray[np.bool_] | None = None,
    settings: RelevanceSettings | None = None,
) -> tuple[TurnScores, TurnTable, LexicalIndex]:
    table, lexical = tabulate(turns), index(turns)
    question = read_question(
        text, vector=embed(text), speakers=table.speakers, asker=asker, time_range=time_range
    )
    match = lexical.match(question.hashes, question.weights)
    cosines = np.array([embed(turn.text) @ question.vector for turn in turns], np.float32)
    channels = read_channels(question, match, cosines, np.arange(len(turns), dtype=np.int32))
    scores = score_turns(question, table, channels, settings or RelevanceSettings(), allowed=allowed)
    return scores, table, lexical


TALK = [
    Said(session=0, position=0, speaker="Ana", text="Good morning! How are you?"),
    Said(
        session=0, position=1, speaker="Ben", text="Tired, the puppy chewed my best shoes again last night."
    ),
    Said(session=0, position=2, speaker="Ana", text="Oh no! What is the puppy called?"),
    Said(session=0, position=3, speaker="Ben", text="Biscuit, because of the colour, my niece chose it."),
    Said(session=1, position=0, speaker="Ana", text="I signed up for a pottery class with my sister."),
    Said(session=1, position=1, speaker="Ben", text="Nice! I never tried pottery, I would break everything."),
    Said(session=1, position=2, speaker="Ana", text="The class is on Tuesday evenings in the old mill."),
    Said(session=2, position=0, speaker="Ben", text="We drove to the coast and ate far too much fish."),
    Said(session=2, position=1, speaker="Ana", text="Sounds lovely."),
]
