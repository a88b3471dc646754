"""How a store fares as it grows: turns put together from the sample's words, and the sample's questions asked of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scrubjay.bench.adapters import ADAPTERS, find_adapter
from scrubjay.bench.datasets import load_dataset
from scrubjay.bench.questions import BenchSample, Dataset
from scrubjay.bench.retrieval import run_retrieval
from scrubjay.bench.systems import find_system
from scrubjay.datatypes import NewTurn, Role
from scrubjay.embed import load_embedder
from scrubjay.errors import SettingsError
from scrubjay.formats.conversation import Conversation, ConversationSession

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrubjay.bench.retrieval import SystemRun

SEED = 7
START = datetime(2020, 1, 1, tzinfo=UTC)
TURNS_A_SESSION = 20
WORDS = (5, 40)  # of a turn, at least and at most
SPEAKERS = ("Nora", "Kai")


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeJob:
    """A system over so many turns."""

    system: str
    turns: int
    embedder: str = "static"


def read_counts(text: str) -> list[int]:
    """Read "250,1000" as counts of turns."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise SettingsError(f"turns: expected counts such as 250,1000, found {text!r}")
    return [int(word) for word in words]


def run_size(job: SizeJob) -> SystemRun:
    """Write the turns and ask; what is timed is in the run, and nothing is scored."""
    system = find_adapter(job.system) if job.system in ADAPTERS else find_system(job.system)
    (run,) = run_retrieval(make_dataset(job.turns), [system], embedder=load_embedder(job.embedder))
    return run


def make_dataset(turns: int) -> Dataset:
    sample = load_dataset("sample").samples[0]
    words = [
        word
        for session in sample.conversation.sessions
        for turn in session.turns
        for word in turn.text.split()
    ]
    chance = random.Random(SEED)  # noqa: S311 -- nobody's secret
    sessions = tuple(
        make_session(number, min(TURNS_A_SESSION, turns - number * TURNS_A_SESSION), words, chance)
        for number in range(-(-turns // TURNS_A_SESSION))
    )
    questions = tuple(
        replace(question, evidence=(), evidence_sessions=(), unanswerable=False)
        for question in sample.questions
    )
    grown = BenchSample(
        sample=sample.sample,
        conversation=Conversation(conversation_id=sample.sample, sessions=sessions),
        questions=questions,
    )
    return Dataset(name=f"{turns} turns", samples=(grown,), files=(), sha256="")


def make_session(number: int, turns: int, words: Sequence[str], chance: random.Random) -> ConversationSession:
    first = number * TURNS_A_SESSION
    return ConversationSession(
        session_id=f"s{number}",
        turns=tuple(
            NewTurn(
                turn_id=f"s{number}:{place}",
                role=Role.USER,
                text=" ".join(chance.choice(words) for _ in range(chance.randint(*WORDS))),
                speaker=SPEAKERS[place % 2],
                said_at=START + timedelta(minutes=first + place),
            )
            for place in range(turns)
        ),
    )
