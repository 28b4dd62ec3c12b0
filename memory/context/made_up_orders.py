"""Sentences of a summary that tell of a lasting order which nobody gave. Pure.

What a model invents is mostly harmless; an order that it invents is carried out from then on.
"""

from __future__ import annotations

from collections.abc import Set

from memory.context.wording import is_wide, split_sentences, stems
from memory.patterns import lazy

_LEAST = 3  # words that say what an order is about
_PAIRS = 2
"""A sentence in Chinese is compared by pairs of signs, every other of which spans two words, and is
the same only where both are: it has twice as many as words, and half of those that it shares."""
_LASTS = lazy(
    r"\b(?:always|never|from now on|must not|mustn't|rules?|orders?|instruct\w*|forbid\w*|forbade"
    r"|insists?|insisted|ordered (?:that|to)|demand(?:s|ed) (?:that|to))\b"
    r"|\b(?:immer|nie|niemals|ab (?:jetzt|sofort)|künftig|regeln?|anweisung\w*|angeordnet|verboten"
    r"|verbietet|besteht darauf|darf nicht|dürfen nicht)\b"
    r"|以后|今后|从现在|永远|总是|一律|规则|规定|禁止|不得|不许",
)
_OF_ANY = lazy(
    r"person|people|user|alway|never|want|rule|order|instr|assis|said|asked|shoul|must|from|immer"
    r"|niema|perso|nutze|möcht|regel|anwei|gesag|künft|jetzt|sofor|soll|darf|werde|wurde|alle"
    r"|用户|要求|以后|永远|规则|总是|并且|不要|禁止|不得|不许|一律"
)


def find_made_up(text: str, said: Set[str]) -> list[str]:
    """Return the sentences of a text that tell of a lasting order of which fewer than half of the
    words, or a quarter of the pairs of signs in Chinese, are among those that were said (`said`, as
    `stems` makes them)."""
    told = [one for one in split_sentences(text) if _LASTS.search(one.casefold())]
    if not told:
        return []
    given = said | {word[:4] for word in said}
    found = []
    for one in told:
        about = {word for word in stems(one) if not _OF_ANY.match(word)}
        known = {word for word in about if word in given or word[:4] in given}
        times = _PAIRS if is_wide(one) else 1
        if len(about) >= _LEAST * times and len(known) * 2 * times < len(about):
            found.append(one)
    return found
