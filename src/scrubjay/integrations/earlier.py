"""What was said before a session began: what a host adds to a prompt without being asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrubjay.datatypes import DatePrecision, TimeRange

if TYPE_CHECKING:
    from datetime import datetime

    from scrubjay.evidence import Evidence
    from scrubjay.memory import Memory

LONGEST_QUESTION = 2_000  # characters of a prompt that are asked about, its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Adding:
    """How much is added to a prompt, and when."""

    max_tokens: int = 1_000
    least_relevance: float = 0.15  # of the best turn or record, else nothing is added
    deadline: float | None = None  # seconds


def recall_earlier(
    memory: Memory, question: str, *, session_id: str, adding: Adding, begun: datetime | None = None
) -> str:
    """Give the evidence for a prompt, with its instructions, from what was said before the session.

    What the session holds is in the prompt already, so it is left out: all from its first turn on, or from `begun` on.
    Where the evidence hardly bears on the prompt, give "".
    """
    asked = question.strip()[-LONGEST_QUESTION:]
    if not asked:
        return ""
    sessions = [] if begun else memory.sessions()
    began = begun or next((each.first_said_at for each in sessions if each.session_id == session_id), None)
    before = TimeRange(start=None, end=began, precision=DatePrecision.OTHER, text="before this session")
    evidence = memory.recall(
        asked,
        max_tokens=adding.max_tokens,
        deadline=adding.deadline,
        time_range=before if began else None,
    )
    return evidence.messages()[0]["content"] if bearing_of(evidence) >= adding.least_relevance else ""


def bearing_of(evidence: Evidence) -> float:
    """Give how far evidence bears on what was asked: how relevant its best turn or record is, 0 where there is none."""
    scores = [link.probability for link in evidence.links] + [link.score for link in evidence.records]
    return max(scores, default=0.0)
