"""Sentences, content words and languages of texts, found without a model. Pure.

The texts are not understood: two texts are about the same topic if they share the stems of content
words (in Chinese, Japanese and Korean: pairs of characters).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from operator import add
from typing import NamedTuple

from memory.patterns import lazy
from memory.text.names import MONTH_OF

_CJK = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
_WORD = lazy(r"[^\W\d_]+")
_LONG_WORD = lazy(rf"[^\W\d_{_CJK}]{{4,}}")
_WIDE_SIGN = lazy(rf"[{_CJK}]")
_RUN = lazy(rf"[{_CJK}]{{2,}}")
_STEM = 5  # letters that inflected forms of a word share
_HEAD = 4  # letters of a word that are compared with a pattern's words
_SAMPLE = 400  # characters of a message that are used to detect its language,
_LOOKED_AT = 24  # from about this many messages
_JUDGED = 3  # function words from which on a language is detected
_LETTERS = 12  # letters of another script from which on it is detected

_FUNCTION = {
    "en": "the and that this with for was were are have has had not but they from which would been "
    "will their about you your there what when she his her of to is it as be by an at or on if",
    "de": "der die das und ist nicht ein eine einen einem mit auf für dem den des von zu wird auch "
    "noch sich wurde werden oder bei im am es er sie ich ihr aber nur nach aus wie hat haben sind",
    "fr": "le la les des est une dans pour que qui avec sur pas vous nous il elle sont du au aux "
    "et cette ce ses été mais ont être plus par",
    "es": "el los las una que por con para del está son pero como más fue sus se lo su al y esta "
    "también ha han muy hay desde",
    "it": "il gli una che per con del della sono non più anche nel alla è di ha questo si da dei "
    "le come stato",
    "pt": "o os as uma que por com para do da não mais em foi também são ao na no um se dos das "
    "ele ela está",
    "nl": "de het een en van niet met voor dat zijn op aan ook werd wordt er bij naar maar hij zij "
    "is te die heeft",
}
_WORDS_OF = {name: frozenset(words.split()) for name, words in _FUNCTION.items()}
_ALL_FUNCTION = frozenset[str]().union(*_WORDS_OF.values())
_COMMON = (
    "remind later erinnere erinner später "
    "user users person assistant asked wants wanted also then than them these those some "
    "into over just very much more most only here today okay thanks thank please like need "
    "needs would could should summary conversation nutzer nutzerin benutzer assistentin "
    "assistent diese dieser dieses einer eines ihre ihren seine seinen kann können soll "
    "sollen muss möchte danke bitte dann wenn weil dass etwa über unter zusammenfassung "
    "gespräch sein"
)
IGNORED = frozenset(MONTH_OF).union(_COMMON.split(), _ALL_FUNCTION)
"""Words that say nothing by themselves."""
_PARTICLES = frozenset(
    "的了吗呢吧啊是我你您他她它在和也就都还很这那有没不要会能可以们个一请把被给与及或说对为"
)
_NO_PARTICLES = str.maketrans(dict.fromkeys(_PARTICLES, " "))

_SCRIPTS = (
    ("ja", re.compile("[\u3041-\u30ff]")),
    ("zh", re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("ko", re.compile("[\uac00-\ud7a3]")),
    ("cyrillic", re.compile("[\u0400-\u04ff]")),
    ("arabic", re.compile("[\u0600-\u06ff]")),
    ("hebrew", re.compile("[\u0590-\u05ff]")),
    ("greek", re.compile("[\u0370-\u03ff]")),
    ("thai", re.compile("[\u0e00-\u0e7f]")),
    ("devanagari", re.compile("[\u0900-\u097f]")),
)
_WIDE = frozenset(("ja", "zh", "ko"))
_PER_WIDE = 3  # Latin letters that are equivalent to one of those characters

_END = lazy(r"[.!?…][\"”’)\]]?\s+|[。！？][”」』）]?\s*|\n\s*")
_NO_END = lazy(
    r"(?:(?<![:.,])\b\d{1,2}|(?<!\d\.)(?<!['’])\b\w|\b(?:Dr|Mr|Mrs|Ms|Prof|St|Nr|No|ca|bzw|vs|max|min|inkl|evtl|usw|etc))\.\Z"
)


def split_sentences(text: str) -> list[str]:
    """Return the sentences and lines of a text, each on one line."""
    found, start = list[str](), 0
    for end in _END.finditer(text):
        at = _behind_sign(end)
        if "\n" not in end[0] and _NO_END.search(text[start:at][-8:]):
            continue
        found.append(text[start : end.end()])
        start = end.end()
    found.append(text[start:])
    return [line for one in found if (line := " ".join(one.split()))]


def _behind_sign(end: re.Match[str]) -> int:
    return end.start() + (end[0][0] != "\n")


def end_at_sentence(text: str) -> str:
    """Return a truncated text up to the end of its last sentence or line, if that is in its last
    third."""
    ends = [_behind_sign(end) for end in _END.finditer(text)]
    return text[: ends[-1]].rstrip() if ends and ends[-1] * 3 > len(text) * 2 else text


class WordIndex:
    """The words of texts, in lower case; each text is searched once."""

    def __init__(self) -> None:
        self._known: dict[str, frozenset[str]] = {}
        self._heads: dict[str, frozenset[str]] = {}
        self._wide: dict[str, set[str]] = {}

    def __call__(self, text: str) -> frozenset[str]:
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = frozenset(_WORD.findall(text.casefold()))
        return found

    def heads(self, text: str) -> frozenset[str]:
        """Return the first letters of a text's words, for `CuedPattern`."""
        found = self._heads.get(text)
        if found is None:
            found = self._heads[text] = frozenset([word[:_HEAD] for word in self(text)])
        return found

    def stems(self, texts: Iterable[str]) -> set[str]:
        """Return the stems of several texts."""
        words, found = set[str](), set[str]()
        for text in texts:
            if is_wide(text):
                if text not in self._wide:
                    self._wide[text] = stems(text)
                found |= self._wide[text]
            else:
                words |= self(text)
        words -= IGNORED
        found.update([word[:_STEM] for word in words if len(word) > 3])
        return found


class CuedPattern(NamedTuple):
    """A slow pattern. It is only searched in a text that has a word with one of these beginnings
    (`WordIndex.heads`), or one of these signs."""

    heads: frozenset[str]
    signs: tuple[str, ...]
    signs_in_ascii: tuple[str, ...]
    pattern: re.Pattern[str]

    def may_be_in(self, text: str, heads: Set[str]) -> bool:
        """Return whether a text with these word beginnings may match."""
        if not self.heads.isdisjoint(heads):
            return True
        signs = self.signs_in_ascii if text.isascii() else self.signs
        return any(map(text.__contains__, signs))

    def is_in(self, text: str, heads: Set[str]) -> bool:
        """Return whether a text with these word beginnings matches."""
        return self.may_be_in(text, heads) and self.pattern.search(text) is not None


def cue(words: str, signs: str, pattern: re.Pattern[str]) -> CuedPattern:
    """Return a pattern with the words (or their beginnings) and the signs, one of which each match
    has."""
    all_signs = tuple(signs.split())
    heads = frozenset(word.casefold()[:_HEAD] for word in words.split())
    return CuedPattern(heads, all_signs, tuple(filter(str.isascii, all_signs)), pattern)


def is_wide(text: str) -> bool:
    """Return whether a text has Chinese, Japanese or Korean characters."""
    return not text.isascii() and _WIDE_SIGN.search(text) is not None


def stems(text: str) -> set[str]:
    """Return the stems of the content words of a text."""
    folded = text.casefold()
    found = {word[:_STEM] for word in set(_LONG_WORD.findall(folded)) - IGNORED}
    if not folded.isascii():
        for run in _RUN.findall(folded.translate(_NO_PARTICLES)):
            found.update(map(add, run, run[1:]))
    return found


def shared(some: Iterable[str], others: Set[str]) -> set[str]:
    """Return the stems that are among the others; also by four letters, for words that have no
    more."""
    return {one for one in some if one in others or one[:4] in others}


def language_of(text: str) -> str:
    """Return the language of a text, or its script if only that can be detected; "" if it is too
    short, or no language prevails."""
    words = _WORD.findall(text.casefold())
    if not text.isascii() and (script := _script_of(text, sum(map(len, words)))):
        return script
    there = set(words)
    told = sorted((len(known & there), name) for name, known in _WORDS_OF.items())
    (next_most, _), (most, first) = told[-2:]
    is_told = most >= max(_JUDGED, len(there) // 12) and most * 2 >= next_most * 3
    return first if is_told else ""


def _script_of(text: str, letters: int) -> str:
    """Return the script of most letters of a text, other than Latin; "" if there is none."""
    found = Counter({name: len(script.findall(text)) for name, script in _SCRIPTS})
    if found["ja"] * 5 > found["zh"]:
        found["ja"] += found.pop("zh", 0)
    name, count = found.most_common(1)[0]
    latin = letters - found.total()
    is_most = count * (_PER_WIDE if name in _WIDE else 1) > latin
    return name if count >= _LETTERS and is_most else ""


def languages_of(texts: Sequence[str]) -> frozenset[str]:
    """Return the languages of these texts, without those of a few words."""
    step = max(1, len(texts) // _LOOKED_AT)
    parts = [text[:_SAMPLE] for text in texts[::step] if text]
    found = Counter[str]()
    for part in parts:
        found[language_of(part)] += len(part)
    whole = language_of(" ".join(parts))
    known = found.total() - found.pop("", 0)
    most = {name for name, size in found.items() if size * 10 >= known}
    return frozenset(most | {whole} if whole else most)
