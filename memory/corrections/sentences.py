"""Sentences and words of texts that correct values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from memory.patterns import lazy

_LONGEST = 400  # characters of a sentence that corrects
_SENTENCE = lazy(
    r"[^.!?。！？\n;；]*(?:\.(?!\s|$)[^.!?。！？\n;；]*|(?<=\d)\.(?=\s+\w)[^.!?。！？\n;；]*|"
    r"(?<=\bDr)\.[^.!?。！？\n;；]*|(?<=\bMr)\.[^.!?。！？\n;；]*|"
    r"(?<=\d)\.(?=,)[^.!?。！？\n;；]*)*[.!?。！？]*"
)
QUOTED = lazy(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|«[^»\n]{1,300}»|『[^』\n]{1,300}』|\"[^\"\n]{1,300}\"|"
    r"“[^”\n]{1,300}”|„[^“”\n]{1,300}[“”]|「[^」\n]{1,300}」|"
    r"`[^`\n]{1,300}`|^>[^\n]*$",
    re.MULTILINE | re.DOTALL,
)

_ATTACHED = lazy(r"^\[[^\]\n]{1,300}\]$", re.MULTILINE)
"""A line that the bot has added to a message, for a file."""


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text without quotations, code and names of attached files."""
    if "[" in text:
        text = _ATTACHED.sub(lambda found: " " * len(found[0]), text)
    for found in _SENTENCE.finditer(QUOTED.sub(lambda m: " " * len(m[0]), text)):
        if len(found[0].strip()) > 1 and len(found[0]) <= _LONGEST:
            yield found[0]


_WORDS_OF_NO_TOPIC = """
    that this with from have will would should please actually sorry correction instead meant
    mean make change wrong right just only what there they them then than rather about your here
    been were when the and not for are was you her his its our has had but now can all one out
    get got yes ugh argh mist ach hmm crap damn dang verdammt right one hold these those always
    richtig seit dieser nicht sondern statt eine einen sind doch jetzt nein wird haben korrektur
    meine meinte mein dass auch bitte noch oder aber unter der die das ist und ich wir ihr sie
    mir mit
    auf für den dem ein vom zum war bin hat nun 不是 而是 现在 其实 更正 改成 我的 应该 抱歉
    一下 那个 刚才 一点 地方 我们 一个 这个 我 的 是 在 不 了 他 她 它 吧 就 也 都 月 日 号 点 元
"""
_COMMON = frozenset(re.findall(r"\S+", _WORDS_OF_NO_TOPIC))


@lru_cache(maxsize=2_000)  # a sentence is checked for each later message
def content_words(text: str) -> frozenset[str]:
    """Return the content words of a text; in Chinese, each pair of characters."""
    words = set[str]()
    for found in re.finditer(r"[\u4e00-\u9fff]+|[^\W\d_\u4e00-\u9fff]{3,}", text.casefold()):
        word = found[0]
        if "\u4e00" <= word[0] <= "\u9fff":
            words.update(word[i : i + 2] for i in range(len(word) - 1) if len(word) > 1)
            words.update(word if len(word) == 1 else "")
        else:
            words.add(word[:6])  # enough of a stem to recognise "meetings"
    return frozenset(words) - _COMMON - _COMMON_STEMS


_VERBS_OF_ANYTHING = """
    cost costs takes starts begins ends leaves goes comes works suits called want need needs meet
    kostet kosten dauert beginnt fängt fährt geht kommt passt heißt heißen will wollen brauche
    later earlier later again today später früher wieder heute wrong falsch 改成 改到 改为 说错 错了
    更正 应该
"""
OF_ANYTHING = frozenset(word[:6] for word in re.findall(r"\S+", _VERBS_OF_ANYTHING))
_COMMON_STEMS = frozenset(word[:6] for word in _COMMON)
