"""Telegram, through the Bot API and python-telegram-bot, which is slow to import."""

from channels.telegram.telegram import Telegram, telegram_channel
from channels.telegram.updates import Intervals

__all__ = ["Intervals", "Telegram", "telegram_channel"]
