"""What a call costs: as the price package works it out, whichever way that is done."""

from __future__ import annotations

import pytest
from genai_prices import Usage as Billed
from genai_prices.data_snapshot import get_snapshot

from agent.models.base import Usage
from agent.models.catalogue import cost_of

SIZES = ((0, 0, 0), (1, 0, 1), (999, 998, 7), (150_000, 10, 3), (300_001, 300_001, 64_000))


@pytest.mark.parametrize("provider", [one.id for one in get_snapshot().providers])
def test_every_model_is_billed_as_the_package_says_to_the_last_digit(provider: str) -> None:
    snapshot = get_snapshot()
    mine = next(one for one in snapshot.providers if one.id == provider)
    for model in mine.models:
        try:
            _, found = snapshot.find_provider_model(model.id, None, provider, None)
        except LookupError:
            continue
        for prompt, cached, completion in SIZES:
            billed = Billed(input_tokens=prompt, cache_read_tokens=cached, output_tokens=completion)
            wanted = float(found.calc_price(billed, mine).total_price)
            assert cost_of(model.id, Usage(prompt, completion, cached), provider) == wanted


def test_the_price_of_a_model_that_nobody_knows_is_unknown() -> None:
    assert cost_of("a-model-of-my-own", Usage(10, 10)) is None
