"""What is built first where there is no memory: the log cut into chunks of a size, the nearest by cosine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scrubjay.context import header_line, turn_line
from scrubjay.embed import count_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from scrubjay.datatypes import Turn
    from scrubjay.embed import Embedder

CHUNK_TOKENS = 256  # of whole turns of one session; a longer turn is a chunk by itself


class NaiveRag:
    """Chunks with their vectors, kept in memory; a chunk found gives its turns in their order."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._chunks: list[tuple[str, ...]] = []
        self._vectors: list[NDArray[np.float32]] = []

    def add(self, turns: Sequence[Turn]) -> None:
        chunks = list(cut_chunks(turns))
        texts = [
            "\n".join([header_line(chunk[0].said_at), *(turn_line(turn, None) for turn in chunk)])
            for chunk in chunks
        ]
        self._chunks += [tuple(turn.turn_id for turn in chunk) for chunk in chunks]
        self._vectors += list(self._embedder.embed(texts))

    def search(self, question: str, *, limit: int) -> Sequence[str]:
        if not self._chunks:
            return ()
        nearness = np.stack(self._vectors) @ self._embedder.embed([question])[0]
        order = np.argsort(-nearness, kind="stable")
        return [turn_id for place in order for turn_id in self._chunks[place]][:limit]

    def close(self) -> None:
        """Do nothing: all of it is in memory."""


def cut_chunks(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """Put whole turns together while they fit."""
    chunk: list[Turn] = []
    held = 0
    for turn, size in zip(turns, count_tokens([turn_line(turn, None) for turn in turns]), strict=True):
        if chunk and held + size > CHUNK_TOKENS:
            yield chunk
            chunk, held = [], 0
        chunk.append(turn)
        held += size
    if chunk:
        yield chunk


def open_store(folder: Path, embedder: Embedder) -> NaiveRag:  # noqa: ARG001 -- every adapter is opened in a folder
    return NaiveRag(embedder)
