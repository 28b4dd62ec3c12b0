"""A refused request costs no more than an accepted one: every list and object that a client may
send, found in the schemas of the operations, is sent with thousands of wrong entries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from channels.web import guard
from channels.web.chat_shapes import ChatRequest, LenientBody
from channels.web.guard import MOST_UNREAD, UnreadableRequests
from channels.web.operations import explain_validation_error
from channels.web.shapes import StrictBody
from tests.web.site import serving

MANY = 3_000
MOST_ERRORS = 40
"""The maximum errors reported for one request: some for each possible type of a value."""
SHAPES: Sequence[type[BaseModel]] = (*LenientBody.__subclasses__(), *StrictBody.__subclasses__())
JUNK: Sequence[Any] = (0, "", {}, [], None, {"type": 0})


def samples(shape: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    """Return bodies with many entries, each in one place, and the place."""
    schema = shape.model_json_schema()
    yield from _within(schema, schema, ())
    yield "", {f"field {number}": 0 for number in range(MANY)}


def _within(root: Any, schema: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
    for one in _kinds(root, schema):
        if one.get("type") == "array":
            for junk in JUNK:
                yield _as_body(path, [junk] * MANY)
            yield _as_body(path, [_least(root, one["items"])] * MANY)
            yield from _within(root, one["items"], (*path, 0))
        elif "properties" in one:
            for name, inner in one["properties"].items():
                yield from _within(root, inner, (*path, name))
        elif "additionalProperties" in one:
            yield _as_body(path, {f"{number}": "junk" for number in range(MANY)})


def _kinds(root: Any, schema: Any) -> Iterator[Any]:
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        for one in schema["anyOf"]:
            yield from _kinds(root, one)
    else:
        yield schema


def _least(root: Any, schema: Any) -> Any:
    """Return the smallest valid value."""
    one = next(_kinds(root, schema))
    if "enum" in one:
        return one["enum"][0]
    if "const" in one:
        return one["const"]
    wanted = {name: _least(root, one["properties"][name]) for name in one.get("required", ())}
    return {"object": wanted, "string": "a", "array": []}.get(one.get("type"), 0)


def _as_body(path: tuple[str | int, ...], value: Any) -> tuple[str, Any]:
    place = ".".join(map(str, path))
    for name in reversed(path):
        value = [value] if name == 0 else {name: value, "role": "user", "type": "text"}
    return place, value


def _find_error(shape: type[BaseModel], body: Any) -> ValidationError | None:
    try:
        shape.model_validate_json(json.dumps(body))
    except ValidationError as error:
        return error
    return None


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_no_body_makes_more_than_a_few_errors(shape: type[BaseModel]) -> None:
    places = set()
    for place, body in samples(shape):
        places.add(place)
        error = _find_error(shape, body)
        if error is not None:
            assert error.error_count() <= MOST_ERRORS, (place, error.error_count())
            assert explain_validation_error(error).endswith(".")
    if shape is ChatRequest:
        assert {"messages", "messages.0.content", "messages.0.tool_calls", "tools", "stop"} < places
        assert "logit_bias" in places


def test_too_many_entries_are_said_to_be_too_many() -> None:
    part = {"type": "text", "text": "a"}
    for name, body in {
        "messages.0.content": {"messages": [{"role": "user", "content": [part] * MANY}]},
        "logit_bias": {
            "messages": [{"role": "user", "content": "a"}],
            "logit_bias": {f"{number}": 1 for number in range(MANY)},
        },
    }.items():
        with pytest.raises(ValidationError) as caught:
            ChatRequest.model_validate_json(json.dumps(body))
        assert explain_validation_error(caught.value) == f"{name} has more than 2,000 entries."


def test_of_fields_that_are_not_known_the_first_is_named() -> None:
    (shape,) = (one for one in SHAPES if one.__name__ == "NewMessage")
    with pytest.raises(ValidationError) as caught:
        shape.model_validate_json(json.dumps({"text": "a", "one": 1, "two": 2, "three": 3}))
    assert explain_validation_error(caught.value) == "one is not known here."


def test_unread_requests_are_counted_for_a_minute_and_by_who_sends_them() -> None:
    now = [0.0]
    unread = UnreadableRequests(lambda: now[0])
    for _ in range(MOST_UNREAD):
        assert not unread.is_too_many("ann")
        unread.count("ann")
    assert unread.is_too_many("ann")
    assert not unread.is_too_many("bob")
    now[0] = 61
    assert not unread.is_too_many("ann")


async def test_who_sends_too_much_that_can_not_be_read_has_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_UNREAD", 3)
    async with serving(tmp_path) as site:
        body = {"messages": [{"role": "user", "content": [0] * MANY}]}
        statuses = [(await site.post("/v1/chat/completions", body))[0] for _ in range(5)]
        assert statuses == [400, 400, 400, 429, 429]
        status, told = await site.get("/v1/models")
        assert (status, told["error"]["type"]) == (429, "rate_limit_error")
        assert (await site.get("/health"))[0] == 200
