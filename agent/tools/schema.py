"""A tool made from a typed function: its schema comes from the signature and the docstring."""

from __future__ import annotations

import asyncio
import inspect
import re
import reprlib
import textwrap
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import field, make_dataclass
from functools import partial
from typing import Any, get_args, get_type_hints, overload

from pydantic import ConfigDict, TypeAdapter, ValidationError

from agent.tools import ToolError
from agent.tools.base import Tool, ToolContext, Touch
from memory.patterns import lazy

_NAME = lazy(r"[A-Za-z0-9_-]{1,64}")  # OpenAI's pattern for a function's name
_SECTION = lazy(r"^(Args|Returns|Raises|Yields|Examples?):\s*$", re.MULTILINE)
_ENTRY = lazy(r"^(\w+)[^:\n]*:(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_MOST_COMPLAINTS = 5
_UNNAMED = {
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
}


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    touches: Collection[Touch] = (),
    is_parallel: bool | None = None,
    asks_first: bool | None = None,
    is_once: bool = False,
    switch: str = "",
    needs_conversation: bool = False,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    touches: Collection[Touch] = (),
    is_parallel: bool | None = None,
    asks_first: bool | None = None,
    is_once: bool = False,
    switch: str = "",
    needs_conversation: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a typed function, sync or async: `@tool` or `@tool(touches={"reads"})`.

    The docstring's text is the description that the model reads, and a Google-style `Args:` section
    describes the parameters. Types are pydantic's: Literal, defaults, ranges as `Annotated[int,
    Field(ge=1)]`. A parameter annotated `ToolContext` is passed in and hidden from the model. A
    result that is not text is sent as JSON. `is_parallel` is True by default for tools that neither
    write nor use a shell, `asks_first` for those that use a shell or the network. `is_once` is for
    tools that must not run twice; `switch` is the setting that enables the tool;
    `needs_conversation` is for tools that work on a conversation. Raises TypeError, with a
    sentence, for an unsuitable function.
    """
    touched = frozenset(touches)
    make = partial(
        _from_function,
        touches=touched,
        is_parallel=not {"writes", "shell"} & touched if is_parallel is None else is_parallel,
        asks_first=bool({"network", "shell"} & touched) if asks_first is None else asks_first,
        is_once=is_once,
        switch=switch,
        needs_conversation=needs_conversation,
    )
    return make if function is None else make(function)


def _from_function(
    function: Callable[..., Any], *, touches: frozenset[Touch], **fields: Any
) -> Tool:
    """Make a tool that has these fields of `Tool` besides those that its function tells."""
    name = function.__name__
    if not _NAME.fullmatch(name):
        raise TypeError(f"{name!r} can't name a tool: up to 64 of a-z, A-Z, 0-9, _ and -")
    if unknown := sorted(touches - set(get_args(Touch))):
        raise TypeError(f"{name} touches {unknown}, but a tool touches {get_args(Touch)}")
    hints = _hints(function)
    description, notes = _parse_docstring(function)
    if strangers := sorted(notes.keys() - hints.keys()):
        raise TypeError(f"the docstring of {name} describes {strangers}, which it doesn't take")
    adapter = _adapter(function, hints)
    parameters = _add_descriptions(shorten_schema(adapter.json_schema()), notes)
    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        run=_runner(function, hints, adapter, takes(parameters)),
        touches=touches,
        **fields,
    )


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in hints or parameter.kind in _UNNAMED:
            raise TypeError(
                f"parameter {parameter.name!r} of tool {function.__name__} needs a name and a type"
            )
    hints.pop("return", None)
    return hints


def _parse_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the description, and the text in `Args:` for each parameter."""
    text, *sections = _SECTION.split(inspect.getdoc(function) or "")
    if not text.strip():
        raise TypeError(f"tool {function.__name__} needs a docstring: the model goes by it")
    entries = dict(zip(sections[::2], sections[1::2], strict=True)).get("Args", "")
    notes = {
        entry[1]: " ".join(entry[2].split()) for entry in _ENTRY.finditer(textwrap.dedent(entries))
    }
    return "\n".join(" ".join(block.split()) for block in text.strip().split("\n\n")), notes


def _adapter(function: Callable[..., Any], hints: Mapping[str, Any]) -> TypeAdapter[Any]:
    """Return the adapter that checks arguments: a dataclass with a field for each parameter that
    the model provides.

    A dataclass is used because pydantic's models don't allow parameters named `json` or `copy`.
    """
    fields = [
        (parameter.name, hints[parameter.name], _default(parameter))
        for parameter in inspect.signature(function).parameters.values()
        if hints[parameter.name] is not ToolContext
    ]
    strict = {"__pydantic_config__": ConfigDict(extra="forbid")}
    return TypeAdapter(make_dataclass(function.__name__, fields, kw_only=True, namespace=strict))


def _default(parameter: inspect.Parameter) -> Any:
    return field() if parameter.default is parameter.empty else field(default=parameter.default)


def shorten_schema(node: Any) -> Any:
    """Return a schema without parts that are useless to a model, since every request pays for it;
    arguments are still checked by the full schema. A property named like a keyword stays: its value
    is a schema. An optional parameter is not marked nullable as well."""
    if isinstance(node, list):
        return [shorten_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    match node:
        case {"anyOf": [dict(kind), {"type": "null"}], "default": None}:
            node = {**kind, **{key: value for key, value in node.items() if key != "anyOf"}}
    return {
        key: shorten_schema(value) for key, value in node.items() if not _is_omitted(key, value)
    }


def _is_omitted(keyword: str, value: Any) -> bool:
    match keyword:
        case "title" | "minLength" | "maxLength":
            return not isinstance(value, dict)
        case "additionalProperties":
            return isinstance(value, bool)
        case "minimum":
            return value in (0, 1)
        case "default":
            return value is None or value is False or value in ("", ".")
    return False


def _add_descriptions(schema: dict[str, Any], notes: Mapping[str, str]) -> dict[str, Any]:
    properties = {
        name: {**parameter, "description": notes[name]} if name in notes else parameter
        for name, parameter in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def takes(parameters: Mapping[str, Any]) -> str:
    """Return a sentence on the valid arguments of a tool's schema."""
    required = parameters.get("required", ())
    known = [
        f"{name} ({', '.join(_kind(parameter, is_required=name in required))})"
        for name, parameter in parameters.get("properties", {}).items()
    ]
    return f"It takes {', '.join(known)}." if known else "It takes no arguments."


def _kind(parameter: Mapping[str, Any], *, is_required: bool) -> list[str]:
    values = "|".join(map(str, parameter.get("enum", ())))
    kind = values or str(parameter.get("type", "see its schema"))
    return [kind] if is_required else [kind, "optional"]


def _runner(
    function: Callable[..., Any],
    hints: Mapping[str, Any],
    adapter: TypeAdapter[Any],
    wanted: str,
) -> Callable[[dict[str, Any], ToolContext], Awaitable[Any]]:
    handed_in = [name for name, hint in hints.items() if hint is ToolContext]
    is_async = inspect.iscoroutinefunction(function)

    async def run(arguments: dict[str, Any], context: ToolContext) -> Any:
        try:
            checked = adapter.validate_python(arguments)
        except ValidationError as error:
            complaints = _describe_faults(error)
            raise ToolError(f"{function.__name__} was not run: {complaints}. {wanted}") from None
        values = vars(checked) | dict.fromkeys(handed_in, context)
        if is_async:
            return await function(**values)
        return await in_a_thread(function, values)

    return run


async def in_a_thread(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a sync function in a thread of its own: one that hangs blocks no other thread, and does
    not keep the bot from ending."""
    result: Future[Any] = Future()
    result.set_running_or_notify_cancel()  # the caller may leave; the thread continues
    context = copy_context()

    def work() -> None:
        try:
            result.set_result(context.run(_call, function, values))
        except BaseException as error:  # noqa: BLE001 - it belongs to the awaiter
            result.set_exception(error)

    threading.Thread(target=work, name=f"tool {function.__name__}", daemon=True).start()
    return await asyncio.wrap_future(result)


def _call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    try:
        return function(**values)
    except StopIteration as error:
        # asyncio can't carry a StopIteration out of a thread: the awaiting task would wait forever.
        raise RuntimeError("the tool let a StopIteration out") from error


def _describe_faults(error: ValidationError) -> str:
    """Describe the error of each field, briefly."""
    found = [_describe_error(detail) for detail in error.errors(include_url=False)]
    rest = len(found) - _MOST_COMPLAINTS
    return "; ".join(found[:_MOST_COMPLAINTS]) + (f"; and {rest} more" if rest > 0 else "")


def _describe_error(detail: Mapping[str, Any]) -> str:
    name = ".".join(map(str, detail["loc"]))
    if detail["type"] == "missing":
        return f"`{name}` is missing"
    if detail["type"] == "unexpected_keyword_argument":
        return f"`{name}` is unknown"
    wanted = detail["msg"].replace("Input should", "it should")
    return f"`{name}` is {reprlib.repr(detail['input'])}, but {wanted[:1].lower()}{wanted[1:]}"
