"""Known facts about models: windows and prices from the package genai-prices, which takes a tenth
of a second to import and so is loaded when needed (`load` does it ahead, in a thread); and the
length up to which a model's quality holds, by published benchmarks (`long_context.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent.models.base import Model, ModelReply, Usage
from memory.context.cut_cost import InputPrice
from memory.ledger import Spent
from memory.patterns import lazy

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider


def load() -> None:
    """Import the price data now, so that no later call waits for it."""
    window_of("gpt-4o")


@lru_cache(maxsize=256)
def window_of(model: str, provider: str = "") -> int:
    """Return the context window of a model at this provider in tokens; 0 if unknown. The name may
    include its maker, as with routers: "anthropic/claude-sonnet-4-5"."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - slow import

    for name, where in readings(model, provider):
        try:
            _, known = get_snapshot().find_provider_model(name, None, where.id, where.url)
        except LookupError:
            continue
        if known.context_window:
            return known.context_window
    return 0


def parameters_of(model: str) -> float:
    """Return a model's number of parameters in billions, if its name states it ("qwen2.5:0.5b",
    "SmolLM2-135M"); otherwise 0."""
    sizes = ((float(number), unit) for number, unit in _SIZE.findall(model.casefold()))
    billions = (
        size if unit == "b" else size / 1_000
        for size, unit in sizes
        if unit == "b" or size >= _LEAST_MILLIONS
    )
    return max(billions, default=0.0)


_SIZE = lazy(r"(?<![a-z\d.])(\d{1,4}(?:\.\d{1,3})?)([bm])(?![a-z\d])")
_LEAST_MILLIONS = 30  # "1m" is a window


class ProviderReference(NamedTuple):
    """A provider as the package knows it: by its id, or by its API's URL."""

    id: str | None = None
    url: str | None = None


def readings(model: str, provider: str = "") -> list[tuple[str, ProviderReference]]:
    """Return the possible meanings of a name, each with its provider: this provider's model (a name
    or a URL), or anybody's; "a/b" is b of a, or a router's "a/b"."""
    maker, _, name = model.partition("/")
    served = (
        [ProviderReference(url=provider) if "://" in provider else ProviderReference(provider)]
        if provider
        else []
    )
    whole = [(model, where) for where in (*served, ProviderReference())]
    return [
        *whole,
        *(
            [(name, ProviderReference(maker)), (model, ProviderReference("openrouter"))]
            if name
            else []
        ),
    ]


class _Rates(NamedTuple):
    """The price of a token in US dollars: of a prompt, read from the cache, of an answer, and
    written into the cache."""

    prompt: Decimal
    cached: Decimal
    completion: Decimal
    written: Decimal


def cost_of(model: str, usage: Usage, provider: str = "") -> float | None:
    """Return the cost of a call in US dollars at this provider; None if the price is unknown.
    Cached tokens that exceed the prompt's were counted beside it."""
    if usage.cached > usage.prompt:
        usage = replace(usage, prompt=usage.prompt + usage.cached)
    if (rates := _flat_rates(model, provider)) is None:
        return _bill(model, usage, provider)
    cached = min(usage.cached, usage.prompt)
    written = min(usage.written, usage.prompt - cached)
    fresh = rates.prompt * (usage.prompt - cached - written) + rates.written * written
    return float(fresh + rates.cached * cached + rates.completion * usage.completion)


def _bill(model: str, usage: Usage, provider: str) -> float | None:
    """Return the cost calculated by the package: its prices may depend on the size of a prompt or
    the time of day."""
    from genai_prices import Usage as Billed  # noqa: PLC0415 - slow import

    if (known := _look_up(model, provider)) is None:
        return None
    billed = Billed(
        input_tokens=usage.prompt,
        cache_read_tokens=min(usage.cached, usage.prompt),
        cache_write_tokens=min(usage.written, max(0, usage.prompt - usage.cached)),
        output_tokens=usage.completion,
    )
    return float(known.model.calc_price(billed, known.provider).total_price)


@lru_cache(maxsize=256)
def _flat_rates(model: str, provider: str) -> _Rates | None:
    """Return the prices of a model that depend only on the kind of a token; None for all others.
    Most are like that, and multiplication is a hundred times faster than the package's
    calculation."""
    from genai_prices.types import ModelPrice  # noqa: PLC0415 - slow import

    if (known := _look_up(model, provider)) is None:
        return None
    listed = known.model.prices
    if not isinstance(listed, ModelPrice):
        return None
    per_million = vars(listed)
    kinds = ("input_mtok", "cache_read_mtok", "output_mtok", "cache_write_mtok")
    fresh, cached, completion, written = (per_million.get(kind) for kind in kinds)
    read, write = (fresh if price is None else price for price in (cached, written))
    prices = (fresh, read, completion, write)
    rates = [price for price in prices if isinstance(price, Decimal)]
    if len(rates) < len(kinds) or per_million.get("requests_kcount"):
        return None
    return _Rates(*(price / 1_000_000 for price in rates))


class _Known(NamedTuple):
    model: ModelInfo
    provider: Provider


@lru_cache(maxsize=256)
def _look_up(model: str, provider: str) -> _Known | None:
    """Return the package's model, and the provider whose prices apply."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - slow import

    for name, where in readings(model, provider):
        try:
            at, known = get_snapshot().find_provider_model(name, None, where.id, where.url)
        except LookupError:
            continue
        return _Known(known, at)
    return None


@lru_cache(maxsize=256)
def input_price(model: str, provider: str = "") -> InputPrice | None:
    """Return the price of a prompt token at this provider; None if unknown."""
    fresh = cost_of(model, Usage(_SOME, 0), provider)
    cached = cost_of(model, Usage(_SOME, 0, _SOME), provider)
    written = cost_of(model, Usage(_SOME, 0, written=_SOME), provider)
    if fresh is None or cached is None or written is None:
        return None
    return InputPrice(fresh / _SOME, cached / _SOME, written / _SOME)


_SOME = 10_000  # tokens: some prices rise with the size of a prompt


def price_reply(purpose: str, model: Model, reply: ModelReply, usage: Usage) -> Spent:
    """Return the ledger's row for a reply; `usage` is the provider's report, or its replacement."""
    model = reply.by or model
    return Spent(
        purpose,
        reply.model,
        usage.prompt,
        usage.cached,
        usage.completion,
        cost=0.0 if model.is_free else cost_of(reply.model, usage, model.provider),
        is_reported=reply.is_counted,
        written=usage.written,
        reasoning=usage.reasoning,
    )


_FILE = Path(__file__).with_name("long_context.toml")
USUAL = 32_000
"""Tokens from which on the measured models get worse: at 32k, 11 of NoLiMa's 13 are below half of
their score for short texts, and half of RULER's 17 are below its threshold of effectiveness."""
_TESTED = 128
_WORDS = lazy(r"\d+[a-z]*|[a-z]+")
_SAME = lazy(
    r"\d+|latest|preview|exp|instruct|it|chat|text|hf|gguf|awq|gptq|fp\d*|bf\d*|q\d*|[kms]"
)
"""The suffixes of a family's name: a date or a quantisation."""


class LongContext(Struct, frozen=True):
    """The length in `tokens` up to which a model's quality holds, by `benchmark` of `year` ("":
    there are no figures, and `tokens` is the usual value). `finding` completes "up to that …"."""

    tokens: int = USUAL
    benchmark: str = ""
    year: int = 0
    finding: str = ""


UNKNOWN = LongContext()


@lru_cache(maxsize=256)
def long_context_of(model: str) -> LongContext:
    """Return the known facts of a model. The name may have its maker before a slash."""
    words = _words(model.rpartition("/")[2])
    found = [(len(name), known) for name, known in _families() if _is_of(words, name)]
    return max(found, key=lambda one: one[0])[1] if found else UNKNOWN


def _words(name: str) -> tuple[str, ...]:
    words = tuple(_WORDS.findall(name.lower()))
    return words[1:] if words[:1] == ("meta",) else words


def _is_of(words: tuple[str, ...], family: tuple[str, ...]) -> bool:
    rest = words[len(family) :]
    return words[: len(family)] == family and all(map(_SAME.fullmatch, rest))


@cache
def _families() -> tuple[tuple[tuple[str, ...], LongContext], ...]:
    data = tomllib.loads(_FILE.read_text())
    return tuple(
        (_words(name), _read(benchmark, part["year"], entry))
        for benchmark, part in data.items()
        for entry in part["models"]
        for name in entry["names"]
    )


def _read(benchmark: str, year: int, entry: Mapping[str, Any]) -> LongContext:
    if "effective" in entry:
        tokens = entry["effective"]
        finding = (
            "is all that was measured"
            if tokens == _TESTED
            else "it is above 85.6 %, and below that in longer ones"
        )
        return LongContext(tokens * 1_000, benchmark, year, finding)
    tokens, share = max(_held(entry))
    last = max(map(int, entry["scores"]))
    finding = (
        f"is all that was measured, and there it finds {share:.0%} of what it finds in a short text"
        if tokens == last
        else "it finds at least half of what it finds in a short text, and beyond that less"
    )
    return LongContext(tokens * 1_000, benchmark, year, finding)


def _held(entry: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
    """Yield (thousands of tokens, share of the score for short texts) as long as the share is at
    least half."""
    for length, score in sorted((int(length), score) for length, score in entry["scores"].items()):
        if score < entry["base"] / 2:
            return
        yield length, score / entry["base"]
