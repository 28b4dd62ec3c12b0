"""Files that a person names in a message (@notes.txt), drops onto the terminal, or has in the
clipboard."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from urllib.parse import unquote, urlsplit

from channels.language import _

_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|([^\s"]\S*))')
_BEGUN = re.compile(r'(?<!\S)@(?:"([^"\n]*)|([^\s"]*))$')
_PICTURES = frozenset((".png", ".jpg", ".jpeg", ".gif", ".webp"))
_ENDING = re.compile(r"\w\.[A-Za-z0-9]{1,5}$")
_MOST = 50  # files that are suggested
_MOST_COMPARED = 1_000  # files that are compared for a similar name
_MOST_LOOKED_FOR = 50  # names in a message: pasted code may have many
_LIKENESS = 0.8
_LONGEST = 4_000  # characters of a possible dropped file
_CLIPBOARDS: Sequence[Sequence[str]] = (
    ("wl-paste", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
_PATIENCE = 5.0  # seconds for the clipboard
_MADE = "parley-pasted-"


def find_mentions(text: str) -> list[Path]:
    """Return the files that a message names, each once; a name without a file is just a word."""
    found: dict[Path, None] = {}
    for quoted, plain in _MENTION.findall(text):
        for name in (quoted,) if quoted else (plain, plain.rstrip(".,;:!?)")):
            path = _path(name)
            if name and _is_file(path):
                found[path] = None
                break
    return [*found]


def _path(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # there is no home for that user name
        return Path(name)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def describe_unknown(text: str) -> str:
    """Describe the file that a message names and that does not exist; "" if there is none. Commands
    name no files, and a word that does not look like a file name is just a word."""
    if text.startswith(("/", "!")):
        return ""
    named = dict.fromkeys(_MENTION.findall(text))  # each is searched for once
    for quoted, plain in islice(named, _MOST_LOOKED_FOR):
        name = quoted or plain.rstrip(".,;:!?)")
        names = {name, plain}
        if any(_is_file(_path(one)) for one in names if one):
            continue
        near = _find_near(name)
        if quoted or near or _looks_like_file(name):
            what = {"name": _mention(name), "near": _mention(near)}
            if near:
                return _("No file {name}, but {near}; Enter sends it as text", **what)
            return _("No file {name}; Enter sends it as text", name=what["name"])
    return ""


def _looks_like_file(name: str) -> bool:
    if any(sign in name for sign in "()[]{}@=<>"):
        return False  # code: @app.get("/"), or an address
    folder = name.rpartition("/")[0]
    has_folder = bool(folder) and _path(folder).is_dir()
    return has_folder or name.startswith(("/", "./", "../", "~/")) or bool(_ENDING.search(name))


def _find_near(name: str) -> str:
    """Return the name of the existing file most similar to this one; "" for none."""
    folder, slash, last = name.rpartition("/")
    try:
        with os.scandir(_path(folder + slash or ".")) as entries:
            names = [one.name for one in islice(entries, _MOST_COMPARED) if one.is_file()]
    except (OSError, ValueError):
        return ""
    found = get_close_matches(last, names, 1, _LIKENESS)
    return folder + slash + found[0] if found else ""


def mention_prefix(before_cursor: str) -> str | None:
    """Return the beginning of a file name at the end of this text; None if there is none."""
    found = _BEGUN.search(before_cursor)
    return found[0] if found else None


def offer_files(begun: str) -> Iterator[tuple[str, str]]:
    """Yield the completions of the beginning of a name ("@no"), with the kind of each; folders end
    with a slash."""
    typed = begun.removeprefix("@").removeprefix('"')
    folder, _, start = typed.rpartition("/")
    if folder or typed.startswith("/"):
        folder += "/"
    try:
        with os.scandir(_path(folder or ".")) as entries:
            names = sorted(
                (entry.name + "/" * entry.is_dir(), entry.is_dir())
                for entry in entries
                if entry.name.startswith(start) and (start or not entry.name.startswith("."))
            )
    except (OSError, ValueError):
        return
    for name, is_folder in names[:_MOST]:
        yield _mention(folder + name, is_open=is_folder), "folder" if is_folder else ""


def _mention(name: str, is_open: bool = False) -> str:
    is_plain = re.fullmatch(r'[^\s"]+', name)
    return f"@{name}" if is_plain else f'@"{name}' + '"' * (not is_open)


def name_dropped(text: str) -> str:
    """Return the mentions of pictures that were dropped onto the terminal, which pastes their
    paths; "" for any other text."""
    if len(text) > _LONGEST or not text.strip():
        return ""
    try:
        words = [text.strip()] if _is_picture(text.strip()) else shlex.split(text)
    except ValueError:
        return ""
    paths = [unquote(urlsplit(word).path) if word.startswith("file://") else word for word in words]
    if not paths or not all(map(_is_picture, paths)):
        return ""
    return " ".join(map(_mention, paths)) + " "


def _is_picture(path: str) -> bool:
    """Return whether this is the whole path of a picture; a quote can't be written in a mention."""
    suits = path.startswith("/") and '"' not in path and "\n" not in path
    return suits and Path(path).suffix.lower() in _PICTURES and _is_file(Path(path))


def paste_picture() -> Path | None:
    """Return the picture in the clipboard as a file, for this person alone; None if there is none,
    or no tool to read it. The reader deletes it (`discard`)."""
    for command in _CLIPBOARDS:
        if shutil.which(command[0]) is None:
            continue
        try:
            done = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and done.stdout.startswith(b"\x89PNG"):
            descriptor, name = tempfile.mkstemp(prefix=_MADE, suffix=".png")
            with os.fdopen(descriptor, "wb") as file:
                file.write(done.stdout)
            return Path(name)
    return None


def discard(paths: Sequence[Path]) -> None:
    """Delete those of these files that were made from the clipboard."""
    for path in paths:
        if path.name.startswith(_MADE) and path.parent == Path(tempfile.gettempdir()):
            path.unlink(missing_ok=True)
