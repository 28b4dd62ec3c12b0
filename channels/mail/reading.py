"""What a message says to us: from its bytes to the kit's values. It may hold anything."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.headerregistry import Address as MailAddress
from email.message import EmailMessage, Message, MIMEPart
from email.parser import BytesParser
from typing import Any

from channels.kit.platform import Author, File, Heard, Place
from channels.mail.words import cut_quotation, cut_signature, read_html
from channels.message import MOST_ATTACHMENTS

_LONGEST_FIELD = 10_000  # characters of a header's field
_ID = re.compile(r"<[^<>\s]{1,400}>")
OWN_ID = re.compile(r"<parley\.([0-9a-f]{16})\.[0-9a-f]+@[^<>\s]+>")
"""An id of a message of ours: it names the thread, also where an app leaves References out."""
_MACHINES = re.compile(r"(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)[+@-]")
_BULK = {"bulk", "list", "junk"}
_LIST_FIELDS = ("List-Id", "List-Unsubscribe", "List-Post")


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that was received: who says to have sent it (an address in lower case; "" where
    that is not one), its results of being verified, and the bytes of its files by their ids.
    `automatic` says why nobody waits for an answer to it ("": somebody does)."""

    sender: str
    results: tuple[str, ...]
    automatic: str
    heard: Heard
    contents: dict[str, bytes]
    subject: str = ""
    references: tuple[str, ...] = ()


def read(raw: bytes, fallback: str, own: str) -> Letter:
    """Read a message; `fallback` is an id for one that has none, `own` the bot's address. The
    parser of the standard library raises all kinds of errors at what is hostile."""
    message = BytesParser(policy=policy.default).parsebytes(raw)
    assert isinstance(message, EmailMessage)
    author = _author(message)
    address = author.addr_spec.lower() if author else ""
    references = _references(message)
    identity = next(iter(_ID.findall(_field(message, "Message-ID"))), fallback)
    files, contents = _files(message)
    place = Place(address, thread_of(references, identity), identity)
    heard = Heard(
        place,
        Author(address, author.display_name if author else ""),
        _text(message, is_reply=bool(references)),
        files,
        at=_time_of(message),
    )
    results = tuple(
        str(value)[:_LONGEST_FIELD] for value in message.get_all("Authentication-Results", ())
    )
    return Letter(
        address,
        results,
        _why_automatic(message, address, own),
        heard,
        contents,
        _field(message, "Subject"),
        references,
    )


def read_head(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """The subject of a message, and what it follows."""
    message = BytesParser(policy=policy.default).parsebytes(raw, headersonly=True)
    assert isinstance(message, EmailMessage)
    return _field(message, "Subject"), _references(message)


def thread_of(references: Iterable[str], identity: str) -> str:
    """The name of a message's thread: the one that a message of ours carries on, or one made of the
    first message."""
    known = [*references, identity]
    for one in reversed(known):
        if found := OWN_ID.fullmatch(one):
            return found[1]
    return hashlib.sha256(known[0].encode("utf-8", "replace")).hexdigest()[:16]


def _field(message: EmailMessage, name: str) -> str:
    value = str(message.get(name) or "")
    return " ".join(value.split()) if len(value) <= _LONGEST_FIELD else ""


def _author(message: EmailMessage) -> MailAddress | None:
    """Who it says it is by; None where that is nobody, or several."""
    fields: list[Any] = [*message.get_all("From", ())]
    addresses: tuple[MailAddress, ...] = fields[0].addresses if len(fields) == 1 else ()
    if len(addresses) != 1 or fields[0].defects:
        return None
    (author,) = addresses
    is_one = author.username and author.domain and author.addr_spec.count("@") == 1
    return author if is_one else None


def _references(message: EmailMessage) -> tuple[str, ...]:
    """The messages that it follows, the first one first."""
    named = _ID.findall(_field(message, "References"))
    answered = _ID.findall(_field(message, "In-Reply-To"))[:1]
    return tuple(dict.fromkeys((*named, *answered)))


def _why_automatic(message: EmailMessage, address: str, own: str) -> str:
    """Whether a machine sent it, which might answer an answer (RFC 3834, section 2)."""
    automatic = _field(message, "Auto-Submitted").partition(";")[0].strip().lower()
    if automatic not in ("", "no"):
        return f"it is {automatic}"
    if _field(message, "Return-Path") == "<>" or message.get_content_type() == "multipart/report":
        return "it is a report"
    if _field(message, "Precedence").lower() in _BULK:
        return "it went to many"
    if any(name in message for name in _LIST_FIELDS):
        return "it came over a list"
    if "X-Auto-Response-Suppress" in message:
        return "it asks for no automatic answer"
    if address == own or _MACHINES.match(address):
        return "nobody reads what is sent there"
    return ""


def _text(message: EmailMessage, *, is_reply: bool) -> str:
    """What the person has written; the subject too, where the thread begins with it."""
    parts = [_content(part).replace("\r\n", "\n") for part in _bodies(message)]
    if any(part.get_content_type() == "text/html" for part in _bodies(message)):
        text = read_html("<p></p>".join(parts), is_reply=is_reply)
    else:
        text = cut_signature("\n".join(parts))
        text = cut_quotation(text) if is_reply else text
    text = text.strip("\n").rstrip()
    if text.startswith("/"):
        return text.split("\n\n", 1)[0]  # a signature is no part of a command
    subject = "" if is_reply else _field(message, "Subject")
    return "\n\n".join(filter(None, (subject, text)))


def _bodies(message: EmailMessage) -> list[MIMEPart]:
    """The parts with what was written: one, or where pictures stand between the words, all that are
    of its kind and beside it."""
    body = message.get_body(("plain", "html"))
    if body is None or body.is_attachment():
        return []
    for group in message.walk():
        if group.get_content_type() == "multipart/mixed":
            beside = [part for part in group.iter_parts() if isinstance(part, MIMEPart)]
            if body in beside:
                kind = body.get_content_type()
                return [one for one in beside if _is_words(one) and one.get_content_type() == kind]
    return [body]


def _is_words(part: Message) -> bool:
    """Whether a part is text that is shown as such, and no file."""
    is_text = part.get_content_type() in ("text/plain", "text/html")
    is_file = part.get_filename() or part.get_content_disposition() == "attachment"
    return is_text and not is_file


def _content(part: MIMEPart) -> str:
    try:
        return str(part.get_content())
    except (LookupError, ValueError):  # an unknown character set
        payload = part.get_payload(decode=True)
        return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""


def _files(message: EmailMessage) -> tuple[tuple[File, ...], dict[str, bytes]]:
    """The files, and their bytes by id. Signatures of a message are no files."""
    files: list[File] = []
    contents: dict[str, bytes] = {}
    bodies = _bodies(message)
    for number, part in enumerate(message.walk()):
        kind = part.get_content_type()
        is_text = part in bodies or _is_words(part)
        if part.is_multipart() or is_text or kind.endswith("-signature"):
            continue
        content = part.get_payload(decode=True)
        if not isinstance(content, bytes) or len(files) > MOST_ATTACHMENTS:
            continue
        name = part.get_filename() or f"file{number}.{kind.rpartition('/')[2]}"
        files.append(File(str(number), name, kind, len(content)))
        contents[str(number)] = content
    return tuple(files), contents


def _time_of(message: EmailMessage) -> datetime:
    """When it was sent, by its own word: never later than now."""
    now = datetime.now(UTC)
    sent = getattr(message["Date"], "datetime", None)
    if not isinstance(sent, datetime):
        return now
    return min(sent if sent.tzinfo else sent.replace(tzinfo=UTC), now)
