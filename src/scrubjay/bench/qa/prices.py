"""What calls cost in money, where the price of a model is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrubjay.datatypes import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Tokens, and dollars; None where the price of a model is not known."""

    calls: int
    input_tokens: int
    output_tokens: int
    dollars: float | None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def add_up(usages: Iterable[Usage]) -> Spending:
    given = tuple(usages)
    prices = [price_of(usage) for usage in given]
    known = [price for price in prices if price is not None]
    return Spending(
        calls=sum(usage.calls for usage in given),
        input_tokens=sum(usage.input_tokens for usage in given),
        output_tokens=sum(usage.output_tokens for usage in given),
        dollars=sum(known) if len(known) == len(prices) else None,
    )


def price_of(usage: Usage) -> float | None:
    """Give the list price in dollars by genai-prices, without the provider's discounts; None of what it doesn't know."""
    if not usage.input_tokens + usage.output_tokens:
        return 0.0
    from genai_prices import Usage as Priced
    from genai_prices import calc_price

    provider, colon, name = usage.model.partition(":")
    priced = Priced(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    try:
        found = calc_price(priced, name if colon else usage.model, provider_id=provider if colon else None)
    except LookupError:
        return None
    return float(found.total_price)


def is_priced(model: str) -> bool:
    """Tell whether the price of a model is known."""
    from scrubjay.datatypes import Usage

    return price_of(Usage(stage="", model=model, calls=1, input_tokens=1, output_tokens=1)) is not None
