"""The reply at the end of a turn: the model's last message, and the lines below it."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from bot.delivery import Delivery, PreparedAnswer
from bot.received import Received
from bot.spending import SpendingRules
from bot.turn_runner import TurnRunner
from bot.workspaces import save_spoken
from channels.language import _, explain, speaking
from channels.message import Action, Problem, Reply
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import Message
from memory.record import conversations
from memory.record.store import StoreError
from memory.turn_log import OpenTurn
from plugins.loader import LoadedPlugins
from plugins.wording import name_branch

log = logging.getLogger(__name__)

MOST_PICTURES = 6
"""The maximum number of pictures made by tools in a turn that are shown with its answer."""


class TextToSpeech(Protocol):
    """The feature that reads answers aloud."""

    def is_needed(self, key: ConversationKey, *, was_spoken_to: bool) -> bool:
        """Return whether an answer is to be read aloud in this conversation, as a reply to a voice
        or to a written message."""
        ...

    async def speak(
        self, key: ConversationKey, turn: int, text: str, form: str, user: str
    ) -> bytes:
        """Return an answer to this user ("": an owner) as a sound in this form ("opus", "mp3"); b""
        if there is none."""
        ...


class TurnContext(Struct, frozen=True):
    """The constant facts of one turn: the message that is answered, the user who sent it ("": an
    owner), the conversation, and the spending rules."""

    key: ConversationKey
    received: Received
    user: str
    conversation: Conversation
    spending: SpendingRules


class Answers:
    """The parts that answers are made of. `runner` runs the turns, and its tasks can be stopped,
    such as reading aloud; `features` add notes below an answer and may read it aloud."""

    def __init__(
        self,
        conversations: Conversations,
        delivery: Delivery,
        runner: TurnRunner,
        features: LoadedPlugins,
    ) -> None:
        self.conversations, self.delivery = conversations, delivery
        self.runner, self.features = runner, features


def recovery_buttons(problem: Problem, turn: str | None) -> tuple[Action, ...]:
    """Return the buttons below an error message that help the next attempt. They remain visible, so
    the retry button names its turn."""
    if not problem:
        return ()
    retry = Action(_("Retry"), f"/retry {turn}" if turn else "/retry")
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
    """The answer of one turn, in the asker's language. `besides` comes first below it; `text` is
    the composed text. `turn_id` is the turn that it names (None: the chat has switched to another
    conversation, where that number is another turn). `prepared` was put into the outbox with the
    model's last message (None: it is still to be sent)."""

    _answers: Answers
    _context: TurnContext
    _language: str
    _besides: tuple[str, ...]
    text: str = ""
    turn_id: str | None = None
    prepared: PreparedAnswer | None = None
    _is_silent: bool = False  # it is known that the answer is not read aloud

    async def prepare(self, turn: OpenTurn, last: Message) -> PreparedAnswer | None:
        """Return the rows of the answer in the outbox, which are written with the final message;
        None if the answer is composed later. That is so for a turn that broke off, and for one that
        is read aloud, which takes too long to delay the message."""
        self.prepared = None
        self._is_silent = self._find_speech()[0] is None
        if last.mark in ("stopped", "failed") or not self._is_silent:
            return None
        delivery, received = self._answers.delivery, self._context.received
        try:
            with speaking(self._language):
                reply = await self.compose(turn, last)
        except StoreError as error:  # the model's message is not lost because of the notes
            log.warning("an answer is composed once more: %s", error)
            return None
        except Exception:
            log.exception("an answer is composed once more:")
            return None
        self.prepared = await delivery.prepare(received, reply, self.turn_id)
        return self.prepared

    async def compose(self, turn: OpenTurn, last: Message, problem: Problem = "") -> Reply:
        """Return the reply to a turn that ends with this message."""
        context = self._context
        is_here = self._answers.conversations.branches.is_current(context.key)
        self.turn_id = turn.id if is_here else None
        notes, actions = await self._list_notes(turn)
        parts = (
            *self._besides,
            *map(explain, filter(None, await turn.list_notices())),
            *notes,
            "" if is_here else await self._name_branch(),
        )
        # In the person's language, except for the model's text.
        words = (
            replace(last, notice=explain(last.notice)).full_text if last.notice else last.full_text
        )
        self.text = "\n\n".join((words, *filter(None, parts)))
        sound = "" if last.mark or self._is_silent else await self._speak(turn, last)
        return Reply(
            self.text,
            actions=(*recovery_buttons(problem, self.turn_id), *actions),
            images=self._list_pictures(turn),
            problem=problem,
            sound=sound,
        )

    def _list_pictures(self, turn: OpenTurn) -> tuple[str, ...]:
        """Return the last pictures that tools have made in this turn."""
        made = [file for e in turn.entries if e.message.role == "tool" for file in e.message.files]
        if not made:
            return ()
        services = self._answers.conversations.services
        folder = services.audience_folder(self._context.key.audience)
        once = [*dict.fromkeys(made)][-MOST_PICTURES:]
        return tuple(str((folder / file).absolute()) for file in once)

    def _find_speech(self) -> tuple[TextToSpeech | None, str]:
        """Return the feature that reads this answer aloud, if any, and the sound's form."""
        received = self._context.received
        was_spoken_to = any(file.heard for file in received.files)
        for speech in self._answers.features.text_to_speech:
            if speech.is_needed(self._context.key, was_spoken_to=was_spoken_to):
                form = self._answers.delivery.find_sound_form(received.address.channel)
                return (speech if form else None), form
        return None, ""

    async def _speak(self, turn: OpenTurn, last: Message) -> str:
        """Return the file with the spoken answer, or ""; `/stop` ends the reading."""
        (speech, form), context, key = self._find_speech(), self._context, self._context.key
        if speech is None:
            return ""
        asked = speech.speak(key, turn.number, last.text, form, context.user)
        task = asyncio.create_task(asked)
        with self._answers.runner.tasks.running(key, task):
            await asyncio.wait({task})
        try:
            sound = b"" if task.cancelled() else task.result()
            folder = context.conversation.folder
            if sound:
                return str(await asyncio.to_thread(save_spoken, folder, turn.number, sound, form))
        except Exception:  # the text is sent all the same
            log.exception("an answer was not read aloud:")
        return ""

    async def _name_branch(self) -> str:
        """Return a line that names the answer's branch, for a chat that has switched to another
        one."""
        key, services = self._context.key, self._answers.conversations.services
        title = await services.store.read(lambda db: conversations.title(db, key.id))
        return _(
            "(This answer belongs to {called}; /branches {number} goes back there.)",
            called=name_branch(key.number, title),
            number=key.number,
        )

    async def _list_notes(self, turn: OpenTurn) -> tuple[list[str], list[Action]]:
        """Return the notes of features on the turn, and the buttons that belong to them."""
        answers, context, talk = self._answers, self._context, self._context.conversation
        notes = [notes for note in answers.features.notes for notes in note(turn)]
        texts = [one.text if isinstance(one, Reply) else one for one in notes]
        actions = [action for one in notes if isinstance(one, Reply) for action in one.actions]
        return [*texts, *await context.spending.warnings(talk.key, context.user, talk)], actions
