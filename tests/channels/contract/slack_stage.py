"""Slack: the real SDK with a strict server, over Socket Mode, and over the Events API."""

from __future__ import annotations

from collections.abc import Callable, Collection
from html import escape
from typing import Any

from msgspec.structs import replace

from channels.base import Channel
from channels.kit.messenger import Messenger
from channels.slack import SlackSettings
from channels.slack.platform import Slack
from tests.channels.clock import quick_sleep
from tests.channels.contract.stage import Ability, Seen, Stage
from tests.fakes.slack_people import BOT_USER, SlackMessage
from tests.fakes.slack_server import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, SlackServer
from tests.whole.slack_testbot import EVENTS_API, SOCKET_MODE

GROUP = "C1GENERAL"
_NAMES = {"👍": "+1", "🛑": "octagonal_sign"}


class SlackStage(Stage):
    """Over Socket Mode. In private chats, outside of threads, Slack does not let a bot show that it
    is thinking."""

    name, owner = "slack", "U1ANN"
    can: Collection[Ability] = (
        *(
            "stream",
            "settle",
            "buttons",
            "group",
            "thread",
            "edit",
            "delete",
            "react",
            "picture",
            "voice",
        ),
        *("redeliver", "wait", "cut", "outage", "revoke", "refuse", "late"),
        *("stranger", "file"),
    )
    secrets = (BOT_TOKEN, APP_TOKEN, SIGNING_SECRET)
    tokens = SOCKET_MODE

    async def open(self) -> None:
        self.server = await SlackServer().__aenter__()
        self.ann, self.bob = self.server.person("Ann"), self.server.person("Bob")
        self.server.channel(GROUP)

    async def close(self) -> None:
        await self.server.__aexit__(None)

    async def is_listening(self) -> None:
        """Earlier events wait in the websocket."""

    def channel(self, settings: Callable[[], Any]) -> Channel:
        own = SlackSettings(base_url=f"{self.server.base_url}/api/")
        platform = Slack(own, self.tokens)
        platform.traits = replace(
            Slack.traits, draft=0.01, group_draft=0.01, typing=0.05, overall=1_000.0
        )
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
        await self.is_listening()
        person, self.server.age = self.ann if by == "ann" else self.bob, age
        words = escape(text, quote=False)
        if chat == "private":
            return person.says(words).ts
        said = person.mentions if mention else person.says
        return said(words, GROUP, thread).ts

    async def send_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        return self.ann.sends(name, content, media_type, text).ts

    async def edit(self, message: str, text: str) -> None:
        self.ann.edits(self._find(message), text)

    async def delete(self, message: str) -> None:
        self.ann.deletes(self._find(message))

    async def press(self, seen: Seen, label: str) -> None:
        self.ann.presses(self._find(seen.id), label)

    async def react(self, seen: Seen, emoji: str) -> None:
        self.ann.reacts(self._find(seen.id), _NAMES[emoji])

    async def open_thread(self) -> str:
        return self.server.keep(GROUP, self.bob.id, "What about lunch?").ts

    async def redeliver(self) -> None:
        self.server.delivery.redeliver()

    def _find(self, ts: str) -> SlackMessage:
        return next(one for one in self.server.messages.values() if one.ts == ts)

    async def see(self, chat: str = "private", by: str = "ann") -> list[Seen]:
        person = self.ann if by == "ann" else self.bob
        where = GROUP if chat == "group" else person.dm
        return [
            Seen(
                one.ts,
                one.text,
                tuple(one.buttons),
                b"".join(self.server.contents[number] for number in one.files),
                one.thread,
            )
            for one in self.server.messages.values()
            if one.channel == where and one.user == BOT_USER
        ]

    def has_streamed(self) -> bool:
        return any(len(one.texts) > 1 for one in self.server.said)

    def has_typed(self) -> bool:
        return any(one["status"] for one in self.server.statuses)

    async def ask_to_wait(self, seconds: int) -> None:
        self.server.limit(seconds)

    async def ask_to_wait_to_edit(self, seconds: int) -> None:
        self.server.limit(seconds, "chat.update")

    async def refuse_markup(self) -> None:
        self.server.takes_rich_text = False

    async def cut(self) -> None:
        await self.server.delivery.cut()

    async def outage(self, *, is_on: bool) -> None:
        await self.server.outage(is_on)

    async def revoke(self) -> None:
        await self.server.revoke()


class SlackCallsStage(SlackStage):
    """Over the Events API, with its differences: its calls, and the notice of its end."""

    can: Collection[Ability] = ("buttons", "redeliver", "revoke")
    tokens = EVENTS_API

    @property
    def address(self) -> str:
        return self.server.delivery.webhook.removesuffix("/webhooks/slack")

    @address.setter
    def address(self, url: str) -> None:
        self.server.delivery.webhook = f"{url}/webhooks/slack"

    def channel(self, settings: Callable[[], Any]) -> Channel:
        self._known = len(self.server.made("auth.test"))
        return super().channel(settings)

    async def is_listening(self) -> None:
        """Otherwise there is no draft of an answer: another process may be the answering one."""
        await self.server.called("auth.test", self._known + 2)  # when it opens, and listens

    async def revoke(self) -> None:
        await self.server.revoke(tells=True)
