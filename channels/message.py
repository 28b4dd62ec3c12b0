"""The values that pass between channels and the bot, frozen: messages and replies, and requests in
OpenAI's protocol with their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct, field

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def clean_text(text: str) -> str:
    """Text without what can't be stored or shown: control characters and broken Unicode. The bot
    takes every message so; who looks for a command in one has to look at this."""
    whole = text.encode("utf-8", "replace").decode()
    return _CONTROL.sub("", whole.replace("\r\n", "\n").replace("\r", "\n"))


class Address(Struct, frozen=True):
    """The address that a message comes from and a reply goes to. `user` is "" for the person at the
    machine.

    In a private chat `chat` and `user` are the same; that is how the bot knows it for one. Several
    chats of one person have the name of each after the person's own, and a slash: "ann/trip".
    """

    channel: str
    chat: str
    thread: str = ""
    user: str = ""

    def __str__(self) -> str:
        """Return it as logs show it: "telegram/42", or "telegram/-100/7/42"."""
        parts = (self.channel, self.chat, self.thread, self.user)
        return "/".join(part for part in dict.fromkeys(parts) if part)

    @property
    def is_private(self) -> bool:
        """Return whether nobody but `user` reads this chat."""
        is_own = self.chat == self.user or self.chat.startswith(f"{self.user}/")
        return self.user != "" and is_own


LARGEST_ATTACHMENT = 20_000_000
"""Bytes of one file; a channel need not fetch a larger one to have it refused."""
MOST_ATTACHMENTS = 10
"""Files of one message."""


class Attachment(Struct, frozen=True):
    """A file that came with a message: its name there, its type ("image/png"), its bytes."""

    name: str
    media_type: str
    data: bytes


class Inbound(Struct, frozen=True):
    """A message as a channel hands it over. `id` is the platform's: the same id is handled once.

    `sender` is the name of who speaks, as others in the chat see it.
    """

    id: str
    address: Address
    text: str
    sender: str = ""
    attachments: tuple[Attachment, ...] = ()
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Action(Struct, frozen=True):
    """A control offered with a reply: pressing it is the same as typing `command`. One that
    `asks_first` is carried out when the person has said yes. `question` names the question that it
    answers ("": none): once it is carried out, the other answers to it are void."""

    label: str
    command: str
    asks_first: bool = False
    question: str = ""


class Form(Struct, frozen=True):
    """Input that follows a reply: what the person writes next is the argument of `command`
    ("/context summary edit"); `text` is what is there now, to be changed."""

    command: str
    text: str = ""


LONGEST_FORM = 100_000
"""Characters of what is written into a form."""

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
"""The reason for which there is no answer ("": there is one): the request is wrong, or longer than
the window; one person asks too much, has spent too much, or has too much waiting; they are not let
in; a command is unknown, or is not carried out as it was given, and the text says what to do
instead; the model's endpoint takes no more for now or can't be reached, or failed; it took too
long; the bot itself failed."""


class Reply(Struct, frozen=True):
    """The reply of a command or a turn: markdown text, the same as data, and controls.

    `images` are paths of picture files on this machine, to be shown below the text, and `sound` is
    that of one in which the text is read aloud. `problem` says
    why the text is no answer but a sentence about why there is none. `form` asks for text.
    """

    text: str
    data: Mapping[str, Any] | None = None
    actions: tuple[Action, ...] = ()
    images: tuple[str, ...] = ()
    problem: Problem = ""
    form: Form | None = None
    sound: str = ""


class Outbound(Struct, frozen=True):
    """A reply on its way out. `reply_to` is the inbound id, `turn` the turn's id ("t3") or None;
    `id` is 0 for what is not kept in the outbox (a refusal).

    `is_resent` marks a reply that may have been sent already, by a process that was killed before
    it could say so. Of a reply that goes in parts this is one; `part` counts them from 0. One that
    `is_plain` goes without its markup being read: what was tried before did not succeed.
    """

    id: int
    address: Address
    reply: Reply
    reply_to: str
    turn: str | None = None
    is_resent: bool = False
    part: int = 0
    is_plain: bool = False


class Given(Struct, frozen=True):
    """A message as the client sent it: `wire` goes to the model as it stands; `text` and the number
    of `pictures` are what is counted of it."""

    role: Literal["system", "user", "assistant", "tool"]
    wire: Mapping[str, Any]
    text: str
    pictures: int = 0


class CompletionRequest(Struct, frozen=True):
    """A request that stands by itself. `tools` are the client's, which it runs itself (None: the
    bot's own are offered; none: no tool is); `parameters` of the protocol are sent on as they
    stand. What `is_streamed` can't be taken back."""

    messages: Sequence[Given]
    tools: Sequence[Mapping[str, Any]] | None = None
    max_tokens: int = 0
    temperature: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_streamed: bool = False


class HandedCall(Struct, frozen=True):
    """A call of one of the client's tools; `arguments` is JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: str


class Completed(Struct, frozen=True):
    """The answer as a whole. `finish` is the protocol's reason; tokens are those of all calls to
    models that it took, `cached` the part of `prompt` that came from a cache, `thought` the part of
    `completion` that was thought, as far as the provider says so."""

    text: str
    finish: str
    calls: tuple[HandedCall, ...] = ()
    reasoning: str = ""
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    thought: int = 0


class HookCall(Struct, frozen=True):
    """A job is called over HTTP by the `name` of its hook, with a body in bytes. What proves that
    it may be: the secret itself, or where there is a `signature`, that one alone ("sha256=" and the
    HMAC of the body, in hex). `delivery` is the caller's name for it ("": none): what comes again
    under the same one is the same call."""

    name: str
    body: bytes
    secret: str = ""
    signature: str = ""
    delivery: str = ""


class NotCompleted(Exception):
    """There is no answer. The text is a sentence that says why; `retry_after` are the seconds after
    which it is worth to ask again (0: unknown)."""

    def __init__(self, problem: Problem, sentence: str, retry_after: int = 0) -> None:
        super().__init__(sentence)
        self.problem, self.retry_after = problem, retry_after
