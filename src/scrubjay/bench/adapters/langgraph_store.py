"""LangGraph's `InMemoryStore` with a vector index: the long-term store its agents are given to begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.store.memory import InMemoryStore

from scrubjay.passages import passage_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from scrubjay.datatypes import Turn
    from scrubjay.embed import Embedder

NAMESPACE = ("turns",)


class LanggraphStore:
    """A store whose items are turns; everything is in memory."""

    def __init__(self, embedder: Embedder) -> None:
        def embed(texts: Sequence[str]) -> list[list[float]]:
            vectors: list[list[float]] = embedder.embed(texts).tolist()
            return vectors

        self._store = InMemoryStore(
            index={"dims": embedder.identity.dimension, "embed": embed, "fields": ["text"]}
        )

    def add(self, turns: Sequence[Turn]) -> None:
        """Put turns one by one: 1.2.24 refuses a batch in which a text occurs twice."""
        for turn in turns:
            self._store.put(NAMESPACE, turn.turn_id, {"text": passage_text(turn, 0, len(turn.text))})

    def search(self, question: str, *, limit: int) -> Sequence[str]:
        return [item.key for item in self._store.search(NAMESPACE, query=question, limit=limit)]

    def close(self) -> None:
        """Do nothing: all of it is in memory."""


def open_store(folder: Path, embedder: Embedder) -> LanggraphStore:  # noqa: ARG001 -- every adapter is opened in a folder
    return LanggraphStore(embedder)
