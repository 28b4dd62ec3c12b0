"""Replies as mail: the text as written, and as HTML for apps that show it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from email.headerregistry import Address as MailAddress
from email.message import EmailMessage
from email.utils import format_datetime, localtime

from msgspec import Struct

from channels.kit.markdown import render_html
from channels.kit.platform import Media, Post
from channels.message import clean_text

_LONGEST_SUBJECT = 70  # characters of a generated subject
_MOST_REFERENCES = 20
_STYLE = (
    "pre{background:#f4f4f4;padding:8px;overflow-x:auto}table{border-collapse:collapse}"
    "td,th{border:1px solid #bbb;padding:2px 8px}blockquote{border-left:3px solid #bbb;"
    "margin-left:0;padding-left:12px}"
)


class MailThread(Struct, frozen=True):
    """The route of a message: its addresses, and the messages of its thread, the last one last.
    Without any, the message begins the thread."""

    sender: str
    to: str
    thread: str
    subject: str = ""
    references: Sequence[str] = ()


def begin_thread() -> str:
    """Return the name of a thread that begins with the bot's message."""
    return secrets.token_hex(8)


def make_mail(course: MailThread, post: Post) -> EmailMessage:
    """Return a message with this text. A resend has the same id: servers and apps show one of
    them."""
    text = clean_text(post.text)
    name = f"{post.once} {course.to} {course.thread}" if post.once else secrets.token_hex()
    message = _begin(course, text, hashlib.sha256(name.encode()).hexdigest()[:24])
    message.set_content(text)
    if html := "" if post.is_plain else render_html(text):
        message.add_alternative(f"<style>{_STYLE}</style>{html}", subtype="html")
    return message


def make_mail_with(course: MailThread, media: Media) -> EmailMessage:
    """Return a message with a file."""
    caption = clean_text(media.caption)
    message = _begin(course, caption or media.name, secrets.token_hex(12))
    message.set_content(caption)
    kind, _slash, subtype = media.media_type.partition("/")
    message.add_attachment(
        media.content, maintype=kind, subtype=subtype or "octet-stream", filename=media.name
    )
    return message


def _begin(course: MailThread, text: str, name: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = course.sender
    message["To"] = MailAddress(addr_spec=course.to)
    message["Subject"] = _subject(course.subject, text)
    message["Date"] = format_datetime(localtime())
    domain = course.sender.rpartition("@")[2]
    message["Message-ID"] = f"<parley.{course.thread}.{name}@{domain}>"
    if course.references:
        message["In-Reply-To"] = course.references[-1]
        message["References"] = " ".join(
            (*course.references[:1], *course.references[1:][-_MOST_REFERENCES:])
        )
    # Prevents answers by machines (RFC 3834, section 3.1.7), including Exchange.
    message["Auto-Submitted"] = "auto-replied" if course.references else "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    return message


def _subject(subject: str, text: str) -> str:
    """Return the thread's subject, or the first words of the text."""
    subject, text = " ".join(clean_text(subject).split()), clean_text(text)
    if subject:
        return subject if subject[:3].lower() == "re:" else f"Re: {subject}"
    words = " ".join(text.translate(dict.fromkeys(map(ord, "*_`#>|"))).split())
    short = words[:_LONGEST_SUBJECT].rpartition(" ")[0] if len(words) > _LONGEST_SUBJECT else words
    return short or words[:_LONGEST_SUBJECT] or "…"
