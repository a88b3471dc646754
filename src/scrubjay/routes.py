"""What a plan is made of: the type of a question, and routes to its evidence (LycheeMemory V2, 3.5)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrubjay.datatypes import RecordType, Role, TimeRange


class QuestionType(StrEnum):
    """What kind of evidence a question needs (paper B.2, C.4)."""

    SINGLE = "single"  # one fact
    AGGREGATE = "aggregate"  # a number, a list, all of something
    TEMPORAL = "temporal"  # when, how long, in which order
    COMPARISON = "comparison"  # two or more things or people against each other
    PERSONALIZED_ADVICE = "personalized_advice"  # what would suit a person
    PRIOR_ASSISTANT_RESPONSE = "prior_assistant_response"  # what was told who asks
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One need for evidence: what to look for, and what it must be like (paper 3.5)."""

    goal: str
    queries: tuple[str, ...]  # at least one
    entities: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    record_types: tuple[RecordType, ...] = ()  # empty: any
    speaker: str | None = None
    role: Role | None = None
    time_range: TimeRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the evidence for a question is to be found (paper 3.5)."""

    question_type: QuestionType
    routes: tuple[Route, ...]  # at least one
    time_range: TimeRange | None
    made_by: str  # "model" or "rules"
    fault: str = ""  # why a model's plan was not used
    dropped: tuple[str, ...] = ()  # why routes that the model wrote were left out
