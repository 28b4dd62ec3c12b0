"""Requests of clients of OpenAI's Responses API, and their validation. Features of OpenAI's own
servers are refused with a sentence that names the alternative, and the status 404: the SDKs would
retry after 501."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NoReturn

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from channels.web.bounds import AtMost
from channels.web.chat_shapes import (
    MODEL,
    MOST_MESSAGES,
    MOST_PARTS,
    MOST_TOOLS,
    Call,
    ChatMessage,
    ChatRequest,
    ClientTool,
    Count,
    Function,
    ImageUrl,
    LenientBody,
    Part,
    ResponseFormat,
    StreamOptions,
    ToolFunction,
)
from channels.web.guard import PROTOCOL
from channels.web.operations import Operation, Problem
from channels.web.shapes import NAME

NOT_KEPT = (
    "Parley keeps no responses; leave `{name}` out and send the whole conversation as `input`, or "
    "name one that the bot keeps, as `parley_conversation`."
)
NOT_FOUND = (
    "The item {id} is not here any more: items are kept for an hour at most, in memory. Send the "
    "items themselves, and set `store` to false (in the AI SDK: providerOptions.openai.store)."
)
EMPTY = "input must not be empty."
NO_BACKGROUND = "Parley answers at once; leave `background` out."
NO_PROMPT = "Parley has no prompt templates; send the text as `instructions` or `input`."
NO_HOSTED_TOOL = (
    "Parley runs no tool of the type {kind}; send tools of the type function, or leave `tools` "
    "out: then the bot's own are used."
)
NO_ITEM = (
    "Parley takes no item of the type {kind}; send messages, function_call and "
    "function_call_output."
)
NO_FILE = "Parley takes text and pictures (input_image) here; send the content of a file as text."
NO_FILE_ID = "Parley has no files by their ids; send the picture as a data: URL (`image_url`)."
NO_PROBABILITIES = "Parley does not return token probabilities; leave `top_logprobs` out."
Find = Callable[[str], Mapping[str, Any] | None]
"""Returns an item of an earlier response by its id."""


class ItemPart(LenientBody):
    """A piece of a message, or of what a function returned."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = None
    file_id: str | None = None


Content = str | Annotated[tuple[ItemPart, ...], AtMost(MOST_PARTS)]


class Item(LenientBody):
    """A message, a call of a function, or what it returned."""

    type: str | None = None
    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: Content | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: Content | None = None


class ResponseTool(LenientBody):
    """A tool of the client's. Only functions have a name and a schema."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class TextFormat(LenientBody):
    """The form in which the answer is to be written: `type` is text, json_object or json_schema."""

    type: str = "text"
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class TextConfig(LenientBody):
    format: TextFormat | None = None
    verbosity: str | None = None


class Reasoning(LenientBody):
    effort: str | None = None
    summary: str | None = None


class ResponseRequest(LenientBody):
    """A request for a response, as OpenAI has it, as far as Parley minds it."""

    input: str | Annotated[tuple[Item, ...], AtMost(MOST_MESSAGES)]
    model: str = MODEL
    instructions: str | None = None
    stream: bool | None = None
    store: bool | None = None
    tools: Annotated[tuple[ResponseTool, ...], AtMost(MOST_TOOLS)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    max_output_tokens: Count = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_logprobs: int | None = None
    metadata: Any = None
    user: Any = None
    previous_response_id: str | None = None
    conversation: Any = None
    background: bool | None = None
    prompt: Any = None
    parley_conversation: str | None = Field(default=None, pattern=NAME)

    @property
    def keeps_items(self) -> bool:
        """Return whether a later request may refer to the items of its answer, the default
        there."""
        return self.store is not False

    @property
    def wants_thoughts(self) -> bool:
        return self.reasoning is not None and self.reasoning.summary is not None


def chat_request(wanted: ResponseRequest, find: Find) -> ChatRequest:
    """Return the same as a request for a chat completion. Raises Problem."""
    _refuse_what_is_not_done(wanted)
    items = wanted.input if not isinstance(wanted.input, str) else (Item(content=wanted.input),)
    messages = [ChatMessage(role="system", content=wanted.instructions)] * bool(wanted.instructions)
    tools, choice = _tools(wanted)
    return ChatRequest(
        messages=(*messages, *_messages(items, find)),
        stream=wanted.stream,
        stream_options=StreamOptions(include_usage=True),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=wanted.parallel_tool_calls,
        response_format=_form(wanted.text.format if wanted.text else None),
        max_completion_tokens=wanted.max_output_tokens,
        temperature=wanted.temperature,
        top_p=wanted.top_p,
        reasoning_effort=wanted.reasoning.effort if wanted.reasoning else None,
        verbosity=wanted.text.verbosity if wanted.text else None,
        parley_conversation=wanted.parley_conversation,
    )


def _refuse_what_is_not_done(wanted: ResponseRequest) -> None:
    if not wanted.input:
        raise Problem(400, EMPTY, param="input")
    for name in ("previous_response_id", "conversation"):
        if getattr(wanted, name):
            _refuse(NOT_KEPT.format(name=name), name)
    if wanted.background:
        _refuse(NO_BACKGROUND, "background")
    if wanted.prompt:
        _refuse(NO_PROMPT, "prompt")
    if wanted.top_logprobs:
        _refuse(NO_PROBABILITIES, "top_logprobs")


def _refuse(sentence: str, param: str) -> NoReturn:
    raise Problem(400, sentence, "unsupported_value", param)


def _messages(items: Sequence[Item], find: Find) -> list[ChatMessage]:
    """Return the messages of these items. Consecutive calls, and the text before them, form one
    message. A model's reasoning is left out, since it belongs to another model."""
    made: list[ChatMessage] = []
    for item in items:
        if item.type == "item_reference" or (item.type is None and item.id and not item.role):
            item = _look_up(item.id or "", find)
        if item.type == "reasoning":
            continue
        if item.type == "function_call":
            _add_call(made, item)
        elif item.type == "function_call_output":
            content = _content(item.output)
            made.append(ChatMessage(role="tool", content=content, tool_call_id=item.call_id or ""))
        elif item.type in (None, "message"):
            made.append(ChatMessage(role=item.role or "user", content=_content(item.content)))
        else:
            _refuse(NO_ITEM.format(kind=item.type[:40]), "input")
    return made


def _look_up(name: str, find: Find) -> Item:
    if name.startswith("rs_"):
        return Item(type="reasoning")
    found = find(name)
    if found is None:
        raise Problem(404, NOT_FOUND.format(id=name[:80]), "not_found", "input")
    return Item.model_validate(found)


def _add_call(made: list[ChatMessage], item: Item) -> None:
    function = Function(name=item.name or "unknown", arguments=item.arguments or "")
    call = Call(id=item.call_id or item.id or "", function=function)
    last = made[-1] if made else None
    if last is None or last.role != "assistant":
        made.append(ChatMessage(role="assistant", tool_calls=(call,)))
    else:
        made[-1] = last.model_copy(update={"tool_calls": (*(last.tool_calls or ()), call)})


def _content(content: Content | None) -> str | tuple[Part, ...]:
    if content is None or isinstance(content, str):
        return content or ""
    parts = tuple(map(_part, content))
    if all(part.image_url is None for part in parts):
        return "\n".join(filter(None, (part.words for part in parts)))
    return parts


def _part(part: ItemPart) -> Part:
    if part.type == "input_image":
        if not part.image_url:
            _refuse(NO_FILE_ID, "input")
        return Part(type="image_url", image_url=ImageUrl(url=part.image_url, detail=part.detail))
    if part.text is None and part.refusal is None:
        _refuse(NO_FILE, "input")
    return Part(type="text", text=part.text or part.refusal or "")


def _tools(
    wanted: ResponseRequest,
) -> tuple[tuple[ClientTool, ...] | None, str | dict[str, Any] | None]:
    """Return the client's tools, and the choice of tools."""
    choice = wanted.tool_choice
    if wanted.tools is None:
        return None, choice
    if hosted := next((one.type for one in wanted.tools if one.type != "function"), None):
        _refuse(NO_HOSTED_TOOL.format(kind=hosted[:40]), "tools")
    tools = [_tool(one) for one in wanted.tools]
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        named = choice.get("tools")
        allowed = {one.get("name") for one in named or () if isinstance(one, dict)}
        tools = [one for one in tools if one.function.name in allowed]
        choice = choice.get("mode") if isinstance(choice.get("mode"), str) else "auto"
    elif isinstance(choice, dict):
        choice = {"type": "function", "function": {"name": choice.get("name")}}
    return tuple(tools), choice


def _tool(tool: ResponseTool) -> ClientTool:
    if not tool.name:
        raise Problem(400, "tools.name is missing.", param="tools")
    data = tool.model_dump(exclude_none=True, exclude={"type"})
    return ClientTool(function=ToolFunction.model_validate(data))


def _form(form: TextFormat | None) -> ResponseFormat | None:
    if form is None or form.type == "text":
        return None
    if form.type != "json_schema":
        return ResponseFormat(type=form.type)
    data = form.model_dump(by_alias=True, exclude_none=True, exclude={"type"})
    return ResponseFormat.model_validate({"type": form.type, "json_schema": data})


_SPEECH = "Parley's /v1 takes and makes no speech; ask a server for speech itself."
_CHAT = "Use /v1/chat/completions or /v1/responses."
_KEPT = "Name a conversation that the bot keeps with `parley_conversation` in /v1/chat/completions."
_FILES = "Parley keeps no files here; send text as text, and a picture in its message."
_TRAINING = "Parley trains no models and tests none."
_PICTURES = "Parley makes no pictures or videos here; ask the endpoint of a model that does."
INSTEAD: Mapping[str, str] = {
    "embeddings": "Parley makes no embeddings; ask an embedding model at its own endpoint.",
    "audio": _SPEECH,
    "realtime": f"{_SPEECH} Text streams with `stream: true`.",
    "images": _PICTURES,
    "videos": _PICTURES,
    "moderations": "Parley judges no texts; ask a moderation model at its own endpoint.",
    "completions": f"This is the protocol of before there were chats. {_CHAT}",
    "edits": f"This is the protocol of before there were chats. {_CHAT}",
    "engines": "/v1/models lists the one model that there is.",
    "responses": "Parley keeps no responses; POST /v1/responses takes the whole conversation.",
    "chat": "Parley keeps no completions; POST /v1/chat/completions takes the whole conversation.",
    "conversations": _KEPT,
    "assistants": f"{_CHAT} {_KEPT}",
    "threads": f"{_CHAT} {_KEPT}",
    "chatkit": f"{_CHAT} {_KEPT}",
    "files": _FILES,
    "uploads": _FILES,
    "vector_stores": _FILES,
    "containers": _FILES,
    "batches": "Parley takes no batches; send each request by itself.",
    "fine_tuning": _TRAINING,
    "fine-tunes": _TRAINING,
    "evals": _TRAINING,
    "messages": f"This is Anthropic's protocol; /v1 is OpenAI's. {_CHAT}",
    "v1": "The base URL ends in /v1 already; leave the second one out.",
}
_WITHOUT_BASE = re.compile(
    r"/(openai/)?(chat/completions|responses|models|completions|embeddings)\b"
)


def describe_elsewhere(method: str, path: str) -> str:
    """Return the alternative to this request."""
    if _WITHOUT_BASE.match(path):
        return f"{path} does not exist; OpenAI's protocol is at /v1, so the base URL ends in that."
    name = path.removeprefix(PROTOCOL).partition("/")[0]
    text = INSTEAD.get(name, "") if path.startswith(PROTOCOL) else ""
    return f"{method} {path} does not exist. {text or '/openapi.json lists what does.'}"


def protocol_route(operations: Sequence[Operation]) -> Route:
    """Return the route for all requests of the protocol without an operation."""
    methods: dict[str, set[str]] = {}
    for operation in operations:
        also = {"HEAD"} if operation.method == "GET" else set[str]()
        methods.setdefault(operation.path, {"OPTIONS"}).update({operation.method}, also)

    async def answer(request: Request) -> Response:
        path = request.url.path
        if allowed := methods.get(path):
            headers = {"Allow": ", ".join(sorted(allowed))}
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=headers)
            response = Problem(405, describe_elsewhere(request.method, path)).response()
            response.headers.update(headers)
            return response
        return Problem(404, describe_elsewhere(request.method, path), "unknown_url").response()

    every = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return Route(f"{PROTOCOL}{{rest:path}}", answer, methods=every)


class PlainPaths:
    """A middleware that removes double and trailing slashes from the protocol's paths, which come
    from base URLs: a redirect would lose the body of some clients' requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.startswith(PROTOCOL):  # other paths were accepted without a key
            plain = PROTOCOL + re.sub(r"/+", "/", path.removeprefix(PROTOCOL)).strip("/")
            scope = {**scope, "path": plain, "raw_path": plain.encode()}
        await self._app(scope, receive, send)
