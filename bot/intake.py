"""The intake of messages: clean, check access, store files, put into the inbox."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from bot.access import LOCAL, TOO_FAST, Access
from bot.attachments import AttachmentRefused, Stored
from bot.commands import CommandRunner
from bot.delivery import Delivery
from bot.forms import AwaitedText, Forms, fill
from bot.logs import off_record
from bot.private import PrivateConversations
from bot.received import CommandLine, Received, clean_name, command_line
from bot.turns import BUSY, Turns
from bot.workspaces import Workspaces
from channels.language import _, explain
from channels.message import Inbound, Outbound, Reply, clean_text
from memory.keys import ConversationKey
from memory.record.store import StoreError

log = logging.getLogger(__name__)

_LONGEST_NAME = 200  # characters in which the end of a command's name is searched


class Intake:
    """The acceptance or refusal of messages."""

    def __init__(
        self,
        access: Access,
        delivery: Delivery,
        turns: Turns,
        forms: Forms,
        workspaces: Workspaces,
        commands: CommandRunner,
        private: PrivateConversations,
    ) -> None:
        self._access, self._delivery, self._turns = access, delivery, turns
        self._forms, self._workspaces, self._commands = forms, workspaces, commands
        self._private = private

    def find_command(self, inbound: Inbound) -> str:
        """Return the name of the command that a message is, or that it completes as the text of a
        form; "" for none."""
        line = command_line(clean_text(inbound.text[:_LONGEST_NAME]))
        form = self._forms.find(inbound.address) if line is None else None
        line = line if form is None else fill(form, "")
        return line.name if line is not None else ""

    async def take(self, inbound: Inbound) -> tuple[Received, bool] | None:
        """Return the stored message, and whether it is new. None: it was refused, and its sender
        was told so."""
        text, sender = clean_text(inbound.text), clean_name(inbound.sender)
        if (text, sender) != (inbound.text, inbound.sender):
            inbound = replace(inbound, text=text, sender=sender)
        line, key = command_line(inbound.text), self._turns.resolve(inbound.address)
        if self._private.covers(key) or self._private.knows(inbound):
            return await self._accept_privately(inbound, key, line)
        form = self._forms.claim(inbound, line)
        taken: tuple[Received, bool] | None = None
        try:
            taken = await self._accept_for_form(inbound, key, line, form)
        except StoreError as error:
            self._refuse(inbound, Reply(explain(str(error)), problem="failed"))
        except AttachmentRefused as error:
            self._refuse(inbound, Reply(str(error), problem=error.problem))
        finally:
            is_new = taken is not None and taken[1]
            if form is not None and not is_new:
                self._forms.restore_form(form)
        return taken

    async def _accept_for_form(
        self,
        inbound: Inbound,
        key: ConversationKey,
        line: CommandLine | None,
        form: AwaitedText | None,
    ) -> tuple[Received, bool] | None:
        """Accept a message that may end a form: as its text, or as its command with a text."""
        is_text = form is not None and line is None
        if form is not None and is_text:
            line = fill(form, inbound.text)
        refusal = await self._refusal(inbound, key, line, form if is_text else None)
        if refusal is not None:
            self._refuse(inbound, refusal)
            return None
        with self._turns.expect(key):
            files = await self._store_files(inbound, key, line) if inbound.attachments else ()
            command = None if form is None else form.command if is_text else ""
            return await self._delivery.receive(inbound, key, line, files, command)

    async def _accept_privately(
        self, inbound: Inbound, key: ConversationKey, line: CommandLine | None
    ) -> tuple[Received, bool] | None:
        """Accept a message that is off the record: only its id is put on disk."""
        with off_record():
            refusal = await self._refusal(inbound, key, line, None)
            refusal = refusal or self._private.refuse(inbound, key, line)
            try:
                is_new = not refusal and await self._private.note(inbound, key)
            except StoreError as error:
                refusal, is_new = Reply(explain(str(error)), problem="failed"), False
            if refusal:
                self._refuse(inbound, refusal)
                return None
        fields = (0, inbound.id, inbound.address, key, inbound.text, line, inbound.sender)
        return Received(*fields), is_new

    def _refuse(self, inbound: Inbound, refusal: Reply) -> None:
        if refusal.text:
            self._delivery.send(Outbound(0, inbound.address, refusal, inbound.id))

    def must_wait(self, inbound: Inbound) -> bool:
        """Return whether the queue for this message is full; `take` does the waiting."""
        if inbound.address.channel not in LOCAL or command_line(clean_text(inbound.text)):
            return False
        if self._forms.find(inbound.address) is not None:
            return False
        return self._turns.is_busy(self._turns.resolve(inbound.address))

    async def _refusal(
        self,
        inbound: Inbound,
        key: ConversationKey,
        line: CommandLine | None,
        form: AwaitedText | None,
    ) -> Reply | None:
        """Return the reply that refuses a message (without text for silence); None: it is accepted.
        `form` is the form that the message would fill."""
        person = await self._access.identify_or_reload(inbound.address)
        if person is None:
            log.warning("a stranger was refused: %s", inbound.address)
            return Reply(await self._access.refuse_stranger(inbound), problem="refused")
        if self._access.is_too_fast(person):
            return Reply(_(TOO_FAST), problem="too_fast")
        if form is not None and (why := form.refusal(inbound)):
            return Reply(why, problem="invalid")
        if line is not None:  # it joins no queue of turns
            excess = self._commands.find_excess(inbound.address, line)
            return Reply(excess, problem="too_fast") if excess else None
        if not self._turns.is_busy(key):
            return None  # the usual case
        if inbound.address.channel in LOCAL:  # a script sends as many as it has, and waits
            await self._turns.wait_for_capacity(key)
        return Reply(_(BUSY), problem="busy") if self._turns.is_busy(key) else None

    async def _store_files(
        self, inbound: Inbound, key: ConversationKey, line: CommandLine | None
    ) -> tuple[Stored, ...]:
        """Return the stored files of a message; most commands use none."""
        if line is not None and not self._commands.takes_files(line):
            return ()
        return await self._workspaces.keep(key, inbound.attachments)
