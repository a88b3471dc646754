"""Write ScrubJay's own export: a header, then a turn a line with every field, so that nothing is lost on the way back."""

from __future__ import annotations

import json
from collections.abc import Sized
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrubjay.datatypes import JsonValue, Turn

EXPORT_VERSION = 1
HEADER_KEY = "scrubjay_export"


def write_export(turns: Iterable[Turn], stream: TextIO, *, user_id: str | None = None) -> int:
    """Write a memory's turns and return how many; pass a list where possible, so that the header can count them.

    With the count in the header a file that was cut short is noticed even between two lines.
    """
    count = len(turns) if isinstance(turns, Sized) else None
    header: dict[str, JsonValue] = {HEADER_KEY: EXPORT_VERSION}
    if user_id is not None:
        header["user_id"] = user_id
    if count is not None:
        header["turns"] = count
    stream.write(json.dumps(header) + "\n")
    written = 0
    for turn in turns:
        # Escaped to ASCII: lone surrogates, which UTF-8 can't hold, come through too.
        stream.write(json.dumps(_turn_line(turn), ensure_ascii=True) + "\n")
        written += 1
    return written


def _turn_line(turn: Turn) -> dict[str, JsonValue]:
    return {
        "turn_id": turn.turn_id,
        "session_id": turn.session_id,
        "index": turn.index,
        "role": turn.role.value,
        "speaker": turn.speaker,
        "text": turn.text,
        "caption": turn.caption,
        "said_at": turn.said_at.isoformat() if turn.said_at is not None else None,
        "added_at": turn.added_at.isoformat(),
        "metadata": dict(turn.metadata),
    }
