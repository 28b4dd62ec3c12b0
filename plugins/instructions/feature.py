"""The hooks of standing instructions, and the model's tool `propose_rule`, which asks a person and
keeps nothing itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from agent.prompt import PromptSection
from bot.app import Kernel
from bot.checks import Finding
from bot.sending import address_of
from bot.settings import Settings
from channels.message import Reply
from memory.record.database import Step
from memory.record.forget import FeatureRows
from memory.turn_log import OpenTurn
from plugins.api import Command, InForce, Tool, ToolContext, ToolError, UserWords, hookimpl, tool
from plugins.hookspecs import Background
from plugins.instructions import detect
from plugins.instructions.commands import list_notes, rules
from plugins.instructions.record import TABLES, InstructionRows
from plugins.instructions.settings import RuleSettings
from plugins.instructions.standing import SECTION, StandingInstructions


@tool(is_parallel=False, needs_conversation=True)
async def propose_rule(context: ToolContext, text: str) -> str:
    """Ask the user to keep a lasting order, a whole sentence in their exact words, as a rule."""
    if context.place is None or context.conversation is None:
        raise ToolError("Not proposed: nobody is there to be asked.")
    address, turn = address_of(context.place), context.conversation.context.current
    rules = context.service(StandingInstructions)
    return await rules.propose(context.key, turn, address, text)


class InstructionsFeature:
    """The feature's services, created from the kernel's."""

    def __init__(self, standing: StandingInstructions) -> None:
        self._standing = standing

    @hookimpl
    def parley_services(self) -> Sequence[object]:
        return (self._standing,)

    @hookimpl
    def parley_background(self) -> Background:
        return self._standing.tasks

    @hookimpl
    def parley_prompt_section(self) -> PromptSection:
        return PromptSection(SECTION, self._standing.section)

    @hookimpl
    def parley_said(self) -> Callable[[UserWords], Awaitable[None]]:
        return self._standing.handle

    @hookimpl
    def parley_in_force(self) -> InForce:
        return self._standing.describe_in_force

    @hookimpl
    def parley_notes(self) -> Callable[[OpenTurn], Sequence[str | Reply]]:
        return partial(list_notes, self._standing)

    @hookimpl
    def parley_setting_changed(self) -> Callable[[], None]:
        return self._standing.reload

    @hookimpl
    def parley_rows(self) -> FeatureRows:
        return InstructionRows(self._standing.drop)


@hookimpl
async def parley_open(kernel: Kernel) -> InstructionsFeature:
    standing = StandingInstructions(kernel)
    await standing.load()
    return InstructionsFeature(standing)


@hookimpl
def parley_tables() -> Sequence[Step]:
    return TABLES


@hookimpl
def parley_commands() -> list[Command]:
    return [rules]


@hookimpl
def parley_tools() -> list[Tool]:
    return [propose_rule]


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Check that the file for rules.detect exists."""
    del may_connect
    if settings.section(RuleSettings).detect == "off" or detect.is_there():
        return ()
    sentence = f"{detect.NAME} is missing or damaged: no rule is found in what people say."
    advice = "Install the bot anew, or set rules.detect to off; /rules add works without it."
    return (Finding("Standing instructions", "broken", sentence, advice),)
