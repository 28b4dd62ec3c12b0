"""An event with more parts than its platform ever sends is left out before the SDK makes values of
them; the largest that it sends is not."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.hostile_events import DISCORD_MESSAGE, EVENTS
from channels.kit.frames import check_parts
from channels.telegram.reading import readable
from tests.tables import each_row

PERSON = {"id": 2, "is_bot": False, "first_name": "Ann"}
ENTITIES = [{"type": "text_mention", "offset": n, "length": 1, "user": PERSON} for n in range(100)]
KEYBOARD = {"inline_keyboard": [[{"text": "A", "callback_data": "a"}]] * 100}


def telegram(count: int = 100) -> dict[str, Any]:
    chat = {"id": -3, "type": "supergroup", "title": "G"}
    message = {"message_id": 4, "date": 1_700_000_000, "chat": chat, "from": PERSON}
    said = {**message, "text": "a" * 4_096, "entities": ENTITIES, "reply_markup": KEYBOARD}
    entities = ENTITIES * (count // 100)
    return {"update_id": 7, "message": {**said, "entities": entities, "reply_to_message": said}}


def discord(embeds: int) -> dict[str, Any]:
    embed = {"fields": [{"name": "a", "value": "b", "inline": False}] * 25}
    person = DISCORD_MESSAGE["author"]
    first = {**DISCORD_MESSAGE, "embeds": [embed] * 10, "mentions": [person] * 100}
    return {**first, "embeds": [embed] * embeds, "referenced_message": first}


def test_the_largest_that_there_is_is_read() -> None:
    assert readable(telegram()) == telegram()
    assert EVENTS["discord.incoming.heard"].read(discord(10))


def test_what_is_larger_is_left_out_and_confirmed() -> None:
    assert readable(telegram(1_000)) == {"update_id": 7}
    with pytest.raises(ValueError, match="parts"):
        EVENTS["discord.incoming.heard"].read(discord(200))


SHAPES: dict[str, Any] = {
    "a list": [[]] * 9,
    "a deep list": [[[[[[[[[[]]]]]]]]]],
    "objects": {str(n): {} for n in range(9)},
    "a list of objects": {"a": [{"b": 1}] * 8},
}


@each_row("what", SHAPES)
def test_objects_and_lists_are_counted_wherever_they_are(what: str) -> None:
    check_parts(SHAPES[what], 10)
    with pytest.raises(ValueError, match="more than 9"):
        check_parts(SHAPES[what], 9)


def test_other_values_are_no_parts() -> None:
    for value in ("a", 1, None, [1] * 99, {"a": "b"}):
        check_parts(value, 1)
