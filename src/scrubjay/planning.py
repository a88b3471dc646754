"""READ, composed: a question's plan, by one model call where a model is configured, and by rules where not or where it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scrubjay.errors import ModelError
from scrubjay.plan import PlanCache, make_key, plan_by_rules, plan_with_model, without_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from scrubjay.chosen_model import ChosenModel
    from scrubjay.datatypes import Usage
    from scrubjay.plan import Plan
    from scrubjay.settings import Settings
    from scrubjay.trace import Trace


class Planner:
    """Plans questions, and keeps the plans of the last ones; any thread may use it."""

    def __init__(self, model: ChosenModel, settings: Settings) -> None:
        self._model = model
        self._settings = settings
        self._plans = PlanCache(most=settings.plan.cached_plans)

    def plan(
        self, question: str, *, now: datetime, recent: Sequence[str], trace: Trace
    ) -> tuple[Plan, tuple[Usage, ...]]:
        """Give a plan and what it cost; a call that failed is told in the trace, and what it cost all the same."""
        if not self._settings.reading.recall.planned:
            return without_type(plan_by_rules(question, now=now)), ()
        fallback = ""
        spent: tuple[Usage, ...] = ()
        if self._model.is_configured:
            try:
                with trace.stage("plan"):
                    return self._ask(question, now=now, recent=recent)
            except ModelError as error:
                fallback = f"the question itself, without a plan of the model: {error}"
                spent = () if error.usage is None else (error.usage,)
        with trace.stage("plan", fallback=fallback):
            return replace(plan_by_rules(question, now=now), fault=fallback), spent

    def _ask(self, question: str, *, now: datetime, recent: Sequence[str]) -> tuple[Plan, tuple[Usage, ...]]:
        model = self._model.get()
        key = make_key(question, now=now, recent=recent, model=model.name)
        known = self._plans.find(key)
        if known is not None:
            return known, ()
        plan, usage = plan_with_model(
            question, now=now, recent=recent, model=model, settings=self._settings.plan
        )
        self._plans.keep(key, plan)
        return plan, (usage,)
