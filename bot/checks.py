"""Checks: what a feature finds in an installation, for `python main.py doctor` and `audit`.

A feature has its checks in a module `checks.py` of its folder, with some of these functions:
`async examine(settings, may_connect) -> Sequence[Finding]`, which returns nothing where the feature
is not used, and asks no server unless it may connect; `list_risks(settings) -> Iterable[Risk]`, for
the tools that are on and reach further than the chat's own folder; `list_risks_with_users(settings)
-> Iterable[Risk]`, for what is a risk where others than the owners are let in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from bot.settings import Settings
from plugins.features import find_modules

NO_CLUSTER = (
    "The setting broker is for several processes, which are the feature in plugins/cluster, and "
    "that folder is not there; take broker out of the configuration."
)


class Finding(Struct, frozen=True):
    """The result of one check: its name and a sentence; `advice` says what to do if it is not
    well."""

    name: str
    is_ok: bool
    sentence: str
    advice: str = ""


Severity = Literal["high", "medium", "low", "note"]


class Risk(Struct, frozen=True):
    """A risk that was found, in a sentence, and its fix as a line to type. A `note` says who may
    do what: it is for a person to know, and nothing is wrong with it."""

    severity: Severity
    sentence: str
    fix: str = ""


def list_risks(settings: Settings) -> Iterator[Risk]:
    """Yield the risks of the tools of all features."""
    for module in find_modules("checks"):
        if hasattr(module, "list_risks"):
            yield from module.list_risks(settings)


def list_risks_with_users(settings: Settings) -> Iterator[Risk]:
    """Yield what is a risk because others than the owners are let in."""
    for module in find_modules("checks"):
        if hasattr(module, "list_risks_with_users"):
            yield from module.list_risks_with_users(settings)


async def examine_features(settings: Settings, may_connect: bool = True) -> list[Finding]:
    """Return what all features have found. Nothing is changed."""
    if settings.broker and not any(find_modules("process")):
        return [Finding("broker", False, NO_CLUSTER)]
    modules = [one for one in find_modules("checks") if hasattr(one, "examine")]
    return [one for module in modules for one in await module.examine(settings, may_connect)]
