"""The messages that the bot sends over WhatsApp, as values that can wait on disk, and the choices
below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import orjson
from msgspec import Struct
from msgspec.structs import asdict
from pywa.types.callback import Button as ReplyButton
from pywa.types.callback import Section, SectionList, SectionRow

from channels.kit.choices import Press
from channels.kit.platform import Button
from channels.language import _
from channels.whatsapp.rendering import units

LONGEST_DATA = 200
"""Bytes that a row of a list keeps; a button keeps 256."""
_MOST_BUTTONS, _LONGEST_TITLE, _LONGEST_BODY = 3, 20, 1024
_LONGEST_ROW, _LONGEST_ABOUT = 24, 72

Keyboard = Sequence[ReplyButton] | SectionList | None


class HeldMessage(Struct, frozen=True):
    """A message as WhatsApp shows it: its text, or a file by the id that it has there with a few
    words below it; labels and data of what can be chosen; the message that it answers."""

    text: str
    choices: tuple[tuple[str, str], ...] = ()
    kind: str = ""
    media: str = ""
    name: str = ""
    answers: str = ""
    is_group: bool = False


def dump(letters: Sequence[HeldMessage]) -> str:
    return orjson.dumps([asdict(letter) for letter in letters]).decode() if letters else ""


def load(text: str) -> list[HeldMessage]:
    found = orjson.loads(text) if text else []
    return [HeldMessage(**{**one, "choices": tuple(map(tuple, one["choices"]))}) for one in found]


def choices_of(buttons: Sequence[Button]) -> tuple[tuple[str, str], ...]:
    """Return a choice for each command: the same one twice is refused."""
    return tuple({button.data: (button.label, button.data) for button in buttons}.values())


def messages(letter: HeldMessage) -> Iterator[tuple[str, Keyboard]]:
    """Yield the texts that a letter takes: up to three short choices are buttons, more are a list
    that opens. Groups have neither, so there the commands are spelled out."""
    choices, text = letter.choices, "" if letter.media else letter.text
    if not choices or letter.is_group:
        commands = ((label, Press.of(data).command) for label, data in choices)
        lines = [f"{label}: `{command}`" for label, command in commands if command]
        for one in filter(None, (text, "\n".join(lines))):
            yield one, None
    elif _fit_buttons(choices, text):
        yield text or _("Choose"), [ReplyButton(label, data) for label, data in choices]
    else:
        yield text or _("Choose"), _list(choices)


def _fit_buttons(choices: Sequence[tuple[str, str]], text: str) -> bool:
    labels = {label for label, _data in choices}
    is_short = all(units(label) <= _LONGEST_TITLE for label in labels)
    is_few = len(labels) == len(choices) <= _MOST_BUTTONS
    return is_few and is_short and units(text) <= _LONGEST_BODY


def _list(choices: Sequence[tuple[str, str]]) -> SectionList:
    rows = [SectionRow(_cut(label, _LONGEST_ROW), data, _about(label)) for label, data in choices]
    return SectionList(_cut(_("Choose"), _LONGEST_TITLE), [Section(_("Choose"), rows)])


def _about(label: str) -> str | None:
    """Return the whole of a label that is too long for a row's title stands below it."""
    return _cut(label, _LONGEST_ABOUT) if units(label) > _LONGEST_ROW else None


def _cut(text: str, most: int) -> str:
    if units(text) <= most:
        return text
    while units(text) >= most:
        text = text[:-1]
    return f"{text}…"
