"""`/context request`: what was really sent to the model, and `/context diff`: how two requests
differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from itertools import groupby, takewhile
from typing import Any, Literal

import orjson
from msgspec import Struct
from msgspec.structs import asdict, replace

from agent.pictures import Pictures
from agent.sent import Rebuilt, rebuild
from channels.language import _, number_of
from memory.context.view import Scale
from memory.record.requests import SentRequest
from memory.turns import Entry
from plugins.api import Action, Ask, CommandError, Reply
from plugins.builtin.context.preview import list_messages, show_messages
from plugins.builtin.context.show import moment
from plugins.builtin.context.state import ids, say_of
from plugins.builtin.context.turns import role, summarize
from plugins.wording import amount, clip, fence, literal, money, shorten

LONGEST_JSON = 12_000
"""Characters of a request that a chat is shown as JSON; `data` has all of it."""
LONGEST_DIFF = 60
"""Lines of a comparison that are shown."""
NONE_KEPT = (
    "No request is kept here: `context.keep_requests` is 0, so what is sent to the model is not "
    "noted. /config context.keep_requests 20 --here keeps the last 20 from now on."
)
NONE_SENT = (
    "No request of this conversation is kept yet. Those of its own turns are, from the next "
    "message on; requests for summaries and those of sub-agents are not."
)


async def show(ask: Ask, rest: str) -> Reply:
    """`/context request [r41] [json]`"""
    words = rest.lower().split()
    is_json = "json" in words
    kept = await list_kept(ask)
    if isinstance(kept, Reply):
        return kept
    names = [word for word in words if word != "json"]
    if len(names) > 1:
        raise CommandError(_("/context request takes one request, like /context request r41 json."))
    number = _number(names[0], kept) if names else kept[-1]
    again = await _rebuild(ask, number)
    data = _mask(ask, {"request": _describe(again)})
    if is_json:  # it may be megabytes
        data["body"] = _mask(ask, again.shown)
    text = _as_json(data["body"]) if is_json else _as_text(again, kept, ask.bot.zone())
    return Reply(_mask(ask, text), data, _actions(number, kept, is_json=is_json))


async def list_kept(ask: Ask) -> list[int] | Reply:
    """Return the numbers of the requests that are kept, or why there are none."""
    log = ask.conversation.turns.requests
    found = await log.numbers() if log.keep else []
    return found or Reply(_(NONE_SENT if log.keep else NONE_KEPT), {"requests": []})


def _number(word: str, kept: Sequence[int]) -> int:
    """ "r41" or "41" -> 41. Raises CommandError for one that is not kept."""
    digits = word.removeprefix("r")
    if digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) in kept:
        return int(digits)
    raise CommandError(
        _(
            "“{word}” is not a request that is kept; {which}.",
            word=literal(clip(word)),
            which=_range(kept),
        )
    )


def _range(kept: Sequence[int]) -> str:
    if len(kept) == 1:
        return _("only r{kept} is", kept=kept[0])
    return _("r{first} to r{last} are", first=kept[0], last=kept[-1])


async def _rebuild(ask: Ask, number: int) -> Rebuilt:
    log = ask.conversation.turns.requests
    sent = await log.request(number)
    if sent is None:
        raise CommandError(_("r{number} can't be read, or was deleted meanwhile.", number=number))
    folder = ask.bot.workspace(ask.conversation.key)
    again = await rebuild(log, sent, Pictures(folder, lambda: 0))
    offset = sent.total - sent.ratio * again.view.raw_tokens if again.is_same else 0.0
    return replace(again, view=replace(again.view, scale=Scale(sent.ratio, offset)))


def _actions(number: int, kept: Sequence[int], *, is_json: bool) -> tuple[Action, ...]:
    before = number - 1
    offers = (
        Action(_("Readable"), f"/context request r{number}")
        if is_json
        else Action("JSON", f"/context request r{number} json"),
        before in kept
        and Action(
            _("What changed since r{before}", before=before), f"/context diff r{before} r{number}"
        ),
        before in kept and Action(f"r{before}", f"/context request r{before}"),
        number + 1 in kept and Action(f"r{number + 1}", f"/context request r{number + 1}"),
    )
    return tuple(offer for offer in offers if offer)


def _as_text(again: Rebuilt, kept: Sequence[int], zone: tzinfo) -> str:
    sent = again.sent
    at = moment(datetime.fromtimestamp(sent.at, UTC), zone)
    rows = list_messages(again.view, again.prefix)
    return "\n\n".join(
        (
            _(
                "**Request {name}**, sent at {at} in t{turn} to {model}. {usage}",
                name=sent.name,
                at=at,
                turn=sent.turn,
                model=literal(sent.model),
                usage=usage(sent),
            ),
            show_messages(rows),
            describe_match(again),
            _(
                "Of this conversation's own requests, {which} kept; those for summaries and those "
                "of sub-agents are not.",
                which=_range(kept),
            ),
        )
    )


def usage(sent: SentRequest) -> str:
    """Describe the outcome of a request, and what the provider counted."""
    if sent.outcome == "too long":
        return _(
            "The model refused it as too long; by the meter it had {tokens} tokens.",
            tokens=amount(sent.tokens),
        )
    if not sent.outcome:
        return _(
            "About {tokens} tokens. No answer came of it: it failed, broke off, or was stopped.",
            tokens=amount(sent.tokens),
        )
    if sent.total != sent.prompt and sent.is_reported:
        return _(
            "{tokens} tokens by the meter, but the provider has read only {prompt} of them; "
            "{completion} in the answer.",
            tokens=amount(sent.tokens),
            prompt=amount(sent.prompt),
            completion=amount(sent.completion),
        )
    who = _("by the provider") if sent.is_reported else _("by the meter")
    cached = f", {_describe_cached(sent)}" if sent.is_reported else ""
    price = "" if sent.cost is None else f", {money(sent.cost)}"
    return _(
        "{prompt} tokens {who}{cached}; {completion} in the answer{price}, {seconds:.1f} s.",
        prompt=amount(sent.prompt),
        who=who,
        cached=cached,
        completion=amount(sent.completion),
        price=price,
        seconds=sent.seconds,
    )


def _describe_cached(sent: SentRequest) -> str:
    if not sent.cached:
        return _("none of them from its cache")
    return _(
        "{cached} of them ({share:.0%}) from its cache",
        cached=amount(sent.cached),
        share=sent.cached / max(1, sent.prompt),
    )


def describe_match(again: Rebuilt) -> str:
    """Return whether this is what was sent, and why not."""
    sent = again.sent
    if again.is_same:
        return _(
            "This is byte for byte what was sent: {size:,} bytes, SHA-256 `{digest}…`.",
            size=sent.size,
            digest=sent.digest[:16],
        )
    turns = again.forgotten
    gone = (
        say_of(turns, "{turns} was forgotten", "{turns} were forgotten") if turns else "",
        _("the system prompt and the tools are not kept any more") * (not sent.prefix.parameters),
        _("a secret in it was hidden before it was kept") * sent.prefix.is_masked,
    )
    why = _(", and ").join(filter(None, gone)) or _(
        "something in it was forgotten or changed since"
    )
    return _("This is not byte for byte what was sent: {why}. The rest is as it was.", why=why)


def _as_json(body: Any) -> str:
    text = json.dumps(body, indent=2, ensure_ascii=False)
    more = len(text) - LONGEST_JSON
    if more > 0:
        text = _(
            "{beginning}\n… {more:,} more characters", beginning=text[:LONGEST_JSON], more=more
        )
    note = (
        _("\n\nThe whole is in this reply's data, over REST and in pipe mode.") if more > 0 else ""
    )
    return f"{fence(text, 'json')}{note}"


def figures(sent: SentRequest) -> dict[str, Any]:
    """Return a request's figures as data."""
    return {
        "id": sent.name,
        "turn": f"t{sent.turn}",
        "at": datetime.fromtimestamp(sent.at, UTC).isoformat(),
        "model": sent.model,
        "outcome": sent.outcome,
        "tokens": sent.tokens,
        "prompt": sent.prompt,
        "cached": sent.cached,
        "completion": sent.completion,
        "is_reported": sent.is_reported,
        "cost": sent.cost,
        "seconds": sent.seconds,
        "bytes": sent.size,
        "sha256": sent.digest,
    }


def _describe(again: Rebuilt) -> dict[str, Any]:
    """Return the same, with what it held."""
    return {
        **figures(again.sent),
        "is_same": again.is_same,
        "forgotten": ids(again.forgotten),
        "parts": [
            {"turn": turn, "message": who, "tokens": size or 0, "beginning": words}
            for turn, who, size, words in list_messages(again.view, again.prefix)
        ],
    }


def _mask(ask: Ask, value: Any) -> Any:
    """Return the same without secrets."""
    hide = ask.conversation.turns.requests.hide
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {name: _mask(ask, one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_mask(ask, one) for one in value]
    return value


# --- how two of them differ --------------------------------------------------------------------

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


async def diff(ask: Ask, rest: str) -> Reply:
    """`/context diff [r40 r41]`"""
    kept = await list_kept(ask)
    if isinstance(kept, Reply):
        return kept
    words = rest.lower().split()
    numbers = [_number(word, kept) for word in words] or kept[-2:]
    if len(set(numbers)) != 2:
        raise CommandError(
            _(
                "/context diff compares two requests, like /context diff r40 r41, or without "
                "names the last two; {which} kept.",
                which=_range(kept),
            )
        )
    one, two = [await _rebuild(ask, number) for number in sorted(numbers)]
    compared = compare(_parts(ask, one), _parts(ask, two))
    data = {
        "before": _describe(one),
        "after": _describe(two),
        **{name: value for name, value in asdict(compared).items() if name != "lines"},
        "lines": [asdict(line) for line in compared.lines if line.sign != " "],
    }
    actions = [Action(one.sent.name, f"/context request {one.sent.name}") for one in (one, two)]
    return Reply(_as_diff(ask, one, two, compared), _mask(ask, data), tuple(actions))


def _parts(ask: Ask, again: Rebuilt) -> list[RequestPart]:
    """Return a request's parts in the order in which providers read them: the tools first."""
    scale, view, messages = again.view.scale.part, again.view, again.messages
    count_tokens = ask.conversation.turns.requests.count_tokens
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
    block = ask.conversation.turns.requests.hide("\n".join((*heads, *lines)))
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
