"""`/memory list`, `distill`, `diff`, `edit`, `why`, `history`, `undo`, and `/remember`: the
long-term memory in `MEMORY.md`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from channels.language import _, format_datetime, format_stored_date, number_of
from channels.message import LONGEST_FORM, Problem
from memory.long_term.document import LONGEST, Lines, MemoryLine, apply, diff_lines, facts, render
from memory.long_term.memory import BY_HAND, MemoryState
from memory.patterns import lazy
from memory.record.memory_file import Version
from plugins.api import Action, Ask, Form, Reply, command, refusal
from plugins.memory.distiller import Distillations, DistillProgress, DistillResult, Order
from plugins.memory.operations import strip_invisible
from plugins.memory.views import count_changes, day_of, list_reasons, origins, to_block, to_data
from plugins.memory.wrong import wrong
from plugins.wording import aside, clip, count, labelled, literal, money, sentence, series

DIFF = Action("Show the changes", "/memory diff")
EDIT = Action("Edit", "/memory edit")
LIST = Action("Show all", "/memory list")
DISTILL = Action("Look for new facts", "/memory distill")
HISTORY = Action("History", "/memory history")

_BASE = lazy(r"v(\d{1,9})(?:\s+|$)")  # of a form: the version that was shown
_VERSION = lazy(r"v(\d{1,9})")
_SHOWN = 100  # maximum lines or versions shown at once
_NOTHING = (
    "The long-term memory is empty. `/remember TEXT` adds a line; `/memory distill` asks the model "
    "to propose lines from the conversations of the last days."
)


# --- show ----------------------------------------------------------------------------------


async def show_list(ask: Ask, rest: str) -> Reply:
    """Run `/memory list`: show the numbered lines, and how many of them are in the prompt."""
    del rest
    memory = ask.conversation.long_term
    state = await memory.read()
    lines = facts(state.lines)
    shown = ask.bot.remembered(ask.conversation.key)
    data = {
        "lines": [_line_data(n, line) for n, line in enumerate(lines, 1)],
        "in_prompt": shown.shown,
        "version": state.version.number if state.version else 0,
        "is_waiting": state.proposal is not None,
        "file": str(memory.path),
    }
    if not lines:
        return Reply("\n\n".join(filter(None, (_(_NOTHING), _waits(state)))), data, _offers(state))
    texts = [f"{n}. {_show_line(line)}" for n, line in enumerate(lines[:_SHOWN], 1)]
    rest_of = len(lines) - _SHOWN
    more = (
        number_of(rest_of, "{n} more line in the file.", "{n} more lines in the file.")
        if rest_of > 0
        else ""
    )
    where = _in_prompt(shown.shown, len(lines))
    parts = (_("**Long-term memory**"), "\n".join(texts), more, where, _waits(state))
    wrong_line = Action(_("Something is wrong"), "/memory wrong")
    return Reply("\n\n".join(filter(None, parts)), data, (*_offers(state), wrong_line))


def _in_prompt(shown: int, there: int) -> str:
    if shown == there:
        return _("All of it is sent with every message.")
    return _(
        "In the prompt: {shown} of {lines}; the model finds the others when it searches.",
        shown=shown,
        lines=count(there, "line"),
    )


def _offers(state: MemoryState) -> tuple[Action, ...]:
    waits = (DIFF,) if state.proposal else ()
    there = (EDIT, HISTORY) if state.version else ()
    return (*waits, DISTILL, *there)


def _waits(state: MemoryState) -> str:
    if state.proposal is None:
        return ""
    number = len(state.proposal.operations)
    return number_of(
        number,
        "{n} change waits for your approval: /memory diff.",
        "{n} changes wait for your approval: /memory diff.",
    )


def _line_data(number: int, line: MemoryLine) -> dict[str, Any]:
    return {"number": number, "text": line.text, "said": line.said}


def _show_line(line: MemoryLine) -> str:
    text = literal(line.text[: 2 * LONGEST])
    return labelled(format_stored_date(line.said), text) if line.said else text


# --- a person's own lines --------------------------------------------------------------------


@command("remember", "Add something to the long-term memory", "TEXT")
async def remember(ask: Ask) -> Reply:
    """Run `/remember TEXT`."""
    text = strip_invisible(" ".join(ask.text.split()))
    if not text:
        raise refusal("/remember needs a text, like /remember Ann is allergic to nuts.")
    if len(text) > LONGEST:
        raise refusal(
            "That is too long to remember in a line: {n:,} characters, and {longest} are the "
            "most. Put it shorter, or into a file.",
            n=len(text),
            longest=LONGEST,
        )
    before = (await ask.conversation.long_term.read()).version
    line = await ask.conversation.long_term.remember(text, ask.person.id)
    sentence = _("Remembered: {words}", words=literal(text))
    after = (await ask.conversation.long_term.read()).version
    is_new = before is None or after is None or before.number != after.number
    return Reply(sentence, _line_data(0, line), (LIST, *(_undo_of(after) if is_new else ())))


async def edit(ask: Ask, rest: str) -> Reply:
    """Run `/memory edit`: send the whole file as a form; `/memory edit TEXT` replaces it."""
    memory = ask.conversation.long_term
    state = await memory.read()
    if not rest.strip():
        text = render(state.proposed)
        base = state.version.number if state.version else 0
        if len(text) > LONGEST_FORM:
            raise refusal(
                "It is too long for a message; edit the file itself: {path}", path=memory.path
            )
        settles = _(", with the proposals in it; sending it decides them") if state.proposal else ""
        sentence = _(
            "This is the whole file{settles}. What you send back is in force at once.",
            settles=settles,
        )
        return Reply(sentence, {"text": text}, form=Form(f"/memory edit v{base}", text))
    before = state.lines
    base_of = _BASE.match(rest)
    written = rest[base_of.end() :] if base_of else rest
    number = int(base_of[1]) if base_of else None
    version = await memory.edit(written.strip("\n"), ask.person.id, number)
    changes = diff_lines(before, version.lines)
    return Reply(
        _("Accepted. {changes}", changes=count_changes(changes)),
        {"diff": to_data(changes)},
        (LIST, *_undo_of(version)),
    )


# --- a model's proposals ---------------------------------------------------------------------


_BUDGET = lazy(r"--budget\s+(\d{1,3}(?:\.\d+)?)(?:\s+|$)")


def _read_budget(text: str) -> tuple[float, str]:
    """Return the budget of a distillation in US dollars (0: no limit), and the rest of the text."""
    found = _BUDGET.match(text.strip())
    return (float(found[1]), text.strip()[found.end() :]) if found else (0.0, text.strip())


async def distill(ask: Ask, rest: str) -> Reply:
    """Run `/memory distill` for everything new, or `/memory distill DAY` for a day again; `--budget
    0.25` limits the cost."""
    today = datetime.now(ask.bot.zone()).date()
    budget, rest = _read_budget(rest)
    days = (day_of(rest.lower(), today),) if rest else ()
    key = ask.conversation.key
    is_auto = ask.bot.settings.describe("memory.approve", key.id).value == "auto"

    def show_progress(progress: DistillProgress) -> None:
        if progress.done < progress.total:
            sentence = _(
                "{done} of {sections} distilled.",
                done=progress.done,
                sections=count(progress.total, "section"),
            )
            ask.bot.notify(key, sentence)

    before = await ask.conversation.long_term.read()
    order = Order(days, budget=budget, is_auto=is_auto, person=ask.person.limited)
    done = await ask.service(Distillations).start(ask.conversation, order).run(show_progress)
    after = await ask.conversation.long_term.read()
    old, new = (before.lines, after.lines) if is_auto else (after.lines, after.proposed)
    changes = diff_lines(old, new)
    data = {**_to_data(done), "diff": to_data(changes), "is_auto": is_auto}
    sentence = _summary(done, has_changes=bool(changes))
    text = "\n\n".join(filter(None, (sentence, to_block(changes), _describe_left_out(done))))
    if not changes:
        problem: Problem = "unavailable" if done.fault and not done.done else ""
        return Reply(text, data, (LIST,), problem=problem)
    if is_auto:
        return Reply(
            _("{read}\n\nThis is in force.", read=text),
            data,
            (LIST, EDIT, *_undo_of(after.version)),
        )
    waits = _("It takes effect once somebody here approves it.")
    return Reply(f"{text}\n\n{waits}", data, _decisions(after.proposal))


def _decisions(proposal: Version | None) -> tuple[Action, ...]:
    seen = f" {proposal.digest}" if proposal else ""  # a button may be pressed days later
    return (
        Action(_("Approve"), f"/memory diff approve{seen}"),
        EDIT,
        Action(_("Reject"), f"/memory diff reject{seen}"),
    )


def _summary(done: DistillResult, *, has_changes: bool) -> str:
    if done.total == 0:
        return done.fault or _("There is nothing new in the daily files to distill.")
    price = None if done.cost is None else money(done.cost)
    read = _(
        "{done} of {sections} of the daily files distilled",
        done=done.done,
        sections=count(done.total, "section"),
    )
    text = sentence(read + aside(series((count(done.calls, "request"), price or ""))))
    if done.fault:
        return _("{read} It ended there: {fault}", read=text, fault=done.fault)
    if not done.operations:
        return _("{read} Nothing in them was worth keeping for good.", read=text)
    return text if has_changes else _("{read} What they say is remembered already.", read=text)


def _describe_left_out(done: DistillResult) -> str:
    if not done.away:
        return ""
    return number_of(
        done.away,
        "{n} section left out, because turns in them were removed.",
        "{n} sections left out, because turns in them were removed.",
    )


def _to_data(done: DistillResult) -> dict[str, Any]:
    return {
        "sections": done.done,
        "of": done.total,
        "left_out": done.away,
        "calls": done.calls,
        "cost": done.cost,
        "fault": done.fault,
    }


async def diff(ask: Ask, rest: str) -> Reply:
    """Run `/memory diff`: show the proposal, or the newest change. `approve` and `reject` decide
    it; `v3` shows the changes of a version."""
    word, which = (*rest.lower().split(), "", "")[:2]
    if word == "approve":
        return await _approve(ask, which)
    if word in ("reject", "no"):
        return await _reject(ask, which)
    state = await ask.conversation.long_term.read()
    if word:
        return await _diff_of(ask, word)
    if state.proposal is None:
        if state.version is None:
            return Reply(_(_NOTHING), {"diff": []}, (DISTILL,))
        return await _diff_of(ask, str(state.version.number), (EDIT, *_undo_of(state.version)))
    changes = diff_lines(state.lines, state.proposed)
    reasons = list_reasons(state.proposal.operations)
    head = _(
        "**Proposed by the {actor}**; not in force yet.",
        actor=literal(state.proposal.actor),
    )
    text = "\n\n".join((head, to_block(changes), reasons))
    data = {"diff": to_data(changes), "is_waiting": True}
    return Reply(text, data, _decisions(state.proposal))


async def _diff_of(ask: Ask, word: str, actions: tuple[Action, ...] = (LIST, HISTORY)) -> Reply:
    digits = word.removeprefix("v")
    number = int(digits[:9]) if digits.isascii() and digits.isdigit() else 0
    found = await ask.conversation.long_term.version(number)
    if found is None:
        raise refusal(
            "There is no version {word!r}; /memory history lists those that are kept.",
            word=word[:20],
        )
    version, before = found
    new = version.lines
    if version.state in ("proposed", "refused"):
        new = apply(before, version.operations)
    changes = diff_lines(before, new)
    head = f"**v{version.number}**, {_by(version)}: {count_changes(changes)}"
    text = "\n\n".join(filter(None, (head, to_block(changes), list_reasons(version.operations))))
    data = {"version": version.number, "diff": to_data(changes), "is_waiting": False}
    return Reply(text, data, actions)


async def _approve(ask: Ask, seen: str) -> Reply:
    memory = ask.conversation.long_term
    state = await memory.read()
    before = state.lines
    version = await memory.approve(ask.person.id, seen)
    if version is None and state.proposal is not None:
        raise refusal("That has changed since you saw it; look at /memory diff again.")
    if version is None:
        raise refusal("Nothing is waiting for your approval; /memory distill looks for something.")
    changes = diff_lines(before, version.lines)
    return Reply(
        _("It is in force now. {changes}", changes=count_changes(changes)),
        {"diff": to_data(changes)},
        (LIST, *_undo_of(version)),
    )


async def _reject(ask: Ask, seen: str) -> Reply:
    memory = ask.conversation.long_term
    is_refused = await memory.refuse(seen) is not None
    if not is_refused and (await memory.read()).proposal is not None:
        raise refusal("That has changed since you saw it; look at /memory diff again.")
    if not is_refused:
        raise refusal("Nothing is waiting; /memory undo takes back what is in force.")
    return Reply(_("Rejected; nothing of it is remembered."), {"is_waiting": False}, (LIST,))


# --- versions --------------------------------------------------------------------------------


async def history(ask: Ask, rest: str) -> Reply:
    """Run `/memory history`: list all stored versions."""
    del rest
    versions = await ask.conversation.long_term.versions(_SHOWN)
    data = {"versions": [_version_data(one) for one in versions]}
    if not versions:
        return Reply(_(_NOTHING), data, (DISTILL,))
    current = next((one.number for one in versions if one.state == "held"), 0)
    lines = [_version_line(ask, one, current) for one in versions]
    text = _("**Versions of MEMORY.md**, the newest first\n\n") + "\n".join(lines)
    return Reply(
        _(
            "{versions}\n\n`/memory diff v{number}` shows one.",
            versions=text,
            number=versions[0].number,
        ),
        data,
        (LIST, *_undo_of(next((one for one in versions if one.number == current), None))),
    )


def _version_line(ask: Ask, version: Version, current: int) -> str:
    at = format_datetime(version.at, ask.bot.zone())
    states = {"proposed": _("waits"), "undone": _("undone"), "refused": _("refused")}
    state = _("in force") if version.number == current else states.get(version.state, "")
    size = count(len(facts(version.lines)), "line") if version.lines else ""
    if version.state in ("proposed", "refused"):
        size = count(len(version.operations), "change")
    about = series((_by(version), size or _("no line"), state))
    return f"- **v{version.number}** {at}: {about}"


def _by(version: Version) -> str:
    who = _("by hand") if version.actor == BY_HAND else literal(version.actor)
    return literal(version.why) + aside(who)


def _version_data(version: Version) -> dict[str, Any]:
    return {
        "version": version.number,
        "state": version.state,
        "actor": version.actor,
        "why": version.why,
        "at": version.at,
        "lines": [line.text for line in facts(version.lines)],
    }


def _refuse_more(name: str, rest: str) -> None:
    """Raise CommandError if there are more words than the command takes."""
    if rest.strip():
        raise refusal(
            "/memory {name} does not take “{rest}”, so nothing was changed. Send it by itself; "
            "/memory history lists the versions.",
            name=name,
            rest=literal(clip(rest)),
        )


def _undo_of(version: Version | None) -> tuple[Action, ...]:
    """Return a button that undoes only this version, even if it is pressed repeatedly."""
    return (Action("Undo", f"/memory undo v{version.number}"),) if version else ()


async def undo(ask: Ask, rest: str) -> Reply:
    """Run `/memory undo`: restore the version before the newest; with `v3`, as buttons send it,
    only if v3 is the newest."""
    named = _VERSION.fullmatch(rest.strip().lower())
    if named is None:
        _refuse_more("undo", rest)
    done = await ask.conversation.long_term.undo(int(named[1]) if named else 0)
    if done is None and named:
        raise refusal(
            "v{number} is not the newest version in force, so nothing was changed; "
            "/memory history lists the versions.",
            number=int(named[1]),
        )
    if done is None:
        raise refusal("There is nothing to undo; /memory history lists the versions.")
    ask.conversation.compactor.summaries.forget_prepared()
    undone, now = done
    changes = diff_lines(undone.lines, now.lines if now else ())
    text = _(
        "v{number} is undone. {changes}",
        number=undone.number,
        changes=count_changes(changes),
    )
    again = Action("Bring back", f"/memory redo v{undone.number}")
    return Reply(text, {"version": now.number if now else 0}, (again, LIST))


async def redo(ask: Ask, rest: str) -> Reply:
    """Run `/memory redo`: restore the version that was undone last; with `v3`, as buttons send it,
    only if that is v3."""
    named = _VERSION.fullmatch(rest.strip().lower())
    if named is None:
        _refuse_more("redo", rest)
    version = await ask.conversation.long_term.redo(int(named[1]) if named else 0)
    if version is None and named:
        raise refusal(
            "v{number} is not the version that was undone last, so nothing was changed; "
            "/memory history lists the versions.",
            number=int(named[1]),
        )
    if version is None:
        raise refusal(
            "There is nothing to redo: nothing was undone, or something else was changed since."
        )
    ask.conversation.compactor.summaries.forget_prepared()
    return Reply(
        _("v{number} is in force again.", number=version.number),
        {"version": version.number},
        (LIST, *_undo_of(version)),
    )


# --- the source of a line --------------------------------------------------------------------


async def why(ask: Ask, rest: str) -> Reply:
    """Run `/memory why 3`, or with words of the line."""
    lines = (await ask.conversation.long_term.read()).lines
    number, line = _line_of(rest.strip(), lines)
    found = [await origins(ask, source, line) for source in line.sources]
    text = "\n\n".join(origin.text for origin in found)
    nobody = _("Its source is not known.")
    wrong_line = Action(_("Correct a fact"), f"/memory wrong line {number}")
    data = {**_line_data(number, line), "sources": [origin.data for origin in found]}
    return Reply(f"**{number}.** {_show_line(line)}\n\n{text or nobody}", data, (wrong_line, LIST))


def _line_of(words: str, lines: Lines) -> tuple[int, MemoryLine]:
    there = facts(lines)
    if not words:
        raise refusal("/memory why needs a line: its number in /memory list, or words of it.")
    if words.isascii() and words.isdigit():
        if not 1 <= int(words[:9]) <= len(there):
            raise refusal(
                "There is no line {words}; /memory list shows all of them.", words=words[:9]
            )
        return int(words), there[int(words) - 1]
    wanted = MemoryLine(words).words
    best = max(enumerate(there, 1), key=lambda one: len(one[1].words & wanted), default=None)
    if best is None or not best[1].words & wanted:
        raise refusal(
            "No line contains {words!r}; /memory list shows all of them.", words=words[:60]
        )
    return best


Show = Callable[[Ask, str], Awaitable[Reply]]

COMMANDS: Mapping[str, tuple[Show, str]] = {
    "list": (show_list, "the long-term memory, with line numbers"),
    "distill": (
        distill,
        "look through the daily files for what is worth keeping (distill yesterday)",
    ),
    "diff": (
        diff,
        "the changes it would make, or those of a version (diff v3; diff approve; diff reject)",
    ),
    "edit": (edit, "change the whole of it"),
    "wrong": (
        wrong,
        "correct it in all lines and summaries (wrong 3 Ann is 12; wrong 3 May -> 4 May)",
    ),
    "why": (why, "the source of a line (why 3, or why porto)"),
    "history": (history, "all versions that are kept"),
    "undo": (undo, "undo the newest version"),
    "redo": (redo, "redo what was undone"),
}
