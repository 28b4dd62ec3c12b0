"""Telegram: the real SDK with a strict Bot API."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from channels.base import Channel
from channels.telegram import Intervals, telegram_channel
from tests.channels.clock import quick_sleep
from tests.channels.contract.stage import Seen, Stage
from tests.fakes.telegram_server import TOKEN, Person, Refused, Sent, TelegramServer

GROUP = -100200300
_DOWN = Refused("Bad Gateway", 502)


class TelegramStage(Stage):
    name, owner = "telegram", "42"
    can = (
        *(
            "stranger",
            "file",
            "stream",
            "settle",
            "typing",
            "buttons",
            "group",
            "thread",
            "edit",
            "react",
            "picture",
            "voice",
        ),
        *("redeliver", "wait", "outage", "revoke", "refuse", "late"),
    )
    secrets = (TOKEN,)

    async def open(self) -> None:
        self.server = await TelegramServer().__aenter__()
        self.ann, self.bob = self.server.person("Ann", 42), self.server.person("Bob", 43)
        self.server.group(GROUP, is_forum=True)
        self.sent: dict[str, dict[str, Any]] = {}

    async def close(self) -> None:
        await self.server.__aexit__()

    def settings(self) -> Mapping[str, Any]:
        return {"telegram": {"base_url": self.server.base_url}}

    def channel(self, settings: Callable[[], Any]) -> Channel:
        rhythm = Intervals(0.01, 0.01, 0.05, 0.02, 1, 1_000, 1_000, 1, sleep=quick_sleep)
        return telegram_channel(TOKEN, lambda: settings().telegram, rhythm)

    def _person(self, by: str, chat: str, thread: str) -> Person:
        person = self.ann if by == "ann" else self.bob
        return person if chat == "private" else person.at(GROUP, int(thread or 0))

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
        words = f"@parley_bot {text}" if mention and chat == "group" else text
        is_command = text.startswith("/")
        message = self._person(by, chat, thread).message(text if is_command else words)
        message["date"] -= int(age)
        return self._send(message)

    def _send(self, message: dict[str, Any]) -> str:
        self.ann.sends(message)
        self.sent[str(message["message_id"])] = message
        return str(message["message_id"])

    async def send_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        more = {"caption": text} if text else {}
        if media_type.startswith("image/"):
            return self._send(self.ann.photo(content, **more))
        if media_type.startswith("audio/"):
            return self._send(self.ann.voice(content))
        return self._send(self.ann.document(name, media_type, content, **more))

    async def edit(self, message: str, text: str) -> None:
        self.ann.edits(int(message), text)

    async def press(self, seen: Seen, label: str) -> None:
        self.ann.presses(self._find(seen), label)

    async def react(self, seen: Seen, emoji: str) -> None:
        update = {
            "chat": self.server.chats[42],
            "message_id": int(seen.id),
            "user": {"id": 42, "is_bot": False, "first_name": "Ann"},
            "date": 1_700_000_000,
            "old_reaction": [],
            "new_reaction": [{"type": "emoji", "emoji": emoji}],
        }
        self.server.push("message_reaction", update)

    async def open_thread(self) -> str:
        return "7"

    async def redeliver(self) -> None:
        self.server.deliver_again()

    def _find(self, seen: Seen) -> Sent:
        return next(one for one in self.server.messages.values() if str(one.id) == seen.id)

    async def see(self, chat: str = "private", by: str = "ann") -> list[Seen]:
        where = GROUP if chat == "group" else (42 if by == "ann" else 43)
        return [
            Seen(
                str(one.id),
                one.text,
                tuple(one.buttons),
                one.file,
                str(one.topic or ""),
                str(one.answers or ""),
            )
            for one in self.server.messages.values()
            if one.chat == where
        ]

    def has_streamed(self) -> bool:
        return any(len(one.texts) > 1 for one in self.server.messages.values())

    def has_typed(self) -> bool:
        return any(method == "sendChatAction" for method, _ in self.server.calls)

    async def ask_to_wait(self, seconds: int) -> None:
        self.server.allowance[42] = 0

    async def ask_to_wait_to_edit(self, seconds: int) -> None:
        refusal = Refused(f"Too Many Requests: retry after {seconds}", 429, retry_after=seconds)
        self.server.failures.setdefault("editMessageText", deque()).append(refusal)

    async def refuse_markup(self) -> None:
        self.server.takes_entities = False

    async def outage(self, *, is_on: bool) -> None:
        for method in ("getUpdates", "sendMessage", "editMessageText", "sendChatAction"):
            if is_on:
                self.server.outages[method] = _DOWN
            else:
                self.server.outages.pop(method, None)
        self.server.end_poll()

    async def revoke(self) -> None:
        self.server.token = "another:token"
        self.server.end_poll()
