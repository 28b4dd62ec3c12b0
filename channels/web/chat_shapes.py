"""The requests of clients of OpenAI's protocol: their validation and conversion.

A message is passed on to the model unchanged, with exactly the fields of the protocol. An
unsupported request is refused with a sentence, never silently ignored; fields that only inform the
provider about the client (`metadata`, `store`, `user`) are ignored.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from channels.message import Attachment, ClientMessage, CompletionRequest
from channels.web.bounds import AtMost
from channels.web.operations import Problem
from channels.web.shapes import NAME

MODEL = "parley"
MOST_MESSAGES = 10_000
"""The maximum number of messages of one request."""
MOST_PARTS, MOST_CALLS, MOST_TOOLS = 2_000, 1_000, 1_000
"""The maximum numbers of parts and calls of one message, and of tools of one request."""
MOST_WORDS, MOST_BIASES = 100, 2_000
"""The maximum numbers of stop texts or kinds of answers, and of tokens with a bias."""
CHOICES = "Parley gives one answer; leave `n` out, or set it to 1."
NO_LOGPROBS = "Parley does not return token probabilities; leave `logprobs` out."
NO_AUDIO = "Parley can't handle audio; leave out `audio` and that modality."
NO_QUESTION = "There is no message with the role user, so there is nothing to answer."
NO_PART = (
    "Parley takes text and pictures (image_url); send the content of the {kind} as text instead."
)
NO_PICTURE = (
    "A picture is a data: URL in base64, or an http address that the model's endpoint can reach."
)
NO_TOOLS = (
    "A tool must be called (`tool_choice`), but there are no `tools`; send some, or leave it out."
)
NOT_SENDABLE = (
    "A number is too large or none (NaN), or the request is nested too deeply to be passed on."
)
_LONGEST_URL = 8_000
_INT = 2**63 - 1
_HERE = re.compile(r"(^|\.)(localhost|local|internal|lan|home\.arpa)$|^[\da-fx.]+$", re.IGNORECASE)
_HOST = re.compile(r"[\w.-]+", re.ASCII)
"""A host name; other texts, with escapes or characters of other scripts, may be resolved to a local
address."""
_READ_IN_TWO_WAYS = re.compile(r"[\x00-\x20\x7f\\]")
"""The characters that programs interpret differently: for some a backslash ends the host, and
others leave out tabs."""
_TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}


class LenientBody(BaseModel):
    """A body of OpenAI's clients: fields that are not known here are left aside."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ImageUrl(LenientBody):
    url: str
    detail: str | None = None


def _as_image(value: Any) -> Any:
    """Return an image as an object; some clients send only the address."""
    return {"url": value} if isinstance(value, str) else value


class Part(LenientBody):
    """A piece of a message: text, or a picture."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: Annotated[ImageUrl | None, BeforeValidator(_as_image)] = None

    @property
    def words(self) -> str:
        return str(getattr(self, _TEXT_PARTS[self.type]) or "") if self.type in _TEXT_PARTS else ""

    @property
    def wire(self) -> dict[str, Any]:
        """The piece as it is passed on. Raises Problem for unsupported kinds."""
        self.refuse_other_kinds()
        if self.type in _TEXT_PARTS or self.image_url is None:
            return {"type": "text", "text": self.words}
        check_url(self.image_url.url)
        return {"type": "image_url", "image_url": self.image_url.model_dump(exclude_none=True)}

    def refuse_other_kinds(self) -> None:
        """Check that this part is a text or a picture. Raises Problem."""
        is_picture = self.type == "image_url" and self.image_url is not None
        if self.type not in _TEXT_PARTS and not is_picture:
            raise Problem(400, NO_PART.format(kind=self.type[:40] or "part"), param="messages")


class Function(LenientBody):
    name: str = Field(min_length=1)
    arguments: str = ""


class Call(LenientBody):
    id: str
    type: str = "function"
    function: Function


Parts = Annotated[tuple[Part, ...], AtMost(MOST_PARTS)]
Calls = Annotated[tuple[Call, ...], AtMost(MOST_CALLS)]
Words = Annotated[tuple[str, ...], AtMost(MOST_WORDS)]


class ChatMessage(LenientBody):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Parts | None = None
    name: str | None = None
    tool_calls: Calls | None = None
    tool_call_id: str | None = None
    function_call: Function | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.words for part in self.content or () if part.words)

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.content if isinstance(self.content, tuple) else ()

    @property
    def pictures(self) -> tuple[ImageUrl, ...]:
        return tuple(part.image_url for part in self.parts if part.image_url)

    @property
    def _content(self) -> Any:
        if isinstance(self.content, tuple):
            return [part.wire for part in self.content] or ""
        return self.content if self.content is not None or self.tool_calls else ""

    @property
    def given(self) -> ClientMessage:
        """The message as it is passed on. Raises Problem."""
        wire: dict[str, Any] = {"role": self.role, "content": self._content}
        if self.name:
            wire["name"] = self.name
        if self.tool_calls:
            wire["tool_calls"] = [call.model_dump() for call in self.tool_calls]
        if self.tool_call_id is not None:
            wire["tool_call_id"] = self.tool_call_id
        calls = [f"{c.function.name}{c.function.arguments}" for c in self.tool_calls or ()]
        role = "system" if self.role == "developer" else self.role
        counted = "\n".join([self.text, *calls])
        assert role != "function", "renamed before"
        return ClientMessage(role, wire, counted, len(self.pictures))


class ToolFunction(BaseModel):
    """A function, as a client describes it; its schema may be anything."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class ClientTool(LenientBody):
    type: Literal["function"] = "function"
    function: ToolFunction


class StreamOptions(LenientBody):
    include_usage: bool | None = None


class ResponseFormat(BaseModel):
    """Sent on as it stands."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str


Whole = Annotated[int, Field(ge=-_INT, le=_INT)]
Count = Annotated[
    Annotated[int, Field(ge=1, le=10**9)] | None,
    BeforeValidator(lambda value: None if value in (-1, "-1") else value),
]
"""A limit; -1 means none, as in local servers."""
Penalty = Annotated[float, Field(ge=-2, le=2)]


class ChatRequest(LenientBody):
    """A request for an answer, as OpenAI has it, as far as Parley minds it."""

    messages: Annotated[tuple[ChatMessage, ...], AtMost(MOST_MESSAGES)] = Field(min_length=1)
    model: str = MODEL
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Any = None
    n: int | None = None
    tools: Annotated[tuple[ClientTool, ...], AtMost(MOST_TOOLS)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: Annotated[tuple[ToolFunction, ...], AtMost(MOST_TOOLS)] | None = None
    function_call: str | dict[str, Any] | None = None
    response_format: ResponseFormat | None = None
    stop: str | Words | None = None
    max_tokens: Count = None
    max_completion_tokens: Count = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Annotated[dict[str, float], AtMost(MOST_BIASES)] | None = None
    seed: Whole | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    logprobs: bool | None = None
    modalities: Words | None = None
    parley_conversation: str | None = Field(default=None, pattern=NAME)

    @property
    def instructions(self) -> str:
        texts = (m.text for m in self.messages if m.role in ("system", "developer"))
        return "\n\n".join(filter(None, texts))

    @property
    def reports_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def is_of_functions(self) -> bool:
        """Return whether the client uses functions, which the protocol had before tools."""
        return bool(self.functions) and not self.tools

    @property
    def wants_a_form(self) -> bool:
        return self.response_format is not None and self.response_format.type != "text"


_SENT_ON = (
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "seed",
    "reasoning_effort",
    "verbosity",
)


def refuse_what_is_not_done(wanted: ChatRequest) -> None:
    """Check that a request has no unsupported fields. Raises Problem."""
    if wanted.n not in (None, 1):
        raise Problem(400, CHOICES, "unsupported_value", "n")
    if wanted.logprobs:
        raise Problem(400, NO_LOGPROBS, "unsupported_value", "logprobs")
    if wanted.modalities and "audio" in wanted.modalities:
        raise Problem(400, NO_AUDIO, "unsupported_value", "modalities")
    must_call = wanted.tool_choice == "required" or isinstance(wanted.tool_choice, dict)
    if must_call and not (wanted.tools or wanted.functions):
        raise Problem(400, NO_TOOLS, "invalid_value", "tool_choice")


def completion_request(wanted: ChatRequest) -> CompletionRequest:
    """Return the client's request, with all its fields. Raises Problem."""
    refuse_what_is_not_done(wanted)
    tools = _tools(wanted)
    if tools is None and wanted.tool_choice == "none":
        tools = ()
    request = CompletionRequest(
        messages=tuple(message.given for message in _of_today(wanted.messages)),
        tools=tools,
        max_tokens=wanted.max_completion_tokens or wanted.max_tokens or 0,
        temperature=wanted.temperature,
        parameters=_parameters(wanted, has_tools=bool(tools)),
        is_streamed=bool(wanted.stream),
    )
    try:
        orjson.dumps([[one.wire for one in request.messages], tools, request.parameters])
        json.dumps([tools, request.parameters], allow_nan=False)  # orjson would write null for NaN
    except (TypeError, ValueError):
        raise Problem(400, NOT_SENDABLE) from None
    return request


def _tools(wanted: ChatRequest) -> tuple[Mapping[str, Any], ...] | None:
    """Return the client's tools, which may be empty; None if the request does not mention tools."""
    if wanted.is_of_functions:
        return tuple(
            {"type": "function", "function": function.model_dump()}
            for function in wanted.functions or ()
        )
    return None if wanted.tools is None else tuple(tool.model_dump() for tool in wanted.tools)


def _parameters(wanted: ChatRequest, has_tools: bool) -> dict[str, Any]:
    """Return the parameters that are passed on unchanged."""
    found = {name: getattr(wanted, name) for name in _SENT_ON}
    found["stop"] = list(wanted.stop) if isinstance(wanted.stop, tuple) else wanted.stop
    if wanted.wants_a_form and wanted.response_format:
        found["response_format"] = wanted.response_format.model_dump()
    if has_tools:
        found["tool_choice"] = _choice(wanted)
        found["parallel_tool_calls"] = wanted.parallel_tool_calls
    return {name: value for name, value in found.items() if value not in (None, [], {})}


def _choice(wanted: ChatRequest) -> str | dict[str, Any] | None:
    if not wanted.is_of_functions:
        return wanted.tool_choice
    if isinstance(wanted.function_call, dict):
        return {"type": "function", "function": wanted.function_call}
    return wanted.function_call


def _of_today(messages: tuple[ChatMessage, ...]) -> list[ChatMessage]:
    """Return the messages with calls of functions converted to calls of tools, with ids made from
    their place."""
    found, last = [], ""
    for number, message in enumerate(messages):
        if message.function_call is not None and not message.tool_calls:
            last = f"call_{number}"
            call = Call(id=last, function=message.function_call)
            message = message.model_copy(update={"tool_calls": (call,), "function_call": None})
        elif message.role == "function":
            message = message.model_copy(
                update={"role": "tool", "tool_call_id": last, "name": None}
            )
        found.append(message)
    return found


def question_of(wanted: ChatRequest) -> ChatMessage:
    """Return the last message of the user, the only one used for a conversation that the bot
    stores. Raises Problem for fields that are not supported there."""
    refuse_what_is_not_done(wanted)
    for field, is_there in (
        ("tools", wanted.tools or wanted.functions),
        ("response_format", wanted.wants_a_form),
    ):
        if is_there:
            raise Problem(
                400,
                f"A conversation that Parley keeps (parley_conversation) takes no {field}; leave "
                "one of the two out.",
                "unsupported_parameter",
                field,
            )
    asked = [message for message in wanted.messages if message.role == "user"]
    if not asked:
        raise Problem(400, NO_QUESTION, param="messages")
    for part in asked[-1].parts:
        part.refuse_other_kinds()
    return asked[-1]


def list_attachments(message: ChatMessage) -> tuple[Attachment, ...]:
    """Return the pictures of a message, all of which are in the request. Raises Problem."""
    return tuple(_picture(picture.url) for picture in message.pictures)


def _picture(url: str) -> Attachment:
    """Return the picture in a data: URL; no picture is downloaded. Raises Problem."""
    found = re.fullmatch(r"data:(image/[\w.+-]+);base64,(.*)", url, re.DOTALL)
    try:
        data = base64.b64decode(found[2], validate=True) if found else b""
    except binascii.Error:
        data = b""
    if not found or not data:
        raise Problem(
            400, "A picture must come in the request, as a data: URL in base64.", param="messages"
        )
    return Attachment(f"picture.{found[1].partition('/')[2]}", found[1], data)


def check_url(url: str) -> None:
    """Check the address of a picture. An http address is read by the model's endpoint, never by
    Parley, and local addresses are refused. Raises Problem."""
    if url.startswith("data:"):
        _picture(url)
        return
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        host = ""
    is_plain = len(url) <= _LONGEST_URL and not _READ_IN_TWO_WAYS.search(url)
    is_http = url.startswith(("http://", "https://")) and is_plain
    if not (is_http and _is_public_host(host)):
        raise Problem(400, NO_PICTURE, "invalid_image_url", "messages")


def _is_public_host(host: str) -> bool:
    """Return whether a host may be on the public internet."""
    try:
        return ip_address(host.strip("[]")).is_global
    except ValueError:
        is_name = _HOST.fullmatch(host) is not None
        return is_name and "." in host and not _HERE.search(host)
