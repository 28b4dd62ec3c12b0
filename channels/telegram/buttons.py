"""Actions as buttons below a message. What a button does stands in it, so it works as long as
Telegram says what stands below the message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from telegram import (
    CallbackQuery,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    MaybeInaccessibleMessage,
    Message,
)

from channels.language import _
from channels.message import Action

LONGEST_DATA = 64  # bytes that Telegram keeps with a button
_ROW = 28  # characters of the labels in a row, so that a phone shows them whole
_QUESTION, _NO = "?", "-"


@dataclass(frozen=True, slots=True)
class Press:
    """A pressed button: its command ("" for a no), and whether a yes is needed first."""

    command: str
    is_question: bool = False


def pressed(data: str) -> Press:
    """What a button's data say."""
    command = "" if data == _NO else data.removeprefix(_QUESTION)
    return Press(command, data.startswith(_QUESTION))


def keyboard(actions: Sequence[Action]) -> InlineKeyboardMarkup | None:
    """The buttons for those actions that fit into one; None when there are none."""
    buttons = [_button(action) for action in actions if _fits(action)]
    return InlineKeyboardMarkup(_rows(buttons)) if buttons else None


def spelled_out(actions: Sequence[Action]) -> str:
    """A line for each action whose command is too long for a button."""
    return "\n".join(f"{a.label}: `{a.command}`" for a in actions if not _fits(a))


def confirmation(label: str, command: str) -> InlineKeyboardMarkup:
    """Yes and no."""
    yes = InlineKeyboardButton(_("Yes, {label}", label=label.lower()), callback_data=command)
    return InlineKeyboardMarkup([[yes, InlineKeyboardButton(_("No"), callback_data=_NO)]])


def is_confirmation(message: MaybeInaccessibleMessage) -> bool:
    """Whether a message asks for yes or no."""
    return any(button.callback_data == _NO for button in _buttons_of(message))


def label_of(query: CallbackQuery) -> str:
    """What stands on the button that was pressed; "" where its message has none with these data, or
    is too old to tell."""
    buttons = _buttons_of(query.message) if query.message else ()
    return next((b.text for b in buttons if b.callback_data == query.data), "")


def _buttons_of(message: MaybeInaccessibleMessage) -> Iterator[InlineKeyboardButton]:
    markup = message.reply_markup if isinstance(message, Message) else None
    return chain.from_iterable(markup.inline_keyboard) if markup else iter(())


def _data(action: Action) -> str:
    return f"{_QUESTION if action.asks_first else ''}{action.command}"


def _fits(action: Action) -> bool:
    return len(_data(action).encode()) <= LONGEST_DATA


def _button(action: Action) -> InlineKeyboardButton:
    return InlineKeyboardButton(action.label, callback_data=_data(action))


def _rows(buttons: Sequence[InlineKeyboardButton]) -> list[list[InlineKeyboardButton]]:
    rows: list[list[InlineKeyboardButton]] = []
    for button in buttons:
        if rows and sum(len(other.text) for other in rows[-1]) + len(button.text) <= _ROW:
            rows[-1].append(button)
        else:
            rows.append([button])
    return rows
