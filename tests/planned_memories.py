"""Memories with records, written for the purpose: conversations, and what an encoder is told to make of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from small_memories import EMBEDDER

from scrubjay.bench.replay import RecordedRecord, RecordedTimes, ReplayModel
from scrubjay.datatypes import NewTurn, Role
from scrubjay.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from scrubjay.settings import Settings

MARCH = datetime(2024, 3, 4, 18, 30, tzinfo=timezone(timedelta(hours=1)))

EVENINGS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "kitchen": (
        ("Mira", "We finally painted the kitchen, in a colour called pistachio."),
        ("Jonas", "Pistachio! And who held the ladder?"),
        ("Mira", "My neighbour Oleg did. He plays the bassoon, you know."),
        ("Jonas", "I had no idea anybody on your stairs played anything."),
    ),
    "ferry": (
        ("Jonas", "The ferry to Gotland was cancelled, so we slept in the harbour."),
        ("Mira", "In the car? With the dog?"),
        ("Jonas", "With Pepper, yes. She snored until the 05:40 boat to Visby."),
    ),
    "supper": (
        ("Mira", "No walnuts for me, please, my throat swells."),
        ("Jonas", "And I can't stand coriander, never could."),
        ("Mira", "Then it is dumplings again on Sunday."),
    ),
}
"""Three evenings, a week apart."""


def record(
    text: str,
    *evidence: str,
    kind: str = "fact",
    speaker: str = "Mira",
    entities: Sequence[str] = (),
    tags: Sequence[str] = (),
    day: str | None = None,
) -> RecordedRecord:
    return RecordedRecord(
        memory_type=kind,
        semantic_text=text,
        entities=list(entities),
        tags=list(tags),
        temporal=RecordedTimes(t_ref=day),
        evidence=list(evidence),
        speaker=speaker,
    )


RECORDS = (
    record("Mira painted her kitchen in pistachio.", "kitchen:0", entities=["Mira"], tags=["kitchen"]),
    record("Oleg, Mira's neighbour, plays the bassoon.", "kitchen:2", entities=["Oleg"], tags=["music"]),
    record(
        "Jonas slept in the harbour when the ferry to Gotland was cancelled.",
        "ferry:0",
        "ferry:2",
        kind="event",
        speaker="Jonas",
        entities=["Jonas", "Gotland"],
        tags=["travel"],
        day="2024-03-11",
    ),
    record("Mira can't eat walnuts.", "supper:0", kind="constraint", entities=["Mira"], tags=["food"]),
    record("Jonas can't stand coriander.", "supper:1", kind="preference", speaker="Jonas", tags=["food"]),
    record("Jonas owns a submarine in Murmansk.", "ferry:1", speaker="Jonas", entities=["Murmansk"]),
)
"""The last is borne out by no turn."""


def turns(evenings: Mapping[str, Sequence[tuple[str, str]]]) -> Iterable[tuple[str, NewTurn]]:
    for week, (session_id, said) in enumerate(evenings.items()):
        for index, (speaker, text) in enumerate(said):
            said_at = MARCH + timedelta(weeks=week, minutes=index)
            yield (
                session_id,
                NewTurn(role=Role.USER, text=text, speaker=speaker, said_at=said_at, index=index),
            )


def remember(
    path: Path | str,
    records: Sequence[RecordedRecord] = RECORDS,
    evenings: Mapping[str, Sequence[tuple[str, str]]] = EVENINGS,
) -> None:
    """Fill a memory with turns and the records made of them."""
    with Memory(path, embedder=EMBEDDER, model=ReplayModel(records)) as memory:
        memory.add_many(turns(evenings))
        memory.consolidate(flush=True)


def recollect(path: Path | str, settings: Settings | None = None, *, read_only: bool = True) -> Memory:
    """Open a memory to read it, without a model."""
    return Memory(path, embedder=EMBEDDER, settings=settings, read_only=read_only)
