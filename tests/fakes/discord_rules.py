"""The rules by which Discord refuses a message, a press and a list of commands, and the data that
it stores of them.

Each rule names the page of Discord's reference that says so ("docs.discord.com/developers"); rules
that could not be found there are marked as unverified.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.discord_markup import words

Json = dict[str, Any]

LONGEST_CONTENT, LONGEST_NONCE = 2000, 25
"""Characters ("Message Resource: Create Message"). That they are counted in UTF-16 is unverified;
it is the stricter way."""
LONGEST_LABEL, LONGEST_ID, MOST_ROWS, MOST_IN_ROW = 80, 100, 5, 5
"""("Component Reference: Button", "Action Row", "Legacy Message Component Behavior")"""
LARGEST_FILE = 10 * 2**20
"""Bytes, on a server without boosts ("Reference: Uploading Files")."""
TO_ANSWER, TO_FOLLOW = 3.0, 15 * 60.0
"""Seconds in which an interaction has to be answered, and in which its token is valid
("Interactions: Receiving and Responding")."""
MOST_COMMANDS, LONGEST_NAME, LONGEST_DESCRIPTION, MOST_OPTIONS = 100, 32, 100, 25
"""("Application Commands: Application Command Object")"""
SUPPRESS_EMBEDS, EPHEMERAL, SILENT, VOICE = 1 << 2, 1 << 6, 1 << 12, 1 << 13
LOCALES = {"de", "en-US", "en-GB", "zh-CN", "zh-TW", "fr", "es-ES", "ja", "ko"}
"""Some of "Reference: Locales"."""


class Refused(Exception):
    """The error that the API answers: a status, Discord's number ("Opcodes and Status Codes: JSON
    Error Codes"), a sentence."""

    def __init__(self, status: int, code: int, message: str, errors: Json | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.errors = status, code, errors


def invalid(where: str, code: str, message: str) -> Refused:
    """A body that Discord refuses ("Reference: Error Messages")."""
    errors: Json = {"_errors": [{"code": code, "message": message}]}
    for part in reversed(where.split(".")):
        errors = {part: errors}
    return Refused(400, 50035, "Invalid Form Body", errors)


@dataclass
class SentMessage:
    """A message of the bot. `contents` are all its versions; it replies to `answers`, or is the
    response to the command `interaction`."""

    id: int
    channel: int
    contents: list[str]
    components: list[Json] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    answers: int = 0
    interaction: int = 0
    flags: int = 0
    nonce: str = ""

    @property
    def raw(self) -> str:
        return self.contents[-1]

    @property
    def text(self) -> str:
        return words(self.raw)

    @property
    def buttons(self) -> dict[str, str]:
        return {b["label"]: b["custom_id"] for row in self.components for b in row["components"]}


@dataclass
class Pending:
    """An interaction begun by a person; `answered` is the kind of its response (0: none)."""

    id: int
    kind: int
    channel: int
    token: str
    at: float
    answered: int = 0
    message: int = 0


def check_message(body: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """ "Message Resource: Create Message" and "Allowed Mentions Object"."""
    content = body.get("content") or ""
    check_content(content)
    if not (content.strip() or files or body.get("components")):
        raise Refused(400, 50006, "Cannot send an empty message")
    if body.get("flags", 0) & ~(SUPPRESS_EMBEDS | SILENT | VOICE):
        raise invalid("flags", "MESSAGE_FLAGS_INVALID", "Invalid flags")
    nonce = body.get("nonce")
    if nonce is not None and len(str(nonce)) > LONGEST_NONCE:
        raise invalid("nonce", "NONCE_TYPE_TOO_LONG", "Must be 25 or fewer in length.")
    check_mentions(body.get("allowed_mentions") or {})
    check_components(body.get("components") or [])


def check_content(content: str) -> None:
    if len(content.encode("utf-16-le", "replace")) // 2 > LONGEST_CONTENT:
        raise invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length.")


def check_mentions(allowed: Mapping[str, Any]) -> None:
    parse = allowed.get("parse", ())
    if set(parse) - {"roles", "users", "everyone"}:
        raise invalid("allowed_mentions.parse", "BASE_TYPE_CHOICES", "Value must be one of them.")
    for kind in ("users", "roles"):
        if kind in parse and allowed.get(kind):
            raise invalid("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", kind)


def pings(content: str, allowed: Mapping[str, Any] | None) -> bool:
    """Return whether the message would notify a person whom it does not reply to."""
    kinds = {"users", "roles", "everyone"} if allowed is None else set(allowed.get("parse", ()))
    patterns = {"users": r"<@!?\d+>", "roles": r"<@&\d+>", "everyone": r"@(everyone|here)"}
    return any(re.search(patterns[kind], content) for kind in kinds)


def check_components(rows: Sequence[Json]) -> None:
    """Rows of buttons ("Component Reference")."""
    if len(rows) > MOST_ROWS:
        raise invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
    seen = set()
    for number, row in enumerate(rows):
        where = f"components.{number}"
        if row.get("type") != 1 or not 1 <= len(row.get("components", ())) <= MOST_IN_ROW:
            raise invalid(where, "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
        for button in row["components"]:
            check_button(button, where)
            if button["custom_id"] in seen:
                raise invalid(where, "COMPONENT_CUSTOM_ID_DUPLICATED", "They can't be the same.")
            seen.add(button["custom_id"])


def check_button(button: Json, where: str) -> None:
    if button.get("type") != 2 or button.get("style") not in (1, 2, 3, 4):
        raise invalid(where, "BASE_TYPE_CHOICES", "Value must be one of {1, 2, 3, 4}.")
    if not 1 <= len(button.get("custom_id", "")) <= LONGEST_ID:
        raise invalid(where, "BASE_TYPE_BAD_LENGTH", "custom_id: between 1 and 100 in length.")
    label = button.get("label") or ""
    if len(label) > LONGEST_LABEL:
        raise invalid(where, "BASE_TYPE_MAX_LENGTH", "label: 80 or fewer in length.")
    if not label.strip() and not button.get("emoji"):
        raise invalid(
            where, "BUTTON_COMPONENT_INVALID_LABEL", "a button needs a label"
        )  # unverified


def check_commands(commands: Sequence[Json]) -> None:
    """ "Application Commands: Bulk Overwrite Global Application Commands"."""
    if len(commands) > MOST_COMMANDS:
        raise Refused(400, 30032, "Maximum number of application commands reached (100)")
    names = [command.get("name", "") for command in commands]
    if len(set(names)) < len(names):
        raise invalid("name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "names must be unique")
    for number, command in enumerate(commands):
        check_named(command, str(number))
        options = command.get("options", [])
        if len(options) > MOST_OPTIONS:
            raise invalid(str(number), "BASE_TYPE_MAX_LENGTH", "25 options at most")
        for option in options:
            check_named(option, f"{number}.options")
            if option.get("type") not in range(1, 12):
                raise invalid(f"{number}.options", "BASE_TYPE_CHOICES", "unknown type of option")


def check_named(thing: Json, where: str) -> None:
    name = thing.get("name", "")
    if not re.fullmatch(r"[-_'\w]{1,32}", name) or name != name.lower():
        raise invalid(f"{where}.name", "STRING_TYPE_REGEX", "String value did not match a pattern.")
    descriptions = {"": thing.get("description"), **(thing.get("description_localizations") or {})}
    for locale, text in descriptions.items():
        if locale and locale not in LOCALES:
            raise invalid(f"{where}.{locale}", "BASE_TYPE_CHOICES", "no such locale")
        if not text or len(text) > LONGEST_DESCRIPTION:
            raise invalid(f"{where}.description", "BASE_TYPE_BAD_LENGTH", "between 1 and 100")


def check_response(pending: Pending | None, token: str, kind: int, now: float) -> Pending:
    """ "Interactions: Receiving and Responding: Responding to an Interaction"."""
    if pending is None or pending.token != token or now - pending.at > TO_ANSWER:
        raise Refused(404, 10062, "Unknown interaction")
    if pending.answered:
        raise Refused(400, 40060, "Interaction has already been acknowledged.")
    if kind not in ((4, 5, 9) if pending.kind == 2 else (4, 5, 6, 7, 9)):
        raise invalid("type", "BASE_TYPE_CHOICES", "not for this kind of interaction")
    return pending
