"""Tests of the pages about providers and agents: the table is complete, and the examples are
valid."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import orjson

from agent.models.brain import PROVIDERS, Provider, find_provider
from agent.models.endpoint import INSTALL_ANTHROPIC
from agent.models.selection import Models, place_of, protocol_of
from bot.choices import choice_of, summary_choice_of
from bot.settings import Layers, SettingsStore, load_layers
from bot.settings.files import RUNTIME_CONTEXT
from bot.stages import credentials
from plugins.spending.settings import SpendingSettings
from tests.docs.pages import ROOT, example

TABLE = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in (ROOT / "docs" / "models.md")
    .read_text("utf-8")
    .partition("### Provider details")[2]
    .partition("\n## ")[0]
    .splitlines()
    if line.startswith("| `")
]
_IN_CODE = re.compile(r"`([^`]+)`")


def quirks_of(known: Provider) -> set[str]:
    """Return the peculiarities of a provider that its row must name."""
    named = {known.thoughts, known.max_tokens, *known.without}
    named |= orjson.loads(known.extra).keys() if known.extra else set()
    if known.cache_key:
        named.add("prompt_cache_key" if known.cache_key == "body" else known.cache_key)
    if known.empty_content:
        named.add("content")
    if known.window:
        place, *path = known.window
        named.add(path[-1] if place == "/models" else place)
    return named - {""}


def test_the_table_has_each_provider_and_nobody_else() -> None:
    assert [row[0] for row in TABLE] == [f"`{name}`" for name in PROVIDERS]


def test_a_row_has_the_address_the_key_and_what_is_different() -> None:
    for name, address, key, different, documented in TABLE:
        known = PROVIDERS[name.strip("`")]
        assert address.startswith(f"`{known.base_url}`"), name
        assert {known.key_name, *known.variables} - {""} <= {*_IN_CODE.findall(key)}, name
        assert (key == "none") == (not known.key_name), name
        assert quirks_of(known) <= {*_IN_CODE.findall(different)}, name
        assert not known.call_ids or str(known.call_ids) in different, name
        assert "](https://" in documented, name


KEYS = {f"{name}_API_KEY": name.lower() for name in ("DEEPSEEK", "ANTHROPIC", "GROQ")}


def layers_of(folder: Path, page: str, language: str, keys: Mapping[str, str] = KEYS) -> Layers:
    """Load an example on a page as the configuration."""
    config = folder / f"config.{'json' if language.startswith('json') else 'yaml'}"
    config.write_text(example(page, language))
    return load_layers(config, keys)


def test_the_agents_on_the_page_have_their_brains_and_their_contexts(tmp_path: Path) -> None:
    layers = layers_of(tmp_path, "agents.md", "yaml")
    book = SettingsStore(layers)
    explorer, writer = book.with_agent("explorer"), book.with_agent("writer")
    assert (explorer.model, explorer.context.max_tokens) == ("deepseek-chat", 65536)
    assert (writer.context.strategy, writer.context.keep_recent) == ("summarize", 8)
    assert writer.system_prompt.startswith("You are an editor.")
    assert place_of(choice_of(writer).brain, credentials(layers)).api_key == "anthropic"
    summaries = summary_choice_of(writer)
    assert summaries.model == "llama-3.1-8b-instant"
    assert place_of(summaries.brain, credentials(layers)).api_key == "groq"


def test_the_block_on_the_page_has_all_fields_that_there_are(tmp_path: Path) -> None:
    context = SettingsStore(layers_of(tmp_path, "agents.md", "yml")).effective().context
    assert context.summary_brain.model == "deepseek-chat"
    assert all(f" {field}:" in example("agents.md", "yml") for field in RUNTIME_CONTEXT)


def test_the_brains_on_the_page_about_models_are_asked_as_it_says(tmp_path: Path) -> None:
    choice = choice_of(SettingsStore(layers_of(tmp_path, "models.md", "json")).effective())
    assert (choice.model, choice.brain.effort) == ("claude-sonnet-4-5", "medium")
    assert protocol_of(choice.brain) == "anthropic"
    assert example("models.md", "sh").strip() == INSTALL_ANTHROPIC
    layers = layers_of(tmp_path, "models.md", "json responses")
    choice = choice_of(SettingsStore(layers).effective())
    assert (protocol_of(choice.brain), choice.brain.effort) == ("openai_responses", "low")
    settings = SettingsStore(layers_of(tmp_path, "fallbacks.md", "json saving")).effective()
    limits = settings.section(SpendingSettings)
    assert (limits.spend_soft_model, limits.spend_soft_limit) == ("gpt-5-nano", 80)
    keys = {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com", "AZURE_OPENAI_API_KEY": "k"}
    for name, model, url in (
        ("azure", "my-deployment", "https://me.openai.azure.com/openai/v1"),
        ("vllm", "Qwen/Qwen3-32B", "http://gpu-box:8000/v1"),
    ):
        layers = layers_of(tmp_path, "models.md", f"json model-{name}", keys)
        choice = choice_of(SettingsStore(layers).effective())
        place = place_of(choice.brain, credentials(layers))
        assert (choice.model, place.base_url, place.missing) == (model, url, "")


def test_the_quirks_on_the_page_are_those_of_the_endpoint(tmp_path: Path) -> None:
    layers = layers_of(tmp_path, "models.md", "json quirks", {})
    choice = choice_of(SettingsStore(layers).effective())
    place, given = place_of(choice.brain, credentials(layers)), choice.brain.quirks.given
    assert (place.base_url, place.is_free) == ("http://gpu-box:9000/v1", True)
    provider = find_provider(choice.brain.provider, place.base_url, given)
    assert (provider.call_ids, provider.without, provider.sees) == (9, ("stream_options",), False)
    assert provider.largest_body == 4_000_000


def test_the_chain_on_the_page_ends_with_the_model_of_its_agent(tmp_path: Path) -> None:
    layers = layers_of(tmp_path, "fallbacks.md", "json chain", {})
    book, models = SettingsStore(layers), Models(credentials(layers))
    models.agent = lambda name: choice_of(book.with_agent(name)) if name in book.agents else None
    chain = models.chain(choice_of(book.effective()))
    assert [(one.model, one.brain.provider) for one in chain] == [
        *(("gpt-5-mini", ""), ("gpt-4.1-mini", ""), ("mistral-small-latest", "mistral"))
    ]


def test_the_page_about_agents_names_all_providers() -> None:
    agents = (ROOT / "docs" / "agents.md").read_text("utf-8")
    assert ", ".join(f"`{name}`" for name in PROVIDERS) in agents
