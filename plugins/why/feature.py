"""The hooks of `/why` and `/without`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bot.kernel import Kernel
from memory.turn_log import OpenTurn
from plugins.api import Command, hookimpl
from plugins.why.commands import why
from plugins.why.trial import Trials, without


class WhyFeature:
    """The service of the feature, made from the kernel's parts."""

    def __init__(self, kernel: Kernel) -> None:
        self._trials = Trials(kernel.conversations)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._trials,)

    @hookimpl
    def parley_notes(self) -> Callable[[OpenTurn], list[str]]:
        return self._trials.note


@hookimpl
def parley_open(kernel: Kernel) -> WhyFeature:
    return WhyFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [why, without]
