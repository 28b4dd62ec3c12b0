"""The answer in progress, as far as it exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

Json = Mapping[str, Any]


class StreamDraft(Struct):
    """The running turn, as far as it can be shown."""

    id: str = ""
    question: str = ""
    turn: str = ""
    _parts: list[dict[str, Any]] = field(default_factory=list)
    _kind: str = "text"
    _pieces: list[str] = field(default_factory=list)

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Texts, thoughts and tools in order of arrival."""
        self._flush_pieces()
        return self._parts

    def take(self, kind: str, data: Json) -> None:
        """Apply one event."""
        match kind:
            case "turn":
                self._begin(data["id"], data["question"], data["turn"])
            case "delta":
                self._add("text", data["text"])
            case "thought":
                self._add("thought", data["text"])
            case "restart":
                self._drop_text()
            case "tool" if data["state"] == "running":
                self.parts.append(dict(data))
            case "tool":
                self._end_tool(data)
            case "branch":
                self._begin()  # text written there is not shown here
            case "done" if data["id"] == self.id:
                self._begin()

    def _begin(self, message: str = "", question: str = "", turn: str = "") -> None:
        self.id, self.question, self.turn = message, question, turn
        self._parts, self._pieces = [], []

    def _add(self, kind: str, text: str) -> None:
        if not text:
            return
        if kind != self._kind:
            self._flush_pieces()
            self._kind = kind
        self._pieces.append(text)

    def _flush_pieces(self) -> None:
        if self._pieces:
            if not self._parts or self._kind not in self._parts[-1]:
                self._parts.append({self._kind: ""})
            self._parts[-1][self._kind] += "".join(self._pieces)
            self._pieces.clear()

    def _drop_text(self) -> None:
        while self.parts and "tool" not in self.parts[-1]:
            self.parts.pop()

    def _end_tool(self, data: Json) -> None:
        running = (p for p in self.parts if p.get("tool") == data["tool"])
        next((p for p in running if p["state"] == "running"), {}).update(data)
