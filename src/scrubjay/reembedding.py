"""Vectors of another embedder for all that a memory holds, put beside the current ones until all are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.errors import EmbedderMismatchError
from scrubjay.passages import passage_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrubjay.embed import Embedder
    from scrubjay.store import RecordStore, Store

AT_ONCE = 1_000


def stage_all(
    turns: Store, records: RecordStore, embedder: Embedder, *, advance: Callable[[int, int], None]
) -> None:
    """Embed every passage, record and evidence node that has no staged vector yet; goes on where it was interrupted."""
    total, done = turns.totals().passages, 0
    while batch := turns.unstaged(embedder.identity, limit=AT_ONCE):
        texts = [passage_text(passage.turn, passage.start, passage.stop) for passage in batch]
        turns.stage_vectors([passage.row for passage in batch], embedder.embed(texts))
        done += len(batch)
        advance(done, max(done, total))
    while found := records.unstaged_texts(limit=AT_ONCE):
        records.stage_text_vectors(found, embedder.embed([item.text for item in found]))


def adopt_staged(turns: Store, embedder: Embedder) -> bool:
    """Go over to an embedder; say False where turns were added just now that have no vector of it yet."""
    try:
        turns.adopt_vectors(embedder.identity)
    except EmbedderMismatchError:
        if not turns.unstaged(embedder.identity, limit=1):
            raise
        return False
    return True
