"""Commands about the conversation and the bot: `/new`, `/title`, `/pin`, `/archive`, `/stop`,
`/cancel`, `/undo`, `/retry`, `/status`, `/whoami`, `/version` and `/start`."""

from __future__ import annotations

import re
import time
from datetime import datetime, tzinfo

from msgspec import to_builtins
from msgspec.structs import asdict, replace

from channels.language import _, explain, number_of
from memory.context.change import ViewEvent
from memory.record.conversations import Standing
from memory.turns import Turn
from plugins.api import (
    Action,
    Ask,
    Command,
    CommandError,
    ModelInCooldown,
    Reply,
    command,
    hookimpl,
    refusal,
)
from plugins.builtin.context.receipts import add_in_force
from plugins.builtin.context.show import undo_of
from plugins.builtin.context.values import refuse_removed
from plugins.guarding import with_offers
from plugins.health import describe_channels, describe_failures, describe_processes, describe_recent
from plugins.turn_names import numbers_in_context
from plugins.wording import clip, count, duration, literal, quoted

LONGEST_TITLE = 80  # maximum characters
UNSET = "--unset"
_TURN = re.compile(r"t\d+", re.ASCII)


@command("new", "Start over: clear the context; nothing is deleted")
async def new(ask: Ask) -> Reply:
    """Stop the running turn, then remove all turns from the context."""
    if ask.words:
        raise refusal(
            "/new does not take “{words}”, so nothing was changed. Send /new by itself, and "
            "then your message.",
            words=literal(clip(ask.text)),
        )
    stopped = ask.bot.turns.stop(ask.conversation.key)
    await ask.conversation.context.idle.wait()
    cleared = await ask.conversation.editor.clear("new")
    first = _("I stopped the running answer.") + " " if stopped else ""
    data = {"turns": [f"t{n}" for n in cleared.turns]}
    if cleared.event is None:
        fresh = _("The context is empty already: no turn is in it.")
        return Reply(f"{first}{fresh}", data)
    removed = _("the summary of older turns")
    if cleared.turns:
        removed = number_of(len(cleared.turns), "{n} turn", "{n} turns")
    text = _(
        "New start: {gone} removed from the context. Everything is kept on disk; "
        "/context undo restores it.",
        gone=removed,
    )
    reply = Reply(f"{first}{text}", data, (undo_of(cleared.event),))
    return add_in_force(reply, ask.conversation.key, ask.bot.in_force)


@command(
    "title", "Show or set this conversation's title, for lists of conversations", "[WORDS|--unset]"
)
async def title(ask: Ask) -> Reply:
    """Run `/title`, `/title WORDS` or `/title --unset`. Without a title, lists show the first
    question."""
    words = clip(ask.text, LONGEST_TITLE)
    if words:
        await ask.conversation.rename("" if words == UNSET else words)
    called = await ask.conversation.title()
    if not called:
        text = _("No title yet: lists show the first question. /title WORDS sets a title.")
    elif words:
        text = _("This conversation is now called “{called}”.", called=literal(called))
    else:
        text = _(
            "This conversation is called “{called}”. /title WORDS changes that, /title "
            "{unset} removes the title.",
            called=literal(called),
            unset=UNSET,
        )
    return Reply(text, {"title": called})


STANDINGS: dict[str, tuple[Standing, str]] = {
    "pin": ("pinned", "is pinned to the top of lists now"),
    "archive": ("archived", "is archived now"),
}


@command("pin", "Pin this conversation to the top of lists", f"[{UNSET}]")
async def pin(ask: Ask) -> Reply:
    """Run `/pin` or `/pin --unset`. Turns are pinned by `/context pin`."""
    return await _place(ask, "pin")


@command("archive", "Archive this conversation", f"[{UNSET}]")
async def archive(ask: Ask) -> Reply:
    """Run `/archive` or `/archive --unset`. Nothing else about the conversation changes."""
    return await _place(ask, "archive")


async def _place(ask: Ask, name: str) -> Reply:
    """Set the chat's position in lists. A chat can't be both pinned and archived."""
    standing, effect = STANDINGS[name]
    if ask.words not in ([], [UNSET]):
        hint = _(" To pin turns, use /context pin.") if name == "pin" else ""
        raise refusal("/{name} takes nothing but {unset}.{hint}", name=name, unset=UNSET, hint=hint)
    now = await ask.conversation.standing()
    if ask.words and now != standing:
        return Reply(
            _("This conversation is not {standing}.", standing=_(standing)), {"standing": now}
        )
    await ask.conversation.place("" if ask.words else standing)
    if ask.words:
        return Reply(_("This conversation is in the normal list again."), {"standing": ""})
    undo = Action(_("Undo"), f"/{name} {UNSET}")
    return Reply(
        _("This conversation {effect}.", effect=_(effect)), {"standing": standing}, (undo,)
    )


@command("stop", "Stop the answer being written; what was done so far is kept")
async def stop(ask: Ask) -> Reply:
    """Stop the running turn of this conversation."""
    key = ask.conversation.key
    own = (ask.bot.private.stop, ask.bot.turns.stop)
    stopped = [stop(key) for stop in (*ask.bot.stops, *own)]
    if any(stopped):
        is_private = ask.bot.private.status(key) is not None
        text = _("Stopping.") if is_private else _("Stopping; what was done so far is kept.")
        return Reply(text, {"stopped": True})
    for branch in await ask.bot.branches.all(key):  # for a person, all branches are one chat
        if branch.is_running and ask.bot.turns.stop(key.branch(branch.number)):
            return Reply(
                _(
                    "Stopping the answer in branch {number}; what was done so far is kept.",
                    number=branch.number,
                ),
                {"stopped": True},
            )
    return Reply(_("Nothing is running here."), {"stopped": False})


@command("cancel", "Cancel the open form", bare=("",))
async def cancel(ask: Ask) -> Reply:
    """Cancel the open form. Any other command cancels it as well, without a message."""
    command = await ask.bot.forms.cancel(ask.address)
    if not command:
        return Reply(_("I am not waiting for any text from you here."), {"cancelled": ""})
    return Reply(
        _("Cancelled; `{command}` changed nothing.", command=command), {"cancelled": command}
    )


@command("status", "Show how the bot is doing", bare=("",))
async def status(ask: Ask) -> Reply:
    """Show the uptime, running work, slow parts, channels, plugins and their problems. Owners also
    see recent failures, and the processes if there are several."""
    now = ask.bot.status.of(ask.conversation.key)
    recent, channels = ask.bot.recent.status(), await ask.bot.channels.status()
    if not ask.person.is_owner:  # failures name chats and people, the folder the bot's account
        recent, now = replace(recent, failures=()), replace(now, data="")
    model = ask.bot.models.about(ask.conversation.key)
    fallback_in_use = (
        _(" {name} answers instead now.", name=literal(model.fallback_in_use))
        if model.fallback_in_use
        else ""
    )
    lines = [
        _(
            "Up for {uptime}; {turns} running, {messages} waiting.",
            uptime=duration(now.uptime),
            turns=count(now.running, "turn"),
            messages=count(now.waiting, "message"),
        ),
        *describe_recent(recent),
        _("Model: {name} ({where}).", name=model.name, where=explain(model.where))
        + fallback_in_use,
        _(
            "Channels: {channels}. Plugins: {n}.",
            channels=", ".join(now.channels),
            n=len(now.plugins),
        ),
        *describe_channels(channels, ask.bot.zone()),
        *([_("Data folder: `{data}`.", data=now.data)] if now.data else ()),
        *(_describe_rest(one, ask.bot.zone()) for one in model.resting),
        *now.problems,
    ]
    if failed := describe_failures(recent.failures, ask.bot.zone()):
        lines.append(failed)
    resting = [asdict(one) for one in model.resting]
    health = [{"name": name, **asdict(one)} for name, one in channels.items()]
    data = asdict(now) | {"resting": resting, "recent": to_builtins(recent), "health": health}
    if ask.person.is_owner and (cluster := await ask.bot.processes.status()) is not None:
        lines.append(describe_processes(cluster, time.time()))
        data["cluster"] = to_builtins(cluster)
    return Reply("\n\n".join(lines), data)


def _describe_rest(model: ModelInCooldown, zone: tzinfo) -> str:
    return _(
        "{name} is not asked until {time}, since it failed: {why}",
        name=literal(model.name),
        time=f"{datetime.fromtimestamp(model.until, zone):%H:%M:%S}",
        why=explain(model.why),
    )


@command("whoami", "Show who the bot thinks you are", bare=("",))
async def whoami(ask: Ask) -> Reply:
    """Show the person's name as in `owners`, the role, and the conversation."""
    person, key = ask.person, ask.conversation.key
    who = {"name": person.id, "chat": key.id}
    text = (
        _(
            "You are an owner of this bot. Settings name you `{name}` and this conversation "
            "`{chat}`.",
            **who,
        )
        if person.is_owner
        else _(
            "You are a user of this bot. Settings name you `{name}` and this conversation "
            "`{chat}`.",
            **who,
        )
    )
    return Reply(
        text,
        {"id": person.id, "role": person.role, "conversation": key.id, "audience": key.audience},
    )


@command("undo", "Drop the last turns from the context", "[N]")
async def undo(ask: Ask) -> Reply:
    """Run `/undo [N]`. A running turn is stopped and counts as the last one."""
    taken = await last_turns(ask, _number(ask.text))
    first, event = await _remove_turns(ask, taken, "taken back with /undo")
    questions = "\n".join(f"- {turn.id}: {_words(turn)}" for turn in taken)
    text = (
        _(
            "Undone:\n\n{questions}\n\nThey were removed from the context and are kept on "
            "disk; /context undo restores them.",
            questions=questions,
        )
        if taken[1:]
        else _(
            "Undone:\n\n{questions}\n\nIt was removed from the context and is kept on disk; "
            "/context undo restores it.",
            questions=questions,
        )
    )
    back = Action("Bring back", undo_of(event).command)
    reply = Reply(f"{first}{text}", {"turns": [turn.id for turn in taken]}, (back,))
    return await _offer(reply, ask, taken)


@command("retry", "Retry: undo the last turn and ask its question again", "[t5]")
async def retry(ask: Ask) -> Reply:
    """Run `/retry`: the answer is a new turn. `/retry t5`, as buttons send it, is refused if t5 is
    no longer the last turn, since somebody was faster."""
    wanted = " ".join(ask.words).lower()
    if wanted and not _TURN.fullmatch(wanted):
        raise refusal("/retry takes no text: it asks your last question again.")
    ask.bot.turns.check(ask.conversation.key, ask.address)
    (turn,) = taken = await last_turns(ask, 1)
    if wanted not in ("", turn.id):
        raise refusal(
            "{wanted} is no longer the last turn, so nothing was asked again; /retry asks the "
            "last question again.",
            wanted=wanted,
        )
    first, _event = await _remove_turns(ask, taken, "asked again with /retry")
    message = await ask.bot.turns.ask(ask.conversation.key, ask.address, turn.question)
    reply = Reply(
        _(
            "{first}{id} is taken back and asked again: {words}",
            first=first,
            id=turn.id,
            words=_words(turn),
        ),
        {"turn": turn.id, "asked": message},
    )
    return await _offer(reply, ask, taken)


async def _offer(reply: Reply, ask: Ask, taken: tuple[Turn, ...]) -> Reply:
    """Add the offers for a conversation that ends before these turns."""
    first = taken[0].number
    left = [n for n in numbers_in_context(ask.conversation) if n < first]
    return await with_offers(reply, ask, ask.conversation.key, max(left, default=first - 1))


def _number(text: str) -> int:
    """Return the N of `/undo N`; 1 by default. Raises CommandError."""
    word = text.strip() or "1"
    if word.isascii() and word.isdigit() and len(word) < 10 and int(word) > 0:
        return int(word)
    raise refusal(
        "/undo takes a number of turns, like /undo 2; to remove other turns, use /context drop t3."
    )


async def last_turns(ask: Ask, most: int) -> tuple[Turn, ...]:
    """Return the last turns in context, including the running one and those that a range summary
    replaces. Raises CommandError."""
    context = ask.conversation.context
    turns = context.view().whole
    summed = {turn for one in context.view().layout.ranges for turn in one.turns}
    if summed:
        numbers = sorted(summed.union(turn.number for turn in turns))
        turns = await context.turns(numbers[-most:]) if len(numbers) >= most else turns
    if not turns:
        raise refusal("No turn is in context, so nothing was done.")
    if most > len(turns):
        raise CommandError(
            number_of(
                len(turns),
                "Only one turn is in context; nothing was undone.",
                "Only {n} turns are in context; nothing was undone.",
            )
        )
    return turns[-most:]


async def _remove_turns(ask: Ask, turns: tuple[Turn, ...], why: str) -> tuple[str, ViewEvent]:
    """Stop the running turn, and remove the turns from the context. Return a sentence about the
    stop, and the change. Raises CommandError for a concurrent repetition: the first request already
    removed them."""
    conversation = ask.conversation
    is_stopped = ask.bot.turns.stop(conversation.key)
    await conversation.context.idle.wait()
    numbers = tuple(turn.number for turn in turns)
    if (event := await conversation.editor.drop(numbers, why)) is None:
        raise CommandError(refuse_removed(numbers))
    return _("I stopped the running answer.") + " " if is_stopped else "", event


def _words(turn: Turn) -> str:
    return quoted(literal(clip(turn.question.text)))


@command("start", "Say hello, and what to do next")
async def start(ask: Ask) -> Reply:
    """Return a greeting for a new person."""
    model = ask.bot.models.about(ask.conversation.key)
    return Reply(
        _(
            "Hello! I am Parley; {model} answers here. Just write to me. /context shows what the "
            "model sees of our conversation, /config tunes that, and /help lists everything else.",
            model=model.name,
        )
    )


@command("version", "Show the version of the bot", bare=("",))
async def version(ask: Ask) -> Reply:
    """Return the version, as in the changelog."""
    return Reply(f"Parley {ask.bot.version}", {"version": ask.bot.version})


@hookimpl
def parley_commands() -> list[Command]:
    return [
        new,
        title,
        pin,
        archive,
        stop,
        cancel,
        status,
        whoami,
        undo,
        retry,
        start,
        version,
    ]
