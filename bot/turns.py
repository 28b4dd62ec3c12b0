"""Turns: one at a time in each conversation, many in parallel; each ends with a reply.

Messages sent while a turn runs wait in a queue; the setting `when_busy` says what follows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol
from uuid import uuid4
from weakref import WeakValueDictionary

from msgspec import Struct, field
from msgspec.structs import replace

from bot.access import CLOSED, Access, name_of
from bot.answers import Answers, TurnAnswer, TurnContext
from bot.attachments import ask_again, data_of, images_of, with_files
from bot.choices import choice_of
from bot.logs import in_turn
from bot.received import Links, Received, RunHandler, find_handler, key_of_home
from bot.recent import EndedTurn
from bot.turn_runner import BROKEN, STOPPED
from channels.base import Done, TurnStarted, TurnUsage
from channels.language import _, explain, language_of_asker
from channels.message import Address, Inbound, Problem, Reply
from memory.conversation import Conversation
from memory.keys import ConversationKey, Scope
from memory.messages import Mark, Message
from memory.record.store import StoreError
from memory.tasks import KeyedQueues, run_shielded
from memory.turn_log import AnswerRows, OpenTurn
from plugins.api import CommandError, Person, UserWords

log = logging.getLogger(__name__)

LONGEST_LINE = 100
"""The maximum number of messages that may wait in one conversation; further ones get a "busy"
reply."""
BUSY = (
    f"{LONGEST_LINE} of your messages are already waiting, so this one was not accepted. Wait for "
    "the answers, or send /stop."
)
INTERRUPTED = "Stopped, because you wrote again."
ASKED_AGAIN = "again-"
"""The id prefix of messages that are asked again: another person may have written them."""
MOST_RESUMES = 3
"""The maximum number of consecutive resumes of a turn after a crash without progress."""
PUT_ASIDE = (
    f"The bot crashed {MOST_RESUMES} times while working on this, so it was put aside; the log "
    "has the details (`python main.py logs`). Send it again to try once more."
)


class _WaitingMessage(Struct, eq=False):
    """A message that waits for its turn since `at` (monotonic seconds), with its text for the
    model. `person` is the sender, once admitted; `unheard` says why a transcription is missing;
    `is_stopped` that a person stopped it."""

    received: Received
    text: str
    person: Person | None = None
    unheard: str = ""
    is_stopped: bool = False
    at: float = field(default_factory=time.monotonic)

    @property
    def has_no_content(self) -> bool:
        """Return whether it has no content that a model could answer."""
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


class SpeechToText(Protocol):
    """The feature that transcribes voice messages."""

    def is_needed(self, received: Received) -> bool:
        """Return whether part of a message is not transcribed yet."""
        ...

    async def transcribe(self, received: Received) -> tuple[Received, str]:
        """Return the message with its stored transcripts, and a sentence on why one is missing, or
        "". Raises StoreError."""
        ...


class Turns:
    """The turns of all conversations: `answers` composes their replies. Features may transcribe
    voice messages, and have messages of their own (`RunHandler`)."""

    def __init__(self, answers: Answers, access: Access, links: Links) -> None:
        self._conversations, self._delivery = answers.conversations, answers.delivery
        self.runner = runner = answers.runner
        self.answers, self._access, self._links = answers, access, links
        self._bus, self._tasks, self.recent = runner.bus, runner.tasks, runner.recent
        self._speech: Sequence[SpeechToText] = answers.features.speech_to_text
        self._branches = self._conversations.branches
        self._coming = Counter[str]()
        self.waiting: defaultdict[str, list[_WaitingMessage]] = defaultdict(list)
        self._exclusive: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.queues = KeyedQueues("turn")

    @property
    def _runs(self) -> RunHandler:
        return find_handler(self.answers.features.runs)

    def resolve(self, address: Address) -> ConversationKey:
        """Return the current conversation of an address: a branch of its own chat, or of the chat
        that it is linked to."""
        return self._branches.current(self._links.key_of(address))

    def is_busy(self, key: ConversationKey) -> bool:
        """Return whether this conversation's queue is full, counting messages that are about to
        join it."""
        return self.queues.depth(key.id) + self._coming[key.id] >= LONGEST_LINE

    @contextmanager
    def expect(self, key: ConversationKey) -> Iterator[None]:
        """Count a message that has a place in the queue, and is put on disk before it joins."""
        self._coming[key.id] += 1
        try:
            yield
        finally:
            self._coming -= Counter([key.id])  # removes counts of zero

    async def wait_for_capacity(self, key: ConversationKey) -> None:
        """Wait until this conversation's queue is not full."""
        await self.queues.wait_for_capacity(key.id, LONGEST_LINE)

    def put(self, received: Received, text: str) -> None:
        """Add a message to its conversation's queue; `text` is its text for the model."""
        key, waiting = received.key, _WaitingMessage(received, text)
        self.waiting[key.id].append(waiting)
        if self.runner.rules.book.effective(key.id).when_busy == "interrupt" and not received.run:
            self.stop(key, INTERRUPTED)
        self.queues.put(key.id, lambda: self._execute(key, waiting))

    def check(self, key: ConversationKey, address: Address, model: str = "") -> None:
        """Raise CommandError if a question from this address would be refused (for this model, if
        one is named)."""
        rules, is_free = self.runner.rules, None
        if model:
            settings = rules.book.effective(key.id).model_copy(update={"model": model})
            is_free = rules.models.of(choice_of(settings)).is_free
        _person, refusal = self._admit(key, address, is_free)
        if refusal:
            raise CommandError(refusal)

    async def ask(self, key: ConversationKey, address: Address, message: Message) -> str:
        """Put a message into the inbox and the queue, as if it had been sent from this address,
        with files that exist already; return its id. Raises StoreError."""
        words, files = ask_again(message)
        is_command = words.lstrip().startswith("/")  # or would be one when the inbox is read again
        text = f"/{words.lstrip()}" if is_command else words
        inbound = Inbound(f"{ASKED_AGAIN}{uuid4().hex}", address, text, message.speaker)
        received, _is_new = await self._delivery.receive(
            inbound, key, None, files, is_outside=message.is_tainted
        )
        self.put(received, words)
        return received.id

    def stop(self, key: ConversationKey, why: str = STOPPED) -> bool:
        """Stop the turn that runs in this conversation; its results so far are kept."""
        return self._tasks.stop(key, why)

    def stop_chat(self, home: str) -> None:
        """Stop the turn of a chat that was linked to another one's conversation: messages there
        would no longer reach it."""
        self.stop(self._conversations.branches.current(key_of_home(home)))

    @property
    def oldest(self) -> float:
        """The seconds that the oldest message has waited; 0 if there is none."""
        times = [message.at for waiting in self.waiting.values() for message in waiting]
        return time.monotonic() - min(times) if times else 0.0

    def is_awaited(self, key: ConversationKey) -> bool:
        """Return whether a message waits here that no turn has begun to answer."""
        return bool(self.waiting.get(key.id) or self._coming[key.id])

    def is_running(self, key: ConversationKey) -> bool:
        """Return whether a turn runs in this conversation."""
        return self._tasks.has(key)

    def exclusive(self, key: ConversationKey) -> asyncio.Lock:
        """Return a lock for exclusive use of the conversation: no turn of it runs, and the reply to
        the last one is on disk; later messages wait."""
        return self._exclusive.setdefault(key.id, asyncio.Lock())

    async def drop(self, is_selected: Scope) -> None:
        """Cancel the turns of these conversations, which resume in another process; their waiting
        messages remain in the inbox."""
        await self.queues.drop(lambda queue: is_selected(str(queue)))
        for name in [name for name in self.waiting if is_selected(name)]:
            del self.waiting[name]

    async def _execute(self, key: ConversationKey, message: _WaitingMessage) -> None:
        waiting = self.waiting.get(key.id, [])
        if message not in waiting:
            return  # an earlier turn has included it
        received = message.received
        async with self.exclusive(key):
            waiting.remove(message)
            with self._delivery.speaking_to(received.address, key.id):
                refusal = await self._runs.refusal(received) if received.run else ""
                # While this waited, the chat may have switched; a job with its own branch stays.
                if not refusal and await self._branches.is_deleted(key):
                    here = self._branches.current(key)
                    self.put(replace(received, key=here), message.text)
                else:
                    await self._work(key, message, refusal)
        if not waiting:
            self.waiting.pop(key.id, None)

    async def _work(self, key: ConversationKey, message: _WaitingMessage, refusal: str) -> None:
        """Answer a message, or send the refusal: `refusal`, if it is known already."""
        received = message.received
        try:
            message.person, why = self._admit(key, received.address)
            refusal = refusal or why
            if refusal or message.person is None:
                problem: Problem = "refused" if refusal == _(CLOSED) else "spent"
                await self._reply(received, Reply(refusal, problem=problem))
                return
            if received.files:
                await self._transcribe(key, message)
            conversation = await self._conversations.get(key)
            with self._tasks.turn(conversation.context):
                turn = await self._open(conversation, message)
                user, spending = message.person.limited, self.runner.rules.spending
                context = TurnContext(key, message.received, user, conversation, spending)
                with in_turn(f"{key.id} {turn.id}"):
                    await self._answer(context, turn, message)
        except StoreError as error:
            log.exception("the turn for %s could not be saved", received.id)
            await self._reply(received, Reply(explain(str(error)), problem="failed"))
        except Exception:
            log.exception("the turn for %s failed", received.id)
            await self._reply(received, Reply(_(BROKEN), problem="failed"))
        finally:
            self._bus.end_turn(key.home)

    def _admit(
        self, key: ConversationKey, address: Address, is_free: bool | None = None
    ) -> tuple[Person | None, str]:
        """Return the person at this address, and why a message from there is refused, or "";
        `is_free` is as in `SpendingRules.refusal`."""
        person = self._access.identify(address)
        if person is None:  # access was revoked meanwhile
            return None, _(CLOSED)
        spending = self.runner.rules.spending
        return person, spending.refusal(key, person.limited, is_free=is_free)

    def _find_speech(self, received: Received) -> SpeechToText | None:
        return next((speech for speech in self._speech if speech.is_needed(received)), None)

    async def _transcribe(self, key: ConversationKey, message: _WaitingMessage) -> None:
        """Transcribe a voice message before its turn; `/stop` ends that, too."""
        speech = self._find_speech(message.received)
        if speech is None:
            return
        task = asyncio.create_task(speech.transcribe(message.received))
        # If the bot shuts down meanwhile, it is transcribed at the next start.
        with self._tasks.running(key, task) as running:
            await asyncio.wait({task})
        if task.cancelled():
            message.unheard, message.is_stopped = running.stopped or STOPPED, True
        else:
            message.received, message.unheard = task.result()

    async def _reply(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> None:
        if not (received.run and await self._runs.answer(received, reply, turn, mark)):
            await self._delivery.answer(received, reply, turn)

    async def _open(self, conversation: Conversation, waiting: _WaitingMessage) -> OpenTurn:
        """Return the turn for a message; resume one that a crash interrupted, unless it was resumed
        too often without progress."""
        received, message = waiting.received, waiting.message
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
                await turn.end_early("failed", "", PUT_ASIDE)
        if waiting.has_no_content and turn.reply is None:
            await turn.end_early("stopped" if waiting.is_stopped else "failed", "", waiting.unheard)
        return turn

    async def add_waiting(self, key: ConversationKey, turn: OpenTurn) -> None:
        """Add the waiting messages to a turn: at any step (`steer`), or before its first."""
        mode = self.runner.rules.book.effective(key.id).when_busy
        if mode == "steer" or (mode != "queue" and not turn.steps):
            ready = await self._find_ready(key)
            await run_shielded(self._add_waiting(key, turn, ready))

    async def _find_ready(self, key: ConversationKey) -> list[_WaitingMessage]:
        """Return the waiting messages that may join, in order, up to one that can't be transcribed:
        that one gets its own turn, which says why."""
        ready = []
        for message in [*self.waiting[key.id]]:
            message.person, why = self._admit(key, message.received.address)
            if message.received.run or why:
                continue
            if speech := self._find_speech(message.received):
                try:
                    with self._delivery.speaking_to(message.received.address, key.id):
                        message.received, unheard = await speech.transcribe(message.received)
                except Exception:
                    log.exception("%s could not be transcribed:", message.received.id)
                    break
                if unheard:
                    break
            ready.append(message)
        return ready

    async def _add_waiting(
        self, key: ConversationKey, turn: OpenTurn, ready: list[_WaitingMessage]
    ) -> None:
        waiting = self.waiting[key.id]
        added = [message for message in ready if message in waiting]
        if not added:
            return
        await turn.add_messages(
            [message.message for message in added], [message.received.row for message in added]
        )
        await self._notify_words(await self._conversations.get(key), turn, added)
        for message in added:
            waiting.remove(message)

    async def _notify_words(
        self, conversation: Conversation, turn: OpenTurn, added: Sequence[_WaitingMessage]
    ) -> None:
        """Notify features of the words that people wrote themselves."""
        for message in added:
            received, key, person = message.received, conversation.key, message.person
            spoken = tuple(file.heard for file in received.files if file.heard)
            is_own = not (
                received.run or received.is_outside or received.id.startswith(ASKED_AGAIN)
            )
            if person is None or not is_own or not (message.text or spoken):
                continue
            words = UserWords(key, turn.number, message.text, spoken, received.address, person)
            for add_messages in self.answers.features.said:
                try:
                    await add_messages(words)
                except Exception:  # the person is answered all the same
                    log.exception("a feature did not hear %s", received.id)

    async def _answer(self, context: TurnContext, turn: OpenTurn, asked: _WaitingMessage) -> None:
        key, received, rules = context.key, context.received, self.runner.rules
        waited, question = rules.waits.seconds(key), turn.entries[0].message.text
        shared = received.address if self._links.followers(key.home) else None
        self._bus.publish(key.home, TurnStarted(received.id, question, shared, f"t{turn.number}"))
        has_no_content = asked.has_no_content
        problem: Problem = "failed" if has_no_content and not asked.is_stopped else ""
        restart = context.conversation.compactor.describe_restart(turn.number)
        besides = (explain(restart), "" if has_no_content else asked.unheard)
        answer = TurnAnswer(self.answers, context, language_of_asker(), besides)
        if turn.reply is None:
            await self._notify_words(context.conversation, turn, [asked])
            context.spending.begin(key, context.user)
            agent = rules.agent(context.conversation, received.address)
            model = context.spending.limit(agent.model, key, context.user)
            agent = agent if model is agent.model else replace(agent, model=model)
            if received.run:  # an unattended run, with fewer permissions than the person has
                agent = await self._runs.prepare(received, context.conversation, agent)
            else:
                turn.host = _Host(self, key, answer)
            problem = await self.runner.run(key, turn, agent, received.address, waited)
        last = turn.reply
        assert last is not None, "a turn that was run has a reply"
        if answer.prepared is not None:
            self._delivery.send_prepared(answer.prepared)
        else:
            reply = await answer.compose(turn, last, problem)
            await self._reply(received, reply, answer.turn_id, last.mark)
        lasted = time.monotonic() - asked.at - (rules.waits.seconds(key) - waited)
        is_stopped, channel = last.mark == "stopped", received.address.channel
        self.recent.turn_ended(EndedTurn(channel, lasted, turn.steps, problem, is_stopped))
        usage = TurnUsage(turn.bill.prompt, turn.bill.cached, turn.bill.completion)
        done = Done(received.id, turn.id, usage)
        if self._links.followers(key.home):
            done = replace(done, address=received.address, text=answer.text)
        self._bus.publish(key.home, done)
        await turn.notify("turn_end", last.full_text)  # the next message need not wait for it


class _Host(Struct, frozen=True):
    """The bot's side of a running turn: waiting messages join it, and its answer goes into the
    outbox with its final message."""

    turns: Turns
    key: ConversationKey
    answer: TurnAnswer

    async def before_step(self, turn: OpenTurn) -> None:
        if self.turns.waiting.get(self.key.id):
            await self.turns.add_waiting(self.key, turn)

    async def after_answer(self, turn: OpenTurn, answer: Message) -> AnswerRows | None:
        return await self.answer.prepare(turn, answer)
