"""The choices below a reply, as buttons or by number; and questions asked in a chat, whose messages
show the outcome and lose their buttons. A button's data contains its command; numbers are stored by
the bot (`Bot.state`) until its next message in that chat, across restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import orjson
from msgspec import Struct, field

from channels.base import ChannelState
from channels.kit.platform import Button, Location, Traits
from channels.language import _
from channels.limited import LimitedDict
from channels.message import Action

QUESTION, YES, NO = "?", "!", "-"
"""The prefix of a button's command that needs confirmation, the prefix of its confirmation, and the
data of its rejection."""
_APPROVE, _DENY, _STOP = "/approve ", "/deny ", "/stop"
_KEPT = 8  # messages whose choices or questions are kept
_MOST = 1_000  # chats that are kept in memory
_DECORATION = dict.fromkeys(
    map(ord, "\ufe0f\ufe0e\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
)
_YES = "👍✅👌"
_REFUSE = "👎❌"
_HALT = "🛑⏹⛔✋"


class Press(Struct, frozen=True):
    """A pressed choice: its command ("" for a rejection), whether it needs confirmation, and
    whether it answers such a request."""

    command: str
    is_question: bool = False
    is_answer: bool = False

    @classmethod
    def of(cls, data: str) -> Press:
        command = "" if data == NO else data.removeprefix(QUESTION).removeprefix(YES)
        return cls(command, data.startswith(QUESTION), data.startswith((YES, NO)))


def data_of(action: Action) -> str:
    """Return the button data of an action."""
    return f"{QUESTION if action.asks_first else ''}{action.command}"


def make_buttons(actions: Sequence[Action], traits: Traits) -> tuple[Button, ...]:
    """Return the buttons for the actions whose data fit into one."""
    return tuple(Button(a.label, data_of(a)) for a in _fitting(actions, traits))


def spell_out(actions: Sequence[Action], traits: Traits) -> str:
    """Return a line for each action without a button: its command is too long, or there are too
    many."""
    fitting = _fitting(actions, traits)
    return "\n".join(f"{a.label}: `{a.command}`" for a in actions if a not in fitting)


def number(actions: Sequence[Action]) -> str:
    """Return actions as numbered choices."""
    lines = [f"{place}. {action.label}" for place, action in enumerate(actions, 1)]
    return "\n".join((*lines, "", _("Answer with a number to choose."))) if lines else ""


def confirm(label: str, command: str) -> tuple[Action, Action]:
    """Return the actions yes and no."""
    yes = Action(_("Yes, {label}", label=label.lower()), f"{YES}{command}")
    return yes, Action(_("No"), NO)


def _fitting(actions: Sequence[Action], traits: Traits) -> list[Action]:
    longest = traits.longest_button
    fitting = (action for action in actions if len(data_of(action).encode()) <= longest)
    return [*islice(fitting, traits.most_buttons)]


class _ChatChoices(Struct):
    """The stored choices of a chat: `offered` by its newest message, as label and data; those
    `taken`, by message id and number; the commands that answer the messages that `asked`."""

    offered: list[tuple[str, str]] = field(default_factory=list)
    taken: dict[str, tuple[str, str]] = field(default_factory=dict)
    asked: dict[str, tuple[str, str]] = field(default_factory=dict)

    def dump(self) -> str:
        return orjson.dumps([self.offered, self.taken, self.asked]).decode()

    @classmethod
    def load(cls, text: str) -> _ChatChoices:
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
        self._chats = LimitedDict[str, _ChatChoices](_MOST)

    async def offer(self, place: Location, actions: Sequence[Action]) -> None:
        """Replace the numbered choices of a chat; an empty sequence removes them."""
        kept = await self._find(place)
        offered = [(action.label, data_of(action)) for action in actions]
        if kept.offered != offered:
            kept.offered = offered
            await self._keep(place, kept)

    async def choose(self, place: Location, text: str) -> tuple[str, str] | None:
        """Return the label and data that a message stands for; None if it is not a choice. A
        redelivered message stands for the same as before, and an edited one for its new text."""
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

    async def ask(self, place: Location, message: str, actions: Sequence[Action]) -> None:
        """Note that one of the bot's messages asks for permission, so that a reaction may answer
        it."""
        commands = [action.command for action in actions if not action.asks_first]
        yes = next((one for one in commands if one.startswith(_APPROVE)), "")
        no = next((one for one in commands if one.startswith(_DENY)), "")
        if yes or no:
            kept = await self._find(place)
            kept.asked = _newest({**kept.asked, message: (yes, no)})
            await self._keep(place, kept)

    async def react(self, place: Location, emoji: str) -> str:
        """Return the command that an emoji on a message stands for; "" if there is none."""
        sign = emoji.translate(_DECORATION)
        if not sign or len(sign) > 1:
            return ""
        if sign in _HALT:
            return _STOP
        yes, no = (await self._find(place)).asked.get(place.message, ("", ""))
        return yes if sign in _YES else no if sign in _REFUSE else ""

    async def _find(self, place: Location) -> _ChatChoices:
        name = _name(place)
        if name not in self._chats:
            found = _ChatChoices.load(await self._state.get(self._channel, name))
            self._chats.setdefault(name, found)
        return self._chats[name]

    async def _keep(self, place: Location, kept: _ChatChoices) -> None:
        await self._state.set(self._channel, _name(place), kept.dump())


def _newest(kept: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return dict([*kept.items()][-_KEPT:])


def _name(place: Location) -> str:
    return f"choices {place.chat} {place.thread}"


_MOST_OPEN = 8  # questions of a chat that are kept
_MOST_CHATS = 1_000  # chats that are kept in memory


class Card(Struct):
    """A message with a question: its text, and its actions in order. With `is_private` it was sent
    off the record."""

    text: str
    actions: list[Action]
    is_private: bool = False


class _Chat(Struct):
    """The cards of a chat by message id; and the commands that were received and not executed yet,
    by inbound id, with their sender."""

    cards: dict[str, Card] = field(default_factory=dict)
    commands: dict[str, tuple[str, str]] = field(default_factory=dict)
    kept: str = ""

    def dump(self) -> str:
        cards = {
            id: [card.text, *map(_fields, card.actions)]
            for id, card in self.cards.items()
            if not card.is_private
        }
        return orjson.dumps(cards).decode() if cards else ""

    @classmethod
    def load(cls, text: str) -> _Chat:
        if not text:
            return cls()
        cards = {
            id: Card(question, [Action(*one) for one in actions])
            for id, (question, *actions) in orjson.loads(text).items()
        }
        return cls(cards, kept=text)


class Cards:
    """The questions in each chat of a channel."""

    def __init__(self, channel: str, state: ChannelState) -> None:
        self._channel, self._state = channel, state
        self._chats = LimitedDict[str, _Chat](_MOST_CHATS)

    async def note(
        self,
        place: Location,
        message: str,
        text: str,
        actions: Sequence[Action],
        *,
        is_private: bool = False,
    ) -> None:
        """Keep one of the bot's messages if it asks something."""
        if not any(action.question for action in actions):
            return
        chat = await self._find(place)
        chat.cards[message] = Card(text, [*actions], is_private)
        for old in [*chat.cards][:-_MOST_OPEN]:
            del chat.cards[old]
        await self._keep(place, chat)

    async def note_command(self, place: Location, id: str, text: str, who: str = "") -> None:
        """Note a received command under this id: it may answer a question. The question is looked
        up once the command is executed: a question can be answered before the platform has returned
        its message id."""
        if not (command := _normalize(text)).startswith("/"):
            return
        chat = await self._find(place)
        chat.commands[id] = (command, who)
        for old in [*chat.commands][:-_MOST_OPEN]:
            del chat.commands[old]

    async def resolve(self, place: Location, id: str, *, is_done: bool) -> tuple[str, Card] | None:
        """Return the message whose question the input of this id has answered, with its new
        content; None if there is none, or the answer was refused."""
        chat = await self._find(place)
        command, who = chat.commands.pop(id, ("", ""))
        answered = next(
            (
                (message, card, action)
                for message, card in reversed(chat.cards.items())
                for action in card.actions
                if action.question and _normalize(action.command) == command
            ),
            None,
        )
        if answered is None or not is_done:
            return None
        message, _card, chosen = answered
        how = f"✓ {chosen.label} ({who})" if who else f"✓ {chosen.label}"
        return message, await self._close_question(place, chat, message, chosen.question, how)

    async def close(self, place: Location, question: str, how: str) -> tuple[str, Card] | None:
        """Return the message with this question, with its new content now that the question is
        over; None if there is none."""
        chat = await self._find(place)
        for message, card in reversed(chat.cards.items()):
            if any(action.question == question for action in card.actions):
                return message, await self._close_question(place, chat, message, question, how)
        return None

    async def _close_question(
        self, place: Location, chat: _Chat, message: str, question: str, how: str
    ) -> Card:
        card = chat.cards.pop(message)
        left = [action for action in card.actions if action.question != question]
        settled = Card(f"{card.text}\n\n{how}", left, card.is_private)
        if any(action.question for action in left):
            chat.cards[message] = settled
        await self._keep(place, chat)
        return settled

    async def _find(self, place: Location) -> _Chat:
        name = _name_of_card(place)
        if name not in self._chats:
            found = _Chat.load(await self._state.get(self._channel, name))
            self._chats.setdefault(name, found)
        return self._chats[name]

    async def _keep(self, place: Location, chat: _Chat) -> None:
        text = chat.dump()
        if text != chat.kept:
            await self._state.set(self._channel, _name_of_card(place), text)
            chat.kept = text


def _fields(action: Action) -> tuple[str, str, bool, str]:
    return action.label, action.command, action.asks_first, action.question


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split())


def _name_of_card(place: Location) -> str:
    return f"cards {place.chat} {place.thread}"
