"""The words to people about a channel that does not work."""

from __future__ import annotations

import re

_TICKET = re.compile(r"(?<=\?)[^\s'\")]+(?==)[^\s'\")]*")
"""The query of an address: for some platforms, a ticket that lets anybody in."""


class MessageLeftOut(Exception):
    """A message, of this id, is not read any more, since the bot came to its end over it."""


def reason_of(error: BaseException) -> str:
    """Return an error, in a line."""
    said = _TICKET.sub("…", " ".join(str(error).split()))
    return said[:300] or type(error).__name__
