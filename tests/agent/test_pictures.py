"""Pictures of a request: the newest are sent, the older ones become words, in batches."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import pictures as sent
from agent.models.base import ModelRequest, ModelUnreachable
from agent.models.fallback import FallbackModel
from agent.pictures import (
    LOST,
    TOO_LARGE,
    UNSEEN,
    Pictures,
    attach_pictures,
    count_dropped,
    too_many,
)
from memory.messages import PICTURE, Image, Message
from tests.agent.endpoints import CHAT, ask, conversation
from tests.fakes.openai_server import Fail, Say
from tests.fakes.scripted_model import ScriptedModel

PNG = b"\x89PNG\r\n\x1a\n picture"
IMAGES = tuple(Image(f"{number:064d}", "image/png") for number in range(40))


def named(why: str, image: int = 0) -> str:
    """Return the text in place of a picture that is not sent."""
    return f"[image: {IMAGES[image].file}; {why}]"


def said(words: str, *images: Image) -> dict[str, Any]:
    return Message("user", words, images=images).to_wire()


def kept(folder: Path, *images: Image) -> Pictures:
    for image in images:
        (folder / image.file).parent.mkdir(exist_ok=True)
        (folder / image.file).write_bytes(PNG)
    return Pictures(folder)


async def fill_in(
    pictures: Pictures, messages: list[dict[str, Any]], *, sees: bool = True
) -> list[dict[str, Any]]:
    """Return the messages as they are sent."""
    return attach_pictures(messages, await pictures.parts(messages, sees, 8), sees)


URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
PART = {"type": "image_url", "image_url": {"url": URL}}


async def test_a_picture_is_sent_as_a_part_after_the_words_if_there_are_any(tmp_path: Path) -> None:
    pictures = kept(tmp_path, IMAGES[0])
    asked = [said("What is it?", IMAGES[0]), said(PICTURE, IMAGES[0])]
    shown = await fill_in(pictures, asked)
    words = {"type": "text", "text": "What is it?"}
    assert shown == [
        {"role": "user", "content": [words, PART]},
        {"role": "user", "content": [PART]},
    ]


async def test_words_stand_for_a_picture_that_is_not_seen_or_not_there(tmp_path: Path) -> None:
    pictures = Pictures(tmp_path)
    for sees, why in ((False, UNSEEN), (True, LOST)):
        (message,) = await fill_in(pictures, [said("It?", IMAGES[0])], sees=sees)
        assert message == {"role": "user", "content": f"It?\n{named(why)}"}


async def test_messages_without_pictures_are_the_very_same(tmp_path: Path) -> None:
    messages = [said("Hi"), {"role": "assistant", "content": "Hello."}]
    assert await fill_in(Pictures(tmp_path), messages) is messages


def test_older_pictures_go_half_the_cap_at_a_time() -> None:
    for count, most, gone in (
        *((0, 8, 0), (8, 8, 0), (9, 8, 4), (12, 8, 4), (13, 8, 8)),
        *((3, 1, 2), (5, 0, 5), (1, 0, 1)),
    ):
        assert count_dropped(count, most) == gone, (count, most)


@given(st.integers(0, 100), st.integers(0, 40))
def test_no_request_holds_more_than_the_cap_and_the_newest_is_in_it(count: int, most: int) -> None:
    sent = count - count_dropped(count, most)
    assert 0 <= sent <= most
    assert sent or not count or not most
    assert count_dropped(count, most) <= count_dropped(count + 1, most), (
        "what is left out stays out"
    )


async def test_the_beginning_of_the_requests_changes_once_in_four_pictures(tmp_path: Path) -> None:
    pictures = kept(tmp_path, *IMAGES)
    breaks, before = 0, list[Any]()
    for count in range(1, len(IMAGES) + 1):
        messages = [said(f"{n}", IMAGES[n]) for n in range(count)]
        request = await fill_in(pictures, messages)
        breaks += request[: len(before)] != before
        before = request
    assert breaks == (40 - 8) // 4


async def test_a_model_of_the_fallback_list_that_is_blind_gets_words() -> None:
    first = ScriptedModel([ModelUnreachable("away")], name="sees")
    second = ScriptedModel([lambda request: str(request.messages)], sees=False)
    model = FallbackModel([first, second], lambda name, error: None)
    assert model.sees
    content = [{"type": "text", "text": "It?"}, PART]
    reply = await model.reply(ModelRequest([{"role": "user", "content": content}]), lambda _: None)
    assert reply.text == str([{"role": "user", "content": f"It?\n[image: {UNSEEN}]"}])


REFUSALS = [
    "image input is not supported - hint: you may need to provide the mmproj",
    "Failed to deserialize: messages[0]: unknown variant `image_url`, expected `text`",
    "gpt-oss is not a multimodal model",
    "messages[0].content must be a string",
    "Could not process image",
]


@pytest.mark.parametrize("complaint", REFUSALS)
async def test_a_model_that_refuses_pictures_is_told_of_them_in_words(complaint: str) -> None:
    """It costs one refusal, whatever pictures follow."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "It?"}, PART]}]
    script = (Fail(400, {"message": complaint}), Say("I can't."), Say("Still."))
    async with conversation(CHAT, *script) as (server, model):
        assert (await ask(model, ModelRequest(messages))).text == "I can't."
        assert (await ask(model, ModelRequest(messages))).text == "Still."
        assert len(server.requests) == 3
        for sent_again in list(server.requests)[1:]:
            (message,) = sent_again.body["messages"]
            assert isinstance(message["content"], str)
            assert "[image: " in message["content"]


@given(st.lists(st.integers(0, sent.MOST_BYTES), max_size=30), st.integers(1, 30))
def test_the_pictures_of_a_request_are_bounded_in_bytes_and_the_newest_is_among_them(
    sizes: list[int], most: int
) -> None:
    past = too_many(sizes, most)
    assert sum(sizes[past:]) <= sent.MOST_BYTES
    assert past < len(sizes) or not sizes


async def test_large_pictures_leave_room_for_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent, "MOST_BYTES", len(PNG) + 1)
    pictures = kept(tmp_path, *IMAGES[:3])
    messages = [said(f"{n}", image) for n, image in enumerate(IMAGES[:3])]
    shown = await fill_in(pictures, messages)
    assert [message["content"] for message in shown] == [
        f"0\n[image: {IMAGES[0].file}]",
        f"1\n[image: {IMAGES[1].file}]",
        [{"type": "text", "text": "2"}, PART],
    ]


async def test_a_picture_that_is_too_large_by_itself_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent, "MOST_BYTES", len(PNG) - 1)
    (message,) = await fill_in(kept(tmp_path, IMAGES[0]), [said("What?", IMAGES[0])])
    assert message["content"] == f"What?\n{named(TOO_LARGE)}"
