"""READ: what a question needs becomes typed routes, by one model call or by rules (LycheeMemory V2, 3.5, B.2 and C.4).

The types of a plan stand in routes.py, for the stages after this one, which never import it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scrubjay.dates import find_time_range
from scrubjay.question_types import find_question_type
from scrubjay.routes import Plan, QuestionType, Route

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from scrubjay.datatypes import Usage
    from scrubjay.llm import ChatModel
    from scrubjay.settings import PlanSettings

__all__ = [
    "Plan",
    "PlanCache",
    "PlanKey",
    "QuestionType",
    "Route",
    "make_key",
    "plan_by_rules",
    "plan_with_model",
    "without_type",
]

BY_RULES = "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanKey:
    """What a plan depends on."""

    question: str
    minute: datetime
    recent: tuple[str, ...]
    model: str


class PlanCache:
    """The plans of the last questions, so that asking again costs no call; the memory owns it. Any thread may use it."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._plans: OrderedDict[PlanKey, Plan] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: PlanKey) -> Plan | None:
        with self._lock:
            if key in self._plans:
                self._plans.move_to_end(key)
            return self._plans.get(key)

    def keep(self, key: PlanKey, plan: Plan) -> None:
        """Keep a plan, and let go of the one that wasn't asked for longest, if there are too many."""
        with self._lock:
            self._plans[key] = plan
            self._plans.move_to_end(key)
            while len(self._plans) > self._most:
                self._plans.popitem(last=False)


def make_key(question: str, *, now: datetime, recent: Sequence[str], model: str) -> PlanKey:
    """Name what a plan depends on: the time counts to the minute, as the model is told it."""
    return PlanKey(
        question=question, minute=now.replace(second=0, microsecond=0), recent=tuple(recent), model=model
    )


def plan_by_rules(question: str, *, now: datetime) -> Plan:
    """Plan without a model: one route with the question itself, in the time range that it names, if it does."""
    time_range = find_time_range(question, now)
    route = Route(goal=question, queries=(question,), time_range=time_range)
    return Plan(
        question_type=find_question_type(question), routes=(route,), time_range=time_range, made_by=BY_RULES
    )


def without_type(plan: Plan) -> Plan:
    """Give the plan that knows nothing but the question (paper E.3, w/o query planner)."""
    return replace(plan, question_type=QuestionType.SINGLE)


def plan_with_model(
    question: str, *, now: datetime, recent: Sequence[str], model: ChatModel, settings: PlanSettings
) -> tuple[Plan, Usage]:
    """Plan with one call; raise what the model raises, and ModelReplyError where its plan can't be used."""
    from scrubjay.planner import ask_for_plan  # what reads replies is loaded only where there is a model

    return ask_for_plan(question, now=now, recent=recent, model=model, settings=settings)
