"""`/undo` and `/retry`: taking turns back."""

from __future__ import annotations

from memory.context.change import Change
from memory.turns import Turn
from plugins.api import Action, Ask, Command, CommandError, Reply, command, hookimpl
from plugins.wording import beginning, literal

_BACK = Action("Bring back", "/context undo")


@command("undo", "Take the last turns back, as if they had not been said", "[N]")
async def undo(ask: Ask) -> Reply:
    """`/undo [N]`: stops the running turn, which is the last one then."""
    taken = _last(ask, _number(ask.text))
    first = await _take_back(ask, taken, "taken back with /undo")
    questions = "\n".join(f"- {turn.id}: {_words(turn)}" for turn in taken)
    is_one = len(taken) == 1
    text = (
        f"{first}Taken back:\n\n{questions}\n\n{'It is' if is_one else 'They are'} out of the "
        f"context and kept on disk; /context undo brings {'it' if is_one else 'them'} back."
    )
    return Reply(text, {"turns": [turn.id for turn in taken]}, (_BACK,))


@command("retry", "Take the last turn back and ask its question again")
async def retry(ask: Ask) -> Reply:
    """`/retry`: the new answer comes as that of a new turn."""
    if ask.words:
        raise CommandError("/retry takes nothing after it: it asks your last question again.")
    (turn,) = taken = _last(ask, 1)
    first = await _take_back(ask, taken, "asked again with /retry")
    message = await ask.bot.turns.ask(ask.conversation.key, ask.address, turn.question)
    return Reply(
        f"{first}{turn.id} is taken back and asked again: {_words(turn)}",
        {"turn": turn.id, "asked": message},
    )


def _number(text: str) -> int:
    """The N of `/undo N`; 1 where there is none."""
    word = text.strip() or "1"
    if word.isascii() and word.isdigit() and len(word) < 10 and int(word) > 0:
        return int(word)
    raise CommandError(
        "/undo wants how many turns to take back, like /undo 2; to take out others, say "
        "/context drop t3."
    )


def _last(ask: Ask, most: int) -> tuple[Turn, ...]:
    """The last turns in play, the running one among them."""
    turns = ask.conversation.context.view().whole
    if not turns:
        raise CommandError("There is nothing to take back: no turn is in play.")
    if most > len(turns):
        there_are = "Only one turn is" if len(turns) == 1 else f"Only {len(turns)} turns are"
        raise CommandError(f"{there_are} in play; nothing was taken back.")
    return turns[-most:]


async def _take_back(ask: Ask, turns: tuple[Turn, ...], why: str) -> str:
    """Stop what runs, and take the turns out of the view; returns what to say of the stop."""
    conversation = ask.conversation
    is_stopped = ask.bot.turns.stop(conversation.key)
    await conversation.context.idle.wait()
    numbers = frozenset(turn.number for turn in turns)
    await conversation.editor.change("drop", Change(drop=numbers), why)
    return "I stopped the running answer. " if is_stopped else ""


def _words(turn: Turn) -> str:
    return f"“{literal(beginning(turn.question.text))}”"


@hookimpl
def parley_commands() -> list[Command]:
    return [undo, retry]
