"""Which published figures hold for which model's name."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from agent.models import long_context
from agent.models.long_context import UNKNOWN, long_context_of


@pytest.mark.parametrize(
    ("name", "tokens", "benchmark"),
    [
        ("gpt-4o", 128_000, "NoLiMa"),
        ("gpt-4o-2024-08-06", 128_000, "NoLiMa"),
        ("openai/gpt-4o-mini", 4_000, "NoLiMa"),
        ("gpt-4.1-nano", 2_000, "NoLiMa"),
        ("claude-3-5-sonnet-20241022", 16_000, "NoLiMa"),
        ("anthropic/claude-3.5-sonnet", 16_000, "NoLiMa"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", 4_000, "NoLiMa"),
        ("llama3.3:70b-instruct-q4_K_M", 16_000, "NoLiMa"),
        ("gemma3:27b", 4_000, "NoLiMa"),
        ("glm-4-9b-chat", 64_000, "RULER"),
        ("Qwen/Qwen3-235B-A22B", 128_000, "RULER"),
    ],
)
def test_a_name_is_of_a_family_whatever_date_or_maker_it_carries(
    name: str, tokens: int, benchmark: str
) -> None:
    known = long_context_of(name)
    assert (known.tokens, known.benchmark) == (tokens, benchmark)


@pytest.mark.parametrize(
    "name",
    ["gpt-5", "gpt-4", "gpt-4o-audio-preview", "gemini-2.5-flash-lite", "llama3.2:3b", "", "🙂"],
)
def test_a_name_that_only_begins_like_a_family_has_no_figures(name: str) -> None:
    assert long_context_of(name) == UNKNOWN


def test_scores_fall_no_family_stands_twice_and_each_benchmark_has_its_source() -> None:
    data = tomllib.loads(Path(long_context.__file__).with_suffix(".toml").read_text())
    assert all(part["source"] and part["year"] for part in data.values())
    names = [n for part in data.values() for entry in part["models"] for n in entry["names"]]
    assert len(names) == len(set(names))
    for entry in data["NoLiMa"]["models"]:
        scores = [entry["base"], *(entry["scores"][length] for length in entry["scores"])]
        assert scores == sorted(scores, reverse=True)
