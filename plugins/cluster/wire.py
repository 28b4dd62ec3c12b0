"""The messages between processes of a cluster, as JSON: values of `channels/` with their types,
checked when read (ValueError); and the slice of a conversation, with the process that should own
it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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

SLICES = 64
"""The number of slices that conversations are divided into. It affects stored data: never change
it."""
_SLICE = "slice."


def slice_of(identity: str) -> int:
    """Return the slice of a conversation by its id. It is that of its chat, whose threads and
    branches share a memory."""
    chat = "/".join(identity.split("/")[:2])
    return int.from_bytes(_digest(chat), "big") % SLICES


def name_of_slice(number: int) -> str:
    """Return the name of a slice's ownership, and of its queue."""
    return f"{_SLICE}{number}"


def number_of_slice(name: str) -> int:
    return int(name.removeprefix(_SLICE))


class Allotment(Struct, frozen=True):
    """The process that should own an item, and its standby, which takes over if the owner dies ("":
    none)."""

    owner: str
    standby: str


def allot(names: Sequence[str], processes: Iterable[str]) -> dict[str, Allotment]:
    """Return the intended owners of these names among these processes. All processes compute the
    same result independently; their shares differ by at most one, and when one joins or leaves, few
    other names move. Empty without processes.

    Rendezvous hashing with a bounded load: each name goes to its highest-ranked process with
    capacity.
    """
    known = sorted(set(processes))
    if not known:
        return {}
    room = _shares(len(names), known)
    places = {}
    for name in names:
        ranked = sorted(known, key=lambda one: _digest(f"{name} {one}"), reverse=True)
        owner = next(one for one in ranked if room[one])
        room[owner] -= 1
        places[name] = Allotment(owner, next((one for one in ranked if one != owner), ""))
    return places


def _shares(count: int, processes: list[str]) -> dict[str, int]:
    """Return the capacity of each process: equal shares, or one more."""
    each, rest = divmod(count, len(processes))
    lucky = set(sorted(processes, key=_digest)[:rest])
    return {one: each + (one in lucky) for one in processes}


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]


T = TypeVar("T")

SPOOL = "spool"
"""The folder in the data folder for files that are being sent to a worker."""
STALE = 86_400.0
"""Seconds after which a file in it is abandoned."""
_EVENTS = {kind.__name__: kind for kind in (*get_args(Activity), Completed)}


class BrokerError(Exception):
    """The broker, or the process that should answer, can't be reached. The text is a plain
    sentence."""


class Requeue(Exception):
    """A call can't be answered here, or an item can't be owned here: it is requeued."""


class OwnerCall(Struct, frozen=True):
    """A request to the owner of a slice. `id` is the same for each delivery; `is_again`: another
    process may have begun it, and died."""

    id: str
    body: bytes
    is_again: bool
    answer: Callable[[bytes, bool], Awaitable[None]]
    """Sends a piece of the answer to the caller; the flag marks the last one."""


class RemoteError(Exception):
    """A worker failed to execute a call; the text is a plain sentence."""


def dump(value: object) -> bytes:
    """Return a value, or a mapping of values, as JSON. Invalid Unicode, which platforms let
    through, is replaced, as when a message is received (`clean_text`)."""
    try:
        return orjson.dumps(value, default=_plainly)
    except TypeError:
        broken = json.dumps(value, default=_plainly, ensure_ascii=False)
        return broken.encode("utf-8", "replace")


def _plainly(value: Any) -> Any:
    """Convert a value that JSON encoders don't know."""
    if isinstance(value, Struct):
        return asdict(value)
    return dict(value) if isinstance(value, Mapping) else str(value)


def parse(body: bytes) -> dict[str, Any]:
    """Parse a message, whose parts are not validated yet. Raises ValueError."""
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
    """Return the events with consecutive pieces of text merged."""
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
    """Return the reason why there is no answer; `sentence` is for errors without one of their
    own."""
    data: dict[str, Any] = {"kind": "", "text": sentence}
    if isinstance(error, NotCompleted):
        data = {"kind": "completion", "text": str(error), "problem": error.problem}
        data["retry_after"] = error.retry_after
    elif isinstance(error, StoreError):
        data = {"kind": "store", "text": str(error)}
    return dump({"error": data})


def raise_error(part: Mapping[str, Any]) -> None:
    """Raise the worker's error, if there is one."""
    error = part.get("error")
    if error is None:
        return
    text = str(error["text"])
    if error["kind"] == "completion":
        raise NotCompleted(error["problem"], text, error["retry_after"])
    raise StoreError(text) if error["kind"] == "store" else RemoteError(text)


# --- files in transit ---------------------------------------------------------------------


class SpooledFile(Struct, frozen=True):
    """A file of a message, with its place in the spool."""

    name: str
    media_type: str
    place: str


def spool(data: Path, inbound: Inbound) -> dict[str, Any]:
    """Return a message as JSON values; its files are written to the shared folder."""
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
    """Delete the files of a message that was transferred."""
    for file in build(list[SpooledFile], part.get("files", [])):
        (data / SPOOL / _safe(file.place)).unlink(missing_ok=True)


def delete_stale_files(data: Path) -> None:
    """Delete the files of killed gateways: no file is in transit for a day."""
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
