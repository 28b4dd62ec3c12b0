"""The service that watches the changes of tools in `files/`, and restores them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct

from agent.tools import ToolError
from agent.tools.allowance import MEGABYTE, find_why_full
from agent.tools.base import ToolContext
from agent.tools.toolbox import FileKeeper
from agent.tools.workspace import resolve
from bot.app import Kernel
from channels.language import explain
from memory.conversation import Conversation
from memory.keys import ConversationKey, home_of
from memory.record.store import StoreError
from plugins.api import Ask, refusal
from plugins.file_versions.archive import Running, TooManyFiles, VersionArchive
from plugins.file_versions.keeper import ChangeRow, FileStep, Line, find_end, find_leaving
from plugins.file_versions.settings import VersionSettings
from plugins.turn_names import numbers_in_context

log = logging.getLogger(__name__)

FOLDER = "versions"
"""The folder in the data folder, with a subfolder for each audience."""
ALL = 1 << 60  # more than any turn


class FilesPoint(Struct, frozen=True):
    """The point to which files may be restored: the end of a turn, or (None) the time when the chat
    last left its current branch; `since` is the last change before it."""

    turn: int | None
    since: int
    rows: Sequence[ChangeRow]
    steps: Sequence[FileStep]

    @property
    def free(self) -> list[FileStep]:
        """Return the files that are restored without another confirmation."""
        return [step for step in self.steps if not (step.needs_yes or step.is_lost)]

    @property
    def doubtful(self) -> list[FileStep]:
        return [step for step in self.steps if step.needs_yes and not step.is_lost]

    @property
    def lost(self) -> list[FileStep]:
        return [step for step in self.steps if step.is_lost]

    @property
    def is_incomplete(self) -> bool:
        """Return whether changes since then are no longer readable."""
        return any(row.kind == "lost" and row.seq > self.since for row in self.rows)


class FilesRestored(Struct, frozen=True):
    """The outcome of a restore: the restored files, and the failed ones with the reasons."""

    done: Sequence[FileStep]
    failed: dict[str, str]


class FileVersions(FileKeeper):
    """The versions of all audiences."""

    def __init__(self, kernel: Kernel) -> None:
        self._folder, self._config = kernel.data / FOLDER, kernel.config
        self._archives: dict[str, VersionArchive] = {}
        self._processes = kernel.processes

    def quota(self, key: ConversationKey) -> int:
        """Return the maximum number of bytes for versions there; 0: none are stored."""
        settings = self._config.book.effective(key.id).tools
        return settings.versions_quota * MEGABYTE if isinstance(settings, VersionSettings) else 0

    def archive(self, audience: str) -> VersionArchive:
        if audience not in self._archives:
            workspace = self._config.data / "audiences" / audience
            self._archives[audience] = VersionArchive(self._folder / audience, workspace)
        return self._archives[audience]

    @asynccontextmanager
    async def watch(self, context: ToolContext, path: str | None) -> AsyncIterator[None]:
        """Store the versions around a tool's run (`FileKeeper`)."""
        most, conversation = self.quota(context.key), context.conversation
        if not most or conversation is None:
            yield
            return
        state = conversation.context
        turn = state.current or state.newest + 1  # a person's command becomes the next turn
        archive = self.archive(context.key.audience)
        begun = await _attempt(partial(_begin, archive, context, turn, path, most))
        try:
            yield
        finally:
            if begun:
                await asyncio.shield(_attempt(partial(archive.finish, begun, most)))

    def forget(
        self, audience: str, goes: Callable[[ChangeRow], bool], *, is_asked: bool = True
    ) -> None:
        """Delete changes with their versions (`VersionArchive.forget`). Blocking; raises
        OSError."""
        self.archive(audience).forget(goes, is_asked=is_asked)

    def list_audiences(self) -> list[str]:
        """Return the audiences whose versions this process may delete: in a cluster, those that it
        has worked with."""
        if self._processes.owners is not None:
            return [*self._archives]
        return [path.name for path in self._folder.iterdir()] if self._folder.is_dir() else []

    async def come(self, key: ConversationKey, turn: int) -> None:
        """Log that a chat has switched to this conversation, if its tools have changed files."""
        archive = self.archive(key.audience)
        rows = await self.rows(key)
        if rows and rows[-1].conversation != key.id:
            await _attempt(partial(archive.mark, Running(key.id, turn)))

    async def rows(self, key: ConversationKey) -> list[ChangeRow]:
        """Return the changes in a chat, in all its branches."""
        found = await asyncio.to_thread(self.archive(key.audience).rows)
        return [r for r in found if r.kind == "lost" or home_of(r.conversation) == key.home]

    async def measure(self, key: ConversationKey) -> int:
        """Return the bytes that the versions there take."""
        return await asyncio.to_thread(self.archive(key.audience).measure)

    async def point(self, ask: Ask, key: ConversationKey, turn: int | None) -> FilesPoint:
        """Return the point at the end of a turn (None: when the chat had left), with the steps to
        restore it."""
        rows = await self.rows(key)
        if not rows:
            return FilesPoint(turn, 0, (), ())
        if turn is None:
            line = await find_line(ask, key, ALL)
            since = find_leaving(rows, key.id, line[1:])
        else:
            since = find_end(rows, await find_line(ask, key, turn))
        return await self._plan(ask, key, turn, rows, since)

    async def last_restore(self, ask: Ask, key: ConversationKey) -> FilesPoint | None:
        """Return the point that undoes the last restore of a conversation; None if there was
        none."""
        rows = await self.rows(key)
        mine = [row for row in rows if row.kind == "restore" and row.conversation == key.id]
        if not mine:
            return None
        batch = mine[-1].batch
        paths = [row.path for row in mine if row.batch == batch]
        return await self._plan(ask, key, None, rows, batch - 1, paths)

    async def _plan(
        self,
        ask: Ask,
        key: ConversationKey,
        turn: int | None,
        rows: Sequence[ChangeRow],
        since: int,
        paths: Sequence[str] | None = None,
    ) -> FilesPoint:
        archive = self.archive(key.audience)
        kept = await self._find_kept(ask, key, rows)
        steps = await asyncio.to_thread(archive.plan, rows, since, kept, paths)
        return FilesPoint(turn, since, rows, steps)

    async def _find_kept(
        self, ask: Ask, key: ConversationKey, rows: Sequence[ChangeRow]
    ) -> set[ChangeRow]:
        """Return the changes that were made in a turn that is in the context there."""
        if ask.conversation.key != key:  # a branch that was just created or switched to
            return set()
        last = dict(await find_line(ask, key, ALL))
        shown = frozenset(numbers_in_context(ask.conversation))
        return {r for r in rows if r.turn in shown and r.turn <= last.get(r.conversation, -1)}

    async def restore(self, ask: Ask, steps: Sequence[FileStep]) -> FilesRestored:
        """Restore files. Raises CommandError if there is no room for them."""
        key = ask.conversation.key
        archive, workspace = self.archive(key.audience), ask.bot.workspace(key)
        running = Running(
            key.id,
            newest_over(ask.conversation),
            "restore",
            tuple(step.path for step in steps),
        )
        more = await asyncio.to_thread(archive.estimate_growth, steps)
        quota = self._config.files_quota(key)
        if why := await asyncio.to_thread(find_why_full, workspace, quota, more):
            raise refusal("Nothing was restored, because {why}.", why=explain(why))
        failed = await asyncio.to_thread(archive.restore, steps, running, self.quota(key))
        return FilesRestored([step for step in steps if step.path not in failed], failed)


def newest_over(conversation: Conversation) -> int:
    """Return the number of the newest turn that is not running."""
    state = conversation.context
    return state.current - 1 if state.current else state.newest


async def find_line(ask: Ask, key: ConversationKey, turn: int) -> Line:
    """Return the conversation and its ancestors, with the last turn of each that belongs to the
    state at the end of this turn."""
    every = {one.number: one for one in await ask.bot.branches.all(key)}
    line, here = [(key.id, turn)], every.get(key.number)
    while here is not None and here.parent > 0:
        turn = min(turn, here.turn)
        line.append((key.branch(here.parent).id, turn))
        here = every.get(here.parent)
    return line


def _begin(
    archive: VersionArchive, context: ToolContext, turn: int, path: str | None, most: int
) -> str | None:
    paths = None
    if path is not None:
        try:
            target = resolve(context.workspace, path, must_write=True)
        except ToolError:
            return None  # the tool refuses it as well
        paths = (target.relative_to(context.workspace).as_posix(),)
    return archive.begin(Running(context.key.id, turn, "tool", paths), most)


async def _attempt(work: Callable[[], str | None]) -> str | None:
    """Run the work and return its result; an error is logged, since tools must run without it."""
    try:
        return await asyncio.to_thread(work)
    except TooManyFiles:
        log.warning("too many files for their versions to be kept when a command runs")
    except (OSError, StoreError):
        log.exception("the versions of files could not be kept")
    return None
