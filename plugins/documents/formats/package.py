"""The parts of an archive (Office Open XML, EPUB), each read separately, as far as it is
readable."""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import IO, Any

from lxml import etree

DAMAGED = "(part of this is damaged; some of its text may be missing)"
_LARGEST = 100_000_000  # maximum bytes of a part that is read completely
_BLOCK = 65_536  # bytes that are decompressed at a time
_NAMED = 10  # maximum damaged parts that are named
_STARTS = 100  # thousands of bytes that are searched for the root element


class NoText(Exception):
    """A document that can't be read; the text follows its name in a sentence."""


class Mark(str):
    """The name of a page, which contains the lines after it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Relationship:
    """A reference of a part: its id there, its kind (the last word of its type), and its target."""

    id: str
    kind: str
    target: str
    is_external: bool = False


class _Stream:
    """A part of an archive as a file, which ends where decompression fails. With a wrong checksum,
    the data is returned, and the part counts as damaged."""

    def __init__(self, file: IO[bytes], checksum: int) -> None:
        self._file = file
        self._checksum, self._sum = checksum, 0
        self.is_broken = False

    def read(self, size: int = -1) -> bytes:
        try:
            block = self._file.read(size)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError):
            self.is_broken = True
            return b""
        self._sum = zlib.crc32(block, self._sum)
        return block

    def is_damaged(self) -> bool:
        """Return whether it is damaged, after it was read to its end."""
        return self.is_broken or self._sum != self._checksum


class Package:
    """An archive whose parts are found by name, regardless of case."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._names = {name.lower(): name for name in archive.namelist()}
        self._damaged: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._names

    def names(self) -> list[str]:
        return list(self._names.values())

    def open(self, name: str) -> _Stream | None:
        """Return a part as a file; None if it does not exist, is locked, or has an unknown
        compression."""
        try:
            info = copy(self._archive.getinfo(self._names[name.lower()]))
            checksum = info.CRC
            del info.CRC  # zipfile returns nothing of a part with a wrong checksum
            return _Stream(self._archive.open(info), checksum)
        except (KeyError, RuntimeError, NotImplementedError, zipfile.BadZipFile, OSError):
            return None

    def read(self, name: str) -> bytes | None:
        """Return a complete part; None if it does not exist."""
        stream = self.open(name)
        return None if stream is None else self._all_of(name, stream)

    def _all_of(self, name: str, stream: _Stream) -> bytes:
        blocks, size = list[bytes](), 0
        while size < _LARGEST and (block := stream.read(_BLOCK)):
            blocks.append(block)
            size += len(block)
        if stream.is_damaged():  # also if it is too large
            self._damaged[name] = None
        return b"".join(blocks)

    def root(self, name: str) -> Any:
        """Return the root element of a part, as far as it can be parsed; None if nothing can."""
        stream = self.open(name)
        if stream is None:
            return None
        parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
        try:
            root = etree.fromstring(self._all_of(name, stream), parser)
        except (etree.XMLSyntaxError, ValueError):
            root = None
        if root is None or _is_fatal(parser.error_log):
            self._damaged[name] = None
        return root

    def damaged(self) -> Iterator[str]:
        """Yield the line that names the damaged parts among those read completely."""
        if self._damaged:
            names = ", ".join([*self._damaged][:_NAMED])
            yield f"(damaged, so that some of their text may be missing: {names})"

    def elements(self, name: str, depth: int) -> Iterator[Any]:
        """Yield the elements of a part at this depth (the root has depth 1), one by one, freeing
        each after its use; at the end, yield the string DAMAGED if there was an error."""
        stream = self.open(name)
        if stream is None:
            yield DAMAGED
            return
        parsed = etree.iterparse(
            stream,
            events=("start", "end"),
            resolve_entities=False,
            no_network=True,
            recover=True,
        )
        now = 0
        try:
            for event, element in parsed:
                now += 1 if event == "start" else -1
                if event == "start" or now != depth - 1:
                    continue
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
        except etree.XMLSyntaxError:
            yield DAMAGED
            return
        if stream.is_damaged() or _is_fatal(parsed.error_log):
            yield DAMAGED

    def relations(self, name: str) -> list[Relationship]:
        """Return the references of a part; those of the whole archive for the name ""."""
        folder, base = posixpath.split(name)
        root = self.root(posixpath.join(folder, "_rels", f"{base}.rels"))
        if root is None:
            return []
        found = []
        for item in children(root):
            target = item.get("Target", "")
            is_external = item.get("TargetMode") == "External"
            kind = item.get("Type", "").rstrip("/").rpartition("/")[2]
            whole = target if is_external else place(folder, target)
            found.append(Relationship(item.get("Id", ""), kind, whole, is_external))
        return found

    def first(self, name: str) -> str:
        """Return the name of a part's root element; "" if it can't be read."""
        stream = self.open(name)
        if stream is None:
            return ""
        parser = etree.XMLPullParser(
            ("start",), resolve_entities=False, no_network=True, recover=True
        )
        for _ in range(_STARTS):
            block = stream.read(1_000)
            if not block:
                break
            try:
                parser.feed(block)
            except etree.XMLSyntaxError:
                break
            for _, element in parser.read_events():
                return name_of(element)
        return ""

    def main(self) -> str | None:
        """Return the name of the main part of an Office file, by its relationship or else by its
        usual names."""
        named = [r.target for r in self.relations("") if r.kind == "officeDocument"]
        usual = ["word/document.xml", "xl/workbook.xml", "ppt/presentation.xml"]
        return next((name for name in named + usual if name in self), None)


def _is_fatal(log: Any) -> bool:
    """Return whether XML is damaged, and not only careless (an undeclared prefix)."""
    return any(entry.level >= etree.ErrorLevels.FATAL for entry in log)


def place(folder: str, target: str) -> str:
    """Return the target of a reference from a folder, as a name in the archive."""
    return posixpath.normpath(posixpath.join("/", folder, target.split("#")[0])).lstrip("/")


def children(element: Any) -> Iterator[Any]:
    """Return the child elements, without comments and entities."""
    return (child for child in element if isinstance(child.tag, str))


def name_of(element: Any) -> str:
    """Return its name without the namespace, which is the only difference between strict and
    transitional files."""
    return str(element.tag).rpartition("}")[2] if isinstance(element.tag, str) else ""


def get(element: Any, attribute: str) -> str | None:
    """Return an attribute, regardless of its namespace."""
    for key, value in element.attrib.items():
        if key.rpartition("}")[2] == attribute:
            return str(value)
    return None


def find(element: Any, *path: str) -> Any:
    """Return the first element below one by the names on its path, or None."""
    for name in path:
        element = next((child for child in children(element) if name_of(child) == name), None)
        if element is None:
            return None
    return element


def below(element: Any, *names: str) -> Iterator[Any]:
    """Return all descendant elements with one of these names."""
    return (found for found in element.iter() if name_of(found) in names)


def row_of(cells: list[str]) -> str:
    """Return a row of a table as a line."""
    return f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |"


def said(left_out: Counter[str]) -> Iterator[str]:
    """Yield the line about parts of the document that are not in its text."""
    if left_out:
        parts = ", ".join(f"{count} {kind}" for kind, count in left_out.items() if count)
        yield f"(not in this text: {parts})"
    left_out.clear()
