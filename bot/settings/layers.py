"""The layers that are read before the bot runs: a file, and the environment with a `.env`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from bot.settings.files import (
    AGENTS,
    IN_AGENT,
    IN_RUNTIME,
    RUNTIME_STRATEGIES,
    AgentBlock,
    blocks,
    line_of,
    read_env,
    read_text,
    read_tree,
    with_strategy,
    with_whole_endpoints,
)
from bot.settings.schema import (
    BRAIN,
    SECRET_NAME,
    SETTINGS,
    Kind,
    SettingError,
    describe_unknown,
    quote,
    validate,
)
from channels.settings import gather_messengers
from memory.plain_text import nearest
from plugins.features import SettingsSection, list_sections

PREFIX = "PARLEY_"
CREDENTIALS = frozenset({"PARLEY_WEB_TOKEN", "PARLEY_METRICS_TOKEN"})
"""Environment names with this prefix that are not settings."""
HOOK_SECRET = "PARLEY_HOOK_SECRET_"
"""The name prefix of secrets for calling jobs (`plugins/jobs/calls.py`)."""
IN_FILE = {
    **IN_RUNTIME,
    "runtime.hooks": "hooks",
    **{key: key for key in (*SETTINGS, *sorted(BRAIN))},
}
"""Settings by their names in a configuration."""
ADDRESSES = frozenset({"broker", "database"})
"""Settings that are server addresses with a password."""
_SECTIONS = {kind.SECTION: kind for kind in list_sections()}
_WITH_PASSWORD = re.compile(r"\s*[\w+.-]+://[^/\s@]*:(?!\{\{)[^/\s@]+@\S*\s*$")
_FLAGS_IN_YAML = {"yes": True, "on": True, "no": False, "off": False}
_FLAGS = {"true": True, "false": False, **_FLAGS_IN_YAML}
_SECRET = re.compile(r"\{\{\s*secret\.([^\s{}]*)\s*\}\}")
_BRAIN = "summary_brain"
_OWN_CONTEXT = re.compile(rf"(?:{_BRAIN}\.context\.)+")
"""A brain for summaries has a context of its own (Digitorn's shape, recursive). Only its window is
used: the rest is for conversations, which such a brain does not have."""


class Secrets(Mapping[str, str]):
    """The environment with the `.env` beside the configuration; its repr shows no value.

    `named` are the names that the configuration fills in.
    """

    def __init__(self, values: Mapping[str, str], named: Collection[str] = ()) -> None:
        self._values, self._named = dict(values), frozenset(named)
        self._masked = self._find_masked()

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Secrets: {len(self)} names>"

    def take(self, other: Secrets) -> None:
        """Replace the values by those of another reading. Earlier secrets stay masked."""
        self._values, self._named = dict(other), other._named
        self._masked |= self._find_masked()

    def to_mask(self) -> frozenset[str]:
        """Return the values that no log may show: secrets named in the configuration, and values
        whose name suggests a key, token or password."""
        return self._masked

    def _find_masked(self) -> frozenset[str]:
        return frozenset(
            value
            for name, value in self.items()
            if value and (name in self._named or SECRET_NAME.search(name))
        )


class WrittenSetting(Struct, frozen=True):
    """Settings of one source, by key: as written there, and with secrets and files filled in."""

    as_written: Mapping[str, Any]
    values: Mapping[str, Any]


class AgentLayer(Struct, frozen=True):
    """An agent of the configuration, with its settings there."""

    id: str
    description: str
    settings: WrittenSetting


class Layers(Struct, frozen=True):
    """The settings read before the start. The environment overrides the file; a chosen agent in
    `agents`, by id, overrides both. `config` is the file, `outer` the environment without `.env`;
    `reread` reads everything anew and raises SettingError."""

    file: WrittenSetting
    environment: WrittenSetting
    secrets: Secrets
    agents: Mapping[str, AgentLayer] = field(default_factory=dict)
    config: Path = Path()
    outer: Secrets = Secrets({})
    reread: Callable[[], Layers] | None = None


def load_layers(config: Path, environ: Mapping[str, str]) -> Layers:
    """Read and check the configuration (JSON, or YAML by its ending), `.env` and `environ`.

    Raises SettingError with a line for every fault.
    """
    surroundings = {**read_env(config.with_name(".env")), **environ}
    tree = read_tree(config)
    own = [value for name, value in surroundings.items() if name.startswith(PREFIX)]
    secrets = Secrets(surroundings, _secrets_in([tree, own]))
    faults: list[str] = []
    agents = tree.pop(AGENTS, [])
    if isinstance(tree.get("channels"), dict):
        tree["channels"] = gather_messengers(tree["channels"])
    source = _Source(config, secrets, faults)
    file = source.settings(tree, IN_FILE)
    environment = _from_environment(config, surroundings, secrets, faults)
    by_id = {agent.id: agent for agent in _agents(agents, source)}
    if faults:
        raise SettingError("\n".join(faults))
    return Layers(
        file,
        environment,
        secrets,
        by_id,
        config,
        outer=Secrets(environ),
        reread=lambda: load_layers(config, environ),
    )


@contextmanager
def _collect_faults(faults: list[str]) -> Iterator[None]:
    try:
        yield
    except SettingError as error:
        faults.append(str(error))


class _Source(Struct, frozen=True):
    """A configuration that is being read; errors in it are added to `faults`."""

    config: Path
    secrets: Secrets
    faults: list[str]

    def settings(
        self, tree: Mapping[Any, Any], keys: Mapping[str, str], agent: str = ""
    ) -> WrittenSetting:
        """Return the settings of the file, or of an agent in it; `keys` maps their names there to
        keys."""
        file = self.config.name
        where, of = (f"the agent {agent} in {file}", "of") if agent else (file, "in")
        levels: dict[str, dict[str, tuple[str, Any]]] = {"": {}}
        for name, value in _flatten(tree, keys):
            with _collect_faults(self.faults):
                level = "" if name in keys else _level(name)
                key = _resolve_name(name, value, keys, where)
                found = levels.setdefault(level, {})
                if key in found:
                    raise SettingError(_duplicate_fault(name, found[key][0], where))
                _refuse_plain_key(f"{name} {of} {where}", key, value)
                found[key] = name, self._parse_flag_word(key, value)
        for level in sorted(levels, reverse=True):
            names = {key: name for key, (name, _) in levels[level].items()}
            written = {key: value for key, (_, value) in levels[level].items()}
            whole = with_whole_endpoints(with_strategy(written, names.values()))
            values = self._fill(whole, names, f"{of} {where}")
        return WrittenSetting(whole, values)

    def _parse_flag_word(self, key: str, value: Any) -> Any:
        """Return a YAML word for true or false as a flag, if the setting is one."""
        is_yaml = self.config.suffix.lower() in (".yaml", ".yml")
        is_flag = key in SETTINGS and SETTINGS[key].kind == "flag"
        if is_yaml and is_flag and isinstance(value, str):
            return _FLAGS_IN_YAML.get(value.lower(), value)
        return value

    def _fill(
        self, whole: Mapping[str, Any], names: Mapping[str, str], where: str
    ) -> Mapping[str, Any]:
        def name_key(key: str) -> str:
            name, bracket, rest = key.partition("[")
            written_as = names.get(name, name) + bracket + rest
            line = line_of(self.config, written_as) if bracket else 0
            return f"{written_as} {where}{f' (line {line})' if line else ''}"

        return _fill(whole, self.config.parent, self.secrets, name_key, self.faults)


def _agents(written: Any, source: _Source) -> Iterator[AgentLayer]:
    found, faults = blocks(written, source.config.name)
    source.faults.extend(faults)
    for block in found:
        settings = source.settings(block.settings, IN_AGENT, block.id)
        with _collect_faults(source.faults):
            _refuse_foreign_model(block, settings, source.config.name)
        yield AgentLayer(block.id, block.description, settings)


def _refuse_foreign_model(block: AgentBlock, settings: WrittenSetting, file: str) -> None:
    if settings.as_written.get("brain.provider") and "model" not in settings.as_written:
        raise SettingError(
            f"The agent {block.id} in {file} has a brain.provider but no brain.model; name one."
        )


def _groups(keys: Iterable[str]) -> frozenset[str]:
    """Return the names of the blocks around these keys: "context" for "context.strategy"."""
    return _groups_of(frozenset(keys))


@lru_cache(maxsize=16)
def _groups_of(keys: frozenset[str]) -> frozenset[str]:
    parts = [key.split(".") for key in keys]
    return frozenset(".".join(p[:count]) for p in parts for count in range(1, len(p)))


def _flatten(
    tree: Mapping[Any, Any], keys: Mapping[str, str], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    groups = _groups(keys)
    for name, value in tree.items():
        key = f"{prefix}{name}"
        is_group = key in groups or _without_levels(f"{key}.") in {f"{g}." for g in groups}
        if is_group and isinstance(value, dict):
            yield from _flatten(value, keys, f"{key}.")
        elif is_group and value is None and name == _BRAIN:
            yield from _no_brain(key, keys)
        else:
            yield key, value


def _no_brain(name: str, keys: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the settings that `summary_brain: null` stands for: the model that answers writes the
    summaries, too."""
    for inside, key in keys.items():
        if inside.startswith(f"{name}."):
            yield inside, SETTINGS[key].default


def _level(name: str) -> str:
    """Return the summary brain whose own context contains a setting; "" for none."""
    return name[: found.end()] if (found := _OWN_CONTEXT.search(name)) else ""


def _without_levels(name: str) -> str:
    return _OWN_CONTEXT.sub("", name)


def _resolve_name(name: str, value: Any, keys: Mapping[str, str], where: str) -> str:
    """Return the key of the setting with this name."""
    groups = _groups(keys)
    plain = name if name in keys else _without_levels(name)
    if plain in groups or name in groups:
        raise SettingError(f"{name} in {where} is {quote(value)}; it must be a group of settings.")
    if plain not in keys:
        around = {group for group in groups if name.startswith(f"{group}.")}
        raise SettingError(describe_unknown(name, where, [*groups - around, *keys, AGENTS]))
    if plain == "runtime.context.strategy" and value not in RUNTIME_STRATEGIES:
        raise SettingError(
            f"{name} in {where} is {quote(value)}; it must be truncate or summarize; set the "
            "others in context.strategy."
        )
    return keys[plain]


def _duplicate_fault(name: str, before: str, where: str) -> str:
    if name == before:
        return f"{where} has {name!r} twice; keep one of them."
    return f"{where} has both {before!r} and {name!r}, which are the same; keep one of them."


def _refuse_plain_key(called: str, key: str, value: Any) -> None:
    section, _dot, name = key.partition(".")
    if place := _SECTIONS.get(section, SettingsSection).find_plain_secret(name, value):
        raise SettingError(
            f"{called}.{place} holds a key as plain text; put it into .env as NAME=…, and write "
            "{{secret.NAME}} here."
        )
    if not isinstance(value, str) or not value or _SECRET.fullmatch(value.strip()):
        return
    is_address = key in ADDRESSES or _WITH_PASSWORD.match(value) is not None
    if key.endswith(".api_key") or is_address:
        what = "an address with its password" if is_address else "a key"
        raise SettingError(
            f"{called} holds {what} as plain text; put it into .env as NAME=…, and write "
            "{{secret.NAME}} here."
        )


def _from_environment(
    config: Path, environ: Mapping[str, str], secrets: Secrets, faults: list[str]
) -> WrittenSetting:
    keys = {variable(key): key for key in SETTINGS}
    written: dict[str, Any] = {}
    own = {name for name in environ if name.startswith(PREFIX)} - CREDENTIALS
    for name in sorted(name for name in own if not name.startswith(HOOK_SECRET)):
        if key := keys.get(name):
            with _collect_faults(faults):
                _refuse_plain_key(name, key, environ[name])
                written[key] = parse_typed(SETTINGS[key].kind, environ[name])
        else:
            faults.append(_describe_unknown_variable(name))
    whole = with_whole_endpoints(written)
    return WrittenSetting(whole, _fill(whole, config.parent, secrets, _place, faults))


def _place(key: str) -> str:
    """Return a setting's name in the environment, with the path in its value:
    PARLEY_HOOKS[2].condition."""
    name, bracket, rest = key.partition("[")
    return variable(name) + bracket + rest


def variable(key: str) -> str:
    """Return the environment variable of a setting: `context.strategy` ->
    PARLEY_CONTEXT__STRATEGY."""
    return PREFIX + key.replace(".", "__").upper()


def _describe_unknown_variable(name: str) -> str:
    near = nearest(name.removeprefix(PREFIX).replace("__", ".").lower(), SETTINGS)
    ending = f"; did you mean {variable(near)}?" if near else "."
    return f"{name} in the environment is not a setting{ending}"


_SIZES = {"": 1, "k": 1_000, "m": 1_000_000}
_AMOUNT = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+(?:\.\d{1,3})?(?=[kKmM]))([kKmM]?)")
"""A number in the forms shown to people: 20k, 1.5M, 25,000."""


def parse_typed(kind: Kind, text: str) -> Any:
    """Return typed text as a value: JSON if it is valid JSON, otherwise text, or a list split at
    commas.

    The value may still be wrong for its setting; `validate` checks that.
    """
    text = text.strip()
    if kind == "flag":
        return _FLAGS.get(text.lower(), text)
    if kind == "scalar" and (number := _AMOUNT.fullmatch(text)):
        return round(float(number[1].replace(",", "")) * _SIZES[number[2].lower()])
    if text == "null" or kind == "scalar" or text[:1] == {"text": '"', "list": "["}[kind]:
        return _json_or_text(text)
    if kind == "list":
        return [part.strip() for part in text.split(",")] if text else []
    return text


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _fill(
    written: Mapping[str, Any],
    folder: Path,
    secrets: Secrets,
    called: Callable[[str], str],
    faults: list[str],
) -> Mapping[str, Any]:
    """Return the values with secrets and files filled in, and validated together."""
    values: dict[str, Any] = {}
    for key, value in written.items():
        with _collect_faults(faults):
            values[key] = _with_secrets(value, secrets, called(key))
    with _collect_faults(faults):
        if isinstance(prompt := values.get("system_prompt"), str):
            values["system_prompt"] = _prompt(prompt, folder)
    with _collect_faults(faults):
        validate(values, written, called)
    return values


def fill_text(text: str, secrets: Mapping[str, str]) -> str:
    """Return a text with its secrets filled in. Raises SettingError."""
    filled = _with_secrets(text, Secrets(secrets), "it")
    return str(filled)


def _with_secrets(value: Any, secrets: Secrets, called: str) -> Any:
    def secret(match: re.Match[str]) -> str:
        if not match[1]:
            raise SettingError(
                f"{called} has {match[0]!r}, a secret without a name; write {{{{secret.NAME}}}}, "
                "with NAME in the environment or in .env."
            )
        if match[1] not in secrets:
            raise SettingError(
                f"{called} names {match[0]}, but {match[1]} is neither in the environment nor in "
                ".env; set it in one of them."
            )
        return secrets[match[1]]

    if isinstance(value, list):
        return [_with_secrets(item, secrets, called) for item in value]
    if isinstance(value, dict):
        return {name: _with_secrets(item, secrets, called) for name, item in value.items()}
    return _SECRET.sub(secret, value) if isinstance(value, str) else value


def _secrets_in(value: Any) -> frozenset[str]:
    """Return the names of all secrets that a value refers to."""
    if isinstance(value, str):
        return frozenset(_SECRET.findall(value))
    if isinstance(value, dict):
        value = list(value.values())
    return frozenset().union(*map(_secrets_in, value)) if isinstance(value, list) else frozenset()


def _prompt(text: str, folder: Path) -> str:
    """Return the text of a system prompt; it is read from a file if `text` names one."""
    name = text.removeprefix("file:")
    if name == text and not _is_path(text, folder):
        return text
    return read_text(folder / name, "the system prompt").strip()


def _is_path(text: str, folder: Path) -> bool:
    if not text.endswith((".md", ".txt")) or "\n" in text:
        return False
    return " " not in text or os.path.isfile(folder / text)
