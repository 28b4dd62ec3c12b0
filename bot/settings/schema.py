"""All settings, their valid values, and the messages for invalid ones.

Within the bot a setting is named by its key: `agent_max_steps`, `context.strategy`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin
from zoneinfo import ZoneInfo, available_timezones

import tzlocal
from annotated_types import Ge, Gt, Le
from msgspec import Struct
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    create_model,
)
from pydantic import ValidationError as Misfit
from pydantic.fields import FieldInfo

from agent.models.brain import SummaryBrain
from agent.settings import AgentSettings
from bot.settings.permits import HARMLESS, parse_permit
from channels.settings import ChannelSettings
from memory.context.settings import ContextSettings
from memory.plain_text import nearest, plain_json
from memory.settings import MemorySettings
from plugins.features import Section, SettingFaults, list_sections
from plugins.rules import Rule, parse

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS", re.IGNORECASE)
LONGEST_QUOTE = 60  # characters of a value that a sentence repeats
NO_AGENT = "default"
AGENT_ID = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"


class SettingError(Exception):
    """Raised for invalid settings. The text has one plain sentence per line, one line per fault."""


def _check_zone(name: str) -> str:
    try:
        return name if name == "auto" else ZoneInfo(name).key
    except (KeyError, OSError):  # no such zone; a folder of zones
        raise ValueError("unknown time zone") from None


@lru_cache(maxsize=8)
def _zone(name: str) -> ZoneInfo:
    if name != "auto":
        return ZoneInfo(name)
    try:
        return ZoneInfo(tzlocal.get_localzone_name() or "UTC")
    except (LookupError, OSError, ValueError):  # the machine has no valid zone
        return ZoneInfo("UTC")


def _check_permit(entry: str) -> str:
    permit = parse_permit(entry)
    setting = SETTINGS.get(permit.key)
    if setting is None or not setting.is_per_conversation or setting.is_fixed:
        raise ValueError("no setting of a conversation")
    if permit.is_numeric and (setting.kind != "scalar" or isinstance(setting.default, str)):
        raise ValueError("no number")
    return entry


class Context(ContextSettings):
    """The section `context`, with the settings of another layer."""

    summary_brain: SummaryBrain = SummaryBrain()


class KernelSettings(AgentSettings, MemorySettings, ChannelSettings):
    """The settings of the kernel: each layer's section, and settings of the whole bot."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    context: Context = Context()
    agent: Annotated[str, StringConstraints(pattern=AGENT_ID)] = Field(
        default=NO_AGENT,
        description="Agent of the configuration that answers; default means no agent.",
        json_schema_extra={
            "wants": "the id of an agent in the configuration, or default",
            "here": True,
            "holds": "from the next turn on",
        },
    )

    timezone: Annotated[str, AfterValidator(_check_zone)] = Field(
        default="auto",
        description="The time zone for all times shown to people and to the model; auto is the "
        "machine's.",
        json_schema_extra={"wants": "an IANA name such as Europe/Berlin, or auto"},
    )
    language: Literal["auto", "en", "de", "zh"] = Field(
        default="auto",
        description="The language of the bot's own texts: English, German or Chinese; auto is the "
        "one of the person's platform or browser. The model answers in the language "
        "of the messages.",
        json_schema_extra={"here": True, "holds": "at once"},
    )
    owners: tuple[
        Annotated[
            str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*/[^\s\p{C},]+$", max_length=200)
        ],
        ...,
    ] = Field(
        default=(),
        strict=False,  # lists become tuples; the names in them stay strict
        max_length=1_000,
        description="Owners besides everyone at the bot's terminal. Other people get access by "
        "a code (/pair).",
        json_schema_extra={"wants": "a list of people as CHANNEL/USER: telegram/42, pipe/ann"},
    )
    users_may_set: tuple[
        Annotated[str, StringConstraints(max_length=1_000), AfterValidator(_check_permit)], ...
    ] = Field(
        default=HARMLESS,
        strict=False,
        max_length=100,
        description="Settings that users may change for their own conversations, each with the "
        "values they may choose: `KEY` any value, `KEY down` nothing above your "
        "value, `KEY 1..20` a number in this range, `KEY one|other` one of these. "
        "`model a|b` and `agent a|b` offer models and agents.",
        json_schema_extra={
            "wants": "a list of entries like KEY, KEY down, KEY 1..20, KEY one|other"
        },
    )
    messages_per_minute: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=20,
        description="Maximum number of messages a minute from a user who is not an owner; 0 "
        "means no limit.",
        json_schema_extra={"unit": "messages"},
    )
    when_busy: Literal["queue", "collect", "steer", "interrupt"] = Field(
        default="queue",
        description="Treatment of a message that arrives while a turn is running: queue gives it "
        "a turn of its own afterwards; collect joins all such messages into one turn; steer hands "
        "it to the running turn at its next step; interrupt stops the running turn.",
        json_schema_extra={"here": True, "holds": "from the next message on"},
    )
    shutdown_timeout: Annotated[int, Field(ge=0, le=3_600)] = Field(
        default=5,
        description="Time for running turns to finish when the bot is stopped; unfinished ones "
        "continue at the next start. Docker kills the bot after 10 seconds unless "
        "configured otherwise.",
        json_schema_extra={"unit": "seconds"},
    )
    plugins_dir: Annotated[str, StringConstraints(pattern=r"^\P{C}*$", max_length=1_000)] = Field(
        default="",
        description="The folder of your own plugins, read at the start; empty means plugins/ in "
        "the data folder.",
        json_schema_extra={"wants": "the path of a folder", "holds": "from the next start on"},
    )
    database: Annotated[str, StringConstraints(pattern=r"^\S*$", max_length=1_000)] = Field(
        default="",
        description="The address of a PostgreSQL database that keeps the record "
        '(documentation: "Beyond one process"); '
        "empty: it is an SQLite file in the data folder.",
        json_schema_extra={
            "wants": "a secret that holds an address like postgresql://user:password@host/name",
            "fixed": True,
            "holds": "from the next start on",
        },
    )
    broker: Annotated[str, StringConstraints(pattern=r"^\S*$", max_length=1_000)] = Field(
        default="",
        description="The address of a RabbitMQ server, over which several processes are one bot "
        '(documentation: "Beyond one process"); empty: there is one process.',
        json_schema_extra={
            "wants": "a secret that holds an address like amqps://user:password@host/",
            "fixed": True,
            "holds": "from the next start on",
        },
    )
    hooks: Annotated[tuple[Rule, ...], BeforeValidator(parse)] = Field(
        default=(),
        description="Your own hook rules: each carries out an action, such as a compaction, on "
        "an event (see “Hook rules” in the documentation).",
        json_schema_extra={
            "wants": "a list of rules, each with `id`, `on` (the event) and `action`",
            "holds": "from the next event on",
        },
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Detail of the log in data/logs.",
        json_schema_extra={"holds": "from the next start on"},
    )
    log_format: Literal["text", "json"] = Field(
        default="text",
        description="Format of the log: text for people, or json, an object a line, for "
        "programs that collect logs; then all of it goes to stderr, too. "
        "`main.py logs` reads both.",
        json_schema_extra={"fixed": True, "holds": "from the next start on"},
    )

    @property
    def zone(self) -> ZoneInfo:
        """The time zone in force; UTC if the machine has none."""
        return _zone(self.timezone)

    def section(self, kind: type[Section]) -> Section:
        """Return the section that a feature has added (`plugins/NAME/settings.py`), or the whole
        settings if it has no section."""
        found = getattr(self, kind.SECTION) if kind.SECTION else self
        assert isinstance(found, kind)
        return found


def _with_features() -> type[KernelSettings]:
    """Add the settings of the features: classes of `plugins/NAME/settings.py`. SECTION is the name
    of their section in the configuration; without it, they are at the top level beside the
    kernel's."""
    sections: dict[str, list[type[BaseModel]]] = {}
    for kind in list_sections():
        sections.setdefault(kind.SECTION, []).append(kind)
    beside: list[Any] = [*sections.pop("", [])]
    fields: dict[str, Any] = {}
    for name, kinds in sections.items():
        if name in KernelSettings.model_fields:
            kinds.append(type(KernelSettings.model_fields[name].default))  # its fields come first
        whole = kinds[0]
        if kinds[1:]:
            whole = create_model(kinds[-1].__name__, __base__=tuple(kinds))
        fields[name] = (whole, whole())
    return create_model("Settings", __base__=(*beside, KernelSettings), **fields)


if TYPE_CHECKING:
    Settings = KernelSettings
else:
    Settings = _with_features()


Kind = Literal["text", "list", "flag", "scalar"]


class Setting(Struct, frozen=True):
    """The description of one setting, without its value.

    `wants` completes "it must be …"; `kind` says how typed text becomes a value; `near` are words
    to suggest for a mistyped one. `is_per_conversation`: `--here` may set it. `is_fixed`: no chat
    may set it. `holds` says when a change takes effect. `zero_is_no_least`: 0 means no limit, or
    another value.
    """

    key: str
    kind: Kind
    default: Any
    meaning: str
    wants: str
    unit: str
    choices: tuple[str, ...]
    near: tuple[str, ...]
    is_per_conversation: bool
    is_fixed: bool
    holds: str
    zero_is_no_least: bool = False


def _describe(key: str, field: FieldInfo) -> Setting:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    kind, choices = _kind(field), _choices(field)
    return Setting(
        key=key,
        kind=kind,
        default=list(field.default) if kind == "list" else field.default,
        meaning=field.description or "",
        wants=str(extra.get("wants", "")) or _join_choices(choices) or _range(field),
        unit=str(extra.get("unit", "")),
        choices=choices,
        near=_near(extra.get("near")) or choices,
        is_per_conversation=extra.get("here") is True,
        is_fixed=extra.get("fixed") is True,
        holds=str(extra.get("holds", "from the next request on")),
        zero_is_no_least=extra.get("zero_is_no_least") is True,
    )


def _kind(field: FieldInfo) -> Kind:
    if get_origin(field.annotation) is tuple:
        return "list"
    if field.annotation is bool:
        return "flag"
    is_text = field.annotation is str or get_origin(field.annotation) is Literal
    return "text" if is_text else "scalar"


def _choices(field: FieldInfo) -> tuple[str, ...]:
    if field.annotation is bool:
        return ("true", "false")
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else ()


def _near(words: object) -> tuple[str, ...]:
    return tuple(map(str, words)) if isinstance(words, list) else ()


def _join_choices(choices: tuple[str, ...]) -> str:
    return " or ".join(filter(None, (", ".join(choices[:-1]), *choices[-1:])))


def _range(field: FieldInfo) -> str:
    number = "a number" if field.annotation is float else "a whole number"
    highest = next(bound.le for bound in field.metadata if isinstance(bound, Le))
    for bound in field.metadata:
        if isinstance(bound, Gt):
            return f"{number} above {bound.gt} and at most {highest}"
    lowest = next(bound.ge for bound in field.metadata if isinstance(bound, Ge))
    return f"{number} from {lowest} to {highest}"


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _catalogue(model: type[BaseModel], prefix: str = "") -> Iterator[Setting]:
    for name, field in model.model_fields.items():
        section = _section(field)
        if section is None:
            yield _describe(prefix + name, field)
        else:
            yield from _catalogue(section, f"{prefix}{name}.")


_ALL: Mapping[str, Setting] = {setting.key: setting for setting in _catalogue(Settings)}
BRAIN = frozenset(key for key in _ALL if key.startswith("brain."))
"""The settings of a model's endpoint, which only the configuration may set."""
SETTINGS: Mapping[str, Setting] = {key: _ALL[key] for key in _ALL if key not in BRAIN}
SECTIONS = frozenset(key.rpartition(".")[0] for key in SETTINGS if "." in key)


def value_of(settings: Settings, key: str) -> Any:
    """Return the value in force for a key, as JSON has it."""
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name)
    return list(value) if isinstance(value, tuple) else value


def validate(
    values: Mapping[str, Any],
    written: Mapping[str, Any] | None = None,
    named: Callable[[str], str] = str,
) -> Settings:
    """Return the settings with these values, by key; the rest have their defaults.

    Raises SettingError. It quotes from `written` (the values as a person wrote them, if different),
    and names a key, or a place in a list ("hooks[2].condition"), by `named`.
    """
    try:
        return Settings.model_validate(_nest(values))
    except Misfit as misfit:
        faults = misfit.errors(include_url=False)
        lines = [_fault(fault, values if written is None else written, named) for fault in faults]
        raise SettingError("\n".join(dict.fromkeys(lines))) from None


def _nest(values: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        branch = tree
        for section in sections:
            branch = branch.setdefault(section, {})
        branch[name] = value
    return tree


def _fault(fault: Any, written: Mapping[str, Any], named: Callable[[str], str]) -> str:
    key = _key_of(fault["loc"])
    if not key:  # a section's own check of several settings together
        return str(fault["ctx"]["error"])
    error = fault.get("ctx", {}).get("error")
    if isinstance(error, SettingFaults):
        return "\n".join(f"{named(one.name(key))} {one.text}" for one in error.faults)
    setting, value = _ALL[key], written[key]
    if _is_quoted(setting, value):
        return (
            f"{named(key)} is {quote(value)}; it must be {setting.wants}, without quotation marks."
        )
    if near := _nearest(setting, value):
        return f"{named(key)} is {quote(value)}; it must be {setting.wants}; did you mean {near!r}?"
    return f"{named(key)} is {quote(value)}; it must be {setting.wants}."


def _key_of(place: tuple[str | int, ...]) -> str:
    """Return the setting with a fault; the rest of the place are list items, or types that the
    value may have."""
    parts = [part for part in place if isinstance(part, str)]
    keys = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((key for key in keys if key in _ALL), "")


def _is_quoted(setting: Setting, value: Any) -> bool:
    """Return whether a text would be valid for the setting without its quotation marks."""
    if not isinstance(value, str) or setting.kind not in ("flag", "scalar"):
        return False
    wanted = r"true|false" if setting.kind == "flag" else r"(0|[1-9][0-9]{0,8})(\.[0-9]+)?"
    return re.fullmatch(wanted, value.strip("\"' "), re.IGNORECASE) is not None


def _nearest(setting: Setting, value: Any) -> str:
    words = sorted(available_timezones()) if setting.key == "timezone" else setting.near
    return nearest(value, words) if isinstance(value, str) else ""


def dict_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict of pairs. Raises ValueError for a name that occurs twice."""
    once: dict[str, Any] = {}
    for name, value in pairs:
        if name in once:
            raise ValueError(f"it has {quote(name)} twice")
        once[name] = value
    return once


def quote(value: Any) -> str:
    """Return a value for quotation in a sentence: on one line, and shortened."""
    if isinstance(value, str):
        return repr(_shorten(value))
    try:
        text = plain_json(value)
        return _shorten(text.encode("utf-8", "backslashreplace").decode())
    except RecursionError:
        return "a deep nest of brackets"


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…"


def describe_unknown(key: str, where: str = "", known: Collection[str] = ()) -> str:
    """Return the sentence about an unknown key; `where` is the name of a file, "" for the chat, and
    `known` are the valid names there, if they differ."""
    if key in SECTIONS and not where:
        inside = ", ".join(name for name in SETTINGS if name.rpartition(".")[0] == key)
        return f"{key} is a group of settings: {inside}."
    names = known or SETTINGS
    if "quirks" not in key:  # these are many, and would be suggested for other names
        names = [name for name in names if ".quirks." not in name]
    # `base_url` alone is that of the model, and not that of the voice
    near = next((name for name in BRAIN if name in names and name.endswith(f".{key}")), "")
    near = near or nearest(key, names)
    text = f"There is no setting {quote(key)}"
    if where:
        text = f"{where} has an unknown setting {quote(key)}"
    if near:
        return f"{text}; did you mean {near!r}?"
    if SECRET_NAME.search(key):
        return f"{text}; keys and tokens belong in .env."
    return f"{text}." if where else f"{text}; /config lists them."
