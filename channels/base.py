"""All contracts of this layer: what a channel is, and what it may ask of the bot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, runtime_checkable

from msgspec import Struct

from channels.message import (
    Address,
    Completed,
    CompletionRequest,
    Inbound,
    Outbound,
    Reply,
)


class ContextUsage(Struct, frozen=True):
    """The context of one conversation in one line's worth of numbers.

    `tokens` of `max_tokens` and `turns` of `max_turns` (0: no limit) are in context; `cost` is in
    US dollars, and None while a price is unknown; `is_measured` says whether the provider counted
    `tokens`; `model` is the one that answers, as people are shown its name. `nearest` is the limit
    that is reached first, and `share` the part of it in use: 1 and more is when it is compacted.
    """

    tokens: int
    max_tokens: int
    turns: int
    max_turns: int
    cost: float | None
    is_measured: bool
    model: str = ""
    nearest: Literal["turns", "tokens"] = "tokens"
    share: float = 0.0


class TurnStarted(Struct, frozen=True):
    """The message `reply_to` is being answered; `question` is its text. Where several chats share
    the conversation, `address` is where it came from, and the answer goes."""

    reply_to: str
    question: str = ""
    address: Address | None = None


class Delta(Struct, frozen=True):
    """A piece of the answer as it streams. Provisional: `Channel.send` has the final text."""

    text: str


class Thought(Struct, frozen=True):
    """A piece of what the model thinks before it answers, as it streams. No part of the answer."""

    text: str


class StepRestarted(Struct, frozen=True):
    """The event that what streamed in this step is void: the model is asked again."""


class ToolStarted(Struct, frozen=True):
    name: str
    arguments: str


class ToolEnded(Struct, frozen=True):
    name: str
    is_error: bool


class ContextChanged(Struct, frozen=True):
    usage: ContextUsage


class BranchChanged(Struct, frozen=True):
    """The chat leads to another of its conversations from now on, the branch of this number: what
    was said there is another transcript. An answer that is still written elsewhere comes without
    its turn."""

    number: int


class PrivateChanged(Struct, frozen=True):
    """The chat is off the record from now on, or on it again: another transcript is shown."""

    is_private: bool


class TurnsDeleted(Struct, frozen=True):
    """The event that what was said in these turns is deleted, or in all of them (none is named): a
    page that shows it shows it no more."""

    turns: tuple[int, ...]


class Titled(Struct, frozen=True):
    """The conversation has a title now."""

    title: str


class Notice(Struct, frozen=True):
    """A line for the person that is part of no answer: a model that loads, a spending limit."""

    text: str


class TurnUsage(Struct, frozen=True):
    """Tokens of calls to models; `cached` is the part of `prompt` that came from a cache."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0


class Done(Struct, frozen=True):
    """The turn is over and its reply is on disk; `Channel.send` has it or will have it. `usage` is
    what its calls took. Where several chats share the conversation, `address` is where the reply
    goes, and `text` is what it says: `Channel.send` has it for that chat alone."""

    reply_to: str
    turn: str | None
    usage: TurnUsage = TurnUsage()
    address: Address | None = None
    text: str = ""


Activity = (
    TurnStarted
    | Delta
    | Thought
    | StepRestarted
    | ToolStarted
    | ToolEnded
    | ContextChanged
    | BranchChanged
    | PrivateChanged
    | TurnsDeleted
    | Titled
    | Notice
    | Done
)


class Accepted(Struct, frozen=True):
    """A message is on disk. `is_new` is False for one that was there already."""

    id: str
    is_new: bool


class CommandEntry(Struct, frozen=True):
    """A command in a list: its name without the slash, and what it does."""

    name: str
    summary: str


class UnreadableError(Exception):
    """Something of a stranger was not read: it takes too much, or its reader has failed."""

    def __init__(self, reason: str, *, takes_too_much: bool) -> None:
        super().__init__(reason)
        self.takes_too_much = takes_too_much


class ChannelError(Exception):
    """A channel can't go on; the text is a sentence that says why and what to do."""


class Snippet(Struct, frozen=True):
    """A place where words were found: the turn's id ("" where the chat shows it no more), and the
    text around them."""

    turn: str
    text: str


class Session(Struct, frozen=True):
    """A conversation in a list: its chat, its title (or else how it began), and when something was
    said in it last. `standing` is where lists show it: "pinned", "archived", or "" among the
    others. `snippet` is what was found in it, where words were looked for, and `near` how
    closely it holds them (the greater, the closer). `is_private`: what is said there now is off
    the record."""

    chat: str
    title: str
    at: datetime
    channel: str = ""
    standing: str = ""
    snippet: Snippet | None = None
    near: tuple[int, ...] = ()
    is_private: bool = False


class SaidFile(Struct, frozen=True):
    """A file that came with a message: its name ("" where none is known), the path by which
    `Bot.open_file` has it, and its size in words ("" where it is not known)."""

    name: str
    path: str
    is_picture: bool
    size: str = ""


class StoredFile(Struct, frozen=True):
    """A file of a chat's workspace: its path ("files/a.txt"), its bytes, when it was written."""

    path: str
    size: int
    at: datetime


class WorkspaceFiles(Struct, frozen=True):
    """The files of a chat's workspace, the newest first, and the bytes that may still be added."""

    files: tuple[StoredFile, ...]
    room: int


class OpenedFile(Struct, frozen=True):
    """A file that is open for reading; whoever asked for it closes it. `picture` is its type where
    it is a picture by its bytes ("image/png"), `sound` where it is a sound, else ""; `size` in
    bytes."""

    name: str
    size: int
    picture: str
    content: BinaryIO
    sound: str = ""


class Said(Struct, frozen=True):
    """A message of the transcript. `role` is "user", "assistant", "tool" or "system" (what the bot
    itself told the model); `calls` are the names of the tools that it calls, `tool` the one whose
    result it is; `reasoning` is what the model thought before. `files` came with it; the lines that
    name them to the model are not in `text`.
    `mark` says how a turn ended that was "stopped", "failed" or ran out of "steps", and `notice`
    what the bot says of it, which ends the text in brackets; `is_denied`: a person, or that nobody
    could be asked, kept the tool from being run."""

    turn: str
    role: str
    text: str
    at: datetime
    calls: tuple[str, ...] = ()
    tool: str = ""
    is_error: bool = False
    reasoning: str = ""
    mark: str = ""
    notice: str = ""
    is_denied: bool = False
    files: tuple[SaidFile, ...] = ()


KEY_PREFIX = "parley-"
"""The beginning of each key to OpenAI's protocol: what looks like a key and is none opens
nothing."""


class KeyHolder(Struct, frozen=True):
    """The speaker through OpenAI's protocol: `user` is the name of their key, "" for the owner's
    own token. `may_command`: text of theirs that begins with a slash is a command."""

    user: str = ""
    may_command: bool = False


class Login(Struct, frozen=True):
    """A browser in which somebody is signed in on a page: `user` is their name, "" for the owner by
    the page's token; `browser` is what it calls itself."""

    number: int
    user: str
    browser: str
    at: datetime
    used: datetime


class Logins:
    """The logins on a page, and the keys to OpenAI's protocol. Secrets are what a browser keeps; a
    browser that has one is signed in. Here nobody is: a feature brings logins (hook
    `parley_logins`)."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        """Set when somebody may have been signed out; another one takes its place then."""

    async def find_key(self, key: str) -> KeyHolder | None:
        """Return the holder of a key; None for what is no key, or is one no more."""
        return None

    async def find(self, secret: str, proof: str) -> Login | None:
        """Find the login of this secret; the owner's only with the proof that they began with."""
        return None

    async def is_in(self, number: int) -> bool:
        """Return whether a browser is still signed in."""
        return False

    async def begin(self, user: str, proof: str, browser: str) -> str:
        """Sign in whoever has shown who they are; return the secret, "" where nobody can."""
        return ""

    async def is_invited(self, code: str) -> bool:
        """Return whether somebody was sent this code, and it still lets them in."""
        return False

    async def join(self, code: str, password: str, browser: str) -> str | None:
        """Sign in whoever was sent this code, which works once, and keep their password ("": none);
        return the secret, or None."""
        return None

    async def is_password(self, name: str, password: str) -> bool:
        """Return whether somebody who is let in has this password."""
        return False

    async def change_password(self, login: Login, current: str, password: str) -> bool:
        """Let whoever is signed in here, by a name, have another password, and sign their other
        browsers out; False where `current` is not theirs. Who has none yet has ""."""
        return False

    async def end(self, number: int) -> None:
        """Sign a browser out."""


class ChannelState(Protocol):
    """The texts that a channel keeps over restarts: small ones by a name of its own choosing. One
    whose name has the id of a chat as a word ("last 4917…") goes with what was said there
    (`/forget`)."""

    async def get(self, channel: str, name: str) -> str:
        """Return the text; "" where there is none."""
        ...

    async def set(self, channel: str, name: str, text: str) -> None:
        """Keep a text; "": none. Return once it is on disk."""
        ...


class Bot(Protocol):
    """All that a channel may ask of the bot."""

    @property
    def state(self) -> ChannelState:
        """Return the texts that channels keep by themselves."""
        ...

    @property
    def logins(self) -> Logins:
        """Return the logins on a page, for channels that have one."""
        ...

    async def submit(self, inbound: Inbound) -> Accepted | None:
        """Take a message in; return once it is on disk. Commands in it are carried out at once,
        everything else joins its conversation's line; both are answered through `Channel.send`.
        Text with broken or control characters is cleaned. None: it was not taken in (a stranger, a
        full line, a full disk); why is answered through `Channel.send` too."""
        ...

    def must_wait(self, inbound: Inbound) -> bool:
        """Return whether `submit` would wait until this message's conversation takes it: its line
        is full, and whoever sits at this machine is not refused for that. Commands never wait."""
        ...

    def admits(self, address: Address) -> bool:
        """Return whether this person may talk to the bot: for what costs something before `submit`,
        such as fetching files. A stranger's message is submitted all the same, to be refused."""
        ...

    def language_of(self, address: Address) -> str:
        """Return the language of who is at this address, for what a channel says by itself."""
        ...

    def is_private(self, address: Address) -> bool:
        """Return whether what is said at this address is off the record: the channel must not keep
        it either."""
        ...

    async def command(self, address: Address, line: str) -> Reply:
        """Carry out a command line ("/context") now and return what it answers. For controls and
        displays: neither inbox nor outbox knows of it."""
        ...

    def list_commands(self) -> Sequence[CommandEntry]:
        """All commands by name, for platforms that offer them while a person types."""
        ...

    def watch(self, address: Address) -> AbstractContextManager[AsyncIterator[Activity]]:
        """Watch what happens in this address's conversation, from now on, in order. A watcher that
        reads too slowly loses the oldest deltas, never another kind of event."""
        ...

    async def sessions(self, channel: str, words: str = "") -> Sequence[Session]:
        """Return the conversations of a channel, the newest first; with `words` those that hold
        them, in their title or in what was said. What is in threads is left out."""
        ...

    async def own_sessions(self, words: str = "") -> Sequence[Session]:
        """Return the same over all channels, for whoever sits at this machine: the terminal's, the
        page's, and the private chats of the bot's owners."""
        ...

    def own_address(self, channel: str, chat: str) -> Address | None:
        """Return the address of one of these; None for a chat that is somebody else's, or of
        several."""
        ...

    async def transcript(self, address: Address, before: int = 0, most: int = 50) -> Sequence[Said]:
        """Return what was said at this address, in order, in context or not: the newest turns, at
        most so many, or those before turn number `before`."""
        ...

    async def list_files(self, address: Address) -> WorkspaceFiles:
        """List the files of this chat's workspace: documents that were sent, and what tools
        wrote."""
        ...

    async def open_file(self, address: Address, path: str) -> OpenedFile | None:
        """Return a file of this chat's workspace, or one that came with a message of its; None
        where there is none such."""
        ...

    def read_apart(self, script: Path, content: bytes, *arguments: str) -> bytes:
        """Have a script read what a stranger made, in a process with limits of memory and time:
        its standard input is the content, its output is returned. For a thread. Raises
        UnreadableError."""
        ...

    def trouble(self, channel: str, error: BaseException) -> None:
        """Tell an owner who is elsewhere that a channel could not reach its platform for a while,
        for this reason, and goes on trying, or that it has left a message out (MessageLeftOut)."""
        ...

    async def key_holder(self, key: str) -> KeyHolder | None:
        """Return the holder of this key to OpenAI's protocol; None for what is no key, or is none
        any more."""
        ...

    def complete(
        self, holder: KeyHolder, request: CompletionRequest
    ) -> AsyncGenerator[Delta | Completed, None]:
        """Answer a request that stands by itself: its text as it streams, and last the whole. It
        is in no transcript. Closing the generator cancels it. Raises NotCompleted."""
        ...

    def list_routes(self) -> Sequence[object]:
        """Return what features serve over HTTP, as `channels.web.operations.Operation`s."""
        ...

    async def call_owner(self, address: Address, name: str, body: bytes) -> bytes:
        """Have the process that owns the conversation at an address carry out the call of a
        feature; `name` is one of its `parley_calls`. Raises NotCompleted."""
        ...

    async def instruct(self, address: Address, text: str) -> str:
        """Let this be the system prompt of a conversation that is a client's own, whatever its
        people may set by command; return what is wrong with it, or ""."""
        ...

    async def begin_with(self, address: Address, exchanges: Sequence[tuple[str, str]]) -> bool:
        """Let an empty conversation begin with these questions and answers; False, and nothing
        done, where something was said already."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A channel that keeps something of what people wrote by itself: a history of lines."""

    def forget(self, said: Sequence[str] | None) -> None:
        """Delete these texts from what this channel keeps; None: all of it."""
        ...


@runtime_checkable
class WithFields(Protocol):
    """A channel that shows a reply's form as a field of its own, and sends the command with what
    was written there. Where `has_fields` is not so, the bot takes the person's next message."""

    @property
    def has_fields(self) -> bool: ...


@runtime_checkable
class InParts(Protocol):
    """A channel whose platform takes messages up to some length, `longest` characters. The parts of
    a longer reply are in the outbox each by itself, so that a crash between two repeats none that
    is there."""

    longest: int

    def parts(self, reply: Reply) -> Sequence[Reply]:
        """Return the reply as one or more, in order, none longer than the platform takes; asked for
        in a thread. What would be too many parts stays one, which `send` delivers in another form,
        such as a file."""
        ...


@runtime_checkable
class WithPage(Protocol):
    """A channel with a page, at `url`."""

    @property
    def url(self) -> str: ...


@runtime_checkable
class WithSound(Protocol):
    """A channel that plays an answer that is read aloud, in this form: "opus" or "mp3"."""

    sound: str


@runtime_checkable
class WithCards(Protocol):
    """A channel whose messages with questions can be changed when a question is over."""

    async def close_question(self, address: Address, question: str, how: str) -> None:
        """Have the message that asks this (`Action.question`) at an address say how it ended, and
        offer no more answers to it. One that says so already is left as it is."""
        ...


@runtime_checkable
class Everywhere(Protocol):
    """A channel that any number of processes may serve at once, where `is_everywhere`: a reply is
    handed to each of them, for whoever follows the chat there. Any other channel runs once."""

    @property
    def is_everywhere(self) -> bool: ...


HEALTH = "health"
"""The name under which a channel keeps its health, for other processes."""


class ChannelHealth(Struct, frozen=True):
    """The health of a platform: "starting", "up", "troubled" (it fails, and is tried again) or
    "down" (for good), `since` when, and why. `forged` counts the calls to its webhook that did not
    come from it."""

    state: Literal["starting", "up", "troubled", "down"]
    since: datetime
    reason: str = ""
    forged: int = 0


@runtime_checkable
class WithHealth(Protocol):
    """A channel that knows whether its platform can be reached."""

    @property
    def health(self) -> ChannelHealth: ...


class WebhookCall(Struct, frozen=True):
    """A request that a platform makes: names of headers in lower case, the query by name, the body
    as it came. Of one that `is_too_large` the body is not read."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    is_too_large: bool = False


class WebhookAnswer(Struct, frozen=True):
    """The answer to a call of a webhook; 401 says that the call did not come from the platform."""

    status: int = 200
    body: bytes = b""
    media_type: str = "text/plain"


@runtime_checkable
class WithWebhook(Protocol):
    """A channel whose platform calls the bot, at `/webhooks/NAME` of the web channel's server."""

    name: str

    def expects(self, headers: Mapping[str, str]) -> bool:
        """Return whether a call with these headers, whose names are in lower case, may come from
        the platform: the body of any other is not read."""
        ...

    async def call(self, bot: Bot, call: WebhookCall) -> WebhookAnswer:
        """Answer once what it brings is on disk."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A channel that holds something open, such as connections. Replies are sent until the bot has
    stopped, also after `listen` has ended."""

    async def close(self) -> None:
        """Let go of it; nothing is sent any more."""
        ...


class Channel(Protocol):
    """A messaging platform. A channel translates; it decides nothing."""

    name: str

    async def listen(self, bot: Bot) -> None:
        """Hand every message to `bot.submit` until the platform ends (end of input, quit) or this
        task is cancelled. Raises ChannelError when it can't go on."""
        ...

    async def send(self, outbound: Outbound) -> None:
        """Deliver one reply; return only when the platform has it. Raise to have it tried again."""
        ...
