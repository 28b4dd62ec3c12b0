"""Discord: the real SDK with a strict gateway and API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from channels.base import Channel
from channels.discord import DiscordSettings
from channels.discord.client import DiscordClient
from channels.discord.platform import Discord
from channels.kit.messenger import Messenger
from tests.channels.clock import quick_sleep
from tests.channels.contract.stage import Seen, Stage
from tests.fakes.discord_people import DiscordPerson
from tests.fakes.discord_rules import Refused, SentMessage
from tests.fakes.discord_server import APPLICATION, GENERAL, TOKEN, DiscordServer


class DiscordStage(Stage):
    name, owner = "discord", "42"
    can = (
        *(
            "stream",
            "settle",
            "typing",
            "buttons",
            "group",
            "thread",
            "edit",
            "delete",
            "react",
            "picture",
        ),
        *("voice", "redeliver", "wait", "cut", "outage", "revoke", "refuse", "late"),
        *("stranger", "file"),
    )
    secrets = (TOKEN,)

    async def open(self) -> None:
        self.server = await DiscordServer().__aenter__()
        self.pause, DiscordClient.pause = DiscordClient.pause, 0.0
        self.ann, self.bob = self.server.person("Ann", 42), self.server.person("Bob", 43)

    async def close(self) -> None:
        DiscordClient.pause = self.pause
        await self.server.__aexit__()

    def channel(self, settings: Callable[[], Any]) -> Channel:
        platform = Discord(self.secrets[0], DiscordSettings(base_url=self.server.base_url))
        platform.traits = replace(platform.traits, draft=0.01, group_draft=0.01, overall=1_000)
        return Messenger(platform, quick_sleep)

    def _person(self, by: str, chat: str, thread: str = "") -> DiscordPerson:
        person = self.ann if by == "ann" else self.bob
        return person if chat == "private" else person.at(int(thread or GENERAL))

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
        person = self._person(by, chat, thread)
        self.server.skew = -age
        words = f"<@{APPLICATION}> {text}" if mention and chat == "group" else text
        try:
            if not self.server.gateway.is_out:
                await self.server.gateway.is_known()
            return str(person.says(words))
        finally:
            self.server.skew = 0.0

    async def send_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        await self.server.gateway.is_known()
        return str(self.ann.sends_file(name, content, media_type, text))

    async def edit(self, message: str, text: str) -> None:
        self.ann.edits(int(message), text)

    async def delete(self, message: str) -> None:
        self.ann.deletes(int(message))

    async def press(self, seen: Seen, label: str) -> None:
        self.ann.presses(self.server.messages[int(seen.id)], label)

    async def react(self, seen: Seen, emoji: str) -> None:
        self.ann.reacts(int(seen.id), emoji)

    async def open_thread(self) -> str:
        return str(self.server.thread("aside"))

    async def redeliver(self) -> None:
        await self.server.gateway.is_known()
        self.server.gateway.tell_all_again()

    async def see(self, chat: str = "private", by: str = "ann") -> list[Seen]:
        def is_there(one: SentMessage) -> bool:
            if chat == "group":
                return not self.server.is_direct(one.channel)
            return one.channel == self._person(by, chat).channel

        return [
            Seen(
                str(one.id),
                one.text,
                tuple(one.buttons),
                next(iter(one.files.values()), b""),
                str(one.channel) if one.channel in self.server.threads else "",
                str(one.answers or ""),
            )
            for one in self.server.messages.values()
            if is_there(one)
        ]

    def has_streamed(self) -> bool:
        return any(len(one.contents) > 1 for one in self.server.messages.values())

    def has_typed(self) -> bool:
        return bool(self.server.typing)

    async def ask_to_wait(self, seconds: int) -> None:
        self.server.limit(min(seconds, 0.05))  # the SDK waits by its own clock

    async def ask_to_wait_to_edit(self, seconds: int) -> None:
        self.server.edit_limits.append(min(seconds, 0.05))

    async def refuse_markup(self) -> None:
        self.server.refusals.append(Refused(400, 50035, "Invalid Form Body"))

    async def cut(self) -> None:
        self.server.gateway.cut()

    async def outage(self, *, is_on: bool) -> None:
        self.server.outage(is_on)

    async def revoke(self) -> None:
        await self.server.revoke()
