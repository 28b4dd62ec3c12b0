"""Tests of web pages over a real socket: the pages that are read, and those that are refused under
all circumstances."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from encodings.aliases import aliases
from unittest.mock import Mock

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from agent.tools import ToolError
from agent.tools import page as page_text
from agent.tools.page import LABELS, codec_of, decode, text_of
from plugins.web_tools import pages
from plugins.web_tools.pages import Fetcher, is_public

PUBLIC, PRIVATE = "127.0.0.1", "127.0.0.2"
"""Both are loopback addresses: the tests treat the first as public."""


NEAR = (
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0"),
    *("100.64.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "2001:db8::1", "fec0::1"),
    *("::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "2002:7f00:1::", "64:ff9b::7f00:1"),
    *("::127.0.0.1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "64:ff9b:1::1"),
)
FAR = ("1.1.1.1", "93.184.215.14", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1")


def test_addresses_of_the_internet_are_public_and_no_nearer_one() -> None:
    assert [address for address in NEAR if is_public(address)] == []
    assert [address for address in FAR if not is_public(address)] == []


class Site:
    """A web server; `visited` are the requested paths."""

    def __init__(self) -> None:
        self.visited: list[str] = []
        self.port = 0
        self.answers: dict[str, Callable[[], web.StreamResponse]] = {}

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.visited.append(request.path)
        return self.answers[request.path]()


@asynccontextmanager
async def served(host: str, port: int = 0) -> AsyncIterator[Site]:
    site = Site()
    server = web.Server(site.answer)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    site.port = runner.addresses[0][1]
    try:
        yield site
    finally:
        await runner.cleanup()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with served(PUBLIC) as one:
        yield one


def names(**known: Sequence[str]) -> pages.Resolve:
    """Return a name server that knows only these; "." in a name is written "_" here."""

    async def resolve(host: str) -> Sequence[str]:
        return known.get(host.replace(".", "_"), [host])

    return resolve


async def anything(url: URL) -> None:
    """Approve every address."""


async def fetch(
    url: str,
    resolve: pages.Resolve | None = None,
    approve: Callable[[URL], Awaitable[None]] = anything,
) -> pages.WebPage:
    fetcher = Fetcher(resolve or names(site_test=[PUBLIC]), lambda address: address == PUBLIC)
    return await fetcher.page(url, approve)


def page(text: str, kind: str = "text/html") -> Callable[[], web.StreamResponse]:
    return lambda: web.Response(text=text, content_type=kind)


def moved(to: str) -> Callable[[], web.StreamResponse]:
    return lambda: web.Response(status=302, headers={"Location": to})


async def test_a_page_comes_as_text(site: Site) -> None:
    site.answers["/"] = page("<title>Tea</title><p>Green &amp; <a href='/black'>black</a></p>")
    found = await fetch(f"http://site.test:{site.port}/#top")
    assert found.text == "Tea\nGreen & black (/black)"
    assert found.address == f"http://site.test:{site.port}/"


async def test_json_comes_as_it_is_and_pictures_are_not_read(site: Site) -> None:
    site.answers["/"] = page('{"tea": "<b>"}', "application/vnd.api+json")
    assert (await fetch(f"http://site.test:{site.port}/")).text == '{"tea": "<b>"}'
    site.answers["/"] = lambda: web.Response(body=b"\x89PNG", content_type="image/png")
    with pytest.raises(ToolError, match="of the type image/png; only text can be read"):
        await fetch(f"http://site.test:{site.port}/")


async def test_what_is_no_page_is_refused_without_a_request() -> None:
    for url in (
        *("file:///etc/passwd", "ftp://site.test/", "gopher://x/", "/etc/passwd", "", "http://"),
        *("javascript:alert(1)", "data:text/html,hi", "http://[::1", "http://me:secret@site.test/"),
    ):
        with pytest.raises(ToolError):
            await fetch(url)


async def test_this_machine_is_not_read_however_it_is_written() -> None:
    async with served(PUBLIC) as near:
        for host in (
            *("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"),
            *("0177.0.0.1", "127.1", "0", "①②⑦.0.0.1", "127.0.0.1.", "169.254.169.254"),
            *("[fe80::1]", "[64:ff9b::7f00:1]", "0xa9fea9fe"),
        ):
            with pytest.raises(ToolError, match=r"public internet|can't be read|no address"):
                await Fetcher().page(f"http://{host}:{near.port}/", anything)
    assert not near.visited


async def test_a_name_of_which_one_address_is_private_is_refused(site: Site) -> None:
    for addresses in ([PUBLIC, PRIVATE], [PRIVATE, PUBLIC], [PUBLIC, "169.254.169.254"]):
        with pytest.raises(ToolError, match="not on the public internet"):
            await fetch(f"http://site.test:{site.port}/", names(site_test=addresses))
    assert not site.visited


@pytest.mark.parametrize("target", [f"http://{PRIVATE}", "http://inside.test"])
async def test_a_redirect_to_a_private_address_is_not_followed(site: Site, target: str) -> None:
    async with served(PRIVATE, site.port) as inside:
        site.answers["/"] = moved(f"{target}:{site.port}/secret")
        known = names(site_test=[PUBLIC], inside_test=[PRIVATE])
        with pytest.raises(ToolError, match="not on the public internet"):
            await fetch(f"http://site.test:{site.port}/", known)
    assert site.visited == ["/"]
    assert not inside.visited


async def test_a_redirect_to_the_metadata_of_a_cloud_or_to_a_file_is_not_followed(
    site: Site,
) -> None:
    for place, why in (
        ("http://169.254.169.254/latest/meta-data/", r"169\.254\.169\.254 is not on the public"),
        ("file:///etc/passwd", "only http:// and https:// can"),
    ):
        site.answers["/"] = moved(place)
        with pytest.raises(ToolError, match=why):
            await fetch(f"http://site.test:{site.port}/")


async def test_a_name_that_changes_its_address_is_connected_where_it_was_checked(
    site: Site,
) -> None:
    """DNS rebinding: the address is public during the check, and private a moment later."""
    asked: list[str] = []

    async def rebinding(host: str) -> Sequence[str]:
        asked.append(host)
        return [PUBLIC] if len(asked) == 1 else [PRIVATE]

    site.answers["/"] = moved("/next")
    async with served(PRIVATE, site.port) as inside:
        with pytest.raises(ToolError, match="not on the public internet"):
            await fetch(f"http://site.test:{site.port}/", rebinding)
    assert asked == ["site.test", "site.test"], "once for each request"
    assert site.visited == ["/"]
    assert not inside.visited


async def test_redirects_that_never_end_are_ended(site: Site) -> None:
    site.answers["/"] = moved("/")
    with pytest.raises(ToolError, match="redirects more than 5 times"):
        await fetch(f"http://site.test:{site.port}/")
    assert len(site.visited) == 6


async def test_each_site_is_asked_for_before_it_is_touched(site: Site) -> None:
    asked: list[str] = []

    async def wary(url: URL) -> None:
        asked.append(str(url.host))
        if url.host == "other.test":
            raise ToolError("The person has said no.")

    site.answers["/"] = moved(f"http://other.test:{site.port}/next")
    known = names(site_test=[PUBLIC], other_test=[PUBLIC])
    with pytest.raises(ToolError, match="said no"):
        await fetch(f"http://site.test:{site.port}/", known, wary)
    assert asked == ["site.test", "other.test"]
    assert site.visited == ["/"]


@pytest.mark.parametrize("is_packed", [False, True])
async def test_a_page_without_end_is_cut(
    site: Site, is_packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit also holds for one that decompresses to a thousand times its size."""
    monkeypatch.setattr(pages, "LARGEST", 100_000)
    body, headers = b"x" * 150_000, {"Content-Type": "text/plain"}
    if is_packed:
        body, headers["Content-Encoding"] = gzip.compress(b"x" * 20_000_000, 9), "gzip"
    site.answers["/"] = lambda: web.Response(body=body, headers=headers)
    found = await fetch(f"http://site.test:{site.port}/")
    assert found.is_cut
    assert len(found.text) == pages.LARGEST


async def test_a_site_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SECONDS", 0.05)
    writers: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: writers.append(writer), PUBLIC, 0)
    async with silent:
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(ToolError, match="did not answer within"):
            await fetch(f"http://site.test:{port}/")
        for writer in writers:
            writer.close()


async def test_a_page_is_read_in_the_encoding_that_it_names_if_that_is_one(site: Site) -> None:
    def encoded(content: bytes, name: str) -> Callable[[], web.StreamResponse]:
        headers = {"Content-Type": f"text/plain; charset={name}"}
        return lambda: web.Response(body=content, headers=headers)

    for name in ("zip", "nonsense", "hex", "utf-16"):
        site.answers["/"] = encoded(b"hi \xff\xfe", name)
        assert (await fetch(f"http://site.test:{site.port}/")).text
    site.answers["/"] = encoded("Привет".encode("cp1251"), "windows-1251")
    assert (await fetch(f"http://site.test:{site.port}/")).text == "Привет"


def test_the_encodings_of_the_web_are_read_and_no_codec_of_pythons_own() -> None:
    words = "abc \\u0041 +AEE- z-eka"
    for name in ("punycode", "idna", "unicode_escape", "utf-7", "mbcs", "rot13"):
        assert decode(words.encode(), name) == words
    for name, content, text in (
        ("latin1", "“naïve” €".encode("cp1252"), "“naïve” €"),
        ("Shift_JIS", "お茶".encode("cp932"), "お茶"),
        ("gb2312", "茶".encode("gb18030"), "茶"),
        ("euc-kr", "차".encode("cp949"), "차"),
        ("utf-16le", "tea".encode("utf-16-le"), "tea"),
    ):
        assert decode(content, name) == text


@settings(max_examples=60)
@given(st.one_of(st.text(), st.sampled_from(sorted(aliases))), st.binary(max_size=200))
def test_whatever_a_page_calls_its_encoding_it_is_one_of_the_list(
    label: str, content: bytes
) -> None:
    assert codec_of(label) in set(LABELS)
    assert isinstance(decode(content, label), str)


def test_much_is_decoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec blocks the interpreter while it works on a piece."""
    decoder = Mock(decode=Mock(return_value="x"))
    monkeypatch.setattr(page_text, "getincrementaldecoder", lambda codec: lambda errors: decoder)
    assert decode(bytes(150_000), "utf-8") == "xxx"
    pieces = [(len(call.args[0]), call.args[1]) for call in decoder.decode.call_args_list]
    assert pieces == [(65_536, False), (65_536, False), (18_928, True)]


def test_a_piece_that_ends_in_a_character_is_no_end_of_it() -> None:
    assert decode("茶".encode() * 100_000, "utf-8") == "茶" * 100_000


async def test_errors_are_told_in_a_sentence(site: Site) -> None:
    site.answers["/"] = lambda: web.Response(status=404)
    with pytest.raises(ToolError, match=r"site\.test answered with the error 404\."):
        await fetch(f"http://site.test:{site.port}/")
    with pytest.raises(ToolError, match=r"^gone\.test can't be read: .+\.$"):
        await fetch("http://gone.test:1/", names(gone_test=[PUBLIC]))


EVIL = (
    "<div>",
    "<!--",
    "<a href='",
    "<script>",
    "<",
    "</a ",
    "<!a",
    "<b ",
    "&#",
    "<a href=x>",
    "1",
)


def test_no_page_takes_longer_than_its_length() -> None:
    before = time.process_time()  # of the processor, which other processes do not lengthen
    for piece in EVIL:
        text_of(piece * (150_000 // len(piece)))
    assert time.process_time() - before < 30, "minutes, where tags are sought to the page's end"


@settings(max_examples=50)
@given(st.lists(st.sampled_from([*EVIL, ">", "-->", "</script>", "words ", "'", "<p>", "\n"])))
def test_any_page_has_a_text(pieces: list[str]) -> None:
    assert "<script>" not in text_of("".join(pieces))


def test_a_character_whose_number_is_endless_is_none() -> None:
    endless = "&#" + "9" * 5_000 + ";"
    for number in (endless, f"<a href='{endless}'>x</a>"):
        assert text_of(f"<p>before {number}</p>").startswith("before")


def test_what_is_no_text_for_people_is_left_out() -> None:
    html = (
        "<head><title>Tea</title><style>p {}</style></head><script>if (a < b) bad('</p>')</SCRIPT >"
        "<h1>On\ntea</h1><!-- <p>hidden</p> --><ul><li>green<li>black</ul>1 < 2<br>"
        "<table><tr><td>a</td><td>b</td></tr></table><a href='javascript:bad()'>go</a>"
    )
    assert text_of(html) == "Tea\nOn tea\n- green\n- black\n1 < 2\na b\ngo"
