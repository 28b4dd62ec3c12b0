"""`/config`: the settings, seen and changed while the bot runs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from plugins import rules
from plugins.api import Action, Ask, Command, CommandError, Reply, SettingInfo, command, hookimpl
from plugins.builtin.context.show import BY_RULE, format_rules, too_small
from plugins.builtin.help import format_strategies
from plugins.wording import cell

SIZES = (
    "agent_max_context_tokens",
    "context.max_tokens",
    "context.trigger_ratio",
    "context.compression_trigger",
)
"""Settings by which turns leave at so many tokens."""
STRATEGY = "context.strategy"
_OLDER_TURNS = "What happens to older turns:"
HERE, UNSET = "--here", "--unset"
EVERYWHERE = ""


@command(
    "config",
    "Show or change settings while the bot runs",
    "[GROUP | KEY [VALUE] [--here] [--unset]]",
)
async def config(ask: Ask) -> Reply:
    """`/config`, `/config GROUP`, `/config KEY`, `/config KEY VALUE [--here]`, `/config KEY --unset
    [--here]`."""
    key, value, flags = parse(ask.text)
    here = ask.conversation.key.id
    if not key:
        return _all(_list_visible(ask)) if ask.person.is_owner else _own(_list_visible(ask))
    if not (value or flags) and (members := _group(_list_visible(ask), key)):
        return _members(members)
    before = ask.bot.settings.describe(key, here)
    if not value and UNSET not in flags:
        return _one(ask, before)
    scope = here if HERE in flags else EVERYWHERE
    if scope == EVERYWHERE:
        ask.require_owner("change settings for all conversations")
    if UNSET in flags:
        await ask.bot.settings.unset(key, scope, ask.person)
    else:
        await ask.bot.settings.set(key, value, scope, ask.person)
    after = ask.bot.settings.describe(key, here)
    actions = offers(after) if ask.person.is_owner else ()
    told = [describe_change(before, after, scope)]
    if scope == EVERYWHERE and after.layer not in ("/config", "default", "file", "environment"):
        told = [_elsewhere(ask.bot.settings.describe(key, EVERYWHERE), after)]
    if after.key in SIZES:
        context = ask.conversation.context
        told.append(too_small(context.view(), context.limits))
    return Reply("\n\n".join(filter(None, told)), _data(after), actions)


def _list_visible(ask: Ask) -> list[SettingInfo]:
    """The settings that this person may change; what they want is what the person may set."""
    here = ask.conversation.key.id
    settings = ask.bot.settings.describe_all(here)
    if ask.person.is_owner:
        return settings
    may = {setting.key: ask.bot.settings.may_set(setting.key, here) for setting in settings}
    return [replace(one, wants=wants) for one in settings if (wants := may[one.key]) is not None]


def _one(ask: Ask, setting: SettingInfo) -> Reply:
    if setting.key == STRATEGY:
        meaning = f"{_OLDER_TURNS}\n\n{format_strategies(str(setting.value))}"
        setting = replace(setting, meaning=meaning)
    if ask.person.is_owner:
        built_in = _describe_built_in(ask, setting) if setting.key == "hooks" else ""
        text = "\n\n".join(filter(None, (about(setting), built_in)))
        return Reply(text, _data(setting), offers(setting))
    own = _group(_list_visible(ask), group_of(setting.key))
    found = next((one for one in own if one.key == setting.key), None)
    if found is None:
        ask.require_owner(f"see and change {setting.key}")
        raise AssertionError("a user who is no owner was let through")
    unit = f" {found.unit}" if found.unit else ""
    text = (
        f"`{found.key}` is **{quote(found.value)}**{unit} here (from: {found.layer}). "
        f"{found.meaning}\n\nYou can set {found.wants}: `/config {found.key} VALUE {HERE}`; "
        f"`{UNSET} {HERE}` takes it back."
    )
    return Reply(text, _data(found))


def _describe_built_in(ask: Ask, hooks: SettingInfo) -> str:
    """What the rule does that is there without being written, and what takes its place."""
    limits = ask.conversation.context.limits
    if limits.strategy not in BY_RULE:
        return ""
    if own := format_rules(rules.find_compacting(rules.parse(list(hooks.value)))):
        return f"In this conversation {own}, and the built-in `{rules.AUTO_COMPACT}` does not."
    if not limits.auto_compact:
        return f"The built-in rule `{rules.AUTO_COMPACT}` is off: `context.auto_compact` is false."
    parts = {"id", "on", "condition", "action", "cooldown"}
    rule = rules.auto_compact(limits).model_dump_json(include=parts)
    return (
        "In this conversation there is one more rule, which is built in and follows the "
        f"settings:\n\n```json\n{rule}\n```\n\nA rule of your own with the action "
        "`compact_context` takes its place; `/config context.auto_compact false` turns it off."
    )


def _own(settings: list[SettingInfo]) -> Reply:
    """What a user who is no owner may change, and how far."""
    if not settings:
        return Reply("Only an owner may change settings here.", {"settings": []})
    rows = "\n".join(
        f"| {setting.key} | {cell(quote(setting.value))} | {cell(setting.wants)} |"
        for setting in settings
    )
    text = (
        "What you can change in this conversation:\n\n| setting | value | you can set "
        f"|\n|---|---|---|\n{rows}\n\n`/config KEY VALUE {HERE}` changes one; `/config KEY "
        f"{UNSET} {HERE}` takes that back."
    )
    return Reply(text, {"settings": [_data(setting) for setting in settings]})


def parse(text: str) -> tuple[str, str, frozenset[str]]:
    """Key, value as typed, and flags; flags stand at the end."""
    key, _, rest = text.strip().partition(" ")
    words = rest.split(" ")
    flags = set()
    while words and words[-1] in (HERE, UNSET, ""):
        flags.add(words.pop())
    if key.startswith("--"):
        raise CommandError(f"/config needs a setting's name before {key}.")
    value = " ".join(words).strip().removeprefix("=").strip()
    if value and UNSET in flags:
        raise CommandError(f"/config {key} takes a value or {UNSET}, not both.")
    return key, value, frozenset(flags - {""})


def about(setting: SettingInfo) -> str:
    """One setting, whole."""
    unit = f" {setting.unit}" if setting.unit else ""
    local = f", {HERE} for this conversation only" if setting.is_per_conversation else ""
    return (
        f"`{setting.key}` is **{quote(setting.value)}**{unit} (from: {setting.layer}; default "
        f"{quote(setting.default)}). {setting.meaning}\n\nIt can be {setting.wants}. Change it "
        f"with `/config {setting.key} VALUE`{local}; `{UNSET}` resets it."
    )


def offers(setting: SettingInfo) -> tuple[Action, ...]:
    """The other values, where there are few, and the way back from a change made in the chat."""
    others = (choice for choice in _choices(setting) if choice != quote(setting.value))
    values = [Action(_button(choice), f"/config {setting.key} {choice}") for choice in others]
    if setting.layer == "/config":
        values.append(Action("Undo this setting", f"/config {setting.key} {UNSET}"))
    return tuple(values)


def _button(choice: str) -> str:
    """What a button is called by what it does."""
    return {"true": "Switch on", "false": "Switch off"}.get(choice, choice)


def _choices(setting: SettingInfo) -> tuple[str, ...]:
    return ("true", "false") if isinstance(setting.value, bool) else setting.choices


def describe_change(before: SettingInfo, after: SettingInfo, scope: str) -> str:
    """What a change did; also when another layer hides it."""
    where = "in this conversation" if scope else "everywhere"
    unit = f" {after.unit}" if after.unit else ""
    if after.value == before.value and after.layer == before.layer:
        return f"`{after.key}` stays {quote(after.value)}{unit} (from: {after.layer})."
    return (
        f"`{after.key}` is now **{quote(after.value)}**{unit} {where} (from: {after.layer}; "
        f"before: {quote(before.value)}). It applies {after.holds}."
    )


def _elsewhere(everywhere: SettingInfo, here: SettingInfo) -> str:
    """A change for all conversations that does not show in this one."""
    unit = f" {here.unit}" if here.unit else ""
    how = f" (from: {here.layer}" + (
        f"; `/config {here.key} {UNSET} {HERE}` takes that back)" if here.layer == HERE else ")"
    )
    return (
        f"`{here.key}` is now **{quote(everywhere.value)}**{unit} everywhere else (from: "
        f"{everywhere.layer}), and stays {quote(here.value)}{unit} in this conversation{how}."
    )


def quote(value: Any) -> str:
    """A value as it would be typed, shortened."""
    if isinstance(value, str):
        text = value if value and value == value.strip() else f'"{value}"'
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _all(settings: list[SettingInfo]) -> Reply:
    """What stands at no default, and the groups of all."""
    moved = [setting for setting in settings if setting.layer != "default"]
    table = f"{_table(moved)}\n\n" if moved else "Every setting is at its default.\n\n"
    groups = Counter(group_of(setting.key) for setting in settings)
    named = ", ".join(f"`/config {group}` ({size})" for group, size in groups.items())
    text = f"{table}All of them, by group: {named}.\n\n{_HOW}"
    actions = tuple(Action(group, f"/config {group}") for group in groups)
    return Reply(text, {"settings": [_data(setting) for setting in settings]}, actions)


_HOW = "`/config KEY` explains one; `/config KEY VALUE` changes it."


def group_of(key: str) -> str:
    """The first part of a setting's name, where it has several."""
    group, dot, _ = key.partition(".")
    return group if dot else "general"


def _group(settings: list[SettingInfo], name: str) -> list[SettingInfo]:
    return [setting for setting in settings if group_of(setting.key) == name]


def _members(settings: list[SettingInfo]) -> Reply:
    simple = (setting.key for setting in settings if _choices(setting))
    actions = tuple(Action(key, f"/config {key}") for key in simple)
    data = {"settings": [_data(setting) for setting in settings]}
    return Reply(f"{_table(settings)}\n\n{_HOW}", data, actions)


def _table(settings: list[SettingInfo]) -> str:
    rows = "\n".join(
        f"| {setting.key} | {cell(quote(setting.value))} | {setting.layer} |"
        for setting in settings
    )
    return f"| setting | value | from |\n|---|---|---|\n{rows}"


def _data(setting: SettingInfo) -> dict[str, Any]:
    return asdict(setting)


@hookimpl
def parley_commands() -> list[Command]:
    return [config]
