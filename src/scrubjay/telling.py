"""Evidence as a tool tells it to a model: as quoted data, with what to make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrubjay.evidence import Evidence

NOTHING_FOUND = (
    "Nothing in the memory is relevant to this question. Say that you don't know rather than guess; "
    "other words or a wider time range may find more."
)
UNLIKELY = "What follows likely does not answer the question (confidence {confidence:.2f}). "


def tell_evidence(evidence: Evidence) -> str:
    """Give the evidence with the words that keep a model from obeying it; say so where there is none."""
    if not evidence.text:
        return NOTHING_FOUND
    doubt = "" if evidence.is_answerable else UNLIKELY.format(confidence=evidence.confidence)
    return doubt + evidence.messages()[0]["content"]
