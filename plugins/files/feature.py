"""Tools for the files of the workspace: read, list, search, find and write."""

from __future__ import annotations

import asyncio
import difflib
import operator
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from fnmatch import translate
from itertools import accumulate, islice, takewhile
from pathlib import Path, PurePosixPath
from typing import Annotated, BinaryIO

import regex
from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from agent.tools.allowance import Origins, record_own, require_space
from agent.tools.schema import in_a_thread
from agent.tools.text_lines import (
    SECONDS,
    Search,
    TextLines,
    is_document,
    is_page,
    open_narrow,
    open_text,
    skip,
)
from agent.tools.workspace import (
    files_below,
    list_folder,
    open_file,
    plain_errors,
    quote,
    resolve,
    save_file,
)
from plugins.api import Tool, ToolContext, ToolError, hookimpl, tool

_READ_BYTES = 64_000_000  # the maximum position in a file that read_file reads
_WRITE_BYTES = 1_000_000
_SHOWN_FILE = 60_000  # characters that one read_file shows
_SHOWN_LINE = 5_000  # characters of a line that read_file shows
_SHOWN_HIT = 300  # characters of a line that grep shows
_SHOWN_NAMES = 500  # names that list_files and glob show
_SHOWN_DOCUMENTS = 10  # the maximum of unsearched documents that grep names
_SENT = 1_000_000  # characters of lines that are searched at once
_OPEN = 64  # the maximum of files held open at once
_COMPARED_NAMES = 2_000  # the maximum of names compared with a mistyped one
_COMPARED = 100  # characters compared of each: the cost is quadratic


@tool(touches={"reads"})
def read_file(
    context: ToolContext,
    path: str,
    offset: Annotated[int, Field(ge=1)] = 1,
    limit: Annotated[int, Field(ge=1, le=2000)] = 400,
) -> str:
    """Read a text file of the workspace, or the text of a PDF, docx, xlsx, pptx or epub.

    Args:
        offset: First line.
    """
    path, wants_text = _split_wish(path)
    target = _find(context, path)
    with (
        plain_errors(path),
        open_file(context.workspace, target) as found,
        ExitStack() as opened,
    ):
        if is_sent := Origins(context.workspace).is_from_outside(target, found):
            context.from_outside()
        is_source = not wants_text and is_page(found.name, _start_of(found))
        has_text = wants_text or _is_document(found)
        file = opened.enter_context(
            open_text(context.services, found, path)
            if has_text
            else open_narrow(found, _READ_BYTES)
        )
        if _is_binary(file):
            size = _size(os.fstat(file.fileno()).st_size)
            raise ToolError(f"{quote(path)} is a binary file ({size}); only text can be read.")
        skip(file, offset - 1, _READ_BYTES)
        text = TextLines(file)
        lines = takewhile(lambda _: file.tell() <= _READ_BYTES, text)
        shown, is_more = _page(lines, limit)
        is_too_far = not is_more and file.tell() > _READ_BYTES
    if not shown and offset == 1:
        return f"{quote(path)} is empty."
    notices = _notices(shown, offset, is_more=is_more, is_too_far=is_too_far)
    if text.label:
        notices = [*notices, f"[The file is not UTF-8; it was read as {text.label}.]"]
    if is_source and is_sent:
        notices = [*notices, f"[This is HTML; {path}{AS_TEXT} is its text.]"]
    return "\n".join([*shown, *notices])


AS_TEXT = "#text"
"""The suffix of an HTML file's path that requests its text in place of its source."""


def _split_wish(path: str) -> tuple[str, bool]:
    """Return a path, and whether the text of an HTML page is requested."""
    whole = path.removesuffix(AS_TEXT)
    return (whole, True) if whole != path and is_page(whole, b"") else (path, False)


@tool(touches={"reads"})
def list_files(context: ToolContext, path: str = ".") -> str:
    """List a folder of the workspace, with sizes."""
    target = _find(context, path)
    with plain_errors(path):
        entries = list_folder(context.workspace, target)
    _mark(context, (target / name for name, _ in entries))
    lines = (_entry(name, status) for name, status in entries)
    return _first(lines, _SHOWN_NAMES, "entries") or f"{quote(path)} is an empty folder."


@tool(touches={"reads"})
def glob(context: ToolContext, pattern: Annotated[str, Field(min_length=1, max_length=500)]) -> str:
    """Find files of the workspace by name.

    Args:
        pattern: Like files/**/*.md.
    """
    root, is_match = context.workspace, _Glob(pattern)
    with plain_errors("."):
        hits = [
            file for file in files_below(root, _find(context, ".")) if is_match(_name(root, file))
        ]
    _mark(context, hits[:_SHOWN_NAMES])
    names = (_name(root, file) for file in hits)
    return _first(names, _SHOWN_NAMES, "files") or f"No file matches {quote(pattern)}."


@tool(touches={"reads"})
async def grep(
    context: ToolContext,
    pattern: Annotated[str, Field(min_length=1, max_length=1000)],
    path: str = ".",
    ignore_case: bool = False,
    limit: Annotated[int, Field(ge=1, le=500)] = 50,
) -> str:
    """Search the lines of the workspace's text files, or of one document.

    Args:
        pattern: A regular expression.
    """
    search, loop = Search(pattern, ignore_case=ignore_case), asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as deadline:

            def begin() -> None:
                with suppress(RuntimeError):  # the caller has left
                    deadline.reschedule(loop.time() + SECONDS)

            search.begun = lambda: loop.call_soon_threadsafe(begin)
            shown = await in_a_thread(
                _grep, {"context": context, "search": search, "path": path, "limit": limit}
            )
    except TimeoutError:
        raise ToolError(
            f"The search was stopped after {SECONDS:g} seconds: "
            "simplify the pattern, or name a smaller folder."
        ) from None
    finally:
        search.end()  # also if the turn is stopped
    return shown or f"No line of a text file matches {quote(pattern)} in {quote(path)}."


@tool(touches={"writes"})
def write_file(context: ToolContext, path: str, content: str) -> str:
    """Write a text file in files/ of the workspace, replacing what it held."""
    target = resolve(context.workspace, path, must_write=True)
    data = _encode(content)
    with plain_errors(path):
        more = len(data) - (target.lstat().st_size if target.exists() else 0)
        require_space(context.workspace, context.settings.files_quota, more)
        is_replaced = save_file(context.workspace, target, data)
        if not context.has_outside():
            record_own(context.workspace, target, data)
    name, before = _name(context.workspace, target), ", replacing what was there"
    count = "1 character" if len(content) == 1 else f"{len(content):,} characters"
    return f"Wrote {count} to {name}{before if is_replaced else ''}."


@hookimpl
def parley_tools() -> list[Tool]:
    return [glob, grep, list_files, read_file, replace(write_file, target="path")]


def _mark(context: ToolContext, targets: Iterable[Path]) -> None:
    """Mark the result as coming from outside if one of the shown names does."""
    if not Origins(context.workspace).are_own_names(targets):
        context.from_outside()


def _find(context: ToolContext, path: str) -> Path:
    """Return the place of `path`. Raises ToolError with the nearest names if it does not exist."""
    root = context.workspace
    target = resolve(root, path, must_write=False)
    if target == root:
        root.mkdir(parents=True, exist_ok=True)  # the workspace exists once it is read
    if not os.path.lexists(target):
        raise ToolError(f"There is no {quote(path)} in the workspace. {_nearest(context, path)}")
    return target


def _nearest(context: ToolContext, path: str) -> str:
    known = _names(context.workspace)
    wanted = PurePosixPath(path)
    close = [
        known[match]
        for name in (path, wanted.name)
        for match in difflib.get_close_matches(name[:_COMPARED], known)
    ]
    if close:
        nearest = [*dict.fromkeys(close)][:3]
        _mark(context, (context.workspace / name for name in nearest))
        return f"Did you mean {' or '.join(nearest)}?"
    return "list_files and glob show what is there." if known else "It holds no files yet."


def _names(root: Path) -> dict[str, str]:
    """Return the paths in the workspace by name and by relative path, truncated for comparison."""
    with suppress(OSError):
        files = [
            file.relative_to(root) for file in islice(files_below(root, root), _COMPARED_NAMES)
        ]
        places = [place for file in files for place in (file, *file.parents) if place.name]
        return {
            key[:_COMPARED]: place.as_posix()
            for place in places
            for key in (place.name, place.as_posix())
        }
    return {}


def _name(root: Path, file: Path) -> str:
    return file.relative_to(root).as_posix()


def _is_binary(file: BinaryIO) -> bool:
    return b"\0" in _start_of(file)


def _is_document(file: BinaryIO) -> bool:
    return is_document(file.name, _start_of(file))


def _start_of(file: BinaryIO) -> bytes:
    start = file.read(8192)
    file.seek(0)
    return start


def _page(lines: Iterable[str], limit: int) -> tuple[list[str], bool]:
    """Return the lines that fit on a page, and whether there are more."""
    shown: list[str] = []
    room = _SHOWN_FILE
    for line in map(_cut, lines):
        room -= len(line)
        if len(shown) == limit or (shown and room < 0):
            return shown, True
        shown.append(line)
    return shown, False


def _cut(line: str) -> str:
    rest = len(line) - _SHOWN_LINE
    return line if rest <= 0 else f"{line[:_SHOWN_LINE]}… [{rest:,} more characters in this line]"


def _notices(shown: Sequence[str], offset: int, *, is_more: bool, is_too_far: bool) -> list[str]:
    """Return notices about a page that is not the whole file."""
    end = offset + len(shown)
    found = {
        f"[The file ends before line {offset:,}.]": not shown and not is_too_far,
        f"[The file goes on: read it with offset={end}.]": is_more,
        f"[Only the first {_size(_READ_BYTES)} of a file can be read.]": is_too_far,
        "[Characters shown as � could not be read.]": any("�" in line for line in shown),
    }
    return [notice for notice, is_due in found.items() if is_due]


def _first(lines: Iterable[str], limit: int, what: str) -> str:
    """Return the first lines, and the number of the others."""
    rest = iter(lines)
    shown = list(islice(rest, limit))
    more = sum(1 for _ in rest)
    return "\n".join([*shown, f"[{more:,} more {what}]"] if more else shown)


def _entry(name: str, status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode):
        return f"{name}/"
    if stat.S_ISREG(status.st_mode):
        return f"{name} ({_size(status.st_size)})"
    return f"{name} (a link or a device, which can't be opened)"


def _size(count: int) -> str:
    """Return a number of bytes in readable form."""
    if count < 1_000:
        return f"{count} bytes"
    return f"{count / 1_000:.1f} KB" if count < 1_000_000 else f"{count / 1_000_000:,.1f} MB"


class _Glob:
    """A pattern for paths; `**` matches any number of folders, and a pattern without a slash
    matches in any folder. Its parts are compiled without caching."""

    def __init__(self, pattern: str) -> None:
        parts = PurePosixPath(pattern if "/" in pattern else f"**/{pattern}").parts
        self._steps = [
            None if part == "**" else regex.compile(translate(part), cache_pattern=False)
            for part in parts
        ]

    def __call__(self, path: str) -> bool:
        names = path.split("/")
        fits = [True, *(False for _ in names)]  # fits[n]: the first n names match the steps so far
        for step in self._steps:
            if step is None:
                fits = list(accumulate(fits, operator.or_))
            else:
                fits = [
                    False,
                    *(fits[n] and bool(step.match(name)) for n, name in enumerate(names)),
                ]
        return fits[-1]


class _Line(Struct, frozen=True):
    """A line of a file. The file stays open, so that the one judged is the one read."""

    path: Path
    file: BinaryIO
    number: int
    text: str
    page: str = ""  # of a document


def _grep(context: ToolContext, search: Search, path: str, limit: int) -> str:
    with search, plain_errors(path):
        root, target = context.workspace, _find(context, path)
        reader = _Lines(context, None if target.is_dir() else path)
        files = files_below(root, target) if target.is_dir() else [target]
        hits = _mark_hits(_hits(_batches(reader, files), search), context)
        return "\n".join(filter(None, (_first(hits, limit, "lines that match"), reader.notice())))


def _hits(batches: Iterable[list[_Line]], search: Search) -> Iterator[tuple[_Line, int]]:
    """Yield the matching lines, with the position of the first match."""
    for lines in batches:
        yield from (
            (lines[number], place) for number, place in search.hits([x.text for x in lines])
        )
        if search.is_ended:
            return


def _batches(reader: _Lines, files: Iterable[Path]) -> Iterator[list[_Line]]:
    """Yield the lines of these files, in batches that are searched at once."""
    batch: list[_Line] = []
    size = 0
    with ExitStack() as opened:
        for count, path in enumerate(files, 1):
            for line in reader.read(path, opened):
                batch.append(line)
                size += len(line.text) + 1
                if size > _SENT:
                    yield batch
                    batch, size = [], 0
            if count % _OPEN == 0:
                yield batch
                batch, size = [], 0
                opened.close()
        yield batch


class _Lines:
    """Reads the lines of text files of the workspace, and of a document that was named explicitly
    (`wanted`: as the model wrote it); reading all documents of a folder would take minutes. Binary,
    missing or unreadable files have no lines."""

    def __init__(self, context: ToolContext, wanted: str | None) -> None:
        self._root, self._services, self._wanted = context.workspace, context.services, wanted
        self._left_out: list[str] = []

    def read(self, path: Path, opened: ExitStack) -> Iterator[_Line]:
        with suppress(OSError):
            file = opened.enter_context(open_file(self._root, path))
            if _is_document(file):
                yield from self._read_document(path, file, opened)
                return
            narrow = opened.enter_context(open_narrow(file, _READ_BYTES))
            if not _is_binary(narrow):
                for number, text in enumerate(TextLines(narrow), 1):
                    yield _Line(path, file, number, text)

    def _read_document(self, path: Path, file: BinaryIO, opened: ExitStack) -> Iterator[_Line]:
        if self._wanted is None:
            self._left_out.append(_name(self._root, path))
            return
        page = ""
        text_file = opened.enter_context(open_text(self._services, file, self._wanted))
        for number, text in enumerate(TextLines(text_file), 1):
            page = text if text.startswith("[") and text.endswith("]") else page
            yield _Line(path, file, number, text, page)

    def notice(self) -> str:
        """Return a notice of the documents that were not searched, or ""."""
        if not self._left_out:
            return ""
        shown, more = self._left_out[:_SHOWN_DOCUMENTS], self._left_out[_SHOWN_DOCUMENTS:]
        names = ", ".join(shown) + (f" and {len(more):,} more" if more else "")
        return f"[Not searched, because these are documents: {names}. Search each by its path.]"


def _mark_hits(hits: Iterable[tuple[_Line, int]], context: ToolContext) -> Iterator[str]:
    """Yield the formatted hits; a file or file name from outside marks the result."""
    root, origins = context.workspace, Origins(context.workspace)
    last: BinaryIO | None = None
    for line, place in hits:
        if line.file is not last:
            last = line.file
            is_own = origins.are_own_names([line.path])
            if not is_own or origins.is_from_outside(line.path, line.file):
                context.from_outside()
        page = f" {line.page}" if line.page else ""
        yield f"{_name(root, line.path)}{page}:{line.number}: {_around(line.text, place)}"


def _around(line: str, place: int) -> str:
    """Return a line, or the part of a long one around the match."""
    start = min(max(place - _SHOWN_HIT // 3, 0), max(len(line) - _SHOWN_HIT, 0))
    part = line[start : start + _SHOWN_HIT].strip()
    is_cut = start + _SHOWN_HIT < len(line)
    return f"{'…' if start else ''}{part}{'…' if is_cut else ''}"


def _encode(content: str) -> bytes:
    try:
        data = content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"Character {error.start + 1} of the content can't be written.") from None
    if len(data) > _WRITE_BYTES:
        raise ToolError(
            f"The content has {len(data):,} bytes, but a file may have {_WRITE_BYTES:,}: "
            "write several files."
        )
    return data
