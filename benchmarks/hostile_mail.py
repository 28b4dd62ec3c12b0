"""Hostile mails as bytes: each field and each part that a sender controls is filled with the worst
content for its parser. The benchmark measures the CPU time of the reader in its own process, and of
the remaining work in the bot's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from heapq import nlargest
from types import SimpleNamespace
from typing import cast

from benchmarks.hostile_requests import SIZES, ReadCost, cpu
from bot.attachments import run_limited
from channels.base import Bot
from channels.mail.mail import SMALL, is_small, open_letter
from channels.mail.reading import read

MOST = 0.25
"""Seconds of CPU for 100 KB, in a process that reads one mail. A megabyte may take ten times as
long, which quadratic growth exceeds."""
HERE = 0.05
"""Seconds of CPU that a mail may take in the bot's process, for any size."""
_WORST = 20  # mails of a size that are measured at the next size, too
_FEW = 23  # in a short run one of this many mails is measured

_FROM = b"From: Ann <ann@example.net>\r\n"
_FIELDS = (
    *(b"From", b"Subject", b"Date", b"Message-ID", b"References", b"In-Reply-To"),
    *(b"Authentication-Results", b"Content-Type", b"Content-Disposition"),
    *(b"Content-Transfer-Encoding", b"Content-ID", b"Auto-Submitted", b"Return-Path", b"List-Id"),
    *(b"X-Auto-Response-Suppress", b"X-Unknown"),
)
_UNITS = (
    *(b"a", b" ", b"\t", b"(", b")", b"()", b"<", b"<a@b>,", b"a@b,", b'"', b'"a" ', b"\\", b"@"),
    *(b"@a", b".", b",", b";", b":", b"=", b"a b ", b"a, ", b"=?utf-8?q?a?= ", b"=?utf-8?b?"),
    *(b"=?a?q?=?", b"=?utf-8?q?" + b"=41" * 20 + b"?= ", b"; a=b", b"; a*1=b", b"; a*1*=b"),
    *(b";a*=utf-8''%41", b"; filename*1=a", b"[", b"[a", b"\xff", b"\xc3\xa9", b"\r\n a", b"1 "),
    *(b"a;", b"a.", b"<>", b"x: (", b"=;", b"''", b"%", b"Mon, ", b"+0000 ", b"=\x00"),
)
"""Pieces of a field that are repeated."""
_LINES = (
    *(b"a\r\n", b"\r\n", b"\n", b"\r", b"a: b\r\n", b" a\r\n", b": \r\n", b"From a\r\n", b"=\r\n"),
    *(
        b"--b\r\n",
        b"--b--\r\n",
        b"--b",
        b"-",
        b"--b\r\n\r\n",
        b"--b\r\nContent-Type: text/plain\r\n",
    ),
    *(b"=41", b"=", b"=4", b"AAAA", b"A", b"A\r\n", b"begin 644 a\r\n", b"M\r\n", b"\x00", b"\xff"),
    *(b"> a\r\n", b">", b"On 1 a: \r\n", b"-- \r\n", b"---\r\n", b"____", b"From: a\r\n"),
    *(b"<p>", b"<div>", b"<", b"<a b='c'/>", b"&amp;", b"&", b"<!--", b"<br>", b"</p>", b"<li>"),
    *(b"<blockquote type='cite'>", b"<div class='gmail_quote'>a</div>", b"<table><tr><td>"),
    *(b"<div id='appendonsend'></div>", b"<p a='b' a='b' ", b"\xe6\x98\x8e", b"+AGE-", b"*a*"),
)
"""Pieces of a body that are repeated."""
_KINDS = (
    b"text/plain; charset=utf-8",
    b"text/plain; charset=utf-7",
    b"text/plain; charset=punycode",
    b"text/plain; charset=unicode_escape",
    b"text/plain; charset=idna",
    b"text/plain; charset=nonsense",
    b"text/html",
    b"multipart/mixed; boundary=b",
    b"multipart/alternative; boundary=b",
    b"multipart/digest; boundary=b",
    b"multipart/related; boundary=b; type=a",
    b"multipart/report",
    b"message/rfc822",
    b"message/delivery-status",
    b"application/pdf; name=a",
)
_ENCODINGS = (b"8bit", b"quoted-printable", b"base64", b"x-uuencode")


def _field(name: bytes, unit: bytes, size: int) -> bytes:
    begin = b"" if name == b"From" else _FROM
    return begin + name + b": " + unit * (size // len(unit)) + b"\r\n\r\nHello"


def _folded(name: bytes, unit: bytes, size: int) -> bytes:
    """Return the same field in lines of the length that RFC 5322 allows."""
    begin = b"" if name == b"From" else _FROM
    line = unit * (900 // len(unit) or 1) + b"\r\n "
    return begin + name + b": " + line * (size // len(line)) + b"a\r\n\r\nHello"


def _often(name: bytes, unit: bytes, size: int) -> bytes:
    """Return a mail with very many fields."""
    line = name + b": " + unit * 8 + b"\r\n"
    return _FROM + line * (size // len(line)) + b"\r\nHello"


def _body(kind: bytes, encoding: bytes, unit: bytes, size: int) -> bytes:
    head = b"Content-Type: " + kind + b"\r\nContent-Transfer-Encoding: " + encoding + b"\r\n\r\n"
    return _FROM + b"In-Reply-To: <a@b>\r\n" + head + unit * (size // len(unit))


def _nested(kind: bytes, size: int) -> bytes:
    """Return a mail of nested parts, each with its own boundary."""
    made, number = [_FROM], 0
    while sum(map(len, made[-1:])) and number * 60 < size:
        number += 1
        made.append(b"Content-Type: %s; boundary=b%d\r\n\r\n--b%d\r\n" % (kind, number, number))
    return b"".join(made)


def _few_parts(filling: bytes, size: int) -> bytes:
    """Return a mail with the maximum number of parts, each filled."""
    each = size // 190
    part = b"--b\r\nContent-Type: text/plain\r\n\r\n" + filling * (each // len(filling)) + b"\r\n"
    return _FROM + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + part * 190 + b"--b--"


def _part_heads(name: bytes, unit: bytes, size: int) -> bytes:
    """Return a mail with the maximum number of parts, each with a long field."""
    each = size // 190
    part = b"--b\r\n" + name + b": " + unit * (each // len(unit)) + b"\r\n\r\na\r\n"
    return _FROM + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + part * 190 + b"--b--"


def _all_fields(unit: bytes, size: int) -> bytes:
    """Return a mail with all fields at the maximum length that is kept."""
    each = size // len(_FIELDS)
    lines = (name + b": " + unit * (each // len(unit)) + b"\r\n" for name in _FIELDS[1:])
    return b"From: " + unit * (each // len(unit)) + b"\r\n" + b"".join(lines) + b"\r\nHello"


def _deep(inner: bytes, outer: bytes, size: int) -> bytes:
    return _FROM + b"Content-Type: text/html\r\n\r\n" + inner * (size // len(inner + outer)) + outer


def _make() -> Iterator[tuple[str, Callable[[int], bytes]]]:
    for unit in _UNITS:
        for name in _FIELDS:
            yield f"{name!r} of {unit[:20]!r}", partial(_field, name, unit)
            yield f"{name!r} of {unit[:20]!r}, folded", partial(_folded, name, unit)
            yield f"many {name!r} of {unit[:20]!r}", partial(_often, name, unit)
            if name.startswith(b"Content-"):
                yield f"parts with {name!r} of {unit[:20]!r}", partial(_part_heads, name, unit)
        yield f"all fields of {unit[:20]!r}", partial(_all_fields, unit)
    for kind in _KINDS:
        for encoding in _ENCODINGS:
            for unit in _LINES:
                what = f"{kind.decode()} in {encoding.decode()} of {unit[:20]!r}"
                yield what, partial(_body, kind, encoding, unit)
    for kind in (b"multipart/mixed", b"multipart/alternative", b"message/rfc822"):
        yield f"nested {kind.decode()}", partial(_nested, kind)
    for unit in _LINES:
        yield f"parts of {unit[:20]!r}", partial(_few_parts, unit)
        yield f"HTML of {unit[:20]!r}, deep", partial(_deep, unit, b"</div>")


MAILS: Mapping[str, Callable[[int], bytes]] = dict(_make())
"""Mails of about so many bytes, by their content."""


def measured(*, is_short: bool = False) -> Iterator[ReadCost]:
    """Yield the worst mail of each size. All are measured at the smallest size, and the worst of
    them at larger ones."""
    names = list(MAILS)[:: _FEW if is_short else 1]
    small = [name for name in names if is_small(_as_small(name))]
    yield max((_cost_here(name, _as_small(name)) for name in small), key=_seconds)
    for size in SIZES[: 2 if is_short else 3]:
        costs = [
            ReadCost("mail.reading.read", size, name, cpu(_read, MAILS[name](size)), MOST)
            for name in names
        ]
        worst = nlargest(_WORST, costs, key=_seconds)
        names = [cost.what for cost in worst]
        yield worst[0]
        yield max((_cost_here(name, MAILS[name](size)) for name in names), key=_seconds)


def _seconds(cost: ReadCost) -> float:
    return cost.seconds


def _as_small(name: str) -> bytes:
    return MAILS[name](SMALL - 300)


def _cost_here(what: str, raw: bytes) -> ReadCost:
    # `ReadCost` allows larger mails more time; this bound does not.
    return ReadCost("mail, here", len(raw), what, cpu(_open, raw), HERE / max(1, len(raw) / 1e5))


def _read(raw: bytes) -> None:
    with suppress(Exception):  # it may raise anything
        read(raw, "<1@imap>", "bot@example.org")


def _open(raw: bytes) -> None:
    bot = cast(Bot, SimpleNamespace(run_limited=run_limited))
    open_letter(bot, raw, "<1@imap>", "bot@example.org")
