"""A folder on an IMAP server, and the true sender of a message according to the receiving server.

The methods of the inbox block on the network: call them in a separate thread, except `end`, which
makes them fail at once.

Anybody can write any address into From. The receiving server checks it with SPF, DKIM and DMARC,
and adds the result as a field Authentication-Results (RFC 8601), above existing ones.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from ipaddress import ip_address
from socket import SHUT_RDWR

from imapclient import IMAPClient, SocketTimeout
from msgspec import Struct, field

from channels.base import ChannelError
from channels.mail import MailSettings
from channels.message import LARGEST_ATTACHMENT, MOST_ATTACHMENTS

NO_FOLDER = "The mail server has no folder {}; correct channels.mail.folder, and restart the bot."

_IDLE = 240.0  # seconds; routers may cut a connection that is idle for longer
_POLL = 60.0  # seconds between two checks, if the server does not notify
_TIMEOUT = SocketTimeout(connect=15, read=60)
_LARGEST = MOST_ATTACHMENTS * LARGEST_ATTACHMENT * 4 // 3
_LARGEST_HEAD = 200_000  # bytes


class Host(Struct, frozen=True):
    """A server: by TLS from the beginning, or as soon as it is offered; unencrypted only on this
    machine."""

    name: str
    port: int
    is_secure: bool
    is_here: bool

    @classmethod
    def of(cls, text: str, default: str, secure_port: int) -> Host:
        """Return the server in `text`, which is "NAME" or "NAME:PORT"."""
        name, _colon, port = (text or default).partition(":")
        number = int(port) if port.isdecimal() else secure_port
        is_here = name == "localhost"
        with suppress(ValueError):
            is_here = ip_address(name).is_loopback
        return cls(name, number, number == secure_port, is_here)


class Inbox:
    """A connection to the folder."""

    def __init__(self, settings: MailSettings, password: str) -> None:
        domain = settings.address.rpartition("@")[2]
        self._host = Host.of(settings.imap, f"imap.{domain}", 993)
        self._user, self._password = settings.user or settings.address, password
        self._folder = settings.folder
        self._client: IMAPClient | None = None
        self.validity = self.next = 0

    def open(self, *, is_readonly: bool = False) -> None:
        """Connect and select the folder, with its `validity` and the number of the `next` message.
        Raises ChannelError if the folder does not exist."""
        host = self._host
        self._client = client = IMAPClient(
            host.name, host.port, ssl=host.is_secure, timeout=_TIMEOUT
        )
        client.normalise_times = False
        if not (host.is_secure or host.is_here):
            client.starttls(ssl.create_default_context())
        client.login(self._user, self._password)
        if not client.folder_exists(self._folder):
            raise ChannelError(NO_FOLDER.format(self._folder))
        self._select(is_readonly=is_readonly)

    def _select(self, *, is_readonly: bool = False) -> None:
        found = self.client.select_folder(self._folder, readonly=is_readonly)
        self.validity = int(found[b"UIDVALIDITY"])
        newest = found.get(b"UIDNEXT") or max(self.client.search("ALL"), default=0) + 1
        self.next = int(newest)

    @property
    def client(self) -> IMAPClient:
        assert self._client is not None, "it is open"
        return self._client

    def find_later(self, last: int) -> list[int]:
        """Return the numbers of all later messages."""
        return sorted(uid for uid in self.client.search(["UID", f"{last + 1}:*"]) if uid > last)

    def find_since(self, begin: datetime) -> list[int]:
        """Return the numbers of all messages received since then."""
        found = self.client.search(["SINCE", begin.date() - timedelta(days=1)])
        times = self.client.fetch(found, ["INTERNALDATE"]) if found else {}
        return sorted(uid for uid, one in times.items() if one[b"INTERNALDATE"] >= begin)

    def find_unseen(self) -> list[int]:
        return sorted(self.client.search(["UNSEEN"]))

    def fetch(self, uid: int) -> tuple[bytes, bool]:
        """Return a raw message (b"": it was deleted), and whether it is complete; of a message that
        is too large only the head is returned."""
        size = self.client.fetch([uid], ["RFC822.SIZE"]).get(uid, {}).get(b"RFC822.SIZE", 0)
        is_whole = int(size) <= _LARGEST
        what = "BODY.PEEK[]" if is_whole else f"BODY.PEEK[HEADER]<0.{_LARGEST_HEAD}>"
        return self._read(uid, what), is_whole

    def fetch_head(self, uid: int) -> bytes:
        """Return the head of a message, up to a limit; b"": the message was deleted."""
        return self._read(uid, f"BODY.PEEK[HEADER]<0.{_LARGEST_HEAD}>")

    def _read(self, uid: int, what: str) -> bytes:
        found = self.client.fetch([uid], [what]).get(uid, {})
        return next((bytes(part) for name, part in found.items() if name[:5] == b"BODY["), b"")

    def find_head(self, message: str) -> bytes:
        """Return subject and references of a message by its id; b"" if it was deleted."""
        for uid in self.client.search(["HEADER", "Message-ID", message])[-1:]:
            fields = "SUBJECT REFERENCES IN-REPLY-TO"
            return self._read(uid, f"BODY.PEEK[HEADER.FIELDS ({fields})]<0.{_LARGEST_HEAD}>")
        return b""

    def mark_seen(self, uid: int) -> None:
        self.client.add_flags([uid], [b"\\Seen"], silent=True)

    def wait(self) -> None:
        """Return once new mail has arrived, or after a while. Mail since the last check may have
        been reported already, between two responses, and is not reported again: so check once more
        first."""
        before = self.next
        self._select()
        if self.next > before:
            return
        if not self.client.has_capability("IDLE"):
            time.sleep(_POLL)
            return
        self.client.idle()
        if not self._is_notified():
            self.client.idle_check(timeout=_IDLE)
        self.client.idle_done()

    def _is_notified(self) -> bool:
        """Return whether news came together with the response to IDLE, if a message arrives at that
        moment. It is then in the reader's buffer, where `idle_check`, which waits for the socket,
        does not see it before other data come."""
        connection = self.client.socket()
        connection.setblocking(False)
        try:
            return bool(self.client._imap.file.peek())
        except OSError:  # over TLS, without data
            return False
        finally:
            connection.settimeout(_TIMEOUT.read)

    def close(self) -> None:
        """Release the connection without a logout."""
        if self._client is not None:
            with suppress(OSError):
                self._client.shutdown()

    def end(self) -> None:
        """Cut the connection, whatever it waits for; `close` it afterwards."""
        if self._client is not None:
            with suppress(OSError):
                self._client.socket().shutdown(SHUT_RDWR)


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
