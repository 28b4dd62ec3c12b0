"""The hooks of spending."""

from __future__ import annotations

from collections.abc import Sequence

from bot.kernel import Kernel
from plugins.api import Command, hookimpl
from plugins.spending import record
from plugins.spending.commands import usage
from plugins.spending.saving import MonthSpending


class SpendingFeature:
    """The accounts of the month, made from the kernel's parts."""

    def __init__(self, kernel: Kernel) -> None:
        self._month = MonthSpending(kernel)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._month,)

    @hookimpl
    def parley_spending(self) -> MonthSpending:
        return self._month


@hookimpl
def parley_open(kernel: Kernel) -> SpendingFeature:
    return SpendingFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [usage]


@hookimpl
def parley_ledger() -> object:
    return record
