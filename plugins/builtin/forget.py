"""`/forget`: permanently delete messages, after a confirmation."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict

from channels.language import _
from plugins.api import (
    Action,
    Ask,
    Command,
    ForgetReport,
    ForgetRequest,
    Reply,
    command,
    hookimpl,
    refusal,
)
from plugins.turn_names import spell, turns_of
from plugins.wording import aside, count, format_list, format_turns

YES = "yes"
SUBS = (
    ("t3-t5", "these turns of this chat"),
    ("chat", "all of this chat; of a branch, what it shares with no other"),
    ("branches", "this chat with all its branches"),
    ("all", "this chat with its threads, and all files made in them"),
)
_STAYS = {
    "turns": "Later answers may still quote them.",
    "chat": "Files made here (in files/), settings and cost records are kept.",
    "branches": "Files made here (in files/), settings and cost records are kept.",
    "all": "Settings and cost records are kept; neither contains a word of what was said.",
}
_LEFT = (
    "Some of it could not be deleted: a plugin's copy, or the file with corrected values. The log "
    "says which; the bot's owner can delete it by hand."
)
_BEYOND = "I can't delete what a model's provider, a messaging app or a backup keeps."


class Request(Struct, frozen=True):
    """A person's request: `scope` is "turns", "chat", "branches" or "all", `words` is the text as
    typed."""

    scope: str
    words: str
    wish: ForgetRequest
    is_confirmed: bool


@command("forget", "Delete messages for good; asks first", "[t3-t5|chat|branches|all]", SUBS)
async def forget(ask: Ask) -> Reply:
    """Describe what `/forget WHAT` would delete; with `yes`, delete it."""
    if not ask.words:
        return Reply(
            _(
                "What should I delete for good? /forget t3 or /forget t3-t5: these turns; /forget "
                "chat: all of this chat; /forget all: the files made here, too. I ask again "
                "before I do it. To remove turns but keep them, use /context clear."
            ),
            None,
            (Action(_("This chat"), "/forget chat"),),
        )
    request = parse(ask.text, ask.conversation.context.newest)
    if request.scope == "all":
        ask.require_owner("delete everything with its files")
    elif not ask.address.is_private:
        ask.require_owner("delete what was said where others read along")
    if not request.is_confirmed:
        kept = await ask.bot.forgetting.estimate(ask.conversation.key, request.wish)
        return _question(request, kept)
    first = _("I stopped the running answer.") + " "
    is_stopped = ask.bot.turns.is_running(ask.conversation.key)  # forgetting stops it
    deleted = await ask.bot.forgetting.forget(ask.conversation.key, request.wish)
    left = f" {_(_LEFT)}" if deleted.is_left else ""
    shared = _describe_branches(request, deleted, is_done=True)
    text = _(
        "Deleted: {what}. {shared}{stays} {beyond}{left}",
        what=_describe(request, deleted),
        shared=shared,
        stays=_(_STAYS[request.scope]),
        beyond=_(_BEYOND),
        left=left,
    )
    return Reply(f"{first if is_stopped else ''}{text}", _data(deleted))


def parse(text: str, newest: int) -> Request:
    """Return a person's request. Raises CommandError with a sentence."""
    words = text.split()
    is_confirmed = words[-1].lower() == YES
    scope = " ".join(words[: len(words) - is_confirmed]).lower()
    if scope in ("chat", "branches", "all"):
        wish = ForgetRequest(is_audience=scope == "all", is_branches=scope == "branches")
        return Request(scope, scope, wish, is_confirmed)
    turns = turns_of(scope, newest)
    if not turns:
        raise refusal("/forget needs to know what to delete before the yes: t3-t5, chat or all.")
    return Request("turns", scope, ForgetRequest(turns), is_confirmed)


def _question(request: Request, kept: ForgetReport) -> Reply:
    if request.scope == "turns" and not kept.turns:
        return Reply(
            _("Nothing is left of {turns}.", turns=format_turns(request.wish.turns)),
            {"confirm": None, **_data(kept)},
        )
    confirm = f"/forget {request.words} {YES}"
    text = _(
        "This would delete {what}. {shared}It can't be undone. {stays} To do it, send `{confirm}`.",
        what=_describe(request, kept),
        shared=_describe_branches(request, kept),
        stays=_(_STAYS[request.scope]),
        confirm=confirm,
    )
    data = {"confirm": confirm, **_data(kept)}
    return Reply(text, data, (Action(_("Delete for good"), confirm),))


def _describe(request: Request, kept: ForgetReport) -> str:
    """Describe the deleted parts."""
    turns = format_turns(kept.turns) if request.scope == "turns" else count(len(kept.turns), "turn")
    parts = [(turns or _("no turn")) + aside(count(kept.messages, "message"))]
    if kept.sections:
        others = _(" (the parts about other turns are rewritten)")
        anew = others if request.scope == "turns" else ""
        parts.append(
            _(
                "{sections} of the daily memory{anew}",
                sections=count(kept.sections, "section"),
                anew=anew,
            )
        )
    if kept.lines:
        parts.append(_("{lines} of MEMORY.md", lines=count(kept.lines, "line")))
    if kept.asides:
        parts.append(count(kept.asides, "side question"))
    parts.extend(count(number, noun) for noun, number in kept.made.items() if number)
    if request.scope == "all":
        parts.append(
            _("the folder of this chat's files ({files})", files=count(kept.files, "file"))
        )
    return _(" and ").join(parts)


def _describe_branches(request: Request, kept: ForgetReport, is_done: bool = False) -> str:
    """Describe the effect on the other branches that share turns, with a trailing space."""
    if not kept.branches:
        return ""
    others = format_list(kept.branches)
    if request.scope == "turns":
        if is_done:
            return _("Shared turns were deleted from {others} too. ", others=others)
        return _("Shared turns are deleted from {others} too. ", others=others)
    if not kept.staying:
        return ""
    turns = format_turns(kept.staying)
    span = spell(kept.staying)
    everywhere = (
        ""
        if is_done
        else _(" (/forget {span} deletes that everywhere, /forget branches all)", span=span)
    )
    text = _(
        "{turns}: shared with {others}, so only removed from this branch{everywhere}.",
        others=others,
        turns=turns,
        everywhere=everywhere,
    )
    return f"{text} "


def _data(kept: ForgetReport) -> dict[str, object]:
    return {**asdict(kept), "turns": [f"t{turn}" for turn in kept.turns]}


@hookimpl
def parley_commands() -> list[Command]:
    return [forget]
