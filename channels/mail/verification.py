"""The true sender of a message, according to the receiving server.

Anybody can write any address into From. The receiving server checks it with SPF, DKIM and DMARC,
and adds the result as a field Authentication-Results (RFC 8601), above existing ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

_LONGEST = 10_000  # maximum characters of a field
_LEXEME = re.compile(r'((?:"(?:[^"\\]|\\.)*+"|[^\s;="()])++)|([;=()])|\\?.', re.DOTALL)
"""A word, parts of which may be quoted ("ann@example.org"@evil.example is one, and is not an
address at example.org), or a sign."""
_IN_COMMENT = re.compile(r"()(?:([()])|\\?.)", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"')


class Result(Struct, frozen=True):
    """The result of one method: "dkim", "pass", {"header.d": "example.org"}."""

    method: str
    verdict: str
    properties: dict[str, str] = field(default_factory=dict)


def is_verified(sender: str, fields: Sequence[str], server: str) -> bool:
    """Return whether the server confirms that `sender`, an address, sent a message. `fields` are
    all its Authentication-Results fields, from the top; only the first with the server's name is
    its own: others may be forged."""
    for one in fields:
        name, results = parse(one)
        if name == server.lower():
            return _is_vouched(sender.lower(), results)
    return False


def _is_vouched(sender: str, results: Sequence[Result]) -> bool:
    domain = sender.rpartition("@")[2]
    verdicts = {(result.method, result.verdict) for result in results}
    if ("dmarc", "fail") in verdicts:
        return False
    return any(_proves(result, sender, domain) for result in results if result.verdict == "pass")


def _proves(result: Result, sender: str, domain: str) -> bool:
    found = result.properties
    match result.method:
        case "dmarc":
            return found.get("header.from", "").rpartition("@")[2] == domain
        case "dkim":
            signed = found.get("header.d") or found.get("header.i", "").rpartition("@")[2]
            return _covers(signed, domain)
        case "spf":
            return _covers(found.get("smtp.mailfrom", "").rpartition("@")[2], domain)
        case "auth":  # the authenticated sender
            return sender == (found.get("smtp.auth") or found.get("smtp.mailfrom"))
    return False


def _covers(proven: str, domain: str) -> bool:
    """Return whether proof of one domain is valid for the other: the same domain, or one below
    it."""
    return proven == domain or ("." in proven and domain.endswith(f".{proven}"))


def parse(text: str) -> tuple[str, list[Result]]:
    """Return a field's server and results, all in lower case; no results if the field can't be
    parsed."""
    server, *parts = _split(text[:_LONGEST].lower())
    if len(text) > _LONGEST:
        parts = []  # the part that was cut off may say the contrary
    results = []
    for part in parts:
        pairs = list(_pairs(part))
        if pairs:
            (method, verdict), *properties = pairs
            results.append(Result(method.partition("/")[0], verdict, dict(properties)))
    return (server[0] if server else ""), results


def _split(text: str) -> list[list[str]]:
    """Return the words between semicolons, without comments; "=" is a word. A quotation contains no
    comment, and a comment no quotation."""
    parts: list[list[str]] = [[]]
    depth = at = 0
    while at < len(text):
        found = (_IN_COMMENT if depth else _LEXEME).match(text, at)
        assert found is not None, "each pattern takes any character"
        at = found.end()
        word, sign = found.groups()
        if sign in ("(", ")"):
            depth = max(0, depth + (1 if sign == "(" else -1))
        elif sign == ";":
            parts.append([])
        elif word or sign:
            parts[-1].append(_QUOTED.sub(r"\1", word) if word else sign)
    return parts


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for place, word in enumerate(words):
        if word == "=" and 0 < place < len(words) - 1:
            yield words[place - 1], words[place + 1]
