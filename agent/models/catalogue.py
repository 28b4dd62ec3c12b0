"""What is known of models: window sizes and prices, from the package genai-prices.

The package is maintained by others and takes a tenth of a second to import, so it is loaded when
the first figure is asked for; `load` does that ahead, in a thread.
"""

from __future__ import annotations

from functools import lru_cache

from agent.models.base import Model, ModelReply, Usage
from memory.record.ledger import Spent


def load() -> None:
    """Import the price data now, so that no later call waits for it."""
    window_of("gpt-4o")


@lru_cache(maxsize=256)
def window_of(model: str) -> int:
    """The context window of a model in tokens; 0 where it is unknown. The name may say whose it
    is, as routers have it: "anthropic/claude-sonnet-4-5"."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - slow import

    for name, provider in readings(model):
        try:
            _, known = get_snapshot().find_provider_model(name, None, provider, None)
        except LookupError:
            continue
        if known.context_window:
            return known.context_window
    return 0


def readings(model: str) -> list[tuple[str, str | None]]:
    """What a name may mean, as (model, provider or None): "a/b" is b of a, or a router's "a/b"."""
    provider, _, name = model.partition("/")
    return [(model, None), *([(name, provider), (model, "openrouter")] if name else [])]


def cost_of(model: str, usage: Usage) -> float | None:
    """What a call cost in US dollars; None where the price of the model is unknown."""
    from genai_prices import Usage as Billed  # noqa: PLC0415 - slow import
    from genai_prices import calc_price  # noqa: PLC0415 - slow import

    billed = Billed(
        input_tokens=usage.prompt,
        cache_read_tokens=min(usage.cached, usage.prompt),
        output_tokens=usage.completion,
    )
    for name, provider in readings(model):
        try:
            return float(calc_price(billed, model_ref=name, provider_id=provider).total_price)
        except LookupError:
            continue
    return None


def spent_on(purpose: str, model: Model, reply: ModelReply, usage: Usage) -> Spent:
    """The row for a reply; `usage` is what the provider reported, or what serves for it."""
    return Spent(
        purpose,
        reply.model,
        usage.prompt,
        usage.cached,
        usage.completion,
        cost=0.0 if model.is_free else cost_of(reply.model, usage),
        is_reported=reply.usage is not None,
    )
