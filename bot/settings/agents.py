"""Blocks of the configuration that name settings differently: `runtime.context`, and `agents`.

Both come from Digitorn. An agent is a layer of settings for the conversations that choose it;
settings that it omits fall back to the general ones.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from agent.models.learnt import ProviderQuirks
from bot.settings.schema import AGENT_ID, BRAIN, NO_AGENT, SETTINGS, SettingError, quote

AGENTS = "agents"
RUNTIME_CONTEXT = (
    "max_tokens",
    "output_reserved",
    "strategy",
    "keep_recent",
    "compression_trigger",
    "summary_max_tokens",
    "auto_compact",
    "summary_brain",
)
"""All fields of `runtime.context`."""
RUNTIME_STRATEGIES = ("truncate", "summarize")
"""The strategies that it accepts."""
_OF_ITS_STRATEGIES = ("keep_recent", "compression_trigger", "auto_compact")

IN_RUNTIME: Mapping[str, str] = {
    f"runtime.{key}": key
    for key in SETTINGS
    if key.startswith("context.") and key.split(".")[1] in RUNTIME_CONTEXT
}
"""Settings by their names under `runtime`."""
IN_AGENT: Mapping[str, str] = {
    "system_prompt": "system_prompt",
    "brain.model": "model",
    "brain.fallback_models": "fallback_models",
    **{key: key for key in sorted(BRAIN)},
    **{f"brain.{key}": key for key in SETTINGS if key.startswith("context.")},
}
"""Settings by their names in an agent's block."""


class AgentBlock(Struct, frozen=True):
    """An agent as written in the file; `settings` is everything except its id and description."""

    id: str
    description: str
    settings: Mapping[Any, Any]


def blocks(written: Any, file: str) -> tuple[list[AgentBlock], list[str]]:
    """Return the agents in a list, and a sentence for each invalid entry."""
    if not isinstance(written, list):
        return [], [f"agents in {file} is {quote(written)}; it must be a list of agents."]
    found: dict[str, AgentBlock] = {}
    faults: list[str] = []
    for number, entry in enumerate(written):
        try:
            block = _block(entry, f"agents[{number}] in {file}")
            _refuse_taken(block.id, found, file)
            found[block.id] = block
        except SettingError as error:
            faults.append(str(error))
    return list(found.values()), faults


def _refuse_taken(name: str, found: Collection[str], file: str) -> None:
    if name == NO_AGENT:
        raise SettingError(
            f"agents in {file} has an agent {name!r}, which means none of them; rename it."
        )
    if name in found:
        raise SettingError(f"agents in {file} has two agents {name!r}; rename one of them.")


def _block(entry: Any, place: str) -> AgentBlock:
    if not isinstance(entry, dict):
        raise SettingError(f"{place} is {quote(entry)}; it needs an id and a brain.")
    name, description = entry.get("id"), entry.get("description", "")
    if not (isinstance(name, str) and re.fullmatch(AGENT_ID, name)):
        raise SettingError(
            f"{place} has the id {quote(name)}; an id has up to 64 letters, digits, - or _."
        )
    if not (isinstance(description, str) and len(description) <= 1_000):
        raise SettingError(
            f"{place} has the description {quote(description)}; it must be text of at most 1000 "
            "characters."
        )
    settings = {key: entry[key] for key in entry if key not in ("id", "description")}
    return AgentBlock(name, description, settings)


# --- brains ---

_ENDPOINT = ("provider", "backend", "config.api_key", "config.base_url")
_BRAINS = ("brain", "context.summary_brain")
_QUIRKS = tuple(f"quirks.{name}" for name in ProviderQuirks.model_fields)


def with_strategy(written: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the settings of the file; `names` are their names there. If it has fields of
    `runtime.context` that other strategies ignore, the strategy is `summarize`, as in Digitorn's
    own example."""
    is_selected = any(f"runtime.context.{name}" in names for name in _OF_ITS_STRATEGIES)
    return {**({"context.strategy": RUNTIME_STRATEGIES[1]} if is_selected else {}), **written}


def with_whole_endpoints(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of one source, with the endpoint of each of its brains complete: a key
    from another source must not be sent to this source's address."""
    whole = dict(written)
    for brain in _BRAINS:
        if any(f"{brain}.{name}" in written for name in _ENDPOINT):
            defaults: dict[str, Any] = {f"{brain}.{name}": "" for name in _ENDPOINT}
            defaults |= {f"{brain}.{name}": None for name in _QUIRKS}
            whole = {**defaults, f"{brain}.backend": "auto", **whole}
    if any(f"brain.{name}" in written for name in _ENDPOINT):
        whole.setdefault("fallback_models", [])  # they use another endpoint
    return whole
