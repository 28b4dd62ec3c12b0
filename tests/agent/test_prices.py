"""What a call costs: as the price package works it out, whichever way that is done."""

from __future__ import annotations

import pytest
from genai_prices import Usage as Billed
from genai_prices.data_snapshot import get_snapshot

from agent.models.base import Usage
from agent.models.catalogue import cost_of, input_price

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


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-haiku-4-5"])
def test_what_is_written_into_the_cache_has_a_price_of_its_own(model: str) -> None:
    fresh, read, written = (
        cost_of(model, usage, "anthropic")
        for usage in (
            Usage(1_000, 0),
            Usage(1_000, 0, cached=1_000),
            Usage(1_000, 0, written=1_000),
        )
    )
    assert fresh
    assert read == pytest.approx(fresh / 10)
    assert written == pytest.approx(fresh * 1.25)


def test_the_price_of_a_prompt_has_what_keeping_it_costs() -> None:
    claude, other = input_price("claude-sonnet-4-5", "anthropic"), input_price("gpt-4o-mini")
    assert claude
    assert other
    assert claude.kept == pytest.approx(1.25 * claude.fresh)
    assert other.kept == other.fresh


def test_where_nothing_is_charged_for_writing_it_costs_what_is_fresh() -> None:
    plain, written = (
        cost_of("gpt-4o-mini", usage) for usage in (Usage(90, 9), Usage(90, 9, 0, 50))
    )
    assert plain == written
