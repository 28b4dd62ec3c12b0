"""The program's command: `python main.py` in a checkout, `parley` from the wheel.

Sentences are written for a checkout. `as_called` adapts their commands to the wheel, and is called
by all code that writes to people. The packages of extras are in requirement files; `EXTRAS` names
them, for the wheel and for the command `add`. This module imports only the standard library.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder of `main.py` and of the layers."""
DISTRIBUTION = "parley-bot"
"""The name of the wheel (docs/decisions/0033-a-wheel-with-one-package.md)."""
IS_WHEEL = ROOT.name == "_app" and ROOT.parent.name == DISTRIBUTION.replace("-", "_")
CALL = ("parley",) if IS_WHEEL else ("python", "main.py")
"""The words by which the program is called."""
EXTRAS: Mapping[str, str] = {
    "anthropic": "agent/models/requirements-anthropic.txt",
    "discord": "channels/discord/requirements.txt",
    "embedded": "agent/models/requirements.txt",
    "mail": "channels/mail/requirements.txt",
    "matrix": "channels/matrix/requirements.txt",
    "mcp": "plugins/mcp/requirements.txt",
    "postgresql": "memory/record/engines/requirements.txt",
    "rabbitmq": "plugins/cluster/requirements.txt",
    "semantic": "plugins/recall/requirements.txt",
    "slack": "channels/slack/requirements.txt",
    "wecom": "channels/wecom/requirements.txt",
    "whatsapp": "channels/whatsapp/requirements.txt",
}
"""The requirement files of optional parts, by the names of the extras."""
ALONE = frozenset({"embedded"})
"""Extras that are installed without their dependencies (`pip --no-deps`)."""

_PROGRAM = re.compile(r"\b(?:python )?main\.py\b")
_BASE = re.compile(r"(?:make run`?, or:? `?)?pip install (?:--[\w-]+ )*-r requirements\.txt")
_ANEW = f"pip install --force-reinstall {DISTRIBUTION}"


def as_called(text: str) -> str:
    """Return a sentence with its commands as they work for this installation."""
    return _of_wheel(text) if IS_WHEEL else text


def _of_wheel(text: str) -> str:
    text = _BASE.sub(_ANEW, text)
    return _PROGRAM.sub("parley", text)


def as_place(text: str) -> Path:
    """Return a path from the command line; `~` is expanded, which shells don't do in `--data=~/x`.
    Raises argparse.ArgumentTypeError."""
    if not text.strip():
        raise ArgumentTypeError("its name is empty; name a file or a folder")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        name = Path(text).parts[0]
        raise ArgumentTypeError(
            f"there is no home folder for {name}; write the whole path"
        ) from None


def usual_config() -> Path:
    """Return the default configuration: beside the program in a checkout, in the person's own
    folder from the wheel."""
    if not IS_WHEEL:
        return Path("config.json")
    from platformdirs import user_config_path  # noqa: PLC0415 - a checkout does not need it

    return user_config_path("parley", appauthor=False) / "config.json"


def usual_data() -> Path:
    """Return the default data folder. It contains nothing else: some systems use one place for data
    and configuration."""
    if not IS_WHEEL:
        return Path("data")
    from platformdirs import user_data_path  # noqa: PLC0415 - as above

    return user_data_path("parley", appauthor=False) / "data"
