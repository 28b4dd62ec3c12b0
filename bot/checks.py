"""Checks: what a feature finds in an installation, for `python main.py doctor`.

A feature has its checks in a module `checks.py` of its folder, with a function
`async examine(settings, may_connect) -> Sequence[Finding]`, which returns nothing where the feature
is not used, and asks no server unless it may connect. With `find_risks(settings, has_users)` it may
have more for the audit.
"""

from __future__ import annotations

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


async def examine_features(settings: Settings, may_connect: bool = True) -> list[Finding]:
    """Return what all features have found. Nothing is changed."""
    if settings.broker and not any(find_modules("process")):
        return [Finding("broker", False, NO_CLUSTER)]
    modules = find_modules("checks")
    return [one for module in modules for one in await module.examine(settings, may_connect)]


def find_risks(settings: Settings, has_users: bool) -> list[Finding]:
    """Return the risks that features have found; `has_users` says that others than the owners are
    let in."""
    asked = [
        one for module in find_modules("checks") if (one := getattr(module, "find_risks", None))
    ]
    return [risk for ask in asked for risk in ask(settings, has_users)]
