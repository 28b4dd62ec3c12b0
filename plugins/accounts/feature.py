"""The hooks of accounts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bot.kernel import Kernel
from plugins.accounts.commands import PageAddress, invite, logins
from plugins.accounts.logins import PageLogins
from plugins.api import Command, hookimpl


class AccountsFeature:
    """The logins and keys, made from the kernel's parts."""

    def __init__(self, kernel: Kernel) -> None:
        self._logins = PageLogins(kernel.store, kernel.access)
        self._address = PageAddress(kernel.config.book, kernel.channels)
        kernel.changes.connect(self._logins.wake)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._logins, self._address)

    @hookimpl
    def parley_logins(self) -> PageLogins:
        return self._logins

    @hookimpl
    def parley_setting_changed(self) -> Callable[[], None]:
        return self._logins.wake  # another process may have shut somebody out, too


@hookimpl
def parley_open(kernel: Kernel) -> AccountsFeature:
    return AccountsFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [invite, logins]
