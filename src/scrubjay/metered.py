"""A model that is asked within budgets many share, and that keeps how the asking went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrubjay.embed import count_tokens
from scrubjay.errors import ModelClosedError, ModelError

if TYPE_CHECKING:
    from collections.abc import Generator

    from scrubjay.datatypes import Usage
    from scrubjay.llm import ChatModel, ChatRequest, Completion, Reply
    from scrubjay.store.postgres.budgets import SharedBudgets, Spending

NO_BUDGET = "the budget that workers share is spent for now"


class MeteredModel:
    """Another's model, for one visit to a memory; closing it closes nothing."""

    def __init__(self, model: ChatModel, budgets: SharedBudgets, *, output_share: float) -> None:
        """`output_share`: tokens of a reply expected for each of what was asked."""
        self._model = model
        self._budgets = budgets
        self._output_share = output_share
        self.answered = False
        self.failure: ModelError | None = None  # the last
        self.seconds_to_wait: float | None = None  # where the budgets have nothing left

    @property
    def name(self) -> str:
        return self._model.name

    def complete(self, request: ChatRequest, output: type[Reply]) -> Completion[Reply]:
        """Ask; raise ModelClosedError, as if we had been told to stop, where the budgets have nothing left."""
        system, user = count_tokens([request.system, request.user])
        tokens = system + round(user * (1 + self._output_share))
        taken = self._budgets.take(tokens=tokens)
        if taken is None:
            self.seconds_to_wait = self._budgets.seconds_to_wait(tokens=tokens)
            raise ModelClosedError(NO_BUDGET)
        try:
            completion = self._model.complete(request, output)
        except ModelError as error:
            self.failure = error
            self._mend(taken, error.usage)
            raise
        self.answered = True
        self._mend(taken, completion.usage)
        return completion

    def stream(self, request: ChatRequest) -> Generator[str, None, Completion[str]]:
        return self._model.stream(request)

    def close(self) -> None:
        """Do nothing: the model is its giver's to close."""

    def _mend(self, taken: Spending, usage: Usage | None) -> None:
        """Count what was spent; an attempt that failed is a call all the same."""
        spent = 0 if usage is None else usage.input_tokens + usage.output_tokens
        calls = 1 if usage is None else max(usage.calls, 1)
        self._budgets.mend(taken, calls=calls, tokens=spent)
