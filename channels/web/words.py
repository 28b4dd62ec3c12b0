"""The page's own words: which there are, and what they are in a browser's language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from channels.language import ENGLISH, choose, words_of
from channels.web.operations import as_json

PAGE = Path(__file__).parent / "page"
_MARKED = re.compile(r"\b(?:t|pieces|brief)\(\s*\"((?:[^\"\\]|\\.)+)\"")
_TEXT = re.compile(r">([^<>]*[A-Za-z]{2}[^<>]*)<")
_ATTRIBUTE = re.compile(r"\b(?:aria-label|placeholder|title|data-away)=\"([^\"]+)\"")
_NAMES = frozenset({"Parley"})


def list_words() -> Iterator[str]:
    """Every English text of the page: in its HTML, and what its scripts say by `t` or in pieces."""
    html = (PAGE / "index.html").read_text("utf-8")
    body = html[html.index("<body") :]
    for found in (*_TEXT.findall(body), *_ATTRIBUTE.findall(body)):
        text = unescape(" ".join(found.split()))
        if text not in _NAMES:
            yield text
    for path in sorted(PAGE.glob("*.js")):
        for found in _MARKED.findall(path.read_text("utf-8")):
            yield found.replace('\\"', '"')


async def give_words(request: Request) -> Response:
    """Return the words in the language that is asked for, or in that of the browser; none for
    English, and nothing of anybody's."""
    wanted = request.query_params.get("language") or request.headers.get("accept-language", "")
    language = choose(wanted) or ENGLISH
    response = as_json({"language": language, "words": _translate(language)})
    response.headers.update({"Cache-Control": "no-cache", "Vary": "Accept-Language"})
    return response


@cache
def _translate(language: str) -> dict[str, str]:
    known = words_of(language)
    return {text: known[text] for text in list_words() if text in known}
