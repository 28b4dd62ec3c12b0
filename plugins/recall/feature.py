"""The hooks of the search by meaning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from bot.kernel import Kernel
from memory.record.feature_tables import Step
from memory.record.search.likeness import Likeness
from plugins.api import hookimpl
from plugins.hookspecs import Background
from plugins.recall.filling import FILL, Filling
from plugins.recall.record import TABLES
from plugins.recall.settings import SearchSettings
from plugins.recall.vectors import VectorLikeness


class RecallFeature:
    """The background work of the feature, made from the kernel's parts."""

    def __init__(self, kernel: Kernel) -> None:
        def is_on() -> bool:
            return kernel.config.book.effective().section(SearchSettings).semantic

        self._filling = Filling(kernel.store, kernel.processes, is_on)
        kernel.schedule.every_minute(self._filling.look)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._filling,)

    @hookimpl
    def parley_background(self) -> Background:
        return self._filling

    @hookimpl
    def parley_calls(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        return {FILL: self._filling.carry_out}


@hookimpl
def parley_open(kernel: Kernel) -> RecallFeature:
    return RecallFeature(kernel)


@hookimpl
def parley_likeness() -> type[Likeness]:
    return VectorLikeness


@hookimpl
def parley_tables() -> Sequence[Step]:
    return TABLES
