"""What adapters ask of a memory's log, where what isn't there is no error."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from scrubjay.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrubjay.datatypes import Turn
    from scrubjay.memory import Memory


def session_turns(memory: Memory, session_id: str) -> list[Turn]:
    """Give a session's turns in order; none of one that nobody wrote to."""
    try:
        return list(memory.turns(session_id=session_id))
    except NotFoundError:
        return []


def has_turn(memory: Memory, turn_id: str) -> bool:
    try:
        memory.turn(turn_id)
    except NotFoundError:
        return False
    return True


def forget_turns(memory: Memory, turn_ids: Iterable[str]) -> None:
    """Forget turns one by one, in the order given; another process may have forgotten some first."""
    for turn_id in turn_ids:
        with suppress(NotFoundError):
            memory.forget(turn=turn_id)
