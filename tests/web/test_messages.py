"""The messages in the middle of the page, in a real browser."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Locator, Route, expect

from bot.received import key_of
from channels.message import Address
from memory.messages import Message
from tests.fakes.openai_server import Answer, Fail, Received, Say, echo_in_bold
from tests.waiting import PATIENCE
from tests.web.browser import PHONE, Tab, browsing, needs_chromium
from tests.web.conftest import Model
from tests.web.site import Site, serving

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
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


async def test_what_is_written_is_well_set(tab: Tab, model: Model) -> None:
    script = [Say(WELL_SET, reasoning="First <b>this</b>.")]
    model.script = script
    await tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
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


async def test_formulas_have_a_font_of_maths_and_nothing_else_loads_one(
    site: Site, tab: Tab, model: Model
) -> None:
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    column = r" \\ ".join("abcd")
    formula = rf"$$\begin{{pmatrix}} {column} \end{{pmatrix}}$$"
    model.script = [Say("No formula."), Say(formula)]
    await tab.asks("one", "No formula.")
    assert not [url for url in asked if url.endswith(".woff2")]
    await tab.writes("two")
    await tab.sees(".turn[data-turn=t2] math")
    await tab.page.wait_for_function("""() => {
        const formula = document.querySelector(".turn[data-turn=t2] math");
        const [bracket, matrix] = ["mo", "mtable"].map(name => formula.querySelector(name));
        return bracket.getBoundingClientRect().height > 0.8 * matrix.getBoundingClientRect().height;
    }""")


async def test_a_footnote_leads_there_and_back_in_its_own_text(
    site: Site, tab: Tab, model: Model
) -> None:
    model.script = [Say("One[^1].\n\n[^1]: First."), Say("Two[^1].\n\n[^1]: Second.")]
    await tab.asks("a", "One")
    await tab.asks("b", "Two")
    await tab.page.click(".turn[data-turn=t2] sup a")
    second = tab.page.locator(".turn[data-turn=t2] .footnotes a")
    await expect(second).to_be_focused()
    await second.click()
    await expect(tab.page.locator(".turn[data-turn=t2] sup a")).to_be_focused()
    assert tab.page.url.endswith(f"#/{site.session}")


async def test_a_heading_is_reached_by_a_link_of_its_own_text(
    site: Site, tab: Tab, model: Model
) -> None:
    contents = "[Next](#2-so-then) · [Größe](#gr%C3%B6%C3%9Fe) · [None](#fresh)"
    sections = "# 2. So, then!\n\nOne.\n\n# Größe\n\n" + "Two.\n\n" * 60
    model.script = [Say(f"{contents}\n\n{sections}")] * 2
    await tab.asks("a", "Next")
    await tab.asks("b", "Next")
    answer = tab.page.locator(".turn[data-turn=t2]")
    for link, heading in (("Next", "2. So, then!"), ("Größe", "Größe")):
        await answer.get_by_role("link", name=link, exact=True).click()
        await expect(answer.get_by_role("heading", name=heading)).to_be_focused()
    await answer.get_by_role("link", name="None").click()
    assert tab.page.url.endswith(f"#/{site.session}")
    assert len(tab.page.context.pages) == 1


async def test_who_reads_further_up_stays_there_when_all_is_drawn_anew(
    site: Site, tab: Tab, model: Model
) -> None:
    model.script = lambda _: Say("Some words. " * 300)
    for number in range(5):
        await site.says(f"Question {number}", site.session)
    await tab.page.reload()
    await tab.sees(".turn[data-turn=t5]")
    second = tab.page.locator(".turn[data-turn=t2]")
    await second.evaluate("one => { one.scrollIntoView(); one.dataset.old = true; }")
    await tab.sees("#end")
    top = "one => one.getBoundingClientRect().top"
    before = await second.evaluate(top)
    await site.commands("/fork", site.session)
    await expect(tab.page.locator(".turn[data-turn=t2]:not([data-old])")).to_have_count(1)
    await tab.sees("#end")
    assert await second.evaluate(top) == pytest.approx(before, abs=2)


async def test_the_end_stays_in_sight_when_the_message_box_grows_or_the_window_shrinks(
    site: Site, tab: Tab, model: Model
) -> None:
    model.script = lambda _: Say("Some words. " * 300)
    for number in range(3):
        await site.says(f"Question {number}", site.session)
    await tab.page.reload()
    at_end = """() => {
        const log = document.querySelector("#log");
        const rest = log.scrollHeight - log.scrollTop - log.clientHeight;
        return rest < 2 && log.querySelector("[data-turn=t3]") !== null;
    }"""
    await tab.page.wait_for_function(at_end)
    await tab.page.fill("#text", "line\n" * 12)
    await tab.page.wait_for_function(at_end)
    await tab.page.press("#text", "Enter")  # the message box is small again
    await tab.sees(".turn[data-turn=t4] .text")
    await tab.page.wait_for_function(at_end)
    await tab.page.set_viewport_size({"width": 900, "height": 500})
    await tab.page.wait_for_function(at_end)


async def test_a_text_from_right_to_left_runs_so(tab: Tab, model: Model) -> None:
    script = [Say("مرحبا بك\n\n- عنصر\n\nIn English.\n\n```py\n1\n```")]
    model.script = script
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
    asked = await tab.page.locator(".question").bounding_box()
    told = await tab.page.locator(".turn").bounding_box()
    assert asked
    assert told
    assert asked["x"] + asked["width"] == told["x"] + told["width"], "at its own side still"


async def test_of_an_answer_that_grows_only_the_last_block_is_drawn_again(
    tab: Tab, model: Model
) -> None:
    """Select a text in the first paragraph; it stays selected."""
    paragraphs = [f"Paragraph {number}.\n\n" for number in range(300)]
    script = [Say("".join(paragraphs), pieces=300, gate=(rest := asyncio.Event()))]
    model.script = script
    await tab.page.evaluate(
        """() => {
          window.drawn = [];
          new MutationObserver(() => {
            const first = document.querySelector(".writing p");
            if (first && first !== window.drawn.at(-1)) window.drawn.push(first);
          }).observe(document.querySelector("#log"), { childList: true, subtree: true });
        }"""
    )
    asking = asyncio.create_task(tab.asks("Go on.", "Paragraph 299."))
    await tab.sees(".writing p")
    rest.set()
    await asking
    firsts = await tab.page.evaluate("window.drawn.map((p) => p.textContent)")
    assert firsts.count("Paragraph 0.") == 1
    assert len(firsts) <= 2  # the first may have been half a paragraph


async def test_what_a_model_thinks_grows_in_sight_and_is_folded_when_it_answers(
    site: Site, tab: Tab, model: Model
) -> None:
    thinking, answering = asyncio.Event(), asyncio.Event()
    script = [
        Say("Four.", reasoning="Two and <b>two</b>. So it is four.", pieces=1, gate=thinking),
        Say("It is " + "so " * 40, reasoning="Once more.", pieces=40, gate=answering),
    ]
    model.script = script
    await tab.writes("2+2?")
    await tab.sees(".pending .thoughts[open] summary:text-is('Thinking…')")
    await tab.sees(".pending .thoughts > div:has-text('Two and <b>two</b')")
    await tab.page.reload()
    await tab.sees(".pending .thoughts[open] > div:has-text('Two and <b>two</b')")
    thinking.set()
    await tab.sees(".turn[data-turn=t1] .thoughts:not([open]) summary")
    await tab.page.click(".thoughts summary")
    await tab.sees(".thoughts > div:text-is('Two and <b>two</b>. So it is four.')")
    await tab.writes("Sure?")
    await tab.sees(".pending .text:has-text('It is so')")
    await tab.sees(".pending .thoughts:not([open]) summary:text-is('Reasoning')")
    await tab.page.click(".pending .thoughts summary")
    answering.set()
    await tab.sees(".turn[data-turn=t2]")
    sent = str(site.server.turns[-1].body)
    assert "So it is four" not in sent
    assert "Four." in sent


async def test_the_end_of_a_long_chat_is_in_sight_at_once(tmp_path: Path, browser: Browser) -> None:
    async with (
        serving(tmp_path, echo_in_bold, {"agent_max_context_turns": 100}) as site,
        browsing(browser, viewport=PHONE) as tab,
    ):
        for number in range(12):
            await site.says(f"{number} " + "many words\n\n" * 30)
        await tab.page.goto(f"{site.url}/#main")
        footer = tab.page.locator(".turn[data-turn=t12] footer")
        await expect(footer).to_be_in_viewport()


# --- under an answer ---------------------------------------------------------------------------


def row(tab: Tab, turn: str, name: str) -> Locator:
    """Return a control below a turn."""
    under = tab.page.locator(f".turn[data-turn={turn}]")
    return under.get_by_role("button", name=name, exact=True)


async def test_under_an_answer_are_its_cost_and_what_can_be_done_with_it(tab: Tab) -> None:
    await tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await tab.asks("one", "one")
    await tab.sees(".turn[data-turn=t1] .state:has-text('gpt-4o-mini')")
    await expect(tab.page.locator(".turn .state")).to_contain_text("$0.000")
    await row(tab, "t1", "Copy the answer").click()
    assert await tab.copied("**re") == "**re:** one"
    await row(tab, "t1", "Pin").click()
    await tab.shows_state("t1", "pinned")
    await expect(row(tab, "t1", "Pin")).to_have_attribute("aria-pressed", "true")
    await row(tab, "t1", "Pin").click()
    await tab.shows_state("t1", "in context")
    await tab.chooses_more("t1", "Quote")
    await expect(tab.page.locator("#text")).to_have_value("> re: one\n\n")
    await tab.page.fill("#text", "")
    await row(tab, "t1", "Drop from the context").click()
    await tab.shows_state("t1", "dropped")
    await expect(row(tab, "t1", "Pin")).to_be_hidden()
    assert await tab.page.locator(".card").count() == 0


async def test_a_question_is_asked_again_and_arrows_lead_from_answer_to_answer(
    tab: Tab, model: Model
) -> None:
    answers = iter(range(1, 9))

    def answer(request: Received) -> Answer:
        return Say(f"Answer {next(answers)} of {request.body['model']}")

    model.script = answer
    await tab.asks("one", "Answer 1")
    await tab.asks("two", "Answer 2")
    await row(tab, "t2", "Retry in a new branch").click()
    await tab.sees(".turn[data-turn=t2] .text:has-text('Answer 3')")
    await expect(tab.page.locator("text=Answer 2")).to_have_count(0)
    await tab.sees(".variants:has-text('2/2')")
    await tab.chooses_more("t2", "Retry with another model")
    await tab.page.fill("#dialog input", "fake")
    await tab.page.click("#dialog .models button")
    await tab.sees(".turn[data-turn=t2] .text:has-text('Answer 4 of fake-model')")
    await tab.sees(".variants:has-text('3/3')")
    await row(tab, "t2", "Previous").click()
    await tab.sees(".variants:has-text('2/3')")
    await row(tab, "t2", "Previous").click()
    await tab.sees(".turn[data-turn=t2] .text:has-text('Answer 2 of gpt-4o-mini')")
    await tab.sees(".variants:has-text('1/3')")
    await expect(row(tab, "t2", "Previous")).to_be_disabled()
    await row(tab, "t2", "Next").click()
    await tab.sees("text=Answer 3")
    await expect(tab.page.locator(".turn[data-turn]")).to_have_count(2)


async def test_a_question_is_edited_where_it_stands(tab: Tab) -> None:
    await tab.asks("What about Lisbn?", "Lisbn")
    await row(tab, "t1", "Edit the question").click()
    field = tab.page.get_by_role("textbox", name="The question")
    await expect(field).to_have_value("What about Lisbn?")
    await tab.presses("Cancel", ".field")
    await tab.sees(".question:has-text('Lisbn')")
    await row(tab, "t1", "Edit the question").click()
    await field.fill("What about Lisbon?")
    await tab.presses("Ask", ".field")
    await tab.sees(".turn[data-turn=t1] .text:has-text('Lisbon?')")
    await expect(tab.page.locator("#log >> text=Lisbn")).to_have_count(0)
    await tab.sees(".variants:has-text('2/2')")
    await row(tab, "t1", "Previous").click()
    await tab.sees(".question:has-text('Lisbn')")


@pytest.mark.parametrize(
    ("screen", "focused"),
    [({}, "#text"), ({"viewport": PHONE, "has_touch": True, "is_mobile": True}, "#log")],
    ids=["keyboard", "touch"],  # whose keyboard would hide the chat
)
async def test_what_failed_says_why_and_is_tried_again_in_its_place(
    tmp_path: Path, browser: Browser, screen: dict[str, Any], focused: str
) -> None:
    is_mended = False

    def model(request: Received) -> Answer:
        return echo_in_bold(request) if is_mended else Fail(400, "no")

    async with serving(tmp_path, model) as site, browsing(browser, **screen) as tab:
        await tab.opens_hidden(site.url)
        await tab.writes("one")
        await tab.sees(".ending.failed:has-text('error 400')")
        said = await tab.page.locator(".ending.failed p").inner_text()
        assert not said.startswith("(")
        is_mended = True
        await tab.presses("Retry")
        await tab.sees(".turn[data-turn=t1] .text:has-text('re: one')")
        await expect(tab.page.locator(".ending")).to_have_count(0)
        await expect(tab.page.locator(focused)).to_be_focused()


async def test_who_answers_is_in_sight_and_is_changed_here_or_everywhere(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        await expect(tab.page.locator("#model")).to_have_text("gpt-4o-mini")
        await tab.page.click("#model")
        await tab.sees("#dialog .models li:has-text('128k tokens'):has-text('$0.15 input')")
        await tab.page.get_by_role("button", name="fake-model").click()
        await expect(tab.page.locator("#model")).to_have_text("fake-model")
        await tab.page.click("#model")
        await tab.page.select_option("#dialog select", label="everywhere")
        await tab.page.fill("#dialog input", "gpt-9-tiny")
        await tab.page.press("#dialog input", "Enter")
        await tab.sees("#notice:has-text('this one stays with fake-model')")
        await tab.opens(site.url, "other")
        await expect(tab.page.locator("#model")).to_have_text("gpt-9-tiny")


async def test_a_note_below_an_answer_is_shown_there_with_what_it_quotes(
    site: Site, tab: Tab
) -> None:
    for text in ("I like red", "I like blue"):
        await tab.asks(text, text)
    await tab.writes("/without t1")
    note = tab.page.locator(".turn[data-turn=t2] .asides")
    await expect(note.locator("> p")).to_contain_text("With it, in branch 1, it was:")
    await expect(note.locator("blockquote")).to_have_text("re: I like blue")


# --- where the context was cut -----------------------------------------------------------------


async def test_a_cut_is_a_line_across_the_chat_that_shows_edits_and_undoes_it(
    site: Site, tab: Tab, model: Model
) -> None:
    def answer(request: Received) -> Answer:
        return echo_in_bold(request) if request.is_turn else Say("They talked.")

    model.script = answer
    for number in range(5):
        await site.says(f"{number}: {'many words ' * 50}")
    await site.commands("/context compact t1-t2")
    await tab.sees(".cut:has-text('t1 to t2 are summarised')")
    line = tab.page.locator(".turn[data-turn=t2] + .cut")
    await line.get_by_role("button", name="Show").click()
    await tab.sees(".cut .card:has-text('They talked.')")
    await line.get_by_role("button", name="Edit").first.click()
    field = tab.page.get_by_label("Text for /context summary edit s1")
    await field.fill("They talked of Lisbon.")
    await tab.presses("Save", ".cut")
    await tab.sees(".card:has-text('Summary s2 is used')")
    # The line's undo restores the cut turns, and discards the edit with it.
    await tab.page.locator(".cut > p").get_by_role("button", name="Undo").click()
    await tab.shows_state("t1", "in context")
    await expect(tab.page.locator(".cut")).to_have_count(0)
    await site.commands("/context clear")
    await tab.sees(".turn[data-turn=t5] + .cut:has-text('t1 to t5 are cleared')")
    await expect(tab.page.locator(".cut")).not_to_contain_text("summarised")


async def test_the_states_of_all_turns_are_true_and_all_can_be_listed(
    tmp_path: Path, browser: Browser
) -> None:
    turns = [[f"question {n}", f"answer {n}"] for n in range(1, 141)]
    async with serving(tmp_path, echo_in_bold, {"agent_max_context_turns": 500}) as site:
        conversation = await site.app.conversations.get(key_of(Address("web", "main")))
        await conversation.turns.append(
            [[Message("user", asked), Message("assistant", told)] for asked, told in turns]
        )
        await site.commands("/context free t1-t100")
        async with browsing(browser) as tab:
            await tab.opens(site.url)
            await expect(tab.page.locator(".turns li")).to_have_count(30)
            await tab.presses("Show older turns (110)")
            await expect(tab.page.locator(".turns li")).to_have_count(130)
            await tab.presses("Show older turns (10)")
            await expect(tab.page.locator(".turns li")).to_have_count(140)
            await tab.scrolls_to("#log", ".turn[data-turn=t100]", is_up=True)
            await tab.sees(".turn[data-turn=t100].out + .cut:has-text('t1 to t100')")
            await expect(tab.page.locator(".turn[data-turn=t101].out")).to_have_count(0)
            await tab.sees(".turn.out .state:has-text('summarised')")


# --- cards -------------------------------------------------------------------------------------


async def test_cards_are_put_away_notices_go_and_the_context_is_in_its_panel(
    site: Site, browser: Browser
) -> None:
    async with browsing(browser, viewport=PHONE) as tab:
        await tab.opens_hidden(site.url, site.session)
        await tab.asks("one", "one")
        await tab.writes("/version")
        await tab.sees(".card")
        await tab.presses("Close", ".card")
        await expect(tab.page.locator(".card")).to_have_count(0)
        await tab.writes("/context")
        await tab.sees("#panel .headline")
        await expect(tab.page.locator(".card")).to_have_count(0)
        await tab.presses("Close context")
        await tab.page.clock.install()
        await tab.chooses_more("t1", "Branch off from here")
        await tab.sees("#notice:has-text('You are in branch 2')")
        await tab.page.clock.run_for(10_000)
        await expect(tab.page.locator("#notice")).to_have_text("")


async def test_an_empty_conversation_offers_what_to_begin_with(tab: Tab) -> None:
    await tab.finds_no_fault()
    context = tab.page.get_by_role("button", name="Show the context", exact=True)
    await expect(context).to_be_hidden()
    await tab.page.set_viewport_size(PHONE)
    await tab.finds_no_fault()
    await context.click()
    await tab.sees("#panel .headline")
    await tab.page.keyboard.press("Escape")
    await tab.presses("Choose a model", "#log")
    await tab.sees("#dialog .models")
    await tab.page.keyboard.press("Escape")
    await tab.presses("What can you do?", "#log")
    await tab.sees(".card .line:text-is('/help')")
    await expect(tab.page.locator(".greeting")).to_have_count(0)
    # A long card is shown from its beginning.
    await expect(tab.page.locator(".card .line:text-is('/help')")).to_be_in_viewport()
    heights = "['.card', '#log'].map(one => document.querySelector(one).offsetHeight)"
    card, log = await tab.page.evaluate(heights)
    assert card > log


async def test_who_has_scrolled_up_gets_back_to_the_end(site: Site, tab: Tab) -> None:
    for number in range(3):
        await site.says(f"{number} " + "many words\n\n" * 30)
    await tab.page.reload()
    await tab.sees(".turn[data-turn=t3] footer")
    await expect(tab.page.locator("#end")).to_be_hidden()
    await tab.page.evaluate("document.querySelector('#log').scrollTop = 0")
    await tab.presses("To the end")
    await expect(tab.page.locator(".turn[data-turn=t3] footer")).to_be_in_viewport()
    await expect(tab.page.locator("#end")).to_be_hidden()


# --- what was done: requests, receipts, the memory ----------------------------------------------


async def test_a_cut_that_waits_has_its_summary_in_a_field_to_change_and_approve(
    tmp_path: Path, browser: Browser
) -> None:
    def model(request: Received) -> Answer:
        return echo_in_bold(request) if request.is_turn else Say("They talked.")

    settings = {"agent_max_context_turns": 3, "context": {"compaction_approval": "ask"}}
    async with serving(tmp_path, model, settings) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        for number in range(4):
            await tab.asks(f"{number}: {'many words ' * 50}", f"{number}: many")
        field = tab.page.get_by_role("textbox", name="Summary s1")
        await expect(field).to_have_value("They talked.")
        await field.fill("They talked of Lisbon.")
        await tab.presses("Approve", ".card")
        await tab.shows_state("t1", "summarised")
        await expect(tab.page.get_by_role("button", name="Approve")).to_have_count(0)
        await expect(field).to_be_disabled()
        await tab.asks("and now?", "and now?")
        assert "They talked of Lisbon." in str(site.server.turns[-1].body["messages"])


async def test_no_that_is_pressed_before_the_field_has_loaded_is_answered(
    tmp_path: Path, browser: Browser
) -> None:
    settings = {"agent_max_context_turns": 3, "context": {"compaction_approval": "ask"}}
    async with serving(tmp_path, echo_in_bold, settings) as site, browsing(browser) as tab:
        answered = asyncio.Event()
        loaded = asyncio.Event()

        async def hold_the_field(route: Route) -> None:
            if "summary edit" not in (route.request.post_data or ""):
                await route.continue_()
                return
            response = await route.fetch()
            await answered.wait()
            await route.fulfill(response=response)
            loaded.set()

        await tab.page.route("**/commands/context", hold_the_field)
        await tab.opens(site.url)
        for number in range(4):
            await tab.asks(f"{number}: {'many words ' * 50}", f"{number}: many")
        await tab.presses("Decline", ".card")
        answered.set()
        async with asyncio.timeout(PATIENCE):
            await loaded.wait()
        await tab.sees(".card :text('Nothing is compacted.')")
        await expect(tab.page.get_by_role("button", name="Approve")).to_have_count(0)
        await expect(tab.page.get_by_role("textbox", name="Summary s1")).to_have_count(0)


async def test_requests_are_a_timeline_with_their_differences(tab: Tab) -> None:
    await tab.asks("one", "one")
    await tab.asks("two", "two")
    await tab.chooses_tab("Requests")
    await expect(tab.page.locator(".requests li")).to_have_count(2)
    await tab.presses("Compare r2 with r1")
    await tab.sees("#dialog .code .added:has-text('t2 user')")
    await tab.presses("Close", "#dialog")
    await tab.presses("Show r1")
    await tab.sees("#dialog .explored:has-text('byte for byte what was sent')")
    await tab.presses("As sent (JSON)", "#dialog")
    await tab.sees("#dialog .code:has-text('stream_options')")
    await tab.presses("Back", "#dialog")
    await tab.sees("#dialog .explored:has-text('byte for byte what was sent')")


async def test_a_receipt_names_what_is_missing_and_adds_it(
    site: Site, tab: Tab, model: Model
) -> None:
    def answer(request: Received) -> Answer:
        return echo_in_bold(request) if request.is_turn else Say("- They talked of a code.")

    model.script = answer
    for number in range(3):
        await site.says(f"The code of locker {number} is 47{number}1. {'many words ' * 40}")
    await tab.presses("Compact")
    await tab.page.click("#preface summary")
    await tab.sees("#preface li:has-text('They talked')")  # Markdown, as in an answer
    await tab.page.click(".receipt summary")
    await site.commands("/context pin t3")  # the panel is redrawn
    await tab.shows_state("t3", "pinned")
    await tab.presses("Add 4711", ".receipt")
    await tab.sees("#preface:has-text('4711')")


async def test_the_memory_is_edited_and_its_versions_are_compared(
    tmp_path: Path, browser: Browser
) -> None:
    async with serving(tmp_path, echo_in_bold) as site, browsing(browser) as tab:
        await site.commands("/remember Ann lives in Lisbon.")
        await tab.opens(site.url)
        await tab.chooses_tab("Memory")
        await tab.sees("#memory:has-text('Ann lives in Lisbon.')")
        await tab.presses("Memory: Edit")
        field = tab.page.get_by_role("textbox", name="Text for /memory edit")
        await field.fill("- Ann lives in Porto.")
        await tab.presses("Save", "#dialog")
        await tab.sees("#dialog .explored:has-text('Accepted.')")
        await tab.presses("Close", "#dialog")
        await tab.sees("#memory:has-text('Ann lives in Porto.')")
        await tab.writes("/memory diff v2")
        await tab.sees(".card .code .removed:has-text('Lisbon')")


async def test_axe_finds_nothing_in_what_stands_between_and_over_the_messages(
    tmp_path: Path, browser: Browser
) -> None:
    def model(request: Received) -> Answer:
        if request.is_summary:
            return Say("They talked.")
        is_wrong = "fail" in str(request.body["messages"][-1]["content"])
        return Fail(400, "no") if is_wrong else Say(WELL_SET, reasoning="Hm.")

    async with serving(tmp_path, model) as site, browsing(browser) as tab:
        await tab.opens(site.url)
        for question in ("one", "two", "three", "fail"):
            await site.says(question)
        await site.commands("/context compact t1")
        await site.commands("/context drop t2")
        await tab.sees(".cut")
        await tab.presses("Show", ".cut")
        await tab.sees(".cut .card")
        await row(tab, "t3", "Edit the question").click()
        await tab.sees(".field")
        await tab.chooses_tab("Requests")
        for scheme in SCHEMES:
            await tab.page.emulate_media(color_scheme=scheme)
            await tab.finds_no_fault()
        await tab.page.click("#model")
        await tab.sees("#dialog .models li")
        await tab.finds_no_fault()
        await tab.presses("Cancel", "#dialog")
        await tab.presses("Show r1")
        await tab.sees("#dialog .explored table, dialog .explored p")
        await tab.finds_no_fault()
