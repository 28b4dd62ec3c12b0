"""Messages and tool calls, as frozen values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from mimetypes import MimeTypes
from typing import Any, Literal

from msgspec import Struct, field

Role = Literal["user", "assistant", "tool", "note"]
"""The role of a message. A note is from the bot to the model: by a hook rule, or after a
restart."""
Mark = Literal["", "stopped", "failed", "steps"]
"""The reason for which a turn's last message is not the model's own ending."""

SEARCHES = frozenset({"memory_search", "context_search"})
"""Tools that return earlier messages. Their results are excluded from searches; otherwise each
search would find all earlier results again."""
TOOL_SEARCH, USE_TOOL = "tool_search", "use_tool"
"""The two tools that replace all others if these are only named (`tools.offer: lean`)."""
UNANSWERED = "(This was not answered.)"
FAILED = "(This failed, and who asked was told so. It is answered only if it is asked again.)"
"""The text sent to the model for a reply that was interrupted before its first word. Strict
endpoints require alternating roles, and an old question must not be answered late."""
PICTURE = "[image]"
"""The text of a message without words, and the replacement of a picture that is not sent."""
PICTURE_TOKENS = 1_000
"""The tokens counted for a picture: providers bill a photo as 765 to 1,600 tokens."""
ENDINGS = MimeTypes()  # Python's own table, the same on every machine


def format_truncation(file: str = "") -> str:
    """Return AgentScope's marker at the end of a tool result that was truncated on arrival; `file`
    is the file with the whole, as the model's tools name it."""
    where = (
        f" You can refer to the file in '{file}' for the truncated content if needed."
        if file
        else ""
    )
    return (
        "<<<TRUNCATED>>>\n<system-reminder>The remaining content has been omitted for limited "
        f"context.{where}</system-reminder>"
    )


def mark_text(text: str, mark: str, about: str = "") -> str:
    """Return a text for the model between marks of this name, which the text itself can neither
    close nor open, in any spelling; `about` is added to the opening mark."""
    opening = re.compile(rf"<(?=[^\w<>]*{mark})", re.IGNORECASE)
    return f"<{mark}{about}>\n{opening.sub('&lt;', text)}\n</{mark}>"


def mark_untrusted(text: str, source: str) -> str:
    """Return a text from outside, marked for the model."""
    return mark_text(text, "untrusted", f' source="{source}"')


CUT_OFF = "…[cut off]"
"""The end of a call's arguments that the model did not complete."""


class ToolCall(Struct, frozen=True):
    """A model's request to run a tool. `arguments` is JSON text exactly as the model wrote it; in a
    truncated call it ends in CUT_OFF."""

    id: str
    name: str
    arguments: str

    @property
    def is_cut(self) -> bool:
        """Return whether the model's answer ended before the call did."""
        return self.arguments.endswith(CUT_OFF)

    def is_like(self, other: ToolCall) -> bool:
        """Return whether it requests the same, however the arguments are written."""
        return self.name == other.name and self._meaning == other._meaning

    @property
    def _meaning(self) -> str:
        try:
            return json.dumps(self.parse(), sort_keys=True)
        except (ValueError, RecursionError):
            return self.arguments

    def parse(self) -> dict[str, Any]:
        """Return the arguments as an object. Raises ValueError with a sentence if they are not
        one."""
        if self.is_cut:
            raise ValueError(
                "the call was cut off by the length limit of an answer; send less at once, for "
                "example in several calls"
            )
        try:
            value = json.loads(self.arguments or "{}", parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the arguments are not valid JSON ({error})") from None
        if not isinstance(value, dict):
            raise ValueError(f"the arguments must be a JSON object, not {type(value).__name__}")
        return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


class Image(Struct, frozen=True):
    """A picture of a message; its bytes are stored once, in a file named by their hash."""

    sha256: str
    media_type: str

    @property
    def file(self) -> str:
        """The file's name in its audience's folder (AgentScope's layout)."""
        ending = ENDINGS.guess_extension(self.media_type, strict=False) or ".bin"
        return f"data/{self.sha256}{ending}"


class RequestExtras(Struct, frozen=True):
    """The parts of messages that OpenAI's protocol lacks: by the id of the first call, the thoughts
    of calls as they must be sent back (`Message.thoughts`), and as readable text
    (`Message.reasoning`); and the ids of failed calls."""

    thoughts: Mapping[str, str] = field(default_factory=dict)
    errors: frozenset[str] = frozenset()
    reasoning: Mapping[str, str] = field(default_factory=dict)


NOTHING_BESIDE = RequestExtras()


class Message(Struct, frozen=True):
    """A message of the transcript. System prompts are not messages: they belong to the
    `PromptPrefix`.

    `call_id` and `tool` are set on tool results, `speaker` on user messages in chats with several
    people, `reasoning` if the model returned its thoughts, `mark` on a turn's last message. `kept`
    is the number of characters of a long tool result that the model sees (0: all). The whole is in
    the transcript, and in the file `offloaded` ("": none). `terse` is a line for the activity log,
    by the model about its own reply, or by a sub-agent about its work; it is not part of the text.
    `images` and `files` are in the audience's folder, by their hashes. The text names the files;
    their bytes are sent to no model. `is_untrusted` marks a tool result from outside: from the
    network, or from a command. `is_tainted` marks messages that were written with such text in
    view, or derived from it, and may repeat it. `notice` is the bot's note on the end of a turn,
    which the person sees and the model never does.
    """

    role: Role
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    tool: str = ""
    speaker: str = ""
    reasoning: str = ""
    is_error: bool = False
    mark: Mark = ""
    kept: int = 0
    offloaded: str = ""
    terse: str = ""
    images: tuple[Image, ...] = ()
    files: tuple[str, ...] = ()
    is_untrusted: bool = False
    is_tainted: bool = False
    notice: str = ""
    thoughts: str = ""

    @property
    def id(self) -> str:
        """The id of the answered call, as in AgentScope's `ToolResultBlock`."""
        return self.call_id

    @property
    def name(self) -> str:
        """The tool, as in `ToolResultBlock`."""
        return self.tool

    @property
    def output(self) -> str:
        """The whole result, as in `ToolResultBlock`."""
        return self.text

    @property
    def full_text(self) -> str:
        """The text as the person sees it: with the bot's notice."""
        return "\n\n".join(filter(None, (self.text, self.notice and f"({self.notice})")))

    @property
    def has_outside(self) -> bool:
        """Return whether it may contain text from outside."""
        return self.is_untrusted or self.is_tainted

    @property
    def kept_text(self) -> str:
        """The part of the text that the model sees."""
        return self.text[: self.kept] if self.kept else self.text

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the texts that may be long, as the model sees them: the text, and the calls'
        arguments."""
        return (self.kept_text, *(call.arguments for call in self.tool_calls))

    @property
    def shown_text(self) -> str:
        """The text as the model sees it, without the marks of untrusted text."""
        return f"{self.kept_text}\n{format_truncation(self.offloaded)}" if self.kept else self.text

    @property
    def sent_text(self) -> str:
        """The text as the model sees it."""
        shown = self.shown_text if self.kept else self.text
        return mark_untrusted(shown, self.tool) if self.is_untrusted else shown

    @property
    def unanswered_text(self) -> str:
        """The text sent for a reply that was interrupted before its first word; "" for others."""
        is_unsaid = self.role == "assistant" and self.mark and not (self.text or self.tool_calls)
        return (FAILED if self.mark == "failed" else UNANSWERED) if is_unsaid else ""

    @property
    def is_final(self) -> bool:
        """Return whether this message ends its turn: an assistant's message without tool calls."""
        return self.role == "assistant" and not self.tool_calls

    def to_wire(self) -> dict[str, Any]:
        """Return the message in the format of OpenAI's chat protocol. Pictures are only named, in
        `images`, until the request is made (`agent/pictures.py`)."""
        if self.role == "tool":
            return {"role": "tool", "tool_call_id": self.call_id, "content": self.sent_text}
        if self.role == "note":
            return {"role": "user", "content": mark_text(self.text, "system-reminder")}
        if self.role == "user":
            text = f"{self.speaker}: {self.text}" if self.speaker else self.text
            images = {"images": [image.file for image in self.images]} if self.images else {}
            return {"role": "user", "content": text, **images}
        if not self.tool_calls:
            return {"role": self.role, "content": self.text or self.unanswered_text}
        return {
            "role": "assistant",
            "content": self.text or None,
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": _wire_arguments(call)},
                }
                for call in self.tool_calls
            ],
        }


def _wire_arguments(call: ToolCall) -> str:
    # Strict endpoints refuse a history with malformed arguments. The transcript keeps the original,
    # and the call's result has told the model about the error.
    try:
        call.parse()
    except ValueError:
        return "{}"
    return call.arguments or "{}"
