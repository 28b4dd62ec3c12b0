"""The pictures of the tutorial and of the tour, made from the real terminal and the real page:
`python -m tests.docs.pictures`. Only the model's words are scripted. Requires tmux and Chromium."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Page, async_playwright

from benchmarks.recording import Recorder, svg
from tests.docs.pages import ROOT
from tests.fakes.openai_server import Answer, OpenAIServer, Received, Say
from tests.web.browser import CHROMIUM, DESK, PHONE
from tests.web.site import serving

DOCS = ROOT / "docs"
TALK = {
    "We are two, and want to see Lisbon in November. Our budget is 900 EUR.": "Lovely: mild.",
    "Which quarter should we stay in?": "Alfama: old, steep, and close to everything.",
    "A hotel under 80 EUR a night?": "Casa do Largo, 74 EUR a night.",
    "How do we get there from the airport?": "The red line to Saldanha, then the green one.",
    "One thing for a rainy day?": "The tile museum, in a convent by the river.",
    "And a place for dinner?": "Zé da Mouraria; book a table, it is small.",
}
ROWS = 38
"""Rows of the terminal, enough for the longest answer."""
SUMMARY = (
    "Two people plan Lisbon in November with 900 EUR. They stay in Alfama, at Casa do Largo (74 "
    "EUR a night); from the airport by the red and the green line."
)
STEPS = (
    ("context", "/context", "Cost of this conversation"),
    ("", "/config agent_max_context_turns 4", "everywhere"),
    ("preview", "/context preview", "will be summarised"),
    ("", [*TALK][5], "it is small"),
    ("compact", "/context compact", "The summary, by"),
    ("undo", "/context undo", "/context redo"),
)
"""The steps of the tutorial: the picture's name, the line, and words of the answer."""


def script(request: Received) -> Answer:
    """Return an answer by its question, or the summary for a request for one."""
    if request.is_summary:
        return Say(SUMMARY)
    said = str(request.body["messages"][-1]["content"])
    return Say(next((answer for asked, answer in TALK.items() if said.endswith(asked)), SUMMARY))


async def take_terminal() -> None:
    """Take the pictures of docs/first-hour.md."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps({"model": "gpt-5-mini"}))
        async with OpenAIServer(script) as server:
            environ = (f"OPENAI_BASE_URL={server.base_url}", "OPENAI_API_KEY=key")
            places = ("--config", str(config), "--data", f"{folder}/data")
            bot = (sys.executable, str(ROOT / "main.py"), *places)
            command = shlex.join(("env", "-u", "TMUX", "-u", "NO_COLOR", *environ, *bot))
            await asyncio.to_thread(_type, command)


def _type(command: str) -> None:
    person = Recorder(command, ROWS)
    try:
        person.waits_for("gpt-5-mini answers.")
        for question in [*TALK][:5]:
            person.types(question)
            person.waits_for(TALK[question])
        for name, line, words in STEPS:
            person.clears()
            person.types(line)
            frame = person.waits_for(words)
            if name:
                (DOCS / f"first-hour-{name}.svg").write_text(svg([frame]), encoding="utf-8")
    finally:
        person.close()


async def take_page() -> None:
    """Take the pictures of docs/tour.md, and the one of docs/web.md."""
    settings = {"agent_max_context_turns": 4, "model": "gpt-5-mini"}
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder), script, settings) as site, async_playwright() as driver:
            await site.commands("/rules add Never write to my boss without asking me.")
            for question in TALK:
                await site.says(question)
                await site.app.conversations.flush()
            await site.commands("/context pin t4")
            browser = await driver.chromium.launch(executable_path=CHROMIUM)
            page = await browser.new_page(viewport=DESK)
            await _shows(page, site.url)
            await page.screenshot(path=DOCS / "web.png")
            await page.emulate_media(color_scheme="dark")
            await page.screenshot(path=DOCS / "tour-dark.png")
            phone = await browser.new_page(viewport=PHONE)
            await _shows(phone, site.url)
            await phone.screenshot(path=DOCS / "tour-phone.png")
            await browser.close()


async def _shows(page: Page, url: str) -> None:
    await page.goto(f"{url}/#main")
    await page.wait_for_selector("#panel .headline", state="attached")
    await page.wait_for_selector("#log .turn[data-turn='6'] .text, #log .turn .text")
    await page.wait_for_load_state("networkidle")


async def main() -> None:
    """Take all pictures."""
    await take_terminal()
    await take_page()


if __name__ == "__main__":
    asyncio.run(main())
