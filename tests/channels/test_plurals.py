"""Tests that a sentence with a number in it reads right where the number is one: there is another
sentence for that, or the number is never one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from channels.language import list_sentences

ROOT = Path(__file__).parents[2]
NOUNS = (
    *("branch", "call", "change", "character", "chat", "command", "compaction", "conversation"),
    *("day", "entry", "file", "hit", "hour", "job", "line", "message", "minute", "model", "page"),
    *("overflow", "part", "picture", "place", "question", "reminder", "reply", "request", "result"),
    *("rule", "second", "section", "server", "session", "step", "summary", "time", "tool", "turn"),
    *("version", "week", "word"),
)


def plural(noun: str) -> str:
    if noun.endswith("y") and noun not in ("day",):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"


SINGULAR = {plural(noun): noun for noun in NOUNS}
COUNTED = re.compile(
    r"\{(\w+)\}\**(?: of your| (?:more|older|other|long|file|daily|remembered))?\**"
    rf" ({'|'.join(SINGULAR)})\b(?! (?:off after|here|from now))"
)
AT_LEAST_TWO = (
    "every {n} ",  # "every day" has words of its own
    "takes no more requests for now",  # smaller units are said up to two of the larger
    "for {left} more hours",  # two are the least
    "{n} days ago",  # "yesterday"
    "{turns} turns will be over",
    "{turns} turns were over",  # the running one, and one that can be removed
    "a tool result of an earlier turn was over",
    "it adds {n} lines; at most",
    " ({n} times)",
    ", {n} times: {said}",
    "restored the last {n} turns",  # three at least
    "The context keeps the last {most} turns",  # said of the default
    "{name}: {n} models",  # one is named
    "for {calls} calls",  # "1 call" stands in a sentence of its own
    "crashed {n} times",
    "  … {n} more lines",
    " ({shown} of {total} lines)",
    "within {minutes} minutes",
    "{characters} characters",
    "{n} summaries are still being written",  # "1 summary" has its own
)
A_LARGE_LIMIT = (
    "A message can have {files} files",
    "Up to {files} files",
    "Your message has {n} files",
    "the memory holds {n} lines",
    "{lines} lines are read",
    "{most} branches, each",
    "{most} calls in a row",
    "of your messages",
    "of your commands",
    "rules of yours wait for a yes already",
    "did not answer within {seconds} seconds",
    "{many_calls} calls, however full",
)


def pairs() -> Iterator[tuple[str, str]]:
    """The sentences between which the code chooses by a number."""
    for layer in ("bot", "channels", "plugins"):
        for path in (ROOT / layer).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
                if isinstance(node, ast.Call) and name == "number_of" and len(node.args) == 3:
                    one, many = (getattr(part, "value", "") for part in node.args[1:])
                    yield str(one), str(many)


MANY = {many: one for one, many in pairs()}
SAID = frozenset(list_sentences())
OF_LAYERS_BELOW = {
    "I stopped after {steps} steps": "I stopped after one step",
    "only the first {most} calls were run": "only the first call was run",
    "fill the limit of {count} turns": "fills the limit of one turn",
    "has room for {n} turns": "has room for one turn",
    "{n} turns stay": "one turn stays",
    " of {most} turns": " of 1 turn",
    "{n} commands found": "One command found",
    "{never} of {all} tools never": "The only tool was never",
}
"""Sentences of the layers that know no language, and of the page."""


def has_words_for_one(text: str, found: re.Match[str]) -> bool:
    one = f"{text[: found.start(2)]}{SINGULAR[found[2]]}{text[found.end(2) :]}"
    if one in SAID or text in MANY:
        return True
    known = [single for many, single in OF_LAYERS_BELOW.items() if many in text]
    return any(single in other for single in known for other in SAID)


@pytest.mark.parametrize("text", sorted(filter(COUNTED.search, SAID)))
def test_a_sentence_with_a_number_has_words_for_one(text: str) -> None:
    for found in COUNTED.finditer(text):
        is_many = any(known in text for known in (*AT_LEAST_TWO, *A_LARGE_LIMIT))
        assert is_many or has_words_for_one(text, found), found[0]


def test_the_sentence_for_one_has_no_plural() -> None:
    wrong = [one for one in MANY.values() if re.search(rf"\{{n\}} ({'|'.join(SINGULAR)})\b", one)]
    assert wrong == []


def test_no_exception_is_left_over() -> None:
    for known in (*AT_LEAST_TWO, *A_LARGE_LIMIT, *OF_LAYERS_BELOW):
        assert any(known in text for text in SAID), known
