"""What all tests of models need: SDKs that start nothing, and do not wait between attempts."""

from __future__ import annotations

import platform

import anthropic._base_client
import openai._base_client
import pytest

from agent.models import fallback

platform.platform()  # the SDKs ask for it at their first request; it runs `uname`, and is kept


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the SDKs, and who asks several models in turn, try again at once."""
    for sdk in (openai._base_client, anthropic._base_client):
        monkeypatch.setattr(sdk, "INITIAL_RETRY_DELAY", 0.001)
        monkeypatch.setattr(sdk, "MAX_RETRY_DELAY", 0.001)
    monkeypatch.setattr(fallback, "BREATH", 0.0)
