"""Features: the folders of `plugins/` that have a module `feature`, and settings of their own."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
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


def list_sections() -> Iterator[type[SettingsSection]]:
    """Yield the sections of all features."""
    for name in list_features():
        if (FOLDER / name / "settings.py").exists():
            module = importlib.import_module(f"plugins.{name}.settings")
            for kind in vars(module).values():
                if isinstance(kind, type) and issubclass(kind, SettingsSection) and kind.SECTION:
                    yield kind
