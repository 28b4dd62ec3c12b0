"""A strict Bot API on the loopback interface, and the people who write to the bot.

It refuses what Telegram refuses, in Telegram's words: texts that are empty or too long, entities
out of bounds, invalid markup, edits without a change, buttons with too much data, files that are
too large, missing topics and messages, too many messages, a wrong token.

async with TelegramServer() as telegram:
    ann = telegram.person("Ann", 42)
    ann.says("Hello!")
    message = await telegram.shown("Hello, Ann!")
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from tests.fakes.platform import Platform

Json = dict[str, Any]

TOKEN = "123456:AAtest-test-test-test-test-test-tes"
BOT: Json = {"id": 123456, "is_bot": True, "first_name": "Parley", "username": "parley_bot"}
LONGEST_TEXT, LONGEST_CAPTION = 4096, 1024
LARGEST_PHOTO, LARGEST_UPLOAD, LARGEST_DOWNLOAD = 10**7, 5 * 10**7, 2 * 10**7
ENTITIES = {
    *("bold", "italic", "underline", "strikethrough", "spoiler", "blockquote", "code", "pre"),
    *("expandable_blockquote", "text_link", "mention", "bot_command", "url"),
}


class Refused(Exception):
    """An error response of the Bot API."""

    def __init__(self, description: str, code: int = 400, retry_after: int = 0) -> None:
        super().__init__(description)
        self.code, self.retry_after = code, retry_after


@dataclass
class Sent:
    """A message of the bot. `texts` are all texts that it ever showed; it replies to `answers`."""

    id: int
    chat: int
    topic: int
    texts: list[str]
    entities: list[Json]
    markup: Json
    answers: int
    file: bytes = b""

    @property
    def text(self) -> str:
        return self.texts[-1]

    @property
    def buttons(self) -> dict[str, str]:
        rows = self.markup.get("inline_keyboard", [])
        return {button["text"]: button["callback_data"] for row in rows for button in row}


class TelegramServer(Platform[Sent]):
    """The server, on a free port; an asynchronous context manager. `calls` are all requests that
    reached it; `failures` are the responses to the next requests of a method, `outages` those to
    all requests; `allowance` is the number of messages that a chat accepts before one 429."""

    def __init__(self, token: str = TOKEN) -> None:
        super().__init__()
        self.token = token
        self.calls: list[tuple[str, Json]] = []
        self.messages: dict[tuple[int, int], Sent] = {}
        self.failures: dict[str, deque[Refused]] = {}
        self.outages: dict[str, Refused] = {}
        self.allowance: dict[int, int] = {}
        self.chats: dict[int, Json] = {}
        self.topics: set[tuple[int, int]] = set()
        self.blocked: set[int] = set()
        self.takes_entities = True
        self.hook_address = ""
        self.files: dict[str, bytes] = {}
        self.commands: list[Json] = []
        self.translated: dict[str, list[Json]] = {}  # the same by language
        self.webhook: Json = {}
        self.confirmed = 0
        self._updates: list[Json] = []
        self._received: set[tuple[int, int]] = set()
        self._queries: set[str] = set()
        self._polls, self._is_held = 0, False

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=10**8)
        app.router.add_route("*", "/bot{token}/{method}", self._answer)
        app.router.add_get("/file/bot{token}/{path:.*}", self._download)
        return app

    # Actions of people.

    def person(self, name: str, id: int) -> Person:
        """Return a person in a private chat with the bot."""
        user = {"id": id, "is_bot": False, "first_name": name}
        self.chats[id] = {"id": id, "type": "private", "first_name": name}
        return Person(self, user, id)

    def group(self, id: int, *, is_forum: bool = False) -> int:
        """Create a group that includes the bot."""
        self.chats[id] = {"id": id, "type": "supergroup", "title": "The group"}
        if is_forum:
            self.chats[id]["is_forum"] = True
        return id

    def push(self, kind: str, what: Json) -> None:
        """Queue an update for the bot."""
        self._updates.append({"update_id": next(self._numbers), kind: what})
        self._notice()

    def deliver_again(self) -> None:
        """Queue all earlier updates once more."""
        for update in tuple(self._updates):
            self._updates.append({**update, "update_id": next(self._numbers)})
        self._notice()

    async def call_webhook(self, update: Json, secret: str = "") -> int:
        """Send one update to the bot's webhook as Telegram does; return the status of the
        response."""
        headers = {"X-Telegram-Bot-Api-Secret-Token": secret or self.webhook["secret_token"]}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.webhook["local"], json=update, headers=headers) as response,
        ):
            return response.status

    # Waits for tests.

    def _sent(self, chat: int | None) -> Iterable[Sent]:
        return (one for one in reversed(self.messages.values()) if not chat or one.chat == chat)

    async def called(self, method: str, times: int = 1) -> list[Json]:
        """Return the parameters of all requests of a method, once there are that many."""
        await self.until(lambda: len(self.made(method)) >= times)
        return self.made(method)

    def made(self, method: str) -> list[Json]:
        return [parameters for name, parameters in self.calls if name == method]

    @property
    def texts(self) -> list[str]:
        """Return the current texts of the bot's messages, in order."""
        return [sent.text for sent in self.messages.values()]

    # The Bot API.

    async def _answer(self, request: web.Request) -> web.Response:
        token, method = request.match_info["token"], request.match_info["method"]
        if token != self.token:
            return _error(Refused("Unauthorized", 401))
        form = await request.post()
        parameters = {
            name: str(value) if name in ("text", "caption") else _parsed(value)
            for name, value in form.items()
        }
        self.calls.append((method, parameters))
        try:
            if outage := self.outages.get(method):
                raise outage
            if failures := self.failures.get(method):
                raise failures.popleft()
            execute = getattr(self, f"_{_snake(method)}", None)
            if execute is None:
                raise Refused("Not Found", 404)
            result = await execute(parameters)
        except Refused as refusal:
            return _error(refusal)
        finally:
            self._notice()
        return web.json_response({"ok": True, "result": result})

    async def _get_me(self, parameters: Json) -> Json:
        return {**BOT, "can_join_groups": True, "can_read_all_group_messages": False}

    async def _delete_webhook(self, parameters: Json) -> bool:
        self.webhook = {}
        return True

    async def _set_webhook(self, parameters: Json) -> bool:
        if not parameters["url"].startswith("https://"):
            raise Refused("Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        if not re.fullmatch(r"[\w-]{1,256}", parameters.get("secret_token", "-")):
            raise Refused("Bad Request: secret token contains unallowed characters")
        self.webhook = parameters
        return True

    @property
    def unconfirmed(self) -> list[int]:
        """Return the numbers of updates that would be delivered again: those from the offset on."""
        numbers = (int(update["update_id"]) for update in self._updates)
        return [number for number in numbers if number >= self.confirmed]

    def end_poll(self) -> None:
        """Answer the pending long poll, as at its timeout."""
        self._is_held = False
        self._notice()

    async def _get_updates(self, parameters: Json) -> list[Json]:
        if self.webhook:
            raise Refused("Conflict: can't use getUpdates method while webhook is active", 409)
        offset, seconds = int(parameters.get("offset", 0)), float(parameters.get("timeout", 0))
        self.confirmed = max(self.confirmed, offset)
        allowed = parameters.get("allowed_updates") or []

        def waiting() -> list[Json]:
            new = (u for u in self._updates if u["update_id"] >= self.confirmed)
            return [u for u in new if not allowed or set(u) & set(allowed)][:100]

        self._polls += 1
        poll, self._is_held = self._polls, True
        self._notice()
        with suppress(TimeoutError):
            async with self._changed:
                await asyncio.wait_for(
                    self._changed.wait_for(
                        lambda: waiting() or self._polls != poll or not self._is_held
                    ),
                    seconds,
                )
        if self._polls != poll:
            raise Refused("Conflict: terminated by other getUpdates request", 409)
        return waiting()

    async def _set_my_commands(self, parameters: Json) -> bool:
        commands = parameters["commands"]
        if len(commands) > 100:
            raise Refused("Bad Request: BOT_COMMANDS_TOO_MUCH")
        for command in commands:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", command["command"]):
                raise Refused("Bad Request: BOT_COMMAND_INVALID")
            if not 1 <= len(command["description"]) <= 256:
                raise Refused("Bad Request: BOT_COMMAND_DESCRIPTION_INVALID")
        if language := parameters.get("language_code"):
            self.translated[language] = commands
        else:
            self.commands = commands
        return True

    async def _send_chat_action(self, parameters: Json) -> bool:
        self._check_place(parameters)
        if parameters["action"] not in ("typing", "upload_photo", "upload_document"):
            raise Refused("Bad Request: wrong parameter action in request")
        return True

    async def _send_message(self, parameters: Json) -> Json:
        self._check_place(parameters)
        text, entities = self._checked_text(parameters)
        self._check_flood(parameters)
        return self._keep(parameters, text, entities)

    async def _edit_message_text(self, parameters: Json) -> Json:
        key = int(parameters["chat_id"]), int(parameters["message_id"])
        if key not in self.messages:
            raise Refused("Bad Request: message to edit not found")
        sent, markup = self.messages[key], _checked_markup(parameters)
        text, entities = self._checked_text(parameters)
        if (text, entities, markup) == (sent.text, sent.entities, sent.markup):
            raise Refused(
                "Bad Request: message is not modified: specified new message content and reply "
                "markup are exactly the same as a current content and reply markup of the message"
            )
        self._check_flood(parameters)
        sent.texts.append(text)
        sent.entities, sent.markup = entities, markup
        return self._as_message(sent)

    async def _delete_message(self, parameters: Json) -> bool:
        key = int(parameters["chat_id"]), int(parameters["message_id"])
        if self.messages.pop(key, None) is None:
            raise Refused("Bad Request: message to delete not found")
        return True

    async def _send_photo(self, parameters: Json) -> Json:
        content = parameters["photo"]
        if len(content) > LARGEST_PHOTO:
            raise Refused("Request Entity Too Large", 413)
        if not content.startswith((b"\x89PNG", b"\xff\xd8")):
            raise Refused("Bad Request: IMAGE_PROCESS_FAILED")
        return self._keep_file(parameters, content)

    async def _send_voice(self, parameters: Json) -> Json:
        content = parameters["voice"]
        if not content.startswith(b"OggS"):
            raise Refused("Bad Request: VOICE_MESSAGES_FORBIDDEN")
        return self._keep_file(parameters, content)

    async def _send_document(self, parameters: Json) -> Json:
        if len(parameters["document"]) > LARGEST_UPLOAD:
            raise Refused("Request Entity Too Large", 413)
        return self._keep_file(parameters, parameters["document"])

    async def _answer_callback_query(self, parameters: Json) -> bool:
        if parameters["callback_query_id"] not in self._queries:
            raise Refused(
                "Bad Request: query is too old and response timeout expired or query ID is invalid"
            )
        self._queries.remove(parameters["callback_query_id"])
        return True

    async def _get_file(self, parameters: Json) -> Json:
        name = parameters["file_id"]
        if name not in self.files:
            raise Refused("Bad Request: invalid file_id")
        if len(self.files[name]) > LARGEST_DOWNLOAD:
            raise Refused("Bad Request: file is too big")
        return {"file_id": name, "file_unique_id": name, "file_path": f"files/{name}"}

    async def _download(self, request: web.Request) -> web.Response:
        name = request.match_info["path"].removeprefix("files/")
        if request.match_info["token"] != self.token or name not in self.files:
            return web.Response(status=404)
        return web.Response(body=self.files[name])

    # The rules.

    def _check_place(self, parameters: Json) -> None:
        chat = int(parameters["chat_id"])
        if chat not in self.chats:
            raise Refused("Bad Request: chat not found")
        if chat in self.blocked:
            raise Refused("Forbidden: bot was blocked by the user", 403)
        topic = int(parameters.get("message_thread_id", 0))
        if topic and (chat, topic) not in self.topics:
            raise Refused("Bad Request: message thread not found")
        answered = parameters.get("reply_parameters")
        if answered and not answered.get("allow_sending_without_reply"):
            key = (chat, answered["message_id"])
            if key not in self.messages and key not in self._received:
                raise Refused("Bad Request: message to be replied not found")

    def _checked_text(self, parameters: Json) -> tuple[str, list[Json]]:
        text: str = parameters.get("text", "")
        entities = _checked_entities(text, parameters)
        if entities and not self.takes_entities:
            raise Refused("Bad Request: can't parse entities: not today")
        return text, entities

    def _check_flood(self, parameters: Json) -> None:
        chat = int(parameters["chat_id"])
        left = self.allowance.get(chat)
        if left is None:
            return
        if left == 0:
            del self.allowance[chat]
            raise Refused("Too Many Requests: retry after 7", 429, retry_after=7)
        self.allowance[chat] = left - 1

    # The state.

    def _keep(self, parameters: Json, text: str, entities: list[Json]) -> Json:
        sent = Sent(
            id=next(self._numbers),
            chat=int(parameters["chat_id"]),
            topic=int(parameters.get("message_thread_id", 0)),
            texts=[text],
            entities=entities,
            markup=_checked_markup(parameters),
            answers=(parameters.get("reply_parameters") or {}).get("message_id", 0),
        )
        self.messages[sent.chat, sent.id] = sent
        return self._as_message(sent)

    def _keep_file(self, parameters: Json, content: bytes) -> Json:
        self._check_place(parameters)
        caption = str(parameters.get("caption", ""))
        if _units(caption) > LONGEST_CAPTION:
            raise Refused("Bad Request: message caption is too long")
        message = self._keep(parameters, caption, [])
        self.messages[int(parameters["chat_id"]), message["message_id"]].file = content
        return message

    def _as_message(self, sent: Sent) -> Json:
        message: Json = {
            "message_id": sent.id,
            "date": int(time.time()),
            "chat": self.chats[sent.chat],
            "from": BOT,
            "text": sent.text,
            "entities": sent.entities,
        }
        if sent.markup:
            message["reply_markup"] = sent.markup
        if sent.topic:
            message |= {"message_thread_id": sent.topic, "is_topic_message": True}
        return message


@dataclass
class Person:
    """A person who writes to the bot in `chat`; `topic` is the topic of a forum."""

    server: TelegramServer
    user: Json
    chat: int
    topic: int = 0
    albums: Counter[str] = field(default_factory=Counter)

    def at(self, chat: int, topic: int = 0) -> Person:
        """Return the same person in a group."""
        if topic:
            self.server.topics.add((chat, topic))
        return Person(self.server, self.user, chat, topic)

    def message(self, text: str = "", **more: Any) -> Json:
        """Return a message in Telegram's format."""
        number = more.pop("message_id", 0) or next(self.server._numbers)
        self.server._received.add((self.chat, number))
        message: Json = {
            "message_id": number,
            "date": int(time.time()),
            "chat": self.server.chats[self.chat],
            "from": self.user,
        }
        if self.topic:
            message |= {"message_thread_id": self.topic, "is_topic_message": True}
        if text:
            message |= {"text": text, "entities": _found_entities(text)}
        if "caption" in more:
            message["caption_entities"] = _found_entities(more["caption"])
        return message | more

    def says(self, text: str, **more: Any) -> int:
        """Write a message; return its id."""
        return self.sends(self.message(text, **more))

    def sends(self, message: Json) -> int:
        self.server.push("message", message)
        number: int = message["message_id"]
        return number

    def edits(self, message: int, text: str) -> None:
        """Change an earlier message."""
        edited = self.message(text, message_id=message, edit_date=int(time.time()))
        self.server.push("edited_message", edited)

    def photo(self, content: bytes, **more: Any) -> Json:
        """Return a message with a photo, in two sizes as Telegram stores it."""
        small, large = self._file(b"small"), self._file(content)
        sizes = [{**small, "width": 90, "height": 60}, {**large, "width": 900, "height": 600}]
        return self.message(photo=sizes, **more)

    def document(self, name: str, kind: str, content: bytes, **more: Any) -> Json:
        described = {**self._file(content), "file_name": name, "mime_type": kind}
        return self.message(document=described, **more)

    def voice(self, content: bytes, **more: Any) -> Json:
        """Return a voice message."""
        described = {**self._file(content), "duration": 3, "mime_type": "audio/ogg"}
        return self.message(voice=described, **more)

    def presses(self, sent: Sent, label: str) -> None:
        """Press a button below a message of the bot."""
        query = f"q{next(self.server._numbers)}"
        self.server._queries.add(query)
        self.server.push(
            "callback_query",
            {
                "id": query,
                "from": self.user,
                "message": self.server._as_message(sent),
                "chat_instance": "1",
                "data": sent.buttons[label],
            },
        )

    def _file(self, content: bytes) -> Json:
        name = f"file{next(self.server._numbers)}"
        self.server.files[name] = content
        return {"file_id": name, "file_unique_id": f"u{name}", "file_size": len(content)}


def _found_entities(text: str) -> list[Json]:
    """Return the entities that Telegram finds in people's texts."""
    kinds = {"bot_command": r"(?<!\S)/\w+(@\w+)?", "mention": r"(?<!\w)@\w+"}
    return [
        {"type": kind, "offset": _units(text[: m.start()]), "length": _units(m[0])}
        for kind, pattern in kinds.items()
        for m in re.finditer(pattern, text)
    ]


def _checked_entities(text: str, parameters: Mapping[str, Any]) -> list[Json]:
    """Return the entities of a text that Telegram would show."""
    if not text.strip():
        raise Refused("Bad Request: message text is empty")
    if "parse_mode" in parameters:
        raise Refused("Bad Request: no text of the bot is to be parsed")
    if _units(text) > LONGEST_TEXT:
        raise Refused("Bad Request: message is too long")
    entities: list[Json] = parameters.get("entities") or []
    for entity in entities:
        _check_entity(text, entity)
    return entities


def _check_entity(text: str, entity: Json) -> None:
    start, end = entity["offset"], entity["offset"] + entity["length"]
    units = text.encode("utf-16-le")
    if not 0 <= start < end <= len(units) // 2:
        raise Refused("Bad Request: can't parse entities: ENTITY_BOUNDS_INVALID")
    try:
        units[2 * start : 2 * end].decode("utf-16-le")
    except UnicodeDecodeError:
        raise Refused("Bad Request: can't parse entities: half a character") from None
    if entity["type"] not in ENTITIES:
        raise Refused(f"Bad Request: can't parse entities: unknown type {entity['type']}")
    if entity["type"] == "text_link" and not re.match(r"(https?|tg|mailto):", entity["url"]):
        raise Refused("Bad Request: can't parse entities: wrong url")


def _checked_markup(parameters: Mapping[str, Any]) -> Json:
    markup: Json = parameters.get("reply_markup") or {}
    for button in itertools.chain.from_iterable(markup.get("inline_keyboard", [])):
        if not button["text"].strip():
            raise Refused("Bad Request: inline keyboard button text must be non-empty")
        if not 1 <= len(button["callback_data"].encode()) <= 64:
            raise Refused("Bad Request: BUTTON_DATA_INVALID")
    return markup


def _parsed(value: Any) -> Any:
    """Return the value of a form field: a file's bytes, JSON if it looks like JSON, else text."""
    if isinstance(value, web.FileField):
        return value.file.read()
    text = str(value)
    return json.loads(text) if text[:1] in ("{", "[") else text


def _error(refusal: Refused) -> web.Response:
    body: Json = {"ok": False, "error_code": refusal.code, "description": str(refusal)}
    if refusal.retry_after:
        body["parameters"] = {"retry_after": refusal.retry_after}
    return web.json_response(body, status=refusal.code)


def _snake(method: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", method)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def failing(*refusals: Refused) -> deque[Refused]:
    return deque(refusals)


__all__: Sequence[str] = ("BOT", "TOKEN", "Person", "Refused", "Sent", "TelegramServer", "failing")
