"""Matrix: the real SDK in front of a real Synapse."""

from __future__ import annotations

import asyncio
import atexit
import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from html import unescape
from typing import Any

from msgspec import structs

from channels.base import Channel
from channels.kit.messenger import Messenger
from channels.kit.platform import Desk
from channels.matrix.matrix import Matrix
from tests.channels.contract.stage import Seen, Stage
from tests.servers.link import Link
from tests.servers.synapse import MatrixPerson, SynapseServer, running_synapse

_TAG = re.compile(r"<(/?)(\w+)([^>]*)>")
_BREAKS = {"p", "br", "tr", "pre", "ul", "blockquote", "h1", "h2", "h3", "table"}


_servers = ExitStack()
atexit.register(_servers.close)


@cache
def _server() -> SynapseServer:
    """One for all tests of a process; ended with that."""
    return _servers.enter_context(running_synapse())


class Repeating(Matrix):
    """Reads all from its first beginning again, when it is told to."""

    def __init__(self, stage: MatrixStage, token: str) -> None:
        super().__init__(f"http://127.0.0.1:{stage.link.port}", token)
        self.traits = structs.replace(
            Matrix.traits, draft=1.0, group_draft=1.0, typing=0.2, overall=1_000.0
        )
        self._stage = stage

    async def listen(self, desk: Desk) -> None:
        self._stage.first = self._stage.first or self._begin
        if self._stage.is_repeating:
            self._stage.is_repeating = False
            user = self._stage.account.user
            await desk.bot.state.set("matrix", f"since {user}", self._stage.first)
        await super().listen(desk)


class MatrixStage(Stage):
    name = "matrix"
    can = (
        *("stream", "typing", "group", "thread", "edit", "delete", "react", "picture", "voice"),
        *("redeliver", "wait", "cut", "outage", "revoke", "stranger", "file"),
    )
    first = ""
    is_repeating = False

    async def open(self) -> None:
        self.server = _server()
        self.account = self.server.register("parley")
        self.people = {name: MatrixPerson(self.server, name) for name in ("ann", "bob")}
        ann, bob = self.people["ann"], self.people["bob"]
        self.owner, self.secrets = ann.user, (self.account.token,)
        self.rooms = {name: one.chat_with(self.account.user) for name, one in self.people.items()}
        self.group = ann.make_room(self.account.user, bob.user)
        bob.joins(self.group)
        self.link = await Link(self.server.port).__aenter__()

    async def close(self) -> None:
        await self.link.__aexit__(None, None, None)

    def channel(self, settings: Callable[[], Any]) -> Channel:
        async def sleep(seconds: float) -> None:
            await asyncio.sleep(min(seconds, 0.2))

        return Messenger(Repeating(self, self.account.token), sleep)

    def _room(self, chat: str, by: str) -> str:
        return self.group if chat == "group" else self.rooms[by]

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
        return self.people[by].says(self._room(chat, by), text, **more)

    async def send_file(self, name: str, content: bytes, media_type: str, text: str = "") -> str:
        kinds = {"image": "m.image", "audio": "m.audio"}
        kind = kinds.get(media_type.partition("/")[0], "m.file")
        more = {"filename": name, "body": text} if text else {}
        room = self.rooms["ann"]
        return self.people["ann"].sends_file(room, kind, content, media_type, name, **more)

    async def edit(self, message: str, text: str) -> None:
        self.people["ann"].edits(self.rooms["ann"], message, text)

    async def delete(self, message: str) -> None:
        self.people["ann"].deletes(self.rooms["ann"], message)

    async def react(self, seen: Seen, emoji: str) -> None:
        self.people["ann"].reacts(self.rooms["ann"], seen.id, emoji)

    async def open_thread(self) -> str:
        return await self.say("About tea", "group", mention=False)

    async def redeliver(self) -> None:
        self.is_repeating = True
        self.link.reset()

    async def see(self, chat: str = "private", by: str = "ann") -> list[Seen]:
        found: dict[str, Seen] = {}
        for event in self.people[by].reads(self._room(chat, by)):
            content = event["content"]
            if event["sender"] != self.account.user or event["type"] != "m.room.message":
                continue
            relation = content.get("m.relates_to", {})
            if relation.get("rel_type") == "m.replace":
                target = relation["event_id"]
                if target in found:
                    new = words_of(content["m.new_content"])
                    found[target] = replace(found[target], text=new)
            elif content:  # it is there still
                found[event["event_id"]] = self._seen(event["event_id"], content, relation, by)
        return [*found.values()]

    def _seen(self, event: str, content: dict[str, Any], relation: dict[str, Any], by: str) -> Seen:
        thread = relation["event_id"] if relation.get("rel_type") == "m.thread" else ""
        answers = "" if thread else relation.get("m.in_reply_to", {}).get("event_id", "")
        file = self.people[by].downloads(content["url"]) if "url" in content else b""
        return Seen(event, words_of(content), (), file, thread, answers)

    def has_streamed(self) -> bool:
        return any(
            event["content"].get("m.relates_to", {}).get("rel_type") == "m.replace"
            for event in self.people["ann"].reads(self.rooms["ann"])
            if event["sender"] == self.account.user
        )

    def has_typed(self) -> bool:
        rooms = self.people["ann"].call("GET", "sync")["rooms"]["join"]
        shown = rooms[self.rooms["ann"]]["ephemeral"]["events"]
        return any(self.account.user in event["content"].get("user_ids", ()) for event in shown)

    async def ask_to_wait(self, seconds: int) -> None:
        self.server.limit(self.account, per_second=1, at_once=1)

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
    """A message as an app shows it: lists that are numbered have numbers."""
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
