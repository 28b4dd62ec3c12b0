"""Logs: rotating files without secrets; each line names its turn."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from logging.handlers import RotatingFileHandler
from pathlib import Path

from bot.paragraphs import columns_of, wrap_words
from bot.recent import FailureLog
from bot.settings import Layers, SettingsStore
from bot.settings.layers import Secrets
from channels.program import as_called
from memory.services import Redactor

LAYERS = ("bot", "plugins", "agent", "channels", "memory")
"""The packages whose lines are logged from the level in the settings on. Other packages log
warnings only: below that, a library's lines may contain whole requests."""

FILE_SIZE, FILES_KEPT = 5_000_000, 5
SHORTEST_SECRET = 6  # characters; masking shorter ones would garble the lines
_LOOKS_SECRET = re.compile(
    r"\bsk-[\w-]{8,}"  # OpenAI and others
    r"|\d{6,}:[\w-]{30,}"  # a Telegram bot, also inside of its address
    r"|(?<=Bearer )\S+"
    r"|(?<=[?&]ticket=)[^&\s'\"]+|(?<=[?&]access_key=)[^&\s'\"]+"  # Slack's and Feishu's sockets
)

turn_in_log: ContextVar[str] = ContextVar("turn_in_log", default="-")
is_off_record: ContextVar[bool] = ContextVar("is_off_record", default=False)


@contextmanager
def off_record() -> Iterator[None]:
    """Log only the fixed texts of lines written in this context and in tasks started in it. The
    filled-in values may be a person's words, or a provider's answer to them."""
    token = is_off_record.set(True)
    try:
        yield
    finally:
        is_off_record.reset(token)


@contextmanager
def in_turn(name: str) -> Iterator[None]:
    """Add this turn's name to log lines written in this context and in tasks started in it."""
    token = turn_in_log.set(name)
    try:
        yield
    finally:
        turn_in_log.reset(token)


def set_up_logs(
    folder: Path, layers: Layers, is_quiet: bool, failures: FailureLog | None = None
) -> Callable[[], None]:
    """Write logs to `parley.log` in `folder`. Unless `is_quiet`, write warnings to stderr too; with
    JSON all lines, since a program reads them there. `failures` handles warnings, too.

    Tracebacks are only in the file, except with JSON. Return a function that closes the logs; the
    end of the process does that too. Raises OSError if the folder cannot be written.
    """
    redactor = _LogRedactor(layers.secrets)
    settings = SettingsStore(layers).effective()
    is_json = settings.log_format == "json"
    lines = _JsonFormatter(redactor) if is_json else _LineFormatter(redactor)
    handlers: list[logging.Handler] = [_file(folder, lines)]
    if not is_quiet:
        handlers.append(
            _stderr(lines) if is_json else _stderr(_Sentences(redactor), logging.WARNING)
        )
    if failures is not None:
        failures.redactor = redactor
        handlers.append(failures)
    set_level(settings.log_level)
    for handler in handlers:
        handler.addFilter(_with_turn)
        logging.getLogger().addHandler(handler)
    return lambda: _close(handlers)


def set_level(level: str) -> None:
    """Set the level of the bot's own packages ("debug", "info", "warning", "error")."""
    for layer in LAYERS:
        logger = logging.getLogger(layer)
        if logger.level != logging.getLevelName(level.upper()):  # setting it empties all caches
            logger.setLevel(level.upper())


def mask(text: str, secrets: Collection[str]) -> str:
    """Replace these values, and text that looks like a key or token, with ***."""
    return _LOOKS_SECRET.sub("***", _find_any(frozenset(secrets)).sub("***", text))


def looks_secret(text: str) -> bool:
    """Return whether part of a text looks like a key or token."""
    return _LOOKS_SECRET.search(text) is not None


class SecretRedactor(Redactor):
    """Replaces secrets with ***, also those that are added while the bot runs."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def hide(self, text: str) -> str:
        return _find_any(self._secrets.to_mask()).sub("***", text)


class _LogRedactor(SecretRedactor):
    def hide(self, text: str) -> str:
        return mask(as_called(text), self._secrets.to_mask())  # lines suggest commands, too


@lru_cache(maxsize=8)
def _find_any(secrets: frozenset[str]) -> re.Pattern[str]:
    known = sorted((value for value in secrets if len(value) >= SHORTEST_SECRET), key=len)
    return re.compile("|".join(map(re.escape, reversed(known))) or "(?!)")  # which never matches


def _with_turn(record: logging.LogRecord) -> bool:
    record.turn = turn_in_log.get()
    if is_off_record.get() and record.msg != getattr(record, "redacted", None):
        _redact(record)  # once: each handler has this filter
    return True


def _redact(record: logging.LogRecord) -> None:
    """Reduce a line to its fixed text and the class of its error. A library's text is left out,
    since values may be filled in already."""
    error = record.exc_info[1] if record.exc_info else None
    is_own = record.name.split(".")[0] in LAYERS
    text = str(record.msg) if is_own and isinstance(record.msg, str) else "a line of a library"
    why = f"{type(error).__name__}, off the record" if error else "off the record"
    record.msg = record.redacted = f"{text} ({why})"
    record.args = ()
    record.exc_info = record.exc_text = record.stack_info = None


def _close(handlers: Collection[logging.Handler]) -> None:
    for handler in handlers:
        logging.getLogger().removeHandler(handler)
        handler.close()


class _LineFormatter(logging.Formatter):
    """A formatter of one line per event: further lines of the event (a traceback, pasted text) are
    indented, so that no text can imitate a line of the log."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, redactor: Redactor) -> None:
        super().__init__("{asctime} {levelname} [{turn}] {name}: {message}", style="{")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.hide(super().format(record)).replace("\n", "\n    ")


class _JsonFormatter(logging.Formatter):
    """A formatter of one object per line: `at`, `level`, `turn`, `logger`, `text`, and `error` (a
    traceback)."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        error = self.formatException(record.exc_info) if record.exc_info else ""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        whole = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "turn": getattr(record, "turn", "-"),
            "logger": record.name,
            "text": record.getMessage(),
            "error": error,
        }
        # Masked before encoding as JSON, which changes some characters of a secret.
        shown = {name: self._redactor.hide(value) for name, value in whole.items() if value}
        return json.dumps(shown)


class _Sentences(logging.Formatter):
    """A formatter of sentences for a person: no time, no traceback."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return wrap_words(self._redactor.hide(record.getMessage()), columns_of(sys.stderr))


class _LogFile(RotatingFileHandler):
    def shouldRollover(self, record: logging.LogRecord) -> int:
        # The library formats each line a second time to know its length, and checks the disk.
        if self.stream is not None and self.stream.tell() < self.maxBytes:
            return False
        return super().shouldRollover(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Do nothing: a full disk must not fill the person's screen with tracebacks."""


def _file(folder: Path, formatter: logging.Formatter) -> logging.Handler:
    folder.mkdir(parents=True, exist_ok=True)
    handler = _LogFile(
        folder / "parley.log",
        maxBytes=FILE_SIZE,
        backupCount=FILES_KEPT,
        encoding="utf-8",
        errors="backslashreplace",  # a line with broken text is still useful
    )
    handler.setFormatter(formatter)
    return handler


def _stderr(formatter: logging.Formatter, level: int = logging.NOTSET) -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(level)
    handler.setFormatter(formatter)
    return handler
