"""The text that a person has written in a message: without what it quotes, and without its markup.

Libraries for this were looked at: mail-parser-reply takes the indentation off every line, takes
lists for signatures, and its patterns can be made to take for ever; email-reply-parser knows
English alone and is not kept up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml.etree import LxmlError, iterwalk
from lxml.html import HtmlElement, HTMLParser, document_fromstring

_ATTRIBUTION = re.compile(r"(?:.*@|.*\d\d).*[:：]\s*", re.DOTALL)
"""The line above a quotation, in whatever language: "On 23 November 2026, Ann wrote:"."""
_ITS_BEGINNING = re.compile(r"(?:On|Am|Le|El|Il|Em|Op|Den|Dnia|W dniu)\s.*\d", re.IGNORECASE)
_SEPARATOR = re.compile(
    r"-{3,}\s?(?:Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original"
    r"|原始邮件|原始郵件)\s?-{3,}|_{20,}",
    re.IGNORECASE,
)
_HEAD = re.compile(
    r"\**(?:From|Von|De|Da|Van|Från|Od|发件人|寄件者)\s?[:：]\**\s", re.IGNORECASE
)  # of a message that is quoted as it came
_HEAD_GOES_ON = re.compile(
    r"\**(?:Sent|Date|To|Subject|Gesendet|Datum|An|Betreff|Envoyé|À|Objet|Enviado|Para|Asunto|Inviato"
    r"|Oggetto|Verzonden|Onderwerp|Skickat|发送时间|收件人|主题)\s?[:：]",
    re.IGNORECASE,
)
_LONGEST_ATTRIBUTION = 400  # characters
_QUOTED = re.compile(r"\s{0,3}>")
_QUOTES = "//blockquote[@type='cite' or contains(@class,'gmail_quote')] | " + " | ".join(
    f"//div[contains(concat(' ', @class, ' '), ' {name} ')]"
    for name in ("gmail_quote", "gmail_quote_container", "moz-cite-prefix", "yahoo_quoted")
)
_REST = "//*[@id='divRplyFwdMsg' or @id='appendonsend']"  # Outlook's: all below it is quoted
_UNSEEN = {"script", "style", "head", "title", "template"}
_BREAKS = ("\n", "\n- ")
_BLOCKS = {
    *("p", "div", "br", "tr", "table", "ul", "ol", "pre", "blockquote", "section", "article"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "hr"),
}


def cut_quotation(text: str) -> str:
    """Return a reply without the message below it that it answers. What is quoted above one's own
    words stays: they would say nothing without it."""
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
    """A text without what stands below two hyphens and a space (RFC 3676, section 4.3)."""
    return re.split(r"^-- $", text, maxsplit=1, flags=re.MULTILINE)[0]


def _begins_message(lines: list[str], number: int) -> bool:
    """Return whether another message follows from this line on, as it came."""
    line = lines[number].strip()
    if not line:
        return False
    if _SEPARATOR.fullmatch(line):
        return True
    following = (one.strip() for one in lines[number + 1 : number + 5])
    return bool(_HEAD.match(line)) and sum(bool(_HEAD_GOES_ON.match(one)) for one in following) > 1


def _without_attribution(lines: list[str]) -> list[str]:
    """Return the lines without the last ones, which say who wrote what was quoted below them. They
    were one, before it was wrapped."""
    for most in (1, 2, 3):
        last = "".join(lines[-most:])
        if len(last) < _LONGEST_ATTRIBUTION and _ATTRIBUTION.fullmatch(last):
            rest = lines[:-most]
            return rest[:-1] if rest and _ITS_BEGINNING.match(rest[-1].strip()) else rest
    return lines


def _stripped(lines: list[str]) -> list[str]:
    """The lines without empty ones at both ends."""
    whole = [number for number, line in enumerate(lines) if line.strip()]
    return lines[whole[0] : whole[-1] + 1] if whole else []


def read_html(markup: str, *, is_reply: bool) -> str:
    """Return the text of a message that has no other; of a reply without what it quotes."""
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
    # White space is nothing but a space; what stands between blocks stands on a line of its own.
    lines = "".join(one if one in _BREAKS else " ".join(one.split("\n")) for one in _texts(root))
    text = "\n".join(" ".join(line.split()) for line in lines.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _texts(root: HtmlElement) -> Iterator[str]:
    """All text in order, with line breaks where a browser would make them."""
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
