"""`/remind` and `/jobs`: what is to be told or run at a time, or when it is called; and the model's
tool `remind`, which makes the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from channels.language import _
from plugins.api import (
    Action,
    Address,
    Ask,
    CommandError,
    Reply,
    command,
)
from plugins.jobs.making import add, add_hook, move
from plugins.jobs.orders import JobOrders
from plugins.jobs.views import describe_bounds, describe_call, name_of_job, to_data, to_line
from plugins.jobs.wording import JobView, describe_when
from plugins.wording import clip, literal

SHOWN = 20
"""Jobs that are listed."""

_SUBS = (
    ("add", "a prompt that runs by itself: /jobs add every day 8:00 Sum up my mail"),
    ("hook", "a prompt that runs when a program calls it: /jobs hook github Say what is new"),
    ("at", "another time for a reminder: /jobs at 3 tomorrow 10:00"),
    ("run", "run it now, besides its times"),
    ("pause", "pause it"),
    ("resume", "resume it"),
    ("delete", "delete it"),
)


@command(
    "jobs",
    "Reminders and jobs: which there are, what came of them, and new ones",
    "[add WHEN PROMPT|hook NAME PROMPT|at N WHEN|run N|pause N|resume N|delete N]",
    _SUBS,
)
async def jobs_command(ask: Ask) -> Reply:
    """`/jobs`, `/jobs 3`, `/jobs add every weekday 8:00 PROMPT`, `/jobs pause 3`."""
    word, _space, rest = ask.text.strip().partition(" ")
    if not word:
        return await _list(ask)
    if word.isdecimal():
        return await _show(ask, _number(word))
    if word.lower() == "add":
        return await add(ask, rest.strip())
    if word.lower() == "hook":
        return await add_hook(ask, rest.strip())
    if word.lower() == "at":
        return await move(ask, rest.strip())
    change = CHANGES.get(word.lower())
    if change is None:
        names = ", ".join(name for name, _summary in _SUBS)
        raise CommandError(
            _(
                "/jobs does not know “{word}”; it takes {names}.",
                word=literal(clip(word)),
                names=names,
            )
        )
    view = await change.act(ask)(ask.address, _number(rest))
    if change.next and view.job.next_at:
        text = _(change.next, name=name_of_job(view), when=describe_when(view))
    else:
        text = _(change.done, name=name_of_job(view))
    return Reply(text, to_data(view))


Act = Callable[[Address, int], Awaitable[JobView]]


class _Change(Struct, frozen=True):
    """The action of a subcommand, its button, and the sentence for when it is done; `next` also
    says when the job happens next."""

    act: Callable[[Ask], Act]
    label: str
    done: str
    next: str = ""


CHANGES = {
    "run": _Change(lambda ask: ask.service(JobOrders).run, "Run", "{name} runs now."),
    "pause": _Change(lambda ask: ask.service(JobOrders).pause, "Pause", "{name} is paused."),
    "resume": _Change(
        lambda ask: ask.service(JobOrders).resume,
        "Resume",
        "{name} goes on.",
        "{name} goes on: {when}.",
    ),
    "delete": _Change(lambda ask: ask.service(JobOrders).delete, "Delete", "{name} is deleted."),
}


def _number(text: str) -> int:
    number = text.strip().removeprefix("#")
    if not number.isdecimal() or len(number) > 15:
        raise CommandError(_("Say which: a number that /jobs lists, as in /jobs pause 3."))
    return int(number)


async def _list(ask: Ask) -> Reply:
    every = await ask.service(JobOrders).all(ask.address)
    data = {"jobs": [to_data(view) for view in every]}
    if not every:
        return Reply(
            _(
                "Nothing is set here. /remind tomorrow 9:00 TEXT reminds you, /jobs add every day "
                "8:00 PROMPT has me do something."
            ),
            data,
        )
    shown = [view for view in every if view.job.state != "done"] + [
        view for view in every if view.job.state == "done"
    ]
    lines = [to_line(view) for view in shown[:SHOWN]]
    if len(shown) > SHOWN:
        lines.append(_("and {n} more", n=len(shown) - SHOWN))
    return Reply("\n".join(lines), data)


async def _show(ask: Ask, number: int) -> Reply:
    found = [
        view for view in await ask.service(JobOrders).all(ask.address) if view.job.id == number
    ]
    if not found:
        raise CommandError(
            _("There is no job {number} in this chat; /jobs lists them.", number=number)
        )
    (view,) = found
    parts = [to_line(view), *describe_bounds(view), literal(view.job.text)]
    if view.job.hook:
        parts.extend(describe_call(ask, view))
    goes = {"active": "pause", "paused": "resume"}.get(view.job.state, "")
    controls = filter(None, (goes, "" if view.job.hook else "run", "delete"))
    actions = tuple(Action(CHANGES[word].label, f"/jobs {word} {number}") for word in controls)
    return Reply("\n\n".join(parts), to_data(view), actions)
