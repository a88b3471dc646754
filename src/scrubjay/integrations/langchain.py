"""A LangChain retriever over a memory (extra `langgraph`, which brings langchain-core)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.errors import MissingExtraError
from scrubjay.memory import Memory

try:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise MissingExtraError("langchain-core", extra="langgraph") from error

if TYPE_CHECKING:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun

    from scrubjay.datatypes import Link
    from scrubjay.evidence import RecordLink


class ScrubJayRetriever(BaseRetriever):
    """Gives the evidence for a question as documents, in its order: records first, then turns as they were said.

    A document's id is its turn's or record's, its metadata say who said it, when, how relevant it is and why it is
    there. Nothing relevant is no document. What was said is data: a prompt should quote it as such.
    """

    memory: Memory  # stays its giver's to close
    max_tokens: int | None = None  # of the evidence together
    strategy: str | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        evidence = self.memory.recall(query, max_tokens=self.max_tokens, strategy=self.strategy)
        return [*map(record_document, evidence.records), *map(turn_document, evidence.links)]


def turn_document(link: Link) -> Document:
    turn = link.turn
    start, stop = link.excerpt or (0, len(turn.text))
    return Document(
        id=turn.turn_id,
        page_content=turn.text[start:stop] or turn.caption or "",
        metadata={
            "session_id": turn.session_id,
            "role": turn.role.value,
            "speaker": turn.speaker,
            "said_at": None if turn.said_at is None else turn.said_at.isoformat(),
            "kind": link.kind.value,
            "probability": link.probability,
            "reason": link.reason,
        },
    )


def record_document(link: RecordLink) -> Document:
    record = link.record
    return Document(
        id=record.record_id,
        page_content=record.text,
        metadata={
            "kind": "record",
            "type": record.type.value,
            "turn_ids": list(link.turn_ids),
            "supported": record.support.supported,
            "score": link.score,
            "reason": link.reason,
        },
    )
