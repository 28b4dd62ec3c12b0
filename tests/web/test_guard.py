"""Tests of access: the token, the cookie, and pages of other sites."""

from __future__ import annotations

import builtins
import errno
import io
import logging
import os
import socket
from pathlib import Path

import pytest

from channels.guess_limit import TRIES
from channels.web import ListenError, Web, WebConfig
from tests.tables import each_row
from tests.web.site import Site, asked_raw, serving

TOKEN = "a long random text"
LIST = "/api/sessions"


async def test_without_the_token_nothing_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path, token=TOKEN) as site:
        for header in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", "Bearer é"):
            for path in (LIST, "/v1/models"):
                status, body = await site.get(path, headers={"Authorization": header})
                assert status == 401
                said = body["error"]["type"], body["error"]["code"]
                assert said == ("invalid_request_error", "invalid_api_key")  # as from OpenAI
        assert (await site.get(LIST, headers={"Authorization": f"Bearer {TOKEN}"}))[0] == 200


async def test_a_token_may_have_letters_of_any_language(tmp_path: Path) -> None:
    token = "ein langer zufälliger Schlüssel"
    lines = f"GET {LIST} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    async with serving(tmp_path, token=token) as site:
        for encoding in ("utf-8", "latin-1"):
            raw = f"{lines}Connection: close\r\n\r\n".encode(encoding)
            assert (await asked_raw(site.url, raw)).startswith(b"HTTP/1.1 200 ")


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


async def test_a_page_from_elsewhere_gets_nothing_and_does_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Host": "evil.example"},
            {"Host": "127.0.0.1.evil.example"},
        ):
            status, refused = await site.get(LIST, headers=headers)
            assert (status, refused["error"]["type"]) == (403, "permission_error")
            path = "/api/sessions/main/messages"
            assert (await site.post(path, {"text": "Hi"}, headers=headers))[0] == 403
        _, body = await site.get(path)
        assert body["messages"] == []
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


async def test_the_page_is_there_also_when_no_file_can_be_opened_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async with serving(tmp_path) as site, site.http.get(f"{site.url}/") as known:
        for owner, name in ((builtins, "open"), (io, "open"), (os, "open")):
            monkeypatch.setattr(owner, name, refuse)
        found = []
        for path, tag in (("/", ""), ("/", known.headers["ETag"]), ("/page/main.js", "")):
            asked = {"If-None-Match": tag} if tag else {}
            async with site.http.get(f"{site.url}{path}", headers=asked) as response:
                found.append((response.status, response.content_type))
        monkeypatch.undo()
    assert [status for status, _ in found] == [200, 304, 200]
    assert (found[0][1], found[2][1]) == ("text/html", "text/javascript")


@each_row("host", ["0.0.0.0", "::", "example.com"])
def test_no_place_that_others_reach_is_opened_without_a_token(host: str) -> None:
    with pytest.raises(ListenError, match="PARLEY_WEB_TOKEN"):
        Web(WebConfig(host, 0, "", 1))


def test_a_port_that_is_taken_is_said_to_be() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"port {port}"):
            Web(WebConfig("127.0.0.1", port, "", 1))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_token_that_could_be_guessed_opens_nothing(host: str) -> None:
    for token in ("a", "short-one", " ", "  \t ", "a" * 40, f"{'x' * 15}   "):
        with pytest.raises(ListenError, match=r"at least 16 characters.*secrets\.token_urlsafe"):
            Web(WebConfig(host, 0, token, 1))


# Proxies


PROXIED = (
    "Forwarded: for=203.0.113.7",
    "X-Forwarded-For: 203.0.113.7",
    "X-Forwarded-Host: bot.example",
    "X-Forwarded-Proto: https",
    "X-Real-IP: 203.0.113.7",
    "Via: 1.1 proxy",
    "CF-Connecting-IP: 203.0.113.7",
    "X-Azure-ClientIP: 203.0.113.7",
    "WL-Proxy-Client-IP: 203.0.113.7",
    "Remote-Addr: 203.0.113.7",
    "X_Forwarded_For: 203.0.113.7",
)


@pytest.mark.parametrize("proxies", [(), ("127.0.0.1",)])
async def test_without_a_token_nobody_gets_in_through_a_proxy(
    tmp_path: Path, proxies: tuple[str, ...]
) -> None:
    async with serving(tmp_path, trusted_proxies=proxies) as site:
        for header in PROXIED:
            name, _, value = header.partition(": ")
            for path in (LIST, "/v1/models"):
                status, body = await site.get(path, headers={name: value})
                assert status == 403, header
                assert "PARLEY_WEB_TOKEN=" in body["error"]["message"]
        # A proxy without a header is recognised by its old HTTP version.
        asked = f"GET {LIST} HTTP/1.0\r\nHost: 127.0.0.1:8080\r\nConnection: close\r\n\r\n"
        said = await asked_raw(site.url, asked.encode())
    assert said.split()[1] == b"403"
    assert b"PARLEY_WEB_TOKEN=" in said


async def test_with_a_token_a_proxy_is_no_hindrance(tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": "203.0.113.7", "Host": "bot"}
    async with serving(tmp_path, token=TOKEN) as site:
        assert (await site.get(LIST, headers=headers))[0] == 200


# Guesses


async def guesses(site: Site, how: str, guess: str, sender: str = "") -> int:
    """Return the status of one guess."""
    headers = {"X-Forwarded-For": sender} if sender else {}
    if how == "login":
        return (await site.post("/api/login", {"token": guess}, headers=headers))[0]
    offered = {"Authorization": f"Bearer {guess}"} if how == "bearer" else {}
    cookie = {"Cookie": f"parley={guess}"} if how == "cookie" else {}
    return (await site.get(LIST, headers={**headers, **offered, **cookie}))[0]


@pytest.mark.parametrize("how", ["login", "bearer", "cookie"])
async def test_who_guesses_is_locked_out_and_the_log_says_so_without_the_guess(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    async with serving(tmp_path, token=TOKEN) as site:
        with caplog.at_level(logging.INFO):
            tried = [await guesses(site, how, f"guess-number-{n}") for n in range(TRIES + 20)]
            assert tried == [401] * (TRIES - 1) + [429] * 21
            assert await guesses(site, "bearer", TOKEN) == 429  # even a correct one, from there
            assert await guesses(site, "login", TOKEN) == 429
        status, body = await site.get(LIST, headers={"Authorization": "Bearer another guess"})
        assert (status, body["error"]["type"]) == (429, "rate_limit_error")
        assert "try again in" in body["error"]["message"]
        assert (await site.get("/health"))[0] == 200
    lines = [line for line in caplog.messages if "wrong tokens or passwords" in line]
    assert len(lines) == 1
    assert "127.0.0.1" in lines[0]
    assert "guess-number" not in caplog.text


async def test_a_live_session_is_not_ended_by_guesses_from_its_address(tmp_path: Path) -> None:
    async with serving(tmp_path, token=TOKEN) as site:
        async with site.http.post(f"{site.url}/api/login", json={"token": TOKEN}) as response:
            cookie = {"Cookie": response.headers["Set-Cookie"].partition(";")[0]}
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        site.http.cookie_jar.clear()
        assert (await site.get(LIST, headers=bearer))[0] == 200
        tried = [await guesses(site, "login", f"guess {n}") for n in range(TRIES)]
        assert tried[-1] == 429
        assert (await site.get(LIST, headers=cookie))[0] == 200
        assert (await site.get(LIST, headers=bearer))[0] == 200


async def test_a_cookie_that_is_out_of_date_locks_nobody_out(tmp_path: Path) -> None:
    async with serving(tmp_path, token=TOKEN) as site:
        stale = "0" * 64
        assert {await guesses(site, "cookie", stale) for _ in range(3 * TRIES)} == {401}
        assert await guesses(site, "login", TOKEN) == 200


async def test_only_a_trusted_proxy_is_believed_and_only_the_last_address_before_it(
    tmp_path: Path,
) -> None:
    async with serving(
        tmp_path, token=TOKEN, trusted_proxies=("127.0.0.0/8", "10.0.0.0/8")
    ) as site:
        for n in range(TRIES):  # the guesser writes the first address
            await guesses(site, "bearer", f"guess {n}", f"198.51.100.{n}, 203.0.113.7, 10.1.2.3")
        assert await guesses(site, "bearer", TOKEN, "198.51.100.99, 203.0.113.7") == 429
        assert await guesses(site, "bearer", TOKEN, "203.0.113.8") == 200
    async with serving(tmp_path, token=TOKEN) as site:
        for n in range(TRIES):
            await guesses(site, "bearer", f"guess {n}", f"198.51.100.{n}")
        assert await guesses(site, "bearer", TOKEN, "203.0.113.8") == 429


# Malformed headers


@pytest.mark.parametrize("token", ["", TOKEN])
async def test_malformed_headers_are_refused(tmp_path: Path, token: str) -> None:
    malformed = (
        b"Host: [",
        b"Host: a:b",
        b"Host: [::1",
        b"Host: localhost\r\nOrigin: http://[",
        b"Host: localhost\r\nOrigin: http://a:99999999",
    )
    async with serving(tmp_path, token=token) as site:
        for path in (LIST, "/api/login", "/", "/nowhere", "/page", "/v1/models"):
            for headers in malformed:
                line = f"GET {path} HTTP/1.1\r\n".encode()
                said = await asked_raw(site.url, line + headers + b"\r\nConnection: close\r\n\r\n")
                assert said.split()[1] == b"400", (path, headers)
                assert b"malformed" in said


async def test_a_cookie_with_raw_bytes_is_a_wrong_one(tmp_path: Path) -> None:
    line = b"GET /api/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: "
    async with serving(tmp_path, token=TOKEN) as site:
        for cookie in (b"parley=\xff\xfe", b"parley=\xc3\xa9; a=b", b'parley="\\377"'):
            said = await asked_raw(site.url, line + cookie + b"\r\n\r\n")
            assert said.split()[1] == b"401"
