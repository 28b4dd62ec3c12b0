"""The people of a workspace of `SlackServer`, and the bot's messages there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fakes.slack_blocks import visible

if TYPE_CHECKING:
    from tests.fakes.slack_server import SlackServer

Json = dict[str, Any]

BOT_USER, BOT_ID, TEAM, APP = "U0PARLEY", "B0PARLEY", "T0HOUSE", "A0PARLEY"


@dataclass
class SlackMessage:
    """A message of any author. `texts` are all texts that it ever showed; `user` is the author."""

    ts: str
    channel: str
    user: str
    thread: str = ""
    texts: list[str] = field(default_factory=list)
    blocks: list[Json] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    is_edited: bool = False
    is_tombstone: bool = False

    @property
    def text(self) -> str:
        return self.texts[-1]

    @property
    def buttons(self) -> dict[str, str]:
        rows = [block["elements"] for block in self.blocks if block["type"] == "actions"]
        return {button["text"]["text"]: button["value"] for row in rows for button in row}

    def marked(self, style: str) -> list[str]:
        """Return the words that are bold, italic, struck through or code; "pre" is code in
        blocks."""
        found = [_inner(element) for block in self.blocks for element in block.get("elements", ())]
        if style == "pre":
            kind = "rich_text_preformatted"
            return [
                "".join(one["text"] for one in element["elements"])
                for block in self.blocks
                for element in block["elements"]
                if element["type"] == kind
            ]
        return [one["text"] for some in found for one in some if one.get("style", {}).get(style)]

    def show(self, text: str, blocks: list[Json]) -> None:
        self.texts.append(visible(blocks) if blocks else text)
        self.blocks = blocks

    def as_json(self) -> Json:
        """Return the message in the format of events and methods."""
        said: Json = {"type": "message", "user": self.user, "text": self.text, "ts": self.ts}
        if self.user == BOT_USER:
            said |= {"bot_id": BOT_ID, "app_id": APP, "blocks": self.blocks}
        if self.thread:
            said["thread_ts"] = self.thread
        if self.is_tombstone:
            said |= {"subtype": "tombstone", "user": "USLACKBOT", "hidden": True}
        if self.is_edited:
            said["edited"] = {"user": self.user, "ts": self.ts}
        return said


def _inner(element: Json) -> list[Json]:
    """Return the words of an element of a rich text."""
    if element["type"] == "button":
        return []
    inner: list[Json] = []
    for one in element["elements"]:
        inner += _inner(one) if "elements" in one else [one]
    return inner


class SlackPerson:
    """A person in the workspace, who has a private chat with the bot."""

    def __init__(self, server: SlackServer, id: str, name: str, locale: str = "en-US") -> None:
        self.server, self.id, self.name, self.locale = server, id, name, locale
        self.dm = f"D{id[1:]}"

    def says(self, text: str, channel: str = "", thread: str = "", **more: Any) -> SlackMessage:
        """Write a message; `more` are other fields of its event."""
        message = self.server.keep(channel or self.dm, self.id, text, thread)
        event = {**message.as_json(), **more}
        if thread:
            event["parent_user_id"] = self.server.messages[message.channel, thread].user
        self.server.say(message, event)
        return message

    def mentions(self, text: str, channel: str, thread: str = "", **more: Any) -> SlackMessage:
        """Write to the bot in a channel."""
        return self.says(f"<@{BOT_USER}> {text}", channel, thread, **more)

    def sends(
        self, name: str, content: bytes, kind: str, text: str = "", channel: str = ""
    ) -> SlackMessage:
        """Send a message with a file."""
        file = self.server.store(name, content, kind, self.id)
        return self.says(text, channel, subtype="file_share", files=[file], upload=True)

    def edits(self, message: SlackMessage, text: str) -> None:
        before = message.as_json()
        message.texts.append(text)
        message.is_edited = True
        self.server.change(message, before)

    def deletes(self, message: SlackMessage) -> None:
        """Delete a message. A message with replies in a thread is replaced by a tombstone, and the
        thread stays open."""
        if any(one.thread == message.ts for one in self.server.messages.values()):
            before = message.as_json()
            message.texts.append("This message was deleted.")
            message.is_tombstone = True
            self.server.change(message, before)
            return
        del self.server.messages[message.channel, message.ts]
        self.server.emit_message(
            message.channel,
            {
                **{"type": "message", "subtype": "message_deleted", "hidden": True},
                **{"channel": message.channel, "deleted_ts": message.ts},
                **{"ts": self.server.now(), "previous_message": message.as_json()},
            },
        )

    def presses(self, message: SlackMessage, label: str) -> None:
        """Press a button of the bot."""
        rows = [block["elements"] for block in message.blocks if block["type"] == "actions"]
        button = next(one for row in rows for one in row if one["text"]["text"] == label)
        container = {"type": "message", "message_ts": message.ts, "channel_id": message.channel}
        self.server.interact(
            {
                **{"type": "block_actions", "api_app_id": APP, "team": {"id": TEAM}},
                "user": {"id": self.id, "username": self.name.lower(), "name": self.name.lower()},
                "container": {**container, "is_ephemeral": False},
                "channel": {"id": message.channel, "name": "somewhere"},
                "message": message.as_json(),
                "trigger_id": f"1.2.{self.server.now()}",
                "response_url": f"{self.server.base_url}/respond?to={self.id}",
                "actions": [{**button, "block_id": "b1", "action_ts": self.server.now()}],
            }
        )

    def reacts(self, message: SlackMessage, name: str) -> None:
        """Add an emoji to a message, by its name at Slack ("+1")."""
        item = {"type": "message", "channel": message.channel, "ts": message.ts}
        event = {"type": "reaction_added", "user": self.id, "reaction": name, "item": item}
        self.server.emit({**event, "item_user": message.user, "event_ts": self.server.now()})

    def commands(self, text: str, channel: str = "", command: str = "/parley") -> None:
        """Send a slash command."""
        self.server.slash(
            {
                **{"team_id": TEAM, "api_app_id": APP, "command": command, "text": text},
                **{"channel_id": channel or self.dm, "channel_name": "directmessage"},
                **{"user_id": self.id, "user_name": self.name.lower()},
                **{"trigger_id": f"1.2.{self.server.now()}"},
                "response_url": f"{self.server.base_url}/respond?to={self.id}",
            }
        )

    def opens_assistant(self) -> str:
        """Begin a thread in the Assistant view, and return it."""
        root = self.server.keep(self.dm, BOT_USER, "New Assistant Thread")
        thread = {"user_id": self.id, "channel_id": self.dm, "thread_ts": root.ts, "context": {}}
        event = {"type": "assistant_thread_started", "assistant_thread": thread}
        self.server.emit({**event, "event_ts": self.server.now()})
        return root.ts
