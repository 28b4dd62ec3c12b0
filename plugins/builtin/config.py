"""`/config`: show and change the settings while the bot runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from channels.language import _, explain
from memory.plain_text import plain_json
from plugins import rules
from plugins.api import Action, Ask, Command, Reply, SettingInfo, command, hookimpl, refusal
from plugins.builtin.context.show import BY_RULE, format_rules, too_small
from plugins.builtin.help import format_strategies
from plugins.wording import cell, fence, format_list, name_layer

SIZES = (
    "agent_max_context_tokens",
    "context.max_tokens",
    "context.trigger_ratio",
    "context.compression_trigger",
)
"""The settings that define at how many tokens turns are removed."""
STRATEGY = "context.strategy"
_OLDER_TURNS = "Ways to handle older turns:"
HERE, UNSET = "--here", "--unset"
EVERYWHERE = ""


@command(
    "config",
    "Show or change settings while the bot runs",
    "[GROUP | KEY [VALUE] [--here] [--unset]]",
)
async def config(ask: Ask) -> Reply:
    """Run `/config`, `/config GROUP`, `/config KEY`, `/config KEY VALUE [--here]` or `/config KEY
    --unset [--here]`."""
    key, value, flags = parse(ask.text)
    here = ask.conversation.key.id
    if not key:
        if ask.person.is_owner:
            return _all(ask.bot.settings.describe_all(here))
        return _own(_list_visible(ask))
    if not (value or flags) and (members := _group(_list_visible(ask), key)):
        return _members(members)
    before = _in_words(ask.bot.settings.describe(key, here))
    if not value and UNSET not in flags:
        return _one(ask, before)
    scope = here if HERE in flags else EVERYWHERE
    if scope == EVERYWHERE:
        ask.require_owner("change settings for all conversations")
    if UNSET in flags:
        await ask.bot.settings.unset(key, scope, ask.person)
    else:
        await ask.bot.settings.set(key, value, scope, ask.person)
    after = _in_words(ask.bot.settings.describe(key, here))
    actions = offers(after) if ask.person.is_owner else ()
    lines = [describe_change(before, after, scope)]
    if scope == EVERYWHERE and after.layer not in ("/config", "default", "file", "environment"):
        everywhere = _in_words(ask.bot.settings.describe(key, EVERYWHERE))
        lines = [_describe_overridden(everywhere, after)]
    if after.key in SIZES:
        context = ask.conversation.context
        lines.append(too_small(context.view(), context.limits))
    return Reply("\n\n".join(filter(None, lines)), _data(after), actions)


def _list_visible(ask: Ask) -> list[SettingInfo]:
    """Return the settings that this person may change; their `wants` are the values that the person
    may set."""
    here = ask.conversation.key.id
    settings = [_in_words(one) for one in ask.bot.settings.describe_all(here)]
    if ask.person.is_owner:
        return settings
    may = {setting.key: ask.bot.settings.may_set(setting.key, here) for setting in settings}
    return [
        replace(one, wants=explain(wants), takes=wants)
        for one in settings
        if (wants := may[one.key]) is not None
    ]


def _in_words(setting: SettingInfo) -> SettingInfo:
    """Return the setting with its texts in the language of the person."""
    unit = setting.unit.removesuffix("s") if setting.value == 1 else setting.unit
    return replace(setting, **_words_of(setting) | {"unit": _(unit)})


def _words_of(setting: SettingInfo) -> dict[str, Any]:
    wants = format_list(setting.choices, "or") if setting.choices else explain(setting.wants)
    return {
        "meaning": _(setting.meaning),
        "wants": wants,
        "unit": _(setting.unit),
        "takes": setting.takes or setting.wants,
    }


def _unit_of(setting: SettingInfo) -> str:
    return f" {setting.unit}" if setting.unit else ""


def _one(ask: Ask, setting: SettingInfo) -> Reply:
    if setting.key == STRATEGY:
        meaning = f"{_(_OLDER_TURNS)}\n\n{format_strategies(str(setting.value))}"
        setting = replace(setting, meaning=meaning)
    if ask.person.is_owner:
        built_in = _describe_built_in(ask, setting) if setting.key == "hooks" else ""
        listed = _list_entries(setting)
        short = replace(setting, value=_count_entries(setting)) if listed else setting
        text = "\n\n".join(filter(None, (about(short), listed, built_in)))
        return Reply(text, _data(setting), offers(setting))
    own = _group(_list_visible(ask), group_of(setting.key))
    found = next((one for one in own if one.key == setting.key), None)
    if found is None:
        ask.require_owner(f"see and change {setting.key}")
        raise AssertionError("a user who is no owner was let through")
    unit = _unit_of(found)
    text = _(
        "`{key}` is **{value}**{unit} here (from: {layer}). {meaning}\n\nYou can set {wants}: "
        "`/config {key} VALUE {here}`; `{unset} {here}` takes it back.",
        key=found.key,
        value=quote(found.value),
        unit=unit,
        layer=name_layer(found.layer),
        meaning=found.meaning,
        wants=found.wants,
        here=HERE,
        unset=UNSET,
    )
    return Reply(text, _data(found))


def _count_entries(setting: SettingInfo) -> str:
    number = len(setting.value)
    return _("{n} entry", n=1) if number == 1 else _("{n} entries", n=number)


def _list_entries(setting: SettingInfo) -> str:
    """Return the entries of a value that is too long to be quoted, one per line."""
    if not isinstance(setting.value, list | tuple) or not setting.value:
        return ""
    lines = [plain_json(one) for one in setting.value]
    return fence("\n".join(lines), "json") if len("".join(lines)) > _LONGEST else ""


def _describe_built_in(ask: Ask, hooks: SettingInfo) -> str:
    """Describe the built-in hook rule, and what replaces it."""
    limits = ask.conversation.context.limits
    if limits.strategy not in BY_RULE:
        return ""
    if own := format_rules(rules.find_compacting(rules.parse(list(hooks.value)))):
        return _(
            "In this conversation {own}, and the built-in `{auto_compact}` does not.",
            own=own,
            auto_compact=rules.AUTO_COMPACT,
        )
    if not limits.auto_compact:
        return _(
            "The built-in rule `{auto_compact}` is off: `context.auto_compact` is false.",
            auto_compact=rules.AUTO_COMPACT,
        )
    parts = {"id", "on", "condition", "action", "cooldown"}
    rule = rules.auto_compact(limits).model_dump_json(include=parts)
    return _(
        "In this conversation there is one more rule, which is built in and follows the "
        "settings:\n\n```json\n{rule}\n```\n\nA rule of your own with the action "
        "`compact_context` takes its place; `/config context.auto_compact false` turns it off.",
        rule=rule,
    )


def _own(settings: list[SettingInfo]) -> Reply:
    """Show the settings that a user who is not an owner may change, and the values allowed."""
    if not settings:
        return Reply(_("Only an owner may change settings here."), {"settings": []})
    rows = "\n".join(
        f"| {setting.key} | {cell(quote(setting.value))} | {cell(setting.wants)} |"
        for setting in settings
    )
    text = _(
        "What you can change in this conversation:\n\n| setting | value | you can set "
        "|\n|---|---|---|\n{rows}\n\n`/config KEY VALUE {here}` changes one; `/config KEY {unset} "
        "{here}` takes that back.",
        rows=rows,
        here=HERE,
        unset=UNSET,
    )
    return Reply(text, {"settings": [_data(setting) for setting in settings]})


def parse(text: str) -> tuple[str, str, frozenset[str]]:
    """Return the key, the value as typed, and the flags. Flags may come before or after the value.
    Raises CommandError."""
    key, _space, rest = text.strip().partition(" ")
    words = rest.split(" ")
    flags = set()
    while words and words[-1] in (HERE, UNSET, ""):
        flags.add(words.pop())
    while words and words[0] in (HERE, UNSET, ""):
        flags.add(words.pop(0))
    if key.startswith("--"):
        raise refusal("/config needs a setting's name before {key}.", key=key)
    value = " ".join(words).strip().removeprefix("=").strip()
    if value and UNSET in flags:
        raise refusal("/config {key} takes a value or {unset}, not both.", key=key, unset=UNSET)
    return key, value, frozenset(flags - {""})


def _describe_origin(setting: SettingInfo) -> str:
    """Describe the source of a value, and the default if it is another."""
    if setting.layer == "default":
        return _("the default")
    return _(
        "from: {layer}; default: {default}",
        layer=name_layer(setting.layer),
        default=quote(setting.default),
    )


def about(setting: SettingInfo) -> str:
    """Describe one setting in full."""
    unit = _unit_of(setting)
    local = (
        _(" for all conversations, with `{here}` at the end only for this one", here=HERE)
        if setting.is_per_conversation
        else ""
    )
    return _(
        "`{key}` is **{value}**{unit} ({origin}). {meaning}\n\nIt can be {wants}. `/config "
        "{key} VALUE` changes it{local}; `/config {key} {unset}` resets it.",
        key=setting.key,
        value=quote(setting.value) if setting.value != [] else _("empty"),
        unit=unit,
        origin=_describe_origin(setting),
        meaning=setting.meaning,
        wants=setting.wants,
        local=local,
        unset=UNSET,
    )


def offers(setting: SettingInfo) -> tuple[Action, ...]:
    """Return buttons for the other values, if there are few, and one that undoes a change made in
    the chat."""
    others = (choice for choice in _choices(setting) if choice != quote(setting.value))
    values = [Action(_button(choice), f"/config {setting.key} {choice}") for choice in others]
    if setting.layer == "/config":
        values.append(Action(_("Undo this setting"), f"/config {setting.key} {UNSET}"))
    return tuple(values)


def _button(choice: str) -> str:
    """Return a button's label for its choice."""
    return {"true": _("Switch on"), "false": _("Switch off")}.get(choice, choice)


def _choices(setting: SettingInfo) -> tuple[str, ...]:
    return ("true", "false") if isinstance(setting.value, bool) else setting.choices


def describe_change(before: SettingInfo, after: SettingInfo, scope: str) -> str:
    """Describe the effect of a change, even if another layer overrides it."""
    where = _("in this conversation") if scope else _("everywhere")
    unit = _unit_of(after)
    if after.value == before.value and after.layer == before.layer:
        return _(
            "`{key}` stays {value}{unit} (from: {layer}).",
            key=after.key,
            value=quote(after.value),
            unit=unit,
            layer=name_layer(after.layer),
        )
    return _(
        "`{key}` is now **{value}**{unit} {where} (from: {layer}; before: {before}). It applies "
        "{holds}.",
        key=after.key,
        value=quote(after.value),
        unit=unit,
        where=where,
        layer=name_layer(after.layer),
        before=quote(before.value),
        holds=_(after.holds),
    )


def _describe_overridden(everywhere: SettingInfo, here: SettingInfo) -> str:
    """Describe a change for all conversations that another layer overrides in this one."""
    unit = _unit_of(everywhere)
    how = _(" (from: {layer})", layer=name_layer(here.layer))
    if here.layer == HERE:
        how = _(
            " (from: {layer}; `/config {key} {unset} {layer}` takes that back)",
            layer=HERE,
            key=here.key,
            unset=UNSET,
        )
    return _(
        "`{key}` is now **{value}**{unit} everywhere else (from: {layer}), and stays {own} "
        "in this conversation{how}.",
        key=here.key,
        value=quote(everywhere.value),
        unit=unit,
        layer=name_layer(everywhere.layer),
        own=f"{quote(here.value)}{_unit_of(here)}",
        how=how,
    )


_LONGEST = 60  # maximum length of a quoted value, in characters


def quote(value: Any) -> str:
    """Return a value as it would be typed, truncated."""
    if isinstance(value, str):
        text = value if value and value == value.strip() else f'"{value}"'
    else:
        text = plain_json(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _all(settings: Sequence[SettingInfo]) -> Reply:
    """Show the settings that differ from their defaults, and all groups."""
    moved = [setting for setting in settings if setting.layer != "default"]
    table = (
        f"**{_('Changed settings')}**\n\n{_table(moved)}\n\n"
        if moved
        else _("Every setting is at its default.\n\n")
    )
    groups = Counter(group_of(setting.key) for setting in settings)
    named = ", ".join(f"`{group}`" for group in groups)
    text = _(
        "{table}`/config GROUP` shows a group of settings: {named}.\n\n{how}",
        table=table,
        named=named,
        how=_(_HOW),
    )
    actions = tuple(Action(group, f"/config {group}") for group in groups)
    # The web page requests it after each turn; rebuilding 118 settings took a millisecond.
    rows = [_data(setting) | _words_of(setting) for setting in settings]
    return Reply(text, {"settings": rows}, actions)


_HOW = "`/config KEY` explains a setting; `/config KEY VALUE` changes it."


def group_of(key: str) -> str:
    """Return the first part of a setting's name; "general" if it has only one part."""
    group, dot, _ = key.partition(".")
    return group if dot else "general"


def _group(settings: list[SettingInfo], name: str) -> list[SettingInfo]:
    return [setting for setting in settings if group_of(setting.key) == name]


def _members(settings: list[SettingInfo]) -> Reply:
    simple = (setting.key for setting in settings if _choices(setting))
    actions = tuple(Action(key, f"/config {key}") for key in simple)
    data = {"settings": [_data(setting) for setting in settings]}
    return Reply(f"{_table(settings)}\n\n{_(_HOW)}", data, actions)


def _table(settings: list[SettingInfo]) -> str:
    rows = "\n".join(
        f"| {setting.key} | {cell(quote(setting.value))} | {name_layer(setting.layer)} |"
        for setting in settings
    )
    return _("| setting | value | set by |\n|---|---|---|\n{rows}", rows=rows)


_FIELDS = SettingInfo.__struct_fields__


def _data(setting: SettingInfo) -> dict[str, Any]:
    """Return a setting as data. Its value is not copied, since `asdict` takes 0.1 ms for each
    setting."""
    return {name: getattr(setting, name) for name in _FIELDS}


@hookimpl
def parley_commands() -> list[Command]:
    return [config]
