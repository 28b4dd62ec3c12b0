"""Who is let in: the token, the cookie, and pages from elsewhere."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from channels.web import Door, DoorClosed, Web
from tests.web.site import serving

TOKEN = "a long random text"
LIST = "/api/sessions"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", "Bearer é"])
async def test_without_the_token_nothing_is_told(tmp_path: Path, header: str) -> None:
    async with serving(tmp_path, token=TOKEN) as site:
        for path in (LIST, "/v1/models"):
            status, body = await site.get(path, headers={"Authorization": header})
            assert (status, body["error"]["type"]) == (401, "authentication_error")


async def test_with_the_token_all_is_open(tmp_path: Path) -> None:
    async with serving(tmp_path, token=TOKEN) as site:
        status, _ = await site.get(LIST, headers={"Authorization": f"Bearer {TOKEN}"})
    assert status == 200


async def test_the_page_is_opened_by_a_cookie_that_no_script_reads(tmp_path: Path) -> None:
    async with serving(tmp_path, token=TOKEN) as site:
        assert (await site.post("/api/login", {"token": "wrong"}))[0] == 401
        async with site.http.post(f"{site.url}/api/login", json={"token": TOKEN}) as response:
            cookie = response.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        opened = {"Cookie": cookie.partition(";")[0]}
        assert (await site.get(LIST, headers=opened))[0] == 200
        assert (await site.get(LIST, headers={"Cookie": "parley=1"}))[0] == 401
        elsewhere = {**opened, "Origin": "http://evil.example"}
        assert (await site.get(LIST, headers=elsewhere))[0] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
    ],
)
async def test_a_page_from_elsewhere_gets_nothing_and_does_nothing(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with serving(tmp_path) as site:
        assert (await site.get(LIST, headers=headers))[0] == 403
        said = await site.post("/api/sessions/main/messages", {"text": "Hi"}, headers=headers)
        assert said[0] == 403
        _, body = await site.get("/api/sessions/main/messages")
        assert body["messages"] == []


async def test_no_other_page_is_told_that_it_may_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        asking = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        async with site.http.options(f"{site.url}{LIST}", headers=asking) as response:
            assert response.status == 403
            assert not [name for name in response.headers if name.startswith("Access-Control")]


async def test_every_answer_carries_a_strict_policy(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        for path in ("/", "/health", LIST, "/nowhere", "/page/nowhere.js"):
            async with site.http.get(f"{site.url}{path}") as response:
                policy = response.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.com"])
def test_no_place_that_others_reach_is_opened_without_a_token(host: str) -> None:
    with pytest.raises(DoorClosed, match="PARLEY_WEB_TOKEN"):
        Web(Door(host, 0, "", 1))


def test_a_port_that_is_taken_is_said_to_be() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DoorClosed, match=f"port {port}"):
            Web(Door("127.0.0.1", port, "", 1))
