"""Keys for OpenAI's protocol: each belongs to a person, and gives access to this person's data
alone."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from openai import AuthenticationError, RateLimitError

from bot.data_folder import DATABASE
from main import main
from tests.fakes.openai_server import Call, Say, echo
from tests.web.site import Site, serving
from tests.web.test_completions import client, named, sent, user

TOKEN = "a long random text"


async def run(folder: Path, *arguments: str) -> int:
    """Run `python main.py key …`, like another process while the bot runs."""
    config = folder / "config.json"
    if not config.exists():
        config.write_text("{}")
    place = ("--config", str(config), "--data", str(folder / "data"))
    return await asyncio.to_thread(main, [*place, "key", *arguments])


Capture = pytest.CaptureFixture[str]


async def new_key(folder: Path, capsys: Capture, name: str, *arguments: str) -> str:
    capsys.readouterr()
    assert await run(folder, "add", name, *arguments) == 0
    said = capsys.readouterr()
    assert f"This is the key {name}" in said.err
    return said.out.removesuffix("\n")


async def says(site: Site, key: str, text: str, conversation: str = "") -> str:
    more = named(conversation) if conversation else {}
    async with client(site, key) as openai:
        answer = await openai.chat.completions.create(model="x", messages=[user(text)], **more)
    return str(answer.choices[0].message.content)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


# Making, listing, revoking


async def test_a_key_is_made_while_the_bot_runs_shown_once_and_only_its_hash_is_kept(
    tmp_path: Path, capsys: Capture
) -> None:
    async with serving(tmp_path, echo, token=TOKEN) as site:
        key = await new_key(tmp_path, capsys, "ann")
        assert await says(site, key, "Hi") == "re: Hi"
        assert await run(tmp_path, "list") == 0
        shown = capsys.readouterr().out
        assert shown.startswith("ann: user, made ")
        assert re.search(r", last used \d{1,2} \w{3} 20", shown)
        assert key not in shown
    kept = b"".join(file.read_bytes() for file in (tmp_path / "data").glob(f"{DATABASE}*"))
    assert b"web/ann" in kept
    assert key.encode() not in kept


@pytest.mark.parametrize("token", [TOKEN, ""])
async def test_a_revoked_key_stops_working_at_once_also_where_no_token_is_set(
    tmp_path: Path, capsys: Capture, token: str
) -> None:
    async with serving(tmp_path, echo, token=token) as site:
        key = await new_key(tmp_path, capsys, "ann")
        await says(site, key, "Hi")
        assert await run(tmp_path, "revoke", "ann") == 0
        with pytest.raises(AuthenticationError, match="unknown, or was revoked"):
            await says(site, key, "Hi")
        assert await run(tmp_path, "list") == 0
        assert "There are no keys" in capsys.readouterr().out


async def test_users_shows_who_has_a_key_and_revoke_ends_it(
    tmp_path: Path, capsys: Capture
) -> None:
    async with serving(tmp_path, echo, token=TOKEN) as site:
        site.http.headers.update(bearer(TOKEN))
        key = await new_key(tmp_path, capsys, "ann")
        assert "web/ann" in (await site.commands("/users"))["text"]
        assert "no longer" in (await site.commands("/revoke web/ann"))["text"]
        with pytest.raises(AuthenticationError):
            await says(site, key, "Hi")


async def test_what_can_not_be_done_is_said_in_a_sentence(tmp_path: Path, capsys: Capture) -> None:
    await new_key(tmp_path, capsys, "ann")
    for arguments, sentence in (
        (("add", "a/b"), "can't be the name of a key"),
        (("add", ""), "can't be the name of a key"),
        (("add", "ann"), "There is already a key ann"),
        (("revoke", "bob"), "There is no key bob"),
    ):
        assert await run(tmp_path, *arguments) == 1
        assert sentence in capsys.readouterr().err


# What a key opens


async def test_a_key_opens_neither_the_page_nor_its_rest(tmp_path: Path, capsys: Capture) -> None:
    async with serving(tmp_path, echo, token=TOKEN) as site:
        key = await new_key(tmp_path, capsys, "ann", "--role", "owner")
        for path in ("/api/sessions", "/api/sessions/main/messages", "/api/sessions/main/context"):
            status, body = await site.get(path, headers=bearer(key))
            assert (status, "A key only opens /v1" in body["error"]["message"]) == (403, True)
        said = await site.post("/api/sessions/main/messages", {"text": "x"}, headers=bearer(key))
        assert said[0] == 403
        assert (await site.post("/api/login", {"token": key}))[0] == 401


async def test_what_looks_like_a_key_opens_nothing_where_a_token_is_wanted(tmp_path: Path) -> None:
    own = "parley-of-my-own, long"
    async with serving(tmp_path, echo, token=own) as site:
        for token in ("parley-", "parley-x", "Parley-x"):
            assert (await site.get("/v1/models", headers=bearer(token)))[0] == 401
        assert (await site.get("/v1/models", headers=bearer(own)))[0] == 200  # it may begin so


async def test_no_key_sees_what_another_or_the_owner_said_under_the_same_name(
    tmp_path: Path, capsys: Capture
) -> None:
    async with serving(tmp_path, echo, token=TOKEN) as site:
        ann, bob = [await new_key(tmp_path, capsys, name) for name in ("ann", "bob")]
        for key, secret in ((ann, "1111"), (bob, "2222"), (TOKEN, "3333")):
            await says(site, key, f"My PIN is {secret}.", "trip")
        for key, secret in ((ann, "1111"), (bob, "2222"), (TOKEN, "3333")):
            await says(site, key, "What is my PIN?", "trip")
            shown = str(sent(site))
            assert [pin for pin in ("1111", "2222", "3333") if pin in shown] == [secret]
        _, listed = await site.get("/api/sessions", headers=bearer(TOKEN))
        assert [session["id"] for session in listed["sessions"]] == ["trip"]


# Commands


async def test_what_begins_with_a_slash_is_text_for_the_model_also_with_the_owners_token(
    tmp_path: Path, capsys: Capture
) -> None:
    text = "/config tools.shell true"
    async with serving(tmp_path, echo, token=TOKEN) as site:
        site.http.headers.update(bearer(TOKEN))
        boss = await new_key(tmp_path, capsys, "boss", "--role", "owner")
        for key in (TOKEN, await new_key(tmp_path, capsys, "ann"), boss):
            for name in ("", "trip"):
                assert await says(site, key, text, name) == f"re: {text}"
        for unseen in ("\ufeff", "\0", "\x7f \u3000", "\u2028\x85", "\n\x01\r\0"):
            for key in (TOKEN, boss):
                assert await says(site, key, f"{unseen}{text}", "trip") == f"re: {text}"
        assert (await site.commands("/config tools.shell"))["data"]["value"] is False


async def test_a_users_key_sets_its_clients_instructions_and_no_model(
    tmp_path: Path, capsys: Capture
) -> None:
    system = {"role": "system", "content": "Speak like a pirate."}
    async with serving(tmp_path, echo, token=TOKEN) as site:
        ann = await new_key(tmp_path, capsys, "ann", "--commands")
        async with client(site, ann) as openai:
            messages = [system, user("Hi")]
            await openai.chat.completions.create(model="x", messages=messages, **named("trip"))
        assert sent(site)[0]["content"].startswith("Speak like a pirate.")
        for command in ("/config model dear --here", "/config system_prompt No. --here"):
            assert "only an owner may set" in await says(site, ann, command, "trip")


async def test_a_key_that_may_command_does_what_its_holder_may(
    tmp_path: Path, capsys: Capture
) -> None:
    async with serving(tmp_path, echo, token=TOKEN) as site:
        site.http.headers.update(bearer(TOKEN))
        ann = await new_key(tmp_path, capsys, "ann", "--commands")
        boss = await new_key(tmp_path, capsys, "boss", "--role", "owner", "--commands")
        assert "web/ann" in await says(site, ann, "/whoami", "trip")
        assert "Only an owner" in await says(site, ann, "/config tools.shell true", "trip")
        assert (await site.commands("/config tools.shell"))["data"]["value"] is False
        await says(site, boss, "/config tools.shell true", "trip")
        assert (await site.commands("/config tools.shell"))["data"]["value"] is True


# Limits


async def test_the_holder_of_a_key_has_the_limits_of_a_user_and_a_bill_of_their_own(
    tmp_path: Path, capsys: Capture
) -> None:
    settings = {"messages_per_minute": 2}
    async with serving(tmp_path, lambda _: Say("Hi."), settings, token=TOKEN) as site:
        ann, bob = [await new_key(tmp_path, capsys, name) for name in ("ann", "bob")]
        for name in ("", "trip"):
            await says(site, ann, "Hi", name)
        for name in ("", "trip"):
            with pytest.raises(RateLimitError, match="messages_per_minute") as refused:
                await says(site, ann, "Hi", name)
            assert int(refused.value.response.headers["Retry-After"]) > 0
        await says(site, bob, "Hi")
        await says(site, TOKEN, "Hi")
        bills = await site.app.store.read(
            lambda db: dict(db.execute_sql("SELECT person, COUNT(*) FROM usage GROUP BY 1"))
        )
    assert bills == {"web/ann": 2, "web/bob": 1, "web/": 1}


async def test_in_a_conversation_of_a_key_nobody_can_be_asked_and_the_model_is_told(
    tmp_path: Path, capsys: Capture
) -> None:
    call = Call("web_fetch", '{"url": "https://example.com/"}', "c")
    script = [Say(calls=(call,)), Say("I could not.")]
    settings = {"tools": {"web_fetch": True}}
    async with serving(tmp_path, script, settings, token=TOKEN) as site:
        key = await new_key(tmp_path, capsys, "ann")
        assert await says(site, key, "Read example.com", "trip") == "I could not."
        assert "nobody can be asked" in sent(site)[-1]["content"]


async def test_a_key_that_is_made_anew_has_its_new_role_at_once(
    tmp_path: Path, capsys: Capture
) -> None:
    async with serving(tmp_path, echo, token=TOKEN) as site:
        boss = await new_key(tmp_path, capsys, "boss", "--role", "owner", "--commands")
        assert "owner of this bot" in await says(site, boss, "/whoami", "trip")
        await run(tmp_path, "revoke", "boss")
        again = await new_key(tmp_path, capsys, "boss", "--commands")
        assert "a user of this bot" in await says(site, again, "/whoami", "trip")
        with pytest.raises(AuthenticationError):
            await says(site, boss, "/whoami", "trip")
