"""Values as SQLite keeps them: times, text that is no valid Unicode, arrays."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from scrubjay.datatypes import IndexRows, Role, StoreState, Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MICROSECONDS = 1_000_000
PASSAGES_AT_ONCE = 4_000
MICROSECOND_NS = 1_000

TURN_COLUMNS = (
    "turn.turn_id, session.session_id, turn.position, turn.role, turn.speaker, turn.text, turn.caption, "
    "turn.said_at, turn.said_offset, turn.added_at, turn.metadata"
)

NO_METADATA = "{}"  # of most turns

SqlText = str | bytes
SqlRow = tuple[Any, ...]  # sqlite3 gives columns no types


def to_sql_text(text: str) -> SqlText:
    """Give text as SQLite can keep it: lone surrogates are no UTF-8, so such text is kept as bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def from_sql_text(value: SqlText) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")


def optional_sql_text(text: str | None) -> SqlText | None:
    return None if text is None else to_sql_text(text)


def from_optional_sql_text(value: SqlText | None) -> str | None:
    return None if value is None else from_sql_text(value)


def to_microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def stamp() -> int:
    """Give the present moment as it is stored."""
    return time.time_ns() // MICROSECOND_NS


def offset_seconds(moment: datetime) -> int:
    offset = moment.utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def from_microseconds(microseconds: int, offset: int = 0) -> datetime:
    """Give the moment in the offset it was said in, in seconds east of UTC."""
    moment = EPOCH + microseconds * MICROSECOND
    return moment.astimezone(timezone(timedelta(seconds=offset))) if offset else moment


def read_turn(row: SqlRow) -> Turn:
    """Make a turn of a row of TURN_COLUMNS."""
    turn_id, session_id, position, role, speaker, text, caption, said_at, said_offset, added_at, metadata = (
        row
    )
    return Turn(
        turn_id=turn_id,
        session_id=session_id,
        index=position,
        role=Role(role),
        speaker=from_optional_sql_text(speaker),
        text=from_sql_text(text),
        caption=from_optional_sql_text(caption),
        said_at=None if said_at is None else from_microseconds(said_at, said_offset),
        added_at=from_microseconds(added_at),
        metadata={} if metadata == NO_METADATA else json.loads(metadata),
    )


class ReadText(Protocol):
    """Gives text as it was said, from what a store keeps of it."""

    def __call__(self, value: Any, /) -> str: ...


class RowSource(Protocol):
    """What rows are fetched from, a part at a time."""

    def fetchmany(self, size: int, /) -> list[SqlRow]: ...


class DecodeVectors(Protocol):
    """Puts stored vectors into rows; (vectors, dimension)."""

    def __call__(self, stored: Sequence[bytes], *, dimension: int) -> NDArray[np.float32]: ...


def decode_vectors(stored: Sequence[bytes], *, dimension: int) -> NDArray[np.float32]:
    return np.frombuffer(b"".join(stored), np.float32).reshape(-1, dimension)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coding:
    """How a store keeps vectors, and text that its database refuses."""

    dimension: int
    vectors: DecodeVectors = decode_vectors
    text: ReadText = from_sql_text


def read_index_rows(
    state: StoreState, turns: Sequence[SqlRow], passages: RowSource, *, count: int, coding: Coding
) -> IndexRows:
    """Put rows of turns and `count` passages into columns; passages are read in parts, as their vectors are large.

    The first passages may come without their vectors.
    """
    turn_row, session, position, role, speaker, said_at, tokens, flags = transposed(turns, 8)
    numbers = np.empty((count, 6), np.int64)
    vectors = np.empty((count, coding.dimension), np.float32)
    terms: list[bytes] = []
    counts: list[bytes] = []
    done = held = 0
    while part := passages.fetchmany(PASSAGES_AT_ONCE):
        *columns, part_terms, part_counts, part_vectors = transposed(part, 8)
        stretch = slice(done, done + len(part))
        numbers[stretch] = np.array([*columns, [len(blob) // 2 for blob in part_counts]], np.int64).T
        present = [vector for vector in part_vectors if vector is not None]
        vectors[held : held + len(present)] = coding.vectors(present, dimension=coding.dimension)
        held += len(present)
        terms.append(b"".join(part_terms))
        counts.append(b"".join(part_counts))
        done += len(part)
    return IndexRows(
        state=state,
        turn_row=np.array(turn_row, np.int64),
        session=np.array(session, np.int64),
        position=np.array(position, np.int64),
        role=tuple(role),
        speaker=tuple(None if name is None else coding.text(name) for name in speaker),
        said_at=np.array(said_at, np.float64) / MICROSECONDS,  # None becomes NaN
        tokens=np.array(tokens, np.int32),
        flags=np.array(flags, np.int32),
        passage_turn=numbers[:, 0],
        start=numbers[:, 1].astype(np.int32),
        stop=numbers[:, 2].astype(np.int32),
        passage_tokens=numbers[:, 3].astype(np.int32),
        length=numbers[:, 4].astype(np.int32),
        distinct=numbers[:, 5].astype(np.int32),
        terms=np.frombuffer(b"".join(terms), np.uint64),
        counts=np.frombuffer(b"".join(counts), np.uint16),
        vectors=vectors[:held],
    )


def transposed(rows: Sequence[SqlRow], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]
