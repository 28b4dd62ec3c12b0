"""The text of an HTML page, in any encoding.

One pass from left to right takes time linear in the page's length; available parsers take minutes
for a megabyte of tags that never end.

A page declares its encoding itself. Python would look up any codec of that name, import it, and run
it: `punycode` takes minutes for a megabyte, and `idna` and `unicode_escape` are not encodings of
pages. So names are looked up in the list below, that of the WHATWG's Encoding Standard (its labels
and their meanings); `webencodings`, which has it too, had its last release in 2017.

Reader processes load this file alone: it imports nothing of the bot.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from html import unescape

_SKIPPED = frozenset({"script", "style", "noscript", "template", "iframe"})
_BLOCKS = re.compile(
    r"address|article|aside|blockquote|br|caption|center|dd|details|dialog|div|dl|dt|fieldset"
    r"|figcaption|figure|footer|form|h[1-6]|header|hr|legend|li|main|menu|nav|ol|optgroup|option|p|pre"
    r"|section|select|summary|svg|table|text|textarea|title|tr|ul"
)
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_HREF, _ALT, _VALUE, _TYPE = (
    re.compile(rf"""\s{name}\s*=\s*("[^"]*"|'[^']*'|[^\s>"']+)""", re.IGNORECASE)
    for name in ("href", "alt", "value", "type")
)
_UNSEEN_INPUT = frozenset({"hidden", "password", "checkbox", "radio", "image", "file"})
_SHADOW = re.compile(r"\sshadowrootmode\s*=", re.IGNORECASE)
"""A template with this attribute is shown."""
_ENDLESS_NUMBER = re.compile(r"&#[0-9]{20,};?")
_LONGEST_TAG = 4_000  # characters of a tag that are searched for an address


def text_of(html: str) -> str:
    """Return the text that a person would read, one line per block; a link's words are followed by
    its address."""
    return "\n".join(filter(None, (" ".join(line.split()) for line in _pieces(html).split("\n"))))


def _pieces(html: str) -> str:
    pieces: list[str] = []
    links: list[str] = []
    at = 0
    while (start := html.find("<", at)) >= 0:
        pieces.append(_flat(html[at:start]))
        tag = _TAG.match(html, start)
        if tag is None:
            at = _after_markup(html, start)
            pieces.append("<" if at == start + 1 else "")
            continue
        at = _after(html, ">", start)
        whole = html[start : min(at, start + _LONGEST_TAG)]
        pieces.append(_render_tag(tag, whole, links))
        if not tag[1] and tag[2].lower() in _SKIPPED and not _SHADOW.search(whole):
            at = _after_element(html, tag[2], at)
    return "".join((*pieces, _flat(html[at:])))


def _flat(text: str) -> str:
    return _unescape(text.replace("\n", " "))


def _unescape(text: str) -> str:
    """Return the text with its entities decoded; Python does not parse a number of 5,000 digits."""
    return unescape(_ENDLESS_NUMBER.sub("&#0;", text))


def _render_tag(tag: re.Match[str], whole: str, links: list[str]) -> str:
    """Return the text in place of a tag; addresses of open links are kept in `links`."""
    name = tag[2].lower()
    if name == "a" and not tag[1]:
        links.append(_value_of(_HREF, whole))
    elif name == "a" and links:
        address = links.pop()
        return f" ({address})" if address and not address.startswith(("#", "javascript:")) else ""
    if name == "img" and (words := _value_of(_ALT, whole)):
        return f" (picture: {words}) "
    if name == "input" and _value_of(_TYPE, whole).lower() not in _UNSEEN_INPUT:
        return f" {_value_of(_VALUE, whole)} "
    if name == "li" and not tag[1]:
        return "\n- "
    return "\n" if _BLOCKS.fullmatch(name) else " " if name in ("td", "th") else ""


def _value_of(attribute: re.Pattern[str], tag: str) -> str:
    found = attribute.search(tag)
    return _unescape(found[1].strip("\"'")) if found else ""


def _after(html: str, end: str, start: int) -> int:
    """Return the position after the next `end`; the end of the page without one."""
    found = html.find(end, start)
    return len(html) if found < 0 else found + len(end)


def _after_markup(html: str, start: int) -> int:
    """Return the position after a comment, a declaration, or a literal "<"."""
    if html.startswith("<!--", start):
        return _after(html, "-->", start + 4)
    return _after(html, ">", start) if html.startswith(("<!", "<?", "</"), start) else start + 1


def _after_element(html: str, name: str, start: int) -> int:
    """Return the position after an element without text."""
    found = re.compile(f"</{name}", re.IGNORECASE).search(html, start)
    return _after(html, ">", found.start()) if found else len(html)


_PIECE = 65_536
"""Bytes that are decoded at a time: a codec holds the interpreter's lock while it works (at most 15
ms for this many, measured with bytes invalid in all of them)."""

# Python's codec for each encoding of the standard, and the labels that mean it. If the standard
# maps a smaller encoding to a larger one (latin1 is windows-1252), so does this; encodings of the
# standard alone (x-user-defined, replacement) are read as UTF-8.
LABELS = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8",
    "cp866": "866 cp866 csibm866 ibm866",
    "iso8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 "
    "iso_8859-2:1987 l2 latin2",
    "iso8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 "
    "iso_8859-3:1988 l3 latin3",
    "iso8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 "
    "iso_8859-4:1988 l4 latin4",
    "iso8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 "
    "iso_8859-5 iso_8859-5:1988",
    "iso8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 "
    "iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
    "iso8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 "
    "iso88597 iso_8859-7 iso_8859-7:1987 sun_eu_greek",
    "iso8859-8": "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 "
    "iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 visual csiso88598i iso-8859-8-i logical",
    "iso8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "mac-roman": "csmacintosh mac macintosh x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "cp1250": "cp1250 windows-1250 x-cp1250",
    "cp1251": "cp1251 windows-1251 x-cp1251",
    "cp1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 "
    "iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252",
    "cp1253": "cp1253 windows-1253 x-cp1253",
    "cp1254": "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 "
    "iso_8859-9:1989 l5 latin5 windows-1254 x-cp1254",
    "cp1255": "cp1255 windows-1255 x-cp1255",
    "cp1256": "cp1256 windows-1256 x-cp1256",
    "cp1257": "cp1257 windows-1257 x-cp1257",
    "cp1258": "cp1258 windows-1258 x-cp1258",
    "gb18030": "gb18030 chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 "
    "x-gbk",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso2022-jp": "csiso2022jp iso-2022-jp",
    "cp932": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "cp949": "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 "
    "ksc_5601 windows-949",
    "utf-16-be": "unicodefffe utf-16be",
    "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
}
_CODECS = {label: codec for codec, labels in LABELS.items() for label in labels.split()}


def codec_of(label: str | None) -> str:
    """Return the codec for the name of an encoding: one of the list, or else UTF-8."""
    return _CODECS.get(label.strip().lower(), "utf-8") if label else "utf-8"


def decode(content: bytes, label: str | None) -> str:
    """Return the text of these bytes, with U+FFFD for invalid ones, in linear time. Call it in a
    thread for large content: other threads get their turn in between."""
    decoder = getincrementaldecoder(codec_of(label))("replace")
    pieces = [
        decoder.decode(content[at : at + _PIECE], at + _PIECE >= len(content))
        for at in range(0, len(content), _PIECE)
    ]
    return "".join(pieces)
