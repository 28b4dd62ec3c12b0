"""The list of conversations, a page at a time."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import msgspec

from channels.base import Session
from channels.web.operations import Problem

_GROUPS = {"pinned": 2, "archived": 0}
_Place = tuple[int, tuple[int, ...], float, str]
"""The sort key of a conversation in the list: its group, its closeness to the searched words, the
time of its last message, and its name. The greatest comes first."""


def page_name(session: Session) -> str:
    """Return the page's name for a conversation: for other channels, it includes the channel."""
    return session.chat if session.channel == "web" else f"{session.channel}/{session.chat}"


def cut_page(
    sessions: Sequence[Session], limit: int, after: str, *, is_search: bool = False
) -> tuple[list[Session], str]:
    """Return at most `limit` conversations (0: all, unchanged) after a place, and the place after
    which the list continues ("": it ends). Pinned ones come first and archived ones last, except in
    a search. A place stays valid when messages arrive in other conversations meanwhile. Raises
    Problem."""
    if not limit and not after:
        return [*sessions], ""
    behind = _read(after)
    placed = sorted(
        ((_place_of(one, is_search), one) for one in sessions),
        key=lambda pair: pair[0],
        reverse=True,
    )
    left = [(place, one) for place, one in placed if behind is None or place < behind]
    shown = left[:limit] if limit else left
    return [one for _, one in shown], _write(shown[-1][0]) if len(shown) < len(left) else ""


def _place_of(session: Session, is_search: bool) -> _Place:
    group = 1 if is_search else _GROUPS.get(session.standing, 1)
    return group, session.near, session.at.timestamp(), page_name(session)


def _write(place: _Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _read(after: str) -> _Place | None:
    if not after:
        return None
    try:
        written: Any = base64.urlsafe_b64decode(after + "=" * (-len(after) % 4))
        place: _Place = msgspec.json.decode(written, type=_Place)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise Problem(400, "after must be the `next` of a list.") from None
    return place
