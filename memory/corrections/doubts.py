"""Sentences with a new value that do not correct the old one. Pure.

They are about a wish, a condition, or somebody's belief, or about another person than the old value
("my brother's flight is on 5 May"). Two values of one message end each other only if the message
says so: "the vans cost 1,890 and 1,540" does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from memory.corrections.pairs import DENYING, ParsedMessage, ParsedSentence, ValuePair
from memory.corrections.sentences import has_cue, list_cues
from memory.corrections.targets import find_named, part_of
from memory.patterns import lazy
from memory.text.numbers import kind_of_unit

_BEFORE = 80
"""The number of characters before a new value that may say whose belief it is."""
_UNIT = 16
"""The number of characters behind a number that may be its unit."""
_CONDITION = lazy(
    r"\bif\s(?!(?:you|we)\b|possible)|\bwenn\s(?!(?:du|sie|ihr|wir|möglich)\b)", re.IGNORECASE
)
_NUMBERED = lazy(r"([^\W\d][^\d]{0,30})(\d{1,9})")
_UNREAL = lazy(
    r"\b(?:were|would|could|wäre\w{0,2}|hätte\w{0,2}|könnte\w{0,2}|würde\w{0,2}|käme\w?|ginge\w?|"
    r"führe\w?|gäbe\w?|bliebe\w?)\b|['’]d\b",
    re.IGNORECASE,
)
_WISH = lazy(
    r"\b(?:(?:what|as|even) if|(?:i|we) wish(?! to\b)|imagine|suppose|pretend|"
    r"(?:was|als|selbst) wenn|wünsch(?:te|ten)|angenommen|stell dir vor)\b"
    r"|要是|假如|假设|万一|但愿",
    re.IGNORECASE,
)
_BELIEF = lazy(
    r"\b(?:[Hh]e|[Ss]he|[Tt]hey|[Ss]ie|[Ee]r|[A-ZÄÖÜ][^\W\d_]{1,20})\s(?:[^\W\d_]{2,12}\s)?"
    r"(?:thought|thinks|believe[ds]?|guess(?:ed|es)|assume[ds]?|hope[ds]?|dachten?|denkt|glaubten?|"
    r"glaubt|vermutete?n?|hofft?e?n?)\b,?[^,;.]{0,60}$"
    r"|(?<!我)(?:以为|觉得|猜)[^，。；]{0,20}$"
)
_RELATIVE = (
    r"brother|sister|mother|father|mum|mom|dad|wife|husband|son|daughter|cousin|uncle|aunt|niece|"
    r"nephew|boyfriend|girlfriend|friend|colleague|boss|neighbou?r|grandma|grandpa|partner|flatmate|"
    r"bruders?|schwester|mutter|vaters?|frau|mann(?:es)?|sohn(?:e?s)?|tochter|cousine|onkels?|tante|"
    r"nichte|neffen?|freund(?:in|es)?|kolleg(?:in|en?)|chef(?:in|s)?|nachbar(?:in|n)?|oma|opas?|"
    r"partner(?:in|s)?|mitbewohner(?:in|s)?"
)
_TELLS = (
    r"(?:just |now |has |have |hat |haben )?(?:said|says?|told|tells|rang|called|wrote|thinks|"
    r"insists|confirm\w{0,3}|sagte?|meint|meinte|schrieb|schreibt|rief|gesagt|mir|uns|me|us)\b"
)
_OF_RELATIVE = lazy(
    rf"\b(?:my|our|his|her|their)\s(?:[^\W\d_]{{2,12}}\s)?({_RELATIVE})s?\b(?!\s{_TELLS})(?=['’]?s?\s)"
    rf"|\b(?:meine[srn]?|unsere[srn]?|(?:von|bei)\s(?:meine[rm]|unsere[rm]))\s"
    rf"(?:[^\W\d_]{{2,12}}\s)?({_RELATIVE})\b(?!\s{_TELLS})"
    r"|[我他她]?(哥哥?|弟弟?|姐姐?|妹妹?|太太|老婆|老公|先生|妻子|丈夫|爸爸?|妈妈?|儿子|女儿|朋友|同事|同学|"
    r"老板|邻居|奶奶|爷爷|外公|外婆|叔叔|阿姨|室友)(?:们)?的",
    re.IGNORECASE,
)


def is_doubted(pair: ValuePair, said: ParsedMessage, before: Sequence[ParsedMessage]) -> bool:
    """Return whether a pair is no correction, whatever its words are."""
    text = pair.sentence.text
    beginning = text[max(0, pair.new.start - _BEFORE) : pair.new.start]
    if is_unreal(text) or _BELIEF.search(beginning):
        return True
    if _has_other_unit(pair) or _is_of_series(pair, before):
        return True
    return _is_of_relative(pair, said) if pair.back >= 0 else not _is_ended_here(pair, said)


def is_unreal(text: str) -> bool:
    """Return whether a sentence tells a wish or an unreal condition."""
    return bool(_WISH.search(text) or (_CONDITION.search(text) and _UNREAL.search(text)))


def _is_of_series(pair: ValuePair, before: Sequence[ParsedMessage]) -> bool:
    """Return whether the person counts: the same words with the number before, such as "build
    rc7", and then "build rc8"."""
    old, new = (_NUMBERED.fullmatch(value.text) for value in (pair.old, pair.new))
    if old is None or new is None or old[1] != new[1] or int(new[2]) != int(old[2]) + 1:
        return False
    frame = pair.sentence.text.replace(pair.new.text, "")
    return not has_cue(frame) and any(
        pair.old.text in sentence.text and sentence.text.replace(pair.old.text, "") == frame
        for message in before
        if not message.is_reply
        for sentence in message.sentences
    )


def _has_other_unit(pair: ValuePair) -> bool:
    """Return whether the numbers count different things: euros, and kilometres."""
    if pair.new.kind != "number":
        return False
    places = (pair.source.text, pair.old), (pair.sentence.text, pair.new)
    kinds = [kind_of_unit(text[one.start : one.end + _UNIT]) for text, one in places]
    return all(kinds) and kinds[0] != kinds[1]


def _is_ended_here(pair: ValuePair, said: ParsedMessage) -> bool:
    """Return whether a message may end a value that only it names: one of the two sentences denies
    something, or says that something was wrong or has changed."""
    named = find_named(pair, said)
    return any(map(_denies, (pair.sentence, named[0] if named else pair.sentence)))


def _denies(sentence: ParsedSentence) -> bool:
    return not DENYING.isdisjoint(sentence.tokens) or bool(list_cues(sentence.text))


def _is_of_relative(pair: ValuePair, said: ParsedMessage) -> bool:
    """Return whether the new value belongs to a relative or a friend whom the old value's sentence
    does not name, and nothing says that something was wrong."""
    text = pair.sentence.text
    found = _OF_RELATIVE.search(text)
    if found is None or has_cue(text) or find_named(pair, said):
        return False
    name = next(filter(None, found.groups())).casefold()
    return name[:4] not in pair.source.folded


# --- for pairs of all rules ----------------------------------------------------------------------

_DENIES = lazy(
    r"(?:\b(?:not|never|no need to)\b|n['’]t\b)"
    r"(?:\s(?!(?:but|so|until|till|before|only|just|forget|believe|under|over|less|more|below|above)\b)[^\s,;:.!?]{1,20}){0,5}\s*$"
    r"|\b(?:nicht|kein\w{0,2}|nie)\b"
    r"(?:\s(?!(?:sondern|vor|bis|nur|erst|vergessen|also|unter|über|weniger|mehr)\b)[^\s,;:.!?]{1,20}){0,4}\s*$"
    r"|(?:别|不要|不是|不用|没有|并非)(?!说|忘)[^，。；,;：:]{0,6}$",
    re.IGNORECASE,
)
"""A denial before a value: "don't change it to 5"."""
_AFFIRMS = lazy(
    r"^[^\w,;.]{0,2}\s?(?:(?:is|was|are|it is|ist|war|sind)\s)?(?:still |noch )?"
    r"(?:right|correct|perfect|fine|richtig|korrekt|perfekt|stimmt|passt|bleibt|是?对的|没错|是?正确)"
    r"(?!\w|,? (?:but|until|aber|nicht|doch|bis))",
    re.IGNORECASE,
)
_KEEPS = lazy(
    r"\b(?:stick|stay|keep|leave (?:it|that|this)|remain|lass\w?|bleib\w{0,2}|behalt\w{0,2})\b"
    r"(?![^,;.]*\b(?:not|nicht)\b)[^,;.]{0,20}$|"
    r"(?:^|[，。,])(?:就|保持|还是)$",
    re.IGNORECASE,
)
"""Words behind a value, and before it, that say that it holds."""
_UNSURE = lazy(
    r"\b(?:may (?:be|become|change|move|go)|might|not sure(?! why)|nicht sicher|noch klären|"
    r"would(?: have|['’]ve) been(?! (?:right|correct|better))|wären? (?:schöner|zu)|"
    r"wäre\w? (?!richtig|besser|korrekt).{0,30}gewesen|"
    r"first thought|used to be|dachte (?:zuerst|erst)|war früher|last time|remember when|"
    r"letzte[ns]? mal|(?:last one|letzte) (?:was|war)|at my old|"
    r"(?:ask\w{0,3}|frag(?:en?|te?n?))(?: me| mich)?,? (?:whether|if|ob)|"
    r"on average|for most|im (?:durch)?schnitt|(?:is|ist) normal|for (?:his|hers|theirs))\b|"
    r"也许|(?<!不)可能|说不定|以前是|一开始以为",
    re.IGNORECASE,
)
"""Words of a clause about another time, another person or a possibility."""
_ELSEWHERE = lazy(
    r"\b(?:google|(?:some|most|other|many) people|people (?:say|think)|others|internet|"
    r"(?:the|an) error(?: message)? (?:says|shows)|somebody|someone|manche|viele leute|andere|"
    r"fehlermeldung|jemand)\b[^,;.]{0,30}$|(?:(?<![务官])网上|报错|有人|人家|百度)[^，。；]{0,10}$",
    re.IGNORECASE,
)
"""A source that does not know the things of the person who speaks."""
_FURTHER = lazy(
    r"\b(?:the|das|die|der|den|dem|mein\w{0,2}|my|our|unser\w{0,2}) "
    r"(?:other|next|second|return|zweiten?|nächsten?|anderen?) (?!thing|point|note|punkt)|"
    r"\bthere['’]?(?:s| is| are) (?:also|another)\b|\bes gibt (?:auch|noch)\b|\bcc\b|"
    r"第二[个张条次]?|另一?[个张条]|下一[个条次班]|[回返]程|还有",
    re.IGNORECASE,
)
"""Words for one more thing."""


def is_rejected(pair: ValuePair, said: ParsedMessage) -> bool:
    """Return whether a message denies or doubts the new value, has it from elsewhere or for one
    more thing, or says that the old one holds."""
    text, start = pair.sentence.text, pair.new.start
    begin = max((one.end for one in pair.sentence.values if one.end <= start), default=0)
    if _DENIES.search(text[max(begin, start - _BEFORE) : start]):
        return True
    named = find_named(pair, said) if pair.back >= 0 else None
    if named is not None:
        sentence, old = named
        head, tail = sentence.text[: old.start], sentence.text[old.end :]
        return bool(_AFFIRMS.search(tail) or _KEEPS.search(head[-_BEFORE:]))
    if pair.back < 0 or "slip" in pair.sentence.cues:
        return False
    head = text[max(0, start - _BEFORE) : start]
    if _UNSURE.search(text, *part_of(text, pair.new)) or _ELSEWHERE.search(head):
        return True
    found = _FURTHER.search(head)
    if found is None or found[0].casefold() in pair.source.folded:
        return False
    return sum(one.kind == pair.old.kind for one in pair.source.values) == 1
