"""Parts of OpenAI's protocol that Parley has not, and addresses as base URLs make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, NotFoundError

from channels.web.response_shapes import INSTEAD
from tests.fakes.openai_server import Say
from tests.web.site import serving
from tests.web.test_completions import client, user

TOKEN = "a long random text for tests"
QUESTION = {"messages": [user("Hi")]}
ASKED = (
    *((name, "") for name in INSTEAD),
    *(("responses", f"/resp_1{rest}") for rest in ("", "/cancel", "/input_items")),
    *(("chat", f"/completions{rest}") for rest in ("", "/chatcmpl-1", "/chatcmpl-1/messages")),
    *(("audio", f"/{rest}") for rest in ("speech", "transcriptions", "translations")),
    *(("threads", "/thread_1/runs"), ("vector_stores", "/vs_1/files"), ("fine_tuning", "/jobs")),
    *(("images", "/generations"), ("realtime", "/sessions"), ("messages", "/count_tokens")),
)


async def test_each_that_is_missing_says_what_to_do_instead(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        for name, rest in ASKED:
            for method in ("GET", "POST", "DELETE"):
                if method == "POST" and (name, rest) in (
                    ("chat", "/completions"),
                    ("responses", ""),
                ):
                    continue
                url = f"{site.url}/v1/{name}{rest}"
                async with site.http.request(method, url) as response:
                    error = (await response.json())["error"]
                    assert response.status in (404, 405), url
                assert INSTEAD[name] in error["message"]
                assert error["type"] == "invalid_request_error"
        assert not site.server.requests


async def test_the_sdk_does_not_ask_twice_for_what_is_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        url = f"{site.url}/v1"
        async with AsyncOpenAI(base_url=url, api_key="x", max_retries=5) as openai:
            calls: list[Any] = [
                openai.embeddings.create(model="x", input="y"),
                openai.completions.create(model="x", prompt="y"),
                openai.moderations.create(input="y"),
                openai.images.generate(prompt="y"),
                openai.files.list(),
                openai.responses.retrieve("resp_1"),
                openai.audio.speech.create(model="x", voice="alloy", input="y"),
            ]
            for call in calls:
                with pytest.raises(NotFoundError, match="does not exist"):
                    await call


async def test_slashes_too_many_are_left_out(tmp_path: Path, subtests: pytest.Subtests) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with serving(tmp_path, lambda _: Say("Ho"), token=TOKEN) as site:
        for path in ("/v1/chat/completions/", "/v1//chat/completions", "/v1/chat//completions//"):
            with subtests.test(path):
                refused, _ = await site.post(path, QUESTION, allow_redirects=False)
                taken = await site.post(path, QUESTION, headers=headers, allow_redirects=False)
                assert (taken[0], taken[1]["choices"][0]["message"]["content"]) == (200, "Ho")
                assert refused == 401


async def test_no_address_leads_around_the_key(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with serving(tmp_path, token=TOKEN) as site:
        for path in ("//v1/models", "/v1x/models", "/./v1/models", "/v1/../v1/models"):
            with subtests.test(path):
                status, _ = await site.get(path, allow_redirects=False)
                assert status in (401, 404)


async def test_the_key_may_come_in_another_header(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    path = "/v1/chat/completions"
    async with serving(tmp_path, lambda _: Say("Ho"), token=TOKEN) as site:
        for header in ("x-api-key", "api-key", "X-Api-Key"):
            with subtests.test(header):
                right, _ = await site.post(path, QUESTION, headers={header: TOKEN})
                wrong, _ = await site.post(path, QUESTION, headers={header: "guess"})
                assert (right, wrong) == (200, 401)


async def test_what_an_address_takes_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        async with site.http.options(f"{site.url}/v1/chat/completions") as response:
            assert (response.status, response.headers["Allow"]) == (204, "OPTIONS, POST")
        async with site.http.head(f"{site.url}/v1/models") as response:
            assert response.status == 200
        async with site.http.put(f"{site.url}/v1/models") as response:
            assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


async def test_a_wrong_base_url_is_told(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with serving(tmp_path) as site:
        for path in ("/chat/completions", "/responses", "/models", "/v1/v1/models"):
            with subtests.test(path):
                status, answer = await site.get(path)
                assert status == 404
                assert "base URL" in answer["error"]["message"]


LENIENT: tuple[dict[str, Any], ...] = (
    {"max_tokens": -1},
    {"stop": []},
    {"stop": ["a", "b"]},
    {"n": 1, "logprobs": False, "top_logprobs": 0, "tools": [], "functions": []},
    {"stream_options": None, "response_format": {"type": "text"}, "seed": None, "user": 7},
    {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "store": True, "metadata": {"a": "b"}},
    {"max_completion_tokens": 9, "reasoning_effort": "low", "service_tier": "auto"},
    {"messages": [{"role": "developer", "content": "Be brief."}, user("Hi")]},
    {"messages": [user([{"type": "text", "text": "Hi", "image_url": None, "refusal": None}])]},
    {"messages": [user("Hi"), {"role": "assistant", "content": None, "tool_calls": []}, user("?")]},
    {
        "messages": [
            user([{"type": "image_url", "image_url": "data:image/png;base64,iVBORw0KGgo="}])
        ]
    },
)


async def test_what_clients_send_beside_is_taken(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with serving(tmp_path, lambda _: Say("Ho")) as site:
        for more in LENIENT:
            with subtests.test(more=more):
                status, answer = await site.post("/v1/chat/completions", {**QUESTION, **more})
                assert (status, answer.get("error")) == (200, None)


async def test_models_are_listed_and_shown_with_a_slash_too(tmp_path: Path) -> None:
    async with serving(tmp_path) as site, client(site) as openai:
        assert [one.id async for one in openai.models.list()] == ["parley"]
        status, shown = await site.get("/v1/models/parley/")
    assert (status, shown["id"]) == (200, "parley")
