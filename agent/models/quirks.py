"""The differences of a provider in the configuration: a brain's `quirks`, which override the
provider's row in `providers.toml` (`providers.find_provider`)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, Field, StringConstraints
from pydantic.config import JsonDict

from agent.models.chat_thoughts import DETAILS, SIGNATURES, TEXT
from agent.models.endpoint import Quirks
from memory.setting_notes import FIXED, StrictModel


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        raise ValueError("no regular expression") from None
    return pattern


_Pattern = Annotated[
    str, StringConstraints(pattern=r"^\P{C}*$", max_length=1_000), AfterValidator(_check_pattern)
]
_Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]*$", max_length=100)]
_NEEDED = ("model", "messages", "input", "protocol")
"""Required parameters of a request, and a key of the body under construction."""


def _check_parameter(name: str) -> str:
    if name in _NEEDED:
        raise ValueError("no request can do without it")
    return name


_Parameter = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=100),
    AfterValidator(_check_parameter),
]


def _check_object(text: str) -> str:
    try:
        value = orjson.loads(text or "{}")
    except ValueError:
        value = None
    if not isinstance(value, dict) or not value.keys().isdisjoint(_NEEDED):
        raise ValueError("no object of parameters")
    return text


_JsonObject = Annotated[str, StringConstraints(max_length=2_000), AfterValidator(_check_object)]
_LEAST_PATH = 2  # a place of the API, and a name in its response


def _check_window(path: tuple[str, ...]) -> tuple[str, ...]:
    if path and (len(path) < _LEAST_PATH or not path[0].startswith("/")):
        raise ValueError("no place and path")
    return path


_Step = Annotated[str, StringConstraints(pattern=r"^[^\s\p{C}]+$", max_length=200)]
_WindowPath = Annotated[
    tuple[_Step, ...], Field(strict=False, max_length=10), AfterValidator(_check_window)
]


def _quirk(description: str, wants: str) -> Any:
    extra: JsonDict = {"wants": f"null, or {wants}", **FIXED}
    return Field(default=None, description=description, json_schema_extra=extra)


class ProviderQuirks(StrictModel):
    """The group `quirks` of a brain: the differences of its provider, by their names in
    `agent/models/providers.toml`. null keeps the known value."""

    local: bool | None = _quirk(
        "It runs on a machine of your own: its models cost nothing.", "true or false"
    )
    lists: bool | None = _quirk("It can list its models.", "true or false")
    prefix: Annotated[str, StringConstraints(pattern=r"^\P{C}*$", max_length=100)] | None = _quirk(
        "A prefix of each name in its list of models; it may be left out.", "any text"
    )
    hides: _Pattern | None = _quirk(
        "Names in that list that are not chat models.", "a regular expression"
    )
    window: _WindowPath | None = _quirk(
        "Source of a model's window: a path of its API, and the path to the figure in the answer; "
        "`data` is a list, in which the model's own entry counts.",
        'a list such as ["/models", "data", "context_length"]',
    )
    cache_key: _Word | None = _quirk(
        "Place of the conversation's id in a request: `body` as `prompt_cache_key`, or the name "
        "of a header; empty: none.",
        "body, or a header's name",
    )
    call_ids: Annotated[int, Field(ge=0, le=40)] | None = _quirk(
        "Number of letters and digits in the id of a tool call; 0: at most 40 characters "
        "of any kind.",
        "a whole number from 0 to 40",
    )
    thoughts: Literal["", "reasoning_content", "reasoning_details", "extra_content"] | None = (
        _quirk(
            "The field in which a model's thoughts go back with its calls; empty: they do not.",
            f"one of {TEXT}, {DETAILS}, {SIGNATURES}, or empty",
        )
    )
    responses: _Pattern | None = _quirk(
        "Names of models that are asked by the Responses API.", "a regular expression"
    )
    without: Annotated[tuple[_Parameter, ...], Field(strict=False, max_length=50)] | None = _quirk(
        "Parameters of a request that are never sent.", "a list of parameters"
    )
    extra: _JsonObject | None = _quirk(
        "Parameters that are sent with each request.", 'a text such as {"reasoning_split": true}'
    )
    empty_content: bool | None = _quirk(
        'Give a message that only calls tools the content "", and not null.',
        "true or false",
    )
    max_tokens: Annotated[str, StringConstraints(pattern=r"^[a-z_]{0,100}$")] | None = _quirk(
        "The parameter that says how long a reply may be, where it is not `max_tokens`.",
        "a parameter such as max_completion_tokens",
    )
    largest_body: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = _quirk(
        "The most bytes that a request may have; 0: nobody knows.",
        "a whole number from 0 to 1000000000",
    )
    takes_tools: bool | None = _quirk("Offer tools to its models.", "true or false")
    sees: bool | None = _quirk("Show pictures to its models.", "true or false")

    @property
    def given(self) -> Quirks:
        """Return the set values, by name, in the form of an `Endpoint`."""
        values = ((name, getattr(self, name)) for name in type(self).model_fields)
        return tuple((name, value) for name, value in values if value is not None)
