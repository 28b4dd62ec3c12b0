"""An endpoint and one model behind it, as a value."""

from __future__ import annotations

from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

OPENAI_URL = "https://api.openai.com/v1"

Protocol = Literal["openai_compat", "openai_responses", "anthropic"]
COMPATIBLE: Protocol = "openai_compat"
RESPONSES: Protocol = "openai_responses"
ANTHROPIC: Protocol = "anthropic"
Quirks = tuple[tuple[str, Any], ...]
"""The configured quirks of an endpoint's provider, by the names of `providers.toml`."""
_SHORTEST_KEY = 8
INSTALL_ANTHROPIC = "python main.py add anthropic"
"""The command that installs the SDK of that protocol, which is an extra."""


def is_anthropic_installed() -> bool:
    """Return whether Anthropic's SDK is installed, without importing it."""
    return find_spec("anthropic") is not None


class Endpoint(Struct, frozen=True):
    """The endpoint of a model, and how it is reached.

    `timeout` is the maximum silence in seconds, before and during an answer. `window` is in tokens
    (0: unknown). `max_retries` applies to 429, 5xx and failed connections. `temperature` and
    `max_tokens` (0: no limit) are defaults for requests, and no reply is longer than `max_tokens`.
    `setting` is the name of the setting with the address, `key_name` of that with the key.
    `provider` is the model's server there, by its name in the settings ("": recognised by the
    address). `protocol` is the protocol, in words; `effort` the thinking effort ("": the model's
    default). `quirks` override the known facts of the provider (`find_provider`).
    """

    model: str
    base_url: str = OPENAI_URL
    api_key: str = ""
    window: int = 0
    timeout: float = 120.0
    max_retries: int = 2
    takes_tools: bool = True
    is_free: bool = False
    temperature: float | None = None
    max_tokens: int = 0
    setting: str = "OPENAI_BASE_URL"
    provider: str = ""
    key_name: str = "OPENAI_API_KEY"
    protocol: str = "an OpenAI-compatible API"
    effort: str = ""
    quirks: Quirks = ()

    def __repr__(self) -> str:
        """Return the fields without the key, which must not get into a log."""
        return f"Endpoint({self.model!r}, {self.shown_url!r})"

    @property
    def shown_url(self) -> str:
        """The address without its secret parts: user, password, query."""
        try:
            parts = urlsplit(self.base_url)
        except ValueError:
            return "the address given"
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def is_here(self) -> bool:
        """Return whether it is on this machine."""
        try:
            host = urlsplit(self.base_url).hostname or ""
            return host == "localhost" or ip_address(host).is_loopback
        except ValueError:
            return False

    def without_key(self, text: str) -> str:
        """Return the text with the key masked, for providers that repeat it in their errors."""
        is_secret = len(self.api_key) >= _SHORTEST_KEY  # a word such as "ollama" is not a secret
        return text.replace(self.api_key, "…") if is_secret else text
