"""Features: the folders of `plugins/`. The kernel finds what they bring by the names of their
modules and imports none of them by name, so that a bot runs without any one of them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import ClassVar, TypeVar

from pydantic import BaseModel

FOLDER = Path(__file__).parent


class SettingsSection(BaseModel):
    """A section of the settings, which a feature has in its module `settings`. SECTION is its name
    in the configuration; its fields are written as those of the kernel are."""

    SECTION: ClassVar[str] = ""


Section = TypeVar("Section", bound=SettingsSection)


@cache
def list_features() -> tuple[str, ...]:
    """Return the names of the features, sorted."""
    return tuple(sorted(path.parent.name for path in FOLDER.glob("*/feature.py")))


def find_modules(name: str) -> Iterator[ModuleType]:
    """Import the module of this name of each feature that has one, in the order of the features'
    names."""
    for file in sorted(FOLDER.glob(f"*/{name}.py")):
        yield importlib.import_module(f"plugins.{file.parent.name}.{name}")


def list_sections() -> Iterator[type[SettingsSection]]:
    """Yield the sections of all features."""
    for module in find_modules("settings"):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, SettingsSection) and kind.SECTION:
                yield kind
