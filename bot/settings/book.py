"""All layers of settings, from the defaults to the changes of one conversation."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bot.settings.layers import AgentLayer, Layers, WrittenSetting, parse_typed
from bot.settings.permits import Permit, parse_permit, permit_for
from bot.settings.schema import (
    NO_AGENT,
    SETTINGS,
    Setting,
    SettingError,
    Settings,
    describe_unknown,
    quote,
    validate,
    value_of,
)
from memory.plain_text import nearest
from plugins.api import SettingInfo
from plugins.rules import Rule

Overrides = Mapping[str, Mapping[str, Any]]
"""The changes made in chat: scope -> key -> value; the scope is "" or a conversation's id."""

EVERYWHERE = ""
OF_USERS = "users of "
"""The scope of users' changes in a conversation is its id with this prefix. They apply only within
`users_may_set`, and an owner's own `--here` replaces them."""
_NOTHING = WrittenSetting({}, {})
_NamedLayer = tuple[str, Mapping[str, Any]]


class SettingsStore:
    """The settings in force, with changes applied in memory; the caller stores them on disk.

    A refused change raises a SettingError and changes nothing; incompatible layers raise one, too.
    `version` grows with each change.
    """

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._changes: dict[str, Mapping[str, Any]] = {EVERYWHERE: {}}
        self._by_users: dict[str, Mapping[str, Any]] = {}
        self._in_force = self._resolve(EVERYWHERE, {})
        self.version = 0

    def hooks(self) -> Sequence[Rule]:
        """Return the hook rules in force."""
        return self._in_force[EVERYWHERE].hooks

    @property
    def agents(self) -> Mapping[str, AgentLayer]:
        """The agents of the configuration, by their ids."""
        return self._layers.agents

    def with_agent(self, name: str) -> Settings:
        """Return the settings of a conversation whose only own setting is this agent."""
        return self._merge({"agent": name}, self._changes[EVERYWHERE])

    def effective(self, conversation_id: str = EVERYWHERE) -> Settings:
        """Return the settings in force. They are built once per change, so a call is cheap."""
        return self._in_force.get(conversation_id) or self._in_force[EVERYWHERE]

    def adopt(self, overrides: Overrides) -> tuple[str, ...]:
        """Load the stored changes; return a sentence for each that no longer fits and is
        ignored."""
        faults: list[str] = []
        for scope in sorted(overrides):  # "" comes first: the others are validated on top of it
            # The agent first, for the same reason.
            left = sorted(overrides[scope].items(), key=lambda pair: pair[0] != "agent")
            while wrong := self._adopt_all(left, scope):
                if len(wrong) == len(left):
                    faults += wrong.values()
                    break
                left = [pair for pair in left if pair[0] in wrong]  # one may depend on another
        return tuple(faults)

    def replace_changes(self, overrides: Overrides) -> None:
        """Replace all changes made in chat: another process has changed them."""
        fresh = SettingsStore(self._layers)
        fresh.adopt(overrides)
        self._changes, self._by_users = fresh._changes, fresh._by_users
        self._in_force = fresh._in_force
        self.version += 1

    def reread(self, layers: Layers) -> None:
        """Replace the layers below the changes made in chat, as a restart does. Raises
        SettingError, without an effect, if a change does not fit them."""
        fresh = SettingsStore(layers)
        fresh._changes, fresh._by_users = self._changes, self._by_users
        fresh._in_force = fresh._resolve(EVERYWHERE, self._changes[EVERYWHERE])
        self._layers, self._in_force = layers, fresh._in_force
        self.version += 1

    def _adopt_all(self, changes: Iterable[tuple[str, Any]], scope: str) -> dict[str, str]:
        """Load as many changes as fit; return a sentence for each other one, by its key."""
        wrong = {}
        for key, value in changes:
            try:
                self._adopt(key, value, scope)
            except SettingError as error:
                wrong[key] = self._explain_left_out(key, value, scope, error)
        return wrong

    def _adopt(self, key: str, value: Any, scope: str) -> None:
        if not scope.startswith(OF_USERS):
            self.set(key, value, scope)
            return
        here = scope.removeprefix(OF_USERS)
        validate({_find_setting(key, here).key: value})
        self._set_by_user(here, {**self._users_in(here), key: value})

    def _explain_left_out(self, key: str, value: Any, scope: str, error: SettingError) -> str:
        if key == "agent" and scope and value not in tuple(self.agents):
            return (
                f"The conversation {scope} had chosen the agent {quote(value)}, which is no "
                "longer in the configuration; it goes on without one."
            )
        return f"An earlier /config is ignored: {error}"

    def check(
        self, key: str, text: str, conversation_id: str = EVERYWHERE, by_user: bool = False
    ) -> Any:
        """Return the value that a person means by `text`, as JSON has it, validated as in `set`.
        For a user who is not an owner, `users_may_set` is checked as well."""
        if by_user:
            self._require_permit(key, conversation_id)
        value = parse_typed(_changeable(key, conversation_id).kind, text)
        if key == "system_prompt" and isinstance(value, str) and value.startswith("file:"):
            # People who may write to the bot must not read the machine's files through its prompt.
            raise SettingError(f"{key} can't name a file here; write the text itself.")
        changed = {**self._get_changes(conversation_id), key: value}
        try:
            self._resolve(conversation_id, changed)
        except SettingError as error:
            raise _refuse(error, {key: value}) from None
        if by_user:
            self._require_permitted(key, value, conversation_id)
        return value

    def once(
        self, values: Mapping[str, Any], conversation_id: str, by_user: bool = False
    ) -> dict[str, Any]:
        """Return these settings as they would apply in a conversation, for one call and together
        with its other settings, validated as in `check`; nothing is changed."""
        for key in values:
            _changeable(key, conversation_id)
            if by_user:
                self._require_permit(key, conversation_id)
        own = {**self._get_changes(conversation_id), **self._filter_permitted(conversation_id)}
        try:
            settings = self._merge({**own, **values}, self._changes[EVERYWHERE])
        except SettingError as error:
            raise _refuse(error, values) from None
        for key, value in values.items() if by_user else ():
            self._require_permitted(key, value, conversation_id)
        return {key: value_of(settings, key) for key in values}

    def may_set(self, key: str, conversation_id: str) -> str | None:
        """Return a description of the values that users may set here; None if they may not."""
        if not conversation_id or key not in SETTINGS:
            return None
        permit = permit_for(key, self.effective().users_may_set)
        if permit is None:
            return None
        return permit.describe(value_of(self._base(conversation_id), key)) or SETTINGS[key].wants

    def set(
        self, key: str, value: Any, conversation_id: str = EVERYWHERE, by_user: bool = False
    ) -> None:
        """Set `value`, everywhere or in one conversation. An owner's value in a conversation
        replaces those of its users."""
        _changeable(key, conversation_id)
        if by_user:
            self._require_permit(key, conversation_id)
            self._require_permitted(key, value, conversation_id)
            self._set_by_user(conversation_id, {**self._users_in(conversation_id), key: value})
        else:
            changed = {**self._get_changes(conversation_id), key: value}
            self._apply(conversation_id, changed, _without(self._users_in(conversation_id), key))

    def unset(self, key: str, conversation_id: str = EVERYWHERE, by_user: bool = False) -> None:
        """Remove a change; removing one that was never made is allowed. Users remove only users'
        changes."""
        _find_setting(key, conversation_id)
        if by_user:
            self._require_permit(key, conversation_id)
        changed = self._get_changes(conversation_id)
        changed = changed if by_user else _without(changed, key)
        self._apply(conversation_id, changed, _without(self._users_in(conversation_id), key))

    def copy(self, conversation_id: str, other: str) -> None:
        """Copy the changes of one conversation to another."""
        changed, by_users = self._get_changes(conversation_id), self._users_in(conversation_id)
        if changed or by_users:
            self._apply(other, changed, by_users)

    def describe(self, key: str, conversation_id: str = EVERYWHERE) -> SettingInfo:
        """Return a description of one setting. Its layer is "default", "file", "environment",
        "/config", "agent NAME" or "--here"; secrets in its value are shown by their names."""
        return self._describe(_find_setting(key), self._list_layers(conversation_id))

    def describe_all(
        self, conversation_id: str = EVERYWHERE, keys: Iterable[str] | None = None
    ) -> tuple[SettingInfo, ...]:
        """Return the descriptions of all settings, or of these."""
        layers = self._list_layers(conversation_id)
        return tuple(self._describe(SETTINGS[key], layers) for key in keys or SETTINGS)

    def _describe(self, setting: Setting, layers: Sequence[_NamedLayer]) -> SettingInfo:
        layer, value = next(
            ((name, held[setting.key]) for name, held in layers if setting.key in held),
            ("default", setting.default),
        )
        return SettingInfo(
            key=setting.key,
            value=value,
            default=setting.default,
            layer=layer,
            meaning=setting.meaning,
            wants=setting.wants,
            unit=setting.unit,
            choices=(NO_AGENT, *self.agents) if setting.key == "agent" else setting.choices,
            is_per_conversation=setting.is_per_conversation,
            holds=setting.holds,
            is_fixed=setting.is_fixed,
        )

    def _list_layers(self, conversation_id: str) -> Sequence[_NamedLayer]:
        """Return the layers of settings, the highest priority first."""
        agent = self.effective(conversation_id).agent
        return (
            ("--here", self._filter_permitted(conversation_id)),
            ("--here", self._get_changes(conversation_id) if conversation_id else {}),
            (f"agent {agent}", self._get_agent_settings(agent).as_written),
            ("/config", self._changes[EVERYWHERE]),
            ("environment", self._layers.environment.as_written),
            ("file", self._layers.file.as_written),
        )

    def _get_changes(self, scope: str) -> Mapping[str, Any]:
        return self._changes.get(scope, {})

    def _change(self, scope: str, changed: Mapping[str, Any]) -> None:
        self._in_force.update(self._resolve(scope, changed))
        self.version += 1
        self._changes[scope] = changed

    def _resolve(self, scope: str, changed: Mapping[str, Any]) -> dict[str, Settings]:
        """Return the settings that would be in force in every scope affected by a change in this
        one."""
        if scope != EVERYWHERE:
            return {scope: self._with_users(scope, changed, self._changes[EVERYWHERE])}
        settled = {EVERYWHERE: self._merge({}, changed)}
        for name in self.agents:
            try:
                self._merge({"agent": name}, changed)
            except SettingError as error:
                raise SettingError(f"For the agent {name}, {error}") from None
        for conversation_id in {*self._changes, *self._by_users} - {EVERYWHERE}:
            here = self._get_changes(conversation_id)
            try:
                settled[conversation_id] = self._with_users(conversation_id, here, changed)
            except SettingError as error:
                raise SettingError(f"In the conversation {conversation_id}, {error}") from None
        return settled

    def _users_in(self, conversation_id: str) -> Mapping[str, Any]:
        return self._by_users.get(conversation_id, {})

    def _set_by_user(self, conversation_id: str, by_users: Mapping[str, Any]) -> None:
        self._apply(conversation_id, self._get_changes(conversation_id), by_users)

    def _apply(
        self, conversation_id: str, changed: Mapping[str, Any], by_users: Mapping[str, Any]
    ) -> None:
        """Replace an owner's and the users' changes, or change nothing."""
        before = self._users_in(conversation_id)
        self._by_users[conversation_id] = by_users
        try:
            self._change(conversation_id, changed)
        except SettingError:
            self._by_users[conversation_id] = before
            raise

    def _base(self, conversation_id: str) -> Settings:
        """Return the settings of a conversation without the changes of its users."""
        return self._merge(self._get_changes(conversation_id), self._changes[EVERYWHERE])

    def _filter_permitted(
        self, conversation_id: str, base: Settings | None = None
    ) -> dict[str, Any]:
        """Return the changes of users in a conversation that are permitted now."""
        wanted = self._users_in(conversation_id)
        if not wanted:
            return {}
        base = base or self._base(conversation_id)
        permits = {key: permit_for(key, base.users_may_set) for key in wanted}
        return {
            key: wanted[key]
            for key, permit in permits.items()
            if permit and _allows(permit, wanted[key], base)
        }

    def _with_users(
        self, conversation_id: str, here: Mapping[str, Any], everywhere: Mapping[str, Any]
    ) -> Settings:
        """Return the result of `_merge` with the users' changes, if they still fit."""
        base = self._merge(here, everywhere)
        own = self._filter_permitted(conversation_id, base)
        try:
            return self._merge({**here, **own}, everywhere) if own else base
        except SettingError:
            return base

    def _require_permit(self, key: str, conversation_id: str) -> None:
        """Raise SettingError for a setting that users may not change."""
        setting = _find_setting(key)
        if not conversation_id:
            raise SettingError(f"only an owner may set {key} for all conversations.")
        if self.may_set(key, conversation_id) is not None:
            return
        entries = self._base(conversation_id).users_may_set
        keys = dict.fromkeys(parse_permit(entry).key for entry in entries)
        allowed = f"you can set {', '.join(keys)}" if keys else "you can't set anything"
        raise SettingError(f"only an owner may set {setting.key} here; {allowed}.")

    def _require_permitted(self, key: str, value: Any, conversation_id: str) -> None:
        """Raise SettingError for a value outside the users' bounds."""
        base = self._base(conversation_id)
        permit = permit_for(key, base.users_may_set)
        if permit is None or not _allows(permit, value, base):
            may = self.may_set(key, conversation_id)
            raise SettingError(f"{key} can't be {quote(value)} here; you can set {may}.")

    def _merge(self, here: Mapping[str, Any], everywhere: Mapping[str, Any]) -> Settings:
        """Return the settings with these changes, in one conversation and in all."""
        below = (everywhere, self._layers.environment.values, self._layers.file.values)
        name = _first("agent", here, *below) or NO_AGENT
        if name in (NO_AGENT, *self.agents):
            # ChainMap is typed for writable maps; this one is only read.
            return validate(ChainMap(here, self._get_agent_settings(name).values, *below))  # type: ignore[arg-type]
        raise SettingError(self._no_agent(name))

    def _get_agent_settings(self, agent: str) -> WrittenSetting:
        return self.agents[agent].settings if agent in self.agents else _NOTHING

    def _no_agent(self, name: Any) -> str:
        ids = [NO_AGENT, *self.agents]
        near = nearest(name, ids) if isinstance(name, str) else ""
        hint = f"; did you mean {near!r}?" if near else f"; there are: {', '.join(ids)}."
        return f"There is no agent {quote(name)} in the configuration{hint}"


def _find_setting(key: str, conversation_id: str = EVERYWHERE) -> Setting:
    if key not in SETTINGS:
        raise SettingError(describe_unknown(key))
    setting = SETTINGS[key]
    if conversation_id and not setting.is_per_conversation:
        raise SettingError(f"{key} applies to the whole bot; it can't be set for one conversation.")
    return setting


def _refuse(error: SettingError, values: Mapping[str, Any]) -> SettingError:
    """Return the error, worded for values that are not in force."""
    text = str(error)
    for key, value in values.items():
        text = text.replace(f"{key} is {quote(value)};", f"{key} can't be {quote(value)};")
    return SettingError(text)


def _allows(permit: Permit, value: Any, base: Settings) -> bool:
    usual = value_of(base, permit.key)
    return permit.allows(value, usual, SETTINGS[permit.key].zero_is_no_least)


def _without(changed: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: changed[name] for name in changed if name != key}


def _changeable(key: str, conversation_id: str) -> Setting:
    setting = _find_setting(key, conversation_id)
    if setting.is_fixed:
        raise SettingError(
            f"{key} can only be set in the configuration or the environment; change it there, and "
            "restart the bot."
        )
    return setting


def _first(key: str, *layers: Mapping[str, Any]) -> Any:
    return next((layer[key] for layer in layers if key in layer), None)
