"""Values as PostgreSQL keeps them: text with characters it refuses, digests of ids, vectors."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
from psycopg.adapt import Loader
from psycopg.pq import Format

from scrubjay.store import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from psycopg.abc import Buffer

    from scrubjay.datatypes import Turn

MARK = "\x1a"  # opens an escape; itself written as one
REFUSED = re.compile("[\0\x1a\ud800-\udfff]")
ESCAPE = re.compile("\x1a([0-9a-f]{4})")
DIGEST_BYTES = 16
VECTOR_HEADER_BYTES = 4  # the dimension and two bytes unused, before each vector sent

USER_SPACE = b"scrubjay user"


def to_sql_text(text: str) -> str:
    """Give text as PostgreSQL can keep it: NUL and lone surrogates, which it refuses, become escapes."""
    return REFUSED.sub(lambda found: f"{MARK}{ord(found[0]):04x}", text)


def from_sql_text(text: str) -> str:
    return ESCAPE.sub(lambda found: chr(int(found[1], 16)), text) if MARK in text else text


def optional_sql_text(text: str | None) -> str | None:
    return None if text is None else to_sql_text(text)


def from_optional_sql_text(text: str | None) -> str | None:
    return None if text is None else from_sql_text(text)


def digest(text: str) -> bytes:
    """Give what stands for an id or key in a unique index, whose entries can't be long."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def memory_key(user_id: str) -> UUID:
    """Give the id under which a user's rows lie: known without asking, so that a query goes to its shard at once."""
    raw = user_id.encode("utf-8", "surrogatepass")
    return UUID(bytes=blake2b(raw, digest_size=16, person=USER_SPACE).digest())


def read_turn(row: rows.SqlRow) -> Turn:
    """Make a turn of a row of rows.TURN_COLUMNS."""
    turn = rows.read_turn(row)
    words = (turn.turn_id, turn.session_id, turn.text, turn.speaker or "", turn.caption or "")
    if not any(MARK in text for text in words):
        return turn
    return replace(
        turn,
        turn_id=from_sql_text(turn.turn_id),
        session_id=from_sql_text(turn.session_id),
        text=from_sql_text(turn.text),
        speaker=from_optional_sql_text(turn.speaker),
        caption=from_optional_sql_text(turn.caption),
    )


class VectorBytesLoader(Loader):
    """Gives a vector's bytes as they are sent, so that thousands are decoded at once."""

    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


def decode_vectors(stored: Sequence[bytes], *, dimension: int) -> NDArray[np.float32]:
    """Put vectors into rows, bit for bit as they were given; (vectors, dimension)."""
    raw = np.frombuffer(b"".join(stored), np.uint8).reshape(-1, VECTOR_HEADER_BYTES + dimension * 4)
    numbers = np.ascontiguousarray(raw[:, VECTOR_HEADER_BYTES:]).view(">f4")
    return numbers.astype(np.float32)
