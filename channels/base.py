"""The contracts of this layer: a channel, and the bot's services for channels."""

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
    """The context of one conversation in figures for one line.

    `tokens` of `max_tokens` and `turns` of `max_turns` (0: no limit) are in context. `cost` is in
    US dollars, or None while a price is unknown. `is_measured` says whether the provider counted
    `tokens`. `model` is the display name of the model that answers. `nearest` is the limit that is
    reached first, and `share` the used part of it: compaction starts at 1.
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
    """The message `reply_to` is being answered; `question` is its text, and `turn` the name of the
    turn. If several chats share the conversation, `address` is its sender and the destination of
    the answer."""

    reply_to: str
    question: str = ""
    address: Address | None = None
    turn: str = ""


class Delta(Struct, frozen=True):
    """A piece of the streamed answer. Provisional: `Channel.send` gets the final text."""

    text: str


class Thought(Struct, frozen=True):
    """A piece of the model's streamed reasoning. Not part of the answer."""

    text: str


class StepRestarted(Struct, frozen=True):
    """The streamed output of this step is void: the model is called again."""


class ToolStarted(Struct, frozen=True):
    name: str
    arguments: str


class ToolEnded(Struct, frozen=True):
    name: str
    is_error: bool


class ContextChanged(Struct, frozen=True):
    usage: ContextUsage


class BranchChanged(Struct, frozen=True):
    """The chat has switched to the branch of this number, which has another transcript. An answer
    still being written in the old one arrives without its turn."""

    number: int


class PrivateChanged(Struct, frozen=True):
    """The chat is off the record from now on, or on it again: another transcript is shown."""

    is_private: bool


class TurnsDeleted(Struct, frozen=True):
    """An event: these turns are deleted, or all turns if the tuple is empty: a page removes
    them."""

    turns: tuple[int, ...]


class Titled(Struct, frozen=True):
    """The conversation has a title now."""

    title: str


class Notice(Struct, frozen=True):
    """A line for the person that belongs to no answer: a model that loads, a spending limit."""

    text: str


class TurnUsage(Struct, frozen=True):
    """Tokens of calls to models; `cached` is the part of `prompt` that came from a cache."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0


class Done(Struct, frozen=True):
    """The turn is over and its reply is on disk; `Channel.send` has it or will get it. `usage` is
    that of its calls. If several chats share the conversation, `address` is the reply's
    destination, and `text` its text: `Channel.send` gets it for that chat alone."""

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
    """A command in a list: its name without the slash, and its description."""

    name: str
    summary: str


class UnreadableError(Exception):
    """Raised if foreign content was not read: it takes too many resources, or its reader has
    failed."""

    def __init__(self, reason: str, *, takes_too_much: bool) -> None:
        super().__init__(reason)
        self.takes_too_much = takes_too_much


class ChannelError(Exception):
    """Raised if a channel can't continue; the text is a sentence that says why and what to do."""


class Snippet(Struct, frozen=True):
    """A match of a search: the turn's id ("" if the chat no longer shows it), and the text around
    the match."""

    turn: str
    text: str


class Session(Struct, frozen=True):
    """A conversation in a list: its chat, its title (or else its beginning), and the time of its
    last message. `standing` is its place in lists: "pinned", "archived", or "" for the rest.
    `snippet` is the match of a search, and `near` its closeness (greater is closer). `is_private`:
    the chat is off the record now."""

    chat: str
    title: str
    at: datetime
    channel: str = ""
    standing: str = ""
    snippet: Snippet | None = None
    near: tuple[int, ...] = ()
    is_private: bool = False


class SaidFile(Struct, frozen=True):
    """A file of a message: its name ("" if unknown), the path for `Bot.open_file`, and its size in
    words ("" if unknown)."""

    name: str
    path: str
    is_picture: bool
    size: str = ""


class StoredFile(Struct, frozen=True):
    """A file of a chat's workspace: its path ("files/a.txt"), its size in bytes, and when it was
    written."""

    path: str
    size: int
    at: datetime


class WorkspaceFiles(Struct, frozen=True):
    """The files of a chat's workspace, the newest first, and the bytes that may still be added."""

    files: tuple[StoredFile, ...]
    room: int


class OpenedFile(Struct, frozen=True):
    """An open file for reading; the caller closes it. `picture` is its type if its bytes are a
    picture ("image/png"), `sound` if they are a sound, otherwise ""; `size` is in bytes."""

    name: str
    size: int
    picture: str
    content: BinaryIO
    sound: str = ""


class TranscriptMessage(Struct, frozen=True):
    """A message of the transcript. `role` is "user", "assistant", "tool" or "system" (the bot's own
    messages to the model); `calls` are the names of the tools that it calls, `tool` the one whose
    result it is; `reasoning` is the model's reasoning before it. `files` came with it; `text` omits
    the lines that name them to the model. `mark` is set for a turn that was "stopped", "failed" or
    ran out of "steps"; `notice` is the bot's explanation, at the end of the text in brackets.
    `is_denied`: the tool did not run because a person refused, or could not be asked."""

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
"""The prefix of each key to OpenAI's protocol. Text with the prefix that is not a key opens
nothing."""


class KeyHolder(Struct, frozen=True):
    """The caller through OpenAI's protocol: `user` is the name of their key, "" for the owner's own
    token. `may_command`: text that begins with a slash is a command."""

    user: str = ""
    may_command: bool = False


class Login(Struct, frozen=True):
    """A signed-in browser: `user` is the person's name, "" for the owner by the page's token;
    `browser` is its self-description."""

    number: int
    user: str
    browser: str
    at: datetime
    used: datetime


class Logins:
    """The logins on a page, and the keys to OpenAI's protocol. A browser keeps a secret, and is
    signed in by it. This base class has no logins: a feature provides them (hook
    `parley_logins`)."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        """Set when a person may have been signed out; it is replaced by a new event then."""

    async def find_key(self, key: str) -> KeyHolder | None:
        """Return the holder of a key; None for an unknown or revoked key."""
        return None

    async def find(self, secret: str, proof: str) -> Login | None:
        """Return the login of this secret; for the owner only with the proof that it began with."""
        return None

    async def is_in(self, number: int) -> bool:
        """Return whether a browser is still signed in."""
        return False

    async def begin(self, user: str, proof: str, browser: str) -> str:
        """Sign in a person who has proved their identity; return the secret, or "" if there are no
        logins."""
        return ""

    async def is_invited(self, code: str) -> bool:
        """Return whether this code is a valid invitation."""
        return False

    async def join(self, code: str, password: str, browser: str) -> str | None:
        """Sign in the person with this invitation, which works once, and store their password ("":
        none); return the secret, or None."""
        return None

    async def is_password(self, name: str, password: str) -> bool:
        """Return whether this is the password of a person with access."""
        return False

    async def change_password(self, login: Login, current: str, password: str) -> bool:
        """Change the password of the person signed in by a name, and sign out their other browsers;
        return False if `current` is wrong. It is "" for a person without a password."""
        return False

    async def end(self, number: int) -> None:
        """Sign a browser out."""


class ChannelState(Protocol):
    """The texts that a channel keeps over restarts: small ones under names of its own. A text whose
    name contains the id of a chat as a word ("last 4917…") is deleted with that chat
    (`/forget`)."""

    async def get(self, channel: str, name: str) -> str:
        """Return the text; "" if there is none."""
        ...

    async def set(self, channel: str, name: str, text: str) -> None:
        """Store a text; "" deletes it. Return once it is on disk."""
        ...


class Bot(Protocol):
    """The bot's services for channels."""

    @property
    def state(self) -> ChannelState:
        """Return the stored texts of channels."""
        ...

    @property
    def logins(self) -> Logins:
        """Return the logins on a page, for channels that have one."""
        ...

    async def submit(self, inbound: Inbound) -> Accepted | None:
        """Accept a message; return once it is on disk. Commands are executed at once, other
        messages join their conversation's queue; both are answered through `Channel.send`. Broken
        and control characters are removed. None: it was refused (a stranger, a full queue, a full
        disk), and the reason is sent through `Channel.send` too."""
        ...

    def must_wait(self, inbound: Inbound) -> bool:
        """Return whether `submit` would wait: the conversation's queue is full, and the person at
        this machine is not refused for that. Commands never wait."""
        ...

    def admits(self, address: Address) -> bool:
        """Return whether this person may talk to the bot, for costly work before `submit`, such as
        fetching files. A stranger's message is submitted all the same, to be refused."""
        ...

    def language_of(self, address: Address) -> str:
        """Return the language of the person at this address, for the channel's own messages."""
        ...

    def is_private(self, address: Address) -> bool:
        """Return whether messages at this address are off the record: the channel must not store
        them either."""
        ...

    async def command(self, address: Address, line: str) -> Reply:
        """Execute a command line ("/context") now and return its reply. For controls and displays:
        it is stored in neither inbox nor outbox."""
        ...

    def list_commands(self) -> Sequence[CommandEntry]:
        """Return all commands by name, for platforms that suggest them while a person types."""
        ...

    def watch(self, address: Address) -> AbstractContextManager[AsyncIterator[Activity]]:
        """Watch the events of this address's conversation from now on, in order. A slow watcher
        loses the oldest deltas, but no other events."""
        ...

    async def sessions(self, channel: str, words: str = "") -> Sequence[Session]:
        """Return the conversations of a channel, the newest first; with `words` those that contain
        them, in the title or in a message. Threads are omitted."""
        ...

    async def own_sessions(self, words: str = "") -> Sequence[Session]:
        """Return the conversations of the person at this machine, over all channels: the
        terminal's, the page's, and the private chats of the bot's owners."""
        ...

    def own_address(self, channel: str, chat: str) -> Address | None:
        """Return the address of one of these; None for a chat of other people, or of several."""
        ...

    async def transcript(
        self, address: Address, before: int = 0, most: int = 50
    ) -> Sequence[TranscriptMessage]:
        """Return messages at this address, in order, in context or not: the newest turns, at most
        `most`, or those before turn number `before`."""
        ...

    async def list_files(self, address: Address) -> WorkspaceFiles:
        """Return the files of this chat's workspace: documents that were sent, and files that tools
        wrote."""
        ...

    async def open_file(self, address: Address, path: str) -> OpenedFile | None:
        """Return a file of this chat's workspace, or of one of its messages; None if there is
        none."""
        ...

    def run_limited(self, script: Path, content: bytes, *arguments: str) -> bytes:
        """Run a script on foreign content in a process with limits of memory and time: its standard
        input is the content, its output is returned. Call it in a thread. Raises
        UnreadableError."""
        ...

    def trouble(self, channel: str, error: BaseException) -> None:
        """Notify an owner on another channel. This channel could not reach its platform for a
        while, for this reason, and keeps trying; or it has skipped a message (MessageSkipped)."""
        ...

    async def key_holder(self, key: str) -> KeyHolder | None:
        """Return the holder of this key to OpenAI's protocol; None for an unknown or revoked
        key."""
        ...

    def complete(
        self, holder: KeyHolder, request: CompletionRequest
    ) -> AsyncGenerator[Delta | Completed, None]:
        """Answer a stateless request: yield its text as it streams, and finally the whole. It is in
        no transcript. Closing the generator cancels it. Raises NotCompleted."""
        ...

    def list_routes(self) -> Sequence[object]:
        """Return the HTTP routes of features, as `channels.web.operations.Operation`s."""
        ...

    async def call_owner(self, address: Address, name: str, body: bytes) -> bytes:
        """Have the process that owns the conversation at an address execute a feature's call;
        `name` is one of its `parley_calls`. Raises NotCompleted."""
        ...

    async def instruct(self, address: Address, text: str) -> str:
        """Set the system prompt of a client's own conversation, even if its people may not set it
        by command; return the error, or ""."""
        ...

    async def begin_with(self, address: Address, exchanges: Sequence[tuple[str, str]]) -> bool:
        """Start an empty conversation with these questions and answers; return False, without an
        effect, if it is not empty."""
        ...


@runtime_checkable
class WithHistory(Protocol):
    """A channel that stores text of people by itself: a history of lines."""

    def forget(self, texts: Sequence[str] | None) -> None:
        """Delete these texts from the channel's own storage; None: all of it."""
        ...


@runtime_checkable
class WithFields(Protocol):
    """A channel that shows a reply's form as an input field, and sends the command with the text.
    Without `has_fields`, the bot takes the person's next message."""

    @property
    def has_fields(self) -> bool: ...


@runtime_checkable
class LengthLimited(Protocol):
    """A channel whose platform limits messages to `longest` characters. The parts of a longer reply
    are separate rows in the outbox, so that a crash between two repeats none that was sent."""

    longest: int

    def parts(self, reply: Reply) -> Sequence[Reply]:
        """Return the reply as one or more, in order, none longer than the platform accepts; called
        in a thread. A reply of too many parts stays one, which `send` delivers in another form,
        such as a file."""
        ...


@runtime_checkable
class WithPage(Protocol):
    """A channel with a page, at `url`."""

    @property
    def url(self) -> str: ...


@runtime_checkable
class WithSound(Protocol):
    """A channel that plays spoken answers, in this form: "opus" or "mp3"."""

    sound: str


@runtime_checkable
class WithCards(Protocol):
    """A channel that can edit its messages with questions when a question is over."""

    async def close_question(self, address: Address, question: str, how: str) -> None:
        """Edit the message with this question (`Action.question`) at an address to show its
        outcome, and remove its buttons. One that was edited already is left as it is."""
        ...


@runtime_checkable
class MultiProcess(Protocol):
    """A channel that several processes may serve at once if `is_everywhere`: each of them gets a
    reply, for watchers of the chat there. Any other channel runs once."""

    @property
    def is_everywhere(self) -> bool: ...


HEALTH = "health"
"""The name under which a channel stores its health, for other processes."""


class ChannelHealth(Struct, frozen=True):
    """The health of a platform: "starting", "up", "troubled" (failing, with retries) or "down" (for
    good), `since` when, and the reason. `forged` counts the calls to its webhook that were not from
    the platform."""

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
    """A request from a platform: header names in lower case, the query by name, and the unchanged
    body. With `is_too_large` the body is not read."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    is_too_large: bool = False


class WebhookAnswer(Struct, frozen=True):
    """The answer to a webhook call; 401 means that the call was not from the platform."""

    status: int = 200
    body: bytes = b""
    media_type: str = "text/plain"


@runtime_checkable
class WithWebhook(Protocol):
    """A channel whose platform calls the bot, at `/webhooks/NAME` of the web channel's server."""

    name: str

    def expects(self, headers: Mapping[str, str]) -> bool:
        """Return whether a call with these headers, with names in lower case, may come from the
        platform. If not, its body is not read."""
        ...

    async def call(self, bot: Bot, call: WebhookCall) -> WebhookAnswer:
        """Handle a call, and answer once its content is on disk."""
        ...


@runtime_checkable
class WithConnections(Protocol):
    """A channel with open resources, such as connections. Replies are sent until the bot has
    stopped, also after `listen` has ended."""

    async def close(self) -> None:
        """Release the resources; nothing is sent afterwards."""
        ...


class Channel(Protocol):
    """A messaging platform. A channel translates; it makes no decisions."""

    name: str

    async def listen(self, bot: Bot) -> None:
        """Pass every message to `bot.submit` until the platform ends (end of input, quit) or this
        task is cancelled. Raises ChannelError if it can't continue."""
        ...

    async def send(self, outbound: Outbound) -> None:
        """Deliver one reply; return only once the platform has it. Raise an error to have it
        retried."""
        ...
