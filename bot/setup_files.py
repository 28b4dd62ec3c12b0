"""The files that store a connected model, `.env` and the configuration, changed together."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from dotenv.parser import parse_stream

from bot.settings.schema import SettingError

_PLAIN = re.compile(r"[\w./:@%+=,-]+", re.ASCII)
_BLANK = re.compile(r"(?:[^\S\n]*\n)*")
"""The empty lines before an assignment, which the parser includes in it."""


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return the text of a `.env` with these values, otherwise unchanged. Raises SettingError for a
    value that would not be read back unchanged."""
    rest = without(text, values.keys())
    if rest and not rest.endswith("\n"):
        rest += "\n"
    whole = rest + "".join(f"{name}={_quote(value)}\n" for name, value in values.items())
    if _read(whole) != {**_read(text), **values}:
        raise SettingError(f"{' and '.join(values)} can't be written into this .env.")
    return whole


def without(text: str, names: Collection[str]) -> str:
    """Return the text of a `.env` without the lines that set these names. A value may span several
    lines, which may look like assignments."""
    kept = []
    for one in parse_stream(StringIO(text)):
        whole = one.original.string
        kept.append(_BLANK.match(whole)[0] if one.key in names else whole)  # type: ignore[index]
    return "".join(kept)


def _read(text: str) -> dict[str, str | None]:
    return {one.key: one.value for one in parse_stream(StringIO(text)) if one.key}


def _quote(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return "'" + re.sub(r"[\\']", r"\\\g<0>", value) + "'"


def with_model(tree: Mapping[str, Any], model: str, provider: str) -> dict[str, Any]:
    """Return a configuration in which this model answers, served by this provider ("": the one in
    `.env`)."""
    brain = {**tree["brain"]} if isinstance(tree.get("brain"), dict) else {}
    for name in ("provider", "config", "model"):  # other settings that would select the model
        brain.pop(name, None)
    if provider:
        brain["provider"] = provider
    kept = {name: value for name, value in tree.items() if not name.startswith("brain")}
    return {**kept, "model": model, **({"brain": brain} if brain else {})}


def write_all(contents: Mapping[Path, str]) -> None:
    """Replace all files or none, except for a crash between two of them; Ctrl-C is delayed. New
    files and `.env` are accessible to their owner alone; other existing ones keep their mode."""
    ready: dict[Path, str] = {}
    try:
        for path, text in contents.items():
            target = path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
            ready[target] = name
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if target.exists() and path.name != ".env":
                os.chmod(name, target.stat().st_mode & 0o777)
        with _uninterrupted():
            for target, name in ready.items():
                os.replace(name, target)
    finally:
        for name in ready.values():
            Path(name).unlink(missing_ok=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C goes to the main thread
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
