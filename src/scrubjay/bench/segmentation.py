"""Segmentation against recorded segments: how well boundaries agree with a model's, and what encoding would cost."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scrubjay.datatypes import Turn
from scrubjay.exchanges import index_turn
from scrubjay.formats import read_conversations
from scrubjay.passages import passage_text
from scrubjay.segment import segment_turns, start_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from scrubjay.datatypes import IndexedTurn, NewTurn
    from scrubjay.formats import ConversationSession
    from scrubjay.segment import ClosedSegment
    from scrubjay.settings import SegmentSettings

RESAMPLES = 1000
RANDOM_DRAWS = 50
TAILS = (0.025, 0.975)  # of a 95 % interval
READ_AT = datetime(2000, 1, 1, tzinfo=UTC)  # when a benchmark's turns were stored plays no part


class TextEmbedder(Protocol):
    """The part of an embedder that is needed here."""

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelledSession:
    """A session ready to be segmented, and where a model's segments begin in it."""

    conversation_id: str
    session_id: str
    turns: tuple[IndexedTurn, ...]
    starts: frozenset[int]  # places from 1 at which recorded segments begin; none without labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Precision, recall and F1 of boundaries, each with the ends of its interval."""

    precision: tuple[float, float, float]
    recall: tuple[float, float, float]
    f1: tuple[float, float, float]


def read_sessions(
    conversations: Path,
    embedder: TextEmbedder,
    count_tokens: Callable[[Sequence[str]], Sequence[int]],
    *,
    segments: Path | None = None,
) -> list[LabelledSession]:
    """Read conversations of any known format, and the segments a model made of them where there are any."""
    recorded = json.loads(segments.read_text()) if segments else {}
    sessions = []
    for conversation in read_conversations(conversations).conversations:
        starts = {segment["turns"][0] for segment in recorded.get(conversation.conversation_id, ())}
        for session in conversation.sessions:
            turns = index_session(session, embedder, count_tokens)
            places = (place for place, turn in enumerate(turns) if turn.turn.turn_id in starts and place)
            sessions.append(
                LabelledSession(
                    conversation_id=conversation.conversation_id,
                    session_id=session.session_id,
                    turns=turns,
                    starts=frozenset(places),
                )
            )
    return sessions


def index_session(
    session: ConversationSession,
    embedder: TextEmbedder,
    count_tokens: Callable[[Sequence[str]], Sequence[int]],
) -> tuple[IndexedTurn, ...]:
    turns = [store_turn(turn, session.session_id, place) for place, turn in enumerate(session.turns)]
    texts = [passage_text(turn, 0, len(turn.text)) for turn in turns]
    rows = zip(turns, embedder.embed(texts), count_tokens(texts), strict=True)
    return tuple(index_turn(turn, vector, tokens=tokens) for turn, vector, tokens in rows)


def store_turn(turn: NewTurn, session_id: str, place: int) -> Turn:
    return Turn(
        turn_id=turn.turn_id or f"{session_id}:{place}",
        session_id=session_id,
        index=place,
        role=turn.role,
        speaker=turn.speaker,
        text=turn.text,
        caption=turn.caption,
        said_at=turn.said_at,
        added_at=READ_AT,
        metadata=turn.metadata,
    )


def cut_session(session: LabelledSession, settings: SegmentSettings) -> tuple[ClosedSegment, ...]:
    dimension = len(session.turns[0].vector)
    return segment_turns(session.turns, start_session(dimension), settings, flush=True).segments


def boundaries_of(segments: Sequence[ClosedSegment]) -> list[int]:
    """Give the places at which segments begin, the session's first turn left out."""
    return list(accumulate(len(segment.turn_ids) for segment in segments))[:-1]


def count_matches(found: Sequence[int], recorded: frozenset[int], *, within: int) -> int:
    """Pair boundaries at most `within` turns apart, each once, from the left."""
    left = sorted(recorded)
    matches = 0
    for place in sorted(found):
        near = next((other for other in left if abs(other - place) <= within), None)
        if near is not None:
            left.remove(near)
            matches += 1
    return matches


def cut_evenly(sessions: Sequence[LabelledSession], every: int) -> list[list[int]]:
    """Cut each session into windows of as many turns."""
    return [list(range(every, len(session.turns), every)) for session in sessions]


def cut_at_random(
    sessions: Sequence[LabelledSession], cuts: int, generator: np.random.Generator
) -> list[list[int]]:
    """Spread a number of cuts over all places inside sessions."""
    places = [
        (number, place) for number, session in enumerate(sessions) for place in range(1, len(session.turns))
    ]
    found: list[list[int]] = [[] for _ in sessions]
    for chosen in generator.choice(len(places), size=min(cuts, len(places)), replace=False):
        number, place = places[chosen]
        found[number].append(place)
    return found


def tally(
    sessions: Sequence[LabelledSession], found: Sequence[Sequence[int]], *, within: int
) -> NDArray[np.float64]:
    """Count matches, found and recorded boundaries of each session: (sessions, 3)."""
    return np.array(
        [
            (count_matches(places, session.starts, within=within), len(places), len(session.starts))
            for session, places in zip(sessions, found, strict=True)
        ],
        dtype=np.float64,
    )


def measure_agreement(counts: NDArray[np.float64], *, seed: int = 0) -> Agreement:
    """Give precision, recall and F1 over all sessions with intervals from resampling sessions."""
    generator = np.random.default_rng(seed)
    samples = generator.integers(len(counts), size=(RESAMPLES, len(counts)))
    resampled = np.array([rate(counts[sample].sum(axis=0)) for sample in samples])
    low, high = np.quantile(resampled, TAILS, axis=0)
    values = [
        (float(mean), float(low[place]), float(high[place]))
        for place, mean in enumerate(rate(counts.sum(axis=0)))
    ]
    return Agreement(precision=values[0], recall=values[1], f1=values[2])


def rate(totals: NDArray[np.float64]) -> tuple[float, float, float]:
    matches, found, recorded = totals.tolist()
    return (
        matches / found if found else 0.0,
        matches / recorded if recorded else 0.0,
        2 * matches / (found + recorded) if found + recorded else 0.0,
    )


def pick_threshold(
    sessions: Sequence[LabelledSession], settings: SegmentSettings, *, turns_per_segment: float
) -> SegmentSettings:
    """Find the cut probability that gives segments of a length, by halving."""
    low, high = 0.0, 1.0
    turns = sum(len(session.turns) for session in sessions)
    for _ in range(14):
        middle = (low + high) / 2
        tried = replace(settings, cut_probability=middle)
        segments = sum(len(cut_session(session, tried)) for session in sessions)
        low, high = (middle, high) if turns / segments < turns_per_segment else (low, middle)
    return replace(settings, cut_probability=round(high, 3))
