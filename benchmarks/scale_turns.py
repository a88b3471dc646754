"""Conversations for benchmarks/scale.py: those of datasets/ recombined, with other names, places and numbers; all seeded."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay import NewTurn, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DATASETS = Path(__file__).parents[1] / "datasets"
START = datetime(2023, 1, 2, 18, tzinfo=UTC)
SKEW = 1.5  # of the lognormal law of sizes: the largest tenth of the memories holds over half of the turns
CHANGED = 0.1  # share of long words that another conversation's takes the place of
LONG = 6  # letters
WORD = re.compile(r"[^\W\d_]+|\d+")
SYLLABLES = (
    "ba",
    "dor",
    "el",
    "fen",
    "gra",
    "hil",
    "jo",
    "kam",
    "lin",
    "mar",
    "nor",
    "os",
    "pel",
    "ri",
    "sta",
    "tov",
)


@dataclass(frozen=True, slots=True)
class Source:
    """What memories are made of."""

    sessions: tuple[tuple[tuple[str, str, str], ...], ...]  # role, speaker, text of each turn
    questions: tuple[str, ...]
    words: tuple[str, ...]  # long ones, to put in others' places
    names: frozenset[str]  # of speakers, and words never seen but with a capital


@cache
def read_source() -> Source:
    documents = [json.loads(path.read_text("utf-8")) for path in sorted(DATASETS.glob("*.json"))]
    sessions = tuple(
        tuple((turn["role"], turn["speaker"] or "", turn["text"]) for turn in session["turns"])
        for document in documents
        for session in document["sessions"]
    )
    words = [word for session in sessions for *_, text in session for word in WORD.findall(text)]
    small = {word for word in words if word.islower()}
    return Source(
        sessions=sessions,
        questions=tuple(q["question"] for document in documents for q in document["questions"]),
        words=tuple(sorted(word for word in small if len(word) >= LONG)),
        names=frozenset(word for word in words if word[0].isupper() and word.lower() not in small),
    )


def draw_sizes(turns: int, memories: int) -> list[int]:
    """Give the turns of each memory: many small, few large, `turns` in all."""
    chance = random.Random(f"sizes {turns} {memories}")
    weights = [chance.lognormvariate(0, SKEW) for _ in range(memories)]
    spare = turns - memories  # each has one at least
    shares = [int(spare * weight / sum(weights)) for weight in weights]
    shares[shares.index(max(shares))] += spare - sum(shares)
    return [1 + share for share in shares]


def make_turns(user: int, size: int) -> Iterator[tuple[str, NewTurn]]:
    """Give a user's turns, each with its session's id: sessions of datasets/, every few days, in this user's words."""
    source, chance = read_source(), random.Random(f"user {user}")
    names: dict[str, str] = {}
    said_at, left, session = START + timedelta(hours=chance.randrange(2_000)), size, 0
    while left:
        turns = chance.choice(source.sessions)[:left]
        for place, (role, speaker, text) in enumerate(turns):
            said_at += timedelta(seconds=chance.randint(5, 120))
            yield (
                f"s{session}",
                NewTurn(
                    role=Role(role),
                    speaker=reword(speaker, names, source, chance) or None,
                    text=reword(text, names, source, chance),
                    said_at=said_at,
                    turn_id=f"s{session}:{place}",
                ),
            )
        said_at += timedelta(hours=chance.randint(20, 200))
        left, session = left - len(turns), session + 1


def reword(text: str, names: dict[str, str], source: Source, chance: random.Random) -> str:
    def other(found: re.Match[str]) -> str:
        word = found[0]
        if word.isdigit():
            return str(chance.randrange(10 ** len(word)))
        if word in source.names:
            return names.setdefault(word, make_name(chance))
        return chance.choice(source.words) if len(word) >= LONG and chance.random() < CHANGED else word

    return WORD.sub(other, text)


def make_name(chance: random.Random) -> str:
    return "".join(chance.choice(SYLLABLES) for _ in range(chance.randint(2, 3))).capitalize()


def draw_questions(count: int, chance: random.Random) -> Sequence[str]:
    return chance.choices(read_source().questions, k=count)
