"""A hook rule with its actions, and how what is written in the configuration becomes rules, or what
is wrong with it.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from memory.compactor import COOLDOWN
from memory.context.settings import Limits
from memory.events import EventName
from plugins.features import Fault, SettingFaults
from plugins.rules.conditions import Always, Condition, ContextPressure, Strict, spell_out

Place = tuple[str | int, ...]

_TYPED = ("condition", "action")


class RuleFaults(SettingFaults):
    """Rules that are invalid."""

    SETTING: ClassVar[str] = "hooks"


def faults_of(error: ValidationError, rule: type[BaseModel]) -> list[Fault]:
    """Return a fault for each error that pydantic found in a list of rules."""
    fields = dict(_models(rule))
    found = error.errors(include_url=False)
    # A list whose items are all invalid is reported as too short as well.
    return [_fault(f, fields) for f in found if f["type"] != "too_short" or not f["input"]]


def _models(model: type[BaseModel]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield ("", fields of a rule), and (type, fields) of each condition and action; the fields are
    by all names under which they may be written."""
    yield "", _names(model)
    for field in ("condition", "action"):
        for kind in members(model.model_fields[field].annotation):
            (name,) = get_args(kind.model_fields["type"].annotation)
            yield name, _names(kind)


def _names(model: type[BaseModel]) -> dict[str, str]:
    names = {name: name for name in model.model_fields}
    for name, field in model.model_fields.items():
        if isinstance(field.validation_alias, AliasChoices):
            names |= {str(alias): name for alias in field.validation_alias.choices}
    return names


def members(union: Any) -> Iterator[type[BaseModel]]:
    for part in get_args(union):
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield part
        else:
            yield from members(part)


def _fault(found: Any, fields: Mapping[str, Mapping[str, str]]) -> Fault:
    place, kind = _place(found["loc"])
    written, about = found["input"], found.get("ctx", {})
    match found["type"]:
        case "extra_forbidden" if same := fields[kind].get(str(place[-1])):
            return Fault(place, f"is the same as {same}; write only one of them.")
        case "extra_forbidden":
            return Fault(place, f"is not known{_suggest(place[-1], fields[kind])}")
        case "missing":
            return Fault(place[:-1], f"has no {place[-1]}; add it.")
        case "union_tag_invalid":
            types = [name.strip(" '") for name in about["expected_tags"].split(",")]
            return Fault(place, f"has the type {about['tag']!r}{_suggest(about['tag'], types)}")
        case "union_tag_not_found" | "model_type" | "model_attributes_type" | "dict_type":
            return Fault(place, f"is {quote(written)}; it needs fields, first of all a type.")
        case "literal_error":
            words = [word for word in _words(about["expected"]) if word]
            return Fault(place, f"is {quote(written)}{_suggest(written, words)}")
        case "value_error":
            return Fault(place, f"{about['error']}.")
    reason = found["msg"][:1].lower() + found["msg"][1:]
    return Fault(place, f"is {quote(written)}; {reason.replace('input should', 'it should')}.")


def _place(loc: Place) -> tuple[Place, str]:
    """Return the place of an error as a person sees it, without pydantic's types in between, and
    the last of these types."""
    place: list[str | int] = []
    kind, is_typed = "", False
    for part in loc:
        if is_typed and isinstance(part, str):
            kind, is_typed = part, False
            continue
        place.append(" ".join(part.split()) if isinstance(part, str) else part)
        is_typed = part in _TYPED if isinstance(part, str) else len(place) > 1
    return tuple(place), kind


def _words(expected: str) -> list[str]:
    """Return ["a", "b", "c"] for "'a', 'b' or 'c'"."""
    return expected.replace(" or ", ", ").replace("'", "").split(", ")


def _suggest(word: Any, words: Collection[str]) -> str:
    """Return the end of a sentence about a word that is not one of these."""
    near = difflib.get_close_matches(str(word)[:100].lower(), words, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; it must be one of {', '.join(words)}."


def quote(value: Any) -> str:
    """Return a written value on one line, truncated."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"


LONGEST = 10_000
"""The maximum length of a rule's text in characters."""


class CompactContext(Strict):
    """An action that compacts the context, with the current settings for omitted fields."""

    type: Literal["compact_context"] = "compact_context"
    strategy: Literal["", "truncate", "summarize"] = ""
    keep_recent: int = Field(
        default=0, ge=0, le=1_000, validation_alias=AliasChoices("keep_recent", "keep_last")
    )
    summary_max_tokens: int = Field(default=0, ge=0, le=100_000)


class InjectMessage(Strict):
    """An action that adds a text for the model, which reads it at its next step."""

    type: Literal["inject_message"] = "inject_message"
    content: str = Field(min_length=1, max_length=LONGEST)


class LogAction(Strict):
    """An action that writes a line to the bot's log."""

    type: Literal["log"] = "log"
    message: str = Field(min_length=1, max_length=LONGEST)
    level: Literal["debug", "info", "warning", "error"] = "info"


class Notify(Strict):
    """An action that shows a text to the person, outside of the conversation."""

    type: Literal["notify"] = "notify"
    message: str = Field(min_length=1, max_length=LONGEST)


Action = Annotated[
    Annotated[CompactContext | InjectMessage | LogAction | Notify, Field(discriminator="type")],
    BeforeValidator(spell_out),
]


AUTO_COMPACT = "_auto_compact"
MOST_RULES = 200
DEEPEST = 20
"""The maximum nesting of lists and mappings; six are enough for two `not` in an `all_of`."""


class Rule(Strict):
    """A hook rule: an event, a condition and an action. Times are in seconds.

    `cooldown` is the minimum time between two actions in a conversation, `max_fires` the maximum
    number of actions there until the bot stops (0: no limit), `timeout` the maximum time of one
    action. Lower priorities come first, equal ones in the order of the configuration.
    """

    id: str = Field(min_length=1, max_length=100)
    on: EventName
    condition: Condition = Always()
    action: Action
    cooldown: float = Field(default=0.0, ge=0)
    max_fires: int = Field(default=0, ge=0)
    priority: int = 100
    enabled: bool = True
    timeout: float = Field(default=60.0, gt=0, le=3_600)

    @model_validator(mode="before")
    @classmethod
    def _on_is_a_word(cls, value: Any) -> Any:
        """Rename the key True to "on": YAML 1.1 reads a bare `on` as true, even as a field's
        name."""
        if isinstance(value, dict) and True in value and "on" not in value:
            return {"on" if name is True else name: inside for name, inside in value.items()}
        return value

    @model_validator(mode="after")
    def _check_no_recursion(self) -> Self:
        if self.on == "pre_compact" and isinstance(self.action, CompactContext):
            raise ValueError("compacts before every compaction, which would never end")
        return self


_RULES: TypeAdapter[tuple[Rule, ...]] = TypeAdapter(tuple[Rule, ...])


def parse(written: Any) -> tuple[Rule, ...]:
    """Return the rules of a list in the configuration. Raises RuleFaults."""
    if not isinstance(written, list | tuple):
        raise RuleFaults([Fault((), "must be a list of rules, each with an id, on and action.")])
    if len(written) > MOST_RULES:
        raise RuleFaults([Fault((), f"has {len(written)} rules; {MOST_RULES} are the most.")])
    if deep := [i for i, rule in enumerate(written) if _is_deeper(rule, DEEPEST)]:
        raise RuleFaults([Fault((i,), "is nested too deeply; make it flatter.") for i in deep])
    try:
        rules = _RULES.validate_python(tuple(written))
    except ValidationError as error:
        raise RuleFaults(faults_of(error, Rule)) from None
    if twice := _duplicate_fault(rules):
        raise RuleFaults(twice)
    return rules


def _is_deeper(value: Any, most: int) -> bool:
    """Return whether lists and mappings are nested deeper than this."""
    layer = [value]
    for _ in range(most):
        layer = list(chain.from_iterable(map(_inside, layer)))
    return bool(layer)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _duplicate_fault(rules: tuple[Rule, ...]) -> list[Fault]:
    ids = [rule.id for rule in rules]
    return [
        Fault((i, "id"), f"is {name!r}, which an earlier rule already has; give each its own.")
        for i, name in enumerate(ids)
        if name in ids[:i]
    ]


def find_compacting(rules: Iterable[Rule]) -> tuple[str, ...]:
    """Return the ids of the rules that compact; if there is one, the built-in rule is not added."""
    return tuple(r.id for r in rules if r.enabled and isinstance(r.action, CompactContext))


def auto_compact(limits: Limits) -> Rule:
    """Return the rule that `truncate` and `summarize` apply at the beginning of a turn if no other
    rule compacts, as in Digitorn's document; here it is part of the strategies
    (`memory/compactor.py`)."""
    return Rule(
        id=AUTO_COMPACT,
        on="turn_start",
        condition=ContextPressure(threshold=limits.context.compression_trigger),
        action=CompactContext(
            strategy="truncate" if limits.strategy == "truncate" else "summarize",
            keep_recent=limits.context.keep_recent,
            summary_max_tokens=limits.context.summary_max_tokens,
        ),
        cooldown=COOLDOWN,
    )
