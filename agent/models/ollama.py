"""Ollama says by an API of its own with which window it runs a model: it cuts longer prompts in
silence, and no list of models knows what its owner has set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent.models.base import ModelError
from agent.models.endpoint import Endpoint
from agent.models.providers import find_provider
from memory.patterns import lazy

if TYPE_CHECKING:
    from agent.models.sdk_client import SdkClient

PROVIDER = "ollama"
PORT = 11434
PATIENCE = 2.0
"""Seconds for each question."""
_TAGGED = lazy(r"[\w.-]+(/[\w.-]+){0,3}:[\w.-]+")
_SET = lazy(r"^\s*num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)
_MOST = 10**8


def inquiries(endpoint: Endpoint) -> int:
    """Return how often the server is asked, if it does not say: before the first turn, and before
    the second, when it has loaded the model. Never where it can't be Ollama."""
    if endpoint.provider:
        return 2 if endpoint.provider == PROVIDER else 0
    try:
        place = urlsplit(endpoint.base_url)
        is_its_port = place.port == PORT
    except ValueError:
        return 0
    is_its_name = _TAGGED.fullmatch(endpoint.model) is not None
    known = find_provider("", endpoint.base_url, endpoint.quirks)
    is_elsewhere = known.window or known.host
    return 2 if not is_elsewhere and (is_its_port or is_its_name) else 0


async def window(client: SdkClient, endpoint: Endpoint) -> int:
    """Return the tokens of context with which the server runs the model now, or will; 0 where it
    does not say. Raises ModelError."""
    root = endpoint.base_url.rstrip("/").removesuffix("/v1")
    running = window_of_loaded(await client.fetch(f"{root}/api/ps", None, PATIENCE), endpoint)
    if running:
        return running
    asked = {"model": endpoint.model}
    try:
        return window_set(await client.fetch(f"{root}/api/show", asked, PATIENCE))
    except ModelError:  # it has no such model: the request itself will say so
        return 0


def window_of_loaded(answer: object, endpoint: Endpoint) -> int:
    """Return the window that `/api/ps` reports of the model, once it is loaded."""
    models = _as_mapping(answer).get("models")
    names = (endpoint.model, f"{endpoint.model}:latest")
    for one in map(_as_mapping, models if isinstance(models, list) else []):
        if one.get("model") in names or one.get("name") in names:
            return _tokens(one.get("context_length"))
    return 0


def window_set(answer: object) -> int:
    """Return the window that the model's owner has set, by `/api/show`. The most that the model
    could take (`model_info`) is not what it is run with."""
    parameters = _as_mapping(answer).get("parameters")
    found = _SET.search(parameters) if isinstance(parameters, str) else None
    return _tokens(int(found[1])) if found else 0


def _tokens(value: object) -> int:
    return value if type(value) is int and 0 < value <= _MOST else 0


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
