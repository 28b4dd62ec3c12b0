"""The hooks of the versions of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bot.kernel import Kernel
from memory.keys import ConversationKey
from memory.record.database import Database
from memory.record.forget import FeatureRows
from plugins.api import Command, Offer, hookimpl
from plugins.file_versions.commands import files, make_offer
from plugins.file_versions.points import ChangeRow
from plugins.file_versions.versions import FileVersions


class VersionsFeature:
    """The versions, made from the kernel's parts."""

    def __init__(self, kernel: Kernel) -> None:
        self._versions = FileVersions(kernel)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._versions,)

    @hookimpl
    def parley_offers(self) -> Offer:
        return make_offer(self._versions)

    @hookimpl
    def parley_rows(self) -> FeatureRows:
        return VersionRows(self._versions)


class VersionRows:
    """The changes of files for the kernel (`memory.record.forget.FeatureRows`); they are in files,
    and no rows of the database."""

    noun = "file change"

    def __init__(self, versions: FileVersions) -> None:
        self._versions = versions

    def count(self, database: Database, key: ConversationKey, turns: Sequence[str] | None) -> int:
        goes, rows = _meant(key, turns), self._versions.archive(key.audience).rows()
        return sum(bool(row.path) and goes(row) for row in rows)

    def forget(self, database: Database, key: ConversationKey, turns: Sequence[str] | None) -> None:
        self._versions.forget(key.audience, _meant(key, turns))

    def prune(self, database: Database, before: float) -> None:
        for audience in self._versions.list_audiences():
            self._versions.forget(audience, lambda row: row.at < before, is_asked=False)


def _meant(key: ConversationKey, turns: Sequence[str] | None) -> Callable[[ChangeRow], bool]:
    if turns is None:
        return lambda row: row.conversation == key.id
    wanted = frozenset(turns)
    return lambda row: f"{row.conversation} t{row.turn}" in wanted


@hookimpl
def parley_open(kernel: Kernel) -> VersionsFeature:
    return VersionsFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [files]
