"""Standing instructions in a person's messages ("never write to my boss", "以后都用中文"), found
without a model. Only the person's own words count. A linear model over words gives each sentence
a score; `python -m benchmarks.instructions` trains its weights (`weights.bin`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, takewhile
from math import sqrt

from msgspec import Struct

from bot.attachments import TRANSCRIBED
from memory.linear import read_weights
from memory.patterns import lazy

LONGEST = 600
"""The maximum length of a sentence in characters; orders are shorter."""
MOST_SENTENCES = 1_000
"""The maximum number of sentences of a message that are checked; a longer message was pasted."""


class UserSentence(Struct, frozen=True):
    """A sentence in lower case, and its position in the message."""

    text: str
    is_question: bool
    start: int
    end: int


# --- the words of others -------------------------------------------------------------------------

_FENCE = lazy(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_INLINE = lazy(r"`[^`\n]{1,300}`")
_OBJECT = lazy(r"\{[^{}\n]*+(?:\{[^{}\n]*+\}[^{}\n]*+)*+\}")
_QUOTED_LINE = lazy(r"^[ \t]*>.*$", re.MULTILINE)
_QUOTATION = lazy(
    r"\"[^\"]{1,2000}\"|“[^“”]{1,2000}”|„[^„“”\"]{1,2000}[“”\"]|«[^«»]{1,2000}»"
    r"|「[^「」]{1,2000}」|『[^『』]{1,2000}』|《[^《》]{1,2000}》"
    r"|(?<!\w)[‘'][^'’\n]{1,200}[’'](?!\w)"
)
_ELEMENT = lazy(
    r"<(quote|blockquote|q|cite|message|mail|email|document|text)\b[^<>]{0,200}>.*?(?:</\1>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_ODD_MARK = lazy(r"[\"“”„«»「」『』《》]")
_PREFIX = lazy(r"\s*(?:\[[^\n\]]{1,40}\]\s*)?[^\s:：]{1,30}(?: [^\s:：]{1,30}){0,2}\s?[:：]")
_MAIL = lazy(
    r"^(?:from|to|subject|von|an|betreff|de|à|objet|expéditeur|fwd|fw|wg|发件人|收件人|主题|转发)"
    r" ?[:：].*\Z"
    r"|^-{3,40}[ \t]*\w[^\n]{0,80}-{3,40}[ \t]*$.*\Z"
    r"|^-{3,} ?(?:original|forwarded|urspr|weitergel).*\Z|^(?:on|am) .{5,100} (?:wrote|"
    r"schrieb.{0,40}):.*\Z",
    re.MULTILINE | re.IGNORECASE | re.DOTALL,
)
_LOG_LINE = lazy(
    r"^(\[?\d[\d:., /-]{3,20}(?: ?[AP]M)?\]?\s(?:- )?)?"
    r"([A-ZÄÖÜ\u4e00-\u9fff][\w.]{0,20}(?: [A-Z]\w{0,20})?)[:：] ?\S.*$",
    re.MULTILINE,
)
_WORK_ON_TEXT = lazy(
    r"(?:\b(?:translat|proofread|paraphras|rewrit|rephras|summari[sz]|explain|correct th|"
    r"improve th|"
    r"lyrics|edit th|what does|übersetz|korrigier|lektorier|formulier|umschreib|zusammenfass|"
    r"fass\b|erklär|liedtext|songtext)|翻译|翻成|译成|润色|改写|校对|总结|概括|解释|歌词|这句话)"
    r"[^\n:：]{0,80}[:：](?=\s*\S)(.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_LEADS_TO_TEXT = lazy(r"^[^\n]{1,300}[:：][ \t]*\n(?=\s*\S)", re.MULTILINE)
_REPLIED_TO = lazy(r"(?:[ \t]*>[^\n]*\n)+[ \t]*\n")
_LEADS_TO_RULES = lazy(
    r"\b(?:rules?|remember|from now on|going forward|always|never|instructions? for you|"
    r"preferences|"
    r"regeln?|merk|ab (?:jetzt|sofort|heute)|künftig|immer|nie|wünsche)\b"
    r"|规则|规矩|记住|以后|今后|从现在|要求|注意|永远",
    re.IGNORECASE,
)


_TOPIC = lazy(
    r"\b(?:answers?|answering|repl(?:y|ies)|responses?|format|style|tone|languages?|code|mails?|emails?"
    r"|dates?|units?|numbers?|todo|hint|beachte|antwort(?:en)?|stil|ton|sprachen?|einheiten|daten?"
    r"|zahlen|tipp|vorgaben?|bitte|please)\b|规定|回答|回复|格式|语言|语气|风格|日期|单位|事",
    re.IGNORECASE,
)
"""Subjects of orders before a colon, where otherwise a name would be."""


def mask_foreign_words(text: str) -> str:
    """Return a text of the same length with the words of others masked: code, quoted lines and
    quotations, mails, chat logs, and text that was pasted to be worked on."""
    if "`" in text or "~~~" in text:
        text = _INLINE.sub(_as_name, _FENCE.sub(_as_nothing, text))
    if "{" in text:
        text = _OBJECT.sub(_as_name, text)
    quoting = text
    if ">" in text:
        text = _QUOTED_LINE.sub(_as_nothing, text)
    if "<" in text:
        text = _ELEMENT.sub(_as_nothing, text)
    text = _QUOTATION.sub(_as_name, text)
    if "\n" in text:
        text = _MAIL.sub(_as_nothing, text)
    if ":" in text or "：" in text:
        is_chat = len(_LOG_LINE.findall(text)) > 1
        text = _LOG_LINE.sub(lambda found: _without_line(found, is_chat=is_chat), text)
        if found := _WORK_ON_TEXT.search(text):
            text = text[: found.start(1)] + _blank(found[1])
        for found in _LEADS_TO_TEXT.finditer(text):
            is_reply = _REPLIED_TO.match(quoting, found.end())  # its end is known
            if not is_reply and not _LEADS_TO_RULES.search(found[0]):
                text = text[: found.end()] + _blank(text[found.end() :])
                break
    return text


def is_plain(text: str, start: int) -> bool:
    """Return whether the text at a position in a message can only be the person's own words: in the
    first line of a single paragraph, without a name before it or an unclosed quotation."""
    first = text.lstrip().partition("\n")[0]
    at = len(text) - len(text.lstrip())
    prefix = _PREFIX.match(first)
    return (
        start <= at + len(first)
        and not re.search(r"\n[^\S\n]*\n", text.strip())
        and not _ODD_MARK.search(mask_foreign_words(text))
        and not (prefix and not _introduces_rule(prefix[0]))
    )


def _without_line(found: re.Match[str], *, is_chat: bool) -> str:
    is_others = is_chat or found[1] or not _introduces_rule(f"{found[2]}: ")
    return _as_nothing(found) if is_others else found[0]


def _introduces_rule(name: str) -> bool:
    """Return whether the words before a colon can't be a person's name: they introduce a rule, name
    its subject, or are a common introduction."""
    return any(one.search(name) for one in (_LEADS_TO_RULES, _TOPIC)) or bool(
        _LEAD.fullmatch(f"{name.rstrip()} ")
    )


def _as_name(found: re.Match[str]) -> str:
    """Return a name of the same length: quoted words contain no orders, but an order may be about
    them."""
    return "q" * len(found[0])


def _as_nothing(found: re.Match[str]) -> str:
    return _blank(found[0])


def _blank(text: str) -> str:
    return "".join("\n" if sign == "\n" else " " for sign in text)


# --- sentences -----------------------------------------------------------------------------------

_END = lazy(
    # The alternatives are tried only where a sentence can end.
    r"(?=[.!?…;。！？；\n])(?:"
    r"(?<!\b[A-Za-z])(?<!\bDr)(?<!\bMr)(?<!\bMs)(?<!\bSt)(?<!\bNr)(?<!\bNo)(?<!\bMrs)(?<!\bbzw)"
    r"(?<!\betc)(?<!\bz\.B)(?<!\be\.g)(?<!\bi\.e)(?<!\d)(?<!\.)[.]++(?=\s)|(?<=\d)\.(?=\s+[A-ZÄÖÜ])"
    r"|(?<![!?…;])[!?…;]++(?=\s)|[。！？；…]+|\n+)"
)
_LEAD = lazy(
    r"""(?:[\s\-–—*•·,.!:、，]+|\d{1,2}[.)、]\s*
    |(?:ok(?:ay|ey)?|so|and|but|also|anyways?|oh|ah|well|hey|hi|hello|thanks|thank\ you|thx|great
    |perfect|cool|yeah|yep|btw|by\ the\ way|ps|p\.s|plus
    |actually|alright|sorry|additionally|furthermore|lastly
    |finally|moreover|in\ addition|fyi|look|listen|(?:one|another)\ (?:more\ |last\ )?thing
    |(?:quick\ |important\ |side\ )?note(?!\ (?:for|to|that)\b)|important|and\ then
    |(?:(?:new|neue)\ )?(?:rule|regel)(?=\s?:)|ach(?:\ ja)?
    |(?:like|as)\ i\ (?:already\ )?(?:said|told\ you|mentioned)|wie\ (?:schon\ )?gesagt
    |und|aber|übrigens
    |außerdem|ausserdem|hallo|danke|noch\ (?:was|etwas|eins)|eins\ noch|ach\ so|na\ gut|gut|super
    |zudem|ferner|nebenbei|wichtig|hinweis|achtung|entschuldigung|ja|tja|naja|moin|servus)\b
    (?!\ (?:long|far|soon|many|much)\b)(?:\ (?:too|parley|bot|auch|noch))?[,:.!\-–—\s]+
    |(?:no|nope|yes|now|again|right|then|nein|nun|jetzt|na)[,:]\s
    |(?:对了|还有(?:一点)?|另外|但是|不过|好的?|谢谢|而且|顺便说一下|顺便|那么?|嗯|哦|喂|你好|此外|所以|我说过|说过了|再说一遍)[，,：:！!。\s]*
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_CLOSING = lazy(
    r"[,;，；]\s*(?:(?:and|but|oh and|also|und|aber|außerdem|另外|还有|对了|顺便)\s*,?\s*)?"
    r"(?:(?:can|could|would|will|what|how|when|where|who|why|is|are|do|does|did|kannst|könntest"
    r"|was|wie|wann|wo|wer|warum|ist|sind|hast|würdest)\b|能|可以|你能|帮我|请问)"
)
_OPEN = lazy(
    r"(?:if|suppose|(?:could|can|would|do) (?:you|i|we)|(?:kannst|könntest|würdest|magst|weißt) du"
    r"|(?:können|könnten|wissen) (?:sie|wir)|wenn|falls|angenommen|schau|guck|sieh|sag mir"
    r"|ich (?:überlege|frage))\b[^,;]*",
    re.IGNORECASE,
)
"""A condition or a request for information, which belongs to the question after its comma."""
_TAG = lazy(
    r"[,，]\s*(?:ok|okay|okey|right|yeah|yes|please|deal|alright|got it|understood|ja|gut|oder|"
    r"verstanden|klar|bitte|"
    r"好吗|可以吗|行吗|好不好|行不行|明白吗|知道吗|懂吗)\s*[?？]$",
    re.IGNORECASE,
)
_LETTER = lazy(r"[^\W\d_]")


def read_sentences(text: str) -> Iterator[UserSentence]:
    """Split a masked text into sentences, without introductions and without a question at their
    end."""
    at = 0
    for found in islice(_END.finditer(text), MOST_SENTENCES):
        yield from _read(text, at, found.start(), found[0])
        at = found.end()
    yield from _read(text, at, len(text), "")


def _read(text: str, start: int, end: int, closing: str) -> Iterator[UserSentence]:
    if end - start > LONGEST:
        return
    while start < end and (lead := _LEAD.match(text, start, end)):
        start = lead.end()
    whole = text[start:end].rstrip(" \t\r.!,，。")
    is_question = "?" in closing or "？" in closing or whole.endswith(("?", "？"))
    if is_question and (tag := _TAG.search(whole)):
        whole, is_question = whole[: tag.start()], False
    if is_question and (cut := _CLOSING.search(whole)) and cut.start() > 5:
        is_question = bool(_OPEN.fullmatch(whole, endpos=cut.start()))
        whole = whole if is_question else whole[: cut.start()]
    whole = whole.rstrip("?？ ")
    if len(whole) < 3 or not _LETTER.search(whole):
        return
    lower = whole.lower().replace("’", "'")
    yield UserSentence(lower, is_question, start, start + len(whole))


NAME = "weights.bin"
LENGTH = 20
"""The number added to a sentence's number of features; the sum of weights is divided by the square
root of the total. So a long sentence does not score higher than a short one, and a very short one
not much higher."""

_TOKEN = lazy(r"[^\W\d_\u3400-\u9fff]+(?:'[a-z]+)?|\d+|[\u3400-\u9fff]|[?,:;—-]")
_CJK = ("\u3400", "\u9fff")


def score(sentence: UserSentence, language: str) -> float:
    """Return the score of a sentence; above 0 is an instruction, above 1 surely one."""
    found = set(features(sentence, language))
    return read_weights(__package__, NAME).total(found) / sqrt(len(found) + LENGTH)


def is_there() -> bool:
    """Return whether the weights could be loaded."""
    return read_weights(__package__, NAME).is_whole


def features(sentence: UserSentence, language: str) -> Iterator[str]:
    """Yield the features of a sentence, possibly with repetitions."""
    found = _TOKEN.findall(sentence.text)
    tokens = ["0" if token.isdigit() else token for token in found]
    yield f"@{language}"
    yield f"#{min(len(tokens) // 4, 8)}"
    if sentence.is_question:
        yield "#?"
    for token in tokens[:3]:
        yield f"# {token}"
    row = ["^", *tokens, "$", "", ""]
    for at in range(len(tokens) + 1):
        one, two, three = row[at : at + 3]
        yield one
        yield f"{one} {two}"
        if three:
            yield f"{one} {two} {three}"
            yield f"{one} _ {three}"
        if len(one) > 4:
            yield f"{one[:4]}-"
            yield f"-{one[-3:]}"
        elif three and _CJK[0] <= one <= _CJK[1] and row[at + 3]:
            yield one + two + three + row[at + 3]


_FILE = lazy(r"\[file: [^\n]*\]")
_FORWARDED = lazy(
    r"Forwarded(?: from .{0,200})?:|Begin forwarded message:|Anfang der weitergeleiteten Nachricht:"
    r"|-{2,}\s?(?:转发的?邮件|转发的消息|原始邮件)\s?-{2,}",
    re.IGNORECASE,
)
_QUOTED = lazy(r"[q\W]+")  # the form of a masked quotation
_BREAKS = lazy(r"[\s\u200b\ufeff]+")
_EDGES = " .,;:!?。，；：！？…\"'“”„‘’«»`*_-"


def cut_forwarded(text: str) -> str:
    """Return a message without file names, and without the text after the mark of a forwarded
    message."""
    lines = takewhile(lambda line: not _FORWARDED.fullmatch(line.strip()), text.split("\n"))
    return "\n".join(line.removeprefix(TRANSCRIBED) for line in lines if not _FILE.fullmatch(line))


def is_forwarded(text: str) -> bool:
    """Return whether a message contains the mark of a forwarded one."""
    return any(_FORWARDED.fullmatch(line.strip()) for line in text.split("\n"))


def own_words(text: str) -> str:
    """Return a message with the words of others masked."""
    return mask_foreign_words(cut_forwarded(text))


def own_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message that are the person's own, unmasked."""
    text = cut_forwarded(text)
    masked = mask_foreign_words(text)
    for sentence in read_sentences(masked):
        if not _QUOTED.fullmatch(masked, sentence.start, sentence.end):
            yield text[sentence.start : sentence.end]


def normalise(text: str) -> str:
    """Return a text without case, line breaks and surrounding punctuation, to compare two texts."""
    return _BREAKS.sub(" ", text.casefold()).strip(_EDGES)


SCANNED = 20_000
"""The number of characters of a message that are searched."""
MOST = 20
"""The maximum number of instructions found in one message."""
SURE = 1.0
"""The score above which an instruction may be kept without a question."""


class FoundInstruction(Struct, frozen=True):
    """An order that applies from now on: the person's words, and their position in the message."""

    text: str
    start: int
    end: int
    is_sure: bool


def find_instructions(text: str) -> list[FoundInstruction]:
    """Return the standing instructions of a message, in order."""
    found: list[FoundInstruction] = []
    text = text[:SCANNED]
    for sentence in read_sentences(mask_foreign_words(text)):
        if (certainty := score(sentence, language_of(sentence.text))) > 0:
            words = text[sentence.start : sentence.end]
            found.append(FoundInstruction(words, sentence.start, sentence.end, certainty > SURE))
            if len(found) == MOST:
                break
    return found


_CHINESE = lazy(r"[\u4e00-\u9fff]")
_GERMAN = lazy(
    r"[äöüß]|\b(?:der|die|das|und|ist|nicht|ich|du|ein|eine|mit|auf|für|dem|den|mir|mich|dir|dich|"
    r"immer|nie|"
    r"niemals|wieder|bitte|kein|keine|keinen|ab|jetzt|nur|noch|von|zu|wenn|dass|mein|meine|meinen|"
    r"dein|deine|alle|"
    r"jede|jeder|jedes|erst|nichts|niemand|auch|vor|nach|bei|ohne|bis|sag|frag|antworte|antworten|"
    r"schreib)\b"
)
_ENGLISH = lazy(
    r"\b(?:the|and|is|not|i|you|a|an|with|on|for|to|me|my|your|always|never|please|pls|don't|dont|"
    r"do|no|from|now|only|"
    r"all|every|when|if|any|of|it|in|use|call|before|after|this|that|be|everything)\b"
)


def language_of(text: str) -> str:
    """Return the language with the most words in a lower-case sentence: "en", "de" or "zh"."""
    if _CHINESE.search(text):
        return "zh"
    return "de" if len(_GERMAN.findall(text)) > len(_ENGLISH.findall(text)) else "en"
