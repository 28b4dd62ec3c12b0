"""The detection of a text's encoding, if none is declared.

The result is a label of the WHATWG's list, for `agent/tools/page.py`. Valid UTF-8 is UTF-8. Other
texts are classified by `charset-normalizer` among the encodings below, except for Latin scripts:
their few bytes above ASCII fit nearly every encoding, and it returns a rare one.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16le",
    codecs.BOM_UTF16_BE: "utf-16be",
}
_LABELS = {
    "gb18030": "gb18030",
    "big5hkscs": "big5",
    "cp932": "shift_jis",
    "cp949": "euc-kr",
    "euc_jp": "euc-jp",
    "cp1251": "windows-1251",
    "koi8_r": "koi8-r",
    "cp1252": "windows-1252",
}
WIDE = frozenset({"utf-16le", "utf-16be"})
"""Labels of encodings in which a line end is not a single byte."""
_SAMPLE = 4_000  # bytes that are examined
_ALONE = 0.6  # the share of isolated bytes among those above ASCII in Latin text
_PLAUSIBLE = 0.7  # the share of characters of one script (with ASCII) in UTF-16
_HIGH = re.compile(rb"[\x80-\xff]+")
_SPACES = frozenset("\t\r\n\f")


def label_of(start: bytes) -> str:
    """Return the label of the encoding of a text with this beginning; "" if it is not text."""
    for mark, label in _MARKS.items():
        if start.startswith(mark):
            return label
    if b"\0" in start:
        return _wide(start[: _SAMPLE * 2])
    return "utf-8" if is_utf8(start, is_cut=True) else guess(start)


def is_utf8(content: bytes, *, is_cut: bool = False) -> bool:
    """Return whether it is UTF-8; `is_cut`: the last character may be incomplete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content, final=not is_cut)
    except UnicodeDecodeError:
        return False
    return True


def guess(content: bytes) -> str:
    """Return the label of the encoding of a text that is neither UTF-8 nor UTF-16."""
    sample = _sample_lines(content)
    runs = _HIGH.findall(sample)
    if sum(len(run) for run in runs if len(run) == 1) >= _ALONE * sum(map(len, runs)):
        return "windows-1252"
    from charset_normalizer import from_bytes  # noqa: PLC0415 - few files need it

    best = from_bytes(sample, cp_isolation=list(_LABELS)).best()
    if best is not None and best.encoding in _LABELS:
        return _LABELS[best.encoding]
    for codec in ("gb18030", "cp932", "cp949"):
        try:
            sample.decode(codec)
        except UnicodeDecodeError:
            continue
        return _LABELS[codec]
    return "windows-1252"


def _sample_lines(content: bytes) -> bytes:
    """Return the lines that are not ASCII, up to the sample's size, without cutting a character."""
    found, size = [], 0
    for line in content.split(b"\n"):
        if not line.isascii() and not is_utf8(line):
            found.append(line)
            size += len(line) + 1
        if size > _SAMPLE:
            break
    sample = b"\n".join(found)
    if len(sample) <= _SAMPLE:
        return sample
    cut = max(sample.rfind(end, 0, _SAMPLE) for end in (b"\n", b" ", b","))
    return sample[: cut if cut > _SAMPLE // 2 else _SAMPLE]


def _wide(start: bytes) -> str:
    """Return the label of UTF-16 without a byte order mark, or ""."""
    start = start[: len(start) // 2 * 2]
    texts = {label: _plausible(start, label) for label in ("utf-16le", "utf-16be")}
    best = max(texts, key=lambda label: texts[label])
    return best if texts[best] >= _PLAUSIBLE else ""


def _plausible(start: bytes, label: str) -> float:
    """Return the share of characters that are ASCII or of the most frequent script; 0 if there are
    characters that texts don't contain."""
    codec = "utf-16-le" if label == "utf-16le" else "utf-16-be"
    try:
        text = codecs.getincrementaldecoder(codec)().decode(start)
    except UnicodeDecodeError:
        return 0.0
    scripts: dict[int, int] = {}
    plain = 0
    for sign in text:
        if sign in _SPACES or " " <= sign <= "~":
            plain += 1
        elif unicodedata.category(sign) in ("Cc", "Cn", "Co", "Cs"):
            return 0.0
        else:
            script = _script(ord(sign))
            scripts[script] = scripts.get(script, 0) + 1
    return (plain + max(scripts.values(), default=0)) / max(len(text), 1) if plain else 0.0


def _script(code: int) -> int:
    """Return a number for a group of characters that occur together."""
    if 0x3000 <= code < 0xA000 or code >= 0xF900:
        return 1  # Chinese and Japanese, with their punctuation
    return 2 if 0xAC00 <= code < 0xD7B0 else 3 if code < 0x250 else code >> 8 << 8
