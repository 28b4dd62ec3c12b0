"""A chunk of chat completions that brings a piece of text and nothing else, as nearly all do: it is
parsed and checked at once, by its type. Pure."""

from __future__ import annotations

from msgspec import Struct
from msgspec.json import Decoder

Word = str | None


class _Delta(Struct, frozen=True, forbid_unknown_fields=True):
    content: str
    role: Word = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None
    reasoning: None = None
    reasoning_content: None = None


class _Choice(Struct, frozen=True, forbid_unknown_fields=True):
    delta: _Delta
    index: int | None = None
    finish_reason: None = None
    native_finish_reason: None = None
    stop_reason: None = None
    logprobs: None = None


class PlainChunk(Struct, frozen=True, forbid_unknown_fields=True):
    """Such a chunk. Fields that may say more than the text are not there, or null."""

    choices: tuple[_Choice]
    model: Word = None
    id: Word = None
    object: Word = None
    created: int | float | None = None
    provider: Word = None
    service_tier: Word = None
    system_fingerprint: Word = None
    obfuscation: Word = None
    usage: None = None


_DECODER = Decoder(PlainChunk)


def read_plain(data: bytes) -> PlainChunk | None:
    """Return the chunk that data are; None where they are another one, or none."""
    try:
        return _DECODER.decode(data)
    except ValueError:
        return None
