"""The hooks of approvals, and the commands `/approve` and `/deny`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from bot.kernel import Kernel
from channels.language import _
from channels.message import Inbound
from memory.keys import ConversationKey
from plugins.api import Ask, Command, CommandError, Person, Reply, command, hookimpl
from plugins.approvals.approvals import ANSWER, ONCE, Answer, Approvals


class ApprovalsFeature:
    """The questions that wait, made from the kernel's parts."""

    def __init__(self, kernel: Kernel) -> None:
        self._approvals = Approvals(kernel.delivery, kernel.links, kernel.processes)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._approvals,)

    @hookimpl
    def parley_approvals(self) -> Approvals:
        return self._approvals

    @hookimpl
    def parley_meant(self) -> Callable[[Inbound, ConversationKey, Person], str]:
        return self._approvals.read

    @hookimpl
    def parley_calls(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        return {ANSWER: self._approvals.take_passed_on}


@hookimpl
def parley_open(kernel: Kernel) -> ApprovalsFeature:
    return ApprovalsFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [approve, deny]


@command("approve", "Approve a request for permission, or show it again", "[NAME] [once]")
async def approve(ask: Ask) -> Reply:
    """`/approve K7QM`, `/approve K7QM once`: an owner, or who asked in a private chat. Without a
    name: what waits."""
    if not ask.words:
        return _show_waiting(ask)
    words = [word for word in ask.words if word.lower() != ONCE]
    is_once = words != ask.words
    await _answer(ask, "approve", words, "once" if is_once else "always")
    return Reply(_("Allowed once.") if is_once else _("Allowed."), {"is_allowed": True})


@command("deny", "Deny a request for permission", "NAME")
async def deny(ask: Ask) -> Reply:
    """`/deny K7QM`: whoever may talk there."""
    await _answer(ask, "deny", ask.words, "no")
    return Reply(_("Denied; it goes on without it."), {"is_allowed": False})


def _show_waiting(ask: Ask) -> Reply:
    questions = ask.service(Approvals).list_waiting(ask.conversation.key)
    if not questions:
        raise CommandError(_("No question is waiting here."))
    actions = tuple(action for question in questions for action in question.actions)
    return Reply("\n\n".join(question.text for question in questions), actions=actions)


async def _answer(ask: Ask, name: str, words: Sequence[str], said: Answer) -> None:
    if len(words) != 1:
        raise CommandError(_("/{name} needs the name from the question, like K7QM.", name=name))
    await ask.service(Approvals).answer(words[0], ask.person, ask.address, said, ask.speaker)
