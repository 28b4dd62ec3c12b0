"""Regular expressions that cost nothing until they are needed.

To compile all patterns of the bot takes longer than the rest of its start, and few of them ever
match. So a pattern is compiled when it is first used.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, cast


class LazyPattern:
    """A pattern that is compiled when one of its methods is first asked for."""

    def __init__(self, source: str, flags: int) -> None:
        self.pattern = source
        self._flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._compiled, name)
        self.__dict__[name] = value  # from now on it costs no more than a compiled one's
        return value


def lazy(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first used."""
    return cast("re.Pattern[str]", LazyPattern(source, flags))
