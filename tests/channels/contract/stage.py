"""The stage with which a test acts as a person on a platform, and sees the messages there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from channels.base import Channel
from tests.waiting import until

Ability = Literal[
    "stream",  # an answer is edited while it comes
    "settle",  # so is a message with choices, at any time
    "typing",
    "buttons",  # otherwise choices have numbers
    "stranger",  # others than its owner can write to it
    "file",  # from the person to the bot
    "group",
    "thread",
    "edit",  # a person's message, by the person
    "delete",  # the same
    "react",
    "picture",  # from the bot to the person
    "voice",  # from the person to the bot
    "redeliver",  # the platform may redeliver events
    "wait",  # the platform requests a wait
    "cut",  # a connection that can be cut
    "outage",
    "revoke",
    "refuse",  # the platform refuses a message's markup
    "late",  # messages have a time
]


@dataclass(frozen=True, slots=True)
class Seen:
    """A message of the bot as a person sees it: its id, its words without markup, the labels of its
    buttons, the bytes of its file; `thread` is "" outside of threads, and `answers` is the message
    that it replies to."""

    id: str
    text: str
    buttons: tuple[str, ...] = ()
    file: bytes = b""
    thread: str = ""
    answers: str = ""


class Stage:
    """A platform with a bot, its owner Ann, and Bob, who has no access. Chats are "private" (each
    person's with the bot) and "group". Subclasses omit the methods that `can` does not name."""

    name: str
    server_fixture = ""
    """The fixture of the real server that `open` gets, if one is needed."""
    owner: str
    """Ann's id, as it is in `owners` after the channel's name and a slash."""
    can: Collection[Ability] = ()
    secrets: tuple[str, ...] = ()
    """The secrets that must not be found in any log."""
    address = ""
    """The address of the web channel's server, once the bot runs, for platforms with webhooks."""

    def use(self, server: Any) -> None:
        """Receive the real server, before `open`."""

    async def open(self) -> None:
        """Start the platform."""

    async def close(self) -> None:
        """Stop the platform."""

    def settings(self) -> Mapping[str, Any]:
        """Return additional configuration of the bot."""
        return {}

    def channel(self, settings: Callable[[], Any]) -> Channel:
        """Return the channel, created anew as at a start; `settings` are the bot's."""
        raise NotImplementedError

    async def say(
        self,
        text: str,
        chat: str = "private",
        *,
        by: str = "ann",
        mention: bool = True,
        thread: str = "",
        age: float = 0.0,
    ) -> str:
        """Write a message; return its id. In a group the bot is mentioned or not; `age` is the
        number of seconds since it was written, by the platform's clock."""
        raise NotImplementedError

    async def send_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        """Send a file in the private chat; "image/…" as a picture, "audio/…" as a voice message."""
        raise NotImplementedError

    async def edit(self, message: str, text: str) -> None:
        raise NotImplementedError

    async def delete(self, message: str) -> None:
        raise NotImplementedError

    async def press(self, seen: Seen, label: str) -> None:
        raise NotImplementedError

    async def react(self, seen: Seen, emoji: str) -> None:
        raise NotImplementedError

    async def open_thread(self) -> str:
        """Return a thread in the group."""
        raise NotImplementedError

    async def redeliver(self) -> None:
        """Redeliver all messages so far."""
        raise NotImplementedError

    async def see(self, chat: str = "private", by: str = "ann") -> list[Seen]:
        """Return the current messages of the bot there, in order."""
        raise NotImplementedError

    def has_streamed(self) -> bool:
        """Return whether a message of the bot was edited."""
        raise NotImplementedError

    def has_typed(self) -> bool:
        raise NotImplementedError

    async def ask_to_wait(self, seconds: int) -> None:
        """Refuse the next message with the platform's own signal to wait for this time."""
        raise NotImplementedError

    async def ask_to_wait_to_edit(self, seconds: int) -> None:
        """Refuse the next edit in the same way."""
        await self.ask_to_wait(seconds)

    async def refuse_markup(self) -> None:
        raise NotImplementedError

    async def cut(self) -> None:
        """Cut all connections."""
        raise NotImplementedError

    async def outage(self, *, is_on: bool) -> None:
        raise NotImplementedError

    async def revoke(self) -> None:
        """Revoke the token."""
        raise NotImplementedError

    async def wait_for_news(self, by: str) -> None:
        """Return soon, or earlier when there is a new event for this person; at once if checking is
        cheap."""

    async def until(
        self, holds: Callable[[list[Seen]], Any], chat: str = "private", by: str = "ann"
    ) -> list[Seen]:
        """Wait until the visible messages meet a condition, and return them."""
        seen: list[Seen] = []

        async def look() -> bool:
            nonlocal seen
            await self.wait_for_news(by)
            seen = await self.see(chat, by)
            return bool(holds(seen))

        await until(look, lambda: f"seen is {seen}")
        return seen

    async def shown(
        self, words: str, chat: str = "private", by: str = "ann", button: str = ""
    ) -> Seen:
        """Wait for the newest message that has these words, and a button with this label if one is
        named, and return it."""

        def is_it(one: Seen) -> bool:
            return words in one.text and (not button or any(button in it for it in one.buttons))

        seen = await self.until(lambda all_: any(map(is_it, all_)), chat, by)
        return next(filter(is_it, reversed(seen)))
