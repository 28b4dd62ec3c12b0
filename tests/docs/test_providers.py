"""The table of providers says of each what the bot does there, and where that is documented."""

from __future__ import annotations

import re

import orjson

from agent.models.providers import PROVIDERS, Provider
from tests.docs.pages import ROOT

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
    """Return what a row must name of what is different at a provider."""
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
