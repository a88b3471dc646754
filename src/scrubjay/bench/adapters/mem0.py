"""mem0's open-source `Memory`, told to store messages as they are: no model, a local Qdrant on disk.

Its keyword half wants word lists that are downloaded, and its entity half a language model of spaCy, so that what is
measured is what the package does by itself: cosine. What it would send home is switched off before it is imported.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from scrubjay.datatypes import Role
from scrubjay.passages import passage_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mem0 import Memory

    from scrubjay.datatypes import Turn
    from scrubjay.embed import Embedder

OWNER = "owner"
COLLECTION = "turns"
UNUSED_KEY = "unused"  # its clients for a model and for embeddings are made with a key, and never asked


class Embedding:
    """Ours behind the two methods of mem0's embedders."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:  # noqa: ARG002 -- mem0's
        vectors: list[list[float]] = self._embedder.embed(texts).tolist()
        return vectors


class Mem0Store:
    """One memory of mem0's, its embedder replaced by ours."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def add(self, turns: Sequence[Turn]) -> None:
        """Add turns one by one, since each carries an id of its own."""
        for turn in turns:
            self._memory.add(
                [message_of(turn)], user_id=OWNER, metadata={"turn_id": turn.turn_id}, infer=False
            )

    def search(self, question: str, *, limit: int) -> Sequence[str]:
        found = self._memory.search(question, filters={"user_id": OWNER}, top_k=limit, threshold=0.0)
        return [result["metadata"]["turn_id"] for result in found["results"]]

    def close(self) -> None:
        self._memory.vector_store.client.close()
        self._memory.close()


def message_of(turn: Turn) -> dict[str, str]:
    """Write a turn as a chat message: mem0 drops those of the role system."""
    role = Role.ASSISTANT if turn.role is Role.ASSISTANT else Role.USER
    message = {"role": role.value, "content": passage_text(turn, 0, len(turn.text))}
    return message | ({"name": turn.speaker} if turn.speaker else {})


def open_store(folder: Path, embedder: Embedder) -> Mem0Store:
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ.setdefault("MEM0_DIR", str(folder / "home"))
    logging.getLogger("mem0").setLevel(logging.ERROR)  # says at each start what isn't installed
    from mem0 import Memory

    dimension = embedder.identity.dimension
    never_asked: dict[str, Any] = {"provider": "openai", "config": {"api_key": UNUSED_KEY}}
    memory = Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "path": str(folder / "qdrant"),
                    "on_disk": True,
                    "embedding_model_dims": dimension,
                    "collection_name": COLLECTION,
                },
            },
            "embedder": never_asked,
            "llm": never_asked,
            "history_db_path": str(folder / "history.db"),
        }
    )
    memory.embedding_model = Embedding(embedder)
    return Mem0Store(memory)
