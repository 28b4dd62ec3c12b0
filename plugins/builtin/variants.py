"""`/regenerate` and `/edit`: a question is asked again, as it was or in other words, in a branch
that begins before it. So what comes of it stands beside what came of it first, and not below."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from channels.language import _
from memory.messages import PICTURE, Message
from memory.turns import Turn
from plugins.api import (
    Action,
    Ask,
    BranchInfo,
    Command,
    CommandError,
    Form,
    Reply,
    command,
    hookimpl,
)
from plugins.builtin.branches import as_data, current_branch
from plugins.builtin.session import last_turns
from plugins.offers import with_offers
from plugins.turn_names import turns_of
from plugins.wording import clip, format_list, literal

_TURN = re.compile(r"t\d+", re.IGNORECASE)
_FILE = re.compile(r"\[file: .+, [\d.]+ [kM]B\]")  # as bot/attachments tells the model of one
_INTERRUPTED = (
    "The bot was stopped while it branched off. /branches shows whether the branch is there; if "
    "nothing is said in it, ask your question there."
)


@command(
    "regenerate",
    "Ask a question again in a new branch, also with another model",
    "[t5] [MODEL]",
    leads=True,
    interrupted=_INTERRUPTED,
)
async def regenerate(ask: Ask) -> Reply:
    """`/regenerate`, `/regenerate t5`, `/regenerate MODEL`, `/regenerate t5 MODEL`."""
    name, model = _split(ask.text)
    if len(model.split()) > 1:
        raise CommandError(
            _(
                "Nothing was asked: “{model}” is no model's name. /regenerate t5 MODEL asks t5 "
                "again; /edit t5 TEXT asks something else in its place.",
                model=literal(clip(model)),
            )
        )
    if model:
        ask.bot.settings.once({"model": model}, ask.conversation.key.id, ask.person)
    turn = await _find(ask, name)
    return await _ask_again(ask, turn, turn.question, model)


@command(
    "edit",
    "Edit an earlier question and ask it in a new branch",
    "[t5] [TEXT]",
    leads=True,
    interrupted=_INTERRUPTED,
)
async def edit(ask: Ask) -> Reply:
    """`/edit t5 TEXT`; without a text it asks for it, and without a turn it means the last one."""
    name, text = _split(ask.text)
    turn = await _find(ask, name)
    said, files = _split_files(turn.question.text)
    if not text:
        return Reply(
            _("New text for {id}. The answer comes in a new branch.", id=turn.id),
            {"turn": turn.id, "text": said},
            form=Form(f"/edit {turn.id}", said),
        )
    words = "\n".join([text, *files])
    return await _ask_again(ask, turn, replace(turn.question, text=words, speaker=ask.speaker))


def _split(text: str) -> tuple[str, str]:
    """Return the turn that a text begins with, or "", and what is behind it."""
    first, _, rest = text.strip().partition(" ")
    first, is_line, below = first.partition("\n")
    rest = f"{below} {rest}" if is_line else rest
    return (first, rest.strip()) if _TURN.fullmatch(first) else ("", text.strip())


async def _find(ask: Ask, name: str) -> Turn:
    """Return the turn of this name; the last one in context for ""."""
    if not name:
        return (await last_turns(ask, 1))[0]
    context = ask.conversation.context
    found = await context.turns(turns_of(name, context.newest))
    if not found:
        raise CommandError(_("Nothing is kept of {name}: it was deleted.", name=name))
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
    """Branch off before a turn, and put this question there."""
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
        text += _(" Anything {did} did there is not undone, and may be done again.", did=did)
    return text


@hookimpl
def parley_commands() -> list[Command]:
    return [regenerate, edit]
