"""The plugin API: everything that a plugin may import, and everything that a command may use of the
bot.

A plugin is a module with hooks (`plugins/hookspecs.py`):

    from plugins.api import Ask, Reply, command, hookimpl

    @command("roll", "Roll a die")
    async def roll(ask: Ask) -> Reply:
        return Reply("You rolled a 4.")

    @hookimpl
    def parley_commands():
        return [roll]
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import pluggy
from msgspec import Struct, field

from agent.models.catalogue import UNKNOWN, LongContext
from agent.tools import ToolError
from agent.tools.base import Permission, Tool, ToolContext
from agent.tools.schema import tool
from channels.language import _
from channels.message import Action, Address, Form, Reply
from memory.context.cut_cost import InputPrice
from memory.conversation import Conversation
from memory.events import Event, Listener, Verdict
from memory.keys import ConversationKey
from memory.long_term.prompt import PromptMemory
from memory.messages import Message, ToolCall
from memory.record.offload import Offloader
from memory.record.people import KnownPerson, PendingPerson, Role
from memory.turns import Entry
from plugins.health import ChannelsPort, ProcessesPort, RecentPort
from plugins.rules import Rule
from plugins.wording import clip, literal

__all__ = [
    "Action",
    "Address",
    "AgentInfo",
    "Ask",
    "Command",
    "CommandError",
    "Entry",
    "Event",
    "Form",
    "HookContext",
    "Listener",
    "Message",
    "Offloader",
    "Permission",
    "Person",
    "Ports",
    "Reply",
    "SettingInfo",
    "Sub",
    "Tool",
    "ToolContext",
    "ToolError",
    "Verb",
    "Verdict",
    "command",
    "hookimpl",
    "tool",
]

T = TypeVar("T")
hookimpl = pluggy.HookimplMarker("parley")


class HookContext(Struct, frozen=True):
    """The services that listeners may use: `rules` returns the hook rules in force; `notify` shows
    a line to the people who watch a conversation, outside of any answer; `conversation` returns the
    conversation of an event."""

    rules: Callable[[], Sequence[Rule]] = tuple
    notify: Callable[[ConversationKey, str], None] = lambda key, text: None
    conversation: Callable[[ConversationKey], Conversation | None] = lambda key: None


class CommandError(Exception):
    """The refusal of a command: the text is a sentence for the person."""


def refusal(text: str, /, **values: Any) -> CommandError:
    """Return the error that refuses a command, with a sentence in the person's language."""
    return CommandError(_(text, **values))


class Person(Struct, frozen=True):
    """The person who sent a command: `id` as in the setting `owners` ("telegram/42"), and the
    role."""

    id: str
    role: Literal["owner", "user"]

    @property
    def is_owner(self) -> bool:
        return self.role == "owner"

    @property
    def limited(self) -> str:
        """Return the id under which the person's limits are stored; "" for owners, who have
        none."""
        return "" if self.role == "owner" else self.id


class SettingInfo(Struct, frozen=True):
    """A setting as shown to a person. `layer` is the source of the value. `wants` describes the
    possible values ("a whole number from 1 to 1000"), and `takes` is the same in English if it was
    translated, for programs. `choices` is empty if any value of a range is possible.
    `is_per_conversation` says whether `--here` may set it, `is_fixed` whether no command may.
    `holds` says from when on a change applies ("from the next request on")."""

    key: str
    value: Any
    default: Any
    layer: str
    meaning: str
    wants: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    is_per_conversation: bool = False
    holds: str = ""
    is_fixed: bool = False
    takes: str = ""


class SettingsPort(Protocol):
    """The settings, as commands may read and change them. `scope` is "" for all conversations,
    otherwise a conversation's id. `by` is the person who changes a setting: only an owner may set
    everything, a user may set the values in `users_may_set`. A refused change raises CommandError
    and changes nothing."""

    def describe(self, key: str, scope: str) -> SettingInfo: ...

    def describe_all(self, scope: str, keys: Iterable[str] | None = None) -> list[SettingInfo]:
        """Return all settings, or only these."""
        ...

    def may_set(self, key: str, scope: str) -> str | None:
        """Return the values that users may set there, in words ("at most 20"); None: none."""
        ...

    def once(self, values: Mapping[str, Any], scope: str, by: Person) -> dict[str, Any]:
        """Return values by key as they would apply there for one call, validated as by `set`."""
        ...

    async def set(self, key: str, text: str, scope: str, by: Person) -> SettingInfo: ...

    async def unset(self, key: str, scope: str, by: Person) -> SettingInfo: ...


class Status(Struct, frozen=True):
    """The status of the whole bot: seconds since its start, running turns, and waiting messages."""

    uptime: float
    running: int
    waiting: int
    channels: tuple[str, ...]
    plugins: tuple[str, ...]
    problems: tuple[str, ...]
    data: str


class TurnsPort(Protocol):
    def is_running(self, key: ConversationKey) -> bool:
        """Return whether a turn runs in this conversation."""
        ...

    def stop(self, key: ConversationKey) -> bool:
        """Stop the running turn of this conversation; return False if there is none."""
        ...

    def check(self, key: ConversationKey, address: Address, model: str = "") -> None:
        """Raise CommandError if a question from this address would not be answered (by this model,
        if one is named). A command that asks a question checks this before it changes anything."""
        ...

    async def ask(self, key: ConversationKey, address: Address, message: Message) -> str:
        """Add a user's message to the conversation's queue as if it had been sent from this
        address, with pictures that are in the chat's folder; it is on disk when this returns.
        Return its id, which the answer replies to."""
        ...


class StatusPort(Protocol):
    def of(self, key: ConversationKey) -> Status:
        """Return the bot's status, including the problems of this conversation."""
        ...


class ModelInCooldown(Struct, frozen=True):
    """A model that failed and is not called before `until` (seconds since 1970); `why` is the
    sentence of its error."""

    name: str
    why: str
    until: float


class ModelInfo(Struct, frozen=True):
    """The model in force for a conversation. `window` is in tokens, 0 if unknown. `price` is that
    of its input, None if it is unknown or zero. `reads` is its quality with long contexts, `advice`
    a way to lower its cost ("": none). `resting` are the failed ones of it and its fallbacks,
    `fallback_in_use` is the fallback that answers meanwhile ("": the model itself). `learnt` has,
    by the names of these models, the facts learned from refusals, in sentences."""

    name: str
    window: int
    fallbacks: tuple[str, ...]
    takes_tools: bool
    where: str
    price: InputPrice | None = None
    reads: LongContext = UNKNOWN
    advice: str = ""
    resting: tuple[ModelInCooldown, ...] = ()
    fallback_in_use: str = ""
    learnt: Mapping[str, Sequence[str]] = field(default_factory=dict)


class ModelOption(Struct, frozen=True):
    """A model that may be chosen. `window` is in tokens, 0 if unknown; `price` in US dollars per
    million tokens of input and of output, None if it is unknown or zero."""

    name: str
    window: int
    price: tuple[float, float] | None


class OfferedModels(Struct, frozen=True):
    """The models that may be chosen; `why_not` is the reason why the endpoint could not be asked
    ("": it was, or there is none), and `listed` are the names that it listed."""

    options: Sequence[ModelOption]
    why_not: str = ""
    listed: Sequence[str] = ()


class ModelsPort(Protocol):
    def about(self, key: ConversationKey) -> ModelInfo: ...

    async def offered(self, key: ConversationKey) -> OfferedModels:
        """Return the models that may answer there: those in the settings, and those that the
        endpoint lists."""
        ...

    def forget_learnt(self, key: ConversationKey) -> list[str]:
        """Forget the facts learned from refusals about the models in force there; return the names
        of those with such facts."""
        ...

    def agents(self) -> list[AgentInfo]:
        """Return the agents as of now for a new conversation; the first is the default."""
        ...


class AgentInfo(Struct, frozen=True):
    """An agent of the configuration; `window` in tokens; `strategy` is that of its context."""

    id: str
    description: str
    model: str
    window: int
    strategy: str


class AccessPort(Protocol):
    """The people and chats with access. A refused request raises CommandError."""

    @property
    def known(self) -> Sequence[KnownPerson]:
        """All people and chats with access, besides the owners in the settings."""
        ...

    async def list_pending(self) -> Sequence[PendingPerson]:
        """Return the strangers who were given a code and wait, oldest first."""
        ...

    async def approve(self, code: str, role: Role, by: str) -> PendingPerson:
        """Grant access to the stranger with this code, and notify them; return who it was."""
        ...

    async def open_chat(self, address: Address, by: str) -> None:
        """Grant access to everybody who writes in this chat."""
        ...

    async def revoke(self, who: str) -> KnownPerson:
        """Revoke the access of a person ("telegram/42", "Ann") or a chat ("chat telegram/-100")."""
        ...


class ToolRun(Struct, frozen=True):
    """The result of a tool that a person has called. `is_untrusted`: strangers may have written it;
    `shown` are the pictures that it made, as paths in the chat's folder."""

    call: ToolCall
    text: str
    is_error: bool
    is_untrusted: bool
    shown: tuple[str, ...] = ()


class ToolsPort(Protocol):
    def is_offered(self, ask: Ask, name: str) -> bool:
        """Return whether a tool of this name is offered there, or a server that may have it."""
        ...

    def takes_text(self, ask: Ask, name: str) -> bool:
        """Return whether a tool is offered there that requires only one text argument."""
        ...

    async def run(self, ask: Ask, name: str, arguments: Mapping[str, Any]) -> ToolRun:
        """Run a tool for the caller, as the model would: in its sandbox, and once it is permitted.
        Raises CommandError if the tool is not offered there."""
        ...


class FormsPort(Protocol):
    async def cancel(self, address: Address) -> str:
        """Close the form that waits for text there; return its command, or ""."""
        ...


class BranchInfo(Struct, frozen=True):
    """A branch of a chat, or (number 1) its first conversation. `turn` is the last turn that it
    shares with the branch `parent` (0: none); `turns` is the number of its turns. `title` is the
    given title, or its beginning, and `answer` the beginning of the first answer that is its own.
    `at` is the time of its last message."""

    number: int
    title: str
    parent: int
    turn: int
    turns: int
    at: datetime
    is_current: bool
    is_running: bool
    answer: str


class BranchesPort(Protocol):
    """The branches of a chat, by the key of any of them."""

    async def all(self, key: ConversationKey) -> Sequence[BranchInfo]:
        """Return all branches in order of creation."""
        ...

    async def fork(
        self, key: ConversationKey, turn: int | None, title: str, *, is_as_now: bool = False
    ) -> BranchInfo:
        """Branch off a conversation after this turn (None: the last complete one; 0: before the
        first), and make the branch the current one of its chat. The context is as of that turn or,
        with `is_as_now`, includes people's later changes to the turns up to it. Raises
        CommandError, and StoreError."""
        ...

    async def switch(self, key: ConversationKey, number: int) -> None:
        """Make this branch the current one of the chat. Raises StoreError."""
        ...


class PrivateInfo(Struct, frozen=True):
    """A private conversation: the number of its turns, the number of those that the model still
    sees, their tokens, and whether it continues (False: its process has ended, and its content is
    lost)."""

    turns: int
    in_view: int
    tokens: int
    is_alive: bool


class PrivatePort(Protocol):
    """Conversations off the record (`bot/private.py`), by the key of any branch of their chat."""

    def status(self, key: ConversationKey) -> PrivateInfo | None:
        """Return the private conversation of a chat; None if the chat is on the record."""
        ...

    async def begin(self, key: ConversationKey, address: Address) -> None:
        """Take this chat off the record from now on. Raises CommandError if that can't be
        guaranteed, and StoreError."""
        ...

    async def end(self, key: ConversationKey) -> PrivateInfo | None:
        """Delete a private conversation and return the chat to its previous one; return its
        figures. Raises StoreError."""
        ...

    def stop(self, key: ConversationKey) -> bool:
        """Stop the answer that is being written in it; return False if there is none."""
        ...


class ForgetRequest(Struct, frozen=True):
    """The data to forget: these turns of a conversation. Without turns, all of it that no other
    branch shares; with `is_branches`, its chat with all branches; with `is_audience`, all data of
    its audience, including files."""

    turns: tuple[int, ...] = ()
    is_audience: bool = False
    is_branches: bool = False


class ForgetReport(Struct, frozen=True):
    """The stored data that a request to forget selects: turns and messages, the sections of the
    daily memory made from them, files of the audience (counted only if they are deleted), and the
    `lines` of `MEMORY.md` that come from them. `is_left`: a plugin's offloader may still have some
    of it. `branches` describes the other branches that share turns with it, and `staying` are the
    turns that these keep if a whole conversation is selected. `asides` counts the side questions
    after these turns. `made` counts the rows of features that are deleted with them, by noun
    ("timed job")."""

    turns: tuple[int, ...]
    messages: int
    sections: int
    files: int = 0
    lines: int = 0
    is_left: bool = False
    branches: tuple[str, ...] = ()
    staying: tuple[int, ...] = ()
    asides: int = 0
    made: Mapping[str, int] = field(default_factory=dict)


class ForgetPort(Protocol):
    async def estimate(self, key: ConversationKey, wish: ForgetRequest) -> ForgetReport:
        """Return a report of the data that would be deleted."""
        ...

    async def forget(self, key: ConversationKey, wish: ForgetRequest) -> ForgetReport:
        """Stop the running turn, and delete the selected data; return a report of it. Raises
        StoreError."""
        ...


class Ports(Struct, frozen=True):
    """The parts of the bot that commands may use.

    `workspace` returns the folder of a conversation's audience, `zone` the time zone shown to
    people, and `remembered` the part of `MEMORY.md` in the prompt. `services` are the objects that
    features have opened, by class. `context_parts` make their parts of `/context detail` and
    `/context search`. `stops` end the work of features in a conversation other than its turns.
    `in_force` describe what stays in force when turns are removed. `offers` make offers after a
    conversation's last turn has changed. `notify` shows a line to the people who watch a
    conversation, outside of any answer.
    """

    settings: SettingsPort
    turns: TurnsPort
    status: StatusPort
    processes: ProcessesPort
    recent: RecentPort
    channels: ChannelsPort
    models: ModelsPort
    forgetting: ForgetPort
    branches: BranchesPort
    private: PrivatePort
    access: AccessPort
    tools: ToolsPort
    forms: FormsPort
    commands: Mapping[str, Command]
    services: Mapping[type, object]
    context_parts: Mapping[str, Sequence[ContextPart]]
    stops: Sequence[Callable[[ConversationKey], bool]]
    in_force: Sequence[InForce]
    offers: Sequence[Offer]
    workspace: Callable[[ConversationKey], Path]
    zone: Callable[[], tzinfo]
    version: str
    remembered: Callable[[ConversationKey], PromptMemory]
    notify: Callable[[ConversationKey, str], None]


class Ask(Struct, frozen=True):
    """The call of a command: `text` is what follows its name. `speaker` is the name by which the
    model knows the person ("" in a chat with one person). `files` are the workspace paths of the
    files sent with it, if it `takes_files`."""

    text: str
    address: Address
    person: Person
    conversation: Conversation
    bot: Ports
    speaker: str = ""
    files: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return self.text.split()

    def service(self, kind: type[T]) -> T:
        """Return the object of this class that a feature has opened. Raises CommandError without
        that feature."""
        found = self.bot.services.get(kind)
        if not isinstance(found, kind):
            raise refusal("This is not installed here.")
        return found

    def refuse_word(self, command: str, word: str) -> CommandError:
        """Return the refusal of a word that a command does not know. It suggests the command of
        that name, or the most similar subcommand."""
        if word.lower() == "help":
            near = f"help {command}"
        elif word.lower() in self.bot.commands:
            near = word.lower()
        else:
            names = [sub.name for sub in self.bot.commands[command].subs]
            close = difflib.get_close_matches(word[:40].lower(), names, n=1)
            near = f"{command} {close[0]}" if close else ""
        hint = (
            _("did you mean /{near}?", near=near)
            if near
            else _("/help {name} lists what it can do.", name=command)
        )
        text = literal(clip(word))
        return refusal("/{name} does not know “{word}”; {hint}", name=command, word=text, hint=hint)

    def require_owner(self, what: str) -> None:
        """Raise CommandError unless the person is an owner: `what` completes "Only an owner may
        …"."""
        if not self.person.is_owner:
            raise refusal(
                "Only an owner may {what}; you are {id}.", what=_(what), id=self.person.id
            )


class UserWords(Struct, frozen=True):
    """The words that a person has written or spoken, from a message that was added to a turn of
    this number. A job's prompt, text that was marked as another person's, and a repeated message
    are excluded. `spoken` are the transcripts of its recordings, by any speaker."""

    key: ConversationKey
    turn: int
    written: str
    spoken: tuple[str, ...]
    address: Address
    person: Person

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the written text and all transcripts."""
        return tuple(filter(None, (self.written, *self.spoken)))


InForce = Callable[[ConversationKey], tuple[str, Mapping[str, Any]]]
"""A function that returns what stays in force in a conversation when turns are removed: a text, ""
for nothing, and the same as data."""
Offer = Callable[[Ask, ConversationKey, int | None], Awaitable[Reply | None]]
"""A function that returns an offer after a person has changed the last turn of a conversation to
this one (None: the chat has returned to it unchanged); None for no offer."""
Run = Callable[[Ask], Awaitable[Reply]]
ContextPart = Callable[[Ask, str], Awaitable[tuple[str, Mapping[str, Any]]]]
"""A function that makes a part of `/context detail` or `/context search WORDS` from the words that
follow: its text, "" for none, and the same as data."""


class Sub(Struct, frozen=True):
    """A subcommand, for help and completion: "clear" of "/context clear"."""

    name: str
    summary: str


EVERYTHING = "*"


class Verb(Struct, frozen=True):
    """A subcommand that a plugin adds to another plugin's command (hook `parley_verbs`). `run` gets
    the rest of the text. Help lists it below the subcommand `after` ("": at the end). With
    `is_slow`, other commands do not wait for it; with `takes_files`, it uses files sent with it;
    with `is_bare`, it takes no words."""

    command: str
    name: str
    summary: str
    run: Run
    after: str = ""
    is_slow: bool = False
    takes_files: bool = False
    is_bare: bool = False


class Command(Struct, frozen=True):
    """A slash command. `usage` shows its arguments ("[clear]"). `slow` names the subcommands that
    may take long, so that other commands do not wait for them (EVERYTHING: with any text). `leads`:
    it may switch the chat to another conversation. `interrupted` is the reply if the process ended
    while it ran. `takes_files` names the subcommands that use files sent with them, and `bare`
    those that take no words ("": the command itself); words after them are refused."""

    name: str
    summary: str
    run: Run
    usage: str = ""
    subs: tuple[Sub, ...] = ()
    slow: frozenset[str] = frozenset()
    leads: bool = False
    interrupted: str = ""
    takes_files: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()

    def is_slow(self, text: str) -> bool:
        """Return whether the command may take long with this text after its name."""
        word = next(iter(text.split(None, 1)), "").lower()
        return word in self.slow or (bool(word) and EVERYTHING in self.slow)


def command(  # noqa: PLR0913 - one for each property of a command
    name: str,
    summary: str,
    usage: str = "",
    subs: Sequence[tuple[str, str]] = (),
    slow: Iterable[str] = (),
    leads: bool = False,
    interrupted: str = "",
    bare: Iterable[str] = (),
) -> Callable[[Run], Command]:
    """Make a command from a function: `subs` are pairs of a subcommand and its summary."""

    def make(run: Run) -> Command:
        return Command(
            name,
            summary,
            run,
            usage,
            subs=tuple(Sub(*sub) for sub in subs),
            slow=frozenset(slow),
            leads=leads,
            interrupted=interrupted,
            bare=frozenset(bare),
        )

    return make
