"""`/btw`: a question by the way, asked with the whole context and no part of it."""

from __future__ import annotations

from datetime import UTC, datetime

from channels.dates import say_moment
from channels.language import _, explain
from plugins.api import EVERYTHING, Ask, Reply, command
from plugins.side_questions.asking import SideQuestions
from plugins.side_questions.record import SideQuestion
from plugins.wording import clip, literal

NEWEST = 10
"""Side questions that are shown."""
_CUT_OFF = "it was cut off by a restart, or is still being answered"


@command(
    "btw",
    "Ask a side question: the model sees the whole context, and the context does not grow",
    "[QUESTION]",
    slow=[EVERYTHING],
    interrupted="The bot was restarted before your side question was answered; ask it again.",
)
async def btw(ask: Ask) -> Reply:
    """`/btw QUESTION`; without one, those that were asked lately."""
    question = ask.text.strip()
    if question:
        answer = await ask.service(SideQuestions).answer(ask, question)
        return Reply(answer, {"question": question, "answer": answer})
    asked = await ask.service(SideQuestions).list_newest(ask.conversation, NEWEST)
    data = {"asides": [_data(one) for one in asked]}
    if not asked:
        return Reply(
            _(
                "No side question was asked here. /btw QUESTION asks with the whole "
                "context, and neither the question nor the answer becomes a part of it."
            ),
            data,
        )
    return Reply("\n\n".join(_show(ask, one) for one in asked), data)


async def find_in_context(ask: Ask, rest: str) -> tuple[str, dict[str, object]]:
    """Return the side questions with any of these words, for `/context search`."""
    asked = ask.service(SideQuestions)
    found = await asked.list_newest(ask.conversation, NEWEST, rest.split())
    lines = [
        f"- {literal(clip(one.question, 120))}: {literal(clip(one.answer, 240))}" for one in found
    ]
    head = _("Side questions (/btw), which the model does not see:")
    asides = [{"question": one.question, "answer": one.answer} for one in found]
    return "\n".join((head, *lines)) if found else "", {"asides": asides}


def _show(ask: Ask, one: SideQuestion) -> str:
    who = f"{literal(one.speaker)}: " if one.speaker else ""
    answer = explain(one.answer) if one.state else f"({_(_CUT_OFF)})"
    at = say_moment(_time(one), ask.bot.zone())
    return f"**{at}** {who}{literal(clip(one.question, 200))}\n\n{answer}"


def _time(one: SideQuestion) -> datetime:
    return datetime.fromtimestamp(one.at, UTC)


def _data(one: SideQuestion) -> dict[str, object]:
    return {
        "question": one.question,
        "answer": one.answer,
        "state": one.state or "open",
        "turn": f"t{one.turn}" if one.turn else "",
        "at": _time(one).isoformat(),
    }
