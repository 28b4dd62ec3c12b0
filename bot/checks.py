"""Checks: what a feature finds in an installation, for `python main.py doctor` and `audit`.

A feature has its checks in a module `checks.py` of its folder, with some of these functions:
`async examine(settings, may_connect) -> Sequence[Finding]`, which returns nothing where the feature
is not used, and asks no server unless it may connect; `list_risks(settings) -> Iterable[Finding]`,
for the tools that are on and reach further than the chat's own folder; and
`list_risks_with_users(settings) -> Iterable[Finding]`, for what is a risk where others than the
owners are let in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from bot.settings import Settings
from plugins.features import find_modules

NO_CLUSTER = (
    "The setting broker is for several processes, which are the feature in plugins/cluster, and "
    "that folder is not there; take broker out of the configuration."
)


Severity = Literal["ok", "broken", "high", "medium", "low", "note"]
"""`ok` and `broken` are for `doctor`, the others for `audit`; a `note` says who may do what, which
is for a person to know."""


class Finding(Struct, frozen=True):
    """The result of one check: its name, how grave it is, what was found in a sentence, and what to
    do about it, for `audit` as a line to type."""

    name: str
    severity: Severity
    sentence: str
    advice: str = ""

    @property
    def is_ok(self) -> bool:
        return self.severity in ("ok", "note")


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 if nothing is to be done."""
    return 0 if all(finding.is_ok for finding in findings) else 1


def say_verdict(lines: Sequence[str], findings: Iterable[Finding], well: str, to_do: str) -> str:
    """Return lines, and below them how many findings need somebody's hand."""
    wrong = sum(not finding.is_ok for finding in findings)
    verdict = f"{to_do}: {wrong}." if wrong else well
    return "\n".join([*lines, *([""] if lines else []), verdict])


def list_risks(settings: Settings, *, with_users: bool = False) -> Iterator[Finding]:
    """Yield the risks of the tools of all features; or those `with_users`, for which others than
    the owners are let in."""
    name = "list_risks_with_users" if with_users else "list_risks"
    for module in find_modules("checks"):
        if hasattr(module, name):
            yield from getattr(module, name)(settings)


async def examine_features(settings: Settings, may_connect: bool = True) -> list[Finding]:
    """Return what all features have found. Nothing is changed."""
    if settings.broker and not any(find_modules("process")):
        return [Finding("broker", "broken", NO_CLUSTER)]
    modules = [one for one in find_modules("checks") if hasattr(one, "examine")]
    return [one for module in modules for one in await module.examine(settings, may_connect)]
