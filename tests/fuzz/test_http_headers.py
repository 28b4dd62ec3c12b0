"""Tests of the headers of a request, whatever they hold: the web channel refuses or answers, and
never breaks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.web.site import asked_raw, serving

TOKEN = "a long random text"
NAMES = st.sampled_from(
    [
        *(b"Host", b"Origin", b"Cookie", b"Authorization", b"Sec-Fetch-Site", b"X-Forwarded-For"),
        *(b"X-Forwarded-Proto", b"Forwarded", b"Via", b"Prefer", b"Accept", b"Last-Event-ID"),
        *(b"Content-Length", b"Content-Type", b"Upgrade", b"Expect", b"X-Parley-Session"),
    ]
) | st.binary(min_size=1, max_size=6)
PIECES = st.sampled_from(
    [
        *(b"http://", b"localhost", b"[", b"]", b"::1", b":", b"@", b"/", b"%", b"\xff", b"\xc3"),
        *(b"Bearer ", b"parley=", b'"', b";", b"\\377", b",", b"127.0.0.1", b"99999", b"0"),
        *(b"text/event-stream", b"\t", b"a" * 300),
    ]
)
VALUES = st.lists(PIECES, max_size=6).map(b"".join) | st.binary(max_size=20)
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=5)
PATHS = st.sampled_from(
    [*(b"/api/sessions", b"/api/login", b"/", b"/page", b"/nowhere", b"/v1/models", b"//[")]
)


@dataclass(frozen=True)
class Served:
    url: str
    runner: asyncio.Runner

    def answers(self, request: bytes) -> bytes:
        return self.runner.run(asked_raw(self.url, request))


@pytest.fixture(scope="module", params=["", TOKEN], ids=["open", "with a token"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        folder: Path = tmp_path_factory.mktemp("web")
        serves = serving(folder, token=request.param, trusted_proxies=("127.0.0.1",))
        site = runner.run(stack.enter_async_context(serves))
        try:
            yield Served(site.url, runner)
        finally:
            runner.run(stack.aclose())


@given(path=PATHS, method=st.sampled_from([b"GET", b"POST"]), headers=HEADERS)
@example(path=b"/api/sessions", method=b"GET", headers=[(b"Host", b"[")])
@example(path=b"/api/sessions", method=b"GET", headers=[(b"Origin", b"http://[")])
@example(path=b"/api/sessions", method=b"GET", headers=[(b"Cookie", b"parley=\xff")])
def test_no_header_breaks_the_web_channel(
    served: Served, path: bytes, method: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    lines = [b"%s: %s\r\n" % header for header in headers]
    if not any(name.lower() == b"host" for name, _ in headers):
        lines.append(b"Host: localhost\r\n")
    request = b"%s %s HTTP/1.1\r\n%sConnection: close\r\n\r\n" % (method, path, b"".join(lines))
    said = served.answers(request + b"\0" * 64)
    status = re.match(rb"HTTP/1\.1 (\d{3}) ", said)
    assert status is not None, (request, said)
    assert int(status[1]) < 500, (request, said)
