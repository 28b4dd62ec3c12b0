"""WhatsApp: the real SDK with a strict Cloud API, which calls the bot's webhook."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from channels.base import Channel
from channels.formulas import change_parts
from channels.kit.messenger import Messenger
from channels.whatsapp import WhatsAppSettings
from channels.whatsapp.whatsapp import MetaSecrets, WhatsApp
from tests.channels.clock import quick_sleep
from tests.channels.contract.stage import Seen, Stage
from tests.fakes.whatsapp_server import (
    APP_SECRET,
    NUMBER,
    PHONE_ID,
    TOKEN,
    VERIFY_TOKEN,
    Rejected,
    WhatsAppServer,
)
from tests.waiting import until

GROUP = "Y2FwaV9ncm91cDoxNzA1NTU1MDEzOToxMjAzNjM0MDQ2OTQyMzM4MjAZD"
_SIGNS = re.compile(r"[*_~]")


class WhatsAppStage(Stage):
    name, owner = "whatsapp", "DE.4917100000010"
    can = (
        *("stranger", "file", "typing", "buttons", "group", "edit", "delete", "react"),
        *("picture", "voice", "redeliver", "wait", "outage", "revoke"),
    )
    secrets = (TOKEN, APP_SECRET, VERIFY_TOKEN)

    async def open(self) -> None:
        self.server = await WhatsAppServer().__aenter__()
        self.ann = self.server.person("Ann", "491710000001")
        self.bob = self.server.person("Bob", "491710000002")

    async def close(self) -> None:
        await self.server.__aexit__()

    def channel(self, settings: Callable[[], Any]) -> Channel:
        own = WhatsAppSettings(phone_id=PHONE_ID, base_url=self.server.base_url)
        secrets = MetaSecrets(TOKEN, APP_SECRET, VERIFY_TOKEN)
        self.messenger = Messenger(WhatsApp(own, secrets, check=0.05), quick_sleep)
        return self.messenger

    async def _until_called(self) -> None:
        """Wait until the web channel's server is up, once the bot listens."""
        self.server.webhook_url = f"{self.address}/webhooks/whatsapp"
        await until(lambda: self.messenger.health.state != "starting")

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
        await self._until_called()
        person = self.ann if by == "ann" else self.bob
        if chat == "group":
            person = replace(person, group=GROUP)
            text = f"@{NUMBER} {text}" if mention and not text.startswith("/") else text
        return await person.says(text)

    async def send_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        await self._until_called()
        return await self.ann.sends_file(name, content, media_type, text)

    async def edit(self, message: str, text: str) -> None:
        await self.ann.edits(message, text)

    async def delete(self, message: str) -> None:
        await self.ann.deletes(message)

    async def press(self, seen: Seen, label: str) -> None:
        found = next(one for one in self.server.messages if one.id == seen.id)
        await self.ann.presses(found, label)

    async def react(self, seen: Seen, emoji: str) -> None:
        await self.ann.reacts(seen.id, emoji)

    async def redeliver(self) -> None:
        await self._until_called()
        await self.server.bring_again()

    async def see(self, chat: str = "private", by: str = "ann") -> list[Seen]:
        where = GROUP if chat == "group" else (self.ann if by == "ann" else self.bob).id
        return [
            Seen(
                one.id,
                change_parts(one.text, lambda text: _SIGNS.sub("", text)),
                tuple(one.buttons),
                one.file,
                answers=one.answers,
            )
            for one in self.server.messages
            if one.chat == where
        ]

    def has_typed(self) -> bool:
        return bool(self.server.typing)

    async def ask_to_wait(self, seconds: int) -> None:
        self.server.failures.append(Rejected(131056, "Pair rate limit hit"))

    async def outage(self, *, is_on: bool) -> None:
        self.server.outage = Rejected(2, "Service temporarily unavailable", 503) if is_on else None

    async def revoke(self) -> None:
        self.server.token = "another"
