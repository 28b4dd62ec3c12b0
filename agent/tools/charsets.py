"""The encoding of a text's bytes, found where nothing names it.

A label of the WHATWG's list is the answer, for `agent/tools/page.py`. What is valid UTF-8 is UTF-8;
the rest is told by `charset-normalizer` among the encodings below, except for texts in Latin
letters: their few bytes above ASCII fit nearly every encoding, and it names a rare one.
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
"""Labels of encodings whose lines do not end in the byte of a line end alone."""
_SAMPLE = 4_000  # bytes that are looked at
_ALONE = 0.6  # of the bytes above ASCII, the share that stands alone in Latin text
_PLAUSIBLE = 0.7  # of the characters, the share that is of one script (with ASCII) in UTF-16
_HIGH = re.compile(rb"[\x80-\xff]+")
_SPACES = frozenset("\t\r\n\f")


def label_of(start: bytes) -> str:
    """Return the label of the encoding of a text that begins so; "" where it is no text."""
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
    sample = _telling(content)
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


def _telling(content: bytes) -> bytes:
    """Return the lines that are not ASCII, as many as are looked at, without a character cut in
    two."""
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
    """UTF-16 without a mark at its beginning: which of the two, or ""."""
    start = start[: len(start) // 2 * 2]
    texts = {label: _plausible(start, label) for label in ("utf-16le", "utf-16be")}
    best = max(texts, key=lambda label: texts[label])
    return best if texts[best] >= _PLAUSIBLE else ""


def _plausible(start: bytes, label: str) -> float:
    """Return the share of the characters that are ASCII or of the script of most; 0 where some are
    none that texts have."""
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
    """Return a number for characters that stand in a text together."""
    if 0x3000 <= code < 0xA000 or code >= 0xF900:
        return 1  # Chinese and Japanese, with their punctuation
    return 2 if 0xAC00 <= code < 0xD7B0 else 3 if code < 0x250 else code >> 8 << 8
