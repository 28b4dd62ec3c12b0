"""The hooks of side questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bot.kernel import Kernel
from memory.keys import ConversationKey
from plugins.api import Command, ContextPart, hookimpl
from plugins.side_questions.asking import SideQuestions
from plugins.side_questions.commands import btw, find_in_context


class SideQuestionsFeature:
    """The service of the feature, made from the kernel's parts."""

    def __init__(self, kernel: Kernel) -> None:
        self._asked = SideQuestions(kernel.config, kernel.store)

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._asked,)

    @hookimpl
    def parley_stop(self) -> Callable[[ConversationKey], bool]:
        return self._asked.stop


@hookimpl
def parley_open(kernel: Kernel) -> SideQuestionsFeature:
    return SideQuestionsFeature(kernel)


@hookimpl
def parley_commands() -> list[Command]:
    return [btw]


@hookimpl
def parley_context_parts() -> Mapping[str, ContextPart]:
    return {"search": find_in_context}
