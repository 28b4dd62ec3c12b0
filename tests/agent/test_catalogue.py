"""Tests of the known facts about models by name: prices, windows, and the share of a window that is
used."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from genai_prices import Usage as Billed
from genai_prices.data_snapshot import get_snapshot

from agent.models import catalogue
from agent.models.base import Usage
from agent.models.brain import PROVIDERS
from agent.models.catalogue import (
    UNKNOWN,
    cost_of,
    input_price,
    long_context_of,
    readings,
    window_of,
)
from tests.tables import each_row

# --- prices ---

SIZES = ((999, 998, 7), (300_001, 300_001, 64_000))


def test_every_model_is_billed_as_the_package_says_to_the_last_digit() -> None:
    """Compare the flat rates, or the package's price for a call, with the package's own bill."""
    snapshot = get_snapshot()
    for provider in snapshot.providers:
        for model in provider.models:
            try:
                _, found = snapshot.find_provider_model(model.id, None, provider.id, None)
            except LookupError:
                continue
            for prompt, cached, completion in SIZES:
                billed = Billed(
                    input_tokens=prompt, cache_read_tokens=cached, output_tokens=completion
                )
                wanted = float(found.calc_price(billed, provider).total_price)
                usage = Usage(prompt, completion, cached)
                assert cost_of(model.id, usage, provider.id) == wanted, model.id


UNPRICED = {"dashscope", "siliconflow", "volcengine"}  # which the package does not have


def test_the_prices_of_each_provider_that_costs_something_are_found() -> None:
    for name in (name for name, one in PROVIDERS.items() if not one.is_free):
        if name in UNPRICED:
            continue
        _, where = readings("any", name)[0]
        assert get_snapshot().find_provider("any", where.id, where.url).models


def test_what_is_written_into_the_cache_has_a_price_of_its_own() -> None:
    usages = (
        Usage(1_000, 0),
        Usage(1_000, 0, cached=1_000),
        Usage(1_000, 0, written=1_000),
    )
    for model in ("claude-sonnet-4-5", "claude-haiku-4-5"):
        fresh, read, written = (cost_of(model, usage, "anthropic") for usage in usages)
        assert fresh
        assert read == pytest.approx(fresh / 10)
        assert written == pytest.approx(fresh * 1.25)
    plain, written = (
        cost_of("gpt-4o-mini", usage) for usage in (Usage(90, 9), Usage(90, 9, 0, 50))
    )
    assert plain == written, "nothing is charged for it there"


def test_the_price_of_a_prompt_has_what_keeping_it_costs() -> None:
    claude, other = input_price("claude-sonnet-4-5", "anthropic"), input_price("gpt-4o-mini")
    assert claude
    assert other
    assert claude.kept == pytest.approx(1.25 * claude.fresh)
    assert other.kept == other.fresh


def test_a_price_is_that_of_the_provider_and_nobodys_is_unknown() -> None:
    used = Usage(1_000_000, 0)
    by_name = cost_of("gpt-oss-120b", used, "cerebras")
    by_address = cost_of("gpt-oss-120b", used, "https://api.cerebras.ai/v1")
    assert by_name is not None
    assert by_name == by_address != cost_of("gpt-oss-120b", used, "groq")
    assert cost_of("gpt-4o", used, "nobody-known") == cost_of("gpt-4o", used)
    assert cost_of("a-model-of-my-own", Usage(10, 10)) is None


# --- windows, and how much of them is used ---


@each_row("model", ["gpt-4o-mini", "gemini-2.5-pro"])
def test_what_is_cached_is_paid_where_it_is_counted_besides_the_prompt(model: str) -> None:
    apart, within = Usage(6, 3, cached=64), Usage(70, 3, cached=64)
    assert cost_of(model, apart) == cost_of(model, within)


def test_a_window_is_that_of_the_provider_by_name_and_by_address() -> None:
    assert window_of("llama3.1-8b", "cerebras") == 32_768
    assert window_of("llama3.1-8b", "https://api.cerebras.ai/v1") == 32_768
    assert window_of("llama3.1-8b", "http://127.0.0.1:9/v1") == 0


KNOWN = {
    "gpt-4o": (128_000, "NoLiMa"),
    "gpt-4o-2024-08-06": (128_000, "NoLiMa"),
    "openai/gpt-4o-mini": (4_000, "NoLiMa"),
    "gpt-4.1-nano": (2_000, "NoLiMa"),
    "anthropic/claude-3.5-sonnet": (16_000, "NoLiMa"),
    "meta-llama/Meta-Llama-3.1-8B-Instruct": (4_000, "NoLiMa"),
    "llama3.3:70b-instruct-q4_K_M": (16_000, "NoLiMa"),
    "gemma3:27b": (4_000, "NoLiMa"),
    "glm-4-9b-chat": (64_000, "RULER"),
    "Qwen/Qwen3-235B-A22B": (128_000, "RULER"),
}
NOT_KNOWN = (
    *("gpt-5", "gpt-4", "gpt-4o-audio-preview", "gemini-2.5-flash-lite", "llama3.2:3b"),
    *("", "🙂"),
)


def test_published_figures_hold_for_a_family_whatever_date_or_maker_a_name_carries() -> None:
    found = {name: long_context_of(name) for name in KNOWN}
    assert {name: (one.tokens, one.benchmark) for name, one in found.items()} == KNOWN
    assert {long_context_of(name) for name in NOT_KNOWN} == {UNKNOWN}


def test_scores_fall_no_family_stands_twice_and_each_benchmark_has_its_source() -> None:
    data = tomllib.loads(Path(catalogue.__file__).with_name("long_context.toml").read_text())
    assert all(part["source"] and part["year"] for part in data.values())
    names = [n for part in data.values() for entry in part["models"] for n in entry["names"]]
    assert len(names) == len(set(names))
    for entry in data["NoLiMa"]["models"]:
        scores = [entry["base"], *(entry["scores"][length] for length in entry["scores"])]
        assert scores == sorted(scores, reverse=True)
