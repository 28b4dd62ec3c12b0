"""Files of this machine as attachments, for local channels."""

from __future__ import annotations

from mimetypes import guess_type
from pathlib import Path

from channels.language import _, explain
from channels.message import LARGEST_ATTACHMENT, Attachment


class LocalFileError(Exception):
    """Raised if a file can't be attached; the text is a clause that says why."""


def read_attachment(file: Path, name: str = "", media_type: str = "") -> Attachment:
    """Return a file; one that is too large is read far enough for the bot to detect it. Raises
    LocalFileError."""
    try:
        if not file.is_file():  # a device or a pipe might never end
            raise LocalFileError(_("There is no file {name!r} to attach", name=str(file)))
        with file.open("rb") as source:
            content = source.read(LARGEST_ATTACHMENT + 1)
    except (OSError, ValueError) as error:
        reason = explain(getattr(error, "strerror", None) or str(error))
        said = _("{name!r} can't be read ({reason})", name=str(file), reason=reason)
        raise LocalFileError(said) from None
    kind = media_type or guess_type(file.name)[0] or "application/octet-stream"
    return Attachment(name or file.name, kind, content)
