"""The text of a PowerPoint file, from its XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .flow import BlockReader, drawn
from .package import Mark, Package, below, find, get, said

_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml", re.IGNORECASE)
_NUMBER = "sldNum"  # a placeholder without text of the slide


def read(package: Package, main: str) -> Iterator[str]:
    """Yield the slides in order, each with its notes and comments."""
    for number, part in enumerate(_slides(package, main), 1):
        yield Mark(f"slide {number}")
        root = package.root(part)
        if root is None:
            yield "(this slide is damaged)"
            continue
        flow = BlockReader()
        yield from flow.lines(root)
        yield from drawn(package, part)
        yield from said(flow.left_out)
        yield from _related_parts(package, part)
    yield from _behind(package)


def _slides(package: Package, main: str) -> list[str]:
    targets = {r.id: r.target for r in package.relations(main) if not r.is_external}
    root = package.root(main)
    listed = [] if root is None else list(below(root, "sldId"))
    if found := [targets.get(_reference(item), "") for item in listed]:
        return found
    named = {int(m[1]): name for name in package.names() if (m := _SLIDE.fullmatch(name))}
    return [named[number] for number in sorted(named)]


def _reference(item: Any) -> str:
    """Return the id of a relation; the id of the slide is in an attribute without a namespace."""
    return next((str(v) for k, v in item.attrib.items() if k.endswith("}id")), "")


def _related_parts(package: Package, part: str) -> Iterator[str]:
    for relation in package.relations(part):
        if relation.is_external or relation.kind not in ("notesSlide", "comments"):
            continue
        root = package.root(relation.target)
        kind = "notes" if relation.kind == "notesSlide" else "comment"
        if root is None:
            yield f"(damaged {kind})"
        elif kind == "comment":
            for comment in below(root, "cm"):
                words = " ".join("".join(t.itertext()) for t in below(comment, "text", "t"))
                yield f"(comment: {' '.join(words.split())})"
        else:
            flow = BlockReader()
            lines = [
                line
                for shape in below(root, "sp")
                if not _is_number(shape)
                for line in flow.lines(shape)
                if line.strip()
            ]
            yield f"(notes: {chr(10).join(lines)})" if lines else ""
            yield from said(flow.left_out)


def _is_number(shape: Any) -> bool:
    mark = find(shape, "nvSpPr", "nvPr", "ph")
    return mark is not None and get(mark, "type") in (_NUMBER, "sldImg")


def _behind(package: Package) -> Iterator[str]:
    """Yield the text of the masters and layouts, which is visible on each of their slides."""
    lines: dict[str, None] = {}
    for name in sorted(package.names()):
        if not re.fullmatch(r"ppt/slide(Masters|Layouts)/[^/]+\.xml", name):
            continue
        root = package.root(name)
        for shape in () if root is None else below(root, "sp"):
            mark = find(shape, "nvSpPr", "nvPr", "ph")
            if mark is None:
                lines.update(dict.fromkeys(filter(str.strip, BlockReader().lines(shape))))
    if lines:
        yield Mark("behind the slides")
        yield from lines
