"""In which language a person is spoken to: as the setting `language` says, or else as their
platform or their browser does, which is remembered until the bot stops."""

from __future__ import annotations

from collections import OrderedDict

from bot.links import Links
from bot.settings import SettingsStore
from channels.language import ENGLISH, LANGUAGES, asked_in, choose
from channels.message import Address

MOST = 10_000
"""People whose language is remembered."""


class Languages:
    """The languages of people, by the setting of their conversation or what they were heard in."""

    def __init__(self, book: SettingsStore, links: Links) -> None:
        self._book, self._links = book, links
        self._said: OrderedDict[Address, str] = OrderedDict()

    def hear(self, address: Address) -> None:
        """Take notice of what a platform says in this context."""
        language = choose(asked_in.get()) if asked_in.get() else ""
        if language and self._said.get(address) != language:
            self._said[address] = language
            if len(self._said) > MOST:
                self._said.popitem(last=False)

    def of(self, address: Address, conversation: str = "") -> str:
        """Return the language of who speaks at an address, in this conversation ("": where it
        leads)."""
        where = conversation or self._links.key_of(address).id
        chosen = self._book.effective(where).language
        if chosen in LANGUAGES:
            return chosen
        return self._said.get(address, ENGLISH)
