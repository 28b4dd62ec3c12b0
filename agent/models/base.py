"""The contract of a model, and the errors that one may raise.

The ends of an answer: a closed set of meanings for the many words that providers have for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from memory.messages import NOTHING_BESIDE, RequestExtras, ToolCall
from memory.patterns import lazy

Finish = Literal["complete", "tools", "length", "filtered", "refused", "interrupted", "unknown"]
"""complete: the model ended by itself; tools: it waits for results; length: a limit cut it off;
filtered: the provider's filter did; refused: the model would not answer; interrupted: its server
failed, or the answer broke off; unknown: a reason that nobody here knows."""

# OpenAI's words first, then Anthropic's, Gemini's, and those of servers that users have met
# (reports of openclaw, litellm and others).
_WORDS: dict[Finish, str] = {
    "complete": "stop end_turn stop_sequence eos eos_token stop_token completed complete "
    "finish finished normal done",
    "tools": "tool_calls tool_call tool_use function_call",
    "length": "length incomplete max_tokens max_output_tokens max_completion_tokens model_length "
    "max_length token_limit context_length model_context_window_exceeded",
    "filtered": "content_filter content_filtered sensitive safety recitation blocklist "
    "prohibited_content spii language image_safety guardrail_intervened",
    "refused": "refusal refused",
    "interrupted": "error network_error insufficient_system_resource abort aborted cancelled "
    "canceled interrupted timeout server_error failed pause_turn malformed_function_call "
    "unexpected_tool_call malformed_response",
}
_LONGEST = 100  # characters of a word
_MEANINGS: dict[str, Finish] = {
    word: meaning for meaning, words in _WORDS.items() for word in words.split()
}


_STEMS: tuple[tuple[Finish, str], ...] = (
    ("interrupted", r"time_?(?:out|limit)|unexpected|malformed|too_many_tool"),
    ("filtered", r"filter|safety|moderat|polic|block|sensitive|flag|toxic|prohibit|inspect|risk"),
    ("refused", r"refus|declin"),
    ("length", r"token|length|limit|truncat|context|too_long|budget"),
    (
        "interrupted",
        "error|fail|abort|cancel|interrupt|overload|disconnect|preempt|shutdown|resource|evict",
    ),
    ("tools", r"tool|function"),
    ("complete", r"stop|\Aeos|\Aend|finish|complet|done"),
)
"""The part that words of other servers have in common with these, the first that fits."""
_PREFIX = lazy(r"finish_?reason[._]")
_HUMP = lazy(r"(?<=[a-z])(?=[A-Z])|[-\s]")


def read_finish(reason: str, *, has_calls: bool = False) -> Finish:
    """Return what a provider's word means; "" is an end of which nothing was said. Where calls
    came, an answer that ended well waits for their results, whatever the word."""
    meaning = _read_word(reason.strip()) if reason.strip() else "complete"
    if has_calls:
        return "tools" if meaning in ("complete", "unknown") else meaning
    return "complete" if meaning == "tools" else meaning


def _read_word(reason: str) -> Finish:
    word = _PREFIX.sub("", _HUMP.sub("_", reason[:_LONGEST]).lower())
    if meaning := _MEANINGS.get(word) or _MEANINGS.get(reason.lower()):
        return meaning
    return next((fits for fits, stems in _STEMS if re.search(stems, word)), "unknown")


class Usage(Struct, frozen=True):
    """Tokens that the provider counted. `cached` is the part of `prompt` that it had kept,
    `written` the part that it keeps from now on, where that has a price of its own; `reasoning` the
    part of `completion` that was thought and not said."""

    prompt: int
    completion: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0

    def filled(self, counted: Usage) -> Usage:
        """Return the same with what was counted here in the place of what was not reported."""
        has_prompt = self.prompt or self.cached or self.written
        prompt = self.prompt if has_prompt else counted.prompt
        return replace(self, prompt=prompt, completion=self.completion or counted.completion)


OnLost = Callable[["ModelReply"], None]
"""Called with as much of an answer as there was when it came to nothing."""


def _unheard(reply: ModelReply) -> None:
    """Nobody keeps the books."""


OnSent = Callable[[Mapping[str, Any], bytes], None]
"""Called with a request's body and its bytes as they go out, each time that another one does."""


def unseen(body: Mapping[str, Any], content: bytes) -> None:
    """Nobody looks."""


def _unthought(text: str) -> None:
    """Nobody follows what the model thinks."""


class ModelRequest(Struct, frozen=True):
    """A request: wire messages (the system prompt first), tool schemas as they are sent.

    `schema` asks for an answer that fits a JSON Schema; `max_tokens` 0 leaves the length open.
    `parameters` are a client's, sent on as they stand; a client that sends some (None: nobody)
    takes an empty answer, too, and its reason. `beside` is what the messages' shape has no place
    for; `is_once` says that nothing of them will be sent again; `affinity` is the same for all
    requests of a conversation, and tells nothing of whose it is ("": it is in none). `is_hasty`:
    another model would answer, so that nobody waits until this one is well again. `is_told`: a
    person reads the answer, and what was learnt about the model. `on_lost` is called with what is
    known of an answer that came to nothing and is paid all the same: it broke off, or the one who
    asked has left. `on_sent` is called with what goes out over the wire, `on_thought` with each
    piece of what the model thinks as it streams.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    max_tokens: int = 0
    temperature: float | None = None
    schema: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    beside: RequestExtras = NOTHING_BESIDE
    is_once: bool = False
    affinity: str = ""
    is_hasty: bool = False
    is_told: bool = False
    on_lost: OnLost = _unheard
    on_sent: OnSent = unseen
    on_thought: Callable[[str], None] = _unthought

    def within(self, temperature: float | None, max_tokens: int) -> ModelRequest:
        """Return this request with the values that are set for all requests (None, 0: none is),
        where it has none of its own; the shorter length holds."""
        lengths = [length for length in (self.max_tokens, max_tokens) if length]
        own = temperature if self.temperature is None else self.temperature
        most = min(lengths, default=0)
        if (most, own) == (self.max_tokens, self.temperature):
            return self
        return replace(self, max_tokens=most, temperature=own)


class SamplingParams(Struct, frozen=True):
    """The wishes of a client of OpenAI's protocol: what any request may ask for, and `parameters`
    of the protocol that are sent on as they stand (`stop`, `seed`)."""

    max_tokens: int = 0
    temperature: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def of(self, request: ModelRequest) -> ModelRequest:
        """Return the request as it is wanted."""
        return replace(
            request,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            parameters=self.parameters,
        )


class ModelReply(Struct, frozen=True):
    """A reply. `finish` says how it ended; `is_bounded`, that more came than is kept; `usage` is
    None where the provider reports none; `model` is the name that prices go by; `thoughts` is what
    of it the provider wants back as it came, with the calls (`Message.thoughts`); `by` is the model
    that answered instead of the one that was asked (None: that one answered). `notices` are
    sentences for the person, of what was learnt about the model. `is_thought`: all of the text came
    as a thought; as an answer it is better than none, as anything else it is none."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish: Finish
    model: str
    usage: Usage | None = None
    reasoning: str = ""
    thoughts: str = ""
    by: Model | None = None
    is_bounded: bool = False
    notices: tuple[str, ...] = ()
    is_thought: bool = False

    @property
    def is_counted(self) -> bool:
        """Return whether the provider reported what was used: of zeros, nobody has counted
        anything."""
        used = self.usage
        if used is None or not (used.prompt or used.cached or used.written):
            return False
        return bool(used.completion) or not self.written

    @property
    def written(self) -> str:
        """All that the model wrote, for who counts it where the provider did not."""
        calls = (f"{call.name}{call.arguments}" for call in self.tool_calls)
        return "\n".join(filter(None, (self.reasoning, self.text, *calls)))


OnDelta = Callable[[str], None]
"""Called with each piece of text as it streams, from the event loop."""


class ModelCall(Struct, frozen=True):
    """A request to a model that has ended, after so many `seconds`, of which it took `first` until
    a piece of the answer came (None: none did). `error` says what went wrong (None: nothing);
    `is_stopped`, that nobody waited for the answer any more."""

    model: str
    provider: str
    seconds: float
    first: float | None = None
    error: ModelError | None = None
    is_stopped: bool = False


OnCalled = Callable[[ModelCall], None]


def uncalled(call: ModelCall) -> None:
    """Nobody wants to know how long requests take."""


class Model(Protocol):
    """Something that answers requests.

    `window` is its context window in tokens (0: unknown); `provider` who serves it, by name or
    address, since one name means other windows and prices elsewhere; `takes_tools` whether tools
    are worth sending, `sees` whether pictures are; `is_free` whether its calls cost nothing, as
    they do where it runs on this machine.
    Cancelling `reply` ends the request on the wire, retries included. However a request ends that
    may be paid, the caller learns of it: by the reply, or by the request's `on_lost`.
    """

    @property
    def name(self) -> str: ...

    @property
    def window(self) -> int: ...

    @property
    def provider(self) -> str:
        return ""

    @property
    def revision(self) -> int:
        """Return a number that changes when name or window do."""
        return 0

    @property
    def takes_tools(self) -> bool: ...

    @property
    def sees(self) -> bool: ...

    @property
    def is_free(self) -> bool: ...

    async def ready(self) -> None:
        """Learn what only its server knows (`window`), where that may be; awaited before a turn,
        never long, and never failing."""
        return None  # noqa: RET501 - a method that only has a docstring would be abstract

    @property
    def is_up(self) -> bool:
        """Return whether the model itself is asked next, and none that stands in."""
        return True

    @property
    def caches_by_itself(self) -> bool:
        """Return whether a provider that caches has the beginning of any request at hand that it
        has read lately, up to wherever another one begins with the same."""
        return False

    @property
    def counts(self) -> bool:
        """Return whether it can say how long a request is without answering it."""
        return False

    async def count(self, request: ModelRequest) -> int:
        """Return how many tokens a request has; 0 where it does not say. Never long, and never
        failing."""
        return 0

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """Answer, streaming text to `on_delta`. Raises only `ModelError`s."""
        ...

    async def close(self) -> None: ...


def _of_inner(name: str) -> Any:
    return property(lambda self: getattr(self.inner, name))


class ModelInFront(Model):
    """A model in front of another one: what it does not say itself, `inner` says."""

    inner: Model
    name, window, provider = _of_inner("name"), _of_inner("window"), _of_inner("provider")
    revision, takes_tools, sees = _of_inner("revision"), _of_inner("takes_tools"), _of_inner("sees")
    is_free, is_up, counts = _of_inner("is_free"), _of_inner("is_up"), _of_inner("counts")
    caches_by_itself = _of_inner("caches_by_itself")

    async def count(self, request: ModelRequest) -> int:
        return await self.inner.count(request)

    async def ready(self) -> None:
        await self.inner.ready()


class ModelError(Exception):
    """A request failed. The text is a plain sentence for the person: what happened, what to do.

    `is_worth_another_model` says whether the next model of the fallback list should be asked;
    `status` is the endpoint's HTTP status (0: it gave none), and `retry_after` the seconds after
    which it wants to be asked again (0: it did not say). `detail` is what the endpoint said of it,
    in its own words ("": nothing), without the key; `sent` the bytes of the request.
    """

    is_worth_another_model = True
    status = 0
    retry_after = 0
    detail = ""
    sent = 0
    window = 0
    is_of_stand_in = False


class ContextOverflow(ModelError):
    """The provider says that the request is longer than the model's window.

    `window` is the size that it named, 0 where it named none; `room` the tokens that it has left
    for an answer, where a shorter one would fit. `is_of_stand_in`: it says nothing of the model
    that was asked, for which another one stood in.
    """

    is_worth_another_model = False

    def __init__(self, sentence: str, window: int = 0, room: int = 0) -> None:
        super().__init__(sentence)
        self.window, self.room = window, room


class ModelRefused(ModelError):
    """The key, the quota or the request was refused: asking again would change nothing."""


class UnexplainedRefusal(ModelRefused):
    """The request was refused in words that nobody understands: it may have been too long."""


class WantsResponses(ModelRefused):
    """The model is served by OpenAI's Responses API alone."""


class AccountRefused(ModelRefused):
    """The key was refused, or nothing is left on the account: only the bot's owner can mend it."""


class ModelUnlisted(ModelError):
    """The endpoint has no list of its models."""


class ModelUnreachable(ModelError):
    """No connection, a time-out, or a server that fails, after all retries."""


class ModelSilent(ModelUnreachable):
    """The endpoint sent nothing for too long."""


class ModelAnswerBroken(ModelError):
    """An answer came that is none: it broke off, was empty, or was not the chat protocol.

    `text` is what had streamed until then.
    """

    def __init__(self, sentence: str, text: str = "") -> None:
        super().__init__(sentence)
        self.text = text


class ModelAnswerTooLong(ModelError):
    """More came than is ever read, before there was an answer; it would come again."""
