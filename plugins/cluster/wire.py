"""The messages between processes of a cluster, as JSON: values of `channels/` with their types; and
what goes wrong with them.

Nothing is taken at its word: what does not fit raises ValueError.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, get_args
from uuid import uuid4

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import asdict, replace

from channels.base import Activity, Delta, Thought
from channels.message import Attachment, Completed, Inbound, NotCompleted
from memory.record.store import StoreError

T = TypeVar("T")

SPOOL = "spool"
"""The folder in the data folder in which files wait that are on their way to a worker."""
STALE = 86_400.0
"""Seconds after which a file in it belongs to nobody any more."""
_EVENTS = {kind.__name__: kind for kind in (*get_args(Activity), Completed)}


class BrokerError(Exception):
    """The broker, or whoever should answer, can't be reached. The text is a plain sentence."""


class GiveBack(Exception):
    """A call can't be answered here, or something not be owned: it goes back where it was."""


class OwnerCall(Struct, frozen=True):
    """A request as its owner gets it. `id` is the same however often it is delivered; `is_again`:
    somebody may have begun with it, and died."""

    id: str
    body: bytes
    is_again: bool
    answer: Callable[[bytes, bool], Awaitable[None]]
    """Sends a piece of the answer to the caller; the flag says whether it is the last."""


class RemoteError(Exception):
    """A worker failed at what it was asked for; the text is a plain sentence."""


def dump(value: object) -> bytes:
    """Return a value, or a mapping of values, as it goes over the wire. Broken Unicode, which
    platforms let through, is mended on the way, as it is when a message is taken in (`clean_text`).
    """
    try:
        return orjson.dumps(value, default=_plainly)
    except TypeError:
        broken = json.dumps(value, default=_plainly, ensure_ascii=False)
        return broken.encode("utf-8", "replace")


def _plainly(value: Any) -> Any:
    """Turn what the writers of JSON don't know into what they do."""
    if isinstance(value, Struct):
        return asdict(value)
    return dict(value) if isinstance(value, Mapping) else str(value)


def parse(body: bytes) -> dict[str, Any]:
    """Parse what came over the wire, of which each part is still to be looked at. Raises
    ValueError."""
    found = orjson.loads(body)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def build(kind: type[T], part: object) -> T:
    """Return a value of this type. Raises ValueError."""
    try:
        return msgspec.convert(part, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def dump_event(event: Activity | Completed) -> dict[str, Any]:
    return {"event": type(event).__name__, "value": event}


def build_event(part: Mapping[str, Any]) -> Any:
    """Build an event of a conversation, or a piece of an answer. Raises ValueError."""
    kind = _EVENTS.get(str(part.get("event")))
    if kind is None:
        raise ValueError(f"no such event: {part.get('event')!r}")
    return build(kind, part.get("value"))


def merge(events: list[Activity]) -> list[Activity]:
    """Return the same with fewer events: pieces of text that follow each other are one."""
    merged: list[Activity] = []
    for event in events:
        last = merged[-1] if merged else None
        if isinstance(event, Delta) and isinstance(last, Delta):
            merged[-1] = Delta(last.text + event.text)
        elif isinstance(event, Thought) and isinstance(last, Thought):
            merged[-1] = Thought(last.text + event.text)
        else:
            merged.append(event)
    return merged


def dump_error(error: BaseException, sentence: str) -> bytes:
    """Return why there is no answer; `sentence` is for what has none of its own."""
    said: dict[str, Any] = {"kind": "", "text": sentence}
    if isinstance(error, NotCompleted):
        said = {"kind": "completion", "text": str(error), "problem": error.problem}
        said["retry_after"] = error.retry_after
    elif isinstance(error, StoreError):
        said = {"kind": "store", "text": str(error)}
    return dump({"error": said})


def raise_error(part: Mapping[str, Any]) -> None:
    """Raise what the worker raised, if it did."""
    error = part.get("error")
    if error is None:
        return
    text = str(error["text"])
    if error["kind"] == "completion":
        raise NotCompleted(error["problem"], text, error["retry_after"])
    raise StoreError(text) if error["kind"] == "store" else RemoteError(text)


# --- files on their way ---------------------------------------------------------------------------


class SpooledFile(Struct, frozen=True):
    """A file that came with a message, by its name in the spool."""

    name: str
    media_type: str
    place: str


def spool(data: Path, inbound: Inbound) -> dict[str, Any]:
    """Return a message for the wire; its files are put into the folder that all processes share."""
    files = []
    for file in inbound.attachments:
        folder = data / SPOOL
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = uuid4().hex
        (folder / place).write_bytes(file.data)
        files.append(SpooledFile(file.name, file.media_type, place))
    return {"inbound": replace(inbound, attachments=()), "files": files}


def unspool(data: Path, part: Mapping[str, Any]) -> Inbound:
    """Return the message with its files, which stay in the spool. Raises ValueError and OSError."""
    files = build(list[SpooledFile], part.get("files", []))
    attachments = [
        Attachment(file.name, file.media_type, (data / SPOOL / _safe(file.place)).read_bytes())
        for file in files
    ]
    return replace(build(Inbound, part.get("inbound")), attachments=tuple(attachments))


def clear(data: Path, part: Mapping[str, Any]) -> None:
    """Delete the files of a message that are no longer on their way."""
    for file in build(list[SpooledFile], part.get("files", [])):
        (data / SPOOL / _safe(file.place)).unlink(missing_ok=True)


def sweep(data: Path) -> None:
    """Delete what gateways that were killed left on its way: nobody waits for a file for a day."""
    before = time.time() - STALE
    folder = data / SPOOL
    for file in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError):  # another gateway may do the same
            if file.lstat().st_mtime < before:
                file.unlink()


def _safe(place: str) -> str:
    if not place.isalnum():
        raise ValueError(f"not a place in the spool: {place!r}")
    return place
