"""`/context request` and `/context requests`: the requests exactly as they were sent to the
model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from agent.pictures import Pictures
from channels.language import _, format_datetime
from memory.context.view import Scale
from plugins.api import Action, Ask, Reply, refusal
from plugins.builtin.context.preview import list_messages, show_messages
from plugins.builtin.context.values import sentence_about
from plugins.request_log.reading import RebuiltRequest, StoredRequests, rebuild
from plugins.request_log.record import SentRequest
from plugins.turn_names import ids
from plugins.wording import amount, clip, fence, literal, money, table

LONGEST_JSON = 12_000
"""The maximum of characters of a request shown as JSON in a chat; `data` has all of it."""
NONE_KEPT = (
    "No request is kept here, because `context.keep_requests` is 0. /config "
    "context.keep_requests 20 --here keeps the last 20 from now on."
)
NONE_SENT = (
    "No request of this conversation is kept yet. Those of its own turns are, from the next "
    "message on; requests for summaries and those of sub-agents are not."
)


async def show_one(ask: Ask) -> Reply:
    """`/context request [r41] [json]`"""
    words = ask.text.lower().split()
    is_json = "json" in words
    kept = await list_kept(ask)
    if isinstance(kept, Reply):
        return kept
    names = [word for word in words if word != "json"]
    if len(names) > 1:
        raise refusal("/context request takes one request, like /context request r41 json.")
    number = find_number(names[0], kept) if names else kept[-1]
    again = await rebuild_request(ask, number)
    data = mask_secrets(ask, {"request": describe_request(again)})
    if is_json:  # it may be megabytes
        data["body"] = mask_secrets(ask, again.shown)
    text = _as_json(data["body"]) if is_json else _as_text(again, kept, ask.bot.zone())
    return Reply(mask_secrets(ask, text), data, _actions(number, kept, is_json=is_json))


async def show_all(ask: Ask) -> Reply:
    """`/context requests`"""
    kept = await list_kept(ask)
    if isinstance(kept, Reply):
        return kept
    found = await StoredRequests(ask.conversation.turns).requests(kept)
    rows = [
        (
            sent.name,
            f"t{sent.turn}",
            format_datetime(sent.at, ask.bot.zone()),
            amount(sent.prompt or sent.tokens),
            f"{sent.cached / sent.prompt:.0%}" if sent.prompt and sent.is_reported else "",
            "" if sent.cost is None else money(sent.cost),
        )
        for sent in found
    ]
    text = table(("request", "turn", "when", "tokens:", "from the cache:", "cost:"), rows)
    text += _("\n\n`/context request r1` shows one, `/context diff r1 r2` how two differ.")
    actions = tuple(
        Action(_("Changes in {name}", name=sent.name), f"/context diff {before.name} {sent.name}")
        for before, sent in list(pairwise(found))[-1:]
    )
    return Reply(text, {"requests": [figures(sent) for sent in found]}, actions)


async def list_kept(ask: Ask) -> list[int] | Reply:
    """Return the numbers of the stored requests, or a reply that says why there are none."""
    log = StoredRequests(ask.conversation.turns)
    found = await log.numbers() if log.keep else []
    return found or Reply(_(NONE_SENT if log.keep else NONE_KEPT), {"requests": []})


def find_number(word: str, kept: Sequence[int]) -> int:
    """Parse a request's number: "r41" or "41" -> 41. Raises CommandError if it is not stored."""
    digits = word.removeprefix("r")
    if digits.isascii() and digits.isdigit() and len(digits) < 10 and int(digits) in kept:
        return int(digits)
    raise refusal(
        "“{word}” is not a request that is kept; {which}.",
        word=literal(clip(word)),
        which=format_range(kept),
    )


def format_range(kept: Sequence[int]) -> str:
    if len(kept) == 1:
        return _("only r{kept} is", kept=kept[0])
    return _("r{first} to r{last} are", first=kept[0], last=kept[-1])


async def rebuild_request(ask: Ask, number: int) -> RebuiltRequest:
    log = StoredRequests(ask.conversation.turns)
    sent = await log.request(number)
    if sent is None:
        raise refusal("r{number} can't be read, or was deleted meanwhile.", number=number)
    folder = ask.bot.workspace(ask.conversation.key)
    again = await rebuild(log, sent, Pictures(folder))
    offset = sent.total - sent.ratio * again.view.raw_tokens if again.is_same else 0.0
    return replace(again, view=replace(again.view, scale=Scale(sent.ratio, offset)))


def _actions(number: int, kept: Sequence[int], *, is_json: bool) -> tuple[Action, ...]:
    before = number - 1
    offers = (
        Action(_("Readable"), f"/context request r{number}")
        if is_json
        else Action(_("As sent (JSON)"), f"/context request r{number} json"),
        before in kept
        and Action(
            _("Changes since r{before}", before=before), f"/context diff r{before} r{number}"
        ),
        before in kept and Action(_("Previous: r{n}", n=before), f"/context request r{before}"),
        number + 1 in kept
        and Action(_("Next: r{n}", n=number + 1), f"/context request r{number + 1}"),
    )
    return tuple(offer for offer in offers if offer)


def _as_text(again: RebuiltRequest, kept: Sequence[int], zone: tzinfo) -> str:
    sent = again.sent
    at = format_datetime(sent.at, zone)
    rows = list_messages(again.view, again.prefix)
    return "\n\n".join(
        (
            _(
                "**Request {name}**, sent {at} in t{turn} to {model}. {usage}",
                name=sent.name,
                at=at,
                turn=sent.turn,
                model=literal(sent.model),
                usage=usage(sent),
            ),
            show_messages(rows),
            describe_match(again),
            _(
                "Of this conversation, {which} stored; requests for summaries and of sub-agents "
                "are not.",
                which=format_range(kept),
            ),
        )
    )


def usage(sent: SentRequest) -> str:
    """Describe the outcome of a request, and the provider's counts."""
    if sent.outcome == "too long":
        return _(
            "The model refused it as too long; by Parley's count it had {tokens} tokens.",
            tokens=amount(sent.tokens),
        )
    if not sent.outcome:
        return _(
            "About {tokens} tokens. No answer: the request failed, broke off, or was stopped.",
            tokens=amount(sent.tokens),
        )
    if sent.total != sent.prompt and sent.is_reported:
        return _(
            "{tokens} tokens by Parley's count, but the provider has read only {prompt} of "
            "them; {completion} in the answer.",
            tokens=amount(sent.tokens),
            prompt=amount(sent.prompt),
            completion=amount(sent.completion),
        )
    who = _("as counted by the provider") if sent.is_reported else _("as counted by Parley")
    cached = _(", ") + _describe_cached(sent) if sent.is_reported else ""
    price = "" if sent.cost is None else _(", ") + money(sent.cost)
    return _(
        "{prompt} tokens {who}{cached}; {completion} tokens in the answer{price}, {seconds:.1f} s.",
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


def describe_match(again: RebuiltRequest) -> str:
    """Describe whether the rebuilt request equals the sent one, and the reasons if not."""
    sent = again.sent
    if again.is_same:
        return _(
            "The JSON is byte for byte what was sent: {size:,} bytes, SHA-256 `{digest}…`.",
            size=sent.size,
            digest=sent.digest[:16],
        )
    turns = again.forgotten
    removed = (
        sentence_about(turns, "{turns} was forgotten", "{turns} were forgotten") if turns else "",
        _("the system prompt and the tools are not kept any more") * (not sent.prefix.parameters),
        _("a secret in it was hidden before it was kept") * sent.prefix.is_masked,
    )
    why = _(", and ").join(filter(None, removed)) or _(
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


def describe_request(again: RebuiltRequest) -> dict[str, Any]:
    """Return the figures, with the parts of the request."""
    return {
        **figures(again.sent),
        "is_same": again.is_same,
        "forgotten": ids(again.forgotten),
        "parts": [
            {"turn": turn, "message": who, "tokens": size or 0, "beginning": words}
            for turn, who, size, words in list_messages(again.view, again.prefix)
        ],
    }


def mask_secrets(ask: Ask, value: Any) -> Any:
    """Return the value with secrets masked."""
    return ask.conversation.turns.services.redactor.hide_all(value)
