"""Several people on the page: single-use invitation links, passwords, separate conversations; and
signing in and out, everywhere and at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from channels.guess_limit import OF_ONE, TRIES
from main import main
from plugins.accounts import logins
from plugins.accounts.feature import AccountsFeature
from plugins.accounts.logins import INVITED, KEPT, ApiKeys, PageLogins
from tests.fakes.openai_server import Received, Say
from tests.waiting import PATIENCE
from tests.web.site import Site, client_session, events_of, serving
from tests.whole.test_access import afar

TOKEN = "a long random text"
OWNER = {"Authorization": f"Bearer {TOKEN}"}
PASSWORD = "correct horse battery"


def echo(request: Received) -> Say:
    said = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
    return Say(f"{len(said)}: {said[-1]}")


@asynccontextmanager
async def page(folder: Path, **settings: Any) -> AsyncIterator[Site]:
    async with serving(folder, echo, settings, TOKEN) as site:
        yield site


@asynccontextmanager
async def browser(site: Site) -> AsyncIterator[Site]:
    """Another person's browser, with its own cookies."""
    jar = aiohttp.CookieJar(unsafe=True)  # it accepts cookies of IP addresses, too
    async with client_session(cookie_jar=jar) as http:
        yield Site(site.url, site.app, site.server, http)


async def as_owner(site: Site, line: str) -> Any:
    name, _, text = line.removeprefix("/").partition(" ")
    path = f"/api/sessions/main/commands/{name}"
    status, reply = await site.post(path, {"text": text}, headers=OWNER)
    assert status == 200
    return reply


async def invitation(site: Site, how: str = "ann") -> str:
    reply = await as_owner(site, f"/invite {how}")
    return str(reply["data"]["link"]).partition("#join=")[2]


async def joins(site: Site, there: Site, how: str = "ann", password: str = "") -> None:
    body = {"code": await invitation(site, how), "password": password}
    assert (await there.post("/api/join", body))[0] == 200


async def test_without_the_feature_nobody_signs_in_and_no_key_opens_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with page(tmp_path) as site, browser(site) as ann:
        code = await invitation(site)
        await joins(site, ann, "bob", PASSWORD)
        key = await ApiKeys(site.app.store, site.app.access).add("carl", "owner", may_command=True)
        body = {"model": "parley", "messages": [{"role": "user", "content": "Hi"}]}
        by_key = {"Authorization": f"Bearer {key}"}
        assert (await site.post("/v1/chat/completions", body, headers=by_key))[0] == 200
    monkeypatch.delattr(AccountsFeature, "parley_logins")
    async with page(tmp_path) as site:
        assert (await site.get("/api/sessions"))[0] == 401
        assert (await site.post("/v1/chat/completions", body, headers=by_key))[0] == 401
        assert (await site.post("/api/join", {"code": code, "password": ""}))[0] == 401
        asked = {"name": "bob", "password": PASSWORD}
        assert (await site.post("/api/login", asked))[0] == 401
        status, refused = await site.post("/api/login", {"token": TOKEN})
        assert status == 403
        assert "Nobody can sign in here" in str(refused)
        assert (await site.get("/api/sessions"))[0] == 401


async def test_a_link_lets_one_person_in_once_with_conversations_of_their_own(
    tmp_path: Path,
) -> None:
    async with page(tmp_path) as site, browser(site) as ann, browser(site) as bob:
        code = await invitation(site)
        assert (await ann.get("/api/sessions"))[0] == 401
        assert (await ann.post("/api/join", {"code": code}))[0] == 200
        assert (await bob.post("/api/join", {"code": code}))[0] == 401
        assert (await bob.get("/api/sessions"))[0] == 401
        await site.post("/api/sessions/main/messages", {"text": "mine"}, headers=OWNER)
        assert (await ann.says("hers"))["text"] == "1: hers"
        _, listed = await ann.get("/api/sessions")
        assert [one["id"] for one in listed["sessions"]] == ["main"]
        _, said = await ann.get("/api/sessions/main/messages")
        assert [one["text"] for one in said["messages"]] == ["hers", "1: hers"]
        _, owners = await site.get("/api/sessions/main/messages", headers=OWNER)
        assert "hers" not in str(owners)


async def test_nobody_reads_conversations_of_others_by_naming_their_channel(
    tmp_path: Path,
) -> None:
    async with page(tmp_path, owners=["afar/boss"]) as site, browser(site) as bob:
        await joins(site, bob, "bob owner")
        await bob.says("his")
        for query in ("?channel=terminal", "?channel=afar"):
            assert (await bob.get(f"/api/sessions/main/messages{query}"))[0] == 404
        _, listed = await bob.get("/api/sessions?all=true")
        assert [one["id"] for one in listed["sessions"]] == ["main"]
        _, listed = await site.get("/api/sessions?all=true", headers=OWNER)
        assert "his" not in str(listed)


async def test_a_picture_is_fetched_only_by_whom_it_was_shown_to(tmp_path: Path) -> None:
    """Its address can be derived from the file's path, which is no secret: `/context map` shows
    it."""
    async with page(tmp_path) as site, browser(site) as ann:
        await joins(site, ann)
        (address,) = (await as_owner(site, "/context map"))["images"]
        (hers,) = (await ann.commands("/context map"))["images"]
        for one, headers, status in (
            (address, OWNER, 200),
            (address, {}, 404),
            (hers, {}, 200),
            (hers, OWNER, 404),
        ):
            async with ann.http.get(f"{site.url}{one}", headers=headers) as response:
                assert response.status == status


async def test_a_user_is_no_owner_on_the_page_and_an_owner_is(tmp_path: Path) -> None:
    async with page(tmp_path) as site, browser(site) as ann, browser(site) as bob:
        await joins(site, ann)
        await joins(site, bob, "bob owner")
        assert "Only an owner" in (await ann.commands("/config model gpt-4o"))["text"]
        assert "Only an owner" in (await ann.commands("/invite eve"))["text"]
        assert "Only an owner" not in (await bob.commands("/config agent_max_steps 7"))["text"]


async def test_a_link_expires_and_a_new_one_ends_the_one_before(tmp_path: Path) -> None:
    async with page(tmp_path) as site, browser(site) as ann:
        first = await invitation(site)
        second = await invitation(site)
        assert (await ann.post("/api/join", {"code": first}))[0] == 401
        kept = site.app.features.service(PageLogins)
        now = kept._clock()
        kept._clock = lambda: now + INVITED + 1
        assert (await ann.post("/api/join", {"code": second}))[0] == 401


async def test_a_password_signs_in_elsewhere_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    async with page(tmp_path) as site, browser(site) as ann, browser(site) as phone:
        code = await invitation(site)
        assert (await ann.post("/api/join", {"code": code, "password": "short"}))[0] == 400
        assert (await ann.post("/api/join", {"code": code, "password": PASSWORD}))[0] == 200
        wrong = {"name": "ann", "password": "wrong horse battery"}
        assert (await phone.post("/api/login", wrong))[0] == 401
        nobody = {"name": "eve", "password": PASSWORD}
        assert (await phone.post("/api/login", nobody))[0] == 401
        right = {"name": "ann", "password": PASSWORD}
        assert (await phone.post("/api/login", right))[0] == 200
        me = (await phone.get("/api/me"))[1]
        assert (me["user"], me["is_signed_in"]) == ("ann", True)
        kept = (tmp_path / "data" / "parley.db").read_bytes()
        assert PASSWORD.encode() not in kept


@pytest.mark.parametrize("is_one", [True, False])
async def test_guesses_at_a_password_lock_out_who_makes_them_and_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_one: bool
) -> None:
    proxied = serving(tmp_path, echo, token=TOKEN, trusted_proxies=("127.0.0.1",))
    async with proxied as site, browser(site) as ann, browser(site) as eve:
        await joins(site, ann, password=PASSWORD)
        here = {"X-Forwarded-For": "203.0.113.7"}
        right = {"name": "ann", "password": PASSWORD}
        statuses = []
        for number in range(TRIES + 1):
            guess = {"name": "ann", "password": "a guess" if is_one else f"guess number {number}"}
            statuses.append((await eve.post("/api/login", guess, headers=here))[0])
        assert statuses == [401] * (TRIES - 1) + [429, 429]
        assert (await eve.post("/api/login", right, headers=here))[0] == 429
        elsewhere = {"X-Forwarded-For": "198.51.100.1"}
        assert (await eve.post("/api/login", right, headers=elsewhere))[0] == 200
        assert len([line for line in caplog.messages if "203.0.113.7" in line]) == 1


async def test_guesses_that_come_at_once_are_counted_before_they_are_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = []

    def verify(kept: str, password: str) -> bool:
        hashed.append(kept)
        return not password

    monkeypatch.setattr(logins, "_verify", verify)
    async with page(tmp_path) as site, browser(site) as eve:
        guess = {"name": "ann", "password": "the same guess"}
        answers = [eve.post("/api/login", guess) for _ in range(100)]
        statuses = [status for status, _ in await asyncio.gather(*answers)]
        assert set(statuses) <= {401, 429}
        assert len(hashed) <= TRIES


async def test_who_guesses_too_often_at_once_is_told_so_and_no_guess_behind_the_last_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed, may_go_on = [], threading.Event()

    def verify(kept: str, password: str) -> bool:
        hashed.append(kept)
        may_go_on.wait(PATIENCE)
        return not password

    monkeypatch.setattr(logins, "_verify", verify)
    may_go_on.set()
    async with page(tmp_path) as site, browser(site) as eve:
        guess = {"name": "ann", "password": "the same guess"}
        for _ in range(TRIES - 1):
            assert (await eve.post("/api/login", guess))[0] == 401
        may_go_on.clear()
        answers = [asyncio.ensure_future(eve.post("/api/login", guess)) for _ in range(OF_ONE + 1)]
        first, waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        may_go_on.set()
        assert [one.result()[0] for one in first] == [429], "while the others still wait"
        assert [status for status, _ in await asyncio.gather(*waiting)] == [429] * OF_ONE
        assert len(hashed) == TRIES, "the last but one has locked them out"


async def test_invitations_are_looked_up_before_a_password_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    monkeypatch.setattr(logins, "_hash", hashed.append)
    async with page(tmp_path) as site, browser(site) as eve:
        guess = {"code": "the same code", "password": PASSWORD}
        statuses = [(await eve.post("/api/join", guess))[0] for _ in range(TRIES + 1)]
        assert statuses == [401] * (TRIES - 1) + [429, 429]
        assert not hashed


async def test_signing_out_makes_the_cookie_worthless(tmp_path: Path) -> None:
    async with page(tmp_path) as site, browser(site) as ann, browser(site) as thief:
        async with ann.http.post(f"{ann.url}/api/login", json={"token": TOKEN}) as response:
            cookie = response.headers["Set-Cookie"].partition(";")[0]
        stolen = {"Cookie": cookie}
        assert (await thief.get("/api/sessions", headers=stolen))[0] == 200
        assert (await ann.post("/api/logout", {}))[0] == 200
        assert (await thief.get("/api/sessions", headers=stolen))[0] == 401


async def test_an_owners_browser_is_out_when_the_token_changes(tmp_path: Path) -> None:
    async with page(tmp_path) as site:
        signed_in = await site.http.post(f"{site.url}/api/login", json={"token": TOKEN})
        cookie = signed_in.headers["Set-Cookie"].partition(";")[0]
    async with serving(tmp_path, echo, token="another long random text") as site:
        assert (await site.get("/api/sessions", headers={"Cookie": cookie}))[0] == 401


async def test_a_browser_that_was_not_used_for_a_month_is_out(tmp_path: Path) -> None:
    async with page(tmp_path) as site, browser(site) as ann:
        await joins(site, ann)
        kept = site.app.features.service(PageLogins)
        now = kept._clock()
        kept._clock = lambda: now + KEPT + 1
        assert (await ann.get("/api/sessions"))[0] == 401


@pytest.mark.parametrize("line", ["/logins end all", "/revoke web/ann"])
async def test_who_is_signed_out_is_out_at_once_and_hears_nothing_more(
    tmp_path: Path, line: str
) -> None:
    async with page(tmp_path) as site, browser(site) as ann:
        await joins(site, ann)
        url = f"{ann.url}/api/sessions/main/events"
        async with ann.http.get(url) as response:
            assert response.status == 200
            following = asyncio.create_task(_read(response))
            await ann.says("one")
            await as_owner(site, line)
            events = await asyncio.wait_for(following, PATIENCE)
        assert "done" in events
        assert (await ann.get("/api/sessions"))[0] == 401


async def _read(response: aiohttp.ClientResponse) -> list[str]:
    return [event.kind async for event in events_of(response)]


async def test_logins_are_listed_to_their_person_and_all_to_an_owner(tmp_path: Path) -> None:
    async with page(tmp_path) as site, browser(site) as ann, browser(site) as bob:
        await joins(site, ann)
        await joins(site, bob, "bob")
        own = (await ann.commands("/logins"))["data"]["logins"]
        assert [one["who"] for one in own] == ["web/ann"]
        found = (await as_owner(site, "/logins"))["data"]["logins"]
        assert [one["who"] for one in found] == ["web/ann", "web/bob"]
        told = await ann.commands(f"/logins end {found[1]['number']}")
        assert "no such login" in told["text"]
        assert (await bob.get("/api/sessions"))[0] == 200


async def test_a_password_is_changed_by_whoever_knows_it_and_signs_all_others_out(
    tmp_path: Path,
) -> None:
    new = "a new horse battery"
    async with page(tmp_path) as site, browser(site) as ann, browser(site) as phone:
        await joins(site, ann, password=PASSWORD)
        await phone.post("/api/login", {"name": "ann", "password": PASSWORD})
        wrong = {"current": "wrong horse battery", "password": new}
        assert (await ann.post("/api/password", wrong))[0] == 403
        assert (await phone.get("/api/sessions"))[0] == 200
        short = {"current": PASSWORD, "password": "short"}
        assert (await ann.post("/api/password", short))[0] == 400
        right = {"current": PASSWORD, "password": new}
        assert (await ann.post("/api/password", right))[0] == 200
        assert (await ann.get("/api/sessions"))[0] == 200
        assert (await phone.get("/api/sessions"))[0] == 401
        old = {"name": "ann", "password": PASSWORD}
        assert (await phone.post("/api/login", old))[0] == 401
        assert (await phone.post("/api/login", {"name": "ann", "password": new}))[0] == 200


async def test_who_has_no_password_chooses_one_and_the_owner_by_the_token_has_none(
    tmp_path: Path,
) -> None:
    async with page(tmp_path) as site, browser(site) as ann, browser(site) as boss:
        await joins(site, ann)
        assert (await ann.post("/api/password", {"password": PASSWORD}))[0] == 200
        assert (await ann.post("/api/password", {"password": PASSWORD}))[0] == 403
        await boss.post("/api/login", {"token": TOKEN})
        status, told = await boss.post("/api/password", {"password": PASSWORD})
        assert status == 400
        assert "with the token" in told["error"]["message"]


async def test_guesses_at_the_password_of_now_are_throttled(tmp_path: Path) -> None:
    async with page(tmp_path) as site, browser(site) as ann:
        await joins(site, ann, password=PASSWORD)
        guess = {"current": "the same guess", "password": PASSWORD}
        statuses = [(await ann.post("/api/password", guess))[0] for _ in range(TRIES)]
        assert statuses == [403] * (TRIES - 1) + [429]
        await joins(site, ann, password=PASSWORD)  # another login of the same address
        right = {"current": PASSWORD, "password": f"another {PASSWORD}"}
        assert (await ann.post("/api/password", right))[0] == 200


async def test_another_website_can_use_no_cookie(tmp_path: Path) -> None:
    async with page(tmp_path) as site, browser(site) as ann:
        await joins(site, ann)
        for path, body in (
            ("/api/sessions/main/messages", {"text": "Hi"}),
            ("/api/logout", {}),
            ("/api/join", {"code": "x"}),
            ("/api/login", {"token": TOKEN}),
        ):
            elsewhere = {"Origin": "http://evil.example"}
            assert (await ann.post(path, body, headers=elsewhere))[0] == 403
        assert (await ann.get("/api/sessions"))[0] == 200


async def test_no_link_is_given_where_others_read(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        assert "Others would read" in (await bot.says("/invite ann", "group", "boss")).text
        assert "#join=" in (await bot.says("/invite ann", "boss", "boss")).text


async def test_somebody_is_let_in_from_the_command_line_while_the_bot_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with page(tmp_path) as site, browser(site) as ann:
        place = ("--config", str(tmp_path / "config.json"), "--data", str(tmp_path / "data"))
        assert await asyncio.to_thread(main, [*place, "invite", "ann"]) == 0
        code = capsys.readouterr().out.strip().partition("#join=")[2]
        assert (await ann.post("/api/join", {"code": code}))[0] == 200
