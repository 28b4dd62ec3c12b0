"""Names of conversations, and names that files may have on every system, by Windows' rules, which
are the strictest. The bot's own names keep to them (`make_portable`); names that others chose are
refused only where they would mean something else there (`find_fault`)."""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable
from functools import cached_property
from urllib.parse import quote

from msgspec import Struct

from memory.patterns import lazy

IS_STRICT = sys.platform == "win32"
"""True on a system that has these rules."""
LONGEST = 255
"""UTF-16 units of a name, which are at most as many as its bytes in UTF-8."""
_RESERVED = lazy(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]) *(?:\..*)?",
    re.IGNORECASE | re.DOTALL,
)
_NOT_IN_NAMES = lazy(r'[\x00-\x1f<>:"/\\|?*]')


def find_fault(name: str) -> str:
    """Return why a name can't be a file's on every system, as a clause; "" where it can."""
    if found := _NOT_IN_NAMES.search(name):
        return f"it holds {found[0]!r}"
    if _RESERVED.fullmatch(name):
        return "Windows has a device of this name"
    if name.endswith((".", " ")):
        return "it ends in a dot or a blank"
    if not name or len(name.encode("utf-16-le", "surrogatepass")) > 2 * LONGEST:
        return "it is too long" if name else "it is empty"
    return ""


def find_fault_here(names: Iterable[str]) -> str:
    """Return why the parts of a path can't be names on this system; "" where they can."""
    return next(filter(None, map(find_fault, names)), "") if IS_STRICT else ""


def make_portable(name: str) -> str:
    """Return a name that can be a file's on every system; one that can already is the same."""
    name = _NOT_IN_NAMES.sub("_", name).rstrip(". ") or "_"
    if _RESERVED.fullmatch(name):
        stem, dot, ending = name.partition(".")
        name = f"{stem.rstrip()}_{dot}{ending}"
    return name


def fold(name: str) -> str:
    """Return what two names have in common that some systems take for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def find_same(name: str, names: Iterable[str]) -> str:
    """Return the first of other names that some systems take for this one; "" if there is none."""
    return next((one for one in names if one != name and fold(one) == fold(name)), "")


_LONGEST = 150  # characters of a name, which leaves room for what stands before and after it


class ConversationKey(Struct, frozen=True, dict=True):
    """The key of a conversation, and of its audience.

    `id` names the conversation ("telegram/42", "pipe/main", and "pipe/main//2" for a branch);
    `audience` names the people who may read what is remembered of it, and is a folder's name under
    `data/audiences/`.
    """

    id: str
    audience: str

    @cached_property
    def home(self) -> str:
        """The id of the chat's first conversation: this one, or where it was branched off."""
        return home_of(self.id)

    @property
    def is_branch(self) -> bool:
        return self.home != self.id

    @property
    def number(self) -> int:
        """Return the number by which lists count it among the branches of its chat: the first
        conversation is 1."""
        return int(self.id.rpartition(BRANCH)[2]) if self.is_branch else 1

    def branch(self, number: int) -> ConversationKey:
        """Return the branch of this number."""
        suffix = f"{BRANCH}{number}" if number > 1 else ""
        return ConversationKey(self.home + suffix, self.audience)


Scope = Callable[[str], bool]
"""The predicate of the conversations that are meant, by their ids: where several processes share a
database, each works with its own."""


def everything(identity: str) -> bool:
    """All conversations: there is one process."""
    return True


BRANCH = "//"
"""Stands before a branch's number. Where a message comes from makes an id of two or three parts
(`bot.received.key_of`), of which the last is never empty, so that no branch has a chat's id."""


def home_of(identity: str) -> str:
    """Return the id of the conversation that a branch's chat began with; any other's is its own."""
    return identity.rpartition(BRANCH)[0] if identity.count("/") > _SLASHES else identity


_SLASHES = 2  # in the id of a thread


def file_name(identity: str) -> str:
    """Return a file's name for any identity: no two have the same one, and none leads out of a
    folder.

    Names that are too long, hidden, none, or none on another system carry a hash after a tilde,
    which no other has.
    """
    raw = identity.encode("utf-8", "surrogatepass")
    name = quote(raw, safe="")
    is_plain = 0 < len(name) <= _LONGEST and "~" not in name and name.strip(".") == name
    if is_plain and not find_fault(name):
        return name
    return make_portable(f"{name.strip('.')[:60]}~{hashlib.sha256(raw).hexdigest()}")
