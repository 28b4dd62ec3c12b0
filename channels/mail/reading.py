"""The content of a received message, which may be anything.

This module also runs in a separate process (`reader.py`): it and its imports need neither the kit
nor pydantic, which would take most of that process's time.

Also the text that a person has written in a message, without quotations and markup.

Libraries for this were rejected: mail-parser-reply removes all indentation, takes lists for
signatures, and its patterns can run for ever; email-reply-parser supports English alone and is
unmaintained.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.headerregistry import Address as MailAddress
from email.message import Message
from typing import Any

from lxml.etree import LxmlError, iterwalk
from lxml.html import HtmlElement, HTMLParser, document_fromstring
from msgspec import Struct
from msgspec.structs import replace

from channels.mail.bounds import BoundedMessage, TooManyParts, decode_words, parse_bounded
from channels.message import MOST_ATTACHMENTS

_ATTRIBUTION = re.compile(r"(?:.*@|.*\d\d).*[:：]\s*", re.DOTALL)
"""The line above a quotation, in any language: "On 23 November 2026, Ann wrote:"."""
_ITS_BEGINNING = re.compile(r"(?:On|Am|Le|El|Il|Em|Op|Den|Dnia|W dniu)\s.*\d", re.IGNORECASE)
_SEPARATOR = re.compile(
    r"-{3,}\s?(?:Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original"
    r"|原始邮件|原始郵件)\s?-{3,}|_{20,}",
    re.IGNORECASE,
)
_HEAD = re.compile(
    r"\**(?:From|Von|De|Da|Van|Från|Od|发件人|寄件者)\s?[:：]\**\s", re.IGNORECASE
)  # of a message that is quoted unchanged
_HEAD_GOES_ON = re.compile(
    r"\**(?:Sent|Date|To|Subject|Gesendet|Datum|An|Betreff|Envoyé|À|Objet|Enviado|Para|Asunto|Inviato"
    r"|Oggetto|Verzonden|Onderwerp|Skickat|发送时间|收件人|主题)\s?[:：]",
    re.IGNORECASE,
)
_LONGEST_ATTRIBUTION = 400  # maximum characters
_QUOTED = re.compile(r"\s{0,3}>")
_QUOTES = "//blockquote[@type='cite' or contains(@class,'gmail_quote')] | " + " | ".join(
    f"//div[contains(concat(' ', @class, ' '), ' {name} ')]"
    for name in ("gmail_quote", "gmail_quote_container", "moz-cite-prefix", "yahoo_quoted")
)
_REST = "//*[@id='divRplyFwdMsg' or @id='appendonsend']"  # Outlook's: everything after it is quoted
_UNSEEN = {"script", "style", "head", "title", "template"}
_BREAKS = ("\n", "\n- ")
_BLOCKS = {
    *("p", "div", "br", "tr", "table", "ul", "ol", "pre", "blockquote", "section", "article"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "hr"),
}


def cut_quotation(text: str) -> str:
    """Return a reply without the quoted message below it. Quotations above the person's own words
    stay, since they give them their meaning."""
    lines = text.split("\n")
    for number in range(len(lines)):
        if _begins_message(lines, number):
            lines = lines[:number]
            break
    all_lines = len(_stripped(lines))
    while lines and (not lines[-1].strip() or _QUOTED.match(lines[-1])):
        lines.pop()
    if len(lines) < all_lines:
        lines = _without_attribution(lines)
    return "\n".join(_stripped(lines))


def cut_signature(text: str) -> str:
    """Return a text without the lines below two hyphens and a space (RFC 3676, section 4.3)."""
    return re.split(r"^-- $", text, maxsplit=1, flags=re.MULTILINE)[0]


def _begins_message(lines: list[str], number: int) -> bool:
    """Return whether another message, quoted unchanged, begins at this line."""
    line = lines[number].strip()
    if not line:
        return False
    if _SEPARATOR.fullmatch(line):
        return True
    following = (one.strip() for one in lines[number + 1 : number + 5])
    return bool(_HEAD.match(line)) and sum(bool(_HEAD_GOES_ON.match(one)) for one in following) > 1


def _without_attribution(lines: list[str]) -> list[str]:
    """Return the lines without the last ones, if they attribute the quotation below them; they are
    one sentence, possibly wrapped."""
    for most in (1, 2, 3):
        last = "".join(lines[-most:])
        if len(last) < _LONGEST_ATTRIBUTION and _ATTRIBUTION.fullmatch(last):
            rest = lines[:-most]
            return rest[:-1] if rest and _ITS_BEGINNING.match(rest[-1].strip()) else rest
    return lines


def _stripped(lines: list[str]) -> list[str]:
    """Return the lines without empty ones at both ends."""
    whole = [number for number, line in enumerate(lines) if line.strip()]
    return lines[whole[0] : whole[-1] + 1] if whole else []


def read_html(markup: str, *, is_reply: bool) -> str:
    """Return the text of an HTML message; for a reply without its quotation."""
    try:
        root = document_fromstring(
            markup.encode("utf-8", "replace"),
            parser=HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True),
        )
    except (LxmlError, ValueError):
        return ""
    if is_reply:
        for quoted in root.xpath(_QUOTES):
            if quoted.getparent() is not None:
                quoted.drop_tree()
        for mark in root.xpath(_REST):
            for later in (*mark.itersiblings(), mark):
                if later.getparent() is not None:
                    later.drop_tree()
    # White space becomes a space; text between blocks gets a line of its own.
    lines = "".join(one if one in _BREAKS else " ".join(one.split("\n")) for one in _texts(root))
    text = "\n".join(" ".join(line.split()) for line in lines.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _texts(root: HtmlElement) -> Iterator[str]:
    """Yield all text in order, with a browser's line breaks."""
    unseen = 0
    for event, element in iterwalk(root, events=("start", "end")):
        tag = element.tag if isinstance(element.tag, str) else ""
        is_start = event == "start"
        if tag in _UNSEEN:
            unseen += 1 if is_start else -1
        if tag in _BLOCKS and (is_start or tag != "br"):
            yield "\n"
        elif tag == "li" and is_start:
            yield "\n- "
        if not unseen:
            yield (element.text if is_start else element.tail) or ""


_ID = re.compile(r"<[^<>\s]{1,400}>")
OWN_ID = re.compile(r"<parley\.([0-9a-f]{16})\.[0-9a-f]+@[^<>\s]+>")
"""An id of a message of the bot: it names the thread, even if an app omits References."""
_MACHINES = re.compile(r"(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)[+@-]")
_COMMENT = re.compile(r"\([^()]*\)")
_BULK = {"bulk", "list", "junk"}
_DENIALS = {"no", "none", "false", "0"}
"""Words in a field for automatic mail that mean the contrary."""
_ANSWERING = (
    *("X-Autoreply", "X-Autorespond", "X-Autogenerated", "X-Mail-Autoreply"),
    *("X-Autoreply-From", "X-FC-MachineGenerated", "X-Failed-Recipients"),
)
"""The fields that autoresponders set, older ones instead of Auto-Submitted."""
_RECEIPTS = {"dr", "ndr", "rn", "nrn"}
"""Values of Exchange's X-Auto-Response-Suppress in mail by people: they refuse receipts of delivery
or reading. The others (OOF, AutoReply, All) refuse answers."""
_LIST = ("Id", "Unsubscribe", "Subscribe", "Post", "Help", "Owner", "Archive")


class MailAttachment(Struct, frozen=True):
    """A file in a message."""

    name: str
    media_type: str
    content: bytes


class Letter(Struct, frozen=True):
    """A received message: its declared sender (an address in lower case; "" if there is no valid
    one), and the verification results. `automatic` says why it expects no answer ("": it does). If
    it is not `whole`, only the head was read."""

    sender: str
    results: tuple[str, ...]
    automatic: str
    author: str
    """The author's display name."""
    id: str
    thread: str
    at: datetime
    text: str = ""
    files: tuple[MailAttachment, ...] = ()
    subject: str = ""
    references: tuple[str, ...] = ()
    whole: bool = True


_END_OF_HEAD = re.compile(rb"\r?\n\r?\n|\r\r")


def read(raw: bytes, fallback: str, own: str) -> Letter:
    """Return a parsed message; `fallback` is an id for one without an id, `own` the bot's address.
    If it has too many parts, only the head is read. The standard library's parser raises any kind
    of error for hostile content."""
    try:
        return _read(raw, fallback, own)
    except TooManyParts:
        return replace(_read(_END_OF_HEAD.split(raw, 1)[0], fallback, own), whole=False)


def _read(raw: bytes, fallback: str, own: str) -> Letter:
    message = parse_bounded(raw)
    author = _author(message)
    address = _valid(author.addr_spec.lower()) if author else ""
    references = _references(message)
    identity = next(iter(_ID.findall(message.get_text("Message-ID"))), fallback)
    return Letter(
        sender=address,
        results=tuple(map(_valid, message.get_raw("Authentication-Results"))),
        automatic=_valid(_why_automatic(message, address, own)),
        author=_valid(author.display_name) if author else "",
        id=_valid(identity),
        thread=thread_of(references, identity),
        at=_time_of(message),
        text=_valid(_text(message, is_reply=bool(references))),
        files=_files(message),
        subject=_valid(message.get_text("Subject")),
        references=tuple(map(_valid, references)),
    )


def _valid(text: str) -> str:
    """Return a text without broken Unicode, which can't be written."""
    return text.encode("utf-8", "replace").decode()


def read_head(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the subject of a message, and its references."""
    message = parse_bounded(raw, is_head=True)
    return _valid(message.get_text("Subject")), tuple(map(_valid, _references(message)))


def thread_of(references: Iterable[str], identity: str) -> str:
    """Return the name of a message's thread: from an id of the bot's message in it, or else made
    from the first message."""
    known = [*references, identity]
    for one in reversed(known):
        if found := OWN_ID.fullmatch(one):
            return found[1]
    return hashlib.sha256(known[0].encode("utf-8", "replace")).hexdigest()[:16]


def _author(message: BoundedMessage) -> MailAddress | None:
    """Return the author; None if there is none, or more than one."""
    fields: list[Any] = [*message.get_all("From", ())]
    addresses: tuple[MailAddress, ...] = fields[0].addresses if len(fields) == 1 else ()
    if len(addresses) != 1 or fields[0].defects:
        return None
    (author,) = addresses
    is_one = author.username and author.domain and author.addr_spec.count("@") == 1
    return author if is_one else None


def _references(message: BoundedMessage) -> tuple[str, ...]:
    """Return the preceding messages of its thread, the first one first."""
    named = _ID.findall(message.get_text("References"))
    answered = _ID.findall(message.get_text("In-Reply-To"))[:1]
    return tuple(dict.fromkeys((*named, *answered)))


def _why_automatic(message: BoundedMessage, address: str, own: str) -> str:
    """Return why a message is automatic, and might answer an answer (RFC 3834, section 2); "" if it
    is not."""
    automatic = _words(message, "Auto-Submitted")
    if not automatic <= _DENIALS:
        return f"it is {', '.join(sorted(automatic))}"
    precedence = _words(message, "Precedence")
    is_answer = not precedence.isdisjoint(("auto_reply", "auto-reply"))
    if is_answer or any(not _words(message, name) <= _DENIALS for name in _ANSWERING):
        return "it is an automatic answer"
    if message.get_text("Return-Path") == "<>" or message.get_content_type() == "multipart/report":
        return "it is a report"
    if not precedence.isdisjoint(_BULK):
        return "it went to many"
    if any(f"List-{name}" in message for name in _LIST):
        return "it came over a list"
    if not _words(message, "X-Auto-Response-Suppress") <= _DENIALS | _RECEIPTS:
        return "it asks for no automatic answer"
    if address == own or _MACHINES.match(address):
        return "nobody reads what is sent there"
    return ""


def _words(message: BoundedMessage, name: str) -> set[str]:
    """Return the words of a field, without comments and parameters."""
    text = _COMMENT.sub(" ", message.get_text(name)).partition(";")[0]
    return {word for word in re.split(r"[\s,]+", text.lower()) if word}


def _text(message: BoundedMessage, *, is_reply: bool) -> str:
    """Return the text that the person has written, including the subject of a thread's first
    message."""
    bodies = _bodies(message)
    parts = [part.get_words().replace("\r\n", "\n") for part in bodies]
    if any(part.get_content_type() == "text/html" for part in bodies):
        text = read_html("<p></p>".join(parts), is_reply=is_reply)
    else:
        text = cut_signature("\n".join(parts))
        text = cut_quotation(text) if is_reply else text
    text = text.strip("\n").rstrip()
    if text.startswith("/"):
        return text.split("\n\n", 1)[0]  # a signature is not part of a command
    subject = "" if is_reply else message.get_text("Subject")
    return "\n\n".join(filter(None, (subject, text)))


def _bodies(message: BoundedMessage) -> list[BoundedMessage]:
    """Return the parts with the text of the message: one, or if pictures separate the words, all
    sibling parts of its type."""
    body = message.get_body(("plain", "html"))
    if not isinstance(body, BoundedMessage) or body.is_attachment():
        return []
    for group in message.walk():
        if group.get_content_type() == "multipart/mixed":
            beside = [part for part in group.iter_parts() if isinstance(part, BoundedMessage)]
            if body in beside:
                kind = body.get_content_type()
                return [one for one in beside if _is_words(one) and one.get_content_type() == kind]
    return [body]


def _is_words(part: Message) -> bool:
    """Return whether a part is displayed text, and not a file."""
    is_text = part.get_content_type() in ("text/plain", "text/html")
    is_file = part.get_filename() or part.get_content_disposition() == "attachment"
    return is_text and not is_file


def _files(message: BoundedMessage) -> tuple[MailAttachment, ...]:
    """Return the files, without a message's signatures."""
    files: list[MailAttachment] = []
    bodies = _bodies(message)
    for number, part in enumerate(message.walk()):
        kind = part.get_content_type()
        is_text = part in bodies or _is_words(part)
        if part.is_multipart() or is_text or kind.endswith("-signature"):
            continue
        content = part.get_payload(decode=True)
        if not isinstance(content, bytes) or len(files) > MOST_ATTACHMENTS:
            continue
        name = decode_words(part.get_filename("")) or f"file{number}.{kind.rpartition('/')[2]}"
        files.append(MailAttachment(_valid(name), _valid(kind), content))
    return tuple(files)


def _time_of(message: BoundedMessage) -> datetime:
    """Return the declared time of sending: never later than now."""
    now = datetime.now(UTC)
    sent = getattr(message["Date"], "datetime", None)
    if not isinstance(sent, datetime):
        return now
    return min(sent if sent.tzinfo else sent.replace(tzinfo=UTC), now)
