"""The calls of Telegram to the webhook: an update a call, in JSON."""

from __future__ import annotations

import logging
from typing import Any

import orjson
from telegram import Update
from telegram.ext import ExtBot

from channels.base import WebhookAnswer, WebhookCall
from channels.telegram.reading import number_of, readable
from channels.telegram.updates import Counter, Take

log = logging.getLogger(__name__)

SECRET = "x-telegram-bot-api-secret-token"


async def answer_call(
    sdk: ExtBot[Any], call: WebhookCall, counter: Counter, take: Take
) -> WebhookAnswer:
    """Answered when the update was taken. One that can't be read is logged, and confirmed, or it
    would come again for ever."""
    if call.method != "POST":
        return WebhookAnswer(405)
    update = _read(sdk, call.body)
    if update is not None:
        await counter.put(update, take)
    return WebhookAnswer()


def _read(sdk: ExtBot[Any], body: bytes) -> Update | None:
    try:
        update = orjson.loads(body)
        if number_of(update) is None:
            raise ValueError("it has no number")
        return Update.de_json(readable(update), sdk)
    except Exception:
        log.exception("an update from Telegram can't be read and is left out")
        return None
