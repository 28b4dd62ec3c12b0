"""The messages in the middle of the page, in a real browser."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.fakes.openai_server import Answer, Received, Say
from tests.web.browser import PHONE, browsing, needs_chromium
from tests.web.site import serving

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="module")]

WELL_SET = """Some text[^1] and $x^2$.

```python
def f(): ...
```

| a | b |
|:--|--:|
| long | 1 |

- [x] done

[^1]: The note.
"""


def echo(request: Received) -> Answer:
    return Say(f"**re:** {request.body['messages'][-1]['content']}")


async def test_what_is_written_is_well_set(tmp_path: Path, browser: Browser) -> None:
    script = [Say(WELL_SET, reasoning="First <b>this</b>.")]
    async with serving(tmp_path, script) as site, browsing(browser) as tab:
        await tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await tab.opens(site.url)
        await tab.asks("How?", "Some text")
        colours = "e => getComputedStyle(e).color"
        keyword = await tab.page.locator(".code .k").evaluate(colours)
        assert keyword != await tab.page.locator(".code pre").evaluate(colours)
        await expect(tab.page.locator(".code header")).to_contain_text("python")
        await tab.sees("math msup")
        cell = tab.page.locator("td:text-is('1')")
        assert await cell.evaluate("e => getComputedStyle(e).textAlign") == "end"
        await tab.sees("[aria-label=done]")
        await expect(tab.page.locator(".thoughts > div")).to_be_hidden()
        await tab.page.click(".thoughts summary")
        await tab.sees(".thoughts > div:text-is('First <b>this</b>.')")


async def test_a_footnote_leads_there_and_back_in_its_own_text(
    tmp_path: Path, browser: Browser
) -> None:
    script = [Say("One[^1].\n\n[^1]: First."), Say("Two[^1].\n\n[^1]: Second.")]
    async with serving(tmp_path, script) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.asks("a", "One")
        await tab.asks("b", "Two")
        await tab.page.click(".turn[data-turn=t2] sup a")
        second = tab.page.locator(".turn[data-turn=t2] .footnotes a")
        await expect(second).to_be_focused()
        await second.click()
        await expect(tab.page.locator(".turn[data-turn=t2] sup a")).to_be_focused()
        assert tab.page.url.endswith("#main")


async def test_a_text_from_right_to_left_runs_so(tmp_path: Path, browser: Browser) -> None:
    script = [Say("مرحبا بك\n\n- عنصر\n\nIn English.\n\n```py\n1\n```")]
    async with serving(tmp_path, script) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.asks("سلام", "English")
        direction = "e => getComputedStyle(e).direction"
        for selector, way in (
            (".question", "rtl"),
            (".text p:has-text('مرحبا')", "rtl"),
            (".text ul", "rtl"),
            (".text p:has-text('English')", "ltr"),
            (".text pre", "ltr"),
        ):
            assert await tab.page.locator(selector).evaluate(direction) == way, selector


async def test_of_an_answer_that_grows_only_the_last_block_is_drawn_again(
    tmp_path: Path, browser: Browser
) -> None:
    """What somebody has selected in the first paragraph stays selected."""
    paragraphs = [f"Paragraph {number}.\n\n" for number in range(300)]
    script = [Say("".join(paragraphs), pieces=300)]
    async with serving(tmp_path, script) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await tab.page.evaluate(
            """() => {
              window.drawn = [];
              new MutationObserver(() => {
                const first = document.querySelector(".writing p");
                if (first && first !== window.drawn.at(-1)) window.drawn.push(first);
              }).observe(document.querySelector("#log"), { childList: true, subtree: true });
            }"""
        )
        await tab.asks("Go on.", "Paragraph 299.")
        firsts = await tab.page.evaluate("window.drawn.map((p) => p.textContent)")
        assert firsts.count("Paragraph 0.") == 1
        assert len(firsts) <= 2  # the first may have been half a paragraph


async def test_a_page_that_reloads_in_the_middle_of_an_answer_shows_all_of_it(
    tmp_path: Path, browser: Browser
) -> None:
    paragraphs = "".join(f"Paragraph {number}.\n\n" for number in range(400))
    async with (
        serving(tmp_path, [Say(paragraphs, pieces=400)]) as site,
        browsing(browser) as tab,
    ):
        await tab.opens(site.url)
        asking = asyncio.create_task(site.says("Go on."))
        await tab.sees(".writing p")
        await tab.page.reload()
        await asking
        await tab.sees(".turn[data-turn=t1] p:text-is('Paragraph 399.')")
        await expect(tab.page.locator("#log p:text-is('Paragraph 0.')")).to_have_count(1)


async def test_the_end_of_a_long_chat_is_in_sight_at_once(tmp_path: Path, browser: Browser) -> None:
    async with (
        serving(tmp_path, echo, {"agent_max_context_turns": 100}) as site,
        browsing(browser, viewport=PHONE) as tab,
    ):
        for number in range(12):
            await site.says(f"{number} " + "many words\n\n" * 30)
        await tab.page.goto(f"{site.url}/#main")
        footer = tab.page.locator(".turn[data-turn=t12] footer")
        await expect(footer).to_be_in_viewport()
