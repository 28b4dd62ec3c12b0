"""A folder from which a test reads the weights of models, instead of the bot's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memory import linear


@contextmanager
def weights_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Read the weights of models from a folder, which is empty at first."""
    monkeypatch.setattr(linear, "files", lambda package: folder)
    linear.read_weights.cache_clear()
    yield
    linear.read_weights.cache_clear()
