"""The boundary around what plugins hand over: a function that fails is logged, and the bot goes on;
and subcommands are added to the commands of others, unless they are in the way of one."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from channels.message import Reply
from memory.keys import ConversationKey
from plugins.api import Ask, Command, Sub, Verb

log = logging.getLogger(__name__)


class Guarded(Struct, frozen=True):
    """A function that a plugin has provided by a hook. If it fails, or its result does not fit,
    that is logged and the result is `instead`."""

    function: Callable[..., Any]
    plugin: str
    hook: str
    instead: Any = None
    fits: Callable[[Any], bool] | None = None

    def __call__(self, *handed: Any, **named: Any) -> Any:
        try:
            found = self.function(*handed, **named)
            if self.fits is None or found == self.instead or self.fits(found):
                return found
            log.error("%s of the plugin %s returned %.200r", self.hook, self.plugin, found)
        except Exception:
            log.exception("%s of the plugin %s failed", self.hook, self.plugin)
        return self.instead


class GuardedObject:
    """An object that a plugin has provided by a hook. The methods with a result in `instead` are
    guarded."""

    def __init__(self, made: Any, plugin: str, hook: str, instead: Mapping[str, Any]) -> None:
        self._made = made
        for name, result in instead.items():
            guarded = Guarded(getattr(made, name), plugin, f"{hook} ({name})", result)
            setattr(self, name, guarded)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


class GuardedWork(Struct, frozen=True):
    """Background work of a plugin (`plugins.hookspecs.Background`), or the function that closes it;
    a failed step is logged."""

    plugin: str
    hook: str
    idle_step: Callable[[], Awaitable[None]]
    stop_step: Callable[[], Awaitable[None]]

    async def idle(self) -> None:
        """Wait until no work is running."""
        await self._run(self.idle_step)

    async def stop(self) -> None:
        """Stop running work."""
        await self._run(self.stop_step)

    async def _run(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except Exception:
            log.exception("%s of the plugin %s failed", self.hook, self.plugin)


def is_notes(found: object) -> bool:
    """Return whether this is a list of texts, or of replies with buttons."""
    return isinstance(found, list | tuple) and all(isinstance(one, str | Reply) for one in found)


async def with_offers(reply: Reply, ask: Ask, key: ConversationKey, turn: int | None) -> Reply:
    """Return a reply after which a conversation ends with this turn (None: a chat has returned to
    it unchanged), extended by the features' offers. An offer that fails is skipped."""
    for offer in ask.bot.offers:
        try:
            found = await offer(ask, key, turn)
            reply = reply if found is None else _extend(reply, found)
        except Exception:
            log.exception("an offer failed")
    return reply


def _extend(reply: Reply, offered: Reply) -> Reply:
    return replace(
        reply,
        text=f"{reply.text}\n\n{offered.text}",
        data={**(reply.data or {}), **(offered.data or {})},
        actions=(*reply.actions, *offered.actions),
    )


_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def add_verbs(command: Command, verbs: Sequence[Verb]) -> Command:
    """Return the command with these subcommands, which take precedence over its own."""
    by_name = {verb.name: verb for verb in verbs}

    @wraps(command.run)
    async def run(ask: Ask) -> Reply:
        name, rest = (*ask.text.split(None, 1), "", "")[:2]
        verb = by_name.get(name.lower())
        return await (verb.run(replace(ask, text=rest)) if verb else command.run(ask))

    return replace(
        command,
        run=run,
        subs=_place(command.subs, verbs),
        slow=command.slow | {verb.name for verb in verbs if verb.is_slow},
        takes_files=command.takes_files | {verb.name for verb in verbs if verb.takes_files},
        bare=command.bare | {verb.name for verb in verbs if verb.is_bare},
    )


def _place(subs: Sequence[Sub], verbs: Sequence[Verb]) -> tuple[Sub, ...]:
    placed = [*subs]
    for verb in verbs:
        names = [sub.name for sub in placed]
        place = names.index(verb.after) + 1 if verb.after in names else len(placed)
        placed.insert(place, Sub(verb.name, verb.summary))
    return tuple(placed)


def find_misplaced(
    verbs: Sequence[Verb], commands: Mapping[str, Command], taken: Sequence[Verb]
) -> str:
    """Return the reason why one of these verbs can't be added to the commands, "" if all can;
    `taken` are those of other plugins."""
    known = {(one.command, one.name) for one in taken}
    known |= {(command.name, sub.name) for command in commands.values() for sub in command.subs}
    for verb in verbs:
        if verb.command not in commands:
            return f"there is no command {verb.command!r} to which {verb.name!r} could be added"
        if (verb.command, verb.name) in known:
            return f"there is already a subcommand '{verb.command} {verb.name}'"
        if not _NAME.fullmatch(verb.name):
            return f"{verb.name!r} can't name a subcommand; it must match {_NAME.pattern}"
        known.add((verb.command, verb.name))
    return ""
