"""What a benchmark asks: questions with gold evidence, beside the conversation they are about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from scrubjay.formats import Conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchQuestion:
    """A question, known by its sample and its place in the file: texts occur twice."""

    sample: str
    question_index: int  # from 0, its place in the file's list
    question: str
    answer: str  # empty where the file gives none
    category: int | str  # as the file has it
    category_name: str
    evidence: tuple[str, ...]  # ids of gold turns; empty where only sessions are labelled, or nothing
    evidence_sessions: tuple[str, ...]
    unresolved: tuple[str, ...]  # what the file cites and its conversation doesn't hold
    asked_at: datetime | None
    unanswerable: bool
    sessions_before: int | None = (
        None  # only so many of the first sessions may be known when it is asked; None: all
    )
    asked_by: str | None = None  # the speaker who asks, where the file says


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSample:
    """A conversation and the questions about it."""

    sample: str
    conversation: Conversation
    questions: tuple[BenchQuestion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """All samples of a data set, and what identifies the files they came from."""

    name: str
    variant: str = ""  # of LongMemEval: development, oracle, S or M
    samples: tuple[BenchSample, ...]
    files: tuple[str, ...]
    sha256: str  # the file's, or where there are several that of the lines `sha256sum` prints for them


def sessions_of_turns(conversation: Conversation) -> dict[str, str]:
    """Map each turn's id to its session's."""
    return {
        turn.turn_id: session.session_id
        for session in conversation.sessions
        for turn in session.turns
        if turn.turn_id is not None
    }


def resolve(cited: Iterable[str], known: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part what a question cites into what the conversation holds and what it doesn't, each once."""
    once = tuple(dict.fromkeys(cited))
    return tuple(name for name in once if name in known), tuple(name for name in once if name not in known)


def name_sessions_of(evidence: Iterable[str], session_of: dict[str, str]) -> tuple[str, ...]:
    """Name the sessions gold turns are in, each once."""
    return tuple(dict.fromkeys(session_of[turn_id] for turn_id in evidence))
