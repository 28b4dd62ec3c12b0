"""Matrix: the real SDK with a real Synapse."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import quote

from msgspec import structs

from channels.base import Channel
from channels.kit.messenger import Messenger
from channels.kit.platform import IncomingHandler
from channels.matrix.matrix import Matrix
from tests.channels.clock import quick_sleep
from tests.channels.contract.stage import Seen, Stage
from tests.servers.link import Link
from tests.servers.synapse import MatrixPerson, SynapseServer

_TAG = re.compile(r"<(/?)(\w+)([^>]*)>")
_BRIEF = quote('{"room": {"timeline": {"limit": 1}}}')
_BREAKS = {"p", "br", "tr", "pre", "ul", "blockquote", "h1", "h2", "h3", "table"}


class Repeating(Matrix):
    """A platform that rereads everything from the beginning on request."""

    def __init__(self, stage: MatrixStage, token: str) -> None:
        super().__init__(f"http://127.0.0.1:{stage.link.port}", token)
        self.traits = structs.replace(
            Matrix.traits, draft=1.0, group_draft=1.0, typing=0.2, overall=1_000.0
        )
        self._stage = stage

    async def listen(self, handler: IncomingHandler) -> None:
        self._stage.first = self._stage.first or self._begin
        if self._stage.is_repeating:
            self._stage.is_repeating = False
            user = self._stage.account.user
            await handler.bot.state.set("matrix", f"since {user}", self._stage.first)
        await super().listen(handler)


class MatrixStage(Stage):
    name, server_fixture = "matrix", "synapse"
    can = (
        *(
            "stream",
            "settle",
            "typing",
            "group",
            "thread",
            "edit",
            "delete",
            "react",
            "picture",
            "voice",
        ),
        *("redeliver", "wait", "cut", "outage", "revoke", "stranger", "file"),
    )
    first = ""
    is_repeating = False

    def use(self, server: SynapseServer) -> None:
        self.server = server

    async def open(self) -> None:
        self.account = self.server.register("parley")
        self.people = {"ann": MatrixPerson(self.server, "ann")}
        self.rooms: dict[str, str] = {}  # "group", and the room of each person
        self.owner, self.secrets = self.people["ann"].user, (self.account.token,)
        self.link = await Link(self.server.port).__aenter__()
        self.files: dict[str, bytes] = {}
        self.since: dict[str, str] = {}  # the position up to which each person has read

    async def close(self) -> None:
        await self.link.__aexit__(None, None, None)

    def channel(self, settings: Callable[[], Any]) -> Channel:
        return Messenger(Repeating(self, self.account.token), quick_sleep)

    def _person(self, by: str) -> MatrixPerson:
        if by not in self.people:
            self.people[by] = MatrixPerson(self.server, by)
        return self.people[by]

    def _room(self, chat: str, by: str) -> str:
        """Return a room, created on first use, since that takes a while."""
        name = "group" if chat == "group" else by
        if name not in self.rooms:
            self.rooms[name] = self._make_room(name)
        return self.rooms[name]

    def _make_room(self, name: str) -> str:
        bot = self.account.user
        if name != "group":
            return self._person(name).chat_with(bot)
        bob = self._person("bob")
        room = self.people["ann"].shrink_request(bot, bob.user)
        bob.joins(room)
        return room

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
        more: dict[str, Any] = {"m.mentions": {}}
        if chat == "group" and mention and not text.startswith("/"):
            text = f"Parley: {text}"
            more = {"m.mentions": {"user_ids": [self.account.user]}}
        if thread:
            more["m.relates_to"] = {"rel_type": "m.thread", "event_id": thread}
        return self._person(by).says(self._room(chat, by), text, **more)

    async def send_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        kinds = {"image": "m.image", "audio": "m.audio"}
        kind = kinds.get(media_type.partition("/")[0], "m.file")
        more = {"filename": name, "body": text} if text else {}
        room = self._room("private", "ann")
        return self.people["ann"].sends_file(room, kind, content, media_type, name, **more)

    async def edit(self, message: str, text: str) -> None:
        self.people["ann"].edits(self._room("private", "ann"), message, text)

    async def delete(self, message: str) -> None:
        self.people["ann"].deletes(self._room("private", "ann"), message)

    async def react(self, seen: Seen, emoji: str) -> None:
        self.people["ann"].reacts(self._room("private", "ann"), seen.id, emoji)

    async def open_thread(self) -> str:
        return await self.say("About tea", "group", mention=False)

    async def redeliver(self) -> None:
        self.is_repeating = True
        self.link.reset()

    async def wait_for_news(self, by: str) -> None:
        query = f"sync?filter={_BRIEF}&timeout=200"
        if since := self.since.get(by):
            query += f"&since={since}"
        news = await asyncio.to_thread(self._person(by).call, "GET", query)
        self.since[by] = news["next_batch"]

    async def see(self, chat: str = "private", by: str = "ann") -> list[Seen]:
        found: dict[str, Seen] = {}
        events = await asyncio.to_thread(self._person(by).reads, self._room(chat, by))
        for event in events:
            content = event["content"]
            if event["sender"] != self.account.user or event["type"] != "m.room.message":
                continue
            relation = content.get("m.relates_to", {})
            if relation.get("rel_type") == "m.replace":
                target = relation["event_id"]
                if target in found:
                    new = words_of(content["m.new_content"])
                    found[target] = replace(found[target], text=new)
            elif content:  # it still exists
                found[event["event_id"]] = self._seen(event["event_id"], content, relation, by)
        return [*found.values()]

    def _seen(self, event: str, content: dict[str, Any], relation: dict[str, Any], by: str) -> Seen:
        thread = relation["event_id"] if relation.get("rel_type") == "m.thread" else ""
        answers = "" if thread else relation.get("m.in_reply_to", {}).get("event_id", "")
        file = b""
        if url := content.get("url"):
            file = self.files[url] = self.files.get(url) or self._person(by).downloads(url)
        return Seen(event, words_of(content), (), file, thread, answers)

    def has_streamed(self) -> bool:
        return any(
            event["content"].get("m.relates_to", {}).get("rel_type") == "m.replace"
            for event in self.people["ann"].reads(self._room("private", "ann"))
            if event["sender"] == self.account.user
        )

    def has_typed(self) -> bool:
        rooms = self.people["ann"].call("GET", "sync")["rooms"]["join"]
        shown = rooms[self._room("private", "ann")]["ephemeral"]["events"]
        return any(self.account.user in event["content"].get("user_ids", ()) for event in shown)

    async def ask_to_wait(self, seconds: int) -> None:
        self.server.limit(self.account, per_second=5, at_once=1)

    async def cut(self) -> None:
        self.link.reset()

    async def outage(self, *, is_on: bool) -> None:
        if is_on:
            self.link.take_down()
        else:
            self.link.mend()

    async def revoke(self) -> None:
        self.server.request("POST", "/_matrix/client/v3/logout", {}, self.account.token)
        self.link.reset()


def words_of(content: dict[str, Any]) -> str:
    """Return a message as an app shows it: numbered lists have numbers."""
    if "formatted_body" not in content:
        return str(content["body"])
    counts: list[int | None] = []

    def show(tag: re.Match[str]) -> str:
        is_end, name, more = bool(tag[1]), tag[2], tag[3]
        if name in ("ol", "ul"):
            start = re.search(r'start="(\d+)"', more)
            if is_end:
                counts.pop()
            else:
                counts.append((int(start[1]) if start else 1) if name == "ol" else None)
        if name == "li" and not is_end and counts:
            number = counts[-1]
            if number is None:
                return "\n- "
            counts[-1] = number + 1
            return f"\n{number}. "
        return "\n" if name in _BREAKS else " " if name in ("td", "th") else ""

    shown = unescape(_TAG.sub(show, content["formatted_body"]))
    return re.sub(r"(\d\. )\n+", r"\1", shown).strip()
