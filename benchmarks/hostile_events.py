"""CPU time of the conversion of a messenger's JSON into our events. Each value of a good sample is
replaced by the worst value that a stranger can send.

`EVENTS` names each function of a channel that makes an event; tests/hostile/test_registry.py checks
that none is missing, and that each sample is accepted.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import discord
import msgspec
import orjson
from telegram import Update

from benchmarks.hostile_mail import HERE
from benchmarks.hostile_mail import MOST as MOST_OF_MAIL
from benchmarks.hostile_requests import MOST, SHAPES, SIZES, ReadCost, cpu
from channels.discord import incoming as at_discord
from channels.discord.client import DiscordClient
from channels.feishu import reading as at_feishu
from channels.feishu.api import WireFrame
from channels.kit.messenger import ODD_SHAPE
from channels.kit.platform import Author, Location
from channels.mail.mail import open_letter
from channels.mail.reading import read as read_mail
from channels.matrix import reading as at_matrix
from channels.pipe import BadLine, inbound_of
from channels.slack import incoming as at_slack
from channels.telegram.incoming import BotIdentity, Reader
from channels.telegram.telegram import readable
from channels.wecom import reading as at_wecom
from channels.whatsapp import letters as at_whatsapp

Json = dict[str, Any]
UNITS = (
    *("a", " ", "\n", "\t", "/", "!a ", "@", "@bot ", "<", "<@", "<@1", "<@1> ", "<@1|", "<!a^"),
    *("<:a:", "<:a:1>", "<#6>", "<@&5>", "@_user_1", "@_user_", "> a\n", ">", "`", "&amp;", "&"),
    *("&#", "😀", "\\", '"', "%", "mailto:", "[a](", "|", "1.", "=?utf-8?b?"),
)
"""Pieces that a hostile text repeats."""
FEISHU_MESSAGE: Json = {
    "message": {
        "message_id": "m",
        "message_type": "post",
        "chat_id": "c",
        "chat_type": "group",
        "thread_id": "t",
        "root_id": "r",
        "create_time": "1700000000000",
        "content": {
            "title": "a",
            "content": [[{"tag": "text", "text": "@_user_1 a"}, {"tag": "img", "image_key": "k"}]],
            "text": "@_user_1 a",
            "file_key": "k",
            "file_name": "f",
        },
        "mentions": [{"key": "@_user_1", "name": "B", "id": {"open_id": "me"}}],
    },
    "sender": {"sender_type": "user", "sender_id": {"open_id": "u"}},
}
_FEISHU_BOT = at_feishu.FeishuBot("me", "Bot")
_MATRIX_BOT = at_matrix.BotUser("@bot:here", "Bot", frozenset({"help", "a"}))
_SLACK = at_slack.EventContext("UB", {"U1": Author("U1", "Ann")}, {"text": "a", "user": "U1"})
_TELEGRAM_BOT = BotIdentity(1, "bot", frozenset({"help", "a"}))
_PERSON: Json = {"id": "2", "username": "ann", "discriminator": "0", "avatar": None}
DISCORD_MESSAGE: Json = {
    **{"id": "9", "channel_id": "6", "content": "<@1> hi <@2> <#6> <:a:1>", "author": _PERSON},
    **{"type": 0, "pinned": False, "mention_everyone": False, "tts": False, "mention_roles": []},
    **{"timestamp": "2026-01-01T00:00:00+00:00", "edited_timestamp": None, "embeds": []},
    "components": [{"type": 1, "components": [{"type": 2, "style": 1, "custom_id": "a"}]}],
    "attachments": [{"id": "1", "filename": "f", "size": 1, "url": "u", "proxy_url": "u"}],
    "mentions": [_PERSON],
    "message_snapshots": [
        {
            "message": {
                **{"content": "a", "type": 0, "attachments": [], "embeds": [], "mentions": []},
                **{"timestamp": "2026-01-01T00:00:00+00:00", "edited_timestamp": None},
            }
        }
    ],
}


@dataclass(frozen=True, slots=True)
class EventReader:
    """A function that reads a body, and bodies from which it makes events. `most` is the maximum of
    seconds of CPU for 100 KB."""

    read: Callable[[Any], object]
    samples: tuple[Json, ...]
    most: float = MOST


class _Taken:
    """A handler that counts the events it receives."""

    def __init__(self) -> None:
        self.events: list[object] = []

    async def take(self, events: Any) -> None:
        self.events += events


def _at_telegram(body: Json) -> object:
    taken = _Taken()
    reader = Reader(taken, _TELEGRAM_BOT, lambda: "user", {})  # type: ignore[arg-type]
    update = Update.de_json(readable(body), None)
    coroutine = reader.take([update])
    with suppress(StopIteration):
        coroutine.send(None)
    return taken.events


def _feishu_message(body: Json) -> object:
    message = {**body["message"], "content": json.dumps(body["message"].get("content"))}
    return at_feishu.read_message({**body, "message": message}, _FEISHU_BOT, "Ann")


def _frame(body: Json) -> object:
    content = bytes.fromhex(body["head"]) + str(body["payload"]).encode("utf-8", "replace")
    return WireFrame.load(content)


def _mail(body: Json) -> object:
    return read_mail(_raw_mail(body), "<1@imap>", "bot@example.org")


def _opened_mail(body: Json) -> object:
    """Return the part of a mail that is parsed in this process; parsing in another process does not
    count."""
    nothing = msgspec.msgpack.encode(read_mail(b"", "<1@imap>", "bot@example.org"))
    bot: Any = SimpleNamespace(run_limited=lambda *_: nothing)
    return open_letter(bot, _raw_mail(body), "<1@imap>", "bot@example.org")


def _raw_mail(body: Json) -> bytes:
    head = "\r\n".join(f"{name}: {value}" for name, value in body["fields"].items())
    return f"{head}\r\n\r\n{body['body']}".encode("utf-8", "replace")


def _line(body: object) -> object:
    with suppress(BadLine):
        return inbound_of(json.dumps(body))
    return None


@cache
def _client() -> tuple[DiscordClient, Any]:
    """Return a client that never connects, and a channel of a server."""

    async def make() -> tuple[DiscordClient, Any]:
        client = DiscordClient()
        state = client._connection
        state.user = discord.ClientUser(state=state, data={**_PERSON, "id": "1"})  # type: ignore
        channel = {"id": "6", "type": 0, "name": "c", "position": 0, "permission_overwrites": []}
        server: Any = {"id": "5", "name": "s", "channels": [channel], "member_count": 2}
        guild = discord.Guild(state=state, data=server)
        state._add_guild(guild)
        return client, guild.get_channel(6)

    return asyncio.run(make())


def _told(event: str, body: Json) -> Any:
    """Return the client's event for an event of the gateway; None if the client ignores it."""
    client, _ = _client()
    client._connection.parsers[event](body)
    return client.happened.get_nowait()[1]


def _discord_message(body: Json) -> object:
    return at_discord.read_message(_told("MESSAGE_CREATE", body), 1, "channel")


def _interaction(body: Json, read: Callable[..., object]) -> object:
    return read(_told("INTERACTION_CREATE", body), "channel")


def _discord_reaction(body: Json) -> object:
    given = _told("MESSAGE_REACTION_ADD", body)
    return at_discord.reacted(given, _client()[1], 1, "channel")


def _telegram(**more: Any) -> Json:
    person = {"id": 2, "is_bot": False, "first_name": "Ann", "language_code": "en"}
    chat = {"id": -3, "type": "supergroup", "title": "G"}
    message = {"message_id": 4, "date": 1_700_000_000, "chat": chat, "from": person}
    first = {**message, "text": "a", "from": {**person, "id": 5}}
    told = {"text": "@bot hi", "entities": [{"type": "mention", "offset": 0, "length": 4}]}
    photo = {"file_id": "f", "file_unique_id": "g", "width": 1, "height": 1}
    whole = {**message, **told, "reply_to_message": first, "photo": [photo], **more}
    return {"update_id": 1, "message": whole}


_CALLBACK: Json = {
    "update_id": 1,
    "callback_query": {
        "id": "1",
        "from": {"id": 2, "is_bot": False, "first_name": "Ann"},
        "chat_instance": "1",
        "data": "a",
        "message": {
            **{"message_id": 4, "date": 1_700_000_000, "chat": {"id": 2, "type": "private"}},
            "text": "a",
            "reply_markup": {"inline_keyboard": [[{"text": "A", "callback_data": "a"}]]},
        },
    },
}
_REACTION: Json = {
    "update_id": 1,
    "message_reaction": {
        **{"chat": {"id": 2, "type": "private"}, "message_id": 4, "date": 1_700_000_000},
        "user": {"id": 2, "is_bot": False, "first_name": "Ann"},
        "old_reaction": [{"type": "emoji", "emoji": "👍"}],
        "new_reaction": [{"type": "emoji", "emoji": "👎"}],
    },
}
_SLACK_MESSAGE: Json = {
    **{"type": "message", "channel": "C1", "ts": "1.2", "user": "U1", "text": "<@UB> a <http://a>"},
    "files": [{"id": "F", "mode": "hosted", "name": "f", "mimetype": "a/b", "size": 1}],
    "attachments": [{"is_share": True, "text": "a", "author_name": "Ann"}],
}
_SLACK_PRESS: Json = {
    "actions": [{"action_ts": "1.1", "value": "a", "text": {"text": "A"}}],
    "message": {"ts": "1.2", "thread_ts": "1.0"},
    "channel": {"id": "C1"},
}
_MATRIX_MESSAGE: Json = {
    **{"type": "m.room.message", "event_id": "$1", "sender": "@a:b"},
    "origin_server_ts": 1_700_000_000_000,
    "content": {
        **{"msgtype": "m.text", "body": "> a\n\nBot: a", "formatted_body": "a", "url": "mxc://a"},
        "m.mentions": {"user_ids": ["@bot:here"]},
        "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}},
    },
}
_WECOM_MESSAGE: Json = {
    **{"msgid": "1", "chattype": "group", "chatid": "c", "from": {"userid": "u"}},
    "msgtype": "mixed",
    "mixed": {
        "msg_item": [
            {"msgtype": "text", "text": {"content": "@Bot a"}},
            {"msgtype": "image", "image": {"url": "u", "aeskey": "k"}},
        ]
    },
    "quote": {"msgtype": "text", "text": {"content": "a"}},
}
_WHATSAPP: Json = {
    "entry": [
        {
            "changes": [
                {
                    "value": {
                        "metadata": {"phone_number_id": "1"},
                        "contacts": [{"wa_id": "2", "profile": {"name": "Ann"}}],
                        "messages": [
                            {
                                **{"from": "2", "id": "w", "timestamp": "1700000000"},
                                **{"type": "text", "text": {"body": "a"}},
                                "context": {"id": "x", "from": "1"},
                            }
                        ],
                        "statuses": [
                            {
                                **{"id": "w", "status": "failed", "recipient_id": "2"},
                                "errors": [{"code": 131026, "title": "a"}],
                            }
                        ],
                    }
                }
            ]
        }
    ]
}
_INTERACTION: Json = {
    **{"id": "9", "application_id": "1", "token": "t", "version": 1, "type": 2, "locale": "en-US"},
    **{"channel_id": "6", "channel": {"id": "6", "type": 1}, "user": _PERSON, "entitlements": []},
    "authorizing_integration_owners": {},
    "attachment_size_limit": 1,
    "data": {
        **{"id": "1", "name": "a", "type": 1, "custom_id": "a", "component_type": 2},
        "options": [{"name": "arguments", "type": 3, "value": "a"}],
    },
    "message": DISCORD_MESSAGE,
}
_MAIL: Json = {
    "fields": {
        **{"From": "Ann <a@b.example>", "Subject": "a", "Message-ID": "<1@b>"},
        **{"References": "<0@b>", "Content-Type": "text/plain; charset=utf-8"},
    },
    "body": "a",
}
EVENTS: Mapping[str, EventReader] = {
    "discord.incoming.read_message": EventReader(_discord_message, (DISCORD_MESSAGE,)),
    "discord.incoming.commanded": EventReader(
        partial(_interaction, read=at_discord.commanded), (_INTERACTION,)
    ),
    "discord.incoming.pressed": EventReader(
        partial(_interaction, read=at_discord.pressed),
        ({**_INTERACTION, "type": 3},),
    ),
    "discord.incoming.reacted": EventReader(
        _discord_reaction,
        (
            {
                **{"user_id": "2", "channel_id": "6", "message_id": "9", "type": 0},
                **{"message_author_id": "1", "emoji": {"id": None, "name": "👍"}},
            },
        ),
    ),
    "feishu.api.WireFrame.load": EventReader(
        _frame, ({"head": "08011001180120012a060a016112016142", "payload": "\x02ab"},)
    ),
    "feishu.reading.read_message": EventReader(_feishu_message, (FEISHU_MESSAGE,)),
    "feishu.reading.read_press": EventReader(
        lambda body: at_feishu.read_press(body, "p", Location("c")),
        (
            {
                "action": {"value": {"command": "a", "label": "A"}},
                "operator": {"open_id": "u"},
            },
        ),
    ),
    "mail.mail.open_letter": EventReader(_opened_mail, (_MAIL,), HERE),
    "mail.reading.read": EventReader(_mail, (_MAIL,), MOST_OF_MAIL),
    "matrix.reading.read": EventReader(
        lambda body: at_matrix.read(
            body, Author("@a:b"), Location("!r", is_group=True), _MATRIX_BOT, body
        ),
        (
            _MATRIX_MESSAGE,
            {"type": "m.reaction", "content": {"m.relates_to": {"key": "👍", "event_id": "$1"}}},
        ),
    ),
    "pipe.inbound_of": EventReader(
        _line, ({"text": "a", "chat": "c", "user": "u", "attachments": []},)
    ),
    "slack.incoming.read_message": EventReader(
        lambda body: at_slack.message_in(body) and at_slack.read_message(body, _SLACK),
        (_SLACK_MESSAGE,),
    ),
    "slack.incoming.press": EventReader(
        lambda body: at_slack.press(body, Author("U1")), (_SLACK_PRESS,)
    ),
    "slack.incoming.react": EventReader(
        lambda body: at_slack.react(body["event"], body["message"], Author("U1")),
        (
            {
                "event": {"reaction": "+1", "item": {"channel": "C1"}},
                "message": _SLACK_MESSAGE,
            },
        ),
    ),
    "slack.incoming.command": EventReader(
        lambda body: at_slack.command(body, body["text"], Author("U1")),
        ({"channel_id": "C1", "trigger_id": "1.2.a", "text": "a"},),
    ),
    "telegram.incoming.read_message": EventReader(
        _at_telegram, (_telegram(), _telegram(text="/a b"), _CALLBACK, _REACTION)
    ),
    "wecom.reading.read_message": EventReader(at_wecom.read_message, (_WECOM_MESSAGE,)),
    "wecom.reading.read_press": EventReader(
        lambda body: at_wecom.read_press(body, "p"),
        (
            {
                **{"from": {"userid": "u"}, "msgid": "1"},
                "event": {"template_card_event": {"event_key": "a"}},
            },
        ),
    ),
    "whatsapp.letters.read": EventReader(
        lambda body: list(at_whatsapp.read(body, "1", "2")), (_WHATSAPP,)
    ),
}
"""The readers, by the name of the function within the package of the channels."""


def values(size: int) -> Iterator[tuple[str, bytes]]:
    """Yield hostile values in JSON of about so many bytes, with a description each."""
    for name, make in SHAPES.items():
        yield name, make(size)
    for unit in UNITS:
        text = unit * (size // len(unit.encode()))
        yield f"{unit!r} again and again", orjson.dumps(text)


def places(sample: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the sample with `%s` in place of each of its values in turn, and the place."""
    yield from _places(sample, sample, ())


def _places(root: Any, at: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, bytes]]:
    yield ".".join(map(str, path)), orjson.dumps(_with(root, path, _HOLE)).replace(_QUOTED, b"%s")
    inner = at.items() if isinstance(at, dict) else enumerate(at) if isinstance(at, list) else ()
    for name, value in inner:
        yield from _places(root, value, (*path, name))


_HOLE = "\ue000"
_QUOTED = orjson.dumps(_HOLE)


def _with(root: Any, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    inner = _with(root[path[0]], path[1:], value)
    if isinstance(root, dict):
        return {**root, path[0]: inner}
    return [*root[: path[0]], inner, *root[int(path[0]) + 1 :]]


def measured(sizes: tuple[int, ...] = SIZES) -> Iterator[ReadCost]:
    """Yield the worst value for each reader and size."""
    gc.freeze()  # as main.py does
    for name, reader in EVENTS.items():
        for size in sizes:
            costs = [
                ReadCost(name, size, f"{what} in {place}", seconds, reader.most)
                for what, value in values(size)
                for sample in reader.samples
                for place, holed in places(sample)
                for whole in [holed.replace(b"%s", value)]
                for seconds in [cpu(partial(_read, reader.read), whole)]
            ]
            yield max(costs, key=lambda cost: cost.seconds)


def _read(read: Callable[[Any], object], content: bytes) -> None:
    with suppress(*ODD_SHAPE, AssertionError, discord.DiscordException):
        read(orjson.loads(content))
