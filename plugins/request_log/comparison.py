"""`/context diff`: the differences between two requests, the events behind them, and the part from
which the cache did not apply.

A part that was sent once is sent again byte for byte unless an event changed it. So each part that
differs has an event, or there is a fault in the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from itertools import groupby, takewhile
from typing import Any, Literal

import orjson
from msgspec import Struct
from msgspec.structs import asdict, replace

from agent.pictures import Wire
from channels.language import _, format_datetime, number_of
from memory.context.change import Kind, ViewEvent
from memory.context.meter import Meter, PromptPrefix
from memory.context.view import View
from memory.turns import Entry
from plugins.api import Action, Ask, Reply, refusal
from plugins.builtin.context.show import by, name_kind
from plugins.builtin.context.turns import name_role, role, summarize
from plugins.request_log.commands import (
    describe_match,
    describe_request,
    find_number,
    format_range,
    list_kept,
    mask_secrets,
    rebuild_request,
)
from plugins.request_log.reading import RebuiltRequest
from plugins.request_log.record import SentRequest
from plugins.wording import (
    amount,
    amounts,
    aside,
    clip,
    fence,
    format_turns,
    labelled,
    series,
    shorten,
)

_AFTER = ", after a summary"
_MOST_NAMED = 5  # parts in a sentence
LONGEST_DIFF = 60
"""The maximum of lines shown of a comparison."""
Sign = Literal[" ", "-", "+", "~"]
"""The sign of a part in a comparison: unchanged, removed, added, or changed."""


class RequestPart(Struct, frozen=True):
    """A message of a request, or its tools. `id` identifies it in any request, `wire` is its sent
    form, and `sent` is used to find the cause of a change."""

    id: str
    name: str
    wire: bytes
    tokens: int
    words: str
    sent: SentPart


class PartLine(Struct, frozen=True):
    """A part in a comparison; `before` are its tokens in the first request, for a changed part.
    `is_inside`: it is within the part that the first one sent, so the second does not continue the
    first; `events` are the possible causes ("e12")."""

    sign: Sign
    name: str
    tokens: int
    words: str
    before: int = 0
    is_inside: bool = False
    events: tuple[str, ...] = ()


class Comparison(Struct, frozen=True):
    """The comparison of two requests. The first `kept` tokens are equal; `broken` more in the first
    may have been cached, and `anew` are in the second after that. `place` names the first part that
    differs ("": the first request is a prefix of the second)."""

    lines: tuple[PartLine, ...]
    kept: int
    broken: int
    anew: int
    place: str

    @property
    def unexplained(self) -> list[str]:
        """The earlier parts that differ without an event that explains it."""
        return [line.name for line in self.lines if line.is_inside and not line.events]


def compare(
    before: Sequence[RequestPart],
    after: Sequence[RequestPart],
    events: Sequence[ViewEvent] = (),
) -> Comparison:
    """Compare a request with an earlier one, and find the possible causes among the `events`
    between them. Common parts are in the same order in both."""
    pairs = zip(before, after, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0].wire == pair[1].wire, pairs))
    broken = before[same:]
    first = after[same] if same < len(after) else broken[0] if broken else None
    return Comparison(
        tuple(_merge(before, after, events)),
        sum(part.tokens for part in after[:same]),
        sum(part.tokens for part in broken),
        sum(part.tokens for part in after[same:]),
        first.name if first and broken else "",
    )


def _merge(
    before: Sequence[RequestPart], after: Sequence[RequestPart], events: Sequence[ViewEvent]
) -> Iterator[PartLine]:
    """Yield each part with its sign; removed parts keep their places."""

    def inside(sign: Sign, part: RequestPart, tokens: int = 0) -> PartLine:
        old = there.get(part.id, part)
        either = replace(part.sent, has_summary=part.sent.has_summary or old.sent.has_summary)
        why = tuple(f"e{event.id}" for event in events if _touches(event, either))
        return PartLine(sign, part.name, part.tokens, part.words, tokens, True, why)

    there = {part.id: part for part in before}
    stay = {part.id for part in after}
    end = max((n for n, part in enumerate(before, 1) if part.id in stay), default=0)
    past = 0
    for part in after:
        old = there.get(part.id)
        if old is None:
            new = PartLine("+", part.name, part.tokens, part.words)
            yield inside("+", part) if past < end else new
            continue
        leaving = list(takewhile(partial(_is_other, part), before[past:]))
        past += len(leaving) + 1
        yield from (inside("-", one) for one in leaving if one.id not in stay)
        if old.wire == part.wire:
            yield PartLine(" ", part.name, part.tokens, part.words, old.tokens)
        else:
            yield inside("~", part, old.tokens)
    yield from (inside("-", one) for one in before[past:] if one.id not in stay)


def _is_other(part: RequestPart, other: RequestPart) -> bool:
    return part.id != other.id


async def show_difference(ask: Ask) -> Reply:
    """`/context diff [r40 r41]`"""
    kept = await list_kept(ask)
    if isinstance(kept, Reply):
        return kept
    words = ask.text.lower().split()
    numbers = [find_number(word, kept) for word in words] or kept[-2:]
    if len(set(numbers)) != 2:
        raise refusal(
            "/context diff compares two requests, like /context diff r40 r41, or without "
            "names the last two; {which} kept.",
            which=format_range(kept),
        )
    one, two = [await rebuild_request(ask, number) for number in sorted(numbers)]
    first, last = one.sent.event, two.sent.event
    history = await ask.conversation.context.history()
    events = [event for event in history if first < event.id <= last]
    meter = ask.conversation.turns.services.meter
    before, after = (
        list_parts(again.view, again.prefix, again.messages, meter) for again in (one, two)
    )
    compared = compare(before, after, events)
    data = {
        "before": describe_request(one),
        "after": describe_request(two),
        **{name: value for name, value in asdict(compared).items() if name != "lines"},
        "lines": [asdict(line) for line in compared.lines if line.sign != " "],
    }
    actions = [Action(one.sent.name, f"/context request {one.sent.name}") for one in (one, two)]
    text = _as_diff(ask, one, two, compared, events)
    return Reply(text, mask_secrets(ask, data), tuple(actions))


def list_parts(view: View, prefix: PromptPrefix, messages: Wire, meter: Meter) -> list[RequestPart]:
    """Return a request's parts in the order in which providers read them: the tools first."""
    scale, parts = view.scale.part, []
    if prefix.tools:
        names = clip(", ".join(tool["function"]["name"] for tool in prefix.tools))
        wire, size = orjson.dumps(prefix.tools), scale(view.prefix.tools)
        parts.append(RequestPart("tools", "tools", wire, size, names, SentPart("tools")))
    entries = [e for turn in view.turns for e in turn.entries]
    ahead = len(messages) - len(entries)
    for place, message in enumerate(messages[:ahead]):
        is_prompt = place == 0 and bool(prefix.system)
        name = "system prompt" if is_prompt else "activity log" if view.log else "summary"
        text = str(message["content"])
        size = scale(view.prefix.system) if is_prompt else scale(meter.count(text))
        wire, sent = orjson.dumps(message), SentPart(name)
        parts.append(RequestPart(f"ahead {place}", name, wire, size, clip(text), sent))
    for entry, message in zip(entries, messages[ahead:], strict=True):
        extra = meter.count(_find_ahead(entry, message))
        name = f"t{entry.turn} {role(entry.message)}{_AFTER if extra else ''}"
        size, words = scale(entry.tokens + extra), summarize(entry.message)
        sent, wire = SentPart(name, entry, bool(extra)), orjson.dumps(message)
        parts.append(RequestPart(f"seq {entry.seq}", name, wire, size, words, sent))
    return parts


def _find_ahead(entry: Entry, message: Mapping[str, Any]) -> str:
    """Return the text that is sent before a message's own and is not in its row."""
    own, sent = entry.message.to_wire()["content"], message["content"]
    if not isinstance(own, str) or not isinstance(sent, str) or not sent.endswith(own):
        return ""
    return sent.removesuffix(own)


def _as_diff(
    ask: Ask,
    one: RebuiltRequest,
    two: RebuiltRequest,
    compared: Comparison,
    events: Sequence[ViewEvent],
) -> str:
    heads = [f"--- {_format_heading(one.sent)}", f"+++ {_format_heading(two.sent)}"]
    half = LONGEST_DIFF // 2
    lines = shorten(
        [*_diff_lines(compared.lines)], half, half, lambda n: _("  … {n} more lines", n=n)
    )
    block = mask_secrets(ask, "\n".join((*heads, *lines)))
    faults = [f"{a.sent.name}: {describe_match(a)}" for a in (one, two) if not a.is_same]
    verdict = _verdict(one.sent, two.sent, compared)
    why = _explain(compared, events, ask.bot.zone()) if not faults else ""
    return "\n\n".join(filter(None, (verdict, fence(block, "diff"), why, *faults)))


def _explain(compared: Comparison, events: Sequence[ViewEvent], zone: tzinfo) -> str:
    """Describe the events that changed earlier parts, and the changes without an event."""
    named = {name for line in compared.lines for name in line.events}
    lines = [
        f"- e{event.id}, {format_datetime(event.at, zone)}: {_(name_kind(event))}"
        f"{_describe_turns(event)}{aside(by(event))}"
        for event in events
        if f"e{event.id}" in named
    ]
    if lines:
        lines.insert(0, _("The earlier part of the request was changed by:"))
    if compared.unexplained:
        lines.append(
            _(
                "No event explains the change of {parts}. That is a fault of the bot: please "
                "report it.",
                parts=", ".join(map(_name_part, compared.unexplained[:_MOST_NAMED])),
            )
        )
    return "\n".join(lines)


def _describe_turns(event: ViewEvent) -> str:
    touched = event.touched
    return f" {format_turns(touched)}" if touched else ""


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
    """Describe where the common prefix ends, and the effect on the cache."""
    if one.model != two.model:
        return _(
            "**{name} went to another model than {other}**, so none of its {total} tokens "
            "came from the cache.",
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
            "**{name} is the beginning of {other}**, so the cache still applies: {kept} "
            "tokens are the same, {anew} are new.{hit}",
            name=one.name,
            other=two.name,
            kept=amount(compared.kept),
            anew=amount(compared.anew),
            hit=hit,
        )
    return _(
        "**The beginning is the same for {kept} tokens; from “{place}” on it differs**, so "
        "the {anew} tokens from there on were not cached.{hit}",
        kept=amount(compared.kept),
        place=_name_part(compared.place),
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
        was, now = amounts(line.before, line.tokens)
        sizes = _("{before} → {after} tokens", before=was, after=now)
        return labelled(f"! {_name_part(line.name)}", series((sizes, line.words)))
    size = _("{tokens} tokens", tokens=amount(line.tokens))
    return labelled(f"{line.sign} {_name_part(line.name)}", series((size, line.words)))


def _name_part(name: str) -> str:
    """Return the name of a part of a request in the person's language."""
    turn, _space, role = name.partition(" ")
    if not turn[1:].isdigit():
        return _(name)
    role, comma, _summary = role.partition(_AFTER)
    text = f"{turn} {name_role(role)}"
    return _("{part}, after a summary", part=text) if comma else text


_ANYTHING: frozenset[Kind] = frozenset({"undo", "redo", "setting"})
"""Kinds that may change any part of the conversation: another event starts or stops to apply, or
another strategy is in force."""


class SentPart(Struct, frozen=True):
    """A part of a request whose change is explained: a message of the conversation by its entry, or
    an earlier part (`name`)."""

    name: str
    entry: Entry | None = None
    has_summary: bool = False
    """A summary is sent with it, before its own text."""


def _touches(event: ViewEvent, part: SentPart) -> bool:
    if part.entry is None and part.name in ("tools", "system prompt", "parameters"):
        return event.kind == "prompt"
    if event.kind in _ANYTHING:
        return True
    if event.kind in ("prompt", "hold"):
        return False
    change = event.change
    if (part.entry is None or part.has_summary) and change.rewrites_front:
        return True
    return part.entry is not None and change.touches(part.entry.turn, part.entry.seq)
