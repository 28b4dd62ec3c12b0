"""Features: the folders of `plugins/`. The kernel finds what they bring by the names of their
modules and imports none of them by name, so that a bot runs without any one of them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import plugins


def find_modules(name: str) -> Iterator[ModuleType]:
    """Import the module of this name of each feature that has one, in the order of the features'
    names."""
    for place in plugins.__path__:
        for file in sorted(Path(place).glob(f"*/{name}.py")):
            yield importlib.import_module(f"{plugins.__name__}.{file.parent.name}.{name}")
