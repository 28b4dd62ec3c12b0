"""Tests of connecting a model over HTTP: checked before it is stored, by the owner only, without a
restart."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from dotenv import dotenv_values

from agent.models import embedded
from bot.connecting import ServedModel, try_out
from bot.settings import load_layers
from plugins.connection.connector import ModelConnector
from plugins.connection.routes import ConnectionOffers
from tests.fakes.openai_server import Answer, Body, Fail, Hang, OpenAIServer, Say, Script
from tests.web.site import Json, Site, client_session, serving

PATH = "/api/connection"
KEY = "a-key-that-nobody-sees-0123456789"
AUTO = {"model": "auto"}


@pytest.fixture(autouse=True)
def _no_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the file of the demo model, so that its process is never started."""
    monkeypatch.setattr(embedded, "find_installed_file", lambda: None)


@asynccontextmanager
async def new_installation(
    folder: Path, script: Script = (), environ: Mapping[str, str] | None = None, **more: Any
) -> AsyncIterator[tuple[Site, OpenAIServer]]:
    """Run a bot without a key, and an endpoint that requires one."""
    async with (
        OpenAIServer(script, key=KEY, models=("gpt-9", "gpt-9-mini")) as provider,
        serving(folder, settings=AUTO, environ=environ or {}, **more) as site,
    ):
        yield site, provider


def form(server: OpenAIServer, **changed: Any) -> Json:
    return {"address": server.base_url, "key": KEY, "model": "gpt-9", **changed}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def files_with(text: str, folder: Path) -> list[Path]:
    """Return the files that contain a text, including databases and logs."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if text.encode() in path.read_bytes()]


async def test_a_model_that_answers_is_kept_and_answers_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / ".env").write_text("# mine\nOTHER='x y'\n")
    async with new_installation(tmp_path, [Say("Hello!"), Say("Good day.")]) as (site, provider):
        offered = (await site.get(PATH))[1]
        assert (offered["is_demo"], offered["is_demo_installed"]) == (True, False)
        status, done = await site.post(PATH, form(provider))
        assert (status, done) == (200, {"model": "gpt-9", "problem": "", "questions": []})
        assert not (await site.get(PATH))[1]["is_demo"]
        assert (await site.says("Hi"))["text"] == "Good day."
        assert [one.body["model"] for one in provider.requests][:2] == ["gpt-9", "gpt-9"]
        hidden = site.app.conversations.services.redactor.hide(f"It is {KEY}.")
        assert hidden == "It is ***."
        told: list[Any] = [await site.get(PATH), await site.get("/api/sessions/main/context")]
        told.append(await site.commands("/config"))
        told.append(await site.commands("/context request"))
        assert KEY not in json.dumps(told, default=str)
    assert (tmp_path / ".env").read_text().startswith("# mine\nOTHER='x y'\n")
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    secrets = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": provider.base_url}
    assert dotenv_values(tmp_path / ".env") == {"OTHER": "x y", **secrets}
    assert json.loads((tmp_path / "config.json").read_text()) == {"model": "gpt-9"}
    assert load_layers(tmp_path / "config.json", {}).secrets["OPENAI_API_KEY"] == KEY
    assert KEY not in caplog.text
    assert files_with(KEY, tmp_path) == [tmp_path / ".env"]


HTML = "<html><body>Welcome to nginx!" + "x" * 5_000
REFUSED: Mapping[str, tuple[list[Answer], Json, str]] = {
    "a wrong key": ([], {"key": "another-key-0123456789"}, "refused the API key"),
    "no model of this name": (
        [Fail(404, {"message": "The model `gpt-9` does not exist", "code": "model_not_found"})],
        {},
        "has no model",
    ),
    "no credit": (
        [Fail(429, {"message": "You exceeded your quota", "code": "insufficient_quota"})],
        {},
        "no credit left",
    ),
    "too many requests": ([Fail(429, {"message": "Slow down"})], {}, "takes no more requests"),
    "a failing server": ([Fail(500, "oops")], {}, "failed with error 500"),
    "a web page": ([Body(HTML)], {}, "a web page instead of the chat protocol"),
    "a web page as a refusal": ([Fail(400, HTML)], {}, "refused the request"),
    "a huge refusal": ([Fail(400, {"message": "<b>no</b> " * 50_000})], {}, "<b>no</b>"),
    "a huge answer": ([Body("x" * 40_000_000, "application/json")], {}, "sent more than"),
    "nothing but blanks": ([Say(" \n ")], {}, "empty answer"),
}


async def test_a_refusal_is_one_short_sentence_and_nothing_is_written(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with new_installation(tmp_path) as (site, _):
        before = files(tmp_path)
        for case, (script, changed, words) in REFUSED.items():
            with subtests.test(case):
                async with OpenAIServer(script, key=KEY) as provider:
                    status, done = await site.post(PATH, form(provider, **changed))
                assert (status, done["model"], done["questions"]) == (200, "", [])
                assert words in done["problem"]
                assert len(done["problem"]) <= 301
                assert "\n" not in done["problem"]
                assert KEY not in done["problem"]
                assert files(tmp_path) == before
        assert (await site.get(PATH))[1]["is_demo"]


async def test_nobody_is_asked_that_an_answer_redirects_to(tmp_path: Path) -> None:
    reached = []

    async def answer(request: web.Request) -> web.Response:
        reached.append(request.path)
        raise web.HTTPTemporaryRedirect(f"{inner.base_url}/chat/completions")

    app = web.Application()
    app.router.add_route("*", "/{place:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        place = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        async with new_installation(tmp_path) as (site, inner):
            _, done = await site.post(PATH, form(inner, address=place))
            assert "redirects requests to" in done["problem"]
            assert not inner.requests
            assert reached
    finally:
        await runner.cleanup()


async def test_a_server_that_is_silent_or_not_there_is_said_to_be(tmp_path: Path) -> None:
    async with new_installation(tmp_path, [Hang()]) as (site, provider):
        _connector(site).seconds = 0.2
        _, done = await site.post(PATH, form(provider))
        assert "sent nothing for" in done["problem"] or "did not answer" in done["problem"]
        _, done = await site.post(PATH, form(provider, address="http://127.0.0.1:9/v1"))
        assert "Can't connect to http://127.0.0.1:9/v1" in done["problem"]
    assert not (tmp_path / ".env").exists()


WRONG: Mapping[str, tuple[Json, str]] = {
    "no address": ({"address": "gpu-box:8000"}, "This is no address"),
    "another scheme": ({"address": "file:///etc/passwd"}, "This is no address"),
    "a provider that nobody knows": ({"provider": "acme"}, "no provider that is known"),
    "a provider's part with other characters": (
        {"provider": "azure", "variables": {"AZURE_OPENAI_ENDPOINT": "https://a\nb"}},
        "letters, digits",
    ),
    "a part that is missing": ({"provider": "azure"}, "AZURE_OPENAI_ENDPOINT is missing"),
    "a key with a line break": ({"key": "sk-1\nPARLEY_WEB_TOKEN=x"}, "This is no key"),
    "a key with a blank": ({"key": "sk 1"}, "This is no key"),
    "no key": ({"provider": "openai", "key": ""}, "OpenAI wants a key"),
    "no model": ({"model": ""}, "Type the name of a model"),
    "a model with a line break": ({"model": "gpt\n9"}, "Type the name of a model"),
}


async def test_what_can_not_be_right_is_asked_of_nobody(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with new_installation(tmp_path) as (site, provider):
        for case, (changed, words) in WRONG.items():
            with subtests.test(case):
                _, done = await site.post(PATH, form(provider, **changed))
                assert words in done["problem"]
        assert (await site.post(PATH, form(provider, key="x" * 5_000)))[0] == 400
        assert (await site.post(PATH, {"keys": KEY}))[0] == 400
        assert not provider.requests
        assert not (tmp_path / ".env").exists()


async def test_what_somebody_wrote_is_replaced_only_after_a_yes(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=the-old-one\n")
    async with new_installation(tmp_path, [Say("Hello!")]) as (site, provider):
        before = files(tmp_path)
        _, done = await site.post(PATH, form(provider))
        assert [("another OPENAI_API_KEY" in one) for one in done["questions"]] == [True]
        assert (files(tmp_path), len(provider.requests)) == (before, 0)
        _, done = await site.post(PATH, form(provider, replace=True))
        assert done["model"] == "gpt-9"
    assert dotenv_values(tmp_path / ".env")["OPENAI_API_KEY"] == KEY


async def test_a_key_is_not_left_for_another_address_that_wants_none(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=of-openai-alone\nOTHER=1\n")
    async with (
        OpenAIServer([Say("Hello!"), Say("Yes.")]) as local,
        serving(tmp_path, settings=AUTO, environ={}) as site,
    ):
        wanted = form(local, key="")
        _, done = await site.post(PATH, wanted)
        assert "would be sent" in done["questions"][0]
        _, done = await site.post(PATH, {**wanted, "replace": True})
        assert done["model"] == "gpt-9"
        await site.says("Hi")
        assert not [one for one in local.requests if "of-openai" in str(one.headers)]
    assert dotenv_values(tmp_path / ".env") == {"OTHER": "1", "OPENAI_BASE_URL": local.base_url}


async def test_a_kept_key_is_sent_to_no_other_place(tmp_path: Path) -> None:
    """A brief misuse of an owner's browser must not reveal the keys."""
    (tmp_path / ".env").write_text(
        "AZURE_OPENAI_API_KEY=secret-of-azure\nAZURE_OPENAI_ENDPOINT=http://127.0.0.1:9\n"
    )
    async with new_installation(tmp_path) as (site, provider):
        (azure,) = [one for one in (await site.get(PATH))[1]["providers"] if one["id"] == "azure"]
        assert (azure["has_key"], azure["wants"]) == (True, ["AZURE_OPENAI_ENDPOINT"])
        elsewhere = {"AZURE_OPENAI_ENDPOINT": provider.base_url.removesuffix("/v1")}
        wanted = {"provider": "azure", "variables": elsewhere, "model": "m"}
        for path in (PATH, f"{PATH}/models"):
            assert "wants a key" in (await site.post(path, wanted))[1]["problem"]
        assert not provider.requests
        assert provider.listings == 0


async def test_what_the_environment_says_is_not_silently_overruled(tmp_path: Path) -> None:
    environ = {"OPENAI_API_KEY": "of-the-environment"}
    async with new_installation(tmp_path, environ=environ) as (site, provider):
        _, done = await site.post(PATH, form(provider))
        assert "OPENAI_API_KEY is set in the environment" in done["problem"]
        assert not provider.requests
    assert not (tmp_path / ".env").exists()


async def test_a_model_that_was_chosen_in_the_chat_gives_way(tmp_path: Path) -> None:
    async with new_installation(tmp_path, [Say("Hello!"), Say("Yes.")]) as (site, provider):
        await site.commands("/config model embedded")
        await site.post(PATH, form(provider))
        assert (await site.says("Hi"))["text"] == "Yes."


async def test_a_file_that_can_not_be_written_leaves_all_as_it_was(tmp_path: Path) -> None:
    async with new_installation(tmp_path, [Say("Hello!")]) as (site, provider):
        (tmp_path / ".env").symlink_to(tmp_path / "config.json" / ".env")  # in no folder
        _, done = await site.post(PATH, form(provider))
        assert "can't be written" in done["problem"]
        assert (await site.get(PATH))[1]["is_demo"]


async def test_servers_on_this_machine_are_offered_with_their_models(tmp_path: Path) -> None:
    async with new_installation(tmp_path) as (site, _), OpenAIServer(models=("qwen3",)) as ollama:
        connector = _connector(site)
        connector.addresses = lambda: {
            "ollama": ollama.base_url,
            "vllm": "http://127.0.0.1:9/v1",
            "llama.cpp": f"{site.url.replace(':0', '')}/v1",
        }
        _, found = await site.get(f"{PATH}/servers")
    mine = [one for one in found["servers"] if one["provider"] == "ollama"]
    assert mine == [{"provider": "ollama", "name": "Ollama", "models": ["qwen3"]}]
    assert "vllm" not in str(found)


async def test_the_models_of_a_provider_are_listed_for_a_key(tmp_path: Path) -> None:
    async with new_installation(tmp_path) as (site, provider):
        _, listed = await site.post(f"{PATH}/models", form(provider, model=""))
        assert (listed["models"], listed["problem"]) == (["gpt-9", "gpt-9-mini"], "")
        _, listed = await site.post(f"{PATH}/models", form(provider, key="wrong-key-0123"))
        assert "refused the API key" in listed["problem"]


OPERATIONS = (("GET", ""), ("GET", "/servers"), ("POST", "/models"), ("POST", ""))


async def statuses(http: aiohttp.ClientSession, site: Site, body: Json, **headers: str) -> set[int]:
    found = set()
    for method, path in OPERATIONS:
        sent = body if method == "POST" else None
        async with http.request(
            method, f"{site.url}{PATH}{path}", headers=headers, json=sent
        ) as answer:
            assert KEY not in await answer.text()
            found.add(answer.status)
    return found


async def test_no_stranger_user_other_site_or_proxy_may_connect_a_model(tmp_path: Path) -> None:
    token = "a-token-that-is-long-enough-for-all"
    async with new_installation(tmp_path, token=token) as (site, provider):
        body = form(provider)
        owner = {"Authorization": f"Bearer {token}"}
        assert await statuses(site.http, site, body) == {401}
        assert await statuses(site.http, site, body, Authorization="Bearer wrong") == {401}
        _, invited = await site.post(
            "/api/sessions/main/commands/invite", {"text": "ann"}, headers=owner
        )
        code = invited["data"]["link"].partition("#join=")[2]
        jar = aiohttp.CookieJar(unsafe=True)
        async with client_session(cookie_jar=jar) as ann:
            joined = {"code": code, "password": "long-enough-1"}
            async with ann.post(f"{site.url}/api/join", json=joined) as answer:
                assert answer.status == 200
            assert await statuses(ann, site, body) == {200, 403}
            async with ann.get(f"{site.url}{PATH}") as answer:
                nothing = ConnectionOffers().model_dump()
                assert await answer.json() == nothing
            assert not provider.requests
        async with client_session(cookie_jar=aiohttp.CookieJar(unsafe=True)) as mine:
            async with mine.post(f"{site.url}/api/login", json={"token": token}) as answer:
                assert answer.status == 200
            other = {"Origin": "https://evil.example"}
            assert await statuses(mine, site, body, **other) == {403}
            assert await statuses(mine, site, body, **{"Sec-Fetch-Site": "cross-site"}) == {403}
            async with mine.get(f"{site.url}{PATH}") as answer:
                assert answer.status == 200
        assert not provider.requests
    assert not (tmp_path / ".env").exists()


async def test_without_a_token_only_this_machine_may(tmp_path: Path) -> None:
    async with new_installation(tmp_path) as (site, provider):
        body = form(provider)
        assert await statuses(site.http, site, body, Host="evil.example") == {403}
        assert await statuses(site.http, site, body, **{"X-Forwarded-For": "10.0.0.1"}) == {403}
        assert await statuses(site.http, site, body, Origin="http://localhost:1") == {403}
        assert not provider.requests


async def test_a_key_to_openais_protocol_opens_none_of_it(tmp_path: Path) -> None:
    async with new_installation(tmp_path) as (site, provider):
        key = {"Authorization": "Bearer parley-0123456789"}
        assert await statuses(site.http, site, form(provider), **key) == {401}


async def test_init_and_the_page_try_a_model_in_the_same_way() -> None:
    async with OpenAIServer([Say("Hello,\n\x1b[31mworld")]) as server:
        served = ServedModel("", server.base_url, "OPENAI_API_KEY", model="m")
        assert await try_out(served) == "Hello,[31mworld"
        assert KEY not in repr(ServedModel("", "", "", key=KEY))


def _connector(site: Site) -> ModelConnector:
    connector = site.app.config.services[ModelConnector]
    assert isinstance(connector, ModelConnector)
    return connector
