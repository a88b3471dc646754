"""The model that a memory asks: the one it was given, or the one that settings name, opened when first needed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrubjay.llm import ChatModel
    from scrubjay.settings import ChatSettings


class ChosenModel:
    """A model and whose it is: one that was given is its giver's to close."""

    def __init__(self, given: ChatModel | None, settings: ChatSettings) -> None:
        self._given = given
        self._settings = settings
        self._own: ChatModel | None = None
        self._lock = threading.Lock()

    @property
    def is_configured(self) -> bool:
        """Whether there is a model to ask."""
        return self._given is not None or self._settings.model is not None

    def get(self) -> ChatModel:
        """Give the model; raise SettingsError where none was given or is configured."""
        from scrubjay.llm import load_model

        with self._lock:
            if self._given is not None:
                return self._given
            if self._own is None:
                self._own = load_model(self._settings)
            return self._own

    def break_off(self) -> None:
        """End the calls under way where the model is ours; the next `get` opens another."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None:
            own.close()
