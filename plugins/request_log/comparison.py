"""`/context diff`: how two requests differ, and from where on a cache was no use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, takewhile
from typing import Any, Literal

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from channels.language import _, number_of
from memory.turns import Entry
from plugins.api import Action, Ask, CommandError, Reply
from plugins.builtin.context.turns import role, summarize
from plugins.request_log.commands import (
    describe_match,
    describe_request,
    find_number,
    format_range,
    list_kept,
    mask_secrets,
    rebuild_request,
)
from plugins.request_log.reading import Rebuilt
from plugins.request_log.record import SentRequest
from plugins.wording import amount, clip, fence, shorten

LONGEST_DIFF = 60
"""Lines of a comparison that are shown."""
Sign = Literal[" ", "-", "+", "~"]
"""The sign of a part in a comparison: it is in both as it was, left, was added, or is in both and
differs."""


class RequestPart(Struct, frozen=True):
    """A message of a request, or the tools beside them. `id` says which it is in any request,
    `wire` is what was sent for it."""

    id: str
    name: str
    wire: bytes
    tokens: int
    words: str


class PartLine(Struct, frozen=True):
    """A part in a comparison; `before` are its tokens in the first of the two, where it `~`."""

    sign: Sign
    name: str
    tokens: int
    words: str
    before: int = 0


class Comparison(Struct, frozen=True):
    """`kept` tokens at the beginning of both are the same; of the first, `broken` more were in it
    and may have been cached, and `anew` are what the second holds behind that. `place` names the
    first part that is not the same ("": the first is the beginning of the second)."""

    lines: tuple[PartLine, ...]
    kept: int
    broken: int
    anew: int
    place: str


def compare(before: Sequence[RequestPart], after: Sequence[RequestPart]) -> Comparison:
    """Return how a request differs from an earlier one. Parts that both have stand in the same
    order."""
    pairs = zip(before, after, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0].wire == pair[1].wire, pairs))
    broken = before[same:]
    first = after[same] if same < len(after) else broken[0] if broken else None
    return Comparison(
        tuple(_merge(before, after)),
        sum(part.tokens for part in after[:same]),
        sum(part.tokens for part in broken),
        sum(part.tokens for part in after[same:]),
        first.name if first and broken else "",
    )


def _merge(before: Sequence[RequestPart], after: Sequence[RequestPart]) -> Iterator[PartLine]:
    """Yield each part with its sign: those that left keep their places."""
    there = {part.id: part for part in before}
    stay = {part.id for part in after}
    past = 0
    for part in after:
        old = there.get(part.id)
        if old is None:
            yield PartLine("+", part.name, part.tokens, part.words)
            continue
        leaving = list(takewhile(partial(_is_other, part), before[past:]))
        past += len(leaving) + 1
        yield from (_leave(one) for one in leaving if one.id not in stay)
        sign: Sign = " " if old.wire == part.wire else "~"
        yield PartLine(sign, part.name, part.tokens, part.words, old.tokens)
    yield from (_leave(one) for one in before[past:] if one.id not in stay)


def _is_other(part: RequestPart, other: RequestPart) -> bool:
    return part.id != other.id


def _leave(part: RequestPart) -> PartLine:
    return PartLine("-", part.name, part.tokens, part.words)


async def show_difference(ask: Ask) -> Reply:
    """`/context diff [r40 r41]`"""
    kept = await list_kept(ask)
    if isinstance(kept, Reply):
        return kept
    words = ask.text.lower().split()
    numbers = [find_number(word, kept) for word in words] or kept[-2:]
    if len(set(numbers)) != 2:
        raise CommandError(
            _(
                "/context diff compares two requests, like /context diff r40 r41, or without "
                "names the last two; {which} kept.",
                which=format_range(kept),
            )
        )
    one, two = [await rebuild_request(ask, number) for number in sorted(numbers)]
    compared = compare(_parts(ask, one), _parts(ask, two))
    data = {
        "before": describe_request(one),
        "after": describe_request(two),
        **{name: value for name, value in asdict(compared).items() if name != "lines"},
        "lines": [asdict(line) for line in compared.lines if line.sign != " "],
    }
    actions = [Action(one.sent.name, f"/context request {one.sent.name}") for one in (one, two)]
    return Reply(_as_diff(ask, one, two, compared), mask_secrets(ask, data), tuple(actions))


def _parts(ask: Ask, again: Rebuilt) -> list[RequestPart]:
    """Return a request's parts in the order in which providers read them: the tools first."""
    scale, view, messages = again.view.scale.part, again.view, again.messages
    count_tokens = ask.conversation.turns.services.meter.count
    parts = []
    if again.prefix.tools:
        names = clip(", ".join(tool["function"]["name"] for tool in again.prefix.tools))
        wire = orjson.dumps(again.prefix.tools)
        parts.append(RequestPart("tools", "tools", wire, scale(view.prefix.tools), names))
    entries = [e for turn in view.turns for e in turn.entries]
    ahead = len(messages) - len(entries)
    for place, message in enumerate(messages[:ahead]):
        is_prompt = place == 0 and bool(again.prefix.system)
        name = "system prompt" if is_prompt else "activity log" if view.log else "summary"
        text = str(message["content"])
        size = scale(view.prefix.system) if is_prompt else scale(count_tokens(text))
        parts.append(RequestPart(f"ahead {place}", name, orjson.dumps(message), size, clip(text)))
    for entry, message in zip(entries, messages[ahead:], strict=True):
        extra = count_tokens(_find_ahead(entry, message))
        name = f"t{entry.turn} {role(entry.message)}{', after a summary' if extra else ''}"
        size, words = scale(entry.tokens + extra), summarize(entry.message)
        parts.append(RequestPart(f"seq {entry.seq}", name, orjson.dumps(message), size, words))
    return parts


def _find_ahead(entry: Entry, message: Mapping[str, Any]) -> str:
    """Return the text that stands before a message's own on the wire, and is no part of its row."""
    own, sent = entry.message.to_wire()["content"], message["content"]
    if not isinstance(own, str) or not isinstance(sent, str) or not sent.endswith(own):
        return ""
    return sent.removesuffix(own)


def _as_diff(ask: Ask, one: Rebuilt, two: Rebuilt, compared: Comparison) -> str:
    heads = [f"--- {_format_heading(one.sent)}", f"+++ {_format_heading(two.sent)}"]
    half = LONGEST_DIFF // 2
    lines = shorten(
        [*_diff_lines(compared.lines)], half, half, lambda n: _("  … {n} more lines", n=n)
    )
    block = mask_secrets(ask, "\n".join((*heads, *lines)))
    faults = [f"{a.sent.name}: {describe_match(a)}" for a in (one, two) if not a.is_same]
    return "\n\n".join((_verdict(one.sent, two.sent, compared), fence(block, "diff"), *faults))


def _format_heading(sent: SentRequest) -> str:
    total = _(
        "{name} (t{turn}, {model}): {total} tokens",
        name=sent.name,
        turn=sent.turn,
        model=sent.model,
        total=amount(sent.total),
    )
    return (
        _("{total}, {cached} of them cached", total=total, cached=amount(sent.cached))
        if sent.is_reported
        else total
    )


def _verdict(one: SentRequest, two: SentRequest, compared: Comparison) -> str:
    """Say where the beginning stopped being the same, and what that meant."""
    if one.model != two.model:
        return _(
            "**{name} went to another model than {other}**, whose cache holds nothing of it: all "
            "of its {total} tokens had to be read anew.",
            name=two.name,
            other=one.name,
            total=amount(two.total),
        )
    hit = (
        _(" The provider took {cached} from its cache.", cached=amount(two.cached))
        if two.is_reported
        else ""
    )
    if not compared.place:
        return _(
            "**{name} is the beginning of {other}**, so a cache holds: {kept} tokens are the "
            "same, {anew} are new.{hit}",
            name=one.name,
            other=two.name,
            kept=amount(compared.kept),
            anew=amount(compared.anew),
            hit=hit,
        )
    return _(
        "**The beginning is the same for {kept} tokens; from “{place}” on it differs**, so the "
        "{anew} tokens from there on had to be read anew.{hit}",
        kept=amount(compared.kept),
        place=compared.place,
        anew=amount(compared.anew),
        hit=hit,
    )


def _diff_lines(lines: Iterable[PartLine]) -> Iterator[str]:
    for is_same, group in groupby(lines, lambda line: line.sign == " "):
        some = list(group)
        if is_same:
            size = amount(sum(line.tokens for line in some))
            yield number_of(
                len(some),
                "  {n} part as before: {size} tokens",
                "  {n} parts as before: {size} tokens",
                size=size,
            )
        else:
            yield from map(_diff_line, some)


def _diff_line(line: PartLine) -> str:
    if line.sign == "~":
        sizes = _(
            "{before} → {after} tokens", before=amount(line.before), after=amount(line.tokens)
        )
        return f"! {line.name}: {sizes}, {line.words}"
    size = _("{tokens} tokens", tokens=amount(line.tokens))
    return f"{line.sign} {line.name}: {size}, {line.words}"
