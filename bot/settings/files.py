"""Parsers of the files with settings: JSON or YAML, and `.env`.

All functions raise a SettingError with a sentence that names the file, and usually the line.
"""

from __future__ import annotations

import json
import re
import stat
from io import StringIO
from pathlib import Path
from typing import Any

from dotenv.parser import parse_stream

from bot.settings.schema import SettingError, dict_once, quote
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
