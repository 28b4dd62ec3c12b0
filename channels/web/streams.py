"""Event streams: all that happens in a session, or what belongs to one message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from channels.web.feed import Draft, Event, Feed
from channels.web.markup import html
from channels.web.operations import event

PACE = 0.08
"""Seconds between two pictures of an answer that is being written."""
STILL_HERE = b": still here\n\n"
_RETRY = b"retry: 1000\n\n"  # milliseconds that a browser waits before it comes again
_DRAWN = frozenset({"turn", "delta", "restart", "tool"})


async def followed(feed: Feed, place: str, is_page: bool) -> AsyncIterator[bytes]:
    """What happens after this place; where that can't be told any more, a snapshot of the turn that
    runs comes first, and the transcript has the rest."""
    after = feed.place_after(place)
    yield _RETRY
    if after is None:
        after = feed.end
        yield event({"draft": drawn(feed.draft)}, "snapshot", feed.place(after))
    elif is_page and (draft := drawn(feed.draft)) is not None:
        yield event(draft, "draft", place)
    async for batch in feed.batches(after):
        yield (_pictured(feed, batch) if is_page else raw(batch)) or STILL_HERE
        if is_page and batch:
            await asyncio.sleep(PACE)  # what comes meanwhile is in the next picture


def raw(batch: Sequence[Event]) -> bytes:
    """Events as they are."""
    return b"".join(event(one.data, one.kind, one.place) for one in batch)


def _pictured(feed: Feed, batch: Sequence[Event]) -> bytes:
    """Events for the page: the answer so far, whole, in place of its pieces."""
    others = raw([one for one in batch if one.kind not in _DRAWN])
    draft = drawn(feed.draft)
    if draft is None or all(one.kind not in _DRAWN for one in batch):
        return others
    return others + event(draft, "draft", batch[-1].place)


def drawn(draft: Draft) -> dict[str, Any] | None:
    """A draft as JSON, its texts as HTML too; None where no turn runs."""
    if not draft.id:
        return None
    parts = [{**p, "html": html(p["text"])} if "text" in p else p for p in draft.parts]
    return {"id": draft.id, "question": draft.question, "parts": parts}


async def told(
    feed: Feed, message: str, waiting: asyncio.Future[Event], start: int
) -> AsyncIterator[Event]:
    """What happens while this message is answered, from event number `start` on; its "done" comes
    last. Ends before that where the bot stops."""
    if waiting.done() and not waiting.cancelled():
        yield waiting.result()
        return
    is_mine = False
    async for batch in feed.batches(start):
        for one in batch:
            names_it = one.data.get("id") == message
            is_mine = is_mine or names_it
            if names_it or (is_mine and one.kind != "done"):
                yield one
            if names_it and one.kind == "done":
                return
