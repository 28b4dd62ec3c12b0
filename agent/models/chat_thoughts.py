"""The thoughts that some chat-completions endpoints require with a model's calls, though the
protocol has no place for them: each in a field of its own, unchanged, or the next request is
refused.

`Provider.thoughts` names the field: DeepSeek, Kimi and GLM require the thoughts themselves
(`reasoning_content`), OpenRouter a list signed by the provider behind it, MiniMax one of its
thoughts (`reasoning_details`), and Gemini a signature with each call (`extra_content`).

Also thoughts in the text of an answer, from servers without a parser for their model (Ollama, LM
Studio, vLLM): `<think>…</think>` and similar tags. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from agent.models.shapes import as_mapping, read_json
from agent.models.spoken_calls import is_code, without_calls
from memory.patterns import lazy

Json = dict[str, Any]

TEXT, DETAILS, SIGNATURES = "reasoning_content", "reasoning_details", "extra_content"
UNRECORDED = "(not recorded)"
"""The text in place of unknown thoughts."""
_UNSIGNED: Json = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""The signature that Gemini accepts for another model's calls."""
_WHOLE = "MiniMax"
"""The format of details whose chunks may each contain the whole text so far, as the samples of its
documentation assume, instead of pieces."""
_GROWING = ("text", "summary", "data")
_MOST_DETAILS = 2_000


def add_details(details: list[Json], more: object) -> int:
    """Add a chunk's details to the earlier ones; return the number of characters added. Parts of
    the same detail come in pieces; a detail with an id of its own is separate, whatever its index
    (Roo-Code#10694)."""
    size = 0
    for piece in more if isinstance(more, list) else ():
        if not isinstance(piece, dict) or len(details) >= _MOST_DETAILS:
            continue
        size += sum(len(value) for value in piece.values() if isinstance(value, str))
        last = details[-1] if details else {}
        if last and all(last.get(name) == piece.get(name) for name in ("type", "index", "id")):
            known = {name: value for name, value in piece.items() if value is not None}
            for name in _GROWING:
                text, before = known.get(name), last.get(name)
                if isinstance(text, str) and isinstance(before, str):
                    known[name] = text if _is_whole(piece, before, text) else before + text
            last.update(known)
        else:
            details.append(dict(piece))
    return size


def _is_whole(piece: Mapping[str, Any], before: str, text: str) -> bool:
    is_so_sent = str(piece.get("format")).startswith(_WHOLE)
    return is_so_sent and bool(before) and text != before and text.startswith(before)


def keep(field: str, text: str, details: Sequence[Json], signatures: Sequence[object]) -> str:
    """Return the thoughts to be sent back, in the form of `Message.thoughts`; "" without any."""
    kept = {TEXT: text, DETAILS: list(details), SIGNATURES: list(signatures)}.get(field)
    if not kept or (field == SIGNATURES and not any(signatures)):
        return ""
    return orjson.dumps({field: kept}).decode()


def restore_thoughts(
    message: Mapping[str, Any], field: str, thoughts: str, reasoning: str
) -> Mapping[str, Any]:
    """Return a message that calls tools with its kept thoughts; those of another model's protocol
    are ignored. A provider that requires the thoughts themselves gets the `reasoning` that was
    shown, or a placeholder: an empty text counts as missing (Kimi K2: opencode#10996)."""
    kept = as_mapping(read_json(thoughts)).get(field)
    if field == TEXT:
        text = kept if isinstance(kept, str) and kept.strip() else reasoning
        return {**message, TEXT: text if text.strip() else UNRECORDED}
    if field == DETAILS:
        return {**message, DETAILS: kept} if isinstance(kept, list) else message
    signed = kept if isinstance(kept, list) else []
    calls = [dict(call) for call in message["tool_calls"]]
    for call, signature in zip(calls, signed or [_UNSIGNED], strict=False):
        if isinstance(signature, dict):
            call[SIGNATURES] = signature
    return {**message, "tool_calls": calls}


_NAMES = (
    *("think", "thinking", "thought", "thoughts", "reasoning", "seed:think", "mm:think"),
    *("antml:thinking", "reasoning_scratchpad", "longcat_think"),
)
_PAIRS: dict[str, str] = {f"<{name}>": f"</{name}>" for name in _NAMES} | {
    "[think]": "[/think]",  # Mistral
    "◁think▷": "◁/think▷",  # Kimi VL
    "<|start_thinking|>": "<|end_thinking|>",  # Cohere
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|think|>": "<|/think|>",
    **{
        f"{start}<|channel|>{channel}<|message|>": "<|end|>"  # gpt-oss
        for start in ("", "<|start|>assistant")
        for channel in ("analysis", "commentary")
    },
    "<|channel>thought": "<channel|>",  # Gemma 4
}
"""Opening and closing tags of thoughts, in lower case."""
_WRAPPERS = (
    *("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>"),
    *("<|start_response|>", "<|begin_of_solution|>"),
)
"""Tags that begin an answer without being part of it."""
_OPENERS = (*_PAIRS, *_WRAPPERS)
_LONGEST_TAG = max(map(len, _OPENERS))
_TAGS = "|".join(map(re.escape, _NAMES))
_ENDS = "|".join(
    re.escape(end) for end in {*_PAIRS.values()} if end[:2] != "</" and end != "<|end|>"
)
_CLOSES = lazy(
    rf"(?:\A|\n)(?:(?:[^\n`]*[^\s`\"'“(])?</(?:{_TAGS})>[^\S\n]*"
    rf"|(?:[^\n`]*?[^\s`\"'“(])?(?:{_ENDS})[^\S\n]*"
    rf"|[^\n`]*(?:</(?:{_TAGS})>|{_ENDS})[^\S\n]*(?=\n|\Z))",
    re.IGNORECASE,
)
"""The end of thoughts, at the end of a word or a line; within a sentence the tag is only
mentioned."""
_OPENING = lazy("|".join(map(re.escape, _PAIRS)), re.IGNORECASE)
_CLOSING = lazy(rf"(?:</\w+:?\w*>|{_ENDS})[^\S\n]*\Z", re.IGNORECASE)
_UNMARKED = lazy(r"\Aanalysis(?=[A-Z])(.*?)assistantfinal(?=\S)", re.DOTALL)
"""The form of gpt-oss from a server that removed only the marks."""
_STOPS = lazy(
    r"(?:<\|(?:end|return|im_end|eot_id|eom_id|endoftext|end_of_text|end_response|end_of_turn"
    r"|end_of_solution)\|>|<｜end▁of▁sentence｜>|<end_of_turn>|\[/?INST\]|</(s|answer)>)\Z",
    re.IGNORECASE,
)
"""Tokens that end an answer, from servers that forward them."""
_LONGEST_STOP, _MOST_STOPS = 32, 4
_MARKS = ("</", "[/", "◁/", "|>", "analysis", "<end_of_turn>", "｜>", "INST]")
_MOST_BLANKS = 1_000  # characters in front of a tag


class ThoughtFilter:
    """A filter that separates thoughts from an answer's text, in pieces of any size; `thought` is
    the reasoning in the last piece. Only an answer that begins with a tag has thoughts."""

    def __init__(self) -> None:
        self._held: str | None = ""  # the beginning, until it is recognised; then None
        self._end = ""  # the tag that ends the thoughts; "" outside of them
        self._tail = ""  # a possible beginning of that tag
        self._has_thought = False
        self.thought = ""
        self.is_open = True  # until no more thoughts can come: then each piece is the answer's

    def feed(self, piece: str) -> str:
        """Return the part of the answer that can be shown now."""
        self.thought = ""
        text = self._feed(piece)
        self.is_open = self._held is not None or bool(self._end) or bool(self.thought)
        return text

    def _feed(self, piece: str) -> str:
        if self._held is None and not self._end:
            return piece
        if not self._end:
            return self._begin(piece)
        text = self._tail + piece
        place = text.lower().find(self._end)
        if place < 0:
            ends = (
                n for n in range(len(self._end) - 1, 0, -1) if text[-n:].lower() == self._end[:n]
            )
            known = len(text) - next(ends, 0)
            self.thought += text[:known]
            self._tail = text[known:]
            return ""
        self.thought += text[:place]
        rest = text[place + len(self._end) :]
        self._end, self._tail, self._held, self._has_thought = "", "", "", True
        return self._begin(rest)

    def _begin(self, piece: str) -> str:
        """Handle a possible beginning of thoughts, or of an answer after them."""
        self._held = (self._held or "") + piece
        begun = self._held.lstrip()
        lowered = begun[:_LONGEST_TAG].lower()
        known = (*_OPENERS, "<answer>") if self._has_thought else _OPENERS
        opener = max((tag for tag in known if lowered.startswith(tag)), key=len, default="")
        if opener:
            rest = begun[len(opener) :]
            self._end, self._held = _PAIRS.get(opener, ""), None if opener in _PAIRS else ""
            self._has_thought = True
            return self._feed(rest) if self._end else self._begin(rest)
        is_short = len(self._held) < _MOST_BLANKS or self._has_thought
        if is_short and any(tag.startswith(lowered) for tag in known):
            return ""
        text = begun if self._has_thought else self._held
        self._held = None
        return text

    def finish(self) -> str:
        """Return the held text, at the end."""
        held, self._held = self._held or "", None
        self.thought, self._tail = self._tail, ""
        return held.lstrip() if self._has_thought else held


def may_have_marks(text: str) -> bool:
    """Return whether a text may contain marks to be removed."""
    return any(mark in text for mark in _MARKS)


def split_thoughts(text: str) -> tuple[str, str]:
    """Return an answer without thoughts that lack an opening tag (the model's template contained
    it) and without its end token; and these thoughts."""
    text = _without_stops(text)
    if unmarked := _UNMARKED.match(text):
        return text[unmarked.end() :], unmarked[1].strip()
    found = _CLOSES.search(text)
    if found is None or is_code(text, found.end()) or _OPENING.search(text, 0, found.end()):
        return text, ""
    end = found.end()
    return text[end:].lstrip(), _CLOSING.sub("", text[:end]).strip()


def _without_stops(text: str) -> str:
    for _ in range(_MOST_STOPS):
        bare = text.rstrip()
        found = _STOPS.search(bare, max(0, len(bare) - _LONGEST_STOP))
        if found is None or (found[1] and f"<{found[1]}>" in bare):
            break
        if is_code(bare, found.start()):
            break
        text = bare[: found.start()].rstrip()
    return text


def without_markup(text: str) -> str:
    """Return a text without thoughts and without calls of any tools."""
    return without_calls(split_thoughts(text)[0] if may_have_marks(text) else text)
