"""Requests to a model that are not sent again by themselves, so that no test waits for that."""

from __future__ import annotations

import pytest
from openai._models import FinalRequestOptions


def forbid_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the SDK send each request once; how it repeats them is tested in tests/agent."""
    monkeypatch.setattr(FinalRequestOptions, "get_max_retries", lambda options, most: 0)
