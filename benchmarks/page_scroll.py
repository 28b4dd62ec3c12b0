"""The long tasks of a chat of 1,000 turns on the page, in a real browser.

`python -m benchmarks.page_scroll [TURNS]` prints the time until the first content is visible (in a
browser with an empty cache), and the tasks of over 50 ms (counted by the browser's
PerformanceObserver) in these steps: the chat is opened, all of its older turns are fetched, it is
scrolled from one end to the other, and the panel is drawn again. It also prints the CPU of the
page's main thread, which a busy machine changes less. Needs Chromium.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.async_api import CDPSession, Page, async_playwright

from bot.received import key_of
from channels.message import Address
from memory.messages import Message
from tests.fakes.openai_server import Say
from tests.web.browser import CHROMIUM
from tests.web.site import Site, serving

ANSWER = """Answer {number}, with *words* and `code`.

```python
def answer(number: int = {number}) -> str:
    return f"It is {{number}}"  # a remark
```

| what | how many |
|:-----|---------:|
| turns | {number} |

- [x] one
- [ ] two

So that $x_{number} = \\frac{{1}}{{2}}$, and some more words to fill a few lines of the page with.
"""
WATCH = """() => {
  window.long = [];
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.long.push(Math.round(duration));
  }).observe({ type: "longtask", buffered: true });
}"""
SCROLL = """async (step) => {
  const log = document.querySelector("#log");
  log.scrollTop = log.scrollHeight;
  let frames = 0;
  for (const way of [-step, step]) {
    for (let last = -1; last !== log.scrollTop; frames += 1) {
      last = log.scrollTop;
      log.scrollTop += way;
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    }
  }
  return frames;
}"""
PAINT = """() => [
  performance.getEntriesByName("first-contentful-paint")[0].startTime,
  [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .reduce((sum, one) => sum + one.transferSize, 0),
]"""
STEP = 300  # pixels, as with a fast wheel


async def fill(site: Site, turns: int) -> None:
    conversation = await site.app.conversations.get(key_of(Address("web", "main")))
    said = [
        [Message("user", f"Question {n}?"), Message("assistant", ANSWER.format(number=n))]
        for n in range(1, turns + 1)
    ]
    await conversation.turns.append(said)


async def cpu_of(session: CDPSession) -> float:
    """Return the milliseconds of CPU that the page's main thread took so far."""
    found = (await session.send("Performance.getMetrics"))["metrics"]
    return 1e3 * next(float(one["value"]) for one in found if one["name"] == "TaskDuration")


class Clock:
    """The clock of a step, in the page."""

    def __init__(self, page: Page, session: CDPSession) -> None:
        self._page, self._session, self._cpu = page, session, 0.0

    async def report(self, what: str, began: float, frames: int = 0) -> None:
        await self._page.wait_for_timeout(500)
        cpu = await cpu_of(self._session)
        took, self._cpu = cpu - self._cpu, cpu
        long: list[int] = await self._page.evaluate("window.long.splice(0)")
        worst = f", the longest {max(long)} ms" if long else ""
        each = f", {took / frames:.1f} ms for each of {frames} steps" if frames else ""
        print(
            f"{what}: {time.monotonic() - began:.1f} s, {took:.0f} ms of CPU{each}; "
            f"{len(long)} tasks over 50 ms{worst}"
        )


async def measure(page: Page, site: Site, turns: int) -> None:
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    clock = Clock(page, session)
    await page.add_init_script(f"({WATCH})()")
    began = time.monotonic()
    await page.goto(f"{site.url}/#main")
    await page.wait_for_selector(f".turn[data-turn=t{turns}] .state:not(:empty)")
    await clock.report("opened", began)
    painted, size = await page.evaluate(PAINT)
    print(f"  first paint after {painted:.0f} ms, of a page of {size / 1000:.0f} KB on the wire")
    began = time.monotonic()
    while await page.locator("#log .older").count():
        shown = await page.locator("#log .turn").count()
        await page.evaluate("document.querySelector('#log .older').click()")
        await page.wait_for_function(
            "n => document.querySelectorAll('#log .turn').length > n", arg=shown
        )
    await clock.report(f"all {turns} turns fetched", began)
    began = time.monotonic()
    frames = await page.evaluate(SCROLL, STEP)
    await clock.report("scrolled there and back", began, frames)
    began = time.monotonic()
    await site.commands(f"/context pin t{turns}")
    await page.wait_for_selector(f".turn[data-turn=t{turns}] [aria-pressed=true]")
    await clock.report("a turn pinned", began)


async def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    settings = {"agent_max_context_turns": 1_000, "context": {"strategy": "full"}}
    with TemporaryDirectory() as folder:
        async with (
            serving(Path(folder), lambda _: Say("Well."), settings) as site,
            async_playwright() as playwright,
        ):
            await fill(site, turns)
            browser = await playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox"]
            )
            try:
                await measure(
                    await browser.new_page(viewport={"width": 1440, "height": 900}), site, turns
                )
            finally:
                await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
