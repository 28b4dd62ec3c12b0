"""Files on the page and the server: attached to a message, shown after a reload, written by
tools."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Browser, FilePayload, expect

from agent.tools.allowance import measure_usage
from plugins.accounts.logins import PageLogins
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.waiting import until
from tests.web.browser import PHONE, Tab, browsing, needs_chromium
from tests.web.site import Site, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PICTURE = FilePayload(name="pixel.png", mimeType="image/png", buffer=PIXEL)
NOTE = FilePayload(name="note.txt", mimeType="text/plain", buffer=b"Remember the milk.")
SOUND = FilePayload(name="hello.mp3", mimeType="audio/mpeg", buffer=b"\0\1\2")

DROP = """async ({name, type, text}) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], name, {type}));
    const options = {dataTransfer: transfer, bubbles: true, cancelable: true};
    const log = document.getElementById("log");
    log.dispatchEvent(new DragEvent("dragover", options));
    const was = document.getElementById("drop").hidden;
    log.dispatchEvent(new DragEvent("drop", options));
    return was;
}"""
PASTE = """async (bytes) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(bytes)], "image.png", {type: "image/png"}));
    const options = {clipboardData: transfer, bubbles: true, cancelable: true};
    document.getElementById("text").dispatchEvent(new ClipboardEvent("paste", options));
}"""


def echo(request: Received) -> Answer:
    content = request.body["messages"][-1]["content"]
    words = content if isinstance(content, str) else content[0]["text"]
    return Say(f"**re:** {words}")


def writer(request: Received) -> Answer:
    if request.body["messages"][-1]["role"] == "tool":
        return Say("Written.")
    arguments = json.dumps({"path": "report.md", "content": "# Lisbon\n\n<script>1</script>\n"})
    return Say(calls=(Call("write_file", arguments, "c"),))


def upload(name: str, data: bytes, media_type: str = "text/plain") -> dict[str, str]:
    return {"name": name, "media_type": media_type, "data": base64.b64encode(data).decode()}


async def read(site: Site, address: str) -> tuple[int, bytes, dict[str, str]]:
    async with site.http.get(f"{site.url}{address}") as response:
        return response.status, await response.read(), dict(response.headers)


async def files_of(site: Site, session: str = "") -> list[dict[str, Any]]:
    """Return the files of a person's last message."""
    _, said = await site.get(f"/api/sessions/{session or site.session}/messages")
    found = [message for message in said["messages"] if message["role"] == "user"]
    return list(found[-1]["files"])


def kept_in(folder: Path) -> set[Path]:
    """Return all files of audiences."""
    return {one for one in folder.rglob("audiences/**/*") if one.is_file()}


def _no_room_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    def full(place: Any) -> Any:
        numbers = list(real(place))
        numbers[4] = 0  # f_bavail, the free blocks for users other than root
        return os.statvfs_result(numbers)

    monkeypatch.setattr(os, "statvfs", full)


def _no_room_behind_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that only reports an error at fsync."""

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)


@pytest.mark.parametrize("fill", [_no_room_at_all, _no_room_behind_the_check])
async def test_a_full_disk_answers_an_upload_with_507_and_keeps_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: Callable[[pytest.MonkeyPatch], None]
) -> None:
    files = [upload("note.txt", b"milk" * 10_000), upload("pixel.png", PIXEL, "image/png")]
    message = {"text": "Here", "attachments": files}
    async with serving(tmp_path, echo) as site:
        await site.says("Hello")
        before = kept_in(tmp_path)
        with monkeypatch.context() as patch:
            fill(patch)
            status, answer = await site.post("/api/sessions/main/messages", message)
        assert status == 507
        assert re.search("the disk is (nearly )?full", answer["error"]["message"])
        assert kept_in(tmp_path) == before, "nothing is left of it"
        await site.says("Here again", attachments=files)
        assert len(await files_of(site)) == 2


async def test_the_files_of_a_message_are_named_and_fetched_as_what_they_are(
    tmp_path: Path,
) -> None:
    files = [
        upload("pixel.png", PIXEL, "image/png"),
        upload("note.txt", b"milk"),
        upload("evil.html", b"<script>alert(1)</script>", "text/html"),
        upload("hello.mp3", b"\0\1\2", "audio/mpeg"),
    ]
    async with serving(tmp_path, echo) as site:
        await site.says("Here", attachments=files)
        picture, note, evil, sound = await files_of(site)
        assert (picture["is_picture"], note["name"], note["size"]) == (True, "note.txt", "1 kB")
        assert sound["name"] == "hello.mp3"
        _, said = await site.get("/api/sessions/main/messages")
        assert said["messages"][0]["text"] == "Here"
        status, content, headers = await read(site, picture["address"])
        assert (status, content, headers["Content-Type"]) == (200, PIXEL, "image/png")
        for file, data in ((note, b"milk"), (evil, b"<script>alert(1)</script>")):
            status, content, headers = await read(site, file["address"])
            assert (status, content) == (200, data)
            assert headers["Content-Type"] == "application/octet-stream"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Content-Disposition"].startswith("attachment")
            assert headers["Content-Security-Policy"].endswith("sandbox")
        assert (await read(site, sound["address"]))[1] == b"\0\1\2"


ELSEWHERE = (
    "",
    ".",
    "files",
    "data",
    "memory/MEMORY.md",
    "sessions/x",
    "data/../memory/MEMORY.md",
    "files/../memory/MEMORY.md",
    "files/way-out",
    "files/gone.txt",
    "/etc/passwd",
    "data/parley.db",
    "files/\0",
    "data/" + "a" * 64 + "/x",
)


async def test_nothing_else_of_the_machine_can_be_fetched(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        await site.says("Here", attachments=[upload("note.txt", b"milk")])
        folder = tmp_path / "data" / "audiences" / "web-main"
        (folder / "memory").mkdir(exist_ok=True)
        (folder / "memory" / "MEMORY.md").write_text("a secret")
        (folder / "files" / "way-out").symlink_to(folder / "memory" / "MEMORY.md")
        url = f"{site.url}/api/sessions/main/file"
        for path in ELSEWHERE:
            async with site.http.get(url, params={"path": path}) as response:
                assert response.status == 404, path
                assert "no such file" in (await response.json())["error"]["message"]


async def test_a_file_whose_name_is_no_text_leaves_the_others_to_be_listed(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        await site.says("Here", attachments=[upload("note.txt", b"milk")])
        folder = tmp_path / "data" / "audiences" / "web-main" / "files"
        os.close(os.open(bytes(folder) + b"/\xff.txt", os.O_CREAT))  # a command could do this
        status, listed = await site.get("/api/sessions/main/files")
    assert (status, [file["name"] for file in listed["files"]]) == (200, ["note.txt"])


async def test_a_file_comes_as_it_was_or_not_at_all(tmp_path: Path) -> None:
    async with serving(tmp_path, echo) as site:
        for data, becomes in (
            ("AAEC\r\nAwQ=\n", b"\0\1\2\3\4"),
            ("*", None),
            ("-_-_", None),
            ("data:text/plain;base64,bWlsaw==", None),
            ("bWls\u00e4", None),
        ):
            file = {"name": "a.bin", "media_type": "application/octet-stream", "data": data}
            message = {"text": "Here", "attachments": [file]}
            status, answer = await site.post("/api/sessions/main/messages", message)
            if becomes is None:
                assert (status, "base64" in answer["error"]["message"]) == (400, True), data
            else:
                (kept,) = await files_of(site)
                assert (await read(site, kept["address"]))[:2] == (200, becomes)


async def test_a_file_belongs_to_its_own_session_and_goes_when_that_is_forgotten(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, echo) as site:
        await site.says("Here", attachments=[upload("pixel.png", PIXEL, "image/png")])
        (picture,) = await files_of(site)
        other = picture["address"].replace("/main/", "/other/")
        assert (await read(site, other))[0] == 404
        await site.commands("/forget branches yes")
        assert (await read(site, picture["address"]))[0] == 404


async def test_who_has_an_account_reads_their_own_files(tmp_path: Path) -> None:
    jar = aiohttp.CookieJar(unsafe=True)  # which accepts cookies of an IP address
    async with (
        serving(tmp_path, echo, token="a long random text") as site,
        aiohttp.ClientSession(cookie_jar=jar) as http,
    ):
        ann = replace(site, http=http)
        code = await site.app.features.service(PageLogins).invite("ann", "user", "a test")
        assert (await ann.post("/api/join", {"code": code, "password": ""}))[0] == 200
        await ann.says("Here", attachments=[upload("note.txt", b"milk")])
        (note,) = await files_of(ann)
        assert (await read(ann, note["address"]))[:2] == (200, b"milk")
        _, listed = await ann.get("/api/sessions/main/files")
        assert (await read(ann, listed["files"][0]["address"]))[:2] == (200, b"milk")
        assert (await read(site, note["address"]))[0] == 401
        owner = {"Authorization": "Bearer a long random text"}
        async with http.get(f"{site.url}{note['address']}", headers=owner) as response:
            assert response.status == 404


async def test_the_limit_that_is_told_is_the_one_that_holds(tmp_path: Path) -> None:
    tools = {"tools": {"files_quota": 1}}
    async with serving(tmp_path, echo, tools, upload=2_000_000) as site:
        _, told = await site.get("/api/sessions/main/files")
        most = told["limits"]["bytes"]
        assert most == 1_000_000 - measure_usage(tmp_path / "data" / "audiences" / "web-main")
        one_more = {"text": "Here", "attachments": [upload("a.txt", b"x" * (most + 1))]}
        status, refused = await site.post("/api/sessions/main/messages", one_more)
        assert (status, "may keep 1 MB" in refused["error"]["message"]) == (507, True)
        await site.says("Here", attachments=[upload("a.txt", b"x" * most)])
        _, told = await site.get("/api/sessions/main/files")
        assert told["limits"]["bytes"] < 1_000
    async with serving(tmp_path, echo, upload=1_000) as site:
        _, told = await site.get("/api/sessions/other/files")
        assert told["limits"] == {"files": 10, "file_bytes": 1_000, "bytes": 1_000}


@needs_chromium
async def test_pictures_and_documents_are_shown_when_sent_and_after_a_reload(tab: Tab) -> None:
    await tab.page.set_input_files("#picker", [PICTURE, NOTE, SOUND])
    await tab.sees("#files .thumbnail img")
    await tab.writes("Look")
    for _ in range(2):
        await tab.sees(".turn[data-turn=t1] .question")
        picture = tab.page.locator(".question .thumbnail img")
        await expect(picture).to_have_count(1)
        loaded = await picture.evaluate("i => i.decode().then(() => i.naturalWidth)")
        assert loaded == 1
        await expect(tab.page.locator(".question .file .name")).to_have_text(
            ["note.txt1 kB", "hello.mp31 kB"]
        )
        assert "[file" not in await tab.page.inner_text(".question")
        await tab.page.reload()
    await tab.page.click(".question .thumbnail")
    await tab.sees("#dialog img")
    await tab.presses("Close", "#dialog")
    await tab.presses("Preview note.txt", ".question")
    await tab.sees("#dialog pre:text-is('Remember the milk.')")
    await tab.presses("Close", "#dialog")
    await tab.presses("Preview hello.mp3", ".question")
    await tab.sees("#dialog:has-text('is not text, so it')")


@needs_chromium
async def test_files_are_dropped_and_pasted(site: Site, tab: Tab) -> None:
    dropped = {"name": "list.txt", "type": "text/plain;charset=utf-8", "text": "milk"}
    assert await tab.page.evaluate(DROP, dropped) is False  # the drop area was shown
    await expect(tab.page.locator("#drop")).to_be_hidden()
    await tab.page.evaluate(PASTE, list(PIXEL))
    await expect(tab.page.locator("#files .chip .name")).to_have_text(["list.txt", "image.png"])
    await tab.asks("Both", "re:")
    assert len(await files_of(site)) == 2


@needs_chromium
async def test_what_is_too_much_is_said_before_anything_is_sent(tab: Tab) -> None:
    large = FilePayload(name="large.bin", mimeType="text/plain", buffer=b"x" * 1_000_001)
    half = FilePayload(name="half.bin", mimeType="text/plain", buffer=b"x" * 600_000)
    await expect(tab.page.locator("#picker")).to_have_attribute(
        "title", "Up to 10 files, 1 MB together"
    )
    await tab.page.fill("#text", "Keep me")
    await tab.page.set_input_files("#picker", [large])
    await tab.sees("#notice:has-text('large.bin is 1.1 MB; a file can be up to 1 MB')")
    await tab.page.set_input_files("#picker", [half])
    await tab.page.set_input_files("#picker", [half])
    await tab.sees("#notice:has-text('can be 1 MB together; these are 1.2 MB')")
    await tab.page.set_input_files("#picker", [NOTE] * 10)
    await tab.sees("#notice:has-text('can have 10 files; these are 11')")
    await expect(tab.page.locator("#files .chip")).to_have_count(1)
    await expect(tab.page.locator("#text")).to_have_value("Keep me")


@needs_chromium
async def test_what_the_model_wrote_is_listed_previewed_and_downloaded(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, writer) as site, browsing(browser, viewport=PHONE) as tab:
        await tab.opens_hidden(site.url)
        await tab.asks("Write it", "Written.")
        await tab.page.click("#usage")
        await tab.chooses_tab("Files")
        await tab.presses("Preview report.md", "#workspace")
        await tab.sees("#dialog pre:has-text('<script>1</script>')")
        async with tab.page.expect_download() as downloading:
            await tab.page.click("#dialog a:text-is('Download')")
        download = await downloading.value
        assert download.suggested_filename == "report.md"
        content = await asyncio.to_thread((await download.path()).read_text)
        assert content.startswith("# Lisbon")
        await tab.presses("Close", "#dialog")
        tab.faults.clear()


MICROPHONE = """() => {
  const sounds = window.sounds = new AudioContext();
  navigator.mediaDevices.getUserMedia = async () => {
    await sounds.resume();  // which it may once something was pressed
    const heard = sounds.createMediaStreamDestination();
    const tone = sounds.createOscillator();
    tone.connect(heard);
    tone.start();
    return heard.stream;
  };
  window.MediaRecorder = class extends MediaRecorder {
    constructor(...options) {
      super(...options);
      this.addEventListener("start", () => { sounds.recordedSince = sounds.currentTime; });
    }
  };
}"""


PLAYS = """(sound) => new Promise((done) => {
  sound.oncanplay = () => done(true);
  sound.onerror = () => done(sound.error.message || `error ${sound.error.code}`);
  sound.preload = "auto";
  sound.load();
})"""


@needs_chromium
async def test_a_voice_message_is_recorded_and_can_be_listened_to(
    tmp_path: Path, browser: Browser
) -> None:
    settings = {"voice": {"model": "whisper-1"}}
    async with serving(tmp_path, echo, settings) as site, browsing(browser) as tab:
        site.server.voice.transcripts.append("Which tea?")
        await tab.opens(site.url)
        await tab.page.evaluate(MICROPHONE)
        await tab.page.click("#record")
        await tab.sees("#record.stops")
        await tab.sees("#text[placeholder^='Recording: 0:']")
        # A recorder that has just started has no sound to play yet.
        await until(lambda: tab.page.evaluate("sounds.currentTime > sounds.recordedSince + 0.5"))
        await tab.page.click("#record")
        await tab.sees("#files .chip:has-text('voice.webm')")
        await tab.page.click("#send")
        await tab.sees(".question:has-text('[heard] Which tea?') audio")
        (upload,) = site.server.voice.uploads
        assert (upload.name, upload.sound[:4]) == ("voice.webm", b"\x1aE\xdf\xa3")
        assert await tab.page.locator(".question audio").evaluate(PLAYS) is True


@needs_chromium
async def test_without_a_microphone_it_says_so(tab: Tab) -> None:
    await tab.page.click("#record")
    await tab.sees("#notice:has-text('This page may not use a microphone')")
