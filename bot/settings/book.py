"""All layers of settings, from the defaults to what was set for one conversation."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from bot.settings.layers import AgentLayer, Layers, Written, typed
from bot.settings.schema import (
    NO_AGENT,
    SETTINGS,
    Setting,
    SettingError,
    Settings,
    nearest,
    quoted,
    unknown,
    validated,
)
from plugins.api import SettingInfo

Overrides = Mapping[str, Mapping[str, Any]]
"""What was changed in chat: scope -> key -> value; the scope is "" or a conversation's id."""

EVERYWHERE = ""
_NOTHING = Written({}, {})


class SettingsBook:
    """Answers what holds now, and takes changes in. It keeps nothing on disk: the caller does.

    A change that is refused raises a SettingError and changes nothing. So does making a book from
    layers that do not fit each other.
    """

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._changes: dict[str, Mapping[str, Any]] = {EVERYWHERE: {}}
        self._in_force = self._settled(EVERYWHERE, {})

    @property
    def agents(self) -> Mapping[str, AgentLayer]:
        """The agents of the configuration, by their ids."""
        return self._layers.agents

    def with_agent(self, name: str) -> Settings:
        """What would hold for a conversation that has nothing of its own but this agent."""
        return self._merged({"agent": name}, self._changes[EVERYWHERE])

    def effective(self, conversation_id: str = EVERYWHERE) -> Settings:
        """The settings in force; made when they change, so asking costs next to nothing."""
        return self._in_force.get(conversation_id) or self._in_force[EVERYWHERE]

    def adopt(self, overrides: Overrides) -> tuple[str, ...]:
        """Take in what was kept on disk; returns a sentence for each that is left out because it
        no longer fits."""
        faults: list[str] = []
        for scope in sorted(overrides):  # "" comes first: the others are checked on top of it
            # An agent first, for the same reason.
            for key, value in sorted(overrides[scope].items(), key=lambda pair: pair[0] != "agent"):
                try:
                    self.set(key, value, scope)
                except SettingError as error:
                    faults.append(self._left_out(key, value, scope, error))
        return tuple(faults)

    def _left_out(self, key: str, value: Any, scope: str, error: SettingError) -> str:
        if key == "agent" and scope and value not in tuple(self.agents):
            return (
                f"The conversation {scope} had chosen the agent {quoted(value)}, which is gone "
                "from the configuration; it goes on without one."
            )
        return f"An earlier /config is left out: {error}"

    def check(self, key: str, text: str, conversation_id: str = EVERYWHERE) -> Any:
        """The value that a person means by `text`, as JSON has it, after the checks of `set`."""
        value = typed(_changeable(key, conversation_id).kind, text)
        if key == "system_prompt" and isinstance(value, str) and value.startswith("file:"):
            # Who may write to the bot shall not read the machine's files through its prompt.
            raise SettingError(f"{key} takes no file here; write the text itself.")
        self._settled(conversation_id, {**self._changed_in(conversation_id), key: value})
        return value

    def set(self, key: str, value: Any, conversation_id: str = EVERYWHERE) -> None:
        """Let `value` hold from now on, everywhere or in one conversation."""
        _changeable(key, conversation_id)
        self._change(conversation_id, {**self._changed_in(conversation_id), key: value})

    def unset(self, key: str, conversation_id: str = EVERYWHERE) -> None:
        """Go back to what holds without the change; taking back what was never set is fine."""
        _setting(key, conversation_id)
        changed = self._changed_in(conversation_id)
        self._change(conversation_id, {name: changed[name] for name in changed if name != key})

    def describe(self, key: str, conversation_id: str = EVERYWHERE) -> SettingInfo:
        """All about one setting. Its layer is "default", "file", "environment", "/config",
        "agent NAME" or "--here"; secrets in its value are shown by their names."""
        setting = _setting(key)
        layer, value = self._shown(setting, conversation_id)
        return SettingInfo(
            key=key,
            value=value,
            default=setting.default,
            layer=layer,
            meaning=setting.meaning,
            wants=setting.wants,
            unit=setting.unit,
            choices=(NO_AGENT, *self.agents) if key == "agent" else setting.choices,
            is_per_conversation=setting.is_per_conversation,
            holds=setting.holds,
        )

    def describe_all(self, conversation_id: str = EVERYWHERE) -> tuple[SettingInfo, ...]:
        return tuple(self.describe(key, conversation_id) for key in SETTINGS)

    def _shown(self, setting: Setting, conversation_id: str) -> tuple[str, Any]:
        agent = self.effective(conversation_id).agent
        layers: tuple[tuple[str, Mapping[str, Any]], ...] = (
            ("--here", self._changed_in(conversation_id) if conversation_id else {}),
            (f"agent {agent}", self._said_by(agent).as_written),
            ("/config", self._changes[EVERYWHERE]),
            ("environment", self._layers.environment.as_written),
            ("file", self._layers.file.as_written),
            ("default", {setting.key: setting.default}),
        )
        return next((name, held[setting.key]) for name, held in layers if setting.key in held)

    def _changed_in(self, scope: str) -> Mapping[str, Any]:
        return self._changes.get(scope, {})

    def _change(self, scope: str, changed: Mapping[str, Any]) -> None:
        self._in_force.update(self._settled(scope, changed))
        self._changes[scope] = changed

    def _settled(self, scope: str, changed: Mapping[str, Any]) -> dict[str, Settings]:
        """What would hold in every scope that a change in this one touches."""
        if scope != EVERYWHERE:
            return {scope: self._merged(changed, self._changes[EVERYWHERE])}
        settled = {EVERYWHERE: self._merged({}, changed)}
        for name in self.agents:
            try:
                self._merged({"agent": name}, changed)
            except SettingError as error:
                raise SettingError(f"For the agent {name}, {error}") from None
        for conversation_id, here in self._changes.items():
            if conversation_id == EVERYWHERE:
                continue
            try:
                settled[conversation_id] = self._merged(here, changed)
            except SettingError as error:
                raise SettingError(f"In the conversation {conversation_id}, {error}") from None
        return settled

    def _merged(self, here: Mapping[str, Any], everywhere: Mapping[str, Any]) -> Settings:
        """What holds with these changes, in one conversation and in all."""
        below = (everywhere, self._layers.environment.values, self._layers.file.values)
        name = _first("agent", here, *below) or NO_AGENT
        if name in (NO_AGENT, *self.agents):
            # ChainMap is typed for maps that it may write to; this one is only read.
            return validated(ChainMap(here, self._said_by(name).values, *below))  # type: ignore[arg-type]
        raise SettingError(self._no_agent(name))

    def _said_by(self, agent: str) -> Written:
        return self.agents[agent].settings if agent in self.agents else _NOTHING

    def _no_agent(self, name: Any) -> str:
        ids = [NO_AGENT, *self.agents]
        near = nearest(name, ids) if isinstance(name, str) else ""
        hint = f"; did you mean {near!r}?" if near else f"; there are: {', '.join(ids)}."
        return f"There is no agent {quoted(name)} in the configuration{hint}"


def _setting(key: str, conversation_id: str = EVERYWHERE) -> Setting:
    if key not in SETTINGS:
        raise SettingError(unknown(key))
    setting = SETTINGS[key]
    if conversation_id and not setting.is_per_conversation:
        raise SettingError(f"{key} holds for the whole bot; it cannot be set for one conversation.")
    return setting


def _changeable(key: str, conversation_id: str) -> Setting:
    setting = _setting(key, conversation_id)
    if setting.is_fixed:
        raise SettingError(
            f"{key} stands in the configuration or the environment alone; change it there, and "
            "start the bot again."
        )
    return setting


def _first(key: str, *layers: Mapping[str, Any]) -> Any:
    return next((layer[key] for layer in layers if key in layer), None)
