"""The checks of the tool `shell`, for `python main.py doctor` and `audit`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

from agent.tools.child_process import HAS_GROUPS
from bot.checks import Finding
from bot.settings import Settings
from plugins.shell import box
from plugins.shell.settings import ShellSettings


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Check that commands can be sandboxed on this machine, if the tool is on."""
    del may_connect
    if not settings.section(ShellSettings).shell:
        return ()
    return [check_box(settings, await box.is_there(), bool(shutil.which("bwrap")))]


def check_box(settings: Settings, is_there: bool, is_installed: bool) -> Finding:
    """Return whether the commands of the tool `shell` run in a sandbox."""
    if not HAS_GROUPS:
        advice = "Take tools.shell out of the configuration."
        return Finding(
            "commands", "broken", "The tool shell is off: it needs Linux or macOS.", advice
        )
    if is_there:
        return Finding("commands", "ok", "They can be confined (bubblewrap).")
    if settings.tools.shell_unboxed:
        return Finding("commands", "ok", "They are not confined (tools.shell_unboxed).")
    advice = "Or switch the tool off: take tools.shell out of the configuration."
    if not is_installed:
        sentence = "The tool shell is on, and refuses all: bubblewrap is missing."
        return Finding(
            "commands", "broken", sentence, f"Install it: apt install bubblewrap. {advice}"
        )
    sentence = (
        "The tool shell is on, and refuses all: bubblewrap may make no namespaces here, as in most "
        "containers."
    )
    page = 'Documentation: "Running the bot permanently", "Commands in a sandbox".'
    return Finding("commands", "broken", sentence, f"{page} {advice}")


def list_risks(settings: Settings) -> Iterator[Finding]:
    """Yield the risks of commands, if the tool is on."""
    if not settings.section(ShellSettings).shell:
        return
    if settings.tools.shell_unboxed:
        yield Finding(
            "commands",
            "high",
            "Commands run outside a sandbox, and can do all that the bot's account can.",
            'take "shell_unboxed" out of the configuration',
        )
    elif not shutil.which("bwrap"):
        yield Finding(
            "commands",
            "low",
            "Commands are on, but can't run: bubblewrap is missing.",
            "apt install bubblewrap",
        )
    yield Finding(
        "commands", "note", "The model may ask to run commands.", "/config tools.shell false"
    )
