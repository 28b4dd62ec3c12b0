"""Turns: one at a time in each conversation, many side by side; every one ends with a reply.

What is said while a turn runs waits in line; what becomes of it then is the setting `when_busy`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Protocol
from uuid import uuid4
from weakref import WeakValueDictionary

from agent.loop import Agent
from agent.models.base import AccountRefused, ModelError
from bot.access import CLOSED, Access, name_of
from bot.activity import EventBus
from bot.attachments import ask_again, data_of, images_of, with_files
from bot.delivery import Delivery
from bot.hearing import Hearing
from bot.links import Links
from bot.logs import in_turn
from bot.problems import BROKEN, problem_of
from bot.queues import KeyedQueues
from bot.received import Received
from bot.recent import EndedTurn, RecentActivity
from bot.speaking import Speaking
from bot.spending import Spending
from channels.base import (
    Activity,
    Delta,
    Done,
    StepRestarted,
    Thought,
    ToolEnded,
    ToolStarted,
    TurnStarted,
    TurnUsage,
)
from channels.language import ENGLISH, _, explain, speaking
from channels.message import Address, Inbound, Problem, Reply
from memory.context.emergency import NoRoom
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.keys import ConversationKey, Scope
from memory.messages import Mark, Message, ToolCall
from memory.record.store import StoreError
from memory.tasks import cancel_and_wait, run_shielded
from memory.turn_log import OpenTurn
from plugins.wording import name_branch

log = logging.getLogger(__name__)

LONGEST_LINE = 100
"""Messages that may wait in one conversation; more get an honest "busy"."""
BUSY = (
    f"{LONGEST_LINE} of your messages are already waiting, so this one was not taken. Wait for "
    "the answers, or send /stop."
)
STOPPED = "Stopped, as you asked."
MOST_PICTURES = 6
"""Of those that tools have made in a turn, so many are shown with its answer."""
INTERRUPTED = "Stopped, because you wrote again."
MOST_RESUMES = 3
"""How often in a row a turn may be taken up after a crash without getting any further."""
PUT_ASIDE = (
    f"The bot crashed {MOST_RESUMES} times while working on this, so it was put aside; the log "
    "has the details (data/logs). Send it again to try once more."
)


@dataclass(frozen=True, slots=True)
class TurnRules:
    """What holds for the turns of a conversation; asked for each turn. `busy_for` is the setting
    `when_busy`; `waited_for` counts the seconds for which turns waited for a person, which are no
    part of their time."""

    agent_for: Callable[[Conversation, Address], Agent]
    timeout_for: Callable[[ConversationKey], float]
    busy_for: Callable[[ConversationKey], str]
    waited_for: Callable[[ConversationKey], float]


class JobRuns(Protocol):
    """What turns must know of those that are runs of jobs (`bot/jobs/`), and that they end."""

    async def refusal(self, received: Received) -> str:
        """Why a run that waited does not begin; "": it does."""
        ...

    async def prepare(self, received: Received, conversation: Conversation, agent: Agent) -> Agent:
        """What a run is answered with: within its budget, and with nobody there to be asked."""
        ...

    async def answer(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> None:
        """The run is over: keep that, with its reply, which goes out. `mark` says why it ended,
        where the model did not end it."""
        ...


class NoRuns:
    """There are no jobs."""

    async def refusal(self, received: Received) -> str:
        return "There are no jobs here."

    async def prepare(self, received: Received, conversation: Conversation, agent: Agent) -> Agent:
        raise RuntimeError(f"{received.id} is the run of a job, and there are none")

    async def answer(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> None:
        raise RuntimeError(f"{received.id} is the run of a job, and there are none")


@dataclass(slots=True, eq=False)
class _Said:
    """A message that waits for its turn since `at` (monotonic seconds), with what reaches the model
    of it; `unheard` says why nobody has listened to all of it, `is_stopped` that a person did not
    want it."""

    received: Received
    text: str
    unheard: str = ""
    is_stopped: bool = False
    at: float = field(default_factory=time.monotonic)

    @property
    def says_nothing(self) -> bool:
        """Whether there is nothing in it that a model could answer."""
        is_heard = self.text.strip() or any(file.heard for file in self.received.files)
        return bool(self.unheard) and (self.is_stopped or not is_heard)

    @property
    def message(self) -> Message:
        received = self.received
        return Message(
            "user",
            with_files(self.text, received.files, is_unheard=bool(self.unheard)),
            speaker=received.speaker,
            images=images_of(received.files),
            files=data_of(received.files),
            is_tainted=received.is_outside,
        )


@dataclass(slots=True)
class _RunningTurn:
    """The turn that runs in a conversation; `stopped` says why it was stopped, if it was."""

    task: asyncio.Task[object]
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a turn ended that the agent did not end itself; `is_for_owner` where only an owner can
    mend what went wrong, which `problem` names."""

    mark: Mark
    sentence: str
    is_for_owner: bool = False
    problem: Problem = ""


class Turns:
    """Carries turns out. `on_trouble` hears of what only an owner can mend, and in which chat it
    was told; `list_made` says what a turn has made for a later time, `tell_saving` that a cheaper
    model answers now; `recent` hears how turns and tools end."""

    def __init__(
        self,
        conversations: Conversations,
        delivery: Delivery,
        bus: EventBus,
        rules: TurnRules,
        spending: Spending,
        access: Access,
        links: Links,
    ) -> None:
        self._conversations, self._delivery, self._bus = conversations, delivery, bus
        self._links = links
        self._rules, self._spending, self._access = rules, spending, access
        self._branches = conversations.branches
        self._running: dict[str, _RunningTurn] = {}
        self._coming = Counter[str]()
        self._waiting: defaultdict[str, list[_Said]] = defaultdict(list)
        self._exclusive: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.queues = KeyedQueues("turn")
        self.on_trouble: Callable[[str, Address], Awaitable[None]] = _unheard
        self.runs: JobRuns = NoRuns()
        self.hearing: Hearing | None = None
        self.speaking: Speaking | None = None
        self.recent = RecentActivity()
        self.list_made: Callable[[OpenTurn], list[str]] = lambda turn: []
        self.tell_saving: Callable[[Conversation], Awaitable[list[str]]] = _not_saving

    def lead(self, address: Address) -> ConversationKey:
        """The conversation that an address leads to now: one of the branches of its own, or of the
        chat that it is linked to."""
        return self._branches.current(self._links.key_of(address))

    async def is_gone(self, key: ConversationKey) -> bool:
        """Whether this was a branch that somebody has deleted."""
        return await self._branches.is_gone(key)

    def is_busy(self, key: ConversationKey) -> bool:
        """Whether this conversation's line is full, with those that are on their way into it."""
        return self.queues.depth(key.id) + self._coming[key.id] >= LONGEST_LINE

    @contextmanager
    def expect(self, key: ConversationKey) -> Iterator[None]:
        """A message has found room in the line, and is put on disk before it joins it."""
        self._coming[key.id] += 1
        try:
            yield
        finally:
            self._coming -= Counter([key.id])  # which leaves out what comes to nothing

    async def room(self, key: ConversationKey) -> None:
        """Wait until this conversation's line is not full."""
        await self.queues.room(key.id, LONGEST_LINE)

    def put(self, received: Received, text: str) -> None:
        """Add a message to its conversation's line; `text` is what reaches the model of it."""
        key, said = received.key, _Said(received, text)
        self._waiting[key.id].append(said)
        if self._rules.busy_for(key) == "interrupt" and not received.run:
            self.stop(key, INTERRUPTED)
        self.queues.put(key.id, lambda: self._carry_out(key, said))

    async def ask(self, key: ConversationKey, address: Address, said: Message) -> str:
        """Put a message into the inbox and into the line, as if it had been said at this address,
        with files that are there; returns its id. Raises StoreError."""
        words, files = ask_again(said)
        is_command = words.lstrip().startswith("/")  # or would be, when the inbox is read again
        text = f"/{words.lstrip()}" if is_command else words
        inbound = Inbound(f"again-{uuid4().hex}", address, text, said.speaker)
        received, _is_new = await self._delivery.receive(
            inbound, key, None, files, is_outside=said.is_tainted
        )
        self.put(received, words)
        return received.id

    def stop(self, key: ConversationKey, why: str = STOPPED) -> bool:
        """End the turn that runs in this conversation; what was done so far is kept."""
        running = self._running.get(key.id)
        if running is None:
            return False
        running.stopped = running.stopped or why
        running.task.cancel()
        return True

    @property
    def oldest(self) -> float:
        """For how many seconds the message waits that waits for longest; 0 where none does."""
        times = [said.at for waiting in self._waiting.values() for said in waiting]
        return time.monotonic() - min(times) if times else 0.0

    def is_running(self, key: ConversationKey) -> bool:
        """Whether a turn runs in this conversation."""
        return key.id in self._running

    def exclusive(self, key: ConversationKey) -> asyncio.Lock:
        """Who holds this has the conversation for himself: no turn of it runs, and the reply to the
        one that did is on disk; those behind it wait."""
        return self._exclusive.setdefault(key.id, asyncio.Lock())

    async def drop(self, is_meant: Scope) -> None:
        """Cut the turns of some conversations short, which go on elsewhere; what waited is in the
        inbox still."""
        await self.queues.drop(lambda queue: is_meant(str(queue)))
        for name in [name for name in self._waiting if is_meant(name)]:
            del self._waiting[name]

    async def _carry_out(self, key: ConversationKey, said: _Said) -> None:
        waiting = self._waiting.get(key.id, [])
        if said not in waiting:
            return  # a turn before this one has taken it in
        async with self.exclusive(key):
            waiting.remove(said)
            if await self.is_gone(key):  # while this waited: the chat leads elsewhere
                here = self._branches.current(key)
                self.put(replace(said.received, key=here), said.text)
            else:
                with self._delivery.speaking_to(said.received.address, key.id):
                    await self._take_or_refuse(key, said)
        if not waiting:
            self._waiting.pop(key.id, None)

    async def _take_or_refuse(self, key: ConversationKey, said: _Said) -> None:
        if refusal := await self._find_refusal(key, said):
            problem: Problem = "refused" if refusal == _(CLOSED) else "spent"
            await self._reply(said.received, Reply(refusal, problem=problem))
        else:
            await self._take(key, said)

    async def _find_refusal(self, key: ConversationKey, said: _Said) -> str:
        is_run = said.received.run > 0
        gone = await self.runs.refusal(said.received) if is_run else ""
        return gone or self._refusal(key, said)

    def _refusal(self, key: ConversationKey, said: _Said) -> str:
        """Why a message is not answered, though it was taken in; "": it is."""
        person = self._access.identify(said.received.address)
        if person is None:  # let in no more since
            return _(CLOSED)
        return self._spending.refusal(key, person.limited)

    async def _take(self, key: ConversationKey, said: _Said) -> None:
        received = said.received
        try:
            await self._hear(key, said)
            turn = await self._open(key, said)
            if said.says_nothing and turn.reply is None:
                await turn.break_off("stopped" if said.is_stopped else "failed", "", said.unheard)
            with in_turn(f"{key.id} {turn.id}"):
                await self._answer(key, turn, said)
        except StoreError as error:
            log.exception("the turn for %s could not be saved", received.id)
            await self._reply(received, Reply(explain(str(error)), problem="failed"))
        except Exception:
            log.exception("the turn for %s failed", received.id)
            await self._reply(received, Reply(_(BROKEN), problem="failed"))
        finally:
            self._bus.end_turn(key.home)

    async def _hear(self, key: ConversationKey, said: _Said) -> None:
        """Have a voice message listened to before its turn; `/stop` ends that, too."""
        if self.hearing is None or not self.hearing.is_wanted(said.received):
            return
        task = asyncio.create_task(self.hearing.hear(said.received))
        running = self._running[key.id] = _RunningTurn(task)
        try:
            await asyncio.wait({task})
        finally:  # also when the bot shuts down: it is heard at the next start
            del self._running[key.id]
            task.cancel()
        if task.cancelled():
            said.unheard, said.is_stopped = running.stopped or STOPPED, True
        else:
            said.received, said.unheard = task.result()

    async def _reply(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> None:
        if received.run:
            await self.runs.answer(received, reply, turn, mark)
        else:
            await self._delivery.answer(received, reply, turn)

    async def _open(self, key: ConversationKey, said: _Said) -> OpenTurn:
        """The turn for a message; one that a crash has cut short goes on, unless it did so too
        often and came no further."""
        received, message = said.received, said.message
        conversation = await self._conversations.get(key)
        turn = await conversation.turns.open(
            message.text,
            speaker=message.speaker,
            inbox=received.row,
            images=message.images,
            person=name_of(received.address),
            files=message.files,
            is_tainted=message.is_tainted,
        )
        if turn.is_resumed:
            progress, is_call = len(turn.entries), bool(turn.begun)
            resumes = await self._delivery.count_resume(received, progress, is_call)
            if resumes > MOST_RESUMES:
                log.error("the turn for %s is put aside after %d crashes", received.id, resumes)
                await turn.break_off("failed", "", PUT_ASIDE)
        if not received.run:  # nobody attends that, and it may do less than who writes meanwhile
            turn.between_steps = lambda: self._take_in(key, turn)
        return turn

    async def _take_in(self, key: ConversationKey, turn: OpenTurn) -> None:
        """Let a turn have what was said since: at any step (`steer`), or before its first."""
        mode = self._rules.busy_for(key)
        if self._waiting[key.id] and (mode == "steer" or (mode != "queue" and not turn.steps)):
            ready = await self._find_ready(key)
            await run_shielded(self._hand_over(key, turn, ready))

    async def _find_ready(self, key: ConversationKey) -> list[_Said]:
        """Those who wait and may be handed over, in order, up to one that nobody can listen to: it
        gets a turn of its own, in which it is said why."""
        ready = []
        for said in [*self._waiting[key.id]]:
            if said.received.run or self._refusal(key, said):
                continue
            if self.hearing is not None and self.hearing.is_wanted(said.received):
                with self._delivery.speaking_to(said.received.address, key.id):
                    said.received, unheard = await self.hearing.hear(said.received)
                if unheard:
                    break
            ready.append(said)
        return ready

    async def _hand_over(self, key: ConversationKey, turn: OpenTurn, ready: list[_Said]) -> None:
        waiting = self._waiting[key.id]
        heard = [said for said in ready if said in waiting]
        if not heard:
            return
        await turn.hear([said.message for said in heard], [said.received.row for said in heard])
        for said in heard:
            waiting.remove(said)

    async def _answer(self, key: ConversationKey, turn: OpenTurn, asked: _Said) -> None:
        received, waited = asked.received, self._rules.waited_for(key)
        question = turn.entries[0].message.text
        shared = received.address if self._links.followers(key.home) else None
        self._bus.publish(key.home, TurnStarted(received.id, question, shared))
        problem: Problem = "failed" if asked.says_nothing and not asked.is_stopped else ""
        restart = (await self._conversations.get(key)).compactor.set_aside(turn.number)
        if turn.reply is None:
            problem = await self._run(key, turn, received)
        reply = turn.reply
        assert reply is not None, "a turn that was run has a reply"
        told = filter(
            None,
            (
                explain(restart),
                "" if asked.says_nothing else asked.unheard,
                *map(explain, await turn.list_notices()),
                *self.list_made(turn),
                *await self._warnings(key, received),
                await self._name_branch(key),
            ),
        )
        said = "\n\n".join((_in_words(reply), *told))
        is_here = self._branches.is_current(key)  # elsewhere its number means another turn
        name = turn.id if is_here else None
        sound = "" if reply.mark else await self._speak(key, turn, reply, asked)
        whole = Reply(said, images=self._pictures(key, turn), problem=problem, sound=sound)
        await self._reply(received, whole, name, reply.mark)
        lasted = time.monotonic() - asked.at - self._rules.waited_for(key) + waited
        is_stopped = reply.mark == "stopped"
        channel = received.address.channel
        self.recent.turn_ended(EndedTurn(channel, lasted, turn.steps, problem, is_stopped))
        usage = TurnUsage(turn.bill.prompt, turn.bill.cached, turn.bill.completion)
        done = Done(received.id, turn.id, usage)
        if self._links.followers(key.home):
            done = replace(done, address=received.address, text=said)
        self._bus.publish(key.home, done)
        await turn.tell("turn_end", reply.told)  # nobody waits for his answer meanwhile

    def _pictures(self, key: ConversationKey, turn: OpenTurn) -> tuple[str, ...]:
        """The pictures that tools have made in a turn, the last of them."""
        made = [f for e in turn.entries if e.message.role == "tool" for f in e.message.files]
        if not made:
            return ()
        folder = self._conversations.services.audience_folder(key.audience)
        once = [*dict.fromkeys(made)][-MOST_PICTURES:]
        return tuple(str((folder / file).absolute()) for file in once)

    async def _speak(
        self, key: ConversationKey, turn: OpenTurn, reply: Message, asked: _Said
    ) -> str:
        """The file in which an answer is read aloud, or ""; `/stop` ends the reading."""
        was_spoken_to = any(file.heard for file in asked.received.files)
        channel = asked.received.address.channel
        if self.speaking is None or not self.speaking.is_wanted(
            key, channel, was_spoken_to=was_spoken_to
        ):
            return ""
        task = asyncio.create_task(self.speaking.speak(key, turn.number, reply.text, channel))
        self._running[key.id] = _RunningTurn(task)
        try:
            await asyncio.wait({task})
        finally:
            del self._running[key.id]
            task.cancel()
        return "" if task.cancelled() else task.result()

    async def _name_branch(self, key: ConversationKey) -> str:
        """Which branch an answer belongs to, where the chat leads elsewhere by now."""
        if self._branches.is_current(key):
            return ""
        title = await (await self._conversations.get(key)).title()
        called = name_branch(key.number, title)
        return _(
            "(This answer belongs to {called}; /branches {number} goes back there.)",
            called=called,
            number=key.number,
        )

    async def _warnings(self, key: ConversationKey, received: Received) -> list[str]:
        user = self._access.find_limited_user(received.address)
        saving = await self.tell_saving(await self._conversations.get(key))
        return [*saving, *await self._spending.warnings(key, user)]

    async def _run(self, key: ConversationKey, turn: OpenTurn, received: Received) -> Problem:
        """Let the agent answer; whatever happens, the turn is over afterwards. Returns what kept it
        from an answer, if anything did."""
        output = _Broadcast(
            self._bus,
            key.home,
            lambda: self._branches.is_current(key),
            self.recent,
            lambda: time.monotonic() - self._rules.waited_for(key),
        )
        started = time.monotonic()
        seconds = self._rules.timeout_for(key)
        conversation = await self._conversations.get(key)
        agent = self._rules.agent_for(conversation, received.address)
        if received.run:
            agent = await self.runs.prepare(received, conversation, agent)
        with speaking(ENGLISH):  # whatever plugins say in there, the model may read
            task = asyncio.create_task(agent.answer(turn, output))
        running = self._running[key.id] = _RunningTurn(task)
        try:
            done = await self._is_done(task, key, seconds)
            if not done:
                await cancel_and_wait(task)
        finally:  # also when the bot shuts down: the turn stays open and goes on at the next start
            del self._running[key.id]
            task.cancel()
        if ending := _judge_ending(running, seconds, is_late=not done):
            await turn.break_off(ending.mark, output.draft, ending.sentence)
            if ending.mark == "failed":
                await turn.tell("error", ending.sentence)
            if ending.is_for_owner:
                await self.on_trouble(ending.sentence, received.address)
        took = time.monotonic() - started
        if ending:
            log.info("ended without an answer after %.2f s", took)
        else:
            log.info("answered in %.2f s", took)
        return ending.problem if ending else ""

    async def _is_done(
        self, task: asyncio.Task[Message], key: ConversationKey, seconds: float
    ) -> bool:
        """Wait until the task is done, or has taken so long; what it waits for a person is not
        counted."""
        end = time.monotonic() + seconds
        waited = self._rules.waited_for(key)
        while (left := end - time.monotonic() + self._rules.waited_for(key) - waited) > 0:
            if (await asyncio.wait({task}, timeout=left))[0]:
                return True
        return False


def _in_words(reply: Message) -> str:
    """The reply as the person is told it, in their language but for what the model said."""
    return replace(reply, notice=explain(reply.notice)).told


async def _not_saving(conversation: Conversation) -> list[str]:
    """Nothing is to be said."""
    return []


async def _unheard(sentence: str, address: Address) -> None:
    """Nobody is told."""


def _judge_ending(running: _RunningTurn, seconds: float, is_late: bool) -> _Ending | None:
    """How a finished task ended the turn; None when the agent's reply stands."""
    if running.stopped:
        return _Ending("stopped", running.stopped)
    if is_late:
        return _Ending(
            "failed",
            describe_timeout(seconds),
            problem="timeout",
        )
    error = None if running.task.cancelled() else _first(running.task.exception())
    if error is None:
        return _Ending("failed", BROKEN, problem="failed") if running.task.cancelled() else None
    if isinstance(error, ModelError | StoreError | NoRoom):
        log.warning("the turn failed: %s", error)
        is_for_owner = isinstance(error, AccountRefused)
        return _Ending("failed", str(error), is_for_owner, problem_of(error))
    log.error("the turn failed", exc_info=error)
    return _Ending("failed", BROKEN, problem="failed")


def describe_timeout(seconds: float) -> str:
    """What a person is told whose answer took too long."""
    return (
        f"The answer took longer than {seconds:g} s and was stopped; `/config turn_timeout` shows "
        "how long it may take."
    )


def _first(error: BaseException | None) -> BaseException | None:
    """The first cause of a group of errors, as tools that run side by side raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Broadcast:
    """The agent's output, published as long as the chat leads to its conversation; `draft` is what
    streamed in the step under way. `clock` gives seconds, and stands still where a person is waited
    for."""

    def __init__(
        self,
        bus: EventBus,
        topic: str,
        is_current: Callable[[], bool],
        recent: RecentActivity,
        clock: Callable[[], float],
    ) -> None:
        self._bus, self._topic, self._is_current = bus, topic, is_current
        self._recent, self._clock = recent, clock
        self._begun: dict[str, float] = {}  # calls of tools that run
        self._draft = StringIO()  # a list of a million small pieces would take 80 MB

    @property
    def draft(self) -> str:
        return self._draft.getvalue()

    def delta(self, text: str) -> None:
        self._draft.write(text)
        self._publish(Delta(text))

    def thought(self, text: str) -> None:
        self._publish(Thought(text))

    def step_restarted(self) -> None:
        self._draft = StringIO()
        self._publish(StepRestarted())

    def tool_started(self, call: ToolCall) -> None:
        self._draft = StringIO()  # the step's text is recorded by now
        self._begun[call.id] = self._clock()
        self._publish(ToolStarted(call.name, call.arguments))

    def tool_ended(self, call: ToolCall, is_error: bool) -> None:
        now = self._clock()
        self._recent.tool_ended(call.name, now - self._begun.pop(call.id, now), is_error)
        self._publish(ToolEnded(call.name, is_error))

    def _publish(self, activity: Activity) -> None:
        if self._is_current():
            self._bus.publish(self._topic, activity)
