"""The layers that are there before the bot runs: a file, and the environment with a `.env`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.settings.files import read_env, read_text, read_tree
from bot.settings.schema import (
    SECRET_NAME,
    SECTIONS,
    SETTINGS,
    Kind,
    SettingError,
    nearest,
    quoted,
    unknown,
    validated,
)

PREFIX = "PARLEY_"
CREDENTIALS = frozenset({"PARLEY_WEB_TOKEN"})
"""Names in the environment that begin so and are no settings."""
_SECRET = re.compile(r"\{\{\s*secret\.(\w+)\s*\}\}", re.ASCII)


class Secrets(Mapping[str, str]):
    """The environment with the `.env` beside the configuration; its repr shows no value."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Secrets: {len(self)} names>"

    def to_mask(self) -> frozenset[str]:
        """The values that no log may show: those whose name speaks of a key, token or password."""
        return frozenset(
            value for name, value in self.items() if value and SECRET_NAME.search(name)
        )


@dataclass(frozen=True, slots=True)
class Written:
    """Settings from one source, by key: as they were written there, and with the secrets and
    files that they name filled in."""

    as_written: Mapping[str, Any]
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Layers:
    """All that was there before the start. The environment outranks the file."""

    file: Written
    environment: Written
    secrets: Secrets


def load_layers(config: Path, environ: Mapping[str, str]) -> Layers:
    """Read and check the configuration (JSON, or YAML by its ending), `.env` and `environ`.

    A SettingError has a line for every fault found.
    """
    surroundings = {**read_env(config.with_name(".env")), **environ}
    secrets = Secrets(surroundings)
    faults: list[str] = []
    file = _from_file(config, secrets, faults)
    environment = _from_environment(config, surroundings, secrets, faults)
    if faults:
        raise SettingError("\n".join(faults))
    return Layers(file, environment, secrets)


@contextmanager
def _noting(faults: list[str]) -> Iterator[None]:
    try:
        yield
    except SettingError as error:
        faults.append(str(error))


def _from_file(config: Path, secrets: Secrets, faults: list[str]) -> Written:
    def called(key: str) -> str:
        return f"{key} in {config.name}"

    written: dict[str, Any] = {}
    for key, value in _flattened(read_tree(config)):
        with _noting(faults):
            _refuse_unknown(key, value, config.name)
            if key in written:
                raise SettingError(f"{config.name} has {key!r} twice; keep one of them.")
            written[key] = value
    return Written(written, _filled(written, config.parent, secrets, called, faults))


def _flattened(tree: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key in SECTIONS and isinstance(value, dict):
            yield from _flattened(value, f"{key}.")
        else:
            yield key, value


def _refuse_unknown(key: str, value: Any, where: str) -> None:
    if key in SECTIONS:
        raise SettingError(f"{key} in {where} is {quoted(value)}; it wants settings of its own.")
    if key not in SETTINGS:
        raise SettingError(unknown(key, where))


def _from_environment(
    config: Path, environ: Mapping[str, str], secrets: Secrets, faults: list[str]
) -> Written:
    keys = {variable(key): key for key in SETTINGS}
    written: dict[str, Any] = {}
    own = (name for name in environ if name.startswith(PREFIX) and name not in CREDENTIALS)
    for name in sorted(own):
        if key := keys.get(name):
            written[key] = typed(SETTINGS[key].kind, environ[name])
        else:
            faults.append(_unknown_variable(name))
    return Written(written, _filled(written, config.parent, secrets, variable, faults))


def variable(key: str) -> str:
    """The environment's name of a setting: `context.strategy` -> PARLEY_CONTEXT__STRATEGY."""
    return PREFIX + key.replace(".", "__").upper()


def _unknown_variable(name: str) -> str:
    near = nearest(name.removeprefix(PREFIX).replace("__", ".").lower(), SETTINGS)
    ending = f"; did you mean {variable(near)}?" if near else "."
    return f"{name} in the environment is no setting{ending}"


def typed(kind: Kind, text: str) -> Any:
    """What was typed, as a value: JSON where it is JSON, else text, or a list split at commas.

    The value may still be a wrong one for its setting; `validated` tells.
    """
    text = text.strip()
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


def _filled(
    written: Mapping[str, Any],
    folder: Path,
    secrets: Secrets,
    called: Callable[[str], str],
    faults: list[str],
) -> Mapping[str, Any]:
    """The values with secrets and files filled in, checked together."""
    values: dict[str, Any] = {}
    for key, value in written.items():
        with _noting(faults):
            values[key] = _with_secrets(value, secrets, called(key))
    with _noting(faults):
        if isinstance(prompt := values.get("system_prompt"), str):
            values["system_prompt"] = _prompt(prompt, folder)
    with _noting(faults):
        validated(values, written, called)
    return values


def _with_secrets(value: Any, secrets: Secrets, called: str) -> Any:
    def secret(match: re.Match[str]) -> str:
        if match[1] not in secrets:
            raise SettingError(
                f"{called} names {match[0]}, but {match[1]} is neither in the environment nor in "
                ".env; set it in one of them."
            )
        return secrets[match[1]]

    if isinstance(value, list):
        return [_with_secrets(item, secrets, called) for item in value]
    return _SECRET.sub(secret, value) if isinstance(value, str) else value


def _prompt(text: str, folder: Path) -> str:
    """The text of a system prompt, read from a file where `text` names one."""
    name = text.removeprefix("file:")
    if name == text and not _is_path(text, folder):
        return text
    return read_text(folder / name, "the system prompt").strip()


def _is_path(text: str, folder: Path) -> bool:
    if not text.endswith((".md", ".txt")) or "\n" in text:
        return False
    return " " not in text or os.path.isfile(folder / text)  # isfile takes any text quietly
