"""The text of an EPUB."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from .package import Mark, NoText, Package, below, get, place

_PAGES = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml"})
_NAMED = re.compile(rb"""encoding\s*=\s*["']([\w:.-]{1,40})""")

Render = Callable[[bytes, "str | None"], str]


def read(package: Package, render: Render) -> Iterator[str]:
    """Yield the parts of a book in the book's order; then those that are not listed."""
    root = package.root("META-INF/container.xml")
    if root is None:
        raise NoText("is damaged: the part that says where its text is can't be read")
    files = list(below(root, "rootfile"))
    if not files:
        raise NoText("is a damaged book: it does not say where its text is")
    name = str(get(files[0], "full-path") or "")
    book = package.root(name)
    if book is None:
        raise NoText("is damaged: the list of its chapters can't be read")
    folder = posixpath.dirname(name)
    items = {
        get(item, "id"): place(folder, unquote((get(item, "href") or "").split("#")[0]))
        for item in below(book, "item")
    }
    locked = _locked(package)
    seen: set[str] = set()
    for number, item in enumerate(below(book, "itemref"), 1):
        part = items.get(get(item, "idref"), "")
        if part and part in seen:
            continue  # another position in the same chapter
        seen.add(part)
        yield Mark(f"chapter {number}")
        yield _chapter(package, part, locked, render)
    for item in below(book, "item"):
        part = items[get(item, "id")]
        is_page = get(item, "media-type") in _PAGES and get(item, "properties") != "nav"
        if is_page and part not in seen and part in package:
            yield Mark(f"beside the chapters: {posixpath.basename(part)}")
            yield _chapter(package, part, locked, render)


def _chapter(package: Package, part: str, locked: frozenset[str], render: Render) -> str:
    if part in locked:
        return "(this chapter is locked by copy protection)"
    content = package.read(part) if part in package else None
    if content is None:
        return "(this chapter is missing)"
    if not content:
        return "(this chapter is damaged, or empty)"
    named = _NAMED.search(content[:200])
    return render(content, named[1].decode("ascii") if named else None)


def _locked(package: Package) -> frozenset[str]:
    root: Any = package.root("META-INF/encryption.xml")
    if root is None:
        return frozenset()
    return frozenset(
        place("", unquote(get(found, "URI") or "")) for found in below(root, "CipherReference")
    )
