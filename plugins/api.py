"""All that the author of a plugin may import, and all that a command may ask of the bot.

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

from agent.models.long_context import UNKNOWN, LongContext
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
from memory.record.people import Known, Pending, Role
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
    """The services that listeners may use: the hook rules in force; a line to the people who watch
    a conversation, which is part of no answer; and the conversation of an event."""

    rules: Callable[[], Sequence[Rule]] = tuple
    notify: Callable[[ConversationKey, str], None] = lambda key, text: None
    conversation: Callable[[ConversationKey], Conversation | None] = lambda key: None


class CommandError(Exception):
    """A command's refusal: the text is a sentence for the person who asked."""


class Person(Struct, frozen=True):
    """The person who speaks: `id` as it stands in `owners` ("telegram/42"), and what they may
    do."""

    id: str
    role: Literal["owner", "user"]

    @property
    def is_owner(self) -> bool:
        return self.role == "owner"

    @property
    def limited(self) -> str:
        """Return the id by which their limits are kept; "" for owners, who have none."""
        return "" if self.role == "owner" else self.id


class SettingInfo(Struct, frozen=True):
    """A setting as a person sees it. `layer` says where the value comes from, `wants` what may
    be set ("a whole number from 1 to 1000"); `choices` is empty where any value in a range is
    possible; `is_per_conversation` says whether `--here` may set it, `is_fixed` whether no command
    may, and `holds` from when on a change does ("from the next step on"). `takes` is `wants` in
    English where that was translated, for programs that go by it."""

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
    """The settings, as commands may see and change them. `scope` is "" for everywhere, else a
    conversation's id; `by` is who changes: a user who is no owner may do what `users_may_set` says.
    A refused change raises CommandError and changes nothing."""

    def describe(self, key: str, scope: str) -> SettingInfo: ...

    def describe_all(self, scope: str, keys: Iterable[str] | None = None) -> list[SettingInfo]:
        """All settings, or these."""
        ...

    def may_set(self, key: str, scope: str) -> str | None:
        """Return the values that users who are no owners may set there, in words ("at most 20");
        None: nothing."""
        ...

    def once(self, values: Mapping[str, Any], scope: str, by: Person) -> dict[str, Any]:
        """Values by key as they would hold there for one call, checked as `set` checks them."""
        ...

    async def set(self, key: str, text: str, scope: str, by: Person) -> SettingInfo: ...

    async def unset(self, key: str, scope: str, by: Person) -> SettingInfo: ...


class Status(Struct, frozen=True):
    """The bot as a whole: seconds since its start, turns running and messages waiting."""

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
        """Stop the turn that runs in this conversation; False when none does."""
        ...

    def check(self, key: ConversationKey, address: Address, model: str = "") -> None:
        """Raise CommandError where a question from this address would not be answered (by this
        model, where one is named). A command that asks one checks before it changes anything."""
        ...

    async def ask(self, key: ConversationKey, address: Address, said: Message) -> str:
        """Put a user's message into the conversation's line as if it had been said at this address,
        with pictures that are in the chat's folder; it is on disk when this returns. Returns its
        id, to which the answer replies."""
        ...


class StatusPort(Protocol):
    def of(self, key: ConversationKey) -> Status:
        """Return the bot's status, with the problems of this conversation, too."""
        ...


class RestingModel(Struct, frozen=True):
    """A model that failed and is not asked `until` then (seconds since 1970); `why` is the sentence
    of its error."""

    name: str
    why: str
    until: float


class ModelInfo(Struct, frozen=True):
    """The model in force for a conversation. `window` in tokens, 0 where it is unknown; `price` of
    what it reads, None where that is unknown, or nothing; `reads` is how well it reads long
    contexts, `advice` what to do so that it costs less ("": nothing); `resting` are those of it and
    its fallbacks that are not asked now, `stand_in` which one answers meanwhile ("": it itself).
    `learnt` has, by the names of these models, what refusals have taught about them, in
    sentences."""

    name: str
    window: int
    fallbacks: tuple[str, ...]
    takes_tools: bool
    where: str
    price: InputPrice | None = None
    reads: LongContext = UNKNOWN
    advice: str = ""
    resting: tuple[RestingModel, ...] = ()
    stand_in: str = ""
    learnt: Mapping[str, Sequence[str]] = field(default_factory=dict)


class ModelOption(Struct, frozen=True):
    """A model that may be chosen. `window` in tokens, 0 where it is unknown; `price` in US dollars
    for a million tokens that it reads, and that it writes, None where that is unknown, or
    nothing."""

    name: str
    window: int
    price: tuple[float, float] | None


class OfferedModels(Struct, frozen=True):
    """Models that may be chosen; `why_not` says why the endpoint listed none ("": it did, or there
    is none)."""

    options: Sequence[ModelOption]
    why_not: str = ""


class ModelsPort(Protocol):
    def about(self, key: ConversationKey) -> ModelInfo: ...

    async def offered(self, key: ConversationKey) -> OfferedModels:
        """Return the models that may answer there: those that are set, and those that the endpoint
        lists."""
        ...

    def forget_learnt(self, key: ConversationKey) -> list[str]:
        """Forget what refusals have taught about the models in force there; returns the names of
        those of which something was known."""
        ...

    def agents(self) -> list[AgentInfo]:
        """Return the agents as a new conversation would find them; the first is the default."""
        ...


class AgentInfo(Struct, frozen=True):
    """An agent of the configuration; `window` in tokens, `strategy` that of its context."""

    id: str
    description: str
    model: str
    window: int
    strategy: str


class AccessPort(Protocol):
    """The people and chats that are let in. A refused request raises CommandError."""

    @property
    def known(self) -> Sequence[Known]:
        """All who were let in, besides the owners that the settings name."""
        ...

    async def list_pending(self) -> Sequence[Pending]:
        """Strangers who were given a code and wait, oldest first."""
        ...

    async def approve(self, code: str, role: Role, by: str) -> Pending:
        """Let the stranger with this code in, and tell them; returns who it was."""
        ...

    async def open_chat(self, address: Address, by: str) -> None:
        """Let everybody in who writes in this chat."""
        ...

    async def revoke(self, who: str) -> Known:
        """Let a person ("telegram/42", "Ann") or a chat ("chat telegram/-100") in no more."""
        ...


class ToolRun(Struct, frozen=True):
    """The result of a tool that a person has called; `is_untrusted` where strangers may have
    written it, `shown` are the pictures that it made, by where they are kept in the chat's
    folder."""

    call: ToolCall
    text: str
    is_error: bool
    is_untrusted: bool
    shown: tuple[str, ...] = ()


class ToolsPort(Protocol):
    def is_offered(self, ask: Ask, name: str) -> bool:
        """Return whether there is a tool of this name there, or a server's that may have it."""
        ...

    def takes_text(self, ask: Ask, name: str) -> bool:
        """Return whether a tool is offered there that needs a text and nothing else."""
        ...

    async def run(self, ask: Ask, name: str, arguments: Mapping[str, Any]) -> ToolRun:
        """Run a tool for who asks, as the model would: in its box, and when it has been allowed.
        Raises CommandError where the tool is not offered there."""
        ...


class FormsPort(Protocol):
    async def cancel(self, address: Address) -> str:
        """Wait no more for the text that a form has asked for there; returns the command that it
        would have been for, or ""."""
        ...


class BranchInfo(Struct, frozen=True):
    """A branch of a chat, or (number 1) its first conversation. `turn` is the last that it shares
    with the branch `parent` (0: none), `turns` how many it has; `title` was given to it, or is how
    it begins; `at` is when something was said in it last."""

    number: int
    title: str
    parent: int
    turn: int
    turns: int
    at: datetime
    is_current: bool
    is_running: bool


class BranchesPort(Protocol):
    """The branches of a chat, by the key of any of them."""

    async def all(self, key: ConversationKey) -> Sequence[BranchInfo]:
        """In the order in which they were made."""
        ...

    async def fork(
        self, key: ConversationKey, turn: int | None, title: str, *, is_as_now: bool = False
    ) -> BranchInfo:
        """Branch off a conversation after this turn (None: the last that is complete; 0: before the
        first), and let the chat lead to the branch; with the context as it was then, or, where it
        `is_as_now`, with what people have changed since of the turns up to it. Raises CommandError,
        and StoreError."""
        ...

    async def switch(self, key: ConversationKey, number: int) -> None:
        """Let the chat lead to this branch of it. Raises StoreError."""
        ...


class PrivateInfo(Struct, frozen=True):
    """A private conversation: its turns, how many of these the model still sees, their tokens, and
    whether it goes on (False: the process that had it has ended, and nothing is left of it)."""

    turns: int
    in_view: int
    tokens: int
    is_alive: bool


class PrivatePort(Protocol):
    """Conversations off the record (`bot/private.py`), by the key of any branch of their chat."""

    def look(self, key: ConversationKey) -> PrivateInfo | None:
        """Return the private conversation of a chat; None where the chat is on the record."""
        ...

    async def begin(self, key: ConversationKey, address: Address) -> None:
        """Let what is said in this chat from now on be off the record. Raises CommandError where
        that can't be promised, and StoreError."""
        ...

    async def end(self, key: ConversationKey) -> PrivateInfo | None:
        """Forget a private conversation, and let the chat go on where it was; returns what it was.
        Raises StoreError."""
        ...

    def stop(self, key: ConversationKey) -> bool:
        """End the answer that is being written in it; False where none is."""
        ...


class ForgetRequest(Struct, frozen=True):
    """The part of the record to forget: these turns of a conversation; without turns all of it that
    no other branch shares; with `is_branches` its chat with all branches, and with `is_audience`
    all that is kept of its audience, files too."""

    turns: tuple[int, ...] = ()
    is_audience: bool = False
    is_branches: bool = False


class ForgetReport(Struct, frozen=True):
    """The stored parts that a request to forget concerns: turns and messages, the sections of the
    daily memory that were made from them, files of the audience (counted only where they go), and
    the `lines` of `MEMORY.md` that come from them; `is_left` says that a plugin's offloader may
    still hold some of it. `branches` are the others that share turns with it, in words, and
    `staying` the turns that stay with these where all of a conversation is meant. `asides` are the
    side questions that were asked after these turns, `made` the rows of features that go with them,
    by their nouns ("timed job")."""

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
    async def weigh(self, key: ConversationKey, wish: ForgetRequest) -> ForgetReport:
        """Return a report of all that would be deleted."""
        ...

    async def forget(self, key: ConversationKey, wish: ForgetRequest) -> ForgetReport:
        """Stop the running turn, and delete it all; returns what was there. Raises StoreError."""
        ...


class Ports(Struct, frozen=True):
    """The parts of the bot that commands may use.

    `workspace` is the folder of a conversation's audience, `zone` the time zone that people read,
    `remembered` what of `MEMORY.md` stands in the prompt, `services` are the objects that features
    have opened, by their class, `context_parts` make their parts of `/context detail` and
    `/context search`, `stops` end what features do in a conversation beside its turns, `in_force`
    says what stays in force when turns are removed, `offers` say what is offered where a
    conversation ends with another turn (`plugins/offers.py`), and `notify` says a line to whoever
    watches a conversation, which is part of no answer.
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
    """The arguments of a command: `text` is what follows its name, `speaker` the name by which the
    model knows who asks ("" in a chat of one person alone), `files` the places in the workspace of
    those that came with it, if it `takes_files`."""

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
        """Return the object of this class that a feature has opened. Raises CommandError where that
        feature is not there."""
        found = self.bot.services.get(kind)
        if not isinstance(found, kind):
            raise CommandError(_("This is not installed here."))
        return found

    def refuse_word(self, command: str, word: str) -> CommandError:
        """Return the refusal of a word that a command does not know: it names the command of that
        name, or the subcommand that is most like it."""
        if word.lower() in self.bot.commands:
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
        said = literal(clip(word))
        return CommandError(
            _("/{name} does not know “{word}”; {hint}", name=command, word=said, hint=hint)
        )

    def require_owner(self, what: str) -> None:
        """Refuse, unless an owner asks: `what` completes "Only an owner may …"."""
        if not self.person.is_owner:
            raise CommandError(
                _("Only an owner may {what}; you are {id}.", what=_(what), id=self.person.id)
            )


class SaidWords(Struct, frozen=True):
    """The words that a person has written or spoken themselves, of a message that was taken into a
    turn of this number: never a job's prompt, nor text that was marked as somebody else's, nor a
    message that is asked again. `spoken` is what was heard in its sounds, of whomever."""

    key: ConversationKey
    turn: int
    written: str
    spoken: tuple[str, ...]
    address: Address
    person: Person

    @property
    def texts(self) -> tuple[str, ...]:
        """Return all that was said, by whatever means."""
        return tuple(filter(None, (self.written, *self.spoken)))


InForce = Callable[[ConversationKey], tuple[str, Mapping[str, Any]]]
"""Says what stays in force in a conversation when turns are removed: a text, "" for nothing, and
the same as data."""
Offer = Callable[[Ask, ConversationKey, int | None], Awaitable[Reply | None]]
"""Says what is offered where a person has let a conversation end with this turn (None: a chat has
come back to it, as it was left); None for nothing."""
Run = Callable[[Ask], Awaitable[Reply]]
ContextPart = Callable[[Ask, str], Awaitable[tuple[str, Mapping[str, Any]]]]
"""Makes a part of `/context detail` or `/context search WORDS`, with the words that follow: its
text, "" for none, and the same as data."""


class Sub(Struct, frozen=True):
    """A subcommand, for help and completion: "clear" of "/context clear"."""

    name: str
    summary: str


EVERYTHING = "*"


class Verb(Struct, frozen=True):
    """A subcommand that a plugin adds to a command of another one (hook `parley_verbs`): `run` gets
    what follows it as its text. `after` names the one below which help lists it ("": at the end);
    one that `is_slow` may take long, so that other commands need not wait for it; one that
    `takes_files` has a use for files that come with it."""

    command: str
    name: str
    summary: str
    run: Run
    after: str = ""
    is_slow: bool = False
    takes_files: bool = False


class Command(Struct, frozen=True):
    """A slash command. `usage` shows its arguments ("[clear]"); `slow` names the subcommands that
    may take long, so that other commands need not wait for them (EVERYTHING: any text does). One
    that `leads` may have what is said after it go to another conversation. `interrupted` is what is
    said where the process has died of it or with it. `takes_files` names the subcommands that have
    a use for files that come with them."""

    name: str
    summary: str
    run: Run
    usage: str = ""
    subs: tuple[Sub, ...] = ()
    slow: frozenset[str] = frozenset()
    leads: bool = False
    interrupted: str = ""
    takes_files: frozenset[str] = frozenset()

    def is_slow(self, text: str) -> bool:
        """Return whether the command may take long with this text after its name."""
        word = next(iter(text.split(None, 1)), "").lower()
        return word in self.slow or (bool(word) and EVERYTHING in self.slow)


def command(
    name: str,
    summary: str,
    usage: str = "",
    subs: Sequence[tuple[str, str]] = (),
    slow: Iterable[str] = (),
    leads: bool = False,
    interrupted: str = "",
) -> Callable[[Run], Command]:
    """Make a command from a function: `subs` are pairs of a subcommand and its summary."""

    def make(run: Run) -> Command:
        subcommands = tuple(Sub(*sub) for sub in subs)
        may_take_long = frozenset(slow)
        return Command(name, summary, run, usage, subcommands, may_take_long, leads, interrupted)

    return make
