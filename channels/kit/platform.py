"""The interface of a platform, limited to its differences: converting its events into the kit's
values, and posting, editing and deleting messages.

The kit does the rest: access, fetching files, splitting, drafts, the typing indicator, limits,
retries, reconnecting, numbered choices, confirmations, reactions.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from msgspec import Struct, field

from channels.base import Bot, CommandEntry, WebhookAnswer, WebhookCall
from channels.message import Address
from channels.splitting import Length

T = TypeVar("T")


class Traits(Struct, frozen=True):
    """The abilities of a platform, and their limits. Times are in seconds.

    `longest` is the maximum length of one message, by `Platform.length`, `most_parts` the maximum
    number of messages of one reply: a longer one is sent as a file. With `can_edit` an answer
    streams: `draft` and `group_draft` are the times between two edits. `typing` is the time between
    two typing indicators (0: there are none). `longest_button` is the number of bytes of data in a
    button (0: there are no buttons, and choices have numbers), `most_buttons` the number of buttons
    of a message; other choices are spelled out. At most `overall` messages are sent per second, and
    `per_chat` (`per_group` in groups) in `chat_time` to one chat; None: the platform reports its
    limits. `sound` is the form of a voice message ("opus", "mp3"; "": there is none). `message_id`
    matches the platform's message ids: others in `Outbound.reply_to` were made by the bot.
    """

    longest: int
    can_edit: bool = False
    draft: float = 1.0
    group_draft: float = 4.0
    typing: float = 0.0
    longest_button: int = 0
    most_buttons: int = 25
    overall: float = 30.0
    per_chat: float | None = None
    per_group: float | None = None
    chat_time: float = 60.0
    sound: str = ""
    most_parts: int = 10
    message_id: re.Pattern[str] = re.compile(r".+", re.DOTALL)


class Location(Struct, frozen=True):
    """The place of a message: a chat, a thread in it ("": none), and the message there ("": none),
    which a reply answers. A chat that is not a group has one reader."""

    chat: str
    thread: str = ""
    message: str = ""
    is_group: bool = False


class Author(Struct, frozen=True):
    """The author as the platform reports it: a permanent id, the name that others see, and the
    language tag of their app ("": unknown)."""

    id: str
    name: str = ""
    language: str = ""


class File(Struct, frozen=True):
    """A file on the platform: the data for `Platform.fetch`; `size` is in bytes (0: unknown)."""

    id: str
    name: str
    media_type: str = "application/octet-stream"
    size: int = 0


class IncomingMessage(Struct, frozen=True):
    """A received message. An edited one is delivered again, with the same id and another text.

    `is_for_bot`: in a group, whether it addresses the bot by a mention, a reply to it, or a
    command; always True in private. `text` omits the mention. `quoted` is the message that it
    replies to, if the model may not know it: author and text. `left_out` names kinds of content
    that can't be passed on ("stickers"). `scope` is the thread of the conversation, if it differs
    from the place's (None: it does not).
    """

    place: Location
    sender: Author
    text: str
    files: tuple[File, ...] = ()
    is_for_bot: bool = True
    quoted: tuple[str, str] | None = None
    left_out: tuple[str, ...] = ()
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    scope: str | None = None


class ButtonPress(Struct, frozen=True):
    """A pressed button: `data` is its data, `label` its text. `press` is the id of this press.
    `place.message` is the message with the button."""

    place: Location
    sender: Author
    press: str
    data: str
    label: str = ""
    scope: str | None = None


class Reaction(Struct, frozen=True):
    """A person's emoji on a message (`place.message`)."""

    place: Location
    sender: Author
    emoji: str
    scope: str | None = None


Event = IncomingMessage | ButtonPress | Reaction


class Button(Struct, frozen=True):
    """A choice below a message; `data` is returned when it is pressed."""

    label: str
    data: str


class Post(Struct, frozen=True):
    """A message to post: Markdown (with `is_plain`, literal text) within the platform's length, and
    the buttons below it. With `is_draft` it will be edited soon, and need not notify anybody.
    `once` names the message, and is the same on a resend after a crash ("": no name), for platforms
    that then show it once."""

    text: str
    buttons: tuple[Button, ...] = ()
    is_plain: bool = False
    is_draft: bool = False
    once: str = ""


class Media(Struct, frozen=True):
    """A file to be sent to a chat: a picture, a voice message, or a document, with a short plain
    caption and buttons below it."""

    kind: Literal["picture", "voice", "document"]
    name: str
    content: bytes
    caption: str = ""
    media_type: str = "application/octet-stream"
    buttons: tuple[Button, ...] = ()

    @classmethod
    def read(cls, kind: Literal["picture", "voice", "document"], path: Path) -> Media:
        """Return a file of this machine. Raises OSError."""
        return cls(kind, path.name, path.read_bytes())


class PlatformFailure(Struct, frozen=True):
    """The meaning of an error of the platform.

    `passing`: a retry may succeed; `wait`: the platform asks to wait `seconds` (for everybody, or
    for the chat that was written to); `refused`: it does not accept this message as it is (its
    markup, a picture that is too large, an edit that comes too late); `gone`: the chat can no
    longer be reached; `revoked`: the platform no longer knows the bot (`advice` says what the owner
    has to do); `fatal`: retrying is useless for another reason.
    """

    kind: Literal["passing", "wait", "refused", "gone", "revoked", "fatal"]
    seconds: float = 0.0
    advice: str = ""


def is_lasting(status: int) -> bool:
    """Return whether a response with this HTTP status would be the same on a retry: the resource is
    missing or forbidden."""
    return 400 <= status < 500 and status not in (408, 425, 429)


class IncomingHandler(Protocol):
    """The handler of a platform's events."""

    async def take(self, events: Sequence[Event]) -> None:
        """Process the events; return once all of them are on disk: confirm them to the platform
        then. Chats are processed in parallel, the events of one chat in order. An invalid event is
        logged, and the others are processed. Raises only errors by which an event is not on disk:
        the platform redelivers it."""
        ...

    def connected(self) -> None:
        """Note that the platform is reachable: health is good from then on. Call it on each
        connection."""
        ...

    def troubled(self, error: BaseException) -> None:
        """Note a failed attempt, if the SDK itself reconnects. Call it for each one."""
        ...

    async def patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        """Make a request until it succeeds, with exponential backoff; health follows. Raises
        lasting errors."""
        ...

    @property
    def bot(self) -> Bot:
        """Return the bot, for further needs of a platform: commands by name, `state` for values
        that survive restarts."""
        ...


class Platform:
    """The base class of messengers. Methods raise the SDK's errors; `explain` interprets them. A
    platform omits the methods of abilities that it lacks."""

    name: str
    traits: Traits

    async def open(self) -> None:
        """Connect as far as needed to send. Called once, on first use; again after a failure.
        Raises ChannelError if the token is wrong."""

    async def listen(self, handler: IncomingHandler) -> None:
        """Deliver events until cancelled. After it returns or raises a passing error, the kit calls
        it again after a while."""
        raise NotImplementedError

    async def close(self) -> None:
        """Release everything."""

    def explain(self, error: BaseException) -> PlatformFailure:
        """Return the meaning of an error. An unknown error is a bug: `fatal`."""
        raise NotImplementedError

    @property
    def length(self) -> Length:
        """Return the function that measures Markdown text as the platform counts it."""
        return len

    def plain_length(self, text: str) -> int:
        """Return the length of plain text as the platform counts it."""
        return len(text)

    async def post(self, place: Location, post: Post) -> str:
        """Send one message; return its id."""
        raise NotImplementedError

    async def edit(self, place: Location, message: str, post: Post) -> None:
        """Replace the text of one of the bot's messages."""
        raise NotImplementedError

    async def delete(self, place: Location, message: str) -> None:
        """Delete one of the bot's messages."""
        raise NotImplementedError

    @property
    def has_files(self) -> bool:
        """Return whether the platform can send files."""
        return type(self).upload is not Platform.upload

    async def upload(self, place: Location, media: Media) -> str:
        """Send a file; return its message's id."""
        raise NotImplementedError

    async def fetch(self, file: File) -> bytes:
        """Return the bytes of a message's file."""
        raise NotImplementedError

    async def show_typing(self, place: Location) -> None:
        """Show a typing indicator for a while."""

    async def answer_press(self, pressed: ButtonPress) -> None:
        """Confirm a press to the platform."""

    async def offer(self, commands: Mapping[str, Sequence[CommandEntry]]) -> None:
        """Register the commands with the platform for suggestions: by language ("en", "de", "zh"),
        with descriptions in that language."""

    def expects(self, headers: Mapping[str, str]) -> bool:
        """Return whether a call may come from the platform, judged by its headers: the body of any
        other is not read."""
        return True

    async def call(self, handler: IncomingHandler, call: WebhookCall) -> WebhookAnswer:
        """Process a call to the platform's webhook, `/webhooks/NAME` of the web channel's server;
        answer 401 if its signature is wrong. Runs on any gateway of a cluster."""
        return WebhookAnswer(404)

    def place_of(self, address: Address, message: str) -> Location:
        """Return the place of a reply: that of an address, with the message it answers. A private
        chat with a name of its own follows its person's: "U1/D7"."""
        chat = address.chat
        if address.is_private and chat != address.user:
            chat = chat.removeprefix(f"{address.user}/")
        return Location(chat, address.thread, message, is_group=not address.is_private)
