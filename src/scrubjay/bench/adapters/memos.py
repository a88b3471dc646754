"""MemOS's `GeneralTextMemory` (the distribution MemoryOS), given turns as items: no model extracts, a local Qdrant on disk."""

from __future__ import annotations

import os
import uuid
import warnings
from typing import TYPE_CHECKING, Any

from scrubjay.passages import passage_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memos.memories.textual.general import GeneralTextMemory

    from scrubjay.datatypes import Turn
    from scrubjay.embed import Embedder

UNUSED = "unused"  # names and keys of clients that are made and never asked


class Embedding:
    """Ours behind the method of MemOS's embedders."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._embedder.embed(texts).tolist()
        return vectors


class MemosStore:
    """One textual memory; its items have ids of their own, so ours are kept beside."""

    def __init__(self, memory: GeneralTextMemory) -> None:
        self._memory = memory
        self._turn_of: dict[str, str] = {}

    def add(self, turns: Sequence[Turn]) -> None:
        items = [
            {
                "id": str(uuid.uuid5(uuid.NAMESPACE_OID, turn.turn_id)),
                "memory": passage_text(turn, 0, len(turn.text)),
            }
            for turn in turns
        ]
        self._turn_of.update((item["id"], turn.turn_id) for item, turn in zip(items, turns, strict=True))
        self._memory.add(items)

    def search(self, question: str, *, limit: int) -> Sequence[str]:
        return [self._turn_of[item.id] for item in self._memory.search(question, limit)]

    def close(self) -> None:
        self._memory.vector_db.client.close()


def open_store(folder: Path, embedder: Embedder) -> MemosStore:
    os.environ["MEMOS_BASE_PATH"] = str(folder)  # where it writes logs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own settings, and of what Qdrant does only on a server
        memory = make_memory(folder, embedder.identity.dimension)
    memory.embedder = Embedding(embedder)
    return MemosStore(memory)


def make_memory(folder: Path, dimension: int) -> GeneralTextMemory:
    from memos.configs.memory import GeneralTextMemoryConfig
    from memos.memories.textual.general import GeneralTextMemory

    qdrant = {
        "collection_name": "turns",
        "vector_dimension": dimension,
        "distance_metric": "cosine",
        "path": str(folder / "qdrant"),
    }
    model: dict[str, Any] = {"model_name_or_path": UNUSED, "api_key": UNUSED}
    return GeneralTextMemory(
        GeneralTextMemoryConfig(
            extractor_llm={"backend": "openai", "config": model},
            vector_db={"backend": "qdrant", "config": qdrant},
            embedder={"backend": "universal_api", "config": {**model, "provider": "openai"}},
        )
    )
