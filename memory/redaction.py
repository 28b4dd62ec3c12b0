"""Secrets are removed from texts before they are stored in files, logged or shown to a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Redactor:
    """Removes secrets from texts. This one knows no secret; `bot/logs.py` has those that do."""

    def hide(self, text: str) -> str:
        """Return the text without secrets."""
        return text

    def hide_all(self, data: Any) -> Any:
        """Return JSON data without secrets in its texts."""
        if isinstance(data, str):
            return self.hide(data)
        if isinstance(data, Mapping):
            return {name: self.hide_all(value) for name, value in data.items()}
        return [self.hide_all(value) for value in data] if isinstance(data, list | tuple) else data
