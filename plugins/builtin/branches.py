"""`/fork`: a conversation of its own from here or from a turn; `/branches`: which there are, and
which of them is talked to; `/regenerate` and `/edit`: a question is asked again, as it was or in
other words, in a branch that begins before it. So what comes of it stands beside what came of it
first, and not below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict, replace

from channels.language import _, format_datetime
from memory.messages import PICTURE, Message
from memory.turns import Turn, turn_number
from plugins.api import Action, Ask, BranchInfo, Command, Form, Reply, command, hookimpl, refusal
from plugins.builtin.session import LONGEST_TITLE, last_turns
from plugins.guarding import with_offers
from plugins.turn_names import turns_of
from plugins.wording import cell, clip, format_list, literal, name_branch, table

_TURN = re.compile(r"t\d+", re.IGNORECASE)
_FILE = re.compile(r"\[file: .+, [\d.]+ [kM]B\]")  # as in the text of bot/attachments
_INTERRUPTED = (
    "The bot was stopped while it branched off. /branches shows whether the branch is there; if "
    "nothing is said in it, ask your question there."
)


@command(
    "regenerate",
    "Retry a question in a new branch, also with another model",
    "[t5] [MODEL]",
    leads=True,
    interrupted=_INTERRUPTED,
)
async def regenerate(ask: Ask) -> Reply:
    """Run `/regenerate`, `/regenerate t5`, `/regenerate MODEL` or `/regenerate t5 MODEL`."""
    name, model = _split(ask.text)
    if len(model.split()) > 1:
        raise refusal(
            "Nothing was asked: “{model}” is no model's name. /regenerate t5 MODEL asks t5 "
            "again; /edit t5 TEXT asks something else in its place.",
            model=literal(clip(model)),
        )
    if model:
        ask.bot.settings.once({"model": model}, ask.conversation.key.id, ask.person)
    turn = await _find_turn(ask, name)
    return await _ask_again(ask, turn, turn.question, model)


@command(
    "edit",
    "Edit an earlier question and ask it in a new branch",
    "[t5] [TEXT]",
    leads=True,
    interrupted=_INTERRUPTED,
)
async def edit(ask: Ask) -> Reply:
    """Run `/edit t5 TEXT`. Without a text, ask for it; without a turn, take the last one."""
    name, text = _split(ask.text)
    turn = await _find_turn(ask, name)
    question, files = _split_files(turn.question.text)
    if not text:
        return Reply(
            _("New text for {id}. The answer comes in a new branch.", id=turn.id),
            {"turn": turn.id, "text": question},
            form=Form(f"/edit {turn.id}", question),
        )
    words = "\n".join([text, *files])
    return await _ask_again(ask, turn, replace(turn.question, text=words, speaker=ask.speaker))


def _split(text: str) -> tuple[str, str]:
    """Return the turn at the beginning of a text ("": none), and the rest."""
    first, _, rest = text.strip().partition(" ")
    first, is_line, below = first.partition("\n")
    rest = f"{below} {rest}" if is_line else rest
    return (first, rest.strip()) if _TURN.fullmatch(first) else ("", text.strip())


async def _find_turn(ask: Ask, name: str) -> Turn:
    """Return the turn of this name; the last one in context for "". Raises CommandError."""
    if not name:
        return (await last_turns(ask, 1))[0]
    context = ask.conversation.context
    found = await context.turns(turns_of(name, context.newest))
    if not found:
        raise refusal("Nothing is kept of {name}: it was deleted.", name=name)
    return found[0]


def _split_files(text: str) -> tuple[str, Sequence[str]]:
    """Return a question's words, and the lines that name its files."""
    lines = text.split("\n")
    files: list[str] = []
    while lines and _FILE.fullmatch(lines[-1]):
        files.insert(0, lines.pop())
    words = "\n".join(lines)
    return ("" if words == PICTURE else words), files


async def _ask_again(ask: Ask, turn: Turn, question: Message, model: str = "") -> Reply:
    """Create a branch that ends before a turn, and ask this question in it."""
    ask.bot.turns.check(ask.conversation.key, ask.address, model)
    before = await current_branch(ask)
    is_stopped = not turn.is_complete and ask.bot.turns.stop(ask.conversation.key)
    if is_stopped:
        await ask.conversation.context.idle.wait()
    here = ask.conversation.key
    made = await ask.bot.branches.fork(here, turn.number - 1, "", is_as_now=True)
    key = here.branch(made.number)
    if model:
        await ask.bot.settings.set("model", model, key.id, ask.person)
    text = _describe(turn, question, made, before, model)
    first = _("I stopped the running answer. ") if is_stopped else ""
    actions = (
        Action(_("Go back"), f"/branches {before.number}"),
        Action(_("All branches"), "/branches"),
    )
    reply = Reply(first + text, {**as_data(made), "again": turn.id}, actions)
    # Before the question is asked: its turn may change the files that can be restored.
    reply = await with_offers(reply, ask, key, made.turn)
    message = await ask.bot.turns.ask(key, ask.address, question)
    return replace(reply, data={**(reply.data or {}), "asked": message})


def _describe(
    turn: Turn, question: Message, made: BranchInfo, before: BranchInfo, model: str
) -> str:
    is_same = question.text == turn.question.text
    what = (
        _("{id} is asked again", id=turn.id)
        if is_same
        else _("Asked now instead of {id}", id=turn.id)
    )
    who = _(", and {model} answers here from now on", model=literal(model)) if model else ""
    text = _(
        "{what}, in branch {number}{who}: “{words}”. /branches {before} goes back to what was "
        "said.",
        what=what,
        number=made.number,
        who=who,
        words=literal(clip(question.text)),
        before=before.number,
    )
    tools = list(dict.fromkeys(e.message.tool for e in turn.entries if e.message.role == "tool"))
    if tools:
        did = format_list([f"`{name}`" for name in filter(None, tools)], "and")
        text += _(" Changes by {did} there are not undone, and may be made again.", did=did)
    return text


_ALL = Action("All branches", "/branches")
_MOST_BUTTONS = 8
_ALMOST_A_TURN = re.compile(r"[tT]-?\d")
_NUMBER = re.compile(r"\d+(?:[-–]\d+)?")
_SHORT = 30  # characters of a title
_DIGITS = re.compile(r"\d+")


@command(
    "fork",
    "Branch off: continue in a branch of its own, from here or from a turn",
    "[t5] [TITLE]",
    leads=True,
)
async def fork(ask: Ask) -> Reply:
    """Run `/fork`, `/fork t5`, `/fork t5 TITLE` or `/fork TITLE`."""
    first, _space, rest = ask.text.strip().partition(" ")
    turn, title = _turn(first, rest), ask.text
    if turn:
        title = rest
    before = await current_branch(ask)
    made = await ask.bot.branches.fork(ask.conversation.key, turn, clip(title, LONGEST_TITLE))
    shared = "t1" if made.turn == 1 else _("t1 to t{turn}", turn=made.turn)
    running = _describe_still_running(before) if before.is_running else ""
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
    """Return the turn that the first word names; None for any other word. Raises CommandError for a
    likely mistyped turn, instead of taking it for a title."""
    is_turn = word[:1] in ("t", "T") and word[1:].isdigit()
    is_almost = _ALMOST_A_TURN.match(word) or (_NUMBER.fullmatch(word) and not rest.strip())
    if not is_turn and is_almost:
        turn = f"t{int(_DIGITS.findall(word)[0][:9])}"
        raise refusal(
            "No branch was made: “{word}” is not a turn. /fork {turn} branches off after "
            "{turn}; a title begins with another word.",
            word=literal(clip(word)),
            turn=turn,
        )
    if not is_turn:
        return None
    try:
        return turn_number(word)
    except ValueError as error:
        raise refusal("No branch was made: {error}.", error=error) from None


@command("branches", "Show this chat's branches, or go to one", "[N | TITLE]", leads=True)
async def branches(ask: Ask) -> Reply:
    """Run `/branches`, `/branches 2` or `/branches TITLE`."""
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
    running = _describe_still_running(here) if here.is_running else ""
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
    """Return the branch with this number or title, or the only branch whose title begins with the
    text. Raises CommandError."""
    if wanted.isascii() and wanted.isdigit():
        fits = [one for one in found if str(one.number) == wanted.lstrip("0")]
    else:
        title = wanted.casefold()
        fits = [one for one in found if one.title.casefold() == title]
        fits = fits or [one for one in found if one.title.casefold().startswith(title)]
    if len(fits) == 1:
        return fits[0]
    if fits:
        numbers = format_list([str(one.number) for one in fits], "or")
        raise refusal(
            "“{wanted}” could be branch {numbers}; give its number.",
            wanted=literal(clip(wanted)),
            numbers=numbers,
        )
    raise refusal(
        "There is no branch “{wanted}” here; /branches lists them.", wanted=literal(clip(wanted))
    )


def _list(ask: Ask, found: Sequence[BranchInfo]) -> Reply:
    data = {"branches": [as_data(one) for one in found]}
    if len(found) == 1:
        return Reply(
            _(
                "This conversation has no branches (second continuations of it). /fork makes "
                "one from here, /fork t5 one after turn t5."
            ),
            data,
            (Action(_("Branch off"), "/fork"),),
        )
    titles = [one.title for one in found]
    alike = {one.number for one in found if one.answer and titles.count(one.title) > 1}
    rows = [
        (
            f"**{one.number}**" if one.is_current else one.number,
            cell(literal(_label(one, one.number in alike))),
            _origin(one),
            f"t{one.turns}" if one.turns else "",
            format_datetime(one.at, ask.bot.zone()) + (_(", answering") if one.is_running else ""),
        )
        for one in found
    ]
    text = (
        table(_COLUMNS, rows)
        if any(row[2] for row in rows)
        else table(_without_origin(_COLUMNS), map(_without_origin, rows))
    )
    here = next((one.number for one in found if one.is_current), 1)
    others = [one for one in found if not one.is_current][-_MOST_BUTTONS:]
    actions = tuple(
        Action(
            f"{one.number}: {clip(one.answer if one.number in alike else one.title, 30)}".rstrip(
                ": "
            ),
            f"/branches {one.number}",
        )
        for one in others
    )
    return Reply(
        _(
            "{branches}\n\nYou are in branch {here}, the bold one. `/branches {there}` goes to "
            "branch {there}.",
            branches=text,
            here=here,
            there=others[0].number,
        ),
        data,
        actions,
    )


_COLUMNS = ("branch", "title", "branches off after", "last turn", "last message")


def _without_origin(row: Sequence[object]) -> tuple[Any, ...]:
    """Return a row without the turn at which the branch begins."""
    return (*row[:2], *row[3:])


def _label(one: BranchInfo, is_alike: bool) -> str:
    """Return a branch's title; the beginning of its answer follows if another has the same title,
    as of a question asked twice."""
    return (
        f"{clip(one.title, _SHORT)} → {clip(one.answer, _SHORT)}" if is_alike else clip(one.title)
    )


def _origin(one: BranchInfo) -> str:
    """Return the turn at which a branch begins, and its parent branch unless that was deleted."""
    if one.turn and one.parent > 0:
        return _("t{turn} of {branch}", turn=one.turn, branch=one.parent)
    return f"t{one.turn}" if one.turn else ""


async def current_branch(ask: Ask) -> BranchInfo:
    found = await ask.bot.branches.all(ask.conversation.key)
    return next(one for one in found if one.is_current)


def _format_name(one: BranchInfo) -> str:
    return name_branch(one.number, one.title)


def _describe_still_running(one: BranchInfo) -> str:
    return _(
        " The answer in branch {number} continues, and is sent here when it is complete; /stop "
        "ends it.",
        number=one.number,
    )


def as_data(one: BranchInfo) -> dict[str, Any]:
    return {**asdict(one), "at": one.at.isoformat(), "turn": f"t{one.turn}" if one.turn else ""}


@hookimpl
def parley_commands() -> list[Command]:
    return [fork, branches, regenerate, edit]
