"""CPU time of the readers of strangers' requests and calls in the event loop, for their worst
inputs: 100 KB must never block the loop for 100 ms, whether accepted or refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import orjson
from pydantic import BaseModel

from channels.kit.messenger import ODD_SHAPE, load_frame
from channels.web.chat_shapes import ChatRequest
from channels.web.operations import Problem, parse_body
from channels.web.shapes import StrictBody
from channels.whatsapp.letters import read
from plugins.jobs.calls import fill

SIZES = (10_000, 100_000, 1_000_000)
"""Sizes of the inputs, in bytes."""
MOST = 0.1
"""Seconds of CPU for 100 KB; a megabyte may take ten times as long."""
TRIES = 3
"""The number of repeated measurements of a slow input: a busy machine charges for more CPU."""


def _fields(size: int) -> bytes:
    return b"{" + b",".join(b'"%d":0' % number for number in range(size // 10)) + b"}"


def _listed(entry: bytes, size: int) -> bytes:
    return b"[" + b",".join([entry] * (size // (len(entry) + 1))) + b"]"


SHAPES: Mapping[str, Callable[[int], bytes]] = {
    "numbers": partial(_listed, b"0"),
    "empty objects": partial(_listed, b"{}"),
    "texts": partial(_listed, b'{"type":"text","text":0}'),
    "good texts": partial(_listed, b'{"type":"text","text":"a"}'),
    "objects of one field": partial(_listed, b'{"a":[{}]}'),
    "fields": _fields,
    "brackets": lambda size: b"[" * size,
    "braces": lambda size: b'{"a":' * (size // 5),
    "escapes": lambda size: b'"' + rb"\u0000" * (size // 6) + b'"',
    "one text": lambda size: b'"' + b"a" * size + b'"',
    "digits": lambda size: b"1" * size,
}
"""Values in JSON of about so many bytes."""


def _places() -> Iterator[bytes]:
    """Yield the places in which such a value can be."""
    yield b"%s"
    yield b'{"text":"a","attachments":%s}'
    for name in (b"messages", b"tools", b"functions", b"stop", b"logit_bias", b"modalities"):
        yield b'{"messages":[{"role":"user","content":"a"}],"' + name + b'":%s}'
    for name in (b"content", b"tool_calls", b"function_call"):
        yield b'{"messages":[{"role":"user","' + name + b'":%s}]}'
    yield b'{"entry":%s}'
    yield b'{"entry":[{"changes":%s}]}'
    value = b'{"metadata":{"phone_number_id":"1"},"messages":%s,"statuses":%s}'
    yield b'{"entry":[{"changes":[{"value":' + value + b"}]}]}"


PLACES = tuple(_places())


def _request(shape: type[BaseModel], content: bytes) -> None:
    with suppress(Problem):
        parse_body(content, shape)


def _whatsapp(content: bytes) -> None:
    with suppress(*ODD_SHAPE):
        list(read(orjson.loads(content), "1", "2"))


REQUESTS: tuple[type[BaseModel], ...] = (ChatRequest, *StrictBody.__subclasses__())
READERS: Mapping[str, Callable[[bytes], object]] = {
    **{shape.__name__: partial(_request, shape) for shape in REQUESTS},
    "a call of WhatsApp": _whatsapp,
    "a frame of a socket": lambda content: load_frame(content.decode(), "benchmark"),
    "a call of a hook": lambda content: fill("{a.b} {0.a} {body}", content, "hook"),
}
"""Readers of strangers' bytes in the event loop."""


@dataclass(frozen=True, slots=True)
class ReadCost:
    """Seconds of CPU that a reader takes for its worst input of a size."""

    reader: str
    size: int
    what: str
    seconds: float
    most: float = MOST

    @property
    def is_well(self) -> bool:
        return self.seconds <= self.most * max(1.0, self.size / 100_000)


def measured(sizes: tuple[int, ...] = SIZES) -> Iterator[ReadCost]:
    """Yield the worst input for each reader and size."""
    for name, reader in READERS.items():
        for size in sizes:
            costs = [
                ReadCost(name, size, f"{shape} in {place.decode()}", cpu(reader, content))
                for shape, make in SHAPES.items()
                for place in PLACES
                for content in [place.replace(b"%s", make(size // place.count(b"%s")))]
            ]
            yield max(costs, key=lambda cost: cost.seconds)


def cpu(reader: Callable[[bytes], object], content: bytes) -> float:
    least = float("inf")
    for _ in range(TRIES):
        begin = time.process_time()
        reader(content)
        least = min(least, time.process_time() - begin)
        if least <= MOST / 2:
            break
    return least
