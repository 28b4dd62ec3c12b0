"""Telegram, through the Bot API and python-telegram-bot, which is slow to import."""

from channels.telegram.rhythm import Rhythm
from channels.telegram.telegram import Telegram, telegram_channel

__all__ = ["Rhythm", "Telegram", "telegram_channel"]
