"""Who is let in: the token, the cookie, and pages from elsewhere."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from channels.web import CannotListen, Web, WebConfig
from channels.web.throttle import FIRST_LOCK, MOST, TRIES, WINDOW, Throttle
from tests.web.site import Site, asked_raw, serving

TOKEN = "a long random text"
LIST = "/api/sessions"
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", "Bearer é"])
async def test_without_the_token_nothing_is_told(tmp_path: Path, header: str) -> None:
    async with serving(tmp_path, token=TOKEN) as site:
        for path in (LIST, "/v1/models"):
            status, body = await site.get(path, headers={"Authorization": header})
            assert status == 401
            said = body["error"]["type"], body["error"]["code"]
            assert said == ("invalid_request_error", "invalid_api_key")  # as OpenAI has it


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
async def test_a_token_may_have_letters_of_any_language(tmp_path: Path, encoding: str) -> None:
    token = "ein langer zufälliger Schlüssel"
    lines = f"GET {LIST} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    async with serving(tmp_path, token=token) as site:
        raw = f"{lines}Connection: close\r\n\r\n".encode(encoding)
        assert (await asked_raw(site.url, raw)).startswith(b"HTTP/1.1 200 ")


async def test_what_is_not_allowed_is_called_the_same_wherever_it_is_refused(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as site:
        _, body = await site.get(LIST, headers={"Origin": "http://evil.example"})
    assert body["error"]["type"] == "permission_error"


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


@pytest.mark.usefixtures("processes")
async def test_the_page_is_there_also_when_no_file_can_be_opened_any_more(tmp_path: Path) -> None:
    script = tmp_path / "full.py"
    script.write_text(WITH_NO_DESCRIPTOR_LEFT)
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, str(tmp_path), cwd=ROOT, stdout=PIPE, stderr=PIPE
    )
    out, err = await process.communicate()
    assert out.decode().splitlines() == ["200 text/html", "304", "200 text/css"], err.decode()


WITH_NO_DESCRIPTOR_LEFT = """
import asyncio, os, resource, sys
from pathlib import Path
sys.path.insert(0, os.getcwd())
from tests.web.site import serving

async def main():
    async with serving(Path(sys.argv[1])) as site:
        async with site.http.get(f"{site.url}/") as response:  # its connection stays open
            tag = response.headers["ETag"]
        known = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, known[1]))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        async with site.http.get(f"{site.url}/") as response:
            print(response.status, response.content_type)
        async with site.http.get(f"{site.url}/", headers={"If-None-Match": tag}) as response:
            print(response.status)
        async with site.http.get(f"{site.url}/page/page.css") as response:
            print(response.status, response.content_type)
        for one in held:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, known)

asyncio.run(main())
"""


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.com"])
def test_no_place_that_others_reach_is_opened_without_a_token(host: str) -> None:
    with pytest.raises(CannotListen, match="PARLEY_WEB_TOKEN"):
        Web(WebConfig(host, 0, "", 1))


def test_a_port_that_is_taken_is_said_to_be() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"port {port}"):
            Web(WebConfig("127.0.0.1", port, "", 1))


@pytest.mark.parametrize("token", ["a", "short-one", " ", "  \t ", "a" * 40, f"{'x' * 15}   "])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_token_that_could_be_guessed_opens_nothing(host: str, token: str) -> None:
    with pytest.raises(CannotListen, match=r"at least 16 characters.*secrets\.token_urlsafe"):
        Web(WebConfig(host, 0, token, 1))


# Proxies


@pytest.mark.parametrize(
    "header",
    [
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
    ],
)
async def test_without_a_token_nobody_gets_in_through_a_proxy(tmp_path: Path, header: str) -> None:
    name, _, value = header.partition(": ")
    for proxies in ((), ("127.0.0.1",)):
        async with serving(tmp_path, trusted_proxies=proxies) as site:
            for path in (LIST, "/v1/models"):
                status, body = await site.get(path, headers={name: value})
                assert status == 403
                assert "PARLEY_WEB_TOKEN=" in body["error"]["message"]


async def test_a_proxy_that_says_nothing_is_known_by_its_old_http(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
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
    """The status of one guess."""
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
            assert await guesses(site, "bearer", TOKEN) == 429  # also a right one, from there
            assert await guesses(site, "login", TOKEN) == 429
        status, body = await site.get(LIST, headers={"Authorization": "Bearer another guess"})
        assert (status, body["error"]["type"]) == (429, "rate_limit_error")
        assert "try again in" in body["error"]["message"]
        assert (await site.get("/health"))[0] == 200
    lines = [line for line in caplog.messages if "wrong tokens" in line]
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
        while await guesses(site, "login", f"guess {id(object())} {TOKEN[::-1]}") != 429:
            for n in range(TRIES):
                await guesses(site, "login", f"guess {n}")
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
        for n in range(TRIES):  # the guesser writes the first address itself
            await guesses(site, "bearer", f"guess {n}", f"198.51.100.{n}, 203.0.113.7, 10.1.2.3")
        assert await guesses(site, "bearer", TOKEN, "198.51.100.99, 203.0.113.7") == 429
        assert await guesses(site, "bearer", TOKEN, "203.0.113.8") == 200
    async with serving(tmp_path, token=TOKEN) as site:
        for n in range(TRIES):
            await guesses(site, "bearer", f"guess {n}", f"198.51.100.{n}")
        assert await guesses(site, "bearer", TOKEN, "203.0.113.8") == 429


def test_each_lock_is_longer_and_ends() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    waits = []
    for round_ in range(9):
        for n in range(TRIES):
            seconds = throttle.check("203.0.113.7", f"{round_} {n}", is_right=False)
        waits.append(seconds)
        now[0] += seconds + 1
        assert throttle.check("203.0.113.7", "first of the next", is_right=False) == 0
        now[0] += WINDOW + 1
    assert waits[:3] == [FIRST_LOCK, 2 * FIRST_LOCK, 4 * FIRST_LOCK]
    assert waits[-1] == waits[-2] == 3600


def test_typing_errors_of_a_whole_day_lock_nobody_out() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    for n in range(10 * TRIES):
        now[0] += WINDOW + 1
        assert throttle.check("203.0.113.7", f"{n}", is_right=False) == 0


def test_any_number_of_guessers_is_remembered_in_bounded_memory() -> None:
    throttle = Throttle()
    for n in range(2 * MOST):
        throttle.check(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", "guess", is_right=False)
        throttle.check(f"11.{n >> 16}.{n >> 8 & 255}.{n & 255}", "right", is_right=True)
    assert len(throttle._guesses) == len(throttle._known) == MOST


# Malformed headers


@pytest.mark.parametrize("token", ["", TOKEN])
@pytest.mark.parametrize("path", [LIST, "/api/login", "/", "/nowhere", "/page", "/v1/models"])
@pytest.mark.parametrize(
    "headers",
    [
        b"Host: [",
        b"Host: a:b",
        b"Host: [::1",
        b"Host: localhost\r\nOrigin: http://[",
        b"Host: localhost\r\nOrigin: http://a:99999999",
    ],
)
async def test_malformed_headers_are_refused(
    tmp_path: Path, headers: bytes, path: str, token: str
) -> None:
    async with serving(tmp_path, token=token) as site:
        line = f"GET {path} HTTP/1.1\r\n".encode()
        said = await asked_raw(site.url, line + headers + b"\r\nConnection: close\r\n\r\n")
    assert said.split()[1] == b"400"
    assert b"malformed" in said


@pytest.mark.parametrize("cookie", [b"parley=\xff\xfe", b"parley=\xc3\xa9; a=b", b'parley="\\377"'])
async def test_a_cookie_with_raw_bytes_is_a_wrong_one(tmp_path: Path, cookie: bytes) -> None:
    async with serving(tmp_path, token=TOKEN) as site:
        line = b"GET /api/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: "
        said = await asked_raw(site.url, line + cookie + b"\r\n\r\n")
    assert said.split()[1] == b"401"
