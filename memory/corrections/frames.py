"""Frames of sentences that name both the ended value and the new one: "from 19:00 to 20:30", "16.1,
not 15.4", "8080 -> 9090". Pure.

The sentence itself says which of the two ended, so nothing is learnt. Only the words between the
two values, and a few beside them, are checked.
"""

from __future__ import annotations

import re

from memory.patterns import lazy

_BEFORE, _BETWEEN, _BEHIND = 60, 40, 40
"""The numbers of characters that are checked."""

SMALL = (
    r"(?:(?:the|an?|at|on|in|by|for|with|as|our|my|be|der|die|das|den|dem|um|am|im|auf|zu|zum|mit|"
    r"als|ein|eine|einen|einem|für|bei|von|vom|port|version|room|raum|gleis|platform|tisch|table|"
    r"line|linie|nr\.|no\.|halb|eher|lieber)\s|[@#№$€£])*"
)
"""Words that may be before a value."""
_UNIT = r"(?:\s?(?!(?:and|und)\b)[^\s\d,;.:!?，。；、]{1,16})?"
"""A word that may be behind a value. "One and not the other" is a choice."""
_WORDS = r"(?:[^\s,;.:!?，。；、]{1,16}\s){0,4}"
CHANGED = (
    r"\b(?:mov(?:e|es|ed|ing)|chang(?:e|es|ed|ing)|switch|shift|rename|reschedul|postpone|pushe?d?|"
    r"bump|correct|update|upgrad|downgrad|migrat|raise|reduc|increas|lower|extend|brought|bring|"
    r"went (?:up|down)|gone (?:up|down)|goes (?:up|down)|drop|delay|cut|replac|swap|substitut|"
    r"verleg|verschob|verschieb|geänder|änder|umbenan|umge|umstell|stell|setz|gesetz|gestieg|steig|"
    r"gesunk|sink|senk|gesenk|reduzier|umbuch|umgebuch|befördert|promot|erhöh|gekürz|kürz|wechsel|gewechs|vorverleg|vorgezog|verläng|korrig|aktualis|"
    r"ersetz|tausch)\w*"
)
"""Verbs for the change of one value into another."""
BECOMES = (
    r"(?:更改|修改|更名|更新|替换|推迟|提前|延期|延长|升级|调整|更正|改|换|调|变|移|挪|延|升|涨|降|减|搬|转)"
    r"(?:[名成为叫到至用在了]){0,3}"
)
_NOT = r"(?:不再?是|并非|不[叫姓在要用]|别[用要]?)"

# The text before, between and behind two values; the first of them ends. `_OLD_NEW_OF_VALUES` is
# not used for names: there the name may be the thing that changes, not the old value ("change Word
# to Calibri").
_OLD_NEW_OF_VALUES = (
    (CHANGED, rf"{_UNIT}\s(?:to|into|with|by|for|auf|zu|nach|in|durch|gegen)\s{SMALL}", ""),
    (r"[从由把将][^。]{0,14}$", rf"[^。，\d]{{0,4}}{BECOMES}", ""),
    ("", rf"(?:的?(?:价格|时间|号码))?{BECOMES}", ""),
)
_OLD_NEW = (
    ("", r"\s?(?:-{1,3}>|={1,2}>|[→⇒➜])\s?", ""),
    (
        r"\b(?:replac|swap|substitut|ersetz|tausch)\w*\s(?:the |den |die |das )?$",
        rf"{_UNIT}\s(?:with|by|for|durch|gegen)\s{SMALL}",
        "",
    ),
    (
        rf"\b(?:from|von|vom)\s{SMALL}$",
        rf"{_UNIT}\s(?:to|auf|zu|nach)\s{SMALL}",
        rf"\bum\W*$|{CHANGED}",
    ),
    (
        rf"\b(?:not|no longer|\w+n't|nicht(?: mehr)?|kein\w{{0,2}})\s{SMALL}$",
        rf"{_UNIT}(?:\sany ?more|\smehr)?(?:[,;.–—-]\s|\s[–—-]+\s|,?\s(?:but|sondern)\s){_WORDS}",
        "",
    ),
    (rf"\b(?:instead of|rather than|statt|anstatt)\s{SMALL}$", rf"{_UNIT},?\s{_WORDS}", ""),
    (
        rf"\b(?:I (?:said|wrote|typed|put|told you)|ich (?:sagte|schrieb|hab\w{{0,2}}))\s{SMALL}$",
        rf"{_UNIT},?\s{_WORDS}",
        "",
    ),
    (
        r"\b(?:forget|ignore|scratch|scrap|drop|disregard|vergiss|vergesst|streiche?n?|ignorier\w?|"
        rf"lass(?:en wir)?)\s{SMALL}$",
        rf"{_UNIT}[,;.–—-]\s{_WORDS}",
        "",
    ),
    (
        "",
        rf"{_UNIT}\s(?:is|was|ist|war)\s(?:wrong|outdated|a typo|falsch|veraltet|ein tippfehler)"
        rf"\W{{1,3}}{_WORDS}",
        "",
    ),
    (
        "",
        rf"{_UNIT}\s(?:is|was|ist|war|sind|are)\s(?:too|zu)\s\w+[,;.–—-]\s{_WORDS}",
        "",
    ),
    (
        "",
        rf"{_UNIT}\s(?:(?:does|is|was|ca|wo)n['’]t|is (?:ill|sick|full|closed|out)|klappt|geht"
        rf"|passt|kann|ist (?:krank|voll|zu))\b"
        rf"[^,;.]{{0,30}}[,;.–—-]\s{_WORDS}",
        "",
    ),
    ("", r"(?:没空|不行|不方便|不合适|走了|不来了?)[，,。]\s?[^，。]{0,6}", ""),
    ("", r"[^，,。]{0,2}太[^，,。]{1,3}[，,][^，,。]{0,6}", ""),
    (r"[从由]$", rf"[^。，\d]{{0,2}}{BECOMES}", ""),
    (
        rf"(?:{_NOT}|没有)$",
        r"[^。，]{0,3}[，,]?\s?(?:而是|是|应该|现在|改|换|要|用|在|叫|姓)[^，。]{0,4}",
        "",
    ),
    (r"[说写打记][错的成].{0,2}$", r"[^。]{0,12}(?:应该|其实|正确|实际)[^，。]{0,4}", ""),
    (
        "",
        r"[^，。]{0,4}(?:[写打说记看]?错了?|不对|作废|不准确|不坐了|不要了)[，,。\s]{0,2}[^，。]{0,8}",
        "",
    ),
)
_NEW_OLD = (
    (
        "",
        rf"{_UNIT}(?:,\s(?:[^\s,.;:!?，。；、]{{1,16}}\s?){{1,3}}(?=[,;]))?"
        rf"(?:\s[–—-]+|[,;(–—-]+)?\s?\b(?:not|no longer|nicht(?: mehr)?|instead of|"
        rf"rather than|statt|anstatt|replaces|supersedes|ersetzt)\s{SMALL}",
        "",
    ),
    ("", rf"[^，,。]{{0,4}}[，,]?\s?而?{_NOT}[^，,。]{{0,3}}", ""),
    (
        "",
        rf"{_UNIT}[,;.–—-]\s{SMALL}",
        rf"^{_UNIT}\s(?:is|are|was|ist|sind|war)\s(?:too|not enough|zu|nicht genug)\b",
    ),
    ("", r"[^，。]{0,3}[，,]\s?", r"^(?!连)[^，。也都]{0,3}(?:不够|太[^，。]|不行|不要了|作废)"),
)
_REPAIR = (
    r"(?:(?:(?:oh|ah|ach|or rather|oder (?:eher|besser|nein)|äh+m?|er+m?|uh+m?|nein|nee|no|nope|"
    r"sorry|pardon|wait|rather|actually|"
    r"i mean|i meant|make that|scratch that|correction|i should say|quatsch|unsinn|moment|halt|"
    r"entschuldigung|verzeihung|ich mein\w{0,2}|besser gesagt|genauer gesagt|vielmehr|korrektur)"
    r"\b|[哦噢啊呃]?不对|[哦噢啊呃]不是?|不不|[说写打记]错了|我是说|应该是|更正|抱歉|对不起|等等|哎呀)"
    r"[,.，。:：!！ …–—-]{0,3}){1,4}"
)
"""Words by which a speaker repairs the last words: "at 9, no, sorry, at 10"."""
_REPAIRS = (
    ("", rf"{_UNIT}\s?[,，;.:(（…–—-]{{1,3}}\s?{_REPAIR}\s?{SMALL}", ""),
    (
        "",
        rf"{_UNIT}\s?[,;(…–—-]{{1,3}}\s?(?:[^\s\d,.;:]{{1,16}}\s)?{SMALL}",
        r"^\S{0,16}?,?\s(?:rather|i mean|i meant)\b",
    ),
)
_FRAMES, _FRAMES_BACK, _FRAMES_OF_VALUES, _FRAMES_OF_REPAIRS = (
    tuple(tuple(lazy(part, re.IGNORECASE) for part in frame) for frame in frames)
    for frames in (
        (*_OLD_NEW, *_REPAIRS),
        _NEW_OLD,
        (*_OLD_NEW_OF_VALUES, *_OLD_NEW, *_REPAIRS),
        _REPAIRS,
    )
)
MAY_FRAME = lazy(
    rf"->|=>|[→⇒➜]|{CHANGED}|\b(?:not|no longer|\w+n't|instead|rather|said|wrote|typed|put|told|"
    r"forget|ignore|scratch|scrap|drop|disregard|wrong|outdated|typo|replaces|supersedes|nicht|"
    r"kein\w{0,2}|statt|vergesst|lass|mean|meant|no|nope|sorry|pardon|wait|actually|correction|nein|nee|"
    r"quatsch|unsinn|moment|halt|entschuldigung|verzeihung|mein\w{0,2}|gesagt|vielmehr|korrektur|"
    r"anstatt|sagte|schrieb|hab\w{0,2}|vergiss|streiche?|ignorier\w?|falsch|veraltet|tippfehler|too|zu)\b"
    r"|[走太改换调变移挪延升涨降减搬转替推更从由把将不非别没错废对等哎抱]",
    re.IGNORECASE,
)
"""A sign that every sentence with a frame has."""
_DOUBTFUL = lazy(
    r"\b(?:if|unless|would|almost|nearly|imagine|suppose|not only|wenn|falls|würde|wäre|fast|"
    r"beinahe|nicht nur|used to|früher)\b|如果|要是|假如|差点|不仅|不只|万一|以前",
    re.IGNORECASE,
)
"""Words of statements that are not facts, or no longer."""
_ASKED = lazy(r"[?？]\s*$|[吗呢]\s*$")
_REQUEST = lazy(
    r"^\W*(?:(?:can|could|would|will) (?:you|we)|(?:könn|kann|würd)\w*|please|bitte|能|可以|麻烦)",
    re.IGNORECASE,
)


ORDERS = lazy(
    rf"^\W*(?:can|could) you (?:please )?(?:{CHANGED}|make)|^\W*(?:kannst"
    rf"|könntest) du\b[^?]{{1,80}}{CHANGED}",
    re.IGNORECASE,
)
"""A change that a person asks for politely."""


def is_doubtful(text: str) -> bool:
    """Return whether a sentence is a question, or does not state a fact."""
    is_asked = _ASKED.search(text) and not ORDERS.search(text)
    return bool(_DOUBTFUL.search(text) or is_asked)


def is_framed(
    text: str,
    old: tuple[int, int],
    new: tuple[int, int],
    *,
    is_name: bool = False,
    is_repair: bool = False,
) -> bool:
    """Return whether a text says that the second of two values, or names, at these positions
    replaces the first; with `is_repair`, only whether its speaker repairs the first at once."""
    first, second = sorted((old, new))
    if not 0 < second[0] - first[1] <= _BETWEEN:
        return False
    before = text[max(0, first[0] - _BEFORE) : first[0]]
    between = text[first[1] : second[0]]
    behind = text[second[1] : second[1] + _BEHIND]
    in_order = _FRAMES if is_name else _FRAMES_OF_VALUES
    back = _FRAMES_BACK
    if is_repair:
        in_order, back = _FRAMES_OF_REPAIRS, ()
    for at_front, in_the_middle, at_end in back if first == new else in_order:
        is_around = in_the_middle.fullmatch(between) and at_front.search(before)
        if is_around and at_end.search(behind):
            is_asked = _ASKED.search(text) and not _REQUEST.search(text)
            return not is_asked and not _DOUBTFUL.search(text)
    return False
