"""Files of messages: stored before the message is confirmed, and named to the model. Pictures and
other bytes go to `data/`; a document with text becomes a file in `files/`, which the model's tools
read. Channels read files in a separate process, by the mechanism of the tools."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import orjson
from msgspec import Struct
from msgspec.structs import asdict, replace

from agent.pictures import find_picture_type
from agent.tools.allowance import PICTURES, find_why_full
from agent.tools.child_process import ReaderFailure
from agent.tools.child_process import run_limited as read
from agent.tools.text_lines import is_document
from agent.tools.workspace import WRITABLE
from channels.base import SaidFile, UnreadableError
from channels.language import _, explain
from channels.message import LARGEST_ATTACHMENT, MOST_ATTACHMENTS, Attachment, Problem
from memory.keys import make_portable
from memory.messages import ENDINGS, PICTURE, Image, Message
from memory.record.offload import LocalWorkspace, data_file, is_saved

_MEGABYTE = 1_000_000
_LOOKED_AT = 8_192  # bytes, as in read_file
_LONGEST_NAME = 100  # characters of a document's name that are kept


class AttachmentRefused(Exception):
    """Raised for files of a message that can't be accepted. The text says why, and what to do;
    `problem` is its category."""

    def __init__(self, sentence: str, problem: Problem = "invalid") -> None:
        super().__init__(sentence)
        self.problem = problem


class Stored(Struct, frozen=True):
    """A file on disk: `path` is relative to the audience's folder, `size` in bytes; `sha256` is set
    for pictures. `is_told` says that the message's text names it already. `heard` is the
    transcription of a sound; None if there is none."""

    name: str
    media_type: str
    size: int
    path: str
    sha256: str = ""
    is_told: bool = False
    heard: str | None = None

    @property
    def is_data(self) -> bool:
        """Return whether it is stored by its hash, and is not a picture."""
        return self.path.startswith(f"{PICTURES}/") and not self.sha256


async def store(
    folder: Path, attachments: Sequence[Attachment], megabytes: int
) -> tuple[Stored, ...]:
    """Store the files of a message in its audience's folder, which may hold this many megabytes.
    The same files again are stored once. Raises AttachmentRefused."""
    if complaint := _attachments_fault(attachments):
        raise AttachmentRefused(complaint)
    workspace = LocalWorkspace(folder)
    try:
        if why := await asyncio.to_thread(_space_fault, folder, attachments, megabytes):
            raise AttachmentRefused(
                _(
                    "Your message was not accepted, because {why}. Delete some files, or ask "
                    "the bot's owner; then send it again.",
                    why=explain(why),
                ),
                "full",
            )
        return tuple([await _store_one(workspace, attachment) for attachment in attachments])
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = _("the disk is full") if full else explain(error.strerror or str(error))
        raise AttachmentRefused(
            _(
                "Your message was not accepted: its files can't be saved ({reason}). Tell the "
                "bot's owner, and send it again later.",
                reason=reason,
            ),
            "full" if full else "failed",
        ) from error


def _attachments_fault(attachments: Sequence[Attachment]) -> str:
    if len(attachments) > MOST_ATTACHMENTS:
        return _(
            "Your message has {n} files; at most {most_attachments} are taken at once. Send them "
            "in several messages.",
            n=len(attachments),
            most_attachments=MOST_ATTACHMENTS,
        )
    large = next((a for a in attachments if len(a.data) > LARGEST_ATTACHMENT), None)
    if large is None:
        return ""
    return _(
        "Your message was not accepted: {name} is larger than {largest_attachment} MB. Send a "
        "smaller one.",
        name=large.name or _("a file"),
        largest_attachment=LARGEST_ATTACHMENT // _MEGABYTE,
    )


def _space_fault(folder: Path, attachments: Sequence[Attachment], megabytes: int) -> str:
    """Return why these files can't be stored, or "". A redelivered message adds no bytes."""
    more = sum(
        len(one.data) for one in attachments if not is_saved(_choose_path(folder, one), one.data)
    )
    return find_why_full(folder, megabytes, more)


def _choose_path(folder: Path, attachment: Attachment) -> Path:
    """Return the path for a file in its audience's folder."""
    if media_type := find_picture_type(attachment.data):
        return folder / Image(hashlib.sha256(attachment.data).hexdigest(), media_type).file
    if is_bytes(attachment):
        return data_file(folder, attachment.data, _guess_suffix(attachment))
    return folder / WRITABLE / safe_name(attachment.name)


def is_bytes(attachment: Attachment) -> bool:
    """Return whether it has no text that the model's tools could read."""
    is_played = attachment.media_type.startswith(("audio/", "video/"))
    start = attachment.data[:_LOOKED_AT]
    return is_played or (b"\0" in start and not is_document(attachment.name, start))


def _guess_suffix(attachment: Attachment) -> str:
    """Return the file suffix of bytes: from the sender's name for it, or from the media type."""
    own = PurePosixPath(safe_name(attachment.name)).suffix.lower()
    if re.fullmatch(r"\.[a-z0-9]{1,10}", own):
        return own
    return ENDINGS.guess_extension(attachment.media_type, strict=False) or ".bin"


async def _store_one(workspace: LocalWorkspace, attachment: Attachment) -> Stored:
    content = attachment.data
    if media_type := find_picture_type(content):
        image = await workspace.keep(content, media_type)
        return Stored(attachment.name, media_type, len(content), image.file, image.sha256)
    if is_bytes(attachment):
        path = await workspace.keep_bytes(content, _guess_suffix(attachment))
    else:
        path = await workspace.keep_file(content, safe_name(attachment.name))
    return Stored(attachment.name, attachment.media_type, len(content), path)


def safe_name(name: str) -> str:
    """Return a document's name in a form valid on every system: without path, hidden or invisible
    characters."""
    last = PurePosixPath(name.replace("\\", "/")).name
    plain = re.sub(r"[^\w.()+-]+", "_", last.encode("utf-8", "ignore").decode()).strip("._")
    stem, dot, ending = plain.rpartition(".")
    if not dot or len(ending) > 10:
        return make_portable(plain[:_LONGEST_NAME] or "file")
    return make_portable(f"{stem[:_LONGEST_NAME]}.{ending}")


def dump(files: Sequence[Stored]) -> str:
    """Return the JSON that the inbox stores."""
    return orjson.dumps([_fields(file) for file in files]).decode()


def _fields(file: Stored) -> dict[str, object]:
    """Return the fields of a file, without `heard` if there is no transcription: processes of
    another version read the inbox, too."""
    fields = asdict(file)
    if file.heard is None:
        del fields["heard"]
    return fields


def load(text: str) -> tuple[Stored, ...]:
    """Return the files from the JSON in the inbox."""
    return tuple(Stored(**fields) for fields in orjson.loads(text))


def images_of(files: Sequence[Stored]) -> tuple[Image, ...]:
    """Return the pictures among them, in order."""
    return tuple(Image(file.sha256, file.media_type) for file in files if file.sha256)


def data_of(files: Sequence[Stored]) -> tuple[str, ...]:
    """Return the paths of the files that are stored by their hash and are not pictures."""
    return tuple(file.path for file in files if file.is_data)


TRANSCRIBED = "[heard] "
"""The mark before the transcription of a sound."""
NOT_TRANSCRIBED = "[not heard]"
"""The mark for a sound whose transcription failed."""


def ask_again(message: Message) -> tuple[str, tuple[Stored, ...]]:
    """Return the words and the files of a message that is asked again; sounds without transcription
    are transcribed anew."""
    if NOT_TRANSCRIBED not in message.text.split("\n"):
        return message.text, find_stored(message)
    words, files = split_files(replace(message, notice=""))
    spoken = [
        Stored(file.name, "", round(_bytes_in(file.size)), file.path)
        for file in files
        if not file.is_picture
    ]
    pictures = [file for file in find_stored(message) if file.sha256]
    return "\n".join(line for line in words.split("\n") if line != NOT_TRANSCRIBED), (
        *pictures,
        *spoken,
    )


def _bytes_in(size: str) -> float:
    number, _, unit = size.partition(" ")
    return float(number) * {"kB": 1_000, "MB": _MEGABYTE}[unit]


def find_stored(message: Message) -> tuple[Stored, ...]:
    """Return the files of a repeated message, which are in the folder already."""
    pictures = (Stored("", i.media_type, 0, i.file, i.sha256) for i in message.images)
    return (*pictures, *(Stored("", "", 0, path, is_told=True) for path in message.files))


def with_files(text: str, files: Sequence[Stored], *, is_unheard: bool = False) -> str:
    """Return the text of a message for the model: its words, transcriptions, and a line for each
    file except pictures. `is_unheard` says that transcription failed."""
    lines = [f"{TRANSCRIBED}{file.heard}" for file in files if file.heard]
    lines += [NOT_TRANSCRIBED] * is_unheard
    lines += [_line(file) for file in files if not (file.sha256 or file.is_told)]
    return "\n".join([*([text] if text.strip() else []), *lines]) or PICTURE


def _line(file: Stored) -> str:
    """Return the line that names a file to the model; a file that is stored by its hash also has
    its own name."""
    name = f"{safe_name(file.name)}, " if file.is_data and file.name else ""
    return f"[file: {name}{file.path}, {_size(file.size)}]"


_NAMED = re.compile(r"\[file: (?:([^,\n]+), )?((?:files|data)/[^\n]+?), ([\d.]+ [kM]B)\]")


def split_files(message: Message) -> tuple[str, tuple[SaidFile, ...]]:
    """Return the words of a message, and its files."""
    pictures = [SaidFile("", image.file, is_picture=True) for image in message.images]
    if message.role == "tool":
        return message.full_text, tuple(
            SaidFile("", file, is_picture=True) for file in message.files
        )
    lines, named = message.text.split("\n") if message.role == "user" else [], []
    while lines and (found := _NAMED.fullmatch(lines[-1])):
        name, path, size = found.groups()
        named.append(SaidFile(name or PurePosixPath(path).name, path, False, size))
        lines.pop()
    if not named:
        is_bare = bool(pictures) and message.text == PICTURE
        return "" if is_bare else message.full_text, tuple(pictures)
    return "\n".join(lines), (*pictures, *reversed(named))


def without_files(text: str) -> str:
    """Return a message's text without the lines that name its files. In the beginning of a text the
    last of these lines may be cut off; it is removed as well."""
    lines = [line for line in text.split("\n") if not _NAMED.fullmatch(line)]
    if len(lines) > 1 and lines[-1].startswith("[file: ") and not lines[-1].endswith("]"):
        lines.pop()
    return "\n".join(lines)


def _size(size: int) -> str:
    return f"{-(-size // 1_000)} kB" if size < _MEGABYTE else f"{size / _MEGABYTE:.1f} MB"


def run_limited(script: Path, content: bytes, *arguments: str) -> bytes:
    """Implement `Bot.run_limited`."""
    try:
        return read(script, content, *arguments)
    except ReaderFailure as error:
        raise UnreadableError(str(error), takes_too_much=error.takes_too_much) from None
