"""Choices as buttons below a message. What a button does stands in it, so it works as long as
Telegram says what stands below the message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from telegram import (
    CallbackQuery,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    MaybeInaccessibleMessage,
    Message,
)

from channels.kit.platform import Button

LONGEST_DATA = 64  # bytes that Telegram keeps with a button
_ROW = 28  # characters of the labels in a row, so that a phone shows them whole


def keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    """Return the buttons, in rows; None when there are none."""
    shown = [InlineKeyboardButton(one.label, callback_data=one.data) for one in buttons]
    return InlineKeyboardMarkup(_rows(shown)) if shown else None


def label_of(query: CallbackQuery) -> str:
    """Return the label of the button that was pressed; "" where its message has none with these
    data, or is too old to tell."""
    buttons = _buttons_of(query.message) if query.message else ()
    return next((b.text for b in buttons if b.callback_data == query.data), "")


def _buttons_of(message: MaybeInaccessibleMessage) -> Iterator[InlineKeyboardButton]:
    markup = message.reply_markup if isinstance(message, Message) else None
    return chain.from_iterable(markup.inline_keyboard) if markup else iter(())


def _rows(buttons: Sequence[InlineKeyboardButton]) -> list[list[InlineKeyboardButton]]:
    rows: list[list[InlineKeyboardButton]] = []
    for button in buttons:
        if rows and sum(len(other.text) for other in rows[-1]) + len(button.text) <= _ROW:
            rows[-1].append(button)
        else:
            rows.append([button])
    return rows
