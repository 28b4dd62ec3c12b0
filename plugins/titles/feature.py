"""The hooks of titles."""

from __future__ import annotations

from collections.abc import Sequence

from bot.kernel import Kernel
from memory.events import Listener
from memory.record.feature_tables import Step
from memory.record.forget import FeatureRows
from plugins.api import hookimpl
from plugins.hookspecs import Background
from plugins.titles.naming import Titles
from plugins.titles.record import TABLES, TitleRows


class TitlesFeature:
    """The titles, made from the kernel's parts."""

    def __init__(self, kernel: Kernel) -> None:
        self._titles = Titles(kernel)

    @hookimpl
    def parley_listeners(self) -> list[Listener]:
        return [Listener("titles", self._titles.hear, minds=lambda name: name == "turn_end")]

    @hookimpl
    def parley_background(self) -> Background:
        return self._titles

    @hookimpl
    def parley_rows(self) -> FeatureRows:
        return TitleRows()


@hookimpl
def parley_open(kernel: Kernel) -> TitlesFeature:
    return TitlesFeature(kernel)


@hookimpl
def parley_tables() -> Sequence[Step]:
    return TABLES
