"""The opening of a mail: a small one is read here, any other in a process of its own.

A process costs 0.2 s of computing, which reading a mail of ten kilobytes never takes
(`python -m benchmarks.hostile mails`).
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

import msgspec

from channels.base import Bot, UnreadableError
from channels.mail.bounds import MOST_PARTS
from channels.mail.reading import Letter, read

log = logging.getLogger(__name__)

SMALL = 10_000  # bytes
_FEW_PARTS = 20  # lines that may begin one
_BOUNDARY = re.compile(rb"[\r\n]--")
_READER = Path(__file__).with_name("reader.py")
_decoder = msgspec.msgpack.Decoder(Letter)


def is_small(raw: bytes) -> bool:
    """Return whether no mail like this takes long to read."""
    return len(raw) <= SMALL and len(_BOUNDARY.findall(raw)) <= _FEW_PARTS


def open_letter(bot: Bot, raw: bytes, fallback: str, own: str) -> Letter | None:
    """Return the letter that was received, for a thread; None where it can't be read. Raises
    UnreadableError where that takes too much."""
    try:
        if is_small(raw):
            letter = read(raw, fallback, own)
        else:
            letter = _decoder.decode(bot.read_apart(_READER, raw, fallback, own))
    except UnreadableError as error:
        if error.takes_too_much:
            raise
        log.warning("a message can't be read, and is left out: %s", error)
        return None
    except OSError:  # of this machine, and it may be over soon
        raise
    except Exception:  # the standard library's parser raises what it likes
        log.warning("a message can't be read, and is left out", exc_info=True)
        return None
    if not letter.whole:
        log.warning("a message has more than %d parts; only its head is read", MOST_PARTS)
    return letter
