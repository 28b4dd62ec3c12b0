"""Event streams: all events of a session, or those of one message."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from channels.web.draft import StreamDraft
from channels.web.feed import Feed, FeedEvent
from channels.web.markup import blocks, html, is_long
from channels.web.operations import event

PACE = 0.08
"""The interval in seconds between two renderings of an answer in progress."""
_REST = 5
"""The pause before the next rendering, as a multiple of the time of the last."""
STILL_HERE = b": still here\n\n"
_RETRY = b"retry: 1000\n\n"  # milliseconds after which a browser reconnects
_DRAWN = frozenset({"turn", "delta", "thought", "restart", "tool"})


async def follow(feed: Feed, place: str, is_page: bool) -> AsyncIterator[bytes]:
    """Yield the events after this place. If they are no longer available, a snapshot of the running
    turn comes first, and the transcript has the rest."""
    after = feed.place_after(place)
    yield _RETRY
    pictures = DraftPictures() if is_page else None
    if after is None:
        after = feed.end
        draw = pictures.draw if pictures else render_draft
        yield event({"draft": await draw(feed.draft)}, "snapshot", feed.place(after))
    elif pictures and (draft := await pictures.draw(feed.draft)) is not None:
        yield event(draft, "draft", place)
    async for batch in feed.batches(after):
        begin = time.monotonic()
        yield (
            await _with_pictures(pictures, feed, batch) if pictures else raw(batch)
        ) or STILL_HERE
        if is_page and batch:  # events of the meantime are in the next rendering
            await asyncio.sleep(max(PACE, _REST * (time.monotonic() - begin)))


def raw(batch: Sequence[FeedEvent]) -> bytes:
    """Return the events unchanged."""
    return b"".join(event(one.data, one.kind, one.place) for one in batch)


async def _with_pictures(pictures: DraftPictures, feed: Feed, batch: Sequence[FeedEvent]) -> bytes:
    """Return the events for the page: the answer so far in place of its pieces."""
    others = raw([one for one in batch if one.kind not in _DRAWN])
    if all(one.kind not in _DRAWN for one in batch):
        return others
    draft = await pictures.draw(feed.draft)
    if draft is None:
        return others
    return others + event(draft, "draft", batch[-1].place)


class DraftPictures:
    """The answer so far for one follower: the changes since the last rendering."""

    def __init__(self) -> None:
        self._id = ""
        self._shown: list[list[str] | str] = []

    async def draw(self, draft: StreamDraft) -> dict[str, Any] | None:
        """Return a draft as JSON: of a text, the `blocks` of HTML behind the first `keep` that were
        sent before; of a thought, the text behind its first `keep` characters. None if no turn
        runs."""
        if not draft.id:
            return None
        if draft.id != self._id:
            self._id, self._shown = draft.id, []
        parts = [dict(part) for part in draft.parts]  # a copy, since it changes meanwhile
        picture = {"id": draft.id, "question": draft.question, "turn": draft.turn}
        shown = [
            part["thought"] if "thought" in part else await render_blocks(part.get("text", ""))
            for part in parts
        ]
        for at, (part, now) in enumerate(zip(parts, shown, strict=True)):
            before = self._shown[at] if at < len(self._shown) else ""
            if isinstance(now, str):
                keep = len(before) if isinstance(before, str) and now.startswith(before) else 0
                part |= {"keep": keep, "thought": now[keep:]}
            elif "text" in part:
                keep = 0 if isinstance(before, str) else _count_same(before, now)
                del part["text"]
                part |= {"keep": keep, "blocks": now[keep:]}
        self._shown = shown
        return {**picture, "parts": parts}


def _count_same(before: Sequence[str], now: Sequence[str]) -> int:
    """Return the number of equal blocks at the beginning."""
    pairs = zip(before, now, strict=False)
    return next(
        (at for at, (old, new) in enumerate(pairs) if old != new), min(len(before), len(now))
    )


async def render_draft(draft: StreamDraft) -> dict[str, Any] | None:
    """Return a draft as JSON, its texts as HTML too; None if no turn runs."""
    if not draft.id:
        return None
    picture = {"id": draft.id, "question": draft.question, "turn": draft.turn}
    parts = [dict(part) for part in draft.parts]  # a copy, since it changes meanwhile
    for part in parts:
        if "text" in part:
            part["html"] = await render(part["text"])
    return {**picture, "parts": parts}


async def render(markdown: str) -> str:
    """Return Markdown as HTML; a long text is rendered in a thread."""
    return await asyncio.to_thread(html, markdown) if is_long(markdown) else html(markdown)


async def render_blocks(markdown: str) -> list[str]:
    """Return the same in blocks."""
    return await asyncio.to_thread(blocks, markdown) if is_long(markdown) else blocks(markdown)


async def follow_answer(
    feed: Feed, message: str, waiting: asyncio.Future[FeedEvent], start: int
) -> AsyncIterator[FeedEvent]:
    """Yield the events of this message's answer, from event number `start` on. Its "done" comes
    last, even if the events before it were evicted. The stream ends earlier if the bot stops."""
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
    await asyncio.wait((waiting,))
    if not waiting.cancelled():
        yield waiting.result()
