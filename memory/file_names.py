"""Names that files may have on every system: those of Windows' rules, which are the strictest.

What the bot names itself keeps to them everywhere (`make_portable`), so that data and exports can
be moved. Names that a person or a model chose are refused only where they would mean something else
(`find_fault`): `a:b` is a stream of the file a there, `CON` a device, and `C:x` leads out.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable

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
