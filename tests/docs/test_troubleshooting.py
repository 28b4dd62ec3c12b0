"""Tests of the page of messages: each quoted message is one of the bot's, word for word."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
QUOTED = re.compile(r"^\| “(.+?)” \| (.+) \| (.+) \|$", re.MULTILINE)
SENTENCE = re.compile(r'^msgid ((?:".*"\n)+)', re.MULTILINE)
FOLDERS = ("bot", "memory/record", "plugins", "channels/web")
"""Code with sentences for the command line only, which are not in the catalogue."""

REFUSALS = {
    "bot/data_folder.py": {"FolderError"},
    "channels/web/channel.py": {"ListenError"},
    "bot/settings/schema.py": {"_fault"},
    "agent/models/failures.py": {"_refusal_sentence"},
    "agent/models/embedded.py": {"ModelUnreachable"},
    "memory/record/engines/soundness.py": {"check_length"},
    "memory/record/engines/sqlite.py": {"_explain_opening"},
}
"""Functions and exceptions, by their files, with the error sentences that new users see first."""


def texts() -> Iterator[str]:
    """Yield the sentences of the catalogue, and those of the command line with {} for each
    value."""
    catalogue = (ROOT / "channels" / "catalogue" / "de.po").read_text("utf-8")
    for lines in SENTENCE.findall(catalogue):
        yield "".join(ast.literal_eval(line) for line in lines.splitlines())
    for path in (ROOT / "main.py", *(p for f in FOLDERS for p in (ROOT / f).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def is_said(message: str, known: list[str]) -> bool:
    """Return whether a sentence contains all pieces between the … of this message, in order."""
    pieces = [piece.strip() for piece in message.split("…") if piece.strip()]

    def has_all(text: str) -> bool:
        at = 0
        for piece in pieces:
            at = text.find(piece, at) + len(piece)
            if at < len(piece):
                return False
        return True

    return any(has_all(text) for text in known)


def refusals_of_a_start() -> Iterator[str]:
    """Yield the sentences of failed starts, and of models that do not answer."""
    for name, makers in REFUSALS.items():
        tree = ast.parse((ROOT / name).read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in makers:
                yield from (as_text(one.value) for one in ast.walk(node) if is_return(one))
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in makers:
                yield from map(as_text, node.args[:1])


def is_return(node: ast.AST) -> TypeGuard[ast.Return]:
    return isinstance(node, ast.Return)


def as_text(node: ast.AST | None) -> str:
    """Return a sentence in the code, with … for its values; "" for another expression."""
    if isinstance(node, ast.Call):  # an error that is returned
        return as_text(next(iter(node.args), None))
    if isinstance(node, ast.Constant):
        return str(node.value)
    values = node.values if isinstance(node, ast.JoinedStr) else ()
    return "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in values)


def test_each_refusal_of_a_start_or_of_a_model_is_on_the_page() -> None:
    told = [message for message, *_ in QUOTED.findall(PAGE.read_text("utf-8"))]
    refusals = [text for text in refusals_of_a_start() if text]
    assert len(refusals) > 16
    assert not [text for text in refusals if not any(is_said(one, [text]) for one in told)]


def test_each_message_is_one_of_the_bots_with_cause_and_remedy() -> None:
    told = QUOTED.findall(PAGE.read_text("utf-8"))
    assert len(told) > 40
    known = list(dict.fromkeys(text for text in texts() if " " in text))
    assert not [message for message, *_ in told if not is_said(message, known)]
    assert not is_said("The teapot … is empty", known)
