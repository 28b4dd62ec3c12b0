"""`/fork`: a conversation of its own from here or from a turn; `/branches`: which there are, and
which of them is talked to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from channels.dates import say_moment
from channels.language import _
from memory.turns import turn_number
from plugins.api import Action, Ask, BranchInfo, Command, CommandError, Reply, command, hookimpl
from plugins.builtin.session import LONGEST_TITLE
from plugins.offers import with_offers
from plugins.wording import cell, clip, format_list, literal, name_branch, table

_ALL = Action("All branches", "/branches")
_MOST_BUTTONS = 8
_ALMOST_A_TURN = re.compile(r"[tT]-?\d")
_NUMBER = re.compile(r"\d+(?:[-–]\d+)?")
_DIGITS = re.compile(r"\d+")


@command(
    "fork",
    "Branch off: a conversation of its own from here, or from a turn",
    "[t5] [TITLE]",
    leads=True,
)
async def fork(ask: Ask) -> Reply:
    """`/fork`, `/fork t5`, `/fork t5 TITLE`, `/fork TITLE`."""
    first, _space, rest = ask.text.strip().partition(" ")
    turn, title = _turn(first, rest), ask.text
    if turn:
        title = rest
    before = await current_branch(ask)
    made = await ask.bot.branches.fork(ask.conversation.key, turn, clip(title, LONGEST_TITLE))
    shared = "t1" if made.turn == 1 else _("t1 to t{turn}", turn=made.turn)
    running = _go_on(before) if before.is_running else ""
    text = _(
        "You are in {name} now. It shares {shared} with {before}; what you say from here on is "
        "its own, and undo, drop and the like change nothing there.{running} /branches {number} "
        "goes back.",
        name=_format_name(made),
        shared=shared,
        before=_format_name(before),
        running=running,
        number=before.number,
    )
    actions = (Action(_("Go back"), f"/branches {before.number}"), _ALL)
    key = ask.conversation.key.branch(made.number)
    return await with_offers(Reply(text, as_data(made), actions), ask, key, made.turn)


def _turn(word: str, rest: str) -> int | None:
    """Return the turn that the first word names; None for another word. What may be a mistyped turn
    is not taken for a title."""
    is_turn = word[:1] in ("t", "T") and word[1:].isdigit()
    is_almost = _ALMOST_A_TURN.match(word) or (_NUMBER.fullmatch(word) and not rest.strip())
    if not is_turn and is_almost:
        turn = f"t{int(_DIGITS.findall(word)[0][:9])}"
        raise CommandError(
            _(
                "No branch was made: “{word}” is not a turn. /fork {turn} branches off after "
                "{turn}; a title begins with another word.",
                word=literal(clip(word)),
                turn=turn,
            )
        )
    if not is_turn:
        return None
    try:
        return turn_number(word)
    except ValueError as error:
        raise CommandError(_("No branch was made: {error}.", error=error)) from None


@command("branches", "Show this chat's branches, or go to one", "[N | TITLE]", leads=True)
async def branches(ask: Ask) -> Reply:
    """`/branches`, `/branches 2`, `/branches TITLE`."""
    found = await ask.bot.branches.all(ask.conversation.key)
    wanted = ask.text.strip()
    if not wanted:
        return _list(ask, found)
    there, here = _find(found, wanted), next(one for one in found if one.is_current)
    if there.number == here.number:
        return Reply(
            _("You are in {name} already.", name=_format_name(here)), as_data(here), (_ALL,)
        )
    await ask.bot.branches.switch(ask.conversation.key, there.number)
    running = _go_on(here) if here.is_running else ""
    text = _(
        "You are in {name} now; its last turn is t{turns}.{running}",
        name=_format_name(there),
        turns=there.turns,
        running=running,
    )
    actions = (Action(_("Go back"), f"/branches {here.number}"), _ALL)
    reply = Reply(text, {**as_data(there), "is_current": True}, actions)
    return await with_offers(reply, ask, ask.conversation.key.branch(there.number), None)


def _find(found: Sequence[BranchInfo], wanted: str) -> BranchInfo:
    """Return the branch of this number or title, or whose title alone begins so."""
    if wanted.isascii() and wanted.isdigit():
        fits = [one for one in found if str(one.number) == wanted.lstrip("0")]
    else:
        said = wanted.casefold()
        fits = [one for one in found if one.title.casefold() == said]
        fits = fits or [one for one in found if one.title.casefold().startswith(said)]
    if len(fits) == 1:
        return fits[0]
    if fits:
        numbers = format_list([str(one.number) for one in fits], "or")
        raise CommandError(
            _(
                "“{wanted}” could be branch {numbers}; give its number.",
                wanted=literal(clip(wanted)),
                numbers=numbers,
            )
        )
    raise CommandError(
        _("There is no branch “{wanted}” here; /branches lists them.", wanted=literal(clip(wanted)))
    )


def _list(ask: Ask, found: Sequence[BranchInfo]) -> Reply:
    data = {"branches": [as_data(one) for one in found]}
    if len(found) == 1:
        return Reply(
            _(
                "This chat has one conversation and no branches. /fork branches off from here, "
                "/fork t5 from after turn t5."
            ),
            data,
            (Action(_("Fork"), "/fork"),),
        )
    rows = [
        (
            f"**{one.number}**" if one.is_current else one.number,
            cell(literal(clip(one.title))),
            _origin(one),
            f"t{one.turns}" if one.turns else "",
            say_moment(one.at, ask.bot.zone()) + (_(", answering") if one.is_running else ""),
        )
        for one in found
    ]
    text = table(("branch", "what", "begins after", "last turn", "last said"), rows)
    here = next((one.number for one in found if one.is_current), 1)
    others = [one for one in found if not one.is_current][-_MOST_BUTTONS:]
    actions = tuple(
        Action(f"{one.number}: {clip(one.title, 30)}".rstrip(": "), f"/branches {one.number}")
        for one in others
    )
    return Reply(
        _(
            "{branches}\n\nYou are in branch {here}. /branches N goes to another.",
            branches=text,
            here=here,
        ),
        data,
        actions,
    )


def _origin(one: BranchInfo) -> str:
    """Return the turn at which a branch begins; the branch that it left may be forgotten."""
    if one.turn and one.parent > 0:
        return _("t{turn} of {branch}", turn=one.turn, branch=one.parent)
    return f"t{one.turn}" if one.turn else ""


async def current_branch(ask: Ask) -> BranchInfo:
    found = await ask.bot.branches.all(ask.conversation.key)
    return next(one for one in found if one.is_current)


def _format_name(one: BranchInfo) -> str:
    return name_branch(one.number, one.title)


def _go_on(one: BranchInfo) -> str:
    return _(
        " The answer that is being written in branch {number} goes on, and comes here when it is "
        "done, with a note; /stop ends it.",
        number=one.number,
    )


def as_data(one: BranchInfo) -> dict[str, Any]:
    return {**asdict(one), "at": one.at.isoformat(), "turn": f"t{one.turn}" if one.turn else ""}


@hookimpl
def parley_commands() -> list[Command]:
    return [fork, branches]
