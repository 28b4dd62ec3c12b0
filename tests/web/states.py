"""The states of the page that a person may see, each at two widths and in two themes.

`python -m tests.web.states FOLDER [NAME…]` saves their pictures as NAME-WIDTH-THEME.png.
tests/web/test_states.py runs axe in each.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, FilePayload, expect

from tests.docs.pictures import SUMMARY, TALK
from tests.fakes.openai_server import Answer, Call, Fail, Received, Say
from tests.web.browser import DESK, PHONE, Tab, browsing, launched
from tests.web.site import Site, serving

WIDTHS = {"desk": DESK, "phone": PHONE}
SCHEMES: tuple[Any, ...] = ("light", "dark")
TOKEN = "a long random text"
RICH = """## A plan

| Day | Morning | Evening |
|---|---|---|
| Friday | Alfama | Zé da Mouraria |
| Saturday | the tile museum | fado |

The rest is $\\frac{900 - 2 \\cdot 74}{2} = 376$ EUR each.

```python
def rest(budget: int, nights: int, price: int = 74) -> int:
    return budget - nights * price  # what is left for everything else
```

> Book early.
"""


def model(request: Received) -> Answer:
    """Answer by the question; read a page, fail or write a long text on request."""
    if not request.is_turn:
        return Say(SUMMARY)
    last = request.body["messages"][-1]
    if last["role"] == "tool":
        return Say("The page could not be read.")
    said = str(last["content"])
    if "Read the page" in said:
        call = Call("web_fetch", json.dumps({"url": "https://example.org/lisbon"}), "c1")
        return Say(calls=(call,))
    if "Fail" in said:
        return Fail(401, {"message": "The key is not valid."})
    if "plan" in said:
        return Say(RICH, reasoning="Two nights, so 148 EUR.")
    return Say(next((answer for asked, answer in TALK.items() if said.endswith(asked)), "Well."))


@dataclass(frozen=True, slots=True)
class Stage:
    """A bot and a tab, in which a state is shown."""

    tab: Tab
    site: Site

    @property
    def is_phone(self) -> bool:
        return self.tab.page.viewport_size == PHONE

    async def opens(self, session: str = "lisbon") -> None:
        await self.tab.page.goto("about:blank")
        await self.tab.opens_hidden(self.site.url, session)
        await expect(self.tab.page.locator("#panel")).not_to_have_attribute("aria-busy", "true")

    async def shows_panel(self, name: str = "Context") -> None:
        if self.is_phone:
            await self.tab.page.click("#usage")
        await self.tab.chooses_tab(name)

    async def shows_list(self) -> None:
        if self.is_phone:
            await self.tab.presses("Conversations", "main")
        await self.tab.sees("#list li")

    async def writes(self, text: str, shown: str) -> None:
        await self.tab.writes(text)
        await self.tab.sees(shown)


State = Callable[[Stage], Awaitable[None]]
STATES: dict[str, dict[str, State]] = {
    "demo": {},
    "locked": {},
    "asked": {},
    "usual": {},
    "many": {},
    "german": {},
    "chinese": {},
}
"""The states by the bot that they need: without a model, with a token, with questions before a
compaction, a usual one, one with 250 chats, and usual ones in other languages."""
CHATS = 250


def state(bot: str = "usual") -> Callable[[State], State]:
    def add(function: State) -> State:
        STATES[bot][function.__name__] = function
        return function

    return add


@state("demo")
async def first_visit(stage: Stage) -> None:
    await stage.opens(f"first-{stage.is_phone}")
    await stage.tab.sees(".starters")


@state("demo")
async def tour_filled(stage: Stage) -> None:
    await stage.opens(f"tour-{stage.is_phone}")
    await stage.tab.presses("Load an example conversation")
    await stage.tab.sees("#log > .card")


@state("demo")
async def tour_compacted(stage: Stage) -> None:
    await stage.opens(f"tour-{stage.is_phone}")
    await stage.writes("/tour compact", "#log > .card")
    await stage.tab.sees("#log .cut")


@state("locked")
async def sign_in(stage: Stage) -> None:
    await stage.tab.page.goto("about:blank")
    await stage.tab.page.goto(stage.site.url)
    await stage.tab.sees("#dialog .brand")


@state("locked")
async def invitation(stage: Stage) -> None:
    await stage.tab.page.goto("about:blank")
    reply = await stage.site.commands(f"/invite ann{stage.is_phone}")
    link = next(word for word in reply["text"].split() if "#" in word).strip("`<>")
    await stage.tab.page.goto(f"{stage.site.url}/#{link.split('#')[1]}")
    await stage.tab.sees("#dialog :text('You are invited')")


@state("locked")
async def sign_in_refused(stage: Stage) -> None:
    await sign_in(stage)
    await stage.tab.page.locator("#dialog input[type=password]").fill("a wrong password")
    await stage.tab.page.keyboard.press("Enter")
    await stage.tab.sees("#dialog .wrong")


@state("asked")
async def compaction_asked(stage: Stage) -> None:
    await stage.opens(f"asked-{stage.is_phone}")
    for number in range(4):
        await stage.tab.asks(f"{number}: {'many words ' * 50}", "Well.")
    await stage.tab.sees(".card textarea")
    await expect(stage.tab.page.locator("#panel .turns li")).to_have_count(4)
    approve = stage.tab.page.get_by_role("button", name="Approve")
    await expect(approve).to_be_in_viewport(ratio=1)


@state()
async def empty(stage: Stage) -> None:
    await stage.opens("empty")
    await stage.tab.sees(".greeting")


@state()
async def chat(stage: Stage) -> None:
    await stage.opens()
    await stage.tab.sees(".cut")


@state()
async def rich(stage: Stage) -> None:
    await stage.opens("rich")
    await stage.tab.sees("#log table")


@state()
async def panel_context(stage: Stage) -> None:
    await stage.opens()
    await stage.shows_panel()


@state()
async def panel_context_end(stage: Stage) -> None:
    await stage.opens()
    await stage.shows_panel()
    await stage.tab.page.evaluate(
        "document.querySelector('#of-context').scrollTop = 1e6; costs.open = true"
    )
    await stage.tab.sees("#costs ol")


@state()
async def panel_selected(stage: Stage) -> None:
    await stage.opens()
    await stage.shows_panel()
    block = stage.tab.page.locator("#map [role=option][aria-label^='t5,']")
    await block.focus()
    await stage.tab.page.keyboard.press("Shift+ArrowRight")
    await stage.tab.sees("#map .selected .words")


@state()
async def panel_requests(stage: Stage) -> None:
    await stage.opens()
    await stage.shows_panel("Requests")
    await stage.tab.sees("#requests li")


@state()
async def panel_request(stage: Stage) -> None:
    await panel_requests(stage)
    await stage.tab.page.get_by_role("button", name="Show r").last.click()
    await stage.tab.sees("#dialog .explored")


@state()
async def panel_files(stage: Stage) -> None:
    await stage.opens()
    await stage.shows_panel("Files")


@state()
async def panel_memory(stage: Stage) -> None:
    await stage.opens()
    await stage.shows_panel("Memory")
    await stage.tab.sees("#memory .text")


@state()
async def summary_shown(stage: Stage) -> None:
    await stage.opens()
    await stage.tab.presses("Show", ".cut")
    await stage.tab.sees(".cut .card")


@state()
async def summary_edited(stage: Stage) -> None:
    await stage.opens()
    await stage.tab.presses("Edit", ".cut")
    await stage.tab.sees(".cut textarea")


@state()
async def sides_closed(stage: Stage) -> None:
    await stage.opens()
    if not stage.is_phone:
        await stage.tab.presses("Close conversations")
        await stage.tab.presses("Close context")
    await stage.tab.sees(".cut")


@state()
async def reasoning(stage: Stage) -> None:
    await stage.opens("rich")
    await stage.tab.page.click("#log .thoughts summary")


@state()
async def connect(stage: Stage) -> None:
    await models(stage)
    await stage.tab.page.locator("#dialog summary").click()
    await stage.tab.sees("#dialog form.connecting")


@state()
async def attached(stage: Stage) -> None:
    await stage.opens(f"attached-{stage.is_phone}")
    file = FilePayload(name="hotels in Lisbon.txt", mimeType="text/plain", buffer=b"Casa do Largo")
    await stage.tab.page.set_input_files("#picker", file)
    await stage.tab.sees("#files li")


@state()
async def memory_corrected(stage: Stage) -> None:
    await stage.opens()
    await stage.writes("/memory wrong", "#log .card textarea")


@state()
async def commands(stage: Stage) -> None:
    await stage.opens()
    await stage.tab.page.locator("#text").press_sequentially("/")
    await stage.tab.sees("#completions [role=option]")


def card(line: str) -> State:
    async def shows(stage: Stage) -> None:
        await stage.opens()
        await stage.writes(line, f"#log > .card:has-text('{line}')")
        await stage.tab.page.locator("#log > .card").last.scroll_into_view_if_needed()

    return shows


for _line in (
    "/context preview",
    "/context turns",
    "/context advise",
    "/context history",
    "/usage",
    "/help",
    "/rules",
    "/why t6",
    "/config",
    "/config context.strategy",
    "/status",
    "/users",
    "/branches",
    "/model list",
    "/memory",
    "/jobs",
    "/contxt",
    "/whoami",
    "/logins",
    "/files",
    "/mcp",
    "/agent",
    "/memory list",
    "/context help",
    "/context rules",
    "/config hooks",
    "/config memory",
    "/title",
    "/resume",
    "/forget",
    "/remind tomorrow 9:00 Call Ann",
    "/btw What time is it?",
    "/version",
    "/approve",
):
    STATES["usual"]["card_" + _line[1:].replace(" ", "_")] = card(_line)


@state()
async def turn_menu(stage: Stage) -> None:
    await stage.opens()
    await stage.tab.presses("More for t6", ".turn[data-turn=t6]")
    await stage.tab.sees("#menu button")


@state()
async def question_edited(stage: Stage) -> None:
    await stage.opens()
    await stage.tab.presses("Edit the question", ".turn[data-turn=t6]")
    await stage.tab.sees("#log .field textarea")


@state()
async def asked_again(stage: Stage) -> None:
    await stage.opens("again")
    await stage.tab.sees(".variants")


@state()
async def branches(stage: Stage) -> None:
    await stage.opens("again")
    await stage.writes("/branches", "#log > .card:has-text('/branches')")


@state()
async def tool_asks(stage: Stage) -> None:
    await stage.opens(f"tool-{stage.is_phone}")
    await stage.tab.writes("Read the page of Lisbon.")
    await stage.tab.sees("button:has-text('Allow once')")


@state()
async def failed(stage: Stage) -> None:
    await stage.opens("failed")
    await stage.tab.sees(".ending.failed")


@state()
async def private(stage: Stage) -> None:
    await stage.opens(f"private-{stage.is_phone}")
    await stage.writes("/private on", "#private button")


@state()
async def offline(stage: Stage) -> None:
    await stage.opens()
    await stage.tab.page.route("**/api/**", lambda route: route.abort())
    await stage.tab.writes("Are you there?")
    await stage.tab.sees(".unsent-state")


@state()
async def models(stage: Stage) -> None:
    await stage.opens()
    await stage.tab.page.click("#model")
    await stage.tab.sees("#dialog .models li")


@state()
async def shortcuts(stage: Stage) -> None:
    await stage.opens()
    await stage.tab.page.focus("#log")
    await stage.tab.page.keyboard.press("?")
    await stage.tab.sees("#dialog .keys")


@state()
async def conversations(stage: Stage) -> None:
    await stage.opens()
    await stage.shows_list()


@state()
async def searched(stage: Stage) -> None:
    await stage.opens()
    await stage.shows_list()
    await stage.tab.page.fill("#search", "tile museum")
    await stage.tab.sees("#list mark")


@state()
async def conversation_menu(stage: Stage) -> None:
    await stage.opens()
    await stage.shows_list()
    row = stage.tab.page.locator("#list li[data-session=lisbon]")
    await row.hover()
    await row.get_by_role("button", name="More for").click()
    await stage.tab.sees("#menu button")


@state()
async def conversations_menu(stage: Stage) -> None:
    await stage.opens()
    await stage.shows_list()
    await stage.tab.page.click("#more")
    await stage.tab.sees("#menu button")


@state()
async def delete_asked(stage: Stage) -> None:
    await conversation_menu(stage)
    await stage.tab.page.get_by_role("menuitem", name="Delete").click()
    await stage.tab.sees("#dialog :text('for good')")


@state()
async def clear_asked(stage: Stage) -> None:
    await stage.opens()
    await stage.shows_panel()
    await stage.tab.presses("Clear context", ".controls")
    await stage.tab.sees("#dialog #question")


def settings(name: str) -> State:
    async def shows(stage: Stage) -> None:
        await stage.opens()
        await stage.tab.opens_settings(name)
        dialog = stage.tab.page.locator("#preferences")
        await expect(dialog.get_by_role("tabpanel", name=name)).to_be_visible()

    return shows


for _name in ("General", "Models and keys", "Context", "Memory", "People", "This browser"):
    STATES["usual"]["settings_" + _name.lower().replace(" ", "_")] = settings(_name)


@state("many")
async def many_chats(stage: Stage) -> None:
    await stage.opens("chat1")
    await stage.shows_list()
    await stage.tab.scrolls_to("#list", "#list [data-session=chat0]")


async def settings_in_context(stage: Stage) -> None:
    await stage.opens()
    await stage.tab.page.click("#gear")
    await stage.tab.page.locator("#preferences [role=tab]").nth(2).click()


async def panel_in_context(stage: Stage) -> None:
    await stage.opens()
    if stage.is_phone:
        await stage.tab.page.click("#usage")
    await stage.tab.sees("#panel .turns li")


for _language in ("german", "chinese"):
    for _function in (empty, chat, commands, settings_in_context, panel_in_context):
        STATES[_language][f"{_language}_{_function.__name__}"] = _function
    for _line in ("/usage", "/context preview", "/config context.strategy", "/help"):
        STATES[_language][f"{_language}_card_" + _line[1:].replace(" ", "_")] = card(_line)


@asynccontextmanager
async def staged(bot: str, browser: Browser, folder: Path) -> AsyncIterator[Stage]:
    """Serve one of the bots with what its states need, and open a tab."""
    every: dict[str, dict[str, Any]] = {
        "demo": {"settings": {"model": "auto"}, "environ": {}},
        "locked": {"token": TOKEN},
        "asked": {
            "settings": {"agent_max_context_turns": 3, "context": {"compaction_approval": "ask"}}
        },
        "usual": {
            "settings": {"agent_max_context_turns": 4, "tools": {"web_fetch": True}},
        },
        "many": {},
        "german": {"settings": {"agent_max_context_turns": 4, "language": "de"}},
        "chinese": {"settings": {"agent_max_context_turns": 4, "language": "zh"}},
    }
    async with serving(folder, model, **every[bot]) as site, browsing(browser) as tab:
        if bot == "locked":
            site.http.headers["Authorization"] = f"Bearer {TOKEN}"
        if bot in ("usual", "german", "chinese"):
            await fill(site)
        for number in range(CHATS if bot == "many" else 0):
            await site.says(f"Question {number} about Lisbon", f"chat{number}")
        yield Stage(tab, site)
        tab.faults.clear()  # refused requests are part of some states


async def fill(site: Site) -> None:
    """Give the usual bot conversations."""
    await site.commands("/rules add Never write to my boss without asking me.", "lisbon")
    await site.commands("/remember Ann is allergic to nuts.", "lisbon")
    for question in TALK:
        await site.says(question, "lisbon")
        await site.app.conversations.flush()
    await site.commands("/context pin t4", "lisbon")
    await site.says("Make a plan.", "rich")
    await site.says("Which quarter should we stay in?", "again")
    await site.commands("/regenerate t1", "again")
    await site.says("Fail, please.", "failed")


async def shows(stage: Stage, function: State) -> AsyncIterator[str]:
    """Yield the width and the theme each time that the state is shown."""
    for width, size in WIDTHS.items():
        await stage.tab.page.set_viewport_size(size)
        await stage.tab.page.emulate_media(color_scheme="light", reduced_motion="reduce")
        await function(stage)
        for scheme in SCHEMES:
            await stage.tab.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            yield f"{width}-{scheme}"
        await stage.tab.page.unroute_all()
        await stage.tab.page.evaluate("localStorage.clear()")


async def main(folder: Path, wanted: list[str]) -> None:
    """Save a picture of each state, or of the named ones."""
    async with launched() as browser:
        for bot, states in STATES.items():
            chosen = {name: one for name, one in states.items() if not wanted or name in wanted}
            if not chosen:
                continue
            with tempfile.TemporaryDirectory() as data:
                async with staged(bot, browser, Path(data)) as stage:
                    for name, function in chosen.items():
                        print(name, flush=True)  # noqa: T201 - a script
                        async for combination in shows(stage, function):
                            path = folder / f"{name}-{combination}.png"
                            await stage.tab.page.screenshot(path=path)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
