"""Pictures and documents, from the message to the model's endpoint, in a whole bot."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bot.attachments import store
from bot.received import key_of
from channels.message import Address, Attachment, Inbound
from tests.fakes.documents import pdf
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.testbot import run_bot

PNG = b"\x89PNG\r\n\x1a\n"
PHOTO = Attachment("photo.png", "image/png", PNG + b"one")
REPORT = Attachment("report.txt", "text/plain", b"Sales went up.\n" * 8_000)
AUDIENCE = "data/audiences/pipe-main"


def echo(request: Received) -> Answer:
    return Say("I see.")


def url(attachment: Attachment) -> str:
    return f"data:image/png;base64,{base64.b64encode(attachment.data).decode()}"


def urls(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return the pictures of a request, in order."""
    lists = [message["content"] for message in messages if isinstance(message["content"], list)]
    return [p["image_url"]["url"] for parts in lists for p in parts if p["type"] == "image_url"]


def files(folder: Path) -> list[str]:
    root = folder / AUDIENCE
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())


async def test_a_picture_is_stored_by_its_hash_and_seen_also_after_a_restart(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo) as bot:
        assert (await bot.says("What is this?", files=(PHOTO,))).text == "I see."
        first = bot.sent_to_model()
        assert first[-1]["content"] == [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": url(PHOTO)}},
        ]
        (name,) = files(tmp_path)
        assert name == f"data/{hashlib.sha256(PHOTO.data).hexdigest()}.png"
        assert (tmp_path / AUDIENCE / name).read_bytes() == PHOTO.data
        await bot.says("And now?")
        assert bot.sent_to_model()[: len(first)] == first, "the beginning stays as it was"
        conversation = await bot.app.conversations.get(key_of(Address("pipe", "main")))
        assert 1_000 < conversation.context.view().turns[0].tokens < 1_020, "a picture counts"
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("And now?")
        assert urls(bot.sent_to_model()) == [url(PHOTO)]
        assert (await bot.says("", files=(PHOTO,))).text == "I see."
        content = bot.sent_to_model()[-1]["content"]
        assert [part["type"] for part in content] == ["image_url"], "it needs no words"
        assert "image" in (await bot.says("/context turns")).text


async def test_a_document_is_named_to_the_model_which_can_read_it(tmp_path: Path) -> None:
    call = Call("read_file", '{"path": "files/report.txt", "limit": 1}', "r")
    async with run_bot(tmp_path, [Say(calls=(call,)), Say("Up.")]) as bot:
        assert (await bot.says("Summarise it.", files=(REPORT,))).text == "Up."
        asked, _, result = bot.sent_to_model()[-3:]
    assert asked["content"] == "Summarise it.\n[file: files/report.txt, 120 kB]"
    assert "\nSales went up.\n" in result["content"]


@pytest.mark.usefixtures("processes")
async def test_a_pdf_keeps_its_name_and_is_read_page_by_page_as_words_from_outside(
    tmp_path: Path,
) -> None:
    sent = Attachment("The plan.pdf", "application/pdf", pdf("Knead it.", "Bake it."))
    call = Call("read_file", '{"path": "files/The_plan.pdf", "offset": 3}', "r")
    async with run_bot(tmp_path, [Say(calls=(call,)), Say("On page 2: bake it.")]) as bot:
        assert (await bot.says("What then?", files=(sent,))).text == "On page 2: bake it."
        asked, _, result = bot.sent_to_model()[-3:]
    assert asked["content"] == "What then?\n[file: files/The_plan.pdf, 1 kB]"
    assert "\n[page 2]\nBake it.\n" in result["content"]
    assert "<untrusted" in result["content"]
    assert files(tmp_path) == ["files/The_plan.pdf"]


async def test_documents_of_one_name_are_all_kept_and_the_same_one_once(tmp_path: Path) -> None:
    other = Attachment("report.txt", "text/plain", b"Sales went down.")
    async with run_bot(tmp_path, echo) as bot:
        for attachment in (REPORT, other, REPORT):
            await bot.says("Here.", files=(attachment,))
    assert files(tmp_path) == ["files/report-2.txt", "files/report.txt"]


async def test_a_hostile_name_stays_in_the_folder(tmp_path: Path) -> None:
    stored = {
        "../../../etc/passwd": "passwd",
        "C:\\secret\\a b.pdf": "a_b.pdf",
        ".bashrc": "bashrc",
        "": "file",
        "..": "file-2",
        "\x00\x1b[31m\u202e.txt": "31m_.txt",
        "报告.pdf": "报告.pdf",
        "x" * 300 + ".pdf": "x" * 100 + ".pdf",
    }
    async with run_bot(tmp_path, echo) as bot:
        sent = [Attachment(name, "", f"words {n}".encode()) for n, name in enumerate(stored)]
        await bot.says("Here.", files=tuple(sent))
    assert files(tmp_path) == sorted(f"files/{name}" for name in stored.values())


async def test_what_only_says_that_it_is_a_picture_is_a_document(tmp_path: Path) -> None:
    page = Attachment("cat.png", "image/png", b"<html>not a cat</html>")
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Look!", files=(page,))
        assert bot.sent_to_model()[-1]["content"] == "Look!\n[file: files/cat.png, 1 kB]"


async def test_too_large_and_too_many_are_refused_with_a_sentence(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        large = Attachment("film.mp4", "video/mp4", bytes(20_000_001))
        assert (await bot.says("Look!", files=(large,))).text == (
            "Your message was not accepted: film.mp4 is larger than 20 MB. Send a smaller one."
        )
        many = (PHOTO,) * 11
        assert "has 11 files; at most 10" in (await bot.says("Look!", files=many)).text
    assert files(tmp_path) == []


async def test_a_folder_that_cannot_be_written_is_told_and_the_bot_goes_on(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hi")
        (tmp_path / AUDIENCE / "data").write_text("a file where a folder should be")
        reply = await bot.says("Look!", files=(PHOTO,))
        assert reply.text.startswith("Your message was not accepted: its files can't be saved (")
        assert (await bot.says("Still there?")).text == "I see."


async def test_a_message_that_was_confirmed_is_answered_with_its_files_after_a_crash(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo) as bot:
        # As after a kill: it is on disk, and was not processed.
        stored = await store(tmp_path / AUDIENCE, (PHOTO, REPORT), 1)
        said = Inbound("f", Address("pipe", "main"), "Look!")
        await bot.app.delivery.receive(said, key_of(said.address), None, stored)
    async with run_bot(tmp_path, echo) as bot:
        await bot.reply_to("f")
        content = bot.sent_to_model()[-1]["content"]
        assert content[0]["text"] == "Look!\n[file: files/report.txt, 120 kB]"
        assert urls(bot.sent_to_model()) == [url(PHOTO)]


async def test_what_leaves_is_in_the_summary_and_in_the_offloaded_context(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"agent_max_context_turns": 1}) as bot:
        await bot.says("Look!", files=(PHOTO, VOICE))
        await bot.says("Thanks.")
        await bot.app.conversations.flush()
        summaries = [r for r in bot.server.requests if "Summarise" in str(r.body["messages"][0])]
        asked = str(summaries[0].body["messages"])
    assert "user: Look!" in asked
    assert f"[file: My_voice.ogg, {name_of(VOICE, '.ogg')}, 1 kB] [image]" in asked
    line = next((tmp_path / AUDIENCE).glob("sessions/*/context.jsonl")).read_text()
    assert f'"images":["{name_of(PHOTO, ".png")}"]' in line
    assert f'"files":["{name_of(VOICE, ".ogg")}"]' in line


async def test_a_forgotten_picture_is_in_no_file(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Look!", files=(PHOTO,))
        await bot.says("And this?", files=(Attachment("", "", PNG + b"two"),))
        await bot.says("/forget t1 yes")
        held = [path.read_bytes() for path in (tmp_path / AUDIENCE).rglob("*") if path.is_file()]
        assert held == [PNG + b"two"]
        await bot.says("/forget chat yes")
        assert files(tmp_path) == []


def name_of(attachment: Attachment, ending: str) -> str:
    return f"data/{hashlib.sha256(attachment.data).hexdigest()}{ending}"


VOICE = Attachment("My voice.ogg", "audio/ogg", b"OggS\x00\x02 a voice")


async def test_bytes_are_named_to_the_model_with_the_name_that_they_came_by(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Listen!", files=(VOICE,))
        told = f"[file: My_voice.ogg, {name_of(VOICE, '.ogg')}, 1 kB]"
        assert bot.sent_to_model()[-1]["content"] == f"Listen!\n{told}"
        nameless = replace(VOICE, name="", media_type="")
        await bot.says("Again", files=(nameless,))
        told = f"[file: {name_of(VOICE, '.ogg')}, 1 kB]"
        assert bot.sent_to_model()[-1]["content"] == f"Again\n{told}"
    assert files(tmp_path) == [name_of(VOICE, ".ogg")]


async def test_bytes_end_in_what_they_are_called_or_are(tmp_path: Path) -> None:
    endings = {
        Attachment("a.MP3", "audio/mpeg", b"ID3 words"): ".mp3",
        Attachment("", "audio/mpeg", b"ID3\0"): ".mp3",
        Attachment("x", "", b"\0"): ".bin",
        Attachment("a.tar.gz/../../b.s/h", "no type", b"\0\0"): ".bin",
        Attachment("a.p$h p", "audio/x-none", b"words"): ".bin",
    }
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Here.", files=tuple(endings))
    assert files(tmp_path) == sorted(name_of(one, ending) for one, ending in endings.items())


async def test_bytes_go_with_the_last_message_that_has_them(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Listen!", files=(VOICE,))
        asked = (await bot.says("/retry")).data
        assert asked is not None
        await bot.reply_to(asked["asked"])
        assert bot.sent_to_model()[-1] == bot.sent_to_model(0)[-1], "it is named once"
        await bot.says("/forget t1 yes")
        assert files(tmp_path) == [name_of(VOICE, ".ogg")], "the retry has it, too"
        await bot.says("/forget t2 yes")
        assert files(tmp_path) == []


async def test_no_more_files_are_taken_than_a_chat_may_keep(tmp_path: Path) -> None:
    large = replace(REPORT, data=b"x" * 600_000)
    photo = replace(PHOTO, data=PNG + b"x" * 600_000)
    async with run_bot(tmp_path, echo, {"tools": {"files_quota": 1}}) as bot:
        assert (await bot.says("Read this.", files=(large,))).text == "I see."
        for one in (photo, replace(large, name="other.txt", data=b"y" * 600_000)):
            refused = await bot.says("And this.", files=(one,))
            assert refused.text == (
                "Your message was not accepted, because this chat may keep 1 MB of files "
                "(tools.files_quota). Delete some files, or ask the bot's owner; then send it "
                "again."
            )
        assert (await bot.says("This again.", files=(large,))).text == "I see.", (
            "it is there already"
        )
        assert (await bot.says("No file.")).text == "I see."
    assert files(tmp_path) == ["files/report.txt"]
