"""The interface of a platform, with what it makes different, and nothing else: how what comes in
becomes a value of ours, and how a message is posted, edited and taken back there.

All else is the kit's: who is let in, fetching files, splitting, drafts, the sign
that the bot thinks, limits, trying again, reconnecting, numbered choices, confirmations, reactions.
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
    """The abilities of a platform, and how often it may use them. Times in seconds.

    `longest` is the most of one message, by `Platform.length`, `most_parts` the most messages of
    one reply: what needs more goes as a file. Where it `can_edit`, an answer streams: `draft` and
    `group_draft` pass between two edits. `typing` passes between two signs that the bot thinks (0:
    there are none). `longest_button` is how many bytes of data a button keeps (0: there are no
    buttons, and choices have numbers), `most_buttons` how many a message has; other choices are
    spelled out. At most `overall` messages go out a second, and `per_chat` (`per_group` in groups)
    in `chat_time` to one chat; None: the platform says when it is too much. `sound` is the form of
    a voice message ("opus", "mp3"; "": there is none). `message_id` matches the ids of messages
    there: what else stands in `Outbound.reply_to` was made by the bot.
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


class Place(Struct, frozen=True):
    """The place where a message is or goes to: a chat, a thread in it ("": none), and the message
    there ("": none); a reply answers that one. Nobody but one person reads a chat that is no group.
    """

    chat: str
    thread: str = ""
    message: str = ""
    is_group: bool = False


class Author(Struct, frozen=True):
    """The author, by the platform's word: an id that is theirs for good, the name that others see,
    the language of their app as a tag ("": not known)."""

    id: str
    name: str = ""
    language: str = ""


class File(Struct, frozen=True):
    """A file at the platform's: what `Platform.fetch` needs to know, `size` in bytes (0: not
    said)."""

    id: str
    name: str
    media_type: str = "application/octet-stream"
    size: int = 0


class Heard(Struct, frozen=True):
    """A message. One that its person has edited comes again, with the same id and another text.

    `is_for_bot`: in a group, whether it is spoken to, by a mention, a reply to it, or a command; a
    message in private always is. `text` is without the mention. `quoted` is what it replies to,
    where the model may not know that: whose words, and the words. `left_out` names kinds of what
    can't be passed on ("stickers"). `scope` is the thread of the conversation, where that is
    another than the place's (None: it is not).
    """

    place: Place
    sender: Author
    text: str
    files: tuple[File, ...] = ()
    is_for_bot: bool = True
    quoted: tuple[str, str] | None = None
    left_out: tuple[str, ...] = ()
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    scope: str | None = None


class Pressed(Struct, frozen=True):
    """A button was pressed: `data` is what it keeps, `label` what stands on it. `press` is the id
    of this press. `place.message` is the message that has the button."""

    place: Place
    sender: Author
    press: str
    data: str
    label: str = ""
    scope: str | None = None


class Reacted(Struct, frozen=True):
    """A person has put an emoji on a message (`place.message`)."""

    place: Place
    sender: Author
    emoji: str
    scope: str | None = None


Event = Heard | Pressed | Reacted


class Button(Struct, frozen=True):
    """A choice below a message; `data` comes back when it is pressed."""

    label: str
    data: str


class Post(Struct, frozen=True):
    """A message to post: Markdown (where it `is_plain`, text as it stands) that is no longer than
    the platform takes, and the buttons below it. A post that `is_draft` is edited again soon: it
    need notify nobody. `once` names the message, and is the same when it is sent again after a
    crash ("": it has no name), for platforms that then show it once."""

    text: str
    buttons: tuple[Button, ...] = ()
    is_plain: bool = False
    is_draft: bool = False
    once: str = ""


class Media(Struct, frozen=True):
    """A file on its way to a chat: a picture, a voice message, or a document, with a few words of
    plain text and buttons below it."""

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

    `passing`: it may succeed when it is tried again; `wait`: the platform asks to wait `seconds`
    (for everybody, or for the chat that was written to); `refused`: it does not take this message
    as it is (its markup, a picture that is too large, an edit that comes too late); `gone`: nobody
    can be reached there any more; `revoked`: the platform does not know the bot any more (`advice`
    says what the owner has to do); `fatal`: trying again is of no use for another reason.
    """

    kind: Literal["passing", "wait", "refused", "gone", "revoked", "fatal"]
    seconds: float = 0.0
    advice: str = ""


def is_lasting(status: int) -> bool:
    """Return whether an answer with this status of HTTP would be the same another time: what was
    asked for is gone, or not to be had."""
    return 400 <= status < 500 and status not in (408, 425, 429)


class Desk(Protocol):
    """The handler of what comes in from a platform."""

    async def take(self, events: Sequence[Event]) -> None:
        """Returns when all of it is on disk: confirm it to the platform then. Chats are taken side
        by side, the events of one chat in order. What can't be understood is logged, and the others
        are taken. Raises only what means that it is not on disk: the platform brings it again."""
        ...

    def connected(self) -> None:
        """To be called whenever the platform is reached again: health is good from then on."""
        ...

    def troubled(self, error: BaseException) -> None:
        """To be called where the SDK reconnects by itself, for each attempt that failed."""
        ...

    async def patiently(self, request: Callable[[], Awaitable[T]]) -> T:
        """Make a request until it succeeds, with longer and longer waits between; health follows.
        Raises what does not pass."""
        ...

    @property
    def bot(self) -> Bot:
        """Return the bot, for what else a platform may need to ask: commands by name, `state` to
        keep something over restarts."""
        ...


class Platform:
    """A messenger, to make a subclass of. Methods raise what the SDK raises; `explain` says what
    that means. A platform leaves out what it does not have."""

    name: str
    traits: Traits

    async def open(self) -> None:
        """Connect as far as is needed to send. Called once, by whoever needs it first; again after
        it failed. Raises ChannelError where the token is wrong."""

    async def listen(self, desk: Desk) -> None:
        """Bring what comes in, until cancelled. When it returns or raises what is passing, the kit
        calls it again after a while."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of everything."""

    def explain(self, error: BaseException) -> PlatformFailure:
        """Explain what an error means. An error that is not known is a bug of ours: `fatal`."""
        raise NotImplementedError

    @property
    def length(self) -> Length:
        """Return how long a text in Markdown is as the platform counts it."""
        return len

    def plain_length(self, text: str) -> int:
        """Return how long a plain text is as the platform counts it."""
        return len(text)

    async def post(self, place: Place, post: Post) -> str:
        """Send one message; returns its id."""
        raise NotImplementedError

    async def edit(self, place: Place, message: str, post: Post) -> None:
        """Put another text in the place of a message of ours."""
        raise NotImplementedError

    async def delete(self, place: Place, message: str) -> None:
        """Take a message of ours back."""
        raise NotImplementedError

    @property
    def has_files(self) -> bool:
        """Return whether a file can be sent there."""
        return type(self).upload is not Platform.upload

    async def upload(self, place: Place, media: Media) -> str:
        """Send a file; returns its message's id."""
        raise NotImplementedError

    async def fetch(self, file: File) -> bytes:
        """Return the bytes of a file that came with a message."""
        raise NotImplementedError

    async def show_typing(self, place: Place) -> None:
        """Show for a while that the bot thinks."""

    async def answer_press(self, pressed: Pressed) -> None:
        """Let the platform know that a press was seen."""

    async def offer(self, commands: Mapping[str, Sequence[CommandEntry]]) -> None:
        """Let the platform show the commands while a person types: by language ("en", "de", "zh"),
        its descriptions in that language."""

    def expects(self, headers: Mapping[str, str]) -> bool:
        """Return whether a call may come from the platform, as far as its headers tell: the body of
        any other is not read."""
        return True

    async def call(self, desk: Desk, call: WebhookCall) -> WebhookAnswer:
        """Take what the platform sends to its webhook, `/webhooks/NAME` of the web channel's
        server; 401 where its signature is wrong. On any gateway of a cluster."""
        return WebhookAnswer(404)

    def place_of(self, address: Address, message: str) -> Place:
        """Return the place that a reply goes to: that of an address, with the message it answers. A
        private chat that has a name of its own there follows its person's: "U1/D7"."""
        chat = address.chat
        if address.is_private and chat != address.user:
            chat = chat.removeprefix(f"{address.user}/")
        return Place(chat, address.thread, message, is_group=not address.is_private)
