"""Values under keys, kept as turns of a session: what a framework's store of keys and values stands on.

Turns never change: an update is a new turn and the newest holds, until the key is forgotten with all its turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrubjay.datatypes import NewTurn, Role
from scrubjay.integrations.turn_log import forget_turns, session_turns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrubjay.datatypes import JsonValue
    from scrubjay.memory import Memory

MARK = "langgraph"  # under it a turn's metadata hold the key and the value


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The newest value under a key, and the turns that hold it and those before it, the oldest first."""

    key: str
    value: dict[str, JsonValue]
    is_searched: bool
    created_at: datetime
    updated_at: datetime
    turn_ids: tuple[str, ...]


def read_versions(memory: Memory, session_id: str) -> dict[str, Version]:
    """Give a session's values by key, the last updated last."""
    versions: dict[str, Version] = {}
    for turn in session_turns(memory, session_id):
        kept: Any = turn.metadata[MARK]
        before = versions.pop(kept["key"], None)
        versions[kept["key"]] = Version(
            key=kept["key"],
            value=kept["value"],
            is_searched=kept["searched"],
            created_at=before.created_at if before else turn.added_at,
            updated_at=turn.added_at,
            turn_ids=(*(before.turn_ids if before else ()), turn.turn_id),
        )
    return versions


def put_value(
    memory: Memory, session_id: str, key: str, value: dict[str, JsonValue], *, words: str | None
) -> None:
    """Put a value, which is found by these words, or by none; one that is the same already stays as it is."""
    before = read_versions(memory, session_id).get(key)
    is_searched = words is not None
    if before and (before.value, before.is_searched) == (value, is_searched):
        return
    turn = NewTurn(
        role=Role.TOOL,
        text=words or key or "(nothing)",
        said_at=datetime.now(UTC),
        metadata={MARK: {"key": key, "value": value, "searched": is_searched}},
    )
    memory.add(turn, session_id=session_id)


def forget_value(memory: Memory, session_id: str, key: str) -> None:
    """Forget every version under a key; broken off, the newest still stands, and none before it comes back."""
    found = read_versions(memory, session_id).get(key)
    forget_turns(memory, found.turn_ids if found else ())


def rank_turns(memory: Memory, query: str, among: Mapping[str, object], *, most: int) -> dict[str, float]:
    """Give the score of the most relevant of some turns, best first: at least `most`, or all that score."""
    limit = most = max(most, 1)
    while among:
        hits = memory.search(query, limit=limit)
        found = {hit.turn.turn_id: hit.score for hit in hits if hit.turn.turn_id in among}
        if len(found) >= most or len(hits) < limit:
            return found
        limit *= 4
    return {}
