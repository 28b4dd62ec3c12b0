"""The bodies of requests and responses over HTTP, as JSON."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote

from msgspec.structs import asdict
from pydantic import (
    Base64Encoder,
    BaseModel,
    ConfigDict,
    EncodedBytes,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from channels.base import Session, TranscriptMessage, TurnUsage
from channels.message import MOST_ATTACHMENTS, Address, Attachment, Outbound, Reply
from channels.web.bounds import AtMost, keep_known
from channels.web.markup import html, publish

NAME = r"^[\w.@:+~-]{1,100}$"
"""The pattern of the names of sessions: letters, digits, and a few characters that need no escape
in an address."""
Name = Annotated[str, StringConstraints(pattern=NAME)]


class StrictBody(BaseModel):
    """A body that a client sends; a field that is not known is a mistake, and said to be one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _keep_known(cls, given: Any) -> Any:
        return keep_known(cls, given)


class NameAndPassword(StrictBody):
    """The owner's token, or a name and its password."""

    token: str = Field(default="", max_length=1_000)
    name: str = Field(default="", max_length=60)
    password: str = Field(default="", max_length=200)


class Invitation(StrictBody):
    """The code of a link, and a password to sign in with later ("": none)."""

    code: str = Field(max_length=200)
    password: str = Field(default="", pattern=r"^(.{10,200})?$")


class NewPassword(StrictBody):
    """The password that somebody has ("": none yet), and the one that they want."""

    current: str = Field(default="", max_length=200)
    password: str = Field(pattern=r"^.{10,200}$")


class StrictBase64(Base64Encoder):
    """Base64, optionally with line breaks. Pydantic's own ignores invalid characters, so that a
    file in another alphabet (`-_`), or a data: URL, became another file."""

    @classmethod
    def decode(cls, data: bytes) -> bytes:
        try:
            return b64decode(b"".join(data.split()), validate=True)
        except ValueError:
            raise PydanticCustomError("base64_decode", "Input should be base64") from None


class Upload(StrictBody):
    """A file that comes with a message; `data` is base64."""

    name: str = Field(min_length=1, max_length=200)
    media_type: str = Field(pattern=r"^[\w.+-]+/[\w.+-]+$", max_length=100)
    data: Annotated[bytes, EncodedBytes(encoder=StrictBase64)]

    def attachment(self) -> Attachment:
        return Attachment(self.name, self.media_type, self.data)


class NewMessage(StrictBody):
    """A message. One with an `id` that was taken already is not taken again, and a `private` one
    only where the conversation is off the record."""

    text: str = Field(max_length=1_000_000)
    id: Name | None = None
    attachments: Annotated[tuple[Upload, ...], AtMost(MOST_ATTACHMENTS)] = ()
    private: bool = False


class CommandText(StrictBody):
    """The text that follows the name of a command."""

    text: str = Field(default="", max_length=200_000)


class Nothing(StrictBody):
    """An empty object, or no body at all."""


class ActionItem(BaseModel):
    """A control: pressing it is sending `command`, after a question where `asks_first`. `question`
    is the name of what it answers ("" for none): once that is over, it has no use."""

    label: str
    command: str
    asks_first: bool
    question: str = ""


class FormItem(BaseModel):
    """Text that is asked for: sending `command` with what was written; `text` is there now."""

    command: str
    text: str


class Tokens(BaseModel):
    prompt: int
    cached: int
    completion: int


class CommandReply(BaseModel):
    """The answer of a command: Markdown, the same as cleaned HTML, data, controls, the addresses of
    pictures, and the text that is asked for. `problem` says in a word why the text is no answer,
    such as "timeout", or "command_refused" ("": it is one)."""

    text: str
    html: str
    data: dict[str, Any] | None
    actions: list[ActionItem]
    images: list[str]
    form: FormItem | None = None
    problem: str = ""


class MessageReply(CommandReply):
    """The answer to a message: `id` is the message's, `turn` null where no turn was made."""

    id: str
    turn: str | None
    usage: Tokens
    resent: bool = False


class MessageAccepted(BaseModel):
    """A message is on disk and will be answered; a repeat of one may be answered already."""

    id: str
    is_answered: bool = False


class SnippetItem(BaseModel):
    """A place where words were found: the turn ("" where it is in another branch), and the text
    around."""

    turn: str
    text: str


class SessionItem(BaseModel):
    """A conversation in a list; `standing` is "pinned", "archived" or "". `private` says that what
    is said there now is off the record."""

    id: str
    title: str
    at: str
    channel: str
    standing: str
    snippet: SnippetItem | None
    private: bool


class SessionList(BaseModel):
    """Conversations; `next` is where the list goes on ("": nowhere), `open` the one that was asked
    for in any case and is not among them."""

    sessions: list[SessionItem]
    next: str
    open: SessionItem | None


class SaidFileItem(BaseModel):
    """A file that came with a message: its name, where it can be fetched, its size in words; name
    and size are "" where they are not known."""

    name: str
    address: str
    is_picture: bool
    size: str


class FileItem(BaseModel):
    """A file of the workspace; `size` in bytes."""

    name: str
    address: str
    size: int
    at: str


class FileLimits(BaseModel):
    """The limits on the files of a message: how many it may bring now, and of how many bytes, each
    and together."""

    files: int
    file_bytes: int
    bytes: int


class FileList(BaseModel):
    """The newest files of the workspace, and what a message may add."""

    files: list[FileItem]
    limits: FileLimits


class TranscriptItem(BaseModel):
    """A message of the transcript; `html` is empty but for what the model said, and has it without
    the `notice` of the bot that ends the text."""

    turn: str
    role: Literal["user", "assistant", "tool", "system"]
    text: str
    html: str
    at: str
    calls: list[str]
    tool: str
    is_error: bool
    reasoning: str
    mark: Literal["", "stopped", "failed", "steps"]
    notice: str
    is_denied: bool
    files: list[SaidFileItem]


class Transcript(BaseModel):
    """Messages in order. `event` is where the session's events go on after them; `private` says
    that they are off the record: they are in the bot's memory alone, and must be kept nowhere."""

    messages: list[TranscriptItem]
    event: str
    private: bool


class Freed(BaseModel):
    """The result of an emergency compaction: what it freed, in tokens."""

    text: str
    turns: list[str]
    freed: int
    tokens_before: int
    tokens_after: int


class ContextOverview(BaseModel):
    """All that `/context` shows, its newest turns and what they cost, the states of all turns as
    runs of turns, what ever changed it, the requests that are kept, the settings in force, and the
    figures of its map."""

    overview: dict[str, Any]
    map: dict[str, Any]
    turns: list[dict[str, Any]]
    newest: int
    states: list[dict[str, Any]]
    events: list[dict[str, Any]]
    requests: list[dict[str, Any]]
    settings: list[dict[str, Any]]


class Visitor(BaseModel):
    """The visitor of the page: `user` is "" for an owner by the token, or at this machine; `login`
    is the number of this browser among the logins, 0 for one that needs none; `language` is theirs,
    by the setting or by what this request asks for."""

    user: str
    is_signed_in: bool
    login: int = 0
    language: str


class State(BaseModel):
    status: Literal["ok", "ready"]


class HookState(BaseModel):
    status: Literal["accepted", "known"]


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class Failure(BaseModel):
    """Every error has this shape, which is OpenAI's."""

    error: ErrorDetail


def command_reply(reply: Reply, user: str) -> dict[str, Any]:
    """Return a `CommandReply` for a user of the page ("": the owner)."""
    return {
        "text": reply.text,
        "html": html(reply.text),
        "data": reply.data,
        "actions": [asdict(action) for action in reply.actions],
        "images": [publish(path, user) for path in reply.images],
        "form": asdict(reply.form) if reply.form else None,
        "problem": reply.problem,
    }


def answer(outbound: Outbound, usage: TurnUsage) -> dict[str, Any]:
    """Return a `MessageReply`."""
    return {
        "id": outbound.reply_to,
        "turn": outbound.turn,
        **command_reply(outbound.reply, outbound.address.user),
        "usage": asdict(usage),
        "resent": outbound.is_resent,
    }


def address_of_file(place: Address, path: str) -> str:
    """Return the address at which a session's file can be fetched."""
    is_here = place.channel == "web"
    name = place.chat.removeprefix(f"{place.user}/") if is_here else place.chat
    channel = "" if is_here else f"&channel={quote(place.channel)}"
    return f"/api/sessions/{quote(name, safe='')}/file?path={quote(path)}{channel}"


def session_item(session: Session) -> dict[str, Any]:
    """Return a `SessionItem`."""
    return {
        "id": session.chat,
        "title": session.title,
        "at": session.at.isoformat(),
        "channel": session.channel,
        "standing": session.standing,
        "snippet": asdict(session.snippet) if session.snippet else None,
        "private": session.is_private,
    }


def transcript_item(place: Address, message: TranscriptMessage) -> dict[str, Any]:
    """Return a `TranscriptItem`."""
    return {
        "turn": message.turn,
        "role": message.role,
        "text": message.text,
        "html": html(_without_notice(message)) if message.role == "assistant" else "",
        "at": message.at.isoformat(),
        "calls": list(message.calls),
        "tool": message.tool,
        "is_error": message.is_error,
        "reasoning": message.reasoning,
        "mark": message.mark,
        "notice": message.notice,
        "is_denied": message.is_denied,
        "files": [
            {
                "name": file.name,
                "address": address_of_file(place, file.path),
                "is_picture": file.is_picture,
                "size": file.size,
            }
            for file in message.files
        ],
    }


def _without_notice(message: TranscriptMessage) -> str:
    """Return the text of a message without the bot's notice."""
    return (
        message.text.removesuffix(f"({message.notice})").rstrip()
        if message.notice
        else message.text
    )


def kind_of(status: int) -> str:
    """Return the kind of an error of this status in OpenAI's protocol; a wrong key is an invalid
    request, distinguished by its code."""
    if status >= 500:
        return "server_error"
    return {403: "permission_error", 429: "rate_limit_error"}.get(status, "invalid_request_error")


def failure(
    message: str, kind: str, code: str | None = None, param: str | None = None
) -> Mapping[str, Any]:
    """Return a `Failure`."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
