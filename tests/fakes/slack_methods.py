"""The methods of Slack's Web API that a bot calls, as `SlackServer` implements them, each with the
permissions of which it needs one. Errors are those on the method's page of
docs.slack.dev/reference/methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.fakes.slack_blocks import BadBlocks, check_blocks, is_too_long
from tests.fakes.slack_people import BOT_USER, SlackMessage

if TYPE_CHECKING:
    from tests.fakes.slack_server import SlackServer

Json = dict[str, Any]

_LONGEST_TEXT, _LONGEST_UPDATE = 40_000, 4_000  # docs: chat.postMessage, chat.update
_HISTORY = ("channels:history", "groups:history", "im:history", "mpim:history")


class SlackRefusal(Exception):
    """An error response of Slack: mostly with status 200."""

    def __init__(
        self,
        error: str,
        status: int = 200,
        *,
        retry_after: int = 0,
        needed: str = "",
        why: str = "",
    ) -> None:
        super().__init__(error)
        self.error, self.status, self.why = error, status, why
        self.retry_after, self.needed = retry_after, needed

    def as_response(self) -> web.Response:
        body: Json = {"ok": False, "error": self.error}
        if self.needed:
            body |= {"needed": self.needed, "provided": "chat:write"}
        if self.why:
            body["response_metadata"] = {"messages": [f"[ERROR] {self.why}"]}
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else None
        return web.json_response(body, status=self.status, headers=headers)


def _post(slack: SlackServer, given: Json) -> Json:
    channel = _writable(slack, given)
    thread = str(given.get("thread_ts", ""))
    if thread and (channel, thread) not in slack.messages:
        raise SlackRefusal("thread_not_found")  # unverified: it may be posted outside a thread
    if thread and slack.messages[channel, thread].thread:
        raise SlackRefusal("invalid_thread_ts")  # docs: "Avoid using a reply's `ts`"; unverified
    text, blocks = _content(slack, given)
    message = SlackMessage(slack.now(), channel, BOT_USER, thread)
    message.show(text[:_LONGEST_TEXT], blocks)
    slack.messages[channel, message.ts] = message
    if channel.startswith("D") or thread:
        slack.statuses.append({"channel_id": channel, "thread_ts": thread, "status": ""})
    return {"channel": channel, "ts": message.ts, "message": message.as_json()}


def _update(slack: SlackServer, given: Json) -> Json:
    message = _own(slack, given, "cant_update_message")
    text, blocks = _content(slack, given, _LONGEST_UPDATE)
    message.show(text, blocks)
    return {"channel": message.channel, "ts": message.ts, "text": text}


def _delete(slack: SlackServer, given: Json) -> Json:
    message = _own(slack, given, "cant_delete_message")
    slack.deleted.append(slack.messages.pop((message.channel, message.ts)))
    return {"channel": message.channel, "ts": message.ts}


def _writable(slack: SlackServer, given: Json, name: str = "channel") -> str:
    channel = str(given.get(name, ""))
    if channel not in slack.channels:
        raise SlackRefusal("channel_not_found")
    if slack.channels[channel] == "archived":
        raise SlackRefusal("is_archived")
    if channel not in slack.joined:
        is_public = slack.channels[channel] == "channel"
        raise SlackRefusal("not_in_channel" if is_public else "channel_not_found")
    return channel


def _own(slack: SlackServer, given: Json, error: str) -> SlackMessage:
    message = slack.messages.get((_writable(slack, given), str(given.get("ts", ""))))
    if message is None:
        raise SlackRefusal("message_not_found")
    if message.user != BOT_USER:
        raise SlackRefusal(error)
    return message


def _content(slack: SlackServer, given: Json, longest: int = 0) -> tuple[str, list[Json]]:
    """Return the text and blocks of a message that Slack accepts."""
    text, blocks = str(given.get("text", "")), given.get("blocks") or []
    if not text.strip() and not blocks:
        raise SlackRefusal("no_text")
    if longest and len(text) > longest:
        raise SlackRefusal("msg_too_long")
    if not slack.takes_rich_text and any(one["type"] == "rich_text" for one in blocks):
        raise SlackRefusal("invalid_blocks")
    try:
        check_blocks(blocks)
    except BadBlocks as error:
        raise SlackRefusal("invalid_blocks", why=str(error)) from None
    if is_too_long(blocks):
        raise SlackRefusal("msg_blocks_too_long")
    return text, blocks


def _replies(slack: SlackServer, given: Json) -> Json:
    channel, ts = _writable(slack, given), str(given["ts"])
    if (channel, ts) not in slack.messages:
        raise SlackRefusal("thread_not_found")
    thread = [m for m in slack.messages.values() if m.channel == channel and m.thread == ts]
    said = [slack.messages[channel, ts], *thread]
    return {"messages": [m.as_json() for m in said][: int(given.get("limit", 1000))]}


def _reactions(slack: SlackServer, given: Json) -> Json:
    message = slack.messages.get((str(given.get("channel")), str(given.get("timestamp"))))
    if message is None:
        raise SlackRefusal("message_not_found")
    return {"type": "message", "channel": message.channel, "message": message.as_json()}


def _user(slack: SlackServer, given: Json) -> Json:
    person = slack.people.get(str(given.get("user")))
    if person is None:
        raise SlackRefusal("user_not_found")
    profile = {"display_name": person.name, "real_name": f"{person.name} Real"}
    locale = {"locale": person.locale} if given.get("include_locale") in ("1", "true", True) else {}
    return {"user": {"id": person.id, "name": person.name.lower(), "profile": profile, **locale}}


def _upload_url(slack: SlackServer, given: Json) -> Json:
    if not str(given.get("length", "")).isdecimal() or not given.get("filename"):
        raise SlackRefusal("invalid_arguments")
    file = slack.store(str(given["filename"]), b"", "application/octet-stream")
    file["size"] = int(given["length"])
    return {"file_id": file["id"], "upload_url": f"{slack.base_url}/upload/{file['id']}"}


def _complete_upload(slack: SlackServer, given: Json) -> Json:
    channel = _writable(slack, given, "channel_id")
    numbers = [str(file["id"]) for file in given["files"]]
    for number in numbers:
        if number not in slack.files or not slack.contents[number]:
            raise SlackRefusal("file_not_found")
    text, blocks = "", given.get("blocks") or []
    if blocks:
        _text, blocks = _content(slack, {"blocks": blocks})
    message = SlackMessage(slack.now(), channel, BOT_USER, str(given.get("thread_ts", "")))
    message.files = numbers
    message.show(text, blocks)
    slack.messages[channel, message.ts] = message
    return {"files": [{"id": number, "title": "a file"} for number in numbers]}


def _file(slack: SlackServer, given: Json) -> Json:
    if str(given.get("file")) not in slack.files:
        raise SlackRefusal("file_not_found")
    return {"file": slack.files[str(given["file"])]}


def _set_status(slack: SlackServer, given: Json) -> Json:
    _check_thread(slack, given)
    slack.statuses.append(given)
    return {}


def _set_prompts(slack: SlackServer, given: Json) -> Json:
    _check_thread(slack, given)
    if not 1 <= len(given["prompts"]) <= 4:
        raise SlackRefusal("invalid_arguments")
    for prompt in given["prompts"]:
        if set(prompt) != {"title", "message"}:
            raise SlackRefusal("invalid_arguments")
    slack.prompts += given["prompts"]
    return {}


def _check_thread(slack: SlackServer, given: Json) -> None:
    channel = _writable(slack, given, "channel_id")
    if (channel, str(given.get("thread_ts"))) not in slack.messages:
        raise SlackRefusal("invalid_thread_ts")


METHODS: dict[str, tuple[tuple[str, ...], Callable[[SlackServer, Json], Json]]] = {
    "chat.postMessage": (("chat:write",), _post),
    "chat.update": (("chat:write",), _update),
    "chat.delete": (("chat:write",), _delete),
    "conversations.replies": (_HISTORY, _replies),
    "reactions.get": (("reactions:read",), _reactions),
    "users.info": (("users:read",), _user),
    "files.getUploadURLExternal": (("files:write",), _upload_url),
    "files.completeUploadExternal": (("files:write",), _complete_upload),
    "files.info": (("files:read",), _file),
    "assistant.threads.setStatus": (("chat:write", "assistant:write"), _set_status),
    "assistant.threads.setSuggestedPrompts": (("assistant:write",), _set_prompts),
}
