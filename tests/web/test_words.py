"""All texts of the page are marked for translation: in the made-up language, visible text outside
of the marks is untranslated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from playwright.async_api import Browser, FilePayload

from channels.web import channel
from tests.channels.made_up import speak_made_up, unmarked
from tests.fakes.openai_server import Call, Fail, Received, Say
from tests.web.browser import Tab, browsing, needs_chromium
from tests.web.site import Site, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEEN = """() => {
  const others = ["#log .turn .text", ".title", "#title", "code", "pre", "kbd", "time", ".snippet",
    "textarea", ".models b", ".connecting optgroup option",
    ...["label", "select", "output"].map(one => `.more ${one}`)].join();
  const found = [];
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    const inside = nodes.currentNode.parentElement;
    const shown = inside.closest("select") ?? inside;
    if (shown.checkVisibility() && !inside.closest(others)) found.push(nodes.currentNode.data);
  }
  for (const element of document.body.querySelectorAll("*")) {
    if (!element.checkVisibility() || element.closest(others)) continue;
    for (const name of ["aria-label", "placeholder", "title", "alt"]) {
      if (element.getAttribute(name)) found.push(element.getAttribute(name));
    }
  }
  return found.join("\\n");
}"""


def script(request: Received) -> Say | Fail:
    last = request.body["messages"][-1]
    if request.is_summary or last["role"] == "tool":
        return Say("More")
    if "nonsense" in str(last["content"]):
        return Fail(401, {"message": "more"})
    if "zebra" in str(last["content"]):
        return Say("", (Call("web_fetch", '{"url": "http://127.0.0.1:9/"}', "c1"),))
    return Say("More")


async def find_unmarked(tab: Tab) -> set[str]:
    """Return the words on the page outside of marks."""
    text = await tab.page.evaluate(SEEN)
    assert text.count("⟦") == text.count("⟧") > 10, text
    left, depth = [], 0
    for character in text:
        depth += (character == "⟦") - (character == "⟧")
        left.append("" if depth or character == "⟧" else character)
    return {word for line in "".join(left).splitlines() for word in unmarked(line)}


async def talk(site: Site, tab: Tab) -> None:
    """Make turns in several states on the page."""
    for _ in range(4):
        await site.says("Hello")
    for line in ("/context compact t1-t2", "/context pin t3", "/context drop t4"):
        await site.commands(line)
    await tab.opens(site.url)
    await tab.sees(".turn[data-turn=t3]")


async def look_at_nothing(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)


async def write_commands(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    lines = ("/contxt", "/help", "/status", "/context request", "/memory diff")
    for number, line in enumerate((*lines, "/branches", "/usage", "/context advise")):
        await tab.writes(line)
        await tab.sees(f".card >> nth={number}")


async def complete(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.page.locator("#text").press_sequentially("/context ")
    await tab.sees("#completions li")


async def fill_in_a_form(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.writes("/memory edit")
    await tab.sees(".card textarea")


async def open_settings(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.page.click("#gear")
    for section in ("general", "models", "context", "memory", "people", "browser"):
        await tab.page.click(f"#tab-{section}")
        for more in await tab.page.locator("#preferences summary:visible").all():
            await more.click()
        assert await find_unmarked(tab) == set(), section
    await tab.page.click("#tab-people")
    await tab.sees("#people .inviting")


async def invite(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.page.click("#gear")
    await tab.page.click("#tab-people")
    await tab.page.fill("#people .inviting input[type=text]", "Ann")
    await tab.page.click("#people .inviting button")
    await tab.sees("#people .inviting input[readonly], #people .link")


async def open_menus(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.page.locator("#list [aria-haspopup=menu]").first.click()
    await tab.sees("#menu [role=menuitem]")


async def choose_several(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.page.click("#more")
    await tab.sees("#menu [role=menuitem]")
    await tab.page.locator("#menu [role=menuitem]").first.click()
    await tab.page.locator("#list input[type=checkbox]").first.check()
    await tab.sees("#selection")


async def search(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.page.fill("#search", "Hello")
    await tab.sees(".snippet")


async def look_at_keys(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.page.focus("#log")
    await tab.page.keyboard.press("?")
    await tab.sees("dialog[open]")


async def choose_a_model(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.page.click("#model")
    await tab.sees("#menu [role^=menuitem], dialog[open]")


async def look_at_requests(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.page.click("#tab-of-requests")
    await tab.sees("#requests li")


async def look_at_files(site: Site, tab: Tab) -> None:
    await site.says(
        "Hello", attachments=[{"name": "Plans", "media_type": "text/plain", "data": "aGk="}]
    )
    await tab.opens(site.url)
    await tab.page.set_input_files(
        "#picker", FilePayload(name="Other", mimeType="text/plain", buffer=b"x")
    )
    await tab.sees("#files li")
    await tab.page.click("#tab-of-files")
    await tab.sees("#workspace li")


async def meet_an_error(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.writes("Hello nonsense")
    await tab.sees(".ending.failed")


async def be_asked_by_a_tool(site: Site, tab: Tab) -> None:
    await site.commands("/config tools.web_fetch true")
    await tab.opens(site.url)
    await tab.writes("Hello zebra")
    await tab.sees(".card >> text=127.0.0.1")


async def write_while_away(site: Site, tab: Tab) -> None:
    await tab.opens(site.url)
    await tab.page.route("**/messages", lambda route: route.abort())
    await tab.writes("Hello again")
    await tab.sees(".unsent")


State = Callable[[Site, Tab], Awaitable[None]]
SCENARIOS: dict[str, tuple[State, ...]] = {
    "a new conversation": (look_at_nothing, complete, open_settings, invite),
    "a conversation": (
        talk,
        open_menus,
        choose_several,
        search,
        look_at_keys,
        choose_a_model,
        look_at_requests,
        fill_in_a_form,
        write_while_away,
    ),
    "commands": (talk, write_commands),
    "answers": (look_at_files, meet_an_error, be_asked_by_a_tool),
}


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    speak_made_up(monkeypatch)
    said = {text: f"⟦{text}⟧" for text in channel.list_words()}
    monkeypatch.setattr(channel, "_translate", lambda language: said)
    monkeypatch.setattr(channel, "choose", lambda wanted: "qps")


@needs_chromium
@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_all_words_of_the_page_are_marked(
    tmp_path: Path, browser: Browser, scenario: str
) -> None:
    async with (
        serving(tmp_path, script) as site,
        browsing(browser, locale="de-DE") as tab,
    ):
        for state in SCENARIOS[scenario]:
            await tab.page.goto("about:blank")
            await state(site, tab)
            assert await find_unmarked(tab) == set(), state.__name__
        tab.faults.clear()  # the browser logs the refused request
        await site.commands("/stop")
