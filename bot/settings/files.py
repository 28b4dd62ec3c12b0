"""Parsers of the files with settings: JSON or YAML, and `.env`.

All functions raise a SettingError with a sentence that names the file, and usually the line.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Collection, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from dotenv.parser import parse_stream
from msgspec import Struct

from agent.models.learnt import ProviderQuirks
from bot.settings.schema import AGENT_ID, BRAIN, NO_AGENT, SETTINGS, SettingError, dict_once, quote
from channels.program import IS_WHEEL, ROOT, usual_config

LARGEST_FILE = 1_000_000  # bytes
_ODD_QUOTES = "'\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb`"
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def read_text(path: Path, what: str) -> str:
    """Return a file's text. Raises SettingError with the reason if it can't be read."""
    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # opening it would wait for a writer
            raise SettingError(f"{path} ({what}) is a pipe; name a file.")
        with path.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        raise SettingError(f"{path} ({what}) was not found; create it, or name another.") from None
    except IsADirectoryError:
        raise SettingError(f"{path} ({what}) is a folder; name a file.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingError(f"{quote(str(path))} ({what}) cannot be read: {reason}.") from None
    if len(content) > LARGEST_FILE:
        raise SettingError(f"{path} ({what}) is larger than 1 MB; make it smaller.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingError(f"{path} ({what}) is not UTF-8 text; save it as UTF-8.") from None


def read_env(path: Path) -> dict[str, str]:
    """Return the names and values of a `.env`; none if the file is missing."""
    if not path.exists():
        return {}
    found: dict[str, str] = {}
    for binding in parse_stream(StringIO(read_text(path, "keys and settings"))):
        name = binding.key or "_"
        if binding.error or not _ENV_NAME.fullmatch(name):
            raise SettingError(
                f"line {binding.original.line} of {path} can't be read; write NAME=value."
            )
        if binding.key and binding.value is not None:
            found[binding.key] = binding.value
    return found


def read_tree(config: Path) -> dict[str, Any]:
    """Return a configuration as nested dicts, without validation of its content."""
    if IS_WHEEL and config == usual_config() and not config.exists():
        config = ROOT / config.name  # no settings file was written yet
    is_yaml = config.suffix.lower() in (".yaml", ".yml")
    text = read_text(config, "the configuration")
    try:
        tree = _from_yaml(text) if is_yaml else _from_json(text)
        _refuse_half_characters(tree)
    except RecursionError:
        raise SettingError(f"{config} is nested too deeply; settings are a flat list.") from None
    except ValueError as error:
        kind = "YAML" if is_yaml else "JSON"
        raise SettingError(f"{config} is not valid {kind}: {error}.") from None
    if not isinstance(tree, dict):
        raise SettingError(
            f"{config} holds {quote(tree)}; it must be an object: names of settings with values."
        )
    return tree


def _from_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=dict_once)
    except json.JSONDecodeError as error:
        at = error.pos + ("trailing comma" in error.msg)  # Python 3.13 points to the comma itself
        before, after = text[:at].rstrip(), text[at:].lstrip()
        line = before.count("\n") + 1
        if before.endswith(",") and after.startswith(("}", "]")):
            raise ValueError(f"line {line} has a comma too many before {after[0]}") from None
        if error.msg == "Expecting ',' delimiter" and not after.startswith(("/", "#")):
            raise ValueError(f"line {line} lacks a comma or a closing bracket") from None
        place = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"{place}: {_explain(error, text[error.pos :])}") from None


def _explain(error: json.JSONDecodeError, rest: str) -> str:
    """Return a description of an error in JSON text; the `rest` begins at its position."""
    first = rest.lstrip()[:1]
    if not first:
        is_empty = not error.doc.strip()
        return "it is empty; write {}" if is_empty else "something is missing at the end"
    if first in "/#":
        return "JSON has no comments; take it out"
    if first in _ODD_QUOTES or error.msg.startswith("Expecting property name"):
        return 'names and texts stand in straight double quotation marks, as in "model"'
    if error.msg.startswith("Invalid \\escape"):
        return r"a backslash in a text is written twice: C:\\Users"
    if error.msg.startswith("Extra data"):
        return "something stands behind the end"
    return error.msg[:1].lower() + error.msg[1:]


def _refuse_half_characters(tree: Any) -> None:
    r"""Raise ValueError for an escape like "\ud83d" alone: it is not a character, and can be
    neither stored nor sent."""
    try:
        json.dumps(tree, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = str(error.object)[error.start].encode("ascii", "backslashreplace").decode()
        raise ValueError(
            f"it has {half}, which is half of a character; write the whole one"
        ) from None


def _from_yaml(text: str) -> Any:
    from bot.settings.yaml_files import parse  # noqa: PLC0415 - 1 MB that JSON does not need

    return parse(text)


def line_of(config: Path, key: str) -> int:
    """Return the line number of a part of a configuration ("hooks[2].condition.every"), or of the
    nearest part around it; 0 if unknown."""
    from bot.settings.yaml_files import find_line  # noqa: PLC0415 - 1 MB that no valid file needs

    text = read_text(config, "the configuration").replace("\t", " ")
    return find_line(text, re.findall(r"\w+", key))


AGENTS = "agents"
RUNTIME_CONTEXT = (
    "max_tokens",
    "output_reserved",
    "strategy",
    "keep_recent",
    "compression_trigger",
    "summary_max_tokens",
    "auto_compact",
    "summary_brain",
)
"""All fields of `runtime.context`."""
RUNTIME_STRATEGIES = ("truncate", "summarize")
"""The strategies that it accepts."""
_OF_ITS_STRATEGIES = ("keep_recent", "compression_trigger", "auto_compact")

IN_RUNTIME: Mapping[str, str] = {
    f"runtime.{key}": key
    for key in SETTINGS
    if key.startswith("context.") and key.split(".")[1] in RUNTIME_CONTEXT
}
"""Settings by their names under `runtime`."""
IN_AGENT: Mapping[str, str] = {
    "system_prompt": "system_prompt",
    "brain.model": "model",
    "brain.fallback_models": "fallback_models",
    **{key: key for key in sorted(BRAIN)},
    **{f"brain.{key}": key for key in SETTINGS if key.startswith("context.")},
}
"""Settings by their names in an agent's block."""


class AgentBlock(Struct, frozen=True):
    """An agent as written in the file; `settings` is everything except its id and description."""

    id: str
    description: str
    settings: Mapping[Any, Any]


def blocks(written: Any, file: str) -> tuple[list[AgentBlock], list[str]]:
    """Return the agents in a list, and a sentence for each invalid entry."""
    if not isinstance(written, list):
        return [], [f"agents in {file} is {quote(written)}; it must be a list of agents."]
    found: dict[str, AgentBlock] = {}
    faults: list[str] = []
    for number, entry in enumerate(written):
        try:
            block = _block(entry, f"agents[{number}] in {file}")
            _refuse_taken(block.id, found, file)
            found[block.id] = block
        except SettingError as error:
            faults.append(str(error))
    return list(found.values()), faults


def _refuse_taken(name: str, found: Collection[str], file: str) -> None:
    if name == NO_AGENT:
        raise SettingError(
            f"agents in {file} has an agent {name!r}, which means none of them; rename it."
        )
    if name in found:
        raise SettingError(f"agents in {file} has two agents {name!r}; rename one of them.")


def _block(entry: Any, place: str) -> AgentBlock:
    if not isinstance(entry, dict):
        raise SettingError(f"{place} is {quote(entry)}; it needs an id and a brain.")
    name, description = entry.get("id"), entry.get("description", "")
    if not (isinstance(name, str) and re.fullmatch(AGENT_ID, name)):
        raise SettingError(
            f"{place} has the id {quote(name)}; an id has up to 64 letters, digits, - or _."
        )
    if not (isinstance(description, str) and len(description) <= 1_000):
        raise SettingError(
            f"{place} has the description {quote(description)}; it must be text of at most 1000 "
            "characters."
        )
    settings = {key: entry[key] for key in entry if key not in ("id", "description")}
    return AgentBlock(name, description, settings)


# --- brains ---

_ENDPOINT = ("provider", "backend", "config.api_key", "config.base_url")
_BRAINS = ("brain", "context.summary_brain")
_QUIRKS = tuple(f"quirks.{name}" for name in ProviderQuirks.model_fields)


def with_strategy(written: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the settings of the file; `names` are their names there. If it has fields of
    `runtime.context` that other strategies ignore, the strategy is `summarize`, as in Digitorn's
    own example."""
    is_selected = any(f"runtime.context.{name}" in names for name in _OF_ITS_STRATEGIES)
    return {**({"context.strategy": RUNTIME_STRATEGIES[1]} if is_selected else {}), **written}


def with_whole_endpoints(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of one source, with the endpoint of each of its brains complete: a key
    from another source must not be sent to this source's address."""
    whole = dict(written)
    for brain in _BRAINS:
        if any(f"{brain}.{name}" in written for name in _ENDPOINT):
            defaults: dict[str, Any] = {f"{brain}.{name}": "" for name in _ENDPOINT}
            defaults |= {f"{brain}.{name}": None for name in _QUIRKS}
            whole = {**defaults, f"{brain}.backend": "auto", **whole}
    if any(f"brain.{name}" in written for name in _ENDPOINT):
        whole.setdefault("fallback_models", [])  # they use another endpoint
    return whole
