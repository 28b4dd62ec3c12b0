"""Feishu: a strict fake of its long connection and its open platform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec import structs

from channels.base import Channel
from channels.feishu import FeishuSettings
from channels.feishu.feishu import Feishu
from channels.feishu.reading import EMOJI
from channels.kit.messenger import Messenger
from tests.channels.clock import quick_sleep
from tests.channels.contract.stage import Seen, Stage
from tests.fakes.feishu_server import (
    APP_ID,
    SECRET,
    FeishuPerson,
    FeishuRefusal,
    FeishuServer,
)

GROUP = "oc_thegroup"


class FeishuStage(Stage):
    name, owner = "feishu", "ou_1ann"
    can = (
        *("stranger", "file", "stream", "settle", "buttons", "group", "thread", "delete", "react"),
        *("picture", "voice", "redeliver", "wait", "cut", "outage", "revoke", "refuse", "late"),
    )
    secrets = (SECRET,)

    async def open(self) -> None:
        self.server = await FeishuServer(patience=1.0).__aenter__()
        self.ann, self.bob = self.server.person("Ann"), self.server.person("Bob")
        self.server.chats[GROUP] = "group"
        self.threads: dict[str, str] = {}  # the first message of each

    async def close(self) -> None:
        await self.server.__aexit__()

    def channel(self, settings: Callable[[], Any]) -> Channel:
        own = FeishuSettings(app_id=APP_ID, base_url=self.server.base_url)
        platform = Feishu(own, SECRET)
        platform.traits = structs.replace(Feishu.traits, draft=0.3)
        return Messenger(platform, quick_sleep)

    def _person(self, by: str, chat: str) -> FeishuPerson:
        person = self.ann if by == "ann" else self.bob
        return replace(person, chat=GROUP) if chat == "group" else person

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
        words = f"@_user_1 {text}" if mention and chat == "group" else text
        first = self.server.messages[self.threads[thread]] if thread else None
        self.server.skew = -age
        try:
            return await self._person(by, chat).says(words, answering=first)
        finally:
            self.server.skew = 0.0

    async def send_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        return await self.ann.sends_file(name, content, media_type)

    async def delete(self, message: str) -> None:
        self.ann.deletes(message)

    async def press(self, seen: Seen, label: str) -> None:
        await self.ann.presses(self.server.messages[seen.id], label)

    async def react(self, seen: Seen, emoji: str) -> None:
        await self.ann.reacts(seen.id, next(name for name, sign in EMOJI.items() if sign == emoji))

    async def open_thread(self) -> str:
        first = self._person("ann", "group").notes("text", {"text": "A topic"}, thread="omt_1")
        self.threads["omt_1"] = first
        return "omt_1"

    async def redeliver(self) -> None:
        await self.server.bring_again()

    async def see(self, chat: str = "private", by: str = "ann") -> list[Seen]:
        where = self._person(by, chat).chat
        return [
            Seen(
                one.id,
                one.text.replace("&#60;", "<"),
                tuple(one.buttons),
                one.file,
                one.thread,
                one.parent,
            )
            for one in self.server.sent
            if one.chat == where
        ]

    def has_streamed(self) -> bool:
        return any(len(one.texts) > 1 for one in self.server.sent)

    async def ask_to_wait(self, seconds: int) -> None:
        self.server.failures.append(FeishuRefusal(99991400, "frequency limit", 429, seconds))

    async def ask_to_wait_to_edit(self, seconds: int) -> None:
        refusal = FeishuRefusal(99991400, "frequency limit", 429, seconds)
        self.server.edit_failures.append(refusal)

    async def refuse_markup(self) -> None:
        self.server.takes_markdown = False

    async def cut(self) -> None:
        await self.server.cut()

    async def outage(self, *, is_on: bool) -> None:
        self.server.outage = FeishuRefusal(2200, "Internal Error", 500) if is_on else None
        if is_on:
            await self.server.cut()

    async def revoke(self) -> None:
        self.server.secret = "another"
        self.server.tokens.clear()
        await self.server.cut()
