"""The choices that a person has below a reply: as buttons, or by a number where a platform has
none.

What a button does stands in its data, so it works as long as the platform keeps it. Numbers are
kept by the bot (`Bot.state`) until its next message in that chat, over a restart; so is which
message a reaction would answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import orjson
from msgspec import Struct, field

from channels.base import ChannelState
from channels.kit.platform import Button, Place, Traits
from channels.language import _
from channels.message import Action

QUESTION, YES, NO = "?", "!", "-"
"""Before the command of a button that asks first, and of one that says yes; data of one that says
no."""
_APPROVE, _DENY, _STOP = "/approve ", "/deny ", "/stop"
_KEPT = 8  # messages of which it is kept what they chose, or asked
_MOST = 1_000  # chats that are kept in memory
_DECORATION = dict.fromkeys(
    map(ord, "\ufe0f\ufe0e\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
)
_YES = "👍✅👌"
_REFUSE = "👎❌"
_HALT = "🛑⏹⛔✋"


class Press(Struct, frozen=True):
    """A choice: its command ("" for a no), whether a yes is needed first, and whether it answers
    such a question."""

    command: str
    is_question: bool = False
    is_answer: bool = False

    @classmethod
    def of(cls, data: str) -> Press:
        command = "" if data == NO else data.removeprefix(QUESTION).removeprefix(YES)
        return cls(command, data.startswith(QUESTION), data.startswith((YES, NO)))


def data_of(action: Action) -> str:
    """Return the data that a button keeps of an action."""
    return f"{QUESTION if action.asks_first else ''}{action.command}"


def make_buttons(actions: Sequence[Action], traits: Traits) -> tuple[Button, ...]:
    """Return the buttons for those actions whose data fit into one."""
    return tuple(Button(a.label, data_of(a)) for a in _fitting(actions, traits))


def spell_out(actions: Sequence[Action], traits: Traits) -> str:
    """Return a line for each action that becomes no button: its command is too long, or it is one
    too many."""
    fitting = _fitting(actions, traits)
    return "\n".join(f"{a.label}: `{a.command}`" for a in actions if a not in fitting)


def number(actions: Sequence[Action]) -> str:
    """Actions as numbered choices."""
    lines = [f"{place}. {action.label}" for place, action in enumerate(actions, 1)]
    return "\n".join((*lines, "", _("Answer with a number to choose."))) if lines else ""


def confirm(label: str, command: str) -> tuple[Action, Action]:
    """Yes and no."""
    yes = Action(_("Yes, {label}", label=label.lower()), f"{YES}{command}")
    return yes, Action(_("No"), NO)


def _fitting(actions: Sequence[Action], traits: Traits) -> list[Action]:
    longest = traits.longest_button
    fitting = (action for action in actions if len(data_of(action).encode()) <= longest)
    return [*islice(fitting, traits.most_buttons)]


class _Kept(Struct):
    """The choices kept of a chat: those that its newest message `offered`, as label and data; what
    messages have `taken`, by their id and number; which commands answer the messages that `asked`.
    """

    offered: list[tuple[str, str]] = field(default_factory=list)
    taken: dict[str, tuple[str, str]] = field(default_factory=dict)
    asked: dict[str, tuple[str, str]] = field(default_factory=dict)

    def dump(self) -> str:
        return orjson.dumps([self.offered, self.taken, self.asked]).decode()

    @classmethod
    def load(cls, text: str) -> _Kept:
        if not text:
            return cls()
        offered, taken, asked = orjson.loads(text)
        return cls(
            [(label, data) for label, data in offered],
            {message: (label, data) for message, (label, data) in taken.items()},
            {message: (yes, no) for message, (yes, no) in asked.items()},
        )


class Choices:
    """The choices in each chat of a channel."""

    def __init__(self, channel: str, state: ChannelState) -> None:
        self._channel, self._state = channel, state
        self._chats: dict[str, _Kept] = {}

    async def offer(self, place: Place, actions: Sequence[Action]) -> None:
        """From now on a number stands for one of these there; none: for nothing."""
        kept = await self._find(place)
        offered = [(action.label, data_of(action)) for action in actions]
        if kept.offered != offered:
            kept.offered = offered
            await self._keep(place, kept)

    async def choose(self, place: Place, text: str) -> tuple[str, str] | None:
        """Return the label and data that a message stands for; None where it is no choice. One that
        comes again stands for the same as before, and one that was edited for what it says now."""
        kept = await self._find(place)
        words = text.strip().rstrip(".)。．、）")
        if not (words.isdecimal() and len(words) < 4):
            return None
        name = f"{place.message} {int(words)}"
        if name in kept.taken:
            return kept.taken[name]
        if not 0 < int(words) <= len(kept.offered):
            return None
        chosen = kept.offered[int(words) - 1]
        kept.taken = _newest({**kept.taken, name: chosen})
        await self._keep(place, kept)
        return chosen

    async def ask(self, place: Place, message: str, actions: Sequence[Action]) -> None:
        """A message of ours asks for permission, so that a reaction may answer it."""
        commands = [action.command for action in actions if not action.asks_first]
        yes = next((one for one in commands if one.startswith(_APPROVE)), "")
        no = next((one for one in commands if one.startswith(_DENY)), "")
        if yes or no:
            kept = await self._find(place)
            kept.asked = _newest({**kept.asked, message: (yes, no)})
            await self._keep(place, kept)

    async def react(self, place: Place, emoji: str) -> str:
        """Return the command that an emoji on a message stands for; "" where it is none."""
        sign = emoji.translate(_DECORATION)
        if not sign or len(sign) > 1:
            return ""
        if sign in _HALT:
            return _STOP
        yes, no = (await self._find(place)).asked.get(place.message, ("", ""))
        return yes if sign in _YES else no if sign in _REFUSE else ""

    async def _find(self, place: Place) -> _Kept:
        name = _name(place)
        if name not in self._chats:
            found = _Kept.load(await self._state.get(self._channel, name))
            if len(self._chats) >= _MOST:
                del self._chats[next(iter(self._chats))]
            self._chats.setdefault(name, found)
        return self._chats[name]

    async def _keep(self, place: Place, kept: _Kept) -> None:
        await self._state.set(self._channel, _name(place), kept.dump())


def _newest(kept: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return dict([*kept.items()][-_KEPT:])


def _name(place: Place) -> str:
    return f"choices {place.chat} {place.thread}"
