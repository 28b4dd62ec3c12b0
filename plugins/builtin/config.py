"""`/config`: the settings, seen and changed while the bot runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from plugins.api import Action, Ask, Command, CommandError, Reply, SettingInfo, command, hookimpl
from plugins.wording import cell

HERE, UNSET = "--here", "--unset"
EVERYWHERE = ""


@command(
    "config",
    "Show or change settings while the bot runs",
    "[KEY [VALUE] [--here] [--unset]]",
)
async def config(ask: Ask) -> Reply:
    """`/config`, `/config KEY`, `/config KEY VALUE [--here]`, `/config KEY --unset [--here]`."""
    key, value, flags = parse(ask.text)
    here = ask.conversation.key.id
    if not key:
        return _all(ask.bot.settings.describe_all(here))
    before = ask.bot.settings.describe(key, here)
    if not value and UNSET not in flags:
        return Reply(about(before), _data(before), offers(before))
    scope = here if HERE in flags else EVERYWHERE
    if scope == EVERYWHERE:
        ask.require_owner("change settings for all conversations")
    if UNSET in flags:
        await ask.bot.settings.unset(key, scope)
    else:
        await ask.bot.settings.set(key, value, scope)
    after = ask.bot.settings.describe(key, here)
    return Reply(changed(before, after, scope), _data(after), offers(after))


def parse(text: str) -> tuple[str, str, frozenset[str]]:
    """Key, value as typed, and flags; flags stand at the end."""
    key, _, rest = text.strip().partition(" ")
    words = rest.split(" ")
    flags = set()
    while words and words[-1] in (HERE, UNSET, ""):
        flags.add(words.pop())
    if key.startswith("--"):
        raise CommandError(f"/config wants a setting's name before {key}.")
    value = " ".join(words).strip().removeprefix("=").strip()
    if value and UNSET in flags:
        raise CommandError(f"/config {key} takes a value or {UNSET}, not both.")
    return key, value, frozenset(flags - {""})


def about(setting: SettingInfo) -> str:
    """One setting, whole."""
    unit = f" {setting.unit}" if setting.unit else ""
    local = f", {HERE} for this conversation only" if setting.is_per_conversation else ""
    return (
        f"`{setting.key}` is **{shown(setting.value)}**{unit} (from: {setting.layer}; "
        f"default {shown(setting.default)}). {setting.meaning}\n\n"
        f"It wants {setting.wants}. Change it with `/config {setting.key} VALUE`{local}; "
        f"`{UNSET}` goes back."
    )


def offers(setting: SettingInfo) -> tuple[Action, ...]:
    """The other values, where there are few, and the way back from a change made in the chat."""
    others = (choice for choice in _choices(setting) if choice != shown(setting.value))
    values = [Action(choice, f"/config {setting.key} {choice}") for choice in others]
    if setting.layer == "/config":
        values.append(Action("Back", f"/config {setting.key} {UNSET}"))
    return tuple(values)


def _choices(setting: SettingInfo) -> tuple[str, ...]:
    return ("true", "false") if isinstance(setting.value, bool) else setting.choices


def changed(before: SettingInfo, after: SettingInfo, scope: str) -> str:
    """What a change did; also when another layer hides it."""
    where = "in this conversation" if scope else "everywhere"
    unit = f" {after.unit}" if after.unit else ""
    if after.value == before.value and after.layer == before.layer:
        return f"`{after.key}` stays {shown(after.value)}{unit} (from: {after.layer})."
    return (
        f"`{after.key}` is now **{shown(after.value)}**{unit} {where} (from: {after.layer}; "
        f"before: {shown(before.value)}). It holds {after.holds}."
    )


def shown(value: Any) -> str:
    """A value as it would be typed, shortened."""
    if isinstance(value, str):
        text = value if value and value == value.strip() else f'"{value}"'
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _all(settings: list[SettingInfo]) -> Reply:
    rows = "\n".join(
        f"| {setting.key} | {cell(shown(setting.value))} | {setting.layer} |"
        for setting in settings
    )
    text = (
        f"| setting | value | from |\n|---|---|---|\n{rows}\n\n"
        "`/config KEY` explains one; `/config KEY VALUE` changes it."
    )
    simple = (setting.key for setting in settings if _choices(setting))
    actions = tuple(Action(key, f"/config {key}") for key in simple)
    return Reply(text, {"settings": [_data(setting) for setting in settings]}, actions)


def _data(setting: SettingInfo) -> dict[str, Any]:
    return asdict(setting)


@hookimpl
def parley_commands() -> list[Command]:
    return [config]
