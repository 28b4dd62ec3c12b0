"""Plain words that replace another of their class: colours, sizes, sides, relatives. Pure.

They are not values: a summary need not keep each of them. A message ends an earlier word if it
denies it and names another of the same class ("the blue folder, not the red one"). It also does if
it has a cue, one word of the class, and no further word that was not used with the earlier one
("no, the blue one").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from memory.corrections.frames import is_doubtful, is_framed
from memory.corrections.pairs import BACK, ParsedMessage, ParsedSentence, ValuePair, as_word
from memory.corrections.sentences import has_hint, has_slip_cue, list_further, list_words
from memory.patterns import lazy
from memory.text.values import Value

PLAIN = "plain"
"""The kind of such a word. Many things may share it, so sentences about other things keep it."""
_LONGEST = 200  # maximum characters of a message
_COLOUR = (
    r"(?:(?:dark|light|pale|bright|navy|sky|mint|olive|sage|royal)[ -])?"
    r"(?:red|blue|green|yellow|black|white|gr[ae]y|brown|purple|pink|orange|beige|turquoise|cream)"
    r"|(?:dunkel|hell|mint|oliv)?(?:rot|blau|grün|gelb|schwarz|weiß|grau|braun|lila|rosa|türkis|beige)"
    r"(?:e[mnrs]?)?|[深浅米墨灰豆草天藏湖酒玫乳奶银橄]?(?:红|蓝|绿|黄|白|黑|紫|灰|棕|粉|橙|青)色"
)
_CLASSES = (
    _COLOUR,
    r"small|medium|(?:extra[ -])?large|[大中小]杯|[大中小]号",
    r"aisle|window|middle|gang(?=platz)|fenster(?=platz)|靠窗|靠过道|靠走道",
    r"north|south|east|west|nord|süd|ost|west|links|rechts|(?<=on the )(?:left|right)|"
    r"[左右]转|[左右]拐",
    r"once|twice|(?:three|four|five) times|einmal|zweimal|dreimal|viermal",
    r"vegan|vegetarian|gluten-free|vegetarisch|glutenfrei|laktosefrei",
)
_DENIED_ONLY = (
    r"cousin|nephew|niece|uncle|aunt|sister|brother|mother|father|mum|mom|dad|grandma|grandpa|son|"
    r"daughter|wife|husband|boyfriend|girlfriend|colleague|nichte|neffe|onkel|tante|schwester|bruder|"
    r"mutter|vater|oma|opa|sohn|tochter|enkelin|enkel|cousine|schwägerin|schwager|kollegin|kollege",
    r"breakfast|lunch|dinner|brunch|frühstück|mittagessen|abendessen",
    r"tea|coffee|tee|kaffee|wine|beer|wein|bier",
    r"left|right",
)
_LETTER = r"[^\W\d_\u3400-\u9fff]"
_ALL, _NAMED = (
    tuple(lazy(rf"(?<!{_LETTER})(?:{one})(?!{_LETTER})", re.IGNORECASE) for one in classes)
    for classes in (_CLASSES, _DENIED_ONLY)
)
"""The classes in which one word alone, with a cue, may correct another."""
_AGAIN = lazy(r"\b(?:also|too|now|auch|noch)\b|也", re.IGNORECASE)
_ONE = frozenset(["one", "ones", "den", "die", "das", "der", "的", "那", "个"])


def as_plain(text: str, start: int, end: int) -> Value:
    return replace(as_word(text, start, end), kind=PLAIN)


def list_classes(old: str, new: str) -> Iterator[tuple[Value, Value]]:
    """Yield the words of two sentences that replace each other: one of a class in each."""
    for pattern in (*_ALL, *_NAMED):
        ones, others = ([*pattern.finditer(text)] for text in (old, new))
        if len(ones) == len(others) == 1:
            words = as_plain(old, *ones[0].span()), as_plain(new, *others[0].span())
            if not words[0].is_same(words[1]):
                yield words


def find_plain(said: ParsedMessage, before: Sequence[ParsedMessage]) -> Iterator[ValuePair]:
    """Yield the pairs of plain words in a message and the words that they end; `before` are the
    messages before it, newest first."""
    if len(said.text) > _LONGEST:
        return
    for sentence in said.sentences:
        if is_doubtful(sentence.text) or _AGAIN.search(sentence.text):
            continue
        for pattern in (*_ALL, *_NAMED):
            words = [
                as_plain(sentence.text, *one.span()) for one in pattern.finditer(sentence.text)
            ]
            if len(words) == 1 and pattern in _ALL:
                yield from _find_alone(sentence, words[0], pattern, before)
            elif 1 < len(words) < 4:
                yield from _find_denied(sentence, words, before)


def _find_denied(
    sentence: ParsedSentence, words: Sequence[Value], before: Sequence[ParsedMessage]
) -> Iterator[ValuePair]:
    for old in words:
        for new in words:
            if new.is_same(old) or not is_framed(
                sentence.text, (old.start, old.end), (new.start, new.end), is_name=True
            ):
                continue
            said = re.compile(
                rf"\b{re.escape(old.text)}\b" if old.text.isascii() else old.text, re.I
            )
            for back, message in enumerate(before[:BACK]):
                for source in message.sentences:
                    if found := said.search(source.text):
                        if new.text.casefold() in message.folded:
                            return  # "Tea or coffee?"
                        value = as_plain(source.text, *found.span())
                        yield ValuePair(sentence, new, source, value, back, 0)
                        return


def _find_alone(
    sentence: ParsedSentence, new: Value, pattern: re.Pattern[str], before: Sequence[ParsedMessage]
) -> Iterator[ValuePair]:
    if not has_hint(sentence.text) and not has_slip_cue(sentence.text, "word"):
        return
    for back, message in enumerate(before[:BACK]):
        olds = [
            (source, as_plain(source.text, *one.span()))
            for source in message.sentences
            for one in pattern.finditer(source.text)
        ]
        if any(old.is_same(new) for _source, old in olds):
            return
        forms = {form for _source, old in olds for form in old.forms}
        if len(forms) > 1:
            return
        if olds:
            source, old = olds[0]
            rest = sentence.text[: new.start] + " " + sentence.text[new.end :]
            if {*list_further(rest)} - _ONE <= {*list_words(source.text)}:
                yield ValuePair(sentence, new, source, old, back, 0)
            return
