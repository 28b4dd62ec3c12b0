"""The model servers on this machine (Ollama, LM Studio, llama.cpp, vLLM), found at their usual
addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from agent.models.base import ModelError
from agent.models.endpoint import COMPATIBLE, Endpoint
from agent.models.providers import PROVIDERS
from agent.models.selection import USUAL, connect

PATIENCE = 4.0
"""Seconds in which a server on this machine must list its models."""
OWN = "parley"
"""The model that the page of a Parley lists; its usual port is that of llama.cpp, too."""


class LocalServer(Struct, frozen=True):
    """A server that answers on this machine, and its models."""

    provider: str
    base_url: str
    models: tuple[str, ...]

    @property
    def name(self) -> str:
        return PROVIDERS[self.provider].title


def usual_addresses() -> dict[str, str]:
    """Return the usual addresses of servers on this machine, by provider."""
    return {name: one.base_url for name, one in PROVIDERS.items() if one.is_free}


async def find_servers(addresses: Mapping[str, str]) -> list[LocalServer]:
    """Return the servers at these addresses that answer and have a model."""
    found = await asyncio.gather(*(_ask(*one) for one in addresses.items()))
    return [server for server in found if server is not None]


async def _ask(provider: str, base_url: str) -> LocalServer | None:
    endpoint = Endpoint(USUAL, base_url, "", timeout=PATIENCE, provider=provider)
    model = connect(endpoint, COMPATIBLE)
    try:
        async with asyncio.timeout(PATIENCE):
            names = tuple(one.name for one in await model.list_models() if one.name != OWN)
    except (ModelError, TimeoutError):
        return None
    finally:
        await model.close()
    return LocalServer(provider, base_url, names) if names else None
