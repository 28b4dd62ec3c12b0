"""The immutable values that pass between channels and the bot: messages, replies, and requests in
OpenAI's protocol with their answers; and files of this machine as attachments, for local
channels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from channels.language import _, explain

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def clean_text(text: str) -> str:
    """Return text without control characters and broken Unicode, which can't be stored or shown.
    The bot cleans every message; code that looks for a command in one must clean it as well."""
    whole = text.encode("utf-8", "replace").decode()
    return _CONTROL.sub("", whole.replace("\r\n", "\n").replace("\r", "\n"))


class Address(Struct, frozen=True):
    """The address that a message comes from and a reply goes to. `user` is "" for the person at the
    machine.

    In a private chat `chat` and `user` are equal; that is how the bot recognises it. Several chats
    of one person are named by the person and a slash: "ann/trip".
    """

    channel: str
    chat: str
    thread: str = ""
    user: str = ""

    def __str__(self) -> str:
        """Return it in the form of logs: "telegram/42", or "telegram/-100/7/42"."""
        parts = (self.channel, self.chat, self.thread, self.user)
        return "/".join(part for part in dict.fromkeys(parts) if part)

    @property
    def is_private(self) -> bool:
        """Return whether only `user` reads this chat."""
        is_own = self.chat == self.user or self.chat.startswith(f"{self.user}/")
        return self.user != "" and is_own


LARGEST_ATTACHMENT = 20_000_000
"""Bytes of one file; a channel need not fetch a larger one, which is refused."""
MOST_ATTACHMENTS = 10
"""The maximum number of files of one message."""


class Attachment(Struct, frozen=True):
    """A file of a message: its name, its type ("image/png"), its bytes."""

    name: str
    media_type: str
    data: bytes


class Inbound(Struct, frozen=True):
    """A message from a channel. `id` is the platform's: the same id is handled once.

    `sender` is the person's name as others in the chat see it.
    """

    id: str
    address: Address
    text: str
    sender: str = ""
    attachments: tuple[Attachment, ...] = ()
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Action(Struct, frozen=True):
    """A control of a reply: pressing it equals typing `command`. With `asks_first` the person must
    confirm it. `question` names the question that it answers ("": none): once it is executed, the
    other answers are void."""

    label: str
    command: str
    asks_first: bool = False
    question: str = ""


class Form(Struct, frozen=True):
    """Input requested by a reply: the person's next text is the argument of `command` ("/context
    summary edit"); `text` is the current text to be changed."""

    command: str
    text: str = ""


LONGEST_FORM = 100_000
"""The maximum number of characters of text for a form."""

Problem = Literal[
    "",
    "invalid",
    "too_long",
    "too_fast",
    "spent",
    "busy",
    "refused",
    "command_refused",
    "unavailable",
    "upstream",
    "timeout",
    "failed",
    "full",
]
"""The reason why there is no answer ("": there is one): the request is invalid, or longer than the
window; the person sends too much, has spent too much, has too many waiting messages, or has no
access; a command is unknown or was refused, and the text says what to do instead; the model's
endpoint is overloaded, unreachable, or failed; it took too long; the bot itself failed."""


class Reply(Struct, frozen=True):
    """The reply of a command or a turn: markdown text, the same as data, and controls.

    `images` are paths of picture files on this machine, to be shown below the text; `sound` is the
    path of the spoken text. `problem` says that the text explains why there is no answer. `form`
    asks for text.
    """

    text: str
    data: Mapping[str, Any] | None = None
    actions: tuple[Action, ...] = ()
    images: tuple[str, ...] = ()
    problem: Problem = ""
    form: Form | None = None
    sound: str = ""


class Outbound(Struct, frozen=True):
    """An outgoing reply. `reply_to` is the inbound id, `turn` the turn's id ("t3") or None; `id` is
    0 for a reply that is not in the outbox (a refusal).

    `is_resent` marks a reply that may have been sent already, by a process that was killed before
    it could store that. A split reply has several of these; `part` counts them from 0. With
    `is_plain` its markup is not rendered, because earlier attempts failed.
    """

    id: int
    address: Address
    reply: Reply
    reply_to: str
    turn: str | None = None
    is_resent: bool = False
    part: int = 0
    is_plain: bool = False


class ClientMessage(Struct, frozen=True):
    """A client's message: `wire` goes to the model unchanged; `text` and the number of `pictures`
    are counted."""

    role: Literal["system", "user", "assistant", "tool"]
    wire: Mapping[str, Any]
    text: str
    pictures: int = 0


class CompletionRequest(Struct, frozen=True):
    """A stateless request. `tools` are the client's, which it runs itself (None: the bot's own are
    offered; empty: no tools); `parameters` of the protocol are forwarded unchanged. With
    `is_streamed`, sent text can't be retracted."""

    messages: Sequence[ClientMessage]
    tools: Sequence[Mapping[str, Any]] | None = None
    max_tokens: int = 0
    temperature: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_streamed: bool = False


class ClientToolCall(Struct, frozen=True):
    """A call of one of the client's tools; `arguments` is JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: str


class Completed(Struct, frozen=True):
    """The whole answer. `finish` is the protocol's reason. Tokens are those of all its calls to
    models: `cached` is the part of `prompt` that came from a cache, `thought` the reasoning part of
    `completion`, if the provider reports it."""

    text: str
    finish: str
    calls: tuple[ClientToolCall, ...] = ()
    reasoning: str = ""
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    thought: int = 0


class HookCall(Struct, frozen=True):
    """An HTTP call of a job by the `name` of its hook, with a body in bytes. It is authorised by
    the secret itself, or if there is a `signature`, by that alone ("sha256=" and the HMAC of the
    body, in hex). `delivery` is the caller's id for it ("": none): calls with the same id are the
    same call."""

    name: str
    body: bytes
    secret: str = ""
    signature: str = ""
    delivery: str = ""


class NotCompleted(Exception):
    """Raised if there is no answer. The text is a sentence that says why; `retry_after` is the
    number of seconds before a retry (0: unknown)."""

    def __init__(self, problem: Problem, sentence: str, retry_after: int = 0) -> None:
        super().__init__(sentence)
        self.problem, self.retry_after = problem, retry_after


class LocalFileError(Exception):
    """Raised if a file can't be attached; the text is a clause that says why."""


def read_attachment(file: Path, name: str = "", media_type: str = "") -> Attachment:
    """Return a file; one that is too large is read far enough for the bot to detect it. Raises
    LocalFileError."""
    try:
        if not file.is_file():  # a device or a pipe might never end
            raise LocalFileError(_("There is no file {name!r} to attach", name=str(file)))
        with file.open("rb") as source:
            content = source.read(LARGEST_ATTACHMENT + 1)
    except (OSError, ValueError) as error:
        reason = explain(getattr(error, "strerror", None) or str(error))
        text = _("{name!r} can't be read ({reason})", name=str(file), reason=reason)
        raise LocalFileError(text) from None
    kind = media_type or guess_type(file.name)[0] or "application/octet-stream"
    return Attachment(name or file.name, kind, content)
