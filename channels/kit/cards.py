"""Questions that were asked in a chat: once one is answered or over, its message says how and has
no more buttons for it.

What an answer is stands in its action (`Action.question`). The text of a message is kept until all
of its questions are answered, and only of the newest messages; off the record, in memory alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from msgspec import Struct, field

from channels.base import ChannelState
from channels.kit.platform import Location
from channels.message import Action

_MOST = 8  # questions of a chat that are kept
_MOST_CHATS = 1_000  # that are kept in memory


class Card(Struct):
    """A message that asks: its text, and its actions in order. One that `is_private` was sent in
    a chat that is off the record."""

    text: str
    actions: list[Action]
    is_private: bool = False


class _Chat(Struct):
    """The cards of a chat by the ids of their messages; and the commands that were given and not
    carried out yet, by the ids of what came in, with who gave them."""

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
            id: Card(said, [Action(*one) for one in actions])
            for id, (said, *actions) in orjson.loads(text).items()
        }
        return cls(cards, kept=text)


class Cards:
    """The questions in each chat of a channel."""

    def __init__(self, channel: str, state: ChannelState) -> None:
        self._channel, self._state = channel, state
        self._chats: dict[str, _Chat] = {}

    async def note(
        self,
        place: Location,
        message: str,
        text: str,
        actions: Sequence[Action],
        *,
        is_private: bool = False,
    ) -> None:
        """Keep a message of ours, if it asks something."""
        if not any(action.question for action in actions):
            return
        chat = await self._find(place)
        chat.cards[message] = Card(text, [*actions], is_private)
        for old in [*chat.cards][:-_MOST]:
            del chat.cards[old]
        await self._keep(place, chat)

    async def hear(self, place: Location, id: str, text: str, who: str = "") -> None:
        """Note a command that came in under this id: it may answer a question. Which one is looked
        up once it is carried out, since a question is answered as soon as it is shown, before the
        platform has told its id."""
        if not (said := _normalize(text)).startswith("/"):
            return
        chat = await self._find(place)
        chat.commands[id] = (said, who)
        for old in [*chat.commands][:-_MOST]:
            del chat.commands[old]

    async def settle(self, place: Location, id: str, *, is_done: bool) -> tuple[str, Card] | None:
        """Return the message that what came in under this id has answered, as it is to be from now
        on; None where there is none, or where the answer was refused."""
        chat = await self._find(place)
        said, who = chat.commands.pop(id, ("", ""))
        answered = next(
            (
                (message, card, action)
                for message, card in reversed(chat.cards.items())
                for action in card.actions
                if action.question and _normalize(action.command) == said
            ),
            None,
        )
        if answered is None or not is_done:
            return None
        message, _card, chosen = answered
        how = f"✓ {chosen.label} ({who})" if who else f"✓ {chosen.label}"
        return message, await self._settle(place, chat, message, chosen.question, how)

    async def close(self, place: Location, question: str, how: str) -> tuple[str, Card] | None:
        """Return the message that asks this, as it is to be now that the question is over; None
        where there is none."""
        chat = await self._find(place)
        for message, card in reversed(chat.cards.items()):
            if any(action.question == question for action in card.actions):
                return message, await self._settle(place, chat, message, question, how)
        return None

    async def _settle(
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
        name = _name(place)
        if name not in self._chats:
            found = _Chat.load(await self._state.get(self._channel, name))
            if len(self._chats) >= _MOST_CHATS:
                del self._chats[next(iter(self._chats))]
            self._chats.setdefault(name, found)
        return self._chats[name]

    async def _keep(self, place: Location, chat: _Chat) -> None:
        text = chat.dump()
        if text != chat.kept:
            await self._state.set(self._channel, _name(place), text)
            chat.kept = text


def _fields(action: Action) -> tuple[str, str, bool, str]:
    return action.label, action.command, action.asks_first, action.question


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split())


def _name(place: Location) -> str:
    return f"cards {place.chat} {place.thread}"
