"""`/memory`: the daily memory files, for the people who may read them, and corrections.

Corrections in the chat become edits of `MEMORY.md` that wait for approval.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime

from bot.app import Kernel
from bot.checks import Finding
from bot.settings import Settings
from channels.language import _, format_date, format_weekday, number_of
from memory.audience_memory import WaitingSection
from memory.corrections import score as correction_score
from memory.corrections.finder import may_correct
from memory.record.daily import Note
from memory.turn_log import OpenTurn
from plugins.api import Action, Ask, Command, Reply, Tool, UserWords, command, hookimpl, refusal
from plugins.memory import long_term
from plugins.memory.distiller import Distillations
from plugins.memory.search import as_data, memory_search, search
from plugins.memory.views import day_of, name_conversations
from plugins.wording import count, literal, localize_marks, localize_turns, sentence

KEPT = 100
"""The maximum number of turns whose note is still to be shown."""
DIFF = Action("Show the changes", "/memory diff")


class MemoryCorrections:
    """The listener that proposes to replace corrected values in remembered lines, with a note below
    the turn's answer."""

    def __init__(self, kernel: Kernel) -> None:
        self._conversations, self._config = kernel.conversations, kernel.config
        self._changed: dict[tuple[str, int], int] = {}

    async def handle(self, message: UserWords) -> None:
        """Propose the edits that follow from the corrections in a person's message."""
        if not any(map(may_correct, message.texts)):
            return
        conversation = await self._conversations.get(message.key)
        ended = await conversation.corrections.of_turn(message.turn)
        if not ended:
            return
        why = f"corrected in t{message.turn}"
        changed = await conversation.long_term.correct(ended, why)
        if changed and self._config.book.effective(message.key.id).memory.approve == "auto":
            await conversation.long_term.approve("")
        elif changed:
            while len(self._changed) >= KEPT:
                del self._changed[next(iter(self._changed))]
            self._changed[message.key.id, message.turn] = changed

    def list_notes(self, turn: OpenTurn) -> Sequence[str | Reply]:
        """Return the note below the answer."""
        changed = self._changed.pop((turn.log.state.key.id, turn.number), 0)
        if not changed:
            return ()
        text = number_of(
            changed,
            "{n} remembered line says the old value. The edit waits for you: /memory diff.",
            "{n} remembered lines say the old value. The edits wait for you: /memory diff.",
        )
        return (Reply(text, {"changed": changed}, (DIFF,)),)


SUBS = (
    ("2026-11-20", "the entries of a day; today and yesterday work too"),
    (
        "search",
        "find words in the daily memory and in everything that was said (search lisbon hotel)",
    ),
    ("status", "files, sizes, and summaries still to come"),
    ("pending", "summaries with content from outside, waiting for review"),
    ("approve", "accept one of these into the memory (approve 3)"),
    ("reject", "delete one of these (reject 3)"),
    ("nightly", "distill each night what is new (nightly on, off)"),
    *((name, about) for name, (_, about) in long_term.COMMANDS.items()),
)
LONGEST = 6_000
"""The maximum number of characters shown of a day, the newest ones."""


USAGE = (
    "[DAY|search WORDS|status|pending|approve N|reject N|list|distill|nightly|diff|edit|wrong|why]"
)


@command(
    "memory",
    "Show and change the memory",
    USAGE,
    SUBS,
    slow=("distill",),
    bare=("list", "status", "pending", "history"),
)
async def memory(ask: Ask) -> Reply:
    """Run `/memory …`; without a word, show today's file."""
    verb, rest = (*ask.text.strip().split(None, 1), "", "")[:2]
    if verb.lower() in long_term.COMMANDS:
        return await long_term.COMMANDS[verb.lower()][0](ask, rest)
    if verb.lower() == "search":
        return await search(ask, rest)
    if verb.lower() == "nightly":
        return await _nightly(ask, rest)
    if verb.lower() == "status":
        return await _status(ask)
    if verb.lower() == "pending":
        return await show_pending(ask)
    if verb.lower() in ("approve", "reject"):
        return await decide_proposal(ask, verb.lower(), rest.strip())
    today = datetime.now(ask.bot.zone()).date()
    return await _day(ask, day_of(ask.text.strip().lower() or "today", today), today)


async def _nightly(ask: Ask, rest: str) -> Reply:
    try:
        from plugins.memory.operations import nightly  # noqa: PLC0415 - needs the feature jobs
    except ModuleNotFoundError:
        raise refusal("This needs reminders and jobs, which are not installed.") from None
    return await nightly(ask, rest)


async def _day(ask: Ask, day: date, today: date) -> Reply:
    notes = await ask.conversation.memory.notes(day)
    days = await ask.conversation.memory.days()
    others = _neighbours(days, day)
    name = _("today") if day == today else _("on {day}", day=format_weekday(day))
    sections = [as_data(note) for note in notes]
    data = {"day": str(day), "sections": sections, "days": [*map(str, days)]}
    if notes:
        names = await name_conversations(ask, [note.conversation for note in notes])
        whole = "\n\n".join(_as_text(note, names) for note in notes)
        heading = _("Notes of {day}", day=format_weekday(day))
        listing = Action(_("Long-term memory"), "/memory list")
        text = f"**{heading}**\n\n{localize_marks(_newest(whole))}"
        return Reply(text, data, (*others, listing))
    before = [other for other in days if other < day]
    last = _(" The last day before it is /memory {before}.", before=before[-1]) if before else ""
    if not before and days:
        last = _(" The first day is /memory {days}.", days=days[0])
    return Reply(
        _(
            "Nothing was written to the memory {name}.{last} Turns removed from this chat's "
            "context are summarised there; /memory search finds everything else that was "
            "said.",
            name=name,
            last=last,
        ),
        data,
        others,
    )


def _neighbours(days: Sequence[date], day: date) -> tuple[Action, ...]:
    """Return buttons for the nearest days with a file, before and after."""
    before = [other for other in days if other < day][-1:]
    after = [other for other in days if other > day][:1]
    return tuple(Action(format_date(other), f"/memory {other}") for other in (*before, *after))


def _as_text(note: Note, names: Mapping[str, str]) -> str:
    if not note.at:
        return note.text
    heading = " · ".join(filter(None, (names.get(note.conversation), localize_turns(note.turns))))
    return f"**{note.at}** · {heading}\n\n{note.text}"


def _newest(text: str) -> str:
    """Return the end of a long text, starting at a new line."""
    if len(text) <= LONGEST:
        return text
    kept = text[-LONGEST:].partition("\n")[2] or text[-LONGEST:]
    return _(
        "(… {n:,} characters before this are in the file.)\n\n{kept}",
        n=len(text) - len(kept),
        kept=kept,
    )


async def _status(ask: Ask) -> Reply:
    status = await ask.conversation.memory.status()
    days = ask.bot.settings.describe("session_retention_days", "").value
    span = "".join(f", {day}" for day in status.days[:1])
    span += "".join(_(" to ") + str(day) for day in status.days[1:][-1:])
    keeping = (
        _(
            "Conversations without a message for {days} are deleted, after they are summarised "
            "here (session_retention_days).",
            days=count(days, "day"),
        )
        if days
        else _("Idle conversations are never deleted (session_retention_days is 0).")
    )
    waiting = len(await visible(ask))
    sections = count(waiting, "section")
    look = (
        _(" {sections} waiting for review (/memory pending).", sections=sections) if waiting else ""
    )
    text = _(
        "{files}{span}, {size:.1f} kB, in `{folder}`. {conversations} can be searched; "
        "{on_their_way}{look}\n\n{keeping}",
        files=count(len(status.days), "daily file"),
        span=span,
        size=status.size / 1000,
        folder=status.folder,
        conversations=count(status.conversations, "conversation"),
        on_their_way=_describe_pending(status.pending),
        look=look,
        keeping=keeping,
    )
    data = {
        "days": [str(day) for day in status.days],
        "bytes": status.size,
        "conversations": status.conversations,
        "pending": status.pending,
        "folder": str(status.folder),
    }
    return Reply(text, data)


def _describe_pending(pending: int) -> str:
    if pending == 1:
        return _("one summary is being written.")
    if not pending:
        return _("no summary is being written.")
    return _("{n} summaries are still being written.", n=pending)


NOTHING = (
    "Nothing is waiting. Summaries of turns with results from outside (pages, commands, files "
    "people sent) wait here until an owner has reviewed them."
)
SHOWN = 10
"""The maximum number of sections shown at once, the oldest ones."""


async def show_pending(ask: Ask) -> Reply:
    """Show the sections that wait for review, with buttons for each."""
    everything = await visible(ask)
    shown = everything[:SHOWN]
    data = {"pending": [_data(one) for one in everything]}
    if not everything:
        return Reply(_(NOTHING), data)
    parts = [_part(ask, one) for one in shown]
    if len(everything) > SHOWN:
        parts.append(
            number_of(
                len(everything) - SHOWN,
                "{n} more section after these.",
                "{n} more sections after these.",
            )
        )
    actions = tuple(action for one in shown for action in _actions(ask, one))
    return Reply("\n\n".join((*parts, _ends(ask))), data, actions)


async def visible(ask: Ask) -> list[WaitingSection]:
    """Return the waiting sections that may be shown here: those of this chat's audience, or for an
    owner in a private chat all of them."""
    sees_all = ask.person.is_owner and _is_alone(ask)
    audience = "" if sees_all else ask.conversation.key.audience
    return await ask.conversation.quarantine.list_waiting(audience)


def _is_alone(ask: Ask) -> bool:
    """Return whether only this person reads the chat: it is private, or has no users, like the
    terminal."""
    return ask.address.is_private or not ask.address.user


def _may_reject(ask: Ask) -> bool:
    return ask.person.is_owner or _is_alone(ask)


def _part(ask: Ask, one: WaitingSection) -> str:
    note, whose = one.note, ""
    if one.audience != ask.conversation.key.audience:
        whose = f" · {literal(note.conversation)}"
    return f"**{note.job}** · {format_date(note.day)}{whose} · {literal(note.turns)}\n\n{note.text}"


def _actions(ask: Ask, one: WaitingSection) -> tuple[Action, ...]:
    job = one.note.job
    approve = Action(_("Approve {job}", job=job), f"/memory approve {job}")
    reject = Action(_("Reject {job}", job=job), f"/memory reject {job}")
    return (*(approve,) * ask.person.is_owner, *(reject,) * _may_reject(ask))


def _ends(ask: Ask) -> str:
    if ask.person.is_owner:
        return _("`/memory approve N` lets one into the memory, `/memory reject N` deletes it.")
    text = _("An owner of this bot decides what is remembered")
    if _may_reject(ask):
        return _("{said}; `/memory reject N` deletes one.", said=text)
    return sentence(text)


def _data(one: WaitingSection) -> dict[str, object]:
    note = one.note
    return {
        "id": note.job,
        "day": str(note.day),
        "conversation": note.conversation,
        "turns": note.turns,
        "text": note.text,
    }


async def decide_proposal(ask: Ask, verb: str, number: str) -> Reply:
    """Run `/memory approve N`, for owners, or `/memory reject N`, also for the person whose memory
    it is."""
    if verb == "approve" or not _may_reject(ask):
        ask.require_owner("decide what is remembered of what came from outside")
    if not (number.isascii() and number.isdigit()):
        raise refusal("/memory {verb} needs a number from /memory pending.", verb=verb)
    found = [one for one in await visible(ask) if one.note.job == int(number)]
    if not found:
        raise refusal(
            "Nothing is waiting under the number {number}; see /memory pending.", number=number
        )
    quarantine = ask.conversation.quarantine
    await (quarantine.release if verb == "approve" else quarantine.reject)(found[0])
    text = _("It is in the memory now.") if verb == "approve" else _("Deleted.")
    return Reply(text, {"id": int(number), "is_approved": verb == "approve"})


class MemoryFeature:
    """The feature's services, created from the kernel's."""

    def __init__(self, kernel: Kernel) -> None:
        self._distilling, self._corrections = Distillations(kernel), MemoryCorrections(kernel)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._distilling,)

    @hookimpl
    def parley_said(self) -> Callable[[UserWords], Awaitable[None]]:
        return self._corrections.handle

    @hookimpl
    def parley_notes(self) -> Callable[[OpenTurn], Sequence[str | Reply]]:
        return self._corrections.list_notes


@hookimpl
def parley_open(kernel: Kernel) -> MemoryFeature:
    return MemoryFeature(kernel)


@hookimpl
def parley_tools() -> list[Tool]:
    return [memory_search]


@hookimpl
def parley_commands() -> list[Command]:
    return [memory, long_term.remember]


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Check that the file for detecting corrections exists."""
    del settings, may_connect
    if correction_score.is_there():
        return ()
    name = correction_score.WEIGHTS
    sentence = f"{name} is missing or damaged: values that people correct stay in summaries."
    return (Finding("Corrections", "broken", sentence, "Install the bot anew."),)
