"""The reply at the end of a turn: the model's last message, and the lines beside it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from bot.access import Access
from bot.delivery import Delivery, PreparedAnswer
from bot.received import Received
from bot.spending import Spending
from bot.turn_tasks import StoppableTasks
from bot.workspaces import save_spoken
from channels.language import _, explain
from channels.message import Action, Problem, Reply
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import Message
from memory.record.store import StoreError
from memory.turn_log import Also, OpenTurn
from plugins.wording import name_branch

log = logging.getLogger(__name__)

Note = Callable[[Conversation, OpenTurn], Awaitable[list[str]]]
"""Says more of a turn, in sentences that stand below its answer."""

MOST_PICTURES = 6
"""Of those that tools have made in a turn, so many are shown with its answer."""


class TextToSpeech(Protocol):
    """The feature that reads answers aloud."""

    def is_wanted(self, key: ConversationKey, *, was_spoken_to: bool) -> bool:
        """Return whether an answer shall be read aloud in this conversation, to a voice message or
        to a written one."""
        ...

    async def speak(
        self, key: ConversationKey, turn: int, text: str, form: str, user: str
    ) -> bytes:
        """Return an answer to this user ("": an owner) as a sound in this form ("opus", "mp3"), or
        b"" where there is none."""
        ...


class Answers:
    """The parts that answers are made of. `notes` say more of a turn below its answer; `speech`
    reads answers aloud, and `tasks` can be stopped meanwhile."""

    def __init__(
        self,
        conversations: Conversations,
        delivery: Delivery,
        spending: Spending,
        access: Access,
        tasks: StoppableTasks,
        speech: Sequence[TextToSpeech],
        notes: Sequence[Note],
    ) -> None:
        self.conversations, self.delivery = conversations, delivery
        self.spending, self.access, self.tasks = spending, access, tasks
        self.speech, self.notes = speech, notes

    def begin(
        self,
        conversation: Conversation,
        turn: OpenTurn,
        received: Received,
        besides: tuple[str, ...] = (),
    ) -> TurnAnswer:
        """The answer to a message, whose turn runs; `besides` is said below it, before all else."""
        return TurnAnswer(self, conversation, turn, received, besides)


def offer_ways_on(problem: Problem) -> tuple[Action, ...]:
    """Return the buttons below an answer that there is none: what makes the next one work."""
    retry = Action(_("Retry"), "/retry")
    compact = Action(_("Compact"), "/context compact")
    clear = Action(_("Clear the context"), "/context clear", asks_first=True)
    match problem:
        case "invalid":
            return (retry, compact, clear)
        case "too_long":
            return (compact, clear)
        case "busy" | "unavailable" | "upstream" | "timeout" | "failed":
            return (retry,)
    return ()


class TurnAnswer(Struct):
    """The answer of one turn. `text` is what was composed, `turn_id` the turn that it names (None:
    the chat leads elsewhere, where its number means another); `prepared` was put into the outbox
    with the model's last word (None: it is still to be told)."""

    _answers: Answers
    _conversation: Conversation
    _turn: OpenTurn
    _received: Received
    _besides: tuple[str, ...]
    text: str = ""
    turn_id: str | None = None
    prepared: PreparedAnswer | None = None

    async def put_with(self, last: Message) -> Also | None:
        """See `OpenTurn.with_last`. What broke a turn off is judged later, and what is read aloud
        takes too long to let the last word wait for it."""
        self.prepared = None
        if last.mark in ("stopped", "failed") or self._find_speech()[0]:
            return None
        delivery, received = self._answers.delivery, self._received
        try:
            with delivery.speaking_to(received.address, self._conversation.key.id):
                reply = await self.compose(last)
        except StoreError as error:  # the model's word is not lost over what stands beside it
            log.warning("an answer is composed once more: %s", error)
            return None
        self.prepared = await delivery.prepare(received, reply, self.turn_id)
        return self.prepared.store

    async def compose(self, last: Message, problem: Problem = "") -> Reply:
        """Return the reply to a turn that ends with this message."""
        is_here = self._answers.conversations.branches.is_current(self._conversation.key)
        self.turn_id = self._turn.id if is_here else None
        told = (
            *self._besides,
            *map(explain, await self._turn.list_notices()),
            *await self._list_notes(),
            "" if is_here else await self._name_branch(),
        )
        # In the person's language, but for what the model said.
        words = replace(last, notice=explain(last.notice)).told if last.notice else last.told
        self.text = "\n\n".join((words, *filter(None, told)))
        sound = "" if last.mark else await self._speak(last)
        return Reply(
            self.text,
            actions=offer_ways_on(problem),
            images=self._pictures(),
            problem=problem,
            sound=sound,
        )

    def _pictures(self) -> tuple[str, ...]:
        """The pictures that tools have made in this turn, the last of them."""
        results = (e.message for e in self._turn.entries if e.message.role == "tool")
        made = [file for result in results for file in result.files]
        if not made:
            return ()
        services = self._answers.conversations.services
        folder = services.audience_folder(self._conversation.key.audience)
        once = [*dict.fromkeys(made)][-MOST_PICTURES:]
        return tuple(str((folder / file).absolute()) for file in once)

    def _find_speech(self) -> tuple[TextToSpeech | None, str]:
        """Return the feature that reads this answer aloud, if one does, and in which form."""
        was_spoken_to = any(file.heard for file in self._received.files)
        for speech in self._answers.speech:
            if speech.is_wanted(self._conversation.key, was_spoken_to=was_spoken_to):
                form = self._answers.delivery.find_sound_form(self._received.address.channel)
                return (speech if form else None), form
        return None, ""

    async def _speak(self, last: Message) -> str:
        """The file in which it is read aloud, or ""; `/stop` ends the reading."""
        key, turn, (speech, form) = self._conversation.key, self._turn.number, self._find_speech()
        if speech is None:
            return ""
        user = self._answers.access.find_limited_user(self._received.address)
        task = asyncio.create_task(speech.speak(key, turn, last.text, form, user))
        with self._answers.tasks.running(key, task):
            await asyncio.wait({task})
        try:
            sound = b"" if task.cancelled() else task.result()
            folder = self._conversation.folder
            if sound:
                return str(await asyncio.to_thread(save_spoken, folder, turn, sound, form))
        except Exception:  # the text is there all the same
            log.exception("an answer was not read aloud:")
        return ""

    async def _name_branch(self) -> str:
        """Return a line that names the answer's branch, for a chat that leads elsewhere by now."""
        number = self._conversation.key.number
        return _(
            "(This answer belongs to {called}; /branches {number} goes back there.)",
            called=name_branch(number, await self._conversation.title()),
            number=number,
        )

    async def _list_notes(self) -> list[str]:
        said = [
            text
            for note in self._answers.notes
            for text in await note(self._conversation, self._turn)
        ]
        user = self._answers.access.find_limited_user(self._received.address)
        spending, conversation = self._answers.spending, self._conversation
        return [*said, *await spending.warnings(conversation.key, user, conversation)]
