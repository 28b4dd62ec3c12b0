"""Questions asked in a chat: once one is answered or over, its message shows the outcome and loses
its buttons.

An action names the question that it answers (`Action.question`). A message's text is kept until all
of its questions are answered, and only for the newest messages; off the record, in memory alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from msgspec import Struct, field

from channels.base import ChannelState
from channels.kit.platform import Location
from channels.message import Action

_MOST = 8  # questions of a chat that are kept
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
        """Keep one of the bot's messages if it asks something."""
        if not any(action.question for action in actions):
            return
        chat = await self._find(place)
        chat.cards[message] = Card(text, [*actions], is_private)
        for old in [*chat.cards][:-_MOST]:
            del chat.cards[old]
        await self._keep(place, chat)

    async def hear(self, place: Location, id: str, text: str, who: str = "") -> None:
        """Note a received command under this id: it may answer a question. The question is looked
        up once the command is executed: a question can be answered before the platform has returned
        its message id."""
        if not (said := _normalize(text)).startswith("/"):
            return
        chat = await self._find(place)
        chat.commands[id] = (said, who)
        for old in [*chat.commands][:-_MOST]:
            del chat.commands[old]

    async def resolve(self, place: Location, id: str, *, is_done: bool) -> tuple[str, Card] | None:
        """Return the message whose question the input of this id has answered, with its new
        content; None if there is none, or the answer was refused."""
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
