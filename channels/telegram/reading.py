"""The answer of Telegram that is asked for updates, read with care: the SDK takes all of them or
none, so one that it can't read would come again for ever and block all that are behind it."""

from __future__ import annotations

import logging
from typing import Any

from telegram import Update
from telegram.error import NetworkError, TelegramError
from telegram.request import HTTPXRequest

from channels.kit.frames import check_parts

log = logging.getLogger(__name__)

_MOST_PARTS = 2_000
"""Objects and lists of an update. A message has a hundred entities and a hundred buttons at most,
and stands in one update with that which it answers."""

NO_UPDATES = "the response is not from Telegram"


class CarefulRequest(HTTPXRequest):
    """Asks for updates. One that can't be read is logged and becomes an empty one of its number, so
    that it is confirmed. An answer that is not Telegram's counts as none."""

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the answer in a payload, its updates made readable. Raises NetworkError."""
        try:
            answer = HTTPXRequest.parse_json_payload(payload)
        except TelegramError as error:
            raise NetworkError(NO_UPDATES) from error
        if not isinstance(answer, dict) or not {"result", "description"} & answer.keys():
            raise NetworkError(NO_UPDATES)
        if isinstance(answer.get("result"), list):
            numbered = [update for update in answer["result"] if number_of(update) is not None]
            answer["result"] = [readable(update) for update in numbered]
        return answer


def readable(update: dict[str, Any]) -> dict[str, Any]:
    """Return an update that has a number, or an empty one of its number."""
    try:
        check_parts(update, _MOST_PARTS)
        read = Update.de_json(dict(update), None)
        # By these it is put in order beside others (`in_order`); the SDK takes them as they come.
        hash((read.effective_chat and read.effective_chat.id, _album(read)))
    except Exception:
        log.exception("update %s from Telegram can't be read and is left out", number_of(update))
        return {"update_id": number_of(update)}
    return update


def _album(update: Update) -> object:
    return update.message and update.message.media_group_id


def number_of(update: object) -> int | None:
    """Return the number that Telegram gave an update; None where it has none, or it is not a
    number."""
    number = update.get("update_id") if isinstance(update, dict) else None
    return number if isinstance(number, int) else None
