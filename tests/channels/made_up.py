"""A made-up language in which each marked text is in ⟦…⟧: text outside of these is untranslated."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from bot.delivery import Languages
from channels import language

NAMES = re.compile(
    r"`[^`]*`|```.*?```|https?://\S+|/[a-z]+(?: [a-z]+)*(?: [A-Z]+)*|--[a-z]+|\b[\w.]+_\w+\b"
    r"|\*\*[^*⟦]*\*\*|“[^“”⟦]*”|^> .*$|'[^']*'|\"[^\"]*\"|\{.*?\}|\[[^\]]*\]",
    re.DOTALL | re.MULTILINE,
)
"""Code, addresses, commands, settings, and quoted text of the model or a person."""
EXCEPTIONS: Mapping[str, str] = {
    "the system prompt, which is the model's own text": r"You are Parley[^|]*",
    "names of commands and their arguments": r"\b(?:KEY|VALUE|NAME|COMMAND|GROUP|WORDS|Parley)\b",
    "names of models, tools, plugins and strategies": (
        r"\b(?:gpt[\w.-]*|scripted|embedded|trim|slim|full|truncate|summarize|structured|stubs|auto"
        r"|agents|basics|branches|btw|config|context|files|forget|help|link|memory|people|rules"
        r"|session|shell|usage|variants|calculate|delegate|glob|grep|pipe|web|terminal|SHA|JSON)\b"
    ),
    "what the test says, and what the model answers it": (
        r"\b(?:Hello|again|More|And|more|Plans|Other|Something|else|What|Ann|likes|tea|hello|zebra"
        r"|re|ls|nonsense)\b"
    ),
}


def speak_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the language qps, into which every marked text is translated."""

    class Marked(dict[str, str]):
        def get(self, text: str, default: object = None) -> str:
            return f"⟦{text}⟧" if text.strip() else text

    monkeypatch.setattr(language, "words_of", lambda name: Marked())
    monkeypatch.setattr(Languages, "of", lambda self, address, conversation="": "qps")
    shapes = [(shape, f"⟦{_places(shape)}⟧") for shape, _text in language._shapes_of("de")]
    lower = {text: f"⟦{text}⟧" for text in language._lower_texts_of("de")}
    monkeypatch.setattr(language, "_shapes_of", lambda name: shapes)
    monkeypatch.setattr(language, "_lower_texts_of", lambda name: lower)


def _places(shape: re.Pattern[str]) -> str:
    return " ".join(f"{{{name}}}" for name in shape.groupindex)


def unmarked(text: str) -> list[str]:
    """Return the words of a text outside of marks, except names and other exceptions."""
    left, depth = [], 0
    for character in NAMES.sub(" ", text):
        depth += (character == "⟦") - (character == "⟧")
        left.append(" " if depth or character == "⟧" else character)
    rest = "".join(left)
    for pattern in EXCEPTIONS.values():
        rest = re.sub(pattern, " ", rest, flags=re.DOTALL)
    return re.findall(r"(?<![\w.])[A-Za-z]{3,}(?: [A-Za-z]+)*", rest)
