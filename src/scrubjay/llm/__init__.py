"""PORT: a language model: one call, its reply read and checked, its cost returned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pydantic import BaseModel

from scrubjay.errors import MissingExtraError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Generator

    from scrubjay.datatypes import Usage
    from scrubjay.settings import ChatSettings

__all__ = ["ChatModel", "ChatRequest", "Completion", "Reply", "add_usage", "load_model"]

Reply = TypeVar("Reply", bound=BaseModel | str)

NO_MODEL = (
    "no language model is configured: set SCRUBJAY_MODEL, for example SCRUBJAY_MODEL=openai:gpt-4.1-mini with "
    "OPENAI_API_KEY, or SCRUBJAY_MODEL=<name> with SCRUBJAY_BASE_URL=http://localhost:11434/v1 for a server of your own"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What a model is asked, and by which stage."""

    stage: str  # its cost is counted under this name
    system: str
    user: str
    max_output_tokens: int | None = None  # None: the provider's default
    turn_ids: tuple[str, ...] = ()  # the turns it is about, in order; never sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(Generic[Reply]):
    """A model's reply, whether it was cut short, and what it cost with every try before it."""

    value: Reply | None  # None only where the reply was cut short before anything could be read
    text: str  # as it came
    truncated: bool  # an output limit was met, or the input was too long: ask for less at once
    usage: Usage


class ChatModel(Protocol):
    """A language model that answers one request at a time, from any thread."""

    @property
    def name(self) -> str:
        """Give the name it is known by: what the same records come from again."""
        ...

    def complete(self, request: ChatRequest, output: type[Reply]) -> Completion[Reply]:
        """Ask for a value of a pydantic model, or with `str` for text.

        Raise ModelError where there is no reply that can be used; it carries what was spent.
        """
        ...

    def stream(self, request: ChatRequest) -> Generator[str, None, Completion[str]]:
        """Ask for text and give it piece by piece as it is written; the generator returns the whole."""
        ...

    def close(self) -> None:
        """Stop what is running and let go of the connections."""
        ...


def load_model(settings: ChatSettings) -> ChatModel:
    """Make the model that is configured; no request is sent.

    Raise SettingsError if none is, MissingExtraError without the extra `llm`.
    """
    if not settings.model:
        raise SettingsError(NO_MODEL)
    try:
        from scrubjay.llm.adapter import open_model
    except ImportError as error:
        if (error.name or "").startswith("scrubjay"):
            raise
        raise MissingExtraError("pydantic-ai-slim", extra="llm") from error
    return open_model(settings)


def add_usage(first: Usage | None, second: Usage | None) -> Usage | None:
    """Add the costs of two calls of one stage; None costs nothing."""
    if first is None or second is None:
        return first or second
    return replace(
        second,
        calls=first.calls + second.calls,
        input_tokens=first.input_tokens + second.input_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
    )
