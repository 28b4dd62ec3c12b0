"""Subcommands that plugins add to the commands of others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import wraps

from msgspec.structs import replace

from plugins.api import Ask, Command, Reply, Sub, Verb

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def add_verbs(command: Command, verbs: Sequence[Verb]) -> Command:
    """Return the command with these subcommands, which are carried out before its own are looked
    at."""
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
    """Return why one of these verbs can't be added to the commands, "" where all can; `taken` are
    those of other plugins."""
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
