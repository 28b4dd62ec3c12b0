"""`/private`: a conversation off the record, which is kept only in memory."""

from __future__ import annotations

from msgspec.structs import asdict

from channels.language import _, number_of
from plugins.api import Action, Ask, Command, CommandError, PrivateInfo, Reply, command, hookimpl

_WORDS = ("on", "off")


@command(
    "private",
    "Talk off the record: nothing is saved, and it ends with /private off",
    "[on|off]",
    subs=[("on", "begin a conversation off the record"), ("off", "end and delete these messages")],
    leads=True,
    interrupted="The bot was restarted; send /private to see whether this chat is off the record.",
)
async def private(ask: Ask) -> Reply:
    """Run `/private`, `/private on` or `/private off`. Further words are refused, since they would
    be on the record."""
    key, port = ask.conversation.key, ask.bot.private
    now, words = port.status(key), [word.lower() for word in ask.words]
    if words[1:] or not set(words) <= set(_WORDS):
        raise CommandError(
            _("/private takes on or off and nothing else; nothing was changed.")
            if now
            else _(
                "/private takes on or off and nothing else, so nothing was changed. What you wrote "
                "after it is on the record, as a command."
            )
        )
    if words == ["off"]:
        return _describe_end(await port.end(key)) if now else _on_record()
    if words == ["on"] and not (now and now.is_alive):
        await port.begin(key, ask.address)
        return _describe_beginning(ask)
    return _describe(now) if now else _on_record()


def _describe_beginning(ask: Ask) -> Reply:
    everybody = _(
        "This applies to everybody in this chat: all see it, and each may end it with /private off."
    )
    text = _(
        "**Off the record.** Messages from now on are not written to disk, and are deleted "
        "with /private off or when the bot stops. The model starts with an empty context: it "
        "does not see the earlier conversation, and will not see these messages later.\n\nThe "
        "model's provider, and your messenger if you use one, still see your messages and may "
        "keep them. The bot keeps only their times and cost. Tools, files, voice messages, "
        "notes and the commands for saved messages are off meanwhile."
    )
    is_alone = ask.address.is_private or not ask.address.user
    whole = text if is_alone else f"{text}\n\n{everybody}"
    return Reply(whole, {"private": True}, (_end(),))


def _describe_end(was: PrivateInfo | None) -> Reply:
    turns = number_of(was.turns if was else 0, "{n} turn", "{n} turns")
    return Reply(
        _(
            "On the record again. The private conversation ({turns}) is forgotten; messages are "
            "saved from now on, and continue the earlier conversation.",
            turns=turns,
        ),
        {"private": False},
    )


def _describe(now: PrivateInfo) -> Reply:
    if not now.is_alive:
        return Reply(
            _(
                "The private conversation here ended when the bot was restarted. /private on "
                "begins a new one, /private off continues the saved conversation."
            ),
            {"private": asdict(now)},
            (Action("Private again", "/private on"), Action("Go on", "/private off")),
        )
    return Reply(
        _(
            "This conversation is off the record: {turns} so far. /private off ends and forgets "
            "it.",
            turns=number_of(now.turns, "{n} turn", "{n} turns"),
        ),
        {"private": asdict(now)},
        (_end(),),
    )


def _on_record() -> Reply:
    return Reply(
        _("This conversation is on the record: it is saved. /private on begins one that is not."),
        {"private": False},
        (Action("Go off the record", "/private on"),),
    )


def _end() -> Action:
    return Action("End and delete these messages", "/private off")


@hookimpl
def parley_commands() -> list[Command]:
    return [private]
