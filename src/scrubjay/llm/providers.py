"""Find the provider a model's name means, and put what providers raise into our errors. Nowhere else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestTimeout,
    UserError,
)
from pydantic_ai.models import infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers import infer_provider, infer_provider_class
from pydantic_ai.providers.openai import OpenAIProvider

from scrubjay.errors import (
    ModelError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelReplyError,
    ModelUnavailableError,
    SettingsError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

    from scrubjay.settings import ChatSettings

CONTEXT_TOO_LONG = ModelContextWindowExceededError
OLLAMA_URL = "http://localhost:11434/v1"
NO_KEY = "none"  # what a server without keys is sent: its client insists on one
BUSY = 429
UNAVAILABLE = 503  # with Retry-After, as our own server says it is busy
PASSING = frozenset({408, 409, 425})  # statuses that another attempt may not get, with all from 500
SERVER_FAULT = 500
MODE_REFUSED = frozenset(
    {400, 404, 415, 422, 501}
)  # what servers answer to a response format they don't know
SHOWN = 500  # characters of a provider's own words


def find_model(settings: ChatSettings) -> Model:
    """Make the pydantic-ai model of a name such as "openai:gpt-4.1-mini"; with a base URL, of any name.

    Raise SettingsError for a name without a known provider, or a provider without its key or package.
    """
    name = settings.model or ""
    provider, _, model_name = name.partition(":")
    try:
        if settings.base_url or provider in {"openai", "ollama"}:
            return OpenAIChatModel(
                model_name if provider in {"openai", "ollama"} else name, provider=openai_provider(settings)
            )
        return infer_model(name, provider_factory=lambda given: make_provider(given, settings.api_key))
    except (UserError, ImportError, ValueError) as error:
        raise SettingsError(f"the model {name!r} can't be used: {error}") from error


def openai_provider(settings: ChatSettings) -> OpenAIProvider:
    """Make the client of OpenAI, of Ollama where it listens by itself, or of a server with the same protocol."""
    base_url = settings.base_url
    if (settings.model or "").startswith("ollama:"):
        base_url = base_url or os.environ.get("OLLAMA_BASE_URL") or OLLAMA_URL
    return OpenAIProvider(base_url=base_url, api_key=settings.api_key or (NO_KEY if base_url else None))


def make_provider(name: str, api_key: str | None) -> Provider[object]:
    if api_key is None:
        return infer_provider(name)
    make: Callable[..., Provider[object]] = infer_provider_class(name)  # every provider with keys takes one
    return make(api_key=api_key)


def map_error(error: AgentRunError | UserError, model: str) -> ModelError:
    """Give our error for a provider's, with its own words, but never a key or a prompt."""
    words = f"{model}: {str(error)[:SHOWN]}"
    if isinstance(error, ModelHTTPError):
        return map_status(error, words)
    if isinstance(error, ModelConnectionError):
        return ModelUnavailableError(words, reached=False)
    if isinstance(error, ModelRequestTimeout):
        return ModelUnavailableError(words)
    if isinstance(error, ModelQuotaExceededError | UserError):
        return ModelRejectedError(words)
    if isinstance(error, ModelAPIError) and error.retry_after is not None:
        return ModelRateLimitError(words, retry_after=error.retry_after)
    return ModelReplyError(words)


def map_status(error: ModelHTTPError, words: str) -> ModelError:
    if isinstance(error, ModelQuotaExceededError):
        return ModelRejectedError(words)
    if error.status_code == BUSY or (error.status_code == UNAVAILABLE and error.retry_after is not None):
        return ModelRateLimitError(words, retry_after=error.retry_after)
    if error.status_code in PASSING or (
        error.status_code >= SERVER_FAULT and error.status_code not in MODE_REFUSED
    ):
        return ModelUnavailableError(words)
    return ModelRejectedError(words, status=error.status_code)


def may_lack_mode(error: ModelError) -> bool:
    """Tell whether a request may be taken in another mode: the provider knew who asked, but not what for."""
    return isinstance(error, ModelRejectedError) and error.status in MODE_REFUSED


def seconds_to_wait(failure: ModelError, attempt: int, settings: ChatSettings) -> float | None:
    """Say how long to wait after so many attempts that failed; None where there should be no other."""
    if attempt >= settings.attempts or not isinstance(failure, ModelRateLimitError | ModelUnavailableError):
        return None
    wait = min(settings.first_wait_seconds * 2 ** (attempt - 1), settings.longest_wait_seconds)
    if isinstance(failure, ModelRateLimitError) and failure.retry_after is not None:
        wait = failure.retry_after
    return wait if wait <= settings.longest_wait_seconds else None
