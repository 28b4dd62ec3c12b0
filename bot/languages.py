"""In which language a person is spoken to: as the setting `language` says, or else as their
platform or their browser does, which is remembered until the bot stops."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from bot.links import Links
from channels.language import ENGLISH, LANGUAGES, asked_in, choose
from channels.message import Address

MOST = 10_000
"""People whose language is remembered."""


class Languages:
    """`chosen` is the setting in force for a conversation, by its id."""

    def __init__(self, chosen: Callable[[str], str], links: Links) -> None:
        self._chosen, self._links = chosen, links
        self._said: OrderedDict[Address, str] = OrderedDict()

    def hear(self, address: Address) -> None:
        """Take notice of what a platform says in this context."""
        language = choose(asked_in.get()) if asked_in.get() else ""
        if language and self._said.get(address) != language:
            self._said[address] = language
            if len(self._said) > MOST:
                self._said.popitem(last=False)

    def of(self, address: Address, conversation: str = "") -> str:
        """The language of who speaks at an address, in this conversation ("": where it leads)."""
        chosen = self._chosen(conversation or self._links.key_of(address).id)
        if chosen in LANGUAGES:
            return chosen
        return self._said.get(address, ENGLISH)
