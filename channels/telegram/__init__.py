"""Telegram, through the Bot API and python-telegram-bot, which is slow to import."""

from channels.telegram.telegram import Telegram, telegram_channel
from channels.telegram.updates import Rhythm

__all__ = ["Rhythm", "Telegram", "telegram_channel"]
