"""`/tour`: three steps that fill a context, show the next compaction, and compact it. Each first
puts the example into an empty context."""

from __future__ import annotations

import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from agent.models import embedded
from channels.language import ENGLISH, _, language_of_asker, number_of
from memory.messages import Message
from memory.turns import Turn
from plugins.api import Action, Ask, Command, Reply, command, hookimpl, refusal
from plugins.wording import amount, clip, literal, shown_name


@hookimpl
def parley_commands() -> list[Command]:
    return [tour]


STARTERS = {
    "fill": "Load an example conversation",
    "forecast": "See its next compaction",
    "compact": "Compact the example",
}
"""The steps of the tour, with their labels."""


@command(
    "tour",
    "Try the context out on an example conversation",
    "[fill|forecast|compact]",
    subs=(
        ("fill", "Put the example conversation into an empty context"),
        ("forecast", "Show what would be compacted next"),
        ("compact", "Compact the example; /context undo brings it back"),
    ),
)
async def tour(ask: Ask) -> Reply:
    """Run `/tour`, `/tour fill`, `/tour forecast` or `/tour compact`."""
    step = ask.text.strip().lower()
    if not step:
        return _introduce(ask)
    if step not in _STEPS:
        raise refusal(
            "/tour has no step “{words}”; it has {steps}.",
            words=literal(clip(ask.text)),
            steps=", ".join(_STEPS),
        )
    loaded = await _load(ask, step) if step == "fill" or _is_empty(ask) else ()
    reply = await _STEPS[step](ask)
    data = {**(reply.data or {}), "loaded": [turn.id for turn in loaded]}
    return replace(reply, data=data)


def _introduce(ask: Ask) -> Reply:
    model = ask.bot.models.about(ask.conversation.key)
    cost = (
        _("No model is asked, and it costs nothing.")
        if model.name == embedded.NAME  # which writes no summaries
        else _("Your model is asked only for the summary in step 3.")
    )
    text = _(
        "You see what the model sees, and you steer it. Try it on an example conversation. "
        "{cost}\n\n"
        "1. **Fill a context** with an example (`/tour fill`).\n"
        "2. **See the next compaction**, before it happens (`/tour forecast`).\n"
        "3. **Compact, then undo**: a summary takes the place of older turns, and `/context undo` "
        "brings them back (`/tour compact`).\n\n"
        "Model: {model}. /help lists all commands.",
        model=literal(shown_name(model.name)),
        cost=cost,
    )
    return Reply(text, {"steps": [*_STEPS]}, _buttons(*STARTERS))


async def _fill(ask: Ask) -> Reply:
    view = ask.conversation.context.view()
    turns = view.whole
    text = _(
        "{turns} of an example conversation are in the context now: {tokens} tokens. Your next "
        "message would send all of them to the model.",
        turns=number_of(len(turns), "{n} turn", "{n} turns"),
        tokens=amount(sum(turn.tokens for turn in turns)),
    )
    remove = Action(_("Remove the example"), f"/context drop {turns[0].id}-{turns[-1].id}")
    return Reply(text, {}, (*_buttons("forecast", "compact"), remove))


async def _forecast(ask: Ask) -> Reply:
    reply = await ask.bot.commands["context"].run(replace(ask, text=""))
    return replace(reply, actions=(*reply.actions, *_buttons("compact")))


async def _compact(ask: Ask) -> Reply:
    return await ask.bot.commands["context"].run(replace(ask, text="compact"))


_STEPS: Mapping[str, Callable[[Ask], Awaitable[Reply]]] = {
    "fill": _fill,
    "forecast": _forecast,
    "compact": _compact,
}


def _is_empty(ask: Ask) -> bool:
    view = ask.conversation.context.view()
    return not view.whole and view.preface is None


async def _load(ask: Ask, step: str) -> tuple[Turn, ...]:
    """Append the example once, and give it a title that says so. Raises CommandError if the step is
    to fill the context, but it is not empty, or an answer is running."""
    is_first = not ask.conversation.context.newest
    loaded = await ask.conversation.turns.append(
        read_example(language_of_asker()), may=lambda: _is_empty(ask)
    )
    if not loaded and step == "fill":
        raise refusal(
            "The example begins in an empty context: begin a new conversation, or send /new."
        )
    if loaded and is_first and not await ask.conversation.title():
        await ask.conversation.rename(_(TITLE))
    return loaded


def _buttons(*steps: str) -> tuple[Action, ...]:
    return tuple(Action(_(STARTERS[step]), f"/tour {step}") for step in steps)


# --- the example ----------------------------------------------------------------------------------

TITLE = "Example: a weekend in Lisbon"


def read_example(language: str = ENGLISH) -> Sequence[Sequence[Message]]:
    """Return the turns of the example, each a question and its answer, in a language, or in English
    if there is no translation."""
    here = Path(__file__)
    file = here.with_name(f"example.{language}.toml")
    known = file if file.exists() else here.with_name("example.toml")
    written = tomllib.loads(known.read_text("utf-8"))["turn"]
    return [
        (Message("user", one["question"]), Message("assistant", one["answer"])) for one in written
    ]
