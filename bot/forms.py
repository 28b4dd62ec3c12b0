"""Follow-up input: a command asks for text, and the person's next message is that text.

A channel with input fields (`WithFields`) shows the form and sends the whole command. For all
others the bot waits: for ten minutes, for this person in this conversation alone, across other
commands and a restart. The text goes to the command, and never to the model.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from bot.delivery import columns_of
from bot.received import CommandLine, Links, command_line
from bot.sending import address_of
from channels.base import Channel, WithFields
from channels.language import _
from channels.message import LONGEST_FORM, Address, Form, Inbound, Reply
from memory.keys import Scope, everything
from memory.record import mailbox
from memory.record.store import Store

PATIENCE = 600.0
"""Seconds for which the bot waits for the text."""
CANCEL = "cancel"
"""The command that cancels the form and confirms it."""


class AwaitedText(Struct, frozen=True):
    """A form that waits for text at an address; `until` is in seconds since 1970."""

    address: Address
    command: str
    until: float

    def refusal(self, inbound: Inbound) -> str:
        """Return why a message is not accepted as the text; "" if it is."""
        if inbound.attachments:
            why = _("Only text is accepted here, not a file")
        elif not inbound.text.strip():
            why = _("Your message is empty")
        elif len(inbound.text) > LONGEST_FORM:
            why = _(
                "Your message is longer than the {longest_form:,} characters that I take here",
                longest_form=LONGEST_FORM,
            )
        else:
            return ""
        return _(
            "{why}, so nothing was changed. I am still waiting for the text for "
            "`{command}`; /{cancel} cancels that.",
            why=why,
            command=self.command,
            cancel=CANCEL,
        )


class Forms:
    """The addresses at which a command waits for text."""

    def __init__(self, store: Store, channels: Mapping[str, Channel], links: Links) -> None:
        self._store, self._channels, self._clock = store, channels, time.time
        self._links = links
        self._waiting: dict[Address, AwaitedText] = {}

    async def load(self, is_selected: Scope = everything) -> None:
        """Resume waiting for the open forms of the previous process."""
        for place, command, until in await self._store.read(mailbox.open_forms):
            address = address_of(place)
            if is_selected(self._links.key_of(address).id):
                self.restore_form(AwaitedText(address, command, until))

    def drop(self, is_selected: Scope) -> None:
        """Drop the forms of these conversations: another process waits for them from now on."""
        for address in [one for one in self._waiting if is_selected(self._links.key_of(one).id)]:
            del self._waiting[address]

    async def ask(self, address: Address, reply: Reply) -> Reply:
        """Return the reply as it is sent. For a form that its channel has no field for, the reply
        says what to do, and the bot waits for the text from now on."""
        if reply.form is None:
            return reply
        channel: object = self._channels.get(address.channel)
        if isinstance(channel, WithFields) and channel.has_fields:
            return reply
        one = AwaitedText(address, reply.form.command, self._clock() + PATIENCE)
        await self._store.write(
            # Not synced: the reply is written later, and is not on disk without it.
            lambda db: mailbox.open_form(db, columns_of(address), one.command, one.until),
            is_synced=False,
        )
        self._waiting[address] = one
        return replace(reply, text=_with_question(reply.text, reply.form, address))

    def find(self, address: Address) -> AwaitedText | None:
        """Return the form that the next message there fills, or None."""
        one = self._waiting.get(address)
        return one if one is not None and one.until > self._clock() else None

    def claim(self, inbound: Inbound, line: CommandLine | None) -> AwaitedText | None:
        """Return the form that this message ends, and close it; `restore_form` undoes that. A
        command ends it only if it is the form's own command with a text; other commands leave it
        open."""
        one = self.find(inbound.address)
        if one is None or (line is not None and not inbound.text.startswith(f"{one.command} ")):
            return None
        return self._waiting.pop(inbound.address)

    def remind(self, address: Address) -> str:
        """Return a sentence that the form still waits, for the end of another command's answer; ""
        if none does."""
        one = self.find(address)
        if one is None:
            return ""
        return _(
            "I am still waiting for the text for `{command}`: your next message is used for "
            "it. /{cancel} cancels that.",
            command=one.command,
            cancel=CANCEL,
        )

    def restore_form(self, one: AwaitedText) -> None:
        self._waiting.setdefault(one.address, one)

    async def cancel(self, address: Address) -> str:
        """Close the form; return its command, or ""."""
        one = self._waiting.pop(address, None)
        if one is None:
            return ""
        await self._store.write(lambda db: mailbox.close_form(db, columns_of(address)))
        return one.command if one.until > self._clock() else ""


def fill(waiting: AwaitedText, text: str) -> CommandLine | None:
    """Return the command with its argument."""
    return command_line(f"{waiting.command} {text}")


def _with_question(text: str, form: Form, address: Address) -> str:
    """Return a reply with its form, for a channel without input fields."""
    ask = (
        _("Write the new text as your next message")
        if address.is_private or not address.user
        else _("Reply to this message with the new text")
    )
    now = _("The present text:\n\n{fence}", fence=_fence(form.text)) if form.text else ""
    what = _(
        "{ask}, within {patience:g} minutes. It is used for `{command}` and not sent to the "
        "model. /{cancel} cancels that.",
        ask=ask,
        patience=PATIENCE / 60,
        command=form.command,
        cancel=CANCEL,
    )
    return "\n\n".join(filter(None, (text, now, what)))


def _fence(text: str) -> str:
    """Return the text as a block that a person can copy; its content can't end the block."""
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"
