"""A streamed answer, assembled from the chunks of OpenAI's chat-completions protocol.

Most chunks of chat completions bring only a piece of text: these are parsed and validated in one
step, by their type. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder

from agent.models import chat_thoughts
from agent.models.base import ModelReply, Usage, read_finish
from agent.models.chat_thoughts import ThoughtFilter, may_have_marks, split_thoughts
from agent.models.partial_calls import LONGEST_NAME, PartialCalls, Piece, pieces_of
from agent.models.shapes import (
    as_mapping,
    choices_of,
    find_usage,
    get_string,
    join_halves,
    read_parts,
    read_thoughts,
    read_usage,
    unwrap,
)

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
    """A chunk with text alone. Fields that could carry more are absent or null."""

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


PLAIN = Decoder(PlainChunk)
"""Decodes the data of such a chunk. Raises ValueError for any other data."""


def decode_plain(
    decoder: Decoder[PlainChunk], came: Iterable[bytes]
) -> Iterator[PlainChunk | bytes]:
    """Yield the chunks with text alone, those that follow each other as one, which costs as much
    as a single one; and the data of all other events."""
    texts: list[PlainChunk] = []
    for data in came:
        try:
            texts.append(decoder.decode(data))
        except ValueError:
            if texts:
                yield from _joined(texts)
                texts = []
            yield data
    if texts:
        yield from _joined(texts)


def _joined(chunks: Sequence[PlainChunk]) -> Sequence[PlainChunk]:
    """Return these chunks as one, unless they are of several choices."""
    if len(chunks) < 2:
        return chunks
    index = chunks[0].choices[0].index
    texts = [one.delta.content for chunk in chunks for one in chunk.choices if one.index == index]
    if len(texts) < len(chunks):
        return chunks
    model = next((chunk.model for chunk in chunks if chunk.model), None)
    return (PlainChunk((_Choice(_Delta("".join(texts)), index),), model),)


MOST_CHARACTERS = 2_000_000
"""The maximum characters of one answer, with reasoning and arguments: more than any model writes
(128,000 tokens)."""
_ONLY_TEXT = frozenset({"role", "content"})
_NO_REASON = ("null", "none")


class Answer:
    """The part of an answer received so far.

    Chunks may have any shape: anything outside the protocol counts as absent. An unstreamed answer
    is one chunk. `size` is the number of characters kept; `is_full` says that more came than is
    kept, and the rest is ignored. A call truncated by that is dropped. `thought` is the reasoning
    in the last chunk. `field` is the place of data that must be sent back with calls
    (`chat_thoughts`; "": none).
    """

    THINKS_ALOUD = True
    """True for a server that may send the whole answer as a thought, or leave calls in its text."""

    def __init__(self, field: str = "") -> None:
        self._field = field
        self._details: list[dict[str, Any]] = []
        self.finish = ""
        self.size = 0
        self.is_full = False
        self.thought = ""
        self.other: Mapping[str, Any] = {}  # the last object received in place of a chunk
        self._model = ""
        self._text = StringIO()  # a list of a million small pieces would take 80 MB
        self._reasoning = StringIO()
        self._tags = ThoughtFilter()
        self._has_tags = False
        self._has_refused = False
        self._calls = PartialCalls()
        self._number: object = None  # of the choice
        self._usage: Usage | None = None

    def add(self, chunk: object) -> str:
        """Add a chunk; return its text."""
        if type(chunk) is not PlainChunk:
            return self._add_other(chunk)
        (choice,) = chunk.choices
        self.thought = ""
        if not self._model and chunk.model:
            self._model = chunk.model[:LONGEST_NAME]
        if self._number is None:
            self._number = choice.index
        is_own = choice.index is None or choice.index == self._number
        return self._add_text(choice.delta.content) if is_own else ""

    def _add_other(self, chunk: object) -> str:
        fields = chunk if isinstance(chunk, dict) and "choices" in chunk else unwrap(chunk)
        if not self._model and (model := fields.get("model")):
            self._model = model[:LONGEST_NAME] if isinstance(model, str) else ""
        choices = fields.get("choices")
        if type(choices) is list and len(choices) == 1 and type(choices[0]) is dict:
            choice: Mapping[str, Any] = choices[0]
            may_report = fields.get("usage") or choice.get("usage") or "x_groq" in fields
            if choice.get("index") != self._number:
                choice = self._choice(fields)
        else:
            if "choices" not in fields:
                self.other = fields or self.other
            choice, may_report = self._choice(fields) if choices else {}, True
        if may_report and (usage := find_usage(fields)):
            self._usage = read_usage(usage, self._usage)
        reason = choice.get("finish_reason")
        if reason and isinstance(reason, str) and reason.strip().lower() not in _NO_REASON:
            self.finish = reason
        self.thought = ""
        delta = choice.get("delta")
        if type(delta) is not dict or not delta:
            delta = self._whole(choice)
        if not delta:
            return ""
        content = delta.get("content")
        if delta.keys() <= _ONLY_TEXT and (content is None or isinstance(content, str)):
            return self._add_text(content)  # the usual case
        return self._add_delta(delta)

    def _choice(self, chunk: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the choice that is the answer: the first of several."""
        for choice in choices_of(chunk):
            number = choice.get("index")
            if self._number is None and choice:
                self._number = number
            if choice and number in (self._number, None):
                return choice
        return {}

    def _whole(self, choice: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the content of a choice without a delta. A message after pieces repeats them."""
        if (message := choice.get("message")) and isinstance(message, dict):
            return {} if self.size else message
        return {"content": choice["text"]} if isinstance(choice.get("text"), str) else {}

    def _add_delta(self, delta: Mapping[str, Any]) -> str:
        for part in pieces_of(delta):
            self._add_call(part)
        text, reasoning = read_parts(delta.get("content"))
        reasoning += read_thoughts(delta)
        self._add_thought(reasoning)
        if self._field == chat_thoughts.DETAILS:
            self.size += chat_thoughts.add_details(self._details, delta.get(self._field))
            self.is_full |= self.size > MOST_CHARACTERS
        if refusal := get_string(delta, "refusal"):
            self._has_refused = True
        return self._add_text(text or refusal)

    def _add_thought(self, piece: str) -> None:
        if piece:
            self._reasoning.write(piece := self._clip(piece))
            self.thought += join_halves(piece)

    def _add_text(self, piece: object) -> str:
        if not (piece and isinstance(piece, str)):
            return ""
        if len(piece) > MOST_CHARACTERS - self.size:
            piece = self._clip(piece)
        else:
            self.size += len(piece)  # the usual case
        if self._tags.is_open:
            piece = self._tags.feed(piece)
            if self._tags.thought:
                self._has_tags = True
                self._reasoning.write(self._tags.thought)
                self.thought += join_halves(self._tags.thought)
        self._text.write(piece)
        return piece if piece.isascii() else join_halves(piece)

    def _clip(self, piece: str) -> str:
        """Return as much of a piece as there is room for."""
        room = MOST_CHARACTERS - self.size
        if len(piece) > room:
            piece, self.is_full = piece[:room], True
        self.size += len(piece)
        return piece

    def _add_call(self, part: Mapping[str, Any]) -> None:
        piece = Piece(part)
        call = self._calls.find(piece)
        if call is None:
            self.is_full = True
            return
        is_again = bool(piece.name and call.name)
        call.id = call.id or self._clip(piece.id)
        call.add_name(self._clip(piece.name))
        if self._field == chat_thoughts.SIGNATURES and (
            signed := as_mapping(part.get(self._field))
        ):
            self.size += len(str(signed))
            call.signature = None if self.size > MOST_CHARACTERS else signed
        kept = self._clip(piece.arguments)
        call.add_arguments(kept, is_again=is_again)
        call.is_cut |= len(kept) < len(piece.arguments)

    @property
    def text(self) -> str:
        """The answer's text, without thoughts in it."""
        text = join_halves(self._text.getvalue())
        return split_thoughts(text)[0] if may_have_marks(text) else text

    @property
    def has_begun(self) -> bool:
        """Return whether any output of the model has arrived."""
        return bool(self.size or self.finish or self._usage)

    @property
    def is_paused(self) -> bool:
        """Return whether it ended only to be sent back and continued."""
        return False

    @property
    def is_whole(self) -> bool:
        """Return whether the end has arrived: a finish reason, or the usage that follows it; or the
        answer is full."""
        return self.is_full or bool(self.finish) or self._usage is not None

    @property
    def _is_thought_alone(self) -> bool:
        """Return whether thoughts may be the answer: the whole answer came in the field of
        thoughts. Text in tags was a thought."""
        return self.THINKS_ALOUD and bool(self.finish) and not self._has_tags

    def reply(self, model: str) -> ModelReply:
        """Return the answer as a value; `model` is its name if the endpoint gave none."""
        whole = [call for call in self._calls.calls if call.name and not call.is_cut]
        calls = tuple(call.to_call() for call in whole)
        self._text.write(self._tags.finish())
        reasoning = join_halves(self._reasoning.getvalue() + self._tags.thought)
        text = join_halves(self._text.getvalue())
        if may_have_marks(text):
            text, thought = split_thoughts(text)
            reasoning += thought
            self._has_tags |= bool(thought)
        if self._has_tags and not text.strip():  # the tag that ended them has another name
            text, reasoning = _split_other(reasoning)
        finish = read_finish(self.finish, has_calls=bool(calls))
        if self._has_refused and finish == "complete":
            finish = "refused"
        is_thought = finish == "complete" and not text.strip() and self._is_thought_alone
        if is_thought:
            text, reasoning = reasoning, ""
        kept = ""
        if calls and not self.is_full:
            signatures = [call.signature for call in whole]
            kept = chat_thoughts.keep(self._field, reasoning, self._details, signatures)
        return ModelReply(
            text=text,
            tool_calls=calls,
            finish="length" if self.is_full else finish,
            model=join_halves(self._model) or model,
            usage=self._usage,
            reasoning=reasoning,
            thoughts=kept,
            is_bounded=self.is_full,
            is_thought=is_thought and bool(text),
        )


def _split_other(reasoning: str) -> tuple[str, str]:
    text, thought = split_thoughts(reasoning)
    return (text, thought) if thought else ("", reasoning)
