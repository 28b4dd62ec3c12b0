"""The content of a call to a hook, as its job's turn reads it; pure.

A template is the word of whoever made the job, and the body that of anybody. So the one is not
written into the other: the template stays as it is, and the values that it names in braces follow
it between marks, under these names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import orjson

from channels.message import clean_text
from memory.messages import mark_untrusted

_NAME = re.compile(r"\{([\w-]+(?:\.[\w-]+)*)\}")
WHOLE = "body"
"""The name of all that came, as text."""
LONGEST_VALUE, LONGEST = 4_000, 16_000
"""Characters of a value that a template names, and of the whole body."""


def fill(template: str, body: bytes, hook: str) -> str:
    """Return a template, and what the body has for the names in it ("{pull_request.title}"); where
    it names nothing, the whole body. In a list a number is a place, from 0 on."""
    names = [*dict.fromkeys(_NAME.findall(template))] or [WHOLE]
    text, tree = body.decode("utf-8", "replace"), _parse(body)
    values = [f"{name}: {_value(name, text, tree)}" for name in names]
    said = clean_text("\n".join(values))
    return f"{template}\n\n{mark_untrusted(said, f'hook {hook}')}"


def _parse(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except ValueError:
        return None


def _value(name: str, text: str, tree: object) -> str:
    if name == WHOLE:
        return _cut(text, LONGEST)
    found = _find(name.split("."), tree)
    if found is None:
        return "(nothing)"
    return _cut(found if isinstance(found, str) else orjson.dumps(found).decode(), LONGEST_VALUE)


def _find(path: Sequence[str], tree: object) -> object:
    """Return the value at a path; None where nothing does."""
    for step in path:
        if isinstance(tree, Mapping):
            tree = tree.get(step)
        elif isinstance(tree, list) and step.isdecimal() and int(step[:9]) < len(tree):
            tree = tree[int(step[:9])]
        else:
            return None
    return tree


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}… (cut; {len(text):,} characters came)"
