"""The page as an application: installed, opened without the bot, used by keyboard and touch."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Mapping
from gzip import decompress
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

import channels.web
from bot.app import VERSION
from tests.fakes.openai_server import Answer, Hang, Say, echo_in_bold
from tests.waiting import until
from tests.web.browser import CHROMIUM, PHONE, Tab, browsing, launched, needs_chromium
from tests.web.site import Site, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

WORKER: dict[str, Any] = {"service_workers": "allow"}
SECTIONS = ("General", "Models and keys", "Context", "Memory", "People", "This browser")
POLICY = "Content-Security-Policy"
LARGEST = 300_000
"""The maximum bytes of the whole page, compressed."""
SMALL = """() => [...document.querySelectorAll("button, a[href], summary, select, input, textarea")]
    .filter(e => e.checkVisibility({visibilityProperty: true, opacityProperty: false})
        && e.type !== "file" && !e.closest(".text, .skip"))
    .filter(e => {
        const {left, top, width, height} = e.getBoundingClientRect();
        if (!width || e.matches(".skip")) return false;
        if (width >= 43.5 && height >= 43.5) return false;
        e.scrollIntoView({block: "center"});
        const at = e.getBoundingClientRect();
        const [x, y] = [at.left + at.width / 2, at.top + at.height / 2];
        const is = (dx, dy) => e.contains(document.elementFromPoint(x + dx, y + dy));
        return !(is(0, 21) && is(0, -21) && (width >= 43.5 || (is(21, 0) && is(-21, 0))));
    })
    .map(e => `${e.tagName} ${e.className} ${e.id} ${e.ariaLabel ?? e.textContent.slice(0, 20)}`
        + ` ${e.getBoundingClientRect().width}x${e.getBoundingClientRect().height}`)"""


async def fetch(site: Site, path: str, **headers: str) -> tuple[int, bytes, Mapping[str, str]]:
    """Return a compressed response as sent."""
    url, headers = f"{site.url}{path}", {"Accept-Encoding": "identity", **headers}
    async with site.http.get(url, headers=headers, auto_decompress=False) as response:
        return response.status, await response.read(), response.headers.copy()


async def test_the_whole_page_is_small_and_is_sent_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        _, index, _ = await fetch(site, "/")
        _, worker, _ = await fetch(site, "/worker.js")
        (files,) = re.findall(rb"const FILES = (\[.*?\]);", worker)
        total = 0
        for path in json.loads(files):
            gzip = {"Accept-Encoding": "gzip"}
            status, content, headers = await fetch(site, path, **gzip)
            assert status == 200
            total += len(content)
            again = {"If-None-Match": headers["ETag"], **gzip}
            assert (await fetch(site, path, **again))[:2] == (304, b"")
            if path.endswith(".js"):
                assert headers["Content-Type"].startswith("text/javascript")
                preload = f'<link rel="modulepreload" href="{path}" fetchpriority="low">'
                assert (preload.encode() in index) == path.startswith("/page/")
        _, font, headers = await fetch(site, "/page/maths.woff2", **gzip)
        assert (headers["Content-Type"], font[:4]) == ("font/woff2", b"wOF2")
        assert "Content-Encoding" not in headers
        assert b"woff2" not in files  # among the files that are always loaded
        assert 20_000 < total + len(font) < LARGEST
        _, plain, headers = await fetch(site, "/page/main.js")
        assert plain.startswith(b"//")
        assert "Content-Encoding" not in headers


async def test_one_answer_is_enough_to_draw_the_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        _, index, headers = await fetch(site, "/")
    assert b'rel="stylesheet"' not in index
    inside = re.findall(rb"<(style|script)>(.*?)</\1>", index, re.DOTALL)
    assert [kind for kind, _ in inside] == [b"style", b"script"]
    for kind, text in inside:
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        assert f"{kind.decode()}-src 'self' 'sha256-{digest}';" in headers[POLICY]
    head, _, body = index.partition(b"<body>")
    assert b"modulepreload" not in head  # they would be loaded before the visible parts
    assert body.count(b"modulepreload") > 30


async def test_icons_are_drawn_so_that_no_font_has_to_have_them() -> None:
    """A Mac, whose keys these are, has ⌘; ⇧, → and the like are in every font with arrows."""
    symbols = re.compile("[\u22ee-\u23ff\u25a0-\u27bf\u2900-\u2bff]")
    page = Path(channels.web.__file__).parent / "page"
    files = [one for one in page.iterdir() if one.suffix in {".html", ".js", ".css"}]
    found = {one.name: set(symbols.findall(one.read_text())) - {"⌘"} for one in files}
    assert len(files) > 40
    assert not any(found.values()), found


async def test_long_answers_are_packed_for_who_takes_that(tmp_path: Path) -> None:
    async with serving(tmp_path, [Say("Hello!")]) as site:
        await site.says("Hi")
        _, plain, headers = await fetch(site, f"{site.path}/context")
        assert (headers["Vary"], headers.get("Content-Encoding")) == ("Accept-Encoding", None)
        gzip = {"Accept-Encoding": "gzip"}
        _, packed, headers = await fetch(site, f"{site.path}/context", **gzip)
        assert headers["Content-Encoding"] == "gzip"
        assert len(packed) < len(plain) / 3
        assert json.loads(decompress(packed)).keys() == json.loads(plain).keys()
        _, _, headers = await fetch(site, "/api/sessions", **gzip)
        assert "Content-Encoding" not in headers, "a short one"


async def test_the_manifest_names_icons_that_are_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        _, content, headers = await fetch(site, "/page/manifest.webmanifest")
        assert headers["Content-Type"].startswith("application/manifest+json")
        manifest = json.loads(content)
        for icon in manifest["icons"]:
            status, picture, headers = await fetch(site, icon["src"])
            assert (status, headers["Content-Type"]) == (200, icon["type"])
            if icon["type"] == "image/png":
                width = int.from_bytes(picture[16:20])
                assert f"{width}x{width}" == icon["sizes"]


async def is_kept(tab: Tab) -> None:
    """Wait until the worker controls the page."""
    await tab.page.wait_for_function("() => navigator.serviceWorker.controller !== null")


@needs_chromium
async def test_the_page_opens_without_the_bot_and_sends_when_it_is_back(
    tmp_path: Path, browser: Browser
) -> None:
    async with browsing(browser, does_bot_stop=True, **WORKER) as tab:
        async with serving(tmp_path, echo_in_bold) as site:
            await tab.opens(site.url)
            await tab.asks("one", "re: one")
            await is_kept(tab)
            port = int(site.url.rpartition(":")[2])
        await tab.page.goto(f"{site.url}/")
        await tab.sees("body[data-offline]")
        await tab.writes("two")
        await tab.sees(".unsent:has-text('Waiting to be sent')")
        async with serving(tmp_path, echo_in_bold, port=port):
            await tab.sees("#log .turn[data-turn=t2] .text:has-text('re: two')")
            await expect(tab.page.locator("body")).not_to_have_attribute("data-offline", "")
            await expect(tab.page.locator("#title")).to_have_text("one")


@needs_chromium
async def test_no_answer_is_ever_kept(tmp_path: Path, browser: Browser) -> None:
    script = """async () => {
        const found = [];
        for (const name of await caches.keys())
            for (const request of await (await caches.open(name)).keys())
                found.push(new URL(request.url).pathname);
        return found;
    }"""
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser, **WORKER) as tab:
        await tab.opens(site.url)
        await is_kept(tab)
        await tab.page.reload()
        await tab.asks("a secret", "re: a secret")
        kept = await tab.page.evaluate(script)
        assert "/" in kept
        assert all(path == "/" or path.startswith("/page/") for path in kept)


@needs_chromium
@pytest.mark.usefixtures("processes")
async def test_an_answer_is_told_while_the_page_is_hidden(tmp_path: Path) -> None:
    told = """async () => {
        const registration = await navigator.serviceWorker.ready;
        return (await registration.getNotifications()).map(({title, body}) => [title, body]);
    }"""
    async with (
        serving(tmp_path, echo_in_bold) as site,
        launched(CHROMIUM) as browser,  # its shell shows no notifications
        browsing(browser, **WORKER) as tab,
    ):
        await tab.page.context.grant_permissions(["notifications"])
        await tab.opens(site.url)
        await is_kept(tab)
        await site.says("Hello")
        await tab.sees("#log .turn[data-turn=t1]")
        assert await tab.page.evaluate(told) == []
        await tab.opens_settings("This browser")
        await tab.sees(f"#browser li:has-text('Parley') .value:text-is('{VERSION}')")
        await tab.page.get_by_role("switch", name="Notify me when an answer is ready").click()
        await tab.presses("Close settings")
        await tab.page.evaluate(
            "Object.defineProperty(document, 'hidden', {get: () => true, configurable: true})"
        )
        await site.says("And now?")
        await tab.sees("#log .turn[data-turn=t2]")
        assert await until(lambda: tab.page.evaluate(told)) == [["Hello", "re: And now?"]]


@needs_chromium
async def test_an_answer_that_comes_after_its_conversation_was_left_is_told(
    tmp_path: Path, browser: Browser
) -> None:
    gate = asyncio.Event()
    script = [Say("Well. " * 20, gate=gate), Say("Elsewhere.")]
    async with serving(tmp_path, script) as site, browsing(browser) as tab:
        await tab.opens(site.url, "first")
        await tab.writes("Think hard")
        await tab.sees(".pending .text:has-text('Well.')")
        await tab.presses("New conversation")
        await tab.asks("And you?", "Elsewhere.")
        gate.set()
        await tab.sees("#notice:has-text('The answer in “Think hard” is ready.')")
        await expect(tab.page.locator("#log .turn")).to_have_count(1)


@needs_chromium
async def test_the_keyboard_does_it_and_a_sheet_says_how(tmp_path: Path, browser: Browser) -> None:
    script: list[Answer] = [Say("a"), Say("b"), Hang("Half")]
    async with serving(tmp_path, script) as site, browsing(browser) as tab:
        await site.says("first", "one")
        await site.says("second", "two")
        await tab.opens(site.url, "two")
        await tab.sees("#log .turn[data-turn=t1]")
        await tab.page.focus("#log")
        await tab.page.keyboard.press("?")
        await tab.sees("#dialog:has-text('Keyboard shortcuts') kbd:text-is('Enter')")
        await tab.page.keyboard.press("Escape")
        await tab.page.keyboard.press("Alt+ArrowDown")
        await expect(tab.page.locator("#title")).to_have_text("first")
        await tab.page.keyboard.press("Alt+ArrowUp")
        await expect(tab.page.locator("#title")).to_have_text("second")
        await tab.page.keyboard.press("Control+k")
        await expect(tab.page.locator("#search")).to_be_focused()
        await tab.page.focus("#log")
        await tab.page.keyboard.press("/")
        await expect(tab.page.locator("#text")).to_be_focused()
        await expect(tab.page.locator("#text")).to_have_value("")
        await tab.page.keyboard.type("What? 1/2")
        await expect(tab.page.locator("#text")).to_have_value("What? 1/2")
        await tab.page.keyboard.press("Enter")
        await tab.sees(".pending:has-text('Half')")
        await tab.page.keyboard.press("Control+.")
        await tab.sees(".turn[data-turn=t2]:has-text('Stopped, as you asked.')")
        await tab.page.keyboard.press("Control+Shift+o")
        await expect(tab.page.locator("#title")).to_have_text("New conversation")


async def fill(site: Site) -> None:
    """A conversation with every element that the page shows around one."""
    note = {"name": "note.txt", "media_type": "text/plain", "data": "bWlsaw=="}
    await site.says("one", attachments=[note])
    await site.says(f"two {'unbroken' * 30}")
    await site.commands("/context drop t1")
    await site.says("other", "other")
    await site.commands("/archive", "other")


@needs_chromium
async def test_what_is_pressed_on_a_phone_is_large_enough(tmp_path: Path, browser: Browser) -> None:
    options: dict[str, Any] = {"viewport": PHONE, "has_touch": True}
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser, **options) as tab:
        await fill(site)
        await tab.page.goto(f"{site.url}/#main")
        await tab.sees(".turn[data-turn=t2]")
        assert await tab.page.evaluate(SMALL) == []
        await tab.presses("Conversations")
        await tab.page.click("#archived > summary")
        assert await tab.page.evaluate(SMALL) == []
        await tab.page.locator("#list [aria-haspopup=menu]").first.click()
        assert await tab.page.evaluate(SMALL) == []
        await tab.page.keyboard.press("Escape")
        await tab.presses("Close conversations")
        await tab.page.click("#usage")
        for name in ("Requests", "Files", "Memory", "Context"):
            await tab.chooses_tab(name)
            assert await tab.page.evaluate(SMALL) == []
        await tab.presses("Close context")
        for section in SECTIONS:
            await tab.opens_settings(section)
            for more in await tab.page.locator("#preferences summary:visible").all():
                await more.click()
            assert await tab.page.evaluate(SMALL) == []


async def test_nothing_is_cut_off_when_the_page_is_magnified(
    tmp_path: Path, browser: Browser
) -> None:
    """1280 pixels at 200 % are like 640, and at 400 % like 320."""
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await fill(site)
        await tab.opens(site.url)
        await tab.sees(".turn[data-turn=t2]")
        for width in (640, 320):
            await tab.page.set_viewport_size({"width": width, "height": 400})
            wide = "document.documentElement.scrollWidth > innerWidth"
            assert not await tab.page.evaluate(wide), width
            assert not await tab.page.evaluate("log.scrollWidth > log.clientWidth"), width
            await expect(tab.page.locator("#text")).to_be_in_viewport()
            await expect(tab.page.locator("#send")).to_be_in_viewport()
            await tab.page.click("#usage")
            beside = "e => e.scrollWidth > e.clientWidth"
            shown = tab.page.locator("#context .scroll:visible, #preferences .scroll:visible")
            for name in ("Requests", "Files", "Memory", "Context"):
                await tab.chooses_tab(name)
                assert not await shown.evaluate(beside), (width, name)
            await tab.presses("Close context")
            for section in SECTIONS:
                await tab.opens_settings(section)
                assert not await shown.evaluate(beside), (width, section)
            await tab.presses("Close settings")


@needs_chromium
async def test_axe_finds_nothing_around_the_chat(tmp_path: Path, browser: Browser) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await fill(site)
        await tab.opens(site.url)
        await tab.page.click("#archived > summary")
        for scheme in ("light", "dark"):
            await tab.page.emulate_media(color_scheme=scheme)
            for name in ("Context", "Requests", "Memory", "Files"):
                await tab.chooses_tab(name)
                await tab.finds_no_fault()
            for section in SECTIONS:
                await tab.opens_settings(section)
                if scheme == "light":
                    for more in await tab.page.locator("#preferences summary:visible").all():
                        await more.click()
                await tab.finds_no_fault()
            await tab.presses("Close settings")
        await tab.presses("Preview note.txt", "#workspace")
        await tab.finds_no_fault()
        await tab.presses("Close", "#dialog")
        await tab.page.locator("#list [aria-haspopup=menu]").first.click()
        await tab.finds_no_fault()
        await tab.page.keyboard.press("Escape")
        await tab.page.focus("#log")
        await tab.page.keyboard.press("?")
        await tab.finds_no_fault()
        await tab.page.keyboard.press("Escape")
        await tab.presses("More for all conversations")
        await tab.page.get_by_role("menuitem", name="Select several").click()
        await tab.page.fill("#search", "unbroken")
        await tab.sees(".snippet mark")
        await tab.finds_no_fault()


@needs_chromium
@pytest.mark.parametrize("language", ["en-GB", "de-DE"])
async def test_no_word_of_the_panel_runs_out_of_its_button_in_any_language(
    tmp_path: Path, browser: Browser, language: str
) -> None:
    over = """() => [...document.querySelectorAll("#context button, #context .legend div")]
        .filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
        .map(e => e.textContent)"""
    async with (
        serving(tmp_path, echo_in_bold) as site,
        browsing(browser, viewport=PHONE, locale=language) as tab,
    ):
        await site.says("How are you?")
        await site.commands("/context pin t1")
        await tab.opens_hidden(site.url)
        await tab.page.click("#usage")
        await tab.sees(".turns .acts")
        assert await tab.page.evaluate(over) == []
        await tab.finds_no_fault()
