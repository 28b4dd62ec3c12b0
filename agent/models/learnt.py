"""The facts about models learnt from refusals, by address and model name: applied to each request,
reported to a person once, and kept over restarts (`memory/record/bot_state.py`). Also a brain's
`quirks`, which override the provider's row in `providers.toml` (`brain.find_provider`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Annotated, Any, Literal

import orjson
from msgspec import Struct
from pydantic import AfterValidator, Field, StringConstraints
from pydantic.config import JsonDict

from agent.models.chat_thoughts import DETAILS, SIGNATURES, TEXT
from agent.models.endpoint import Quirks
from agent.models.shapes import as_mapping, read_json
from memory.setting_notes import FIXED, StrictModel
from memory.tasks import BackgroundTasks


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
        "Maximum size of a request in bytes; 0: unknown.",
        "a whole number from 0 to 1000000000",
    )
    takes_tools: bool | None = _quirk("Offer tools to its models.", "true or false")
    sees: bool | None = _quirk("Show pictures to its models.", "true or false")

    @property
    def given(self) -> Quirks:
        """Return the set values, by name, in the form of an `Endpoint`."""
        values = ((name, getattr(self, name)) for name in type(self).model_fields)
        return tuple((name, value) for name, value in values if value is not None)


MOST_PICTURES = 100
"""The maximum number of refused pictures remembered per model."""
_SMALLEST = frozenset({"bytes", "longest"})
"""Facts of which the smallest value applies: concurrent requests may be refused in any order."""


class Lesson(Struct, frozen=True):
    """A fact about a model, its value, and the sentence for a person ("": none, if it has no
    visible effect)."""

    fact: str
    value: Any
    sentence: str = ""


class ModelFacts:
    """The facts known of one model at one address, which `keeper` keeps; `version` counts them.

    The facts: `tools` and `pictures` (false: it takes none), `system` (false: no system prompt,
    "one": a single one),
    `without` (parameters that are not sent), `thoughts` (the field in which they go back, "none"),
    `thoughts_everywhere` (true: answers have that, too),
    `protocol` (the one that it wants), `bytes` (a request as large as this was refused), `longest`
    (tokens that it may write), `budget` (true: it thinks by a number of tokens), `effort` (false:
    it can't be told how hard), and `refused` (digests of pictures).
    """

    def __init__(
        self,
        facts: Mapping[str, Any] | None = None,
        keeper: LearntModels | None = None,
        place: tuple[str, str] = ("", ""),
    ) -> None:
        self.facts: dict[str, Any] = dict(facts or {})
        self._keeper, self._place = keeper, place
        self.version = 0
        self._untold: list[str] = []

    def learn(self, lesson: Lesson) -> bool:
        """Store a lesson; return whether it is new."""
        known = self.facts.get(lesson.fact)
        value = lesson.value
        if isinstance(value, list):
            value = [*dict.fromkeys([*(known or ()), *value])][-MOST_PICTURES:]
        elif lesson.fact in _SMALLEST and known:
            value = min(known, value)
        if known == value:
            return False
        self.facts[lesson.fact] = value
        self.version += 1
        if lesson.sentence:
            self._untold.append(lesson.sentence)
        self._keep()
        return True

    async def kept(self) -> None:
        """Wait until all facts are stored, so that they survive a crash."""
        if self._keeper is not None:
            await self._keeper.close()

    def _keep(self) -> None:
        if self._keeper is not None:
            self._keeper.notify(*self._place, self.facts)

    def forget(self) -> bool:
        """Forget all facts; return whether there were any."""
        was_known = bool(self.facts)
        self.facts.clear()
        self._untold.clear()
        if was_known:
            self._keep()
        return was_known

    def take_unreported(self) -> list[str]:
        """Return the sentences that were not reported yet; each is returned once."""
        untold, self._untold = self._untold, []
        return untold

    @property
    def unwanted(self) -> frozenset[str]:
        """The parameters that are left out."""
        return frozenset(self.facts.get("without", ()))

    def number(self, fact: str) -> int:
        """Return a numeric fact; 0 if it is unknown."""
        value = self.facts.get(fact)
        return value if isinstance(value, int) else 0

    def describe(self) -> list[str]:
        """Return the known facts, in short sentences for `/model` and `doctor`."""
        described = (
            _SENTENCES[name](value) for name, value in self.facts.items() if name in _SENTENCES
        )
        return [sentence for sentence in described if sentence]


_SENTENCES: Mapping[str, Callable[[Any], str]] = {
    "tools": lambda value: "It takes no tools." * (value is False),
    "pictures": lambda value: "It takes no pictures." * (value is False),
    "system": lambda value: (
        "The system prompt goes with the first message."
        if value is False
        else "It takes one system message."
    ),
    "without": lambda value: f"Not sent: {', '.join(map(str, value))}.",
    "thoughts": lambda value: (
        "Its reasoning is not sent back."
        if value == "none"
        else f"Its reasoning is sent back ({value})."
    ),
    "thoughts_everywhere": lambda value: "Its answers have a field for reasoning, too.",
    "protocol": lambda value: "It uses the Responses API.",
    "bytes": lambda value: f"Requests stay below {int(value) // 1000:,} kB.",
    "longest": lambda value: f"An answer has at most {int(value):,} tokens.",
    "budget": lambda value: "It reasons by a number of tokens.",
    "effort": lambda value: "It has no setting for its reasoning effort." * (value is False),
    "refused": lambda value: f"Pictures that it refused: {len(value)}.",
}


class LearntModels:
    """The facts of all models. `keep` is called with the address, the model's name and all its
    facts, as JSON ("": they were forgotten)."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], ModelFacts] = {}
        self._keeping = BackgroundTasks()
        self.keep: Callable[[str, str, str], Coroutine[Any, Any, None]] = _store_nothing

    async def close(self) -> None:
        """Wait until all facts are stored."""
        await self._keeping.idle()

    def load(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Load stored facts: addresses, names, facts as JSON; unreadable ones are skipped."""
        for place, model, text in rows:
            self.of(place, model).facts.update(read_facts(text))

    def of(self, place: str, model: str) -> ModelFacts:
        """Return the facts of a model at an address, which grow with each lesson."""
        if (place, model) not in self._known:
            self._known[place, model] = ModelFacts(keeper=self, place=(place, model))
        return self._known[place, model]

    def notify(self, place: str, model: str, facts: Mapping[str, Any]) -> None:
        """Have all facts of a model kept."""
        self._keeping.start(self.keep(place, model, orjson.dumps(facts).decode() if facts else ""))


async def _store_nothing(place: str, model: str, facts: str) -> None:
    """Store nothing: the facts end with the process."""


def read_facts(text: str) -> dict[str, Any]:
    """Return the facts in a stored text; none if it is unreadable."""
    return dict(as_mapping(read_json(text)))
