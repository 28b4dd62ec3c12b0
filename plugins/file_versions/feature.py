"""The hooks of the file versions, and `/files`.

`/files` shows the changes of tools and restores files; other commands offer the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from agent.tools.allowance import MEGABYTE
from bot.app import Kernel
from channels.language import _, explain, number_of
from memory.keys import ConversationKey
from memory.record.database import Database
from memory.record.forget import FeatureRows
from plugins.api import Action, Ask, Command, Offer, Reply, command, hookimpl, refusal
from plugins.file_versions.keeper import ChangeRow, FileStep
from plugins.file_versions.versions import (
    ALL,
    FilesPoint,
    FilesRestored,
    FileVersions,
    find_line,
)
from plugins.turn_names import numbers_in_context, turns_of
from plugins.wording import cell, clip, format_list, sentences, table

YES = "all"
BRANCH = "branch"
_MOST_NAMES = 5
_MOST_TURNS = 10
SUBS = (
    ("restore", "set files back to the end of a turn (restore t4; also restore t4 all)"),
    ("undo", "take back the last restore"),
)


@command(
    "files", "Show which files tools have changed, and restore them", "[restore t4|undo]", SUBS
)
async def files(ask: Ask) -> Reply:
    """Run `/files`, `/files restore t4`, `/files restore t4 all`, `/files restore branch` or
    `/files undo`."""
    name, *rest = (word.lower() for word in ask.words or [""])
    versions, key = ask.service(FileVersions), ask.conversation.key
    if not versions.quota(key):
        return Reply(_("No versions are kept: the setting tools.versions_quota is 0."), {})
    is_sure = rest[-1:] == [YES]
    rest = rest[:-1] if is_sure else rest
    if name == "restore" and len(rest) < 2:
        point = await versions.point(ask, key, _find_turn(ask, *rest))
    elif name == "undo" and (not rest or (len(rest) == 1 and rest[0].isdecimal())):
        found = await versions.last_restore(ask, key)
        if found is None:
            raise refusal("There is nothing to undo: no file was restored here.")
        if rest and rest[0] != str(found.since):
            raise refusal(
                "Files were restored again since, so nothing was changed; /files lists them."
            )
        point = found
    elif not name:
        return await _list(ask, versions)
    else:
        raise refusal(
            "/files takes nothing, restore t4 (the files as they were at the end of t4), or "
            "undo; “{words}” changed nothing.",
            words=clip(ask.text),
        )
    return await _restore(ask, versions, point, is_sure=is_sure)


def _find_turn(ask: Ask, word: str = "") -> int | None:
    """Return the turn that a word names; without one the last in context, None for the state in
    which the branch was left. Raises CommandError."""
    if word == BRANCH:
        return None
    if word == "t0":
        return 0
    newest = ask.conversation.context.newest
    found = turns_of(word, newest) if word else numbers_in_context(ask.conversation)[-1:]
    if len(found) != 1:  # nothing is in context: that must not delete all files
        raise refusal("/files restore takes one turn, like /files restore t4.")
    return found[0]


async def _list(ask: Ask, versions: FileVersions) -> Reply:
    key = ask.conversation.key
    every = await versions.rows(key)
    last = dict(await find_line(ask, key, ALL))  # with the turns shared with other branches
    rows = [row for row in every if row.path and row.is_within(last.get(row.conversation, -1))]
    damage = [_report_damage()] * any(row.kind == "lost" for row in every)
    if not rows:
        sentence = _(
            "No tool has changed a file in this conversation. /files lists such changes and "
            "undoes them."
        )
        return Reply(damage[0] if damage else sentence, {"changes": []})
    used = await versions.measure(key)
    by_turn: dict[tuple[int, bool], list[ChangeRow]] = {}
    for row in rows:
        by_turn.setdefault((row.turn, row.kind == "restore"), []).append(row)
    shown = [*by_turn.items()][-_MOST_TURNS:]
    lines = [
        (
            _("restored after t{turn}", turn=turn) if is_restore else f"t{turn}",
            cell(_name([*dict.fromkeys(row.path for row in changes)])),
        )
        for (turn, is_restore), changes in shown
    ]
    text = _(
        "{table}\n\nTheir versions take {used} of {most} MB. /files restore t4 sets the files back "
        "to how they were at the end of t4, /files undo takes that back.",
        table=table(("turn", "files"), lines),
        used=f"{max(used / MEGABYTE, 0.1):.1f}",
        most=versions.quota(key) // MEGABYTE,
    )
    data = [{"turn": f"t{row.turn}", "kind": row.kind, "path": row.path} for row in rows]
    return Reply("\n\n".join((text, *damage)), {"changes": data})


def _report_damage() -> str:
    return _(
        "The list of file changes was damaged, so some are not known any more; the damaged file is "
        "kept as `log.jsonl.damaged`."
    )


def _name(paths: Sequence[str]) -> str:
    """Return the names of files for people."""
    shown = [f"`{clip(path.removeprefix('files/')).replace('`', '')}`" for path in paths]
    more = len(shown) - _MOST_NAMES
    if more > 0:
        shown = [
            *shown[:_MOST_NAMES],
            number_of(more, "{n} more", "{n} more"),
        ]
    return format_list(shown)


async def offer(
    versions: FileVersions, ask: Ask, key: ConversationKey, turn: int | None
) -> Reply | None:
    """Offer to restore the files to the current end of a conversation; None if none differs."""
    if not versions.quota(key):
        return None
    if key != ask.conversation.key:
        await versions.come(key, turn if turn is not None else await _find_newest(ask, key))
    point = await versions.point(ask, key, turn)
    if not point.steps:
        return None
    command = f"/files restore {BRANCH if turn is None else f't{turn}'}"
    when = (
        _("when you left this branch")
        if turn is None
        else _("before the first turn")
        if turn == 0
        else _("at the end of t{turn}", turn=turn)
    )
    parts = [
        _(
            "The files are not as they were {when}: {names}. {command} restores them.",
            when=when,
            names=_name([step.path for step in point.steps]),
            command=command,
        ),
        *_warn(point, command),
    ]
    actions = _actions(point, command)
    return Reply(sentences(*parts), {"files": _as_data(point.steps)}, actions)


async def _find_newest(ask: Ask, key: ConversationKey) -> int:
    every = await ask.bot.branches.all(key)
    return next((one.turns for one in every if one.number == key.number), 0)


def _actions(point: FilesPoint, command: str) -> tuple[Action, ...]:
    if point.free:
        return (Action(_("Restore files"), command),)
    if point.doubtful:
        return (Action(_("Restore all the same"), f"{command} {YES}"),)
    return ()


def _warn(point: FilesPoint, command: str) -> list[str]:
    """Return sentences about the files that need another confirmation, and those that can't be
    restored."""
    foreign = [step.path for step in point.doubtful if step.is_foreign]
    kept = [step.path for step in point.doubtful if not step.is_foreign]
    sentences = {
        _(
            "Somebody else has changed {names} since. To restore that, too, send `{command} all`.",
            names=_name(foreign),
            command=command,
        ): foreign,
        _(
            "Turns that are still in the context have changed {names} since. To restore that, "
            "too, send `{command} all`.",
            names=_name(kept),
            command=command,
        ): kept,
        _(
            "{names} can't be restored: the version is not kept any more (tools.versions_quota).",
            names=_name([step.path for step in point.lost]),
        ): point.lost,
        _report_damage(): point.is_incomplete,
    }
    return [sentence for sentence, is_due in sentences.items() if is_due]


async def _restore(ask: Ask, versions: FileVersions, point: FilesPoint, *, is_sure: bool) -> Reply:
    """Restore the allowed files, and name the others."""
    command = f"/files {' '.join(word.lower() for word in ask.words if word.lower() != YES)}"
    steps = [*point.free, *(point.doubtful if is_sure else ())]
    rest = [step for step in point.steps if step not in steps]
    left = FilesPoint(point.turn, point.since, point.rows, rest)
    if not point.steps:
        nothing = _("Nothing to restore: the files are as they were then.")
        return Reply(_report_damage() if point.is_incomplete else nothing, {"restored": []})
    done = await versions.restore(ask, steps) if steps else FilesRestored((), {})
    put = [step.path for step in done.done if step.wanted]
    deleted = [step.path for step in done.done if not step.wanted]
    parts = [
        *[_("Restored: {names}.", names=_name(put))] * bool(put),
        *[_("Deleted: {names}.", names=_name(deleted))] * bool(deleted),
        *(
            _("{path} was not restored: {why}.", path=_name([path]), why=explain(why))
            for path, why in done.failed.items()
        ),
        *_warn(left, command),
    ]
    if not steps:
        parts.insert(0, _("Nothing was restored."))
    made = await versions.last_restore(ask, ask.conversation.key) if done.done else None
    undo = (Action(_("Undo"), f"/files undo {made.since}"),) if made else ()
    data = {
        "restored": [step.path for step in done.done],
        "failed": done.failed,
        "left": _as_data(left.steps),
    }
    return Reply(sentences(*parts), data, (*_actions(left, command), *undo))


def _as_data(steps: Sequence[FileStep]) -> list[dict[str, Any]]:
    return [
        {
            "path": step.path,
            "is_deleted": not step.wanted,
            "needs_yes": step.needs_yes,
            "is_lost": step.is_lost,
        }
        for step in steps
    ]


class VersionsFeature:
    """The feature's service, created from the kernel's."""

    def __init__(self, kernel: Kernel) -> None:
        self._versions = FileVersions(kernel)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._versions,)

    @hookimpl
    def parley_offers(self) -> Offer:
        return partial(offer, self._versions)

    @hookimpl
    def parley_rows(self) -> FeatureRows:
        return VersionRows(self._versions)


class VersionRows:
    """The changes of files for the kernel (`memory.record.forget.FeatureRows`); they are stored in
    files, not in the database."""

    noun = "file change"

    def __init__(self, versions: FileVersions) -> None:
        self._versions = versions

    def count(self, database: Database, key: ConversationKey, turns: Sequence[str] | None) -> int:
        goes, rows = _selected(key, turns), self._versions.archive(key.audience).rows()
        return sum(bool(row.path) and goes(row) for row in rows)

    def forget(self, database: Database, key: ConversationKey, turns: Sequence[str] | None) -> None:
        self._versions.forget(key.audience, _selected(key, turns))

    def prune(self, database: Database, before: float) -> None:
        for audience in self._versions.list_audiences():
            self._versions.forget(audience, lambda row: row.at < before, is_asked=False)


def _selected(key: ConversationKey, turns: Sequence[str] | None) -> Callable[[ChangeRow], bool]:
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
