"""The messages to Discord, as it wants them: pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2s
from typing import Any

import discord

from channels.base import CommandEntry
from channels.discord.incoming import ARGUMENTS
from channels.kit.platform import Button, Location
from channels.language import ENGLISH, _, speaking

ARGUMENTS_HINT = "Arguments of the command"
_LOCALES = {"de": "de", "zh": "zh-CN"}
_COMMAND = re.compile(r"[-_a-z0-9]{1,32}")
_MOST_COMMANDS, _LONGEST_DESCRIPTION, _LONGEST_LABEL = 100, 100, 80


def commands_as_offered(commands: Mapping[str, Sequence[CommandEntry]]) -> list[Any]:
    """Return the slash commands, described in each language."""
    offered = [
        _command(one.name, {language: some[index] for language, some in commands.items()})
        for index, one in enumerate(commands[ENGLISH])
        if _COMMAND.fullmatch(one.name)
    ]
    return offered[:_MOST_COMMANDS]


def view_of(buttons: Sequence[Button]) -> discord.ui.View | None:
    """Buttons whose presses come to `listen`, also after a restart. Discord takes no two that keep
    the same data."""
    if not buttons:
        return None
    view = discord.ui.View(timeout=None)
    known: dict[str, str] = {}
    for one in buttons:
        known.setdefault(one.data, one.label)
    for data, label in known.items():
        view.add_item(discord.ui.Button(label=label[:_LONGEST_LABEL], custom_id=data))
    view.stop()  # the SDK need not remember it
    return view


def reference_of(place: Location) -> Any:
    """On a server, the message that is answered, if it is still there."""
    if not place.is_group or not place.message:
        return None
    channel = int(place.thread or place.chat)
    return discord.MessageReference(
        message_id=int(place.message), channel_id=channel, fail_if_not_exists=False
    )


def nonce_of(place: Location, once: str) -> str | None:
    """Return the name by which Discord knows a message for some minutes, so that it shows it once.
    It is made of the answered message, too: the numbers of replies begin anew in another data
    folder."""
    if not once or not place.message:
        return None
    return blake2s(f"{once} {place.chat} {place.message}".encode(), digest_size=12).hexdigest()


def _command(name: str, described: Mapping[str, CommandEntry]) -> Any:
    """Return a slash command with one option: what a person would write behind its name. It is
    offered on servers and in direct messages."""
    hints = {}
    for language in described:
        with speaking(language):
            hints[language] = _(ARGUMENTS_HINT)
    option = {
        "type": 3,
        "name": ARGUMENTS,
        "description": hints[ENGLISH],
        "description_localizations": _localized(hints),
    }
    summaries = {language: one.summary or name for language, one in described.items()}
    return {
        "type": 1,
        "name": name,
        "description": summaries[ENGLISH][:_LONGEST_DESCRIPTION],
        "description_localizations": _localized(summaries),
        "options": [option],
        "contexts": [0, 1],
        "integration_types": [0],
    }


def _localized(texts: Mapping[str, str]) -> dict[str, str]:
    return {
        tag: texts[language][:_LONGEST_DESCRIPTION]
        for language, tag in _LOCALES.items()
        if language in texts
    }
