"""The people of the fake Discord: their messages, presses and reactions, as gateway events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.fakes.discord_rules import Pending, SentMessage

if TYPE_CHECKING:
    from tests.fakes.discord_server import DiscordServer, Json


@dataclass
class DiscordPerson:
    """A person who writes to the bot, in `channel`: their direct messages, a channel, a thread."""

    server: DiscordServer
    number: int
    channel: int
    locale: str = "en-US"

    def at(self, channel: int) -> DiscordPerson:
        """Return the same person in a channel of the server, or in a thread."""
        return DiscordPerson(self.server, self.number, channel, self.locale)

    @property
    def user(self) -> Json:
        return self.server.people[self.number]

    def says(self, text: str, *, answers: int = 0, **more: Any) -> int:
        """Write a message; return its id."""
        message = self.message(text, answers=answers, **more)
        self.server.said[int(message["id"])] = message
        self.server.gateway.tell("MESSAGE_CREATE", message)
        return int(message["id"])

    def writes_unheard(self, text: str) -> int:
        """Write while no session is connected: only a bot that fetches messages will see it."""
        message = self.message(text)
        self.server.said[int(message["id"])] = message
        return int(message["id"])

    def edits(self, number: int, text: str) -> None:
        before = self.server.said[number]
        changed = self.message(text, number=number) | {"edited_timestamp": self.server.now()}
        self.server.said[number] = before | changed | {"timestamp": before["timestamp"]}
        self.server.gateway.tell("MESSAGE_UPDATE", self.server.said[number])

    def gets_preview(self, number: int) -> None:
        """Add Discord's preview below a message: an update that no person has made."""
        message = self.server.said[number]
        self.server.gateway.tell("MESSAGE_UPDATE", message | {"embeds": [{"type": "link"}]})

    def deletes(self, number: int) -> None:
        del self.server.said[number]
        gone: Json = {"id": str(number), "channel_id": str(self.channel)} | self._guild()
        self.server.gateway.tell("MESSAGE_DELETE", gone)

    def sends_file(self, name: str, content: bytes, kind: str, text: str = "", **more: Any) -> int:
        return self.says(
            text, attachments=[self.server.attach(self.channel, name, content, kind)], **more
        )

    def uses(self, command: str, arguments: str = "", *, is_late: bool = False) -> int:
        """Use a slash command, as the app offers it; return the interaction's id. One that
        `is_late` reaches the bot after Discord's time limit."""
        offered = {one["name"]: one for one in self.server.commands}
        assert command in offered, f"/{command} is not among {sorted(offered)}"
        option = {"name": "arguments", "type": 3, "value": arguments}
        data: Json = {
            "id": "77",
            "name": command,
            "type": 1,
            "options": [option] if arguments else [],
        }
        return self._interacts(2, data, age=4.0 if is_late else 0.0).id

    def presses(self, sent: SentMessage, label: str) -> int:
        """Press a button below a message of the bot."""
        data: Json = {"custom_id": sent.buttons[label], "component_type": 2}
        return self._interacts(3, data, {"message": self.server.as_message(sent)}).id

    def reacts(self, number: int, emoji: str) -> None:
        """Add an emoji to a message."""
        sent = self.server.messages.get(number)
        author = self.server.said[number]["author"] if sent is None else self.server.bot
        reaction: Json = {"user_id": str(self.number), "channel_id": str(self.channel)}
        reaction |= {"message_id": str(number), "message_author_id": author["id"], "type": 0}
        reaction |= {"emoji": {"id": None, "name": emoji}, "burst": False} | self._guild()
        if "guild_id" in reaction:
            reaction["member"] = self._member() | {"user": self.user}
        self.server.gateway.tell("MESSAGE_REACTION_ADD", reaction)

    def message(self, text: str, *, number: int = 0, answers: int = 0, **more: Any) -> Json:
        """Return a message in Discord's form."""
        number = number or self.server.snowflake()
        mentioned = [user for user in self.server.everybody if f"<@{user['id']}>" in text]
        message: Json = {
            **{"id": str(number), "channel_id": str(self.channel), "author": self.user},
            **{"content": text, "timestamp": self.server.now(), "edited_timestamp": None},
            **{"tts": False, "mention_everyone": False, "mention_roles": [], "attachments": []},
            **{"mentions": mentioned, "embeds": [], "pinned": False, "type": 0, "components": []},
        }
        message |= self._guild() | more
        if "guild_id" in message:
            message["member"] = self._member()
            role = f"<@&{self.server.own_role}>"
            message["mention_roles"] = [str(self.server.own_role)] if role in text else []
        if answers:
            first = self.server.find(answers)
            message |= {"type": 19, "referenced_message": first, "message_reference": {"type": 0}}
            message["message_reference"] |= {
                "message_id": str(answers),
                "channel_id": str(self.channel),
            }
        return message

    def _interacts(
        self, kind: int, data: Json, more: Json | None = None, age: float = 0.0
    ) -> Pending:
        number, token = self.server.snowflake(), f"token{self.server.snowflake()}"
        pending = Pending(number, kind, self.channel, token, self.server.clock() - age)
        self.server.interactions[number] = pending
        interaction: Json = {
            **{"id": str(number), "application_id": self.server.bot["id"], "type": kind},
            **{"token": token, "version": 1, "data": data, "locale": self.locale},
            **{"channel_id": str(self.channel), "channel": self.server.channel(self.channel)},
            **{"attachment_size_limit": 10 * 2**20, "entitlements": [], "app_permissions": "0"},
            **{"authorizing_integration_owners": {}},
        }
        who: Json = {"user": self.user}
        if self._guild():
            member = self._member() | {"user": self.user, "permissions": "0"}
            who = {
                "member": member,
                "guild": {"id": str(self._guild()["guild_id"])},
            } | self._guild()
        self.server.gateway.tell("INTERACTION_CREATE", interaction | who | (more or {}))
        return pending

    def _guild(self) -> Json:
        is_direct = self.server.is_direct(self.channel)
        return {} if is_direct else {"guild_id": str(self.server.guild)}

    def _member(self) -> Json:
        joined = {"roles": [], "joined_at": self.server.now(), "deaf": False, "mute": False}
        return joined | {"flags": 0, "nick": None}
