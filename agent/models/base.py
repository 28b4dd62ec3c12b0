"""The contract of a model, and its errors.

Also the finish reasons of an answer: a closed set of meanings for the providers' many words.
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
"""complete: the model ended by itself; tools: it waits for results; length: a limit truncated it;
filtered: the provider's filter did; refused: the model would not answer; interrupted: its server
failed, or the answer broke off; unknown: an unrecognised reason."""

# OpenAI's words first, then Anthropic's, Gemini's, and those of other servers (reports of openclaw,
# litellm and others).
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
"""Common stems of other servers' words; the first match counts."""
_PREFIX = lazy(r"finish_?reason[._]")
_HUMP = lazy(r"(?<=[a-z])(?=[A-Z])|[-\s]")


def read_finish(reason: str, *, has_calls: bool = False) -> Finish:
    """Return the meaning of a provider's word; "" is an end without a reason. If there are calls,
    an answer that ended well waits for their results, whatever the word."""
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
    """Tokens that the provider counted. `cached` is the part of `prompt` read from its cache,
    `written` the part newly cached, if that has its own price; `reasoning` is the reasoning part of
    `completion`."""

    prompt: int
    completion: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0

    def filled(self, counted: Usage) -> Usage:
        """Return the usage with unreported figures replaced by those in `counted`."""
        has_prompt = self.prompt or self.cached or self.written
        prompt = self.prompt if has_prompt else counted.prompt
        return replace(self, prompt=prompt, completion=self.completion or counted.completion)


OnLost = Callable[["ModelReply"], None]
"""Called with the partial answer when a request fails."""


def _ignore(reply: ModelReply) -> None:
    """Ignore the reply."""


OnSent = Callable[[Mapping[str, Any], bytes], None]
"""Called with a request's body and its bytes when it is sent, once per distinct body."""


def unseen(body: Mapping[str, Any], content: bytes) -> None:
    """Ignore the request."""


def _ignore_thought(text: str) -> None:
    """Ignore the thought."""


class ModelRequest(Struct, frozen=True):
    """A request: wire messages (the system prompt first), and tool schemas as they are sent.

    `schema` requests an answer that fits a JSON Schema; `max_tokens` 0 sets no limit. `parameters`
    are a client's, forwarded unchanged; a client with parameters (None: no client) also accepts an
    empty answer with its reason. `beside` is the data that the messages' shape has no place for;
    `is_once` says that the messages will not be sent again; `affinity` is the same for all requests
    of a conversation, and does not identify it ("": no conversation). `is_hasty`: a fallback model
    exists, so a failing server is not waited for. `is_told`: a person reads the answer, and notices
    about the model. `on_lost` is called with an answer that failed and is paid all the same: it
    broke off, or its caller left. `on_sent` is called with the data sent over the wire,
    `on_thought` with each streamed piece of reasoning.
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
    on_lost: OnLost = _ignore
    on_sent: OnSent = unseen
    on_thought: Callable[[str], None] = _ignore_thought

    def within(self, temperature: float | None, max_tokens: int) -> ModelRequest:
        """Return this request with the general values (None, 0: none) where it has none of its own;
        the shorter length applies."""
        lengths = [length for length in (self.max_tokens, max_tokens) if length]
        own = temperature if self.temperature is None else self.temperature
        most = min(lengths, default=0)
        if (most, own) == (self.max_tokens, self.temperature):
            return self
        return replace(self, max_tokens=most, temperature=own)


class SamplingParams(Struct, frozen=True):
    """The parameters of a client of OpenAI's protocol: those that any request may have, and
    `parameters` of the protocol that are forwarded unchanged (`stop`, `seed`)."""

    max_tokens: int = 0
    temperature: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def of(self, request: ModelRequest) -> ModelRequest:
        """Return the request with these parameters."""
        return replace(
            request,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            parameters=self.parameters,
        )


class ModelReply(Struct, frozen=True):
    """A reply. `finish` is its finish reason; `is_bounded` says that more came than is kept;
    `usage` is None if the provider reports none; `model` is the name for prices; `thoughts` is the
    data that the provider wants back unchanged, with the calls (`Message.thoughts`); `by` is the
    fallback model that answered (None: the requested one). `notices` are sentences for the person
    on newly learnt facts about the model. `is_thought`: all of the text came as a thought; it is
    accepted as an answer, but not as anything else."""

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
        """Return whether the provider reported the usage: zeros are not a report."""
        used = self.usage
        if used is None or not (used.prompt or used.cached or used.written):
            return False
        return bool(used.completion) or not self.written

    @property
    def written(self) -> str:
        """All text that the model wrote, to count it if the provider did not."""
        calls = (f"{call.name}{call.arguments}" for call in self.tool_calls)
        return "\n".join(filter(None, (self.reasoning, self.text, *calls)))


OnDelta = Callable[[str], None]
"""Called with each piece of text as it streams, from the event loop."""


class ModelCall(Struct, frozen=True):
    """A finished request to a model: its duration in `seconds`, and the time until the `first`
    piece of the answer (None: there was none). `error` is the failure (None: none); `is_stopped`
    says that the caller no longer waited."""

    model: str
    provider: str
    seconds: float
    first: float | None = None
    error: ModelError | None = None
    is_stopped: bool = False


OnCalled = Callable[[ModelCall], None]


def uncalled(call: ModelCall) -> None:
    """Ignore the call."""


class Model(Protocol):
    """A model that answers requests.

    `window` is its context window in tokens (0: unknown). `provider` is its server, by name or
    address, since the same name may have other windows and prices elsewhere. `takes_tools` says
    whether tools are worth sending, `sees` whether pictures are. `is_free`: its calls cost nothing,
    as on this machine.

    Cancelling `reply` ends the request on the wire, retries included. Every request that may be
    paid is reported to the caller: by the reply, or by the request's `on_lost`.
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
        """Learn facts that only its server knows (`window`); awaited before a turn, brief, and
        never failing."""
        return None  # noqa: RET501 - a method that only has a docstring would be abstract

    @property
    def is_up(self) -> bool:
        """Return whether the model itself is asked next, and not a fallback."""
        return True

    @property
    def caches_by_itself(self) -> bool:
        """Return whether its provider caches the beginning of each recent request automatically, up
        to the point where another request differs."""
        return False

    @property
    def counts(self) -> bool:
        """Return whether it can count a request's tokens without answering it."""
        return False

    async def count(self, request: ModelRequest) -> int:
        """Return the number of tokens of a request; 0 if unknown. Brief, and never failing."""
        return 0

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """Answer, streaming text to `on_delta`. Raises only `ModelError`s."""
        ...

    async def close(self) -> None: ...


def _of_inner(name: str) -> Any:
    return property(lambda self: getattr(self.inner, name))


class ModelWrapper(Model):
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
    """Raised if a request failed. The text is a plain sentence for the person: what happened, what
    to do.

    `is_worth_another_model` says whether to ask the next fallback model; `status` is the endpoint's
    HTTP status (0: none); `retry_after` is its requested wait in seconds (0: none). `detail` is the
    endpoint's own message ("": none), without the key; `sent` is the number of bytes of the
    request.
    """

    is_worth_another_model = True
    status = 0
    retry_after = 0
    detail = ""
    sent = 0
    window = 0
    is_of_fallback = False


class ContextOverflow(ModelError):
    """Raised if the provider says that the request is longer than the model's window.

    `window` is the size that it named, or 0; `room` is the number of tokens left for an answer, if
    a shorter one would fit. `is_of_fallback`: it came from a fallback model, and says nothing about
    the requested one.
    """

    is_worth_another_model = False

    def __init__(self, sentence: str, window: int = 0, room: int = 0) -> None:
        super().__init__(sentence)
        self.window, self.room = window, room


class ModelRefused(ModelError):
    """Raised if the key, the quota or the request was refused: a retry would not help."""


class UnexplainedRefusal(ModelRefused):
    """Raised for a refusal with an unknown reason: the request may have been too long."""


class ResponsesRequired(ModelRefused):
    """Raised for a model that is served by OpenAI's Responses API alone."""


class AccountRefused(ModelRefused):
    """Raised if the key was refused, or the account is empty: only the bot's owner can fix it."""


class ModelUnlisted(ModelError):
    """Raised if the endpoint has no list of its models."""


class ModelUnreachable(ModelError):
    """Raised after all retries for a failed connection, a time-out, or a failing server."""


class ModelSilent(ModelUnreachable):
    """Raised if the endpoint sent nothing for too long."""


class ModelAnswerBroken(ModelError):
    """Raised for an invalid answer: it broke off, was empty, or was not the chat protocol.

    `text` is the text streamed so far.
    """

    def __init__(self, sentence: str, text: str = "") -> None:
        super().__init__(sentence)
        self.text = text


class ModelAnswerTooLong(ModelError):
    """Raised if too much data came before there was an answer; a retry would not help."""
