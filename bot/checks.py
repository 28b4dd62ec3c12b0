"""Checks: a feature's findings in an installation, for `python main.py doctor` and `audit`.

A feature's module `feature.py` or `process.py` may have these functions: `async examine(settings,
may_connect) -> Sequence[Finding]`, which returns nothing if the feature is unused, and contacts no
server unless it may connect; `list_risks(settings) -> Iterable[Finding]`, for enabled tools that
reach beyond the chat's own folder; and `list_risks_with_users(settings) -> Iterable[Finding]`, for
risks while others than the owners have access.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from bot.settings import Settings
from plugins.features import find_modules

NO_CLUSTER = (
    "The setting broker is for several processes, which are the feature in plugins/cluster, and "
    "that folder is not there; take broker out of the configuration."
)


Severity = Literal["ok", "broken", "high", "medium", "low", "note"]
"""`ok` and `broken` are for `doctor`, the others for `audit`; a `note` states who may do what, for
information."""


class Finding(Struct, frozen=True):
    """The result of one check: its name, severity, finding and advice. For `audit` the advice is a
    line to type."""

    name: str
    severity: Severity
    sentence: str
    advice: str = ""

    @property
    def is_ok(self) -> bool:
        return self.severity in ("ok", "note")


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 if nothing is to be done, otherwise 1."""
    return 0 if all(finding.is_ok for finding in findings) else 1


def add_verdict(lines: Sequence[str], findings: Iterable[Finding], well: str, to_do: str) -> str:
    """Return lines, followed by the number of findings that need action."""
    wrong = sum(not finding.is_ok for finding in findings)
    verdict = f"{to_do}: {wrong}." if wrong else well
    return "\n".join([*lines, *([""] if lines else []), verdict])


def list_risks(settings: Settings, *, with_users: bool = False) -> Iterator[Finding]:
    """Yield the risks of the tools of all features; with `with_users` the risks while others than
    the owners have access."""
    name = "list_risks_with_users" if with_users else "list_risks"
    for check in _find_checks(name):
        yield from check(settings)


async def examine_features(settings: Settings, may_connect: bool = True) -> list[Finding]:
    """Return the findings of all features. Nothing is changed."""
    if settings.broker and not any(find_modules("process")):
        return [Finding("broker", "broken", NO_CLUSTER)]
    checks = _find_checks("examine")
    return [one for check in checks for one in await check(settings, may_connect)]


def _find_checks(name: str) -> list[Any]:
    modules = (*find_modules("feature"), *find_modules("process"))
    return [getattr(module, name) for module in modules if hasattr(module, name)]
