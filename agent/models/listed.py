"""The list of a server's models: their names, and the windows that it runs them with.

Ollama says by an API of its own with which window it runs a model: it cuts longer prompts in
silence, and no list of models knows what its owner has set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from agent.models.base import ModelError
from agent.models.brain import Provider, find_provider
from agent.models.catalogue import window_of
from agent.models.endpoint import Endpoint
from agent.models.shapes import as_mapping
from memory.patterns import lazy

if TYPE_CHECKING:
    from agent.models.sdk_client import SdkClient

LONGEST_NAME = 200
"""Characters of a model's name."""
MOST = 5_000
"""The maximum number of models in one list."""
PATIENCE = 2.0
"""Seconds for a request for a window."""
_MOST_TOKENS = 10**8
OLLAMA, OLLAMA_PORT = "ollama", 11434
_TAGGED = lazy(r"[\w.-]+(/[\w.-]+){0,3}:[\w.-]+")
_SET = lazy(r"^\s*num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)
_WINDOWS = ("context_length", "context_window", "max_model_len", "max_context_length")
_NO_CHAT = frozenset(
    {"embedding", "embeddings", "image", "audio", "moderation", "rerank", "transcribe", "video"}
)


class ListedModel(Struct, frozen=True):
    """A model in a list; `window` is in tokens, 0 if the list has none."""

    name: str
    window: int = 0


def read_list(listing: object, provider: Provider) -> list[ListedModel]:
    """Return the chat models in the response of `GET /models`; other entries are dropped."""
    found: dict[str, ListedModel] = {}
    for entry in _entries(listing, "data")[:MOST]:
        name = entry.get("id")
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not _chats(entry):
            continue
        name = name.removeprefix(provider.prefix)
        if name and provider.may_chat(name):
            tokens = (_tokens(entry.get(field)) for field in _WINDOWS)
            found[name] = ListedModel(name, next(filter(None, tokens), 0))
    return list(found.values())


def _chats(entry: Mapping[str, Any]) -> bool:
    able = entry.get("capabilities")
    is_able = not isinstance(able, dict) or able.get("completion_chat") is not False
    return is_able and str(entry.get("type", "")).lower() not in _NO_CHAT


def inquiries(endpoint: Endpoint) -> int:
    """Return how often a server is asked for its model's window until it answers. A local server is
    asked before the first turn, and before the second, when it has loaded the model; others once,
    or never if they don't provide it."""
    if asked := ollama_inquiries(endpoint):
        return asked
    provider = find_provider(endpoint.provider, endpoint.base_url, endpoint.quirks)
    return (2 if provider.is_free else 1) if provider.window else 0


async def ask_window(client: SdkClient, endpoint: Endpoint) -> int:
    """Return the context window in tokens that a server runs its model with; 0 if unknown. For
    models with a known window only local servers are asked. Raises ModelError."""
    provider = find_provider(endpoint.provider, endpoint.base_url, endpoint.quirks)
    if not provider.window:
        return await _window_of_ollama(client, endpoint)
    if not provider.is_free and window_of(endpoint.model, endpoint.provider or endpoint.base_url):
        return 0
    place, *path = provider.window
    if place != "/models":
        place = re.sub(r"/v\d+/?$", "", endpoint.base_url.rstrip("/")) + place
    return find_window(await client.fetch(place, None, PATIENCE), path, endpoint.model)


def find_window(answer: object, path: Sequence[str], model: str) -> int:
    """Return the number at the end of a path; in a list, the model's own entry is used."""
    for step in path[:-1]:
        if step == "data":
            own = (one for one in _entries(answer, step) if one.get("id") == model)
            answer = next(own, None)
        else:
            answer = answer.get(step) if isinstance(answer, dict) else None
    return _tokens(answer.get(path[-1])) if isinstance(answer, dict) else 0


def _entries(listing: object, place: str) -> list[Mapping[str, Any]]:
    """Return the entries of a list; Together sends it without a wrapper."""
    data = listing.get(place) if isinstance(listing, dict) else listing
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []


def _tokens(value: object) -> int:
    return value if type(value) is int and 0 < value <= _MOST_TOKENS else 0


def ollama_inquiries(endpoint: Endpoint) -> int:
    """Return how often the server is asked until it answers: before the first turn, and before the
    second, when it has loaded the model. 0 if it can't be Ollama."""
    if endpoint.provider:
        return 2 if endpoint.provider == OLLAMA else 0
    try:
        place = urlsplit(endpoint.base_url)
        is_its_port = place.port == OLLAMA_PORT
    except ValueError:
        return 0
    is_its_name = _TAGGED.fullmatch(endpoint.model) is not None
    known = find_provider("", endpoint.base_url, endpoint.quirks)
    is_elsewhere = known.window or known.host
    return 2 if not is_elsewhere and (is_its_port or is_its_name) else 0


async def _window_of_ollama(client: SdkClient, endpoint: Endpoint) -> int:
    """Return the context window in tokens that the server runs the model with now, or will; 0 if
    unknown. Raises ModelError."""
    root = endpoint.base_url.rstrip("/").removesuffix("/v1")
    running = window_of_loaded(await client.fetch(f"{root}/api/ps", None, PATIENCE), endpoint)
    if running:
        return running
    asked = {"model": endpoint.model}
    try:
        return window_set(await client.fetch(f"{root}/api/show", asked, PATIENCE))
    except ModelError:  # it has no such model, as the request itself will report
        return 0


def window_of_loaded(answer: object, endpoint: Endpoint) -> int:
    """Return the window that `/api/ps` reports for the model, once it is loaded."""
    models = as_mapping(answer).get("models")
    names = (endpoint.model, f"{endpoint.model}:latest")
    for one in map(as_mapping, models if isinstance(models, list) else []):
        if one.get("model") in names or one.get("name") in names:
            return _tokens(one.get("context_length"))
    return 0


def window_set(answer: object) -> int:
    """Return the window set by the model's owner, from `/api/show`. The model's maximum
    (`model_info`) is not the window that it is run with."""
    parameters = as_mapping(answer).get("parameters")
    found = _SET.search(parameters) if isinstance(parameters, str) else None
    return _tokens(int(found[1])) if found else 0
