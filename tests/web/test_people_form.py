"""People and logins on the page: access, invitation links, passwords, signing out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.web.browser import PHONE, Tab, browsing, needs_chromium
from tests.web.site import Site, serving
from tests.web.test_people import OWNER, PASSWORD, TOKEN, echo

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="session")]


async def sign_in_owner(tab: Tab, site: Site) -> None:
    await tab.page.goto(f"{site.url}/#main")
    await tab.page.fill("#dialog [name=password]", TOKEN)
    await tab.presses("Sign in", "#dialog")
    await tab.sees("#panel .headline")
    tab.faults.clear()  # from requests before that
    await tab.opens_settings("People")


async def test_an_owner_invites_somebody_who_comes_in_and_is_shut_out_again(
    tmp_path: Path, browser: Browser
) -> None:
    async with (
        serving(tmp_path, echo, token=TOKEN) as site,
        browsing(browser) as boss,
        browsing(browser) as ann,
    ):
        await boss.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await sign_in_owner(boss, site)
        await boss.sees("#people :text-is('Only you.')")
        await boss.page.fill("#people .inviting input[type=text]", "ann")
        await boss.presses("Invite", "#people")
        await boss.presses("Copy the link", "#people")
        link = await boss.copied(f"{site.url}/#join=")
        await boss.finds_no_fault()

        await ann.page.goto(link)
        await ann.page.fill("#dialog [name=password]", PASSWORD)
        await ann.presses("Join", "#dialog")
        await ann.asks("Hello", "1: Hello")

        await boss.opens_settings("People")
        row = boss.page.locator("#people ul[aria-label='People with access'] li")
        await expect(row).to_contain_text("ann")
        await expect(row).to_contain_text("browsers signed in: 1")
        await boss.presses("Revoke web/ann", "#people")
        await boss.presses("Revoke", "#dialog")
        await boss.sees("#people :text-is('Only you.')")
        assert (await site.get("/api/sessions", headers=OWNER))[0] == 200
        await ann.page.reload()
        await ann.sees("#dialog:has-text('Sign in')")
        ann.faults.clear()  # from requests before it noticed that it was signed out


async def test_somebody_signs_another_browser_out_and_changes_their_password(
    tmp_path: Path, browser: Browser
) -> None:
    async with (
        serving(tmp_path, echo, token=TOKEN) as site,
        browsing(browser, viewport=PHONE) as ann,
    ):
        path = "/api/sessions/main/commands/invite"
        _, reply = await site.post(path, {"text": "ann"}, headers=OWNER)
        link = site.url + "/#join=" + reply["data"]["link"].partition("#join=")[2]
        await ann.page.goto(link)
        await ann.page.fill("#dialog [name=password]", PASSWORD)
        await ann.presses("Join", "#dialog")
        await expect(ann.page.locator("#share")).not_to_have_text("Context")
        await site.post("/api/login", {"name": "ann", "password": PASSWORD})
        await ann.opens_settings("People")
        await expect(ann.page.locator("#people li")).to_have_count(2)
        await ann.sees("#people li:has-text('Chrome on Linux'):has-text('This browser')")
        assert not await ann.page.locator("#people .inviting").count(), "ann is no owner"
        await ann.finds_no_fault()
        await ann.presses("Sign out 2", "#people")
        await expect(ann.page.locator("#people li")).to_have_count(1)
        assert (await site.get("/api/sessions"))[0] == 401

        fields, new = ann.page.locator("#people .passwords input"), "a new horse battery"
        await fields.first.fill("not my password")
        await fields.last.fill(new)
        await ann.presses("Change password", "#people")
        await ann.sees("#people .wrong:has-text('not the password that you have now')")
        await fields.first.fill(PASSWORD)
        await ann.presses("Change password", "#people")
        await ann.sees("#preferences .said:has-text('Your password is changed.')")
        ann.faults.clear()  # the browser logs each 403
        login = {"name": "ann", "password": new}
        assert (await site.post("/api/login", login))[0] == 200


@pytest.mark.parametrize("is_sent", [True, False], ids=["sent", "typed"])
async def test_what_is_written_before_a_conversation_is_open_is_not_lost(
    tmp_path: Path, browser: Browser, is_sent: bool
) -> None:
    late = asyncio.Event()

    async def hold(route: Route) -> None:
        await late.wait()
        await route.continue_()

    async with serving(tmp_path, echo, token=TOKEN) as site, browsing(browser) as ann:
        path = "/api/sessions/main/commands/invite"
        _, reply = await site.post(path, {"text": "ann"}, headers=OWNER)
        await ann.page.route("**/api/me", hold)
        await ann.page.goto(site.url + "/#join=" + reply["data"]["link"].partition("#join=")[2])
        await ann.presses("Join", "#dialog")
        await ann.page.fill("#text", "Hello")
        if is_sent:
            await ann.page.press("#text", "Enter")
        late.set()
        await ann.sees("#panel .headline")
        if not is_sent:
            await expect(ann.page.locator("#text")).to_have_value("Hello")
            await ann.page.press("#text", "Enter")
        await ann.sees("#log .turn[data-turn] .text:has-text('1: Hello')")
        await expect(ann.page.locator("#text")).to_have_value("")
