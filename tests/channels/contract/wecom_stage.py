"""WeCom: a strict fake of its gateway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec import structs

from channels.base import Channel
from channels.kit.messenger import Messenger
from channels.wecom import WeComSettings
from channels.wecom.wecom import WeCom
from tests.channels.clock import quick_sleep
from tests.channels.contract.stage import Seen, Stage
from tests.fakes.wecom_server import BOT_ID, SECRET, WeComRefusal, WeComServer

GROUP = "wrkSFfCgAAxxxx"


class WeComStage(Stage):
    """Text and buttons are two messages there; here they are one, which is the card."""

    name, owner = "wecom", "Ann"
    can = (
        *("stranger", "file", "stream", "buttons", "group", "picture", "voice", "wait"),
        *("cut", "outage", "revoke"),
    )
    secrets = (SECRET,)

    async def open(self) -> None:
        self.server = await WeComServer().__aenter__()
        self.ann, self.bob = self.server.person("Ann"), self.server.person("Bob")
        self.server.known.add(GROUP)

    async def close(self) -> None:
        await self.server.__aexit__()

    def channel(self, settings: Callable[[], Any]) -> Channel:
        platform = WeCom(WeComSettings(bot_id=BOT_ID, url=self.server.url), SECRET)
        platform.traits = structs.replace(WeCom.traits, draft=0.05)
        return Messenger(platform, quick_sleep)

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
        person = self.ann if by == "ann" else self.bob
        if chat == "private":
            return await person.says(text)
        if not mention:
            return ""  # the gateway does not show it
        return await replace(person, group=GROUP).says(f"@Parley {text}")

    async def send_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        if media_type.startswith("audio/"):
            return await self.ann.sends(self.ann.body("voice", {"content": "Hello"}))
        return await self.ann.sends_file(name, content, media_type, text)

    async def press(self, seen: Seen, label: str) -> None:
        await self.ann.presses(self.server.messages[int(seen.id)], label)

    async def see(self, chat: str = "private", by: str = "ann") -> list[Seen]:
        where = GROUP if chat == "group" else by.capitalize()
        seen: list[Seen] = []
        for place, one in enumerate(self.server.messages):
            if one.chat != where:
                continue
            if one.kind == "template_card" and seen:
                seen[-1] = replace(seen[-1], id=str(place), buttons=tuple(one.buttons))
            else:
                seen.append(Seen(str(place), one.text, (), one.file, answers=one.answers))
        return seen

    def has_streamed(self) -> bool:
        return any(len(one.texts) > 1 for one in self.server.messages)

    async def ask_to_wait(self, seconds: int) -> None:
        self.server.failures.append(WeComRefusal(45009, "api freq out of limit"))

    async def cut(self) -> None:
        await self.server.cut()

    async def outage(self, *, is_on: bool) -> None:
        self.server.is_out = is_on
        if is_on:
            await self.server.cut()

    async def revoke(self) -> None:
        self.server.secret = "another"
        await self.server.cut()
