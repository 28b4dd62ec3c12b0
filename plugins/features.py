"""Features: the folders of `plugins/`. The kernel finds their parts by module name and imports none
of them by name, so that a bot runs without any one of them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypeVar

from msgspec import Struct

from memory.setting_notes import StrictModel

FOLDER = Path(__file__).parent


class Fault(Struct, frozen=True):
    """A fault in a setting's value. `text` is the rest of a sentence about the place: (2,
    "condition", "threshold")."""

    place: tuple[str | int, ...]
    text: str

    def name(self, setting: str) -> str:
        """Return the place in a person's notation: "hooks[2].condition.threshold"."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.place)
        return setting + "".join(parts)


class SettingFaults(ValueError):
    """A setting's value is invalid; it has each fault with its place. SETTING is the name that is
    used if the caller does not say which setting was read."""

    SETTING: ClassVar[str] = ""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(" ".join(f"{one.name(self.SETTING)} {one.text}" for one in self.faults))


class SettingsSection(StrictModel):
    """A section of the settings, defined in a feature's module `settings`. SECTION is its name in
    the configuration: a new one, one of the kernel's, which gets the fields, or "" for settings at
    the top level. Fields are written like those of the kernel. Sections are listed by ORDER, then
    by name."""

    SECTION: ClassVar[str] = ""
    ORDER: ClassVar[int] = 50

    @classmethod
    def find_plain_secret(cls, name: str, written: Any) -> str:
        """Find a plain-text key in the value written for the setting `name` of this section. Return
        its place in the value ("files.env.TOKEN"), or ""."""
        return ""


Section = TypeVar("Section", bound=SettingsSection)


@cache
def list_features() -> tuple[str, ...]:
    """Return the names of the features, sorted."""
    return tuple(sorted(path.parent.name for path in FOLDER.glob("*/feature.py")))


def is_guard(name: str) -> bool:
    """Return whether a feature enforces a restriction that would be missing if it failed to start
    (`GUARDS` in its `__init__.py`). Without its folder, the restriction is not expected."""
    return bool(getattr(importlib.import_module(f"plugins.{name}"), "GUARDS", False))


def find_modules(name: str) -> Iterator[ModuleType]:
    """Import the module of this name of each feature that has one, in the order of the features'
    names."""
    for file in sorted(FOLDER.glob(f"*/{name}.py")):
        yield importlib.import_module(f"plugins.{file.parent.name}.{name}")


def list_sections() -> list[type[SettingsSection]]:
    """Return the sections of all features."""
    found = [
        kind
        for module in find_modules("settings")
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, SettingsSection)
        and kind.__module__ == module.__name__
    ]
    return sorted(found, key=lambda kind: (kind.ORDER, kind.SECTION))
