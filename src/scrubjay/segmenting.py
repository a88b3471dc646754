"""WRITE, without a model: the open turns of each session become segments of the store, safe beside other processes."""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scrubjay.datatypes import BoundaryReason, NewSegment
from scrubjay.errors import SegmentsChangedError
from scrubjay.segment import resume_session, segment_turns

if TYPE_CHECKING:
    from scrubjay.datatypes import OpenTurns, SessionEnds, WritePath
    from scrubjay.segment import Segmentation

TRIES = 5  # at segmenting a session that others write to


def close_segments(path: WritePath, ends: SessionEnds) -> int:
    """Segment open turns; give how many segments closed."""
    return sum(
        close_session(path, session_id, ends) for session_id in path.segments.sessions_with_open_turns()
    )


def close_session(path: WritePath, session_id: str, ends: SessionEnds) -> int:
    """Segment a session's open turns, anew where another process segments it or forgets turns of it meanwhile."""
    for _ in range(TRIES):
        opened = path.segments.open_turns(session_id)
        found = segment_open_turns(opened, path, flush=has_ended(opened, ends))
        if not found.segments:
            return 0
        with suppress(SegmentsChangedError):
            path.segments.close_segments(
                session_id,
                new_segments(opened, found),
                seen=opened.segmenter,
                segmenter=uuid.uuid4().hex,  # only ever compared: whoever closes first has the session
            )
            return len(found.segments)
    return 0  # they stay open for the next time


def segment_open_turns(opened: OpenTurns, path: WritePath, *, flush: bool) -> Segmentation:
    settings = path.settings.segment
    dimension = path.embedder.identity.dimension
    state = resume_session(opened.past, opened.closed, settings, dimension=dimension)
    return segment_turns(opened.turns, state, settings, flush=flush)


def has_ended(opened: OpenTurns, ends: SessionEnds) -> bool:
    if ends.flush or ends.idle is None or not opened.turns:
        return ends.flush
    return max(turn.turn.added_at for turn in opened.turns) + ends.idle <= datetime.now(UTC)


def new_segments(opened: OpenTurns, found: Segmentation) -> list[NewSegment]:
    row_of = {turn.turn.turn_id: row for row, turn in zip(opened.rows, opened.turns, strict=True)}
    return [
        NewSegment(
            reason=BoundaryReason(segment.reason),
            probability=None if segment.decision is None else segment.decision.probability,
            signals={} if segment.decision is None else dict(segment.decision.contributions),
            turn_rows=tuple(row_of[turn_id] for turn_id in segment.turn_ids),
        )
        for segment in found.segments
    ]
