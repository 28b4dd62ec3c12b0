"""Thoughts and calls in the text of an answer, where a server has no parser for its model (Ollama,
LM Studio, vLLM): `<think>…</think>`, and `<tool_call>{…}</tool_call>`. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from uuid import uuid4

import orjson

from memory.messages import ToolCall

_OPENS = re.compile(r"\s*<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSES = re.compile(
    r"(?:\A|\n)(?:(?:[^\n`]*[^\s`\"'“(])?</(?:think|thinking|thought|reasoning)>[^\S\n]*"
    r"|[^\n`]*</(?:think|thinking|thought|reasoning)>[^\S\n]*(?=\n|\Z))",
    re.IGNORECASE,
)
"""The end of thoughts, which ends a word or a line; in a sentence it is only spoken of."""
_CALL = re.compile(
    r"^[^\S\n]*<(tool_call|function_call)>\s*(\{.*?\})\s*(?:</\1>|\Z)",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_LONGEST_TAG = len("<reasoning>")
_MOST_BLANKS = 1_000  # characters in front of a tag
_LONGEST_TEXT, _MOST_CALLS = 200_000, 100  # of a text in which calls are looked for
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


class ThoughtFilter:
    """Takes an answer's text in pieces of any size, and gives back what is answer of it; `thought`
    is what the last piece brought of thoughts. Only an answer that begins with the tag has them."""

    def __init__(self) -> None:
        self._held: str | None = ""  # the beginning, until it is known; None from then on
        self._end = ""  # the tag that ends the thoughts; "" outside of them
        self._tail = ""  # what may be the beginning of that tag
        self._is_first = False  # whether nothing of the answer was given back behind thoughts
        self.thought = ""

    def feed(self, piece: str) -> str:
        """Return what of the answer can be shown now."""
        self.thought = ""
        if self._held is not None:
            self._held += piece
            found = _OPENS.match(self._held)
            if found is None:
                begun = self._held.lstrip().lower()
                is_short = len(begun) < _LONGEST_TAG and len(self._held) < _MOST_BLANKS
                if is_short and any(t.startswith(begun) for t in _TAGS):
                    return ""
                piece, self._held = self._held, None
                return piece
            self._end = f"</{found[1].lower()}>"
            piece, self._held = self._held[found.end() :], None
        if not self._end:
            if self._is_first:
                piece = piece.lstrip()
                self._is_first = not piece
            return piece
        text = self._tail + piece
        place = text.lower().find(self._end)
        if place < 0:
            ends = (n for n in range(len(self._end) - 1, 0, -1) if _ends_in(text, self._end[:n]))
            known = len(text) - next(ends, 0)
            self.thought, self._tail = text[:known], text[known:]
            return ""
        self.thought, rest = text[:place], text[place + len(self._end) :].lstrip()
        self._end = self._tail = ""
        self._is_first = not rest
        return rest

    def finish(self) -> str:
        """Return what was held back, at the end."""
        held, self._held = self._held or "", None
        self.thought, self._tail = self._tail, ""
        return held


def _ends_in(text: str, tag: str) -> bool:
    return text[-len(tag) :].lower() == tag


_TAGS = ("<think>", "<thinking>", "<thought>", "<reasoning>")


_OPENING = re.compile(r"<(?:think|thinking|thought|reasoning)>", re.IGNORECASE)


def _is_code(text: str, place: int) -> bool:
    return len(_FENCE.findall(text, 0, place)) % 2 == 1


def split_thoughts(text: str) -> tuple[str, str]:
    """Return an answer without thoughts whose beginning was not marked (the template of the model
    had begun them), and these."""
    found = _CLOSES.search(text)
    if found is None or _is_code(text, found.end()) or _OPENING.search(text, 0, found.end()):
        return text, ""
    end = found.end()
    thought = re.sub(r"</\w+>[^\S\n]*\Z", "", text[:end])
    return text[end:].lstrip(), thought.strip()


def lift_calls(text: str, names: Collection[str]) -> tuple[str, tuple[ToolCall, ...]]:
    """Return a text without calls of these tools that stand in it as text, and the calls; what is
    in a fence is shown, and is no call."""
    calls: list[ToolCall] = []

    def take(found: re.Match[str]) -> str:
        if _is_code(text, found.start()):
            return found[0]
        try:
            wanted = orjson.loads(found[2])
        except ValueError:
            return found[0]
        name, arguments = wanted.get("name"), wanted.get("arguments", wanted.get("parameters", {}))
        if name not in names or not isinstance(arguments, dict | str):
            return found[0]
        said = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
        calls.append(ToolCall(f"call_{uuid4().hex[:16]}", name, said))
        return ""

    if not _may_have_calls(text):
        return text, ()
    rest = _CALL.sub(take, text)
    return (rest.strip() if calls else text), tuple(calls)


def _may_have_calls(text: str) -> bool:
    tags = text.lower().count("_call>") if len(text) <= _LONGEST_TEXT else 0
    return 0 < tags <= 2 * _MOST_CALLS


def without_markup(text: str) -> str:
    """Return a text without thoughts and calls, of whichever tools."""
    text = split_thoughts(text)[0] if "</" in text else text
    return _CALL.sub("", text) if _may_have_calls(text) else text
