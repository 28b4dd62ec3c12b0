"""Sentences and words of texts that correct values; and the words of sentences that name only the
new one: cues, and little words.

A cue of a slip ("typo") says that something was wrong. A cue of spelling ("with ph") does so for a
name; a hint ("wait") does so if the rest fits. The rest of a sentence, without these and the little
words, is its topic. Pure.
"""

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


_SLIPS = (
    r"typo|mis(?:typed|spel\w{1,6}|print|read|heard|spoke|counted)|scratch that|strike that|"
    r"make (?:it|that)|i meant?(?: to (?:say|write|type))?|should(?:'ve| have)? be(?:en)?|"
    r"correction(?: from (?:my|our|the) [^\W\d_]{2,12})?|"
    r"my (?:bad|mistake|fault)|i lied|change (?:it|that) to|let'?s say|or rather|fat fingers?|"
    r"instead|(?:make|made) (?:an? )?mistakes?|silly me|"
    r"(?:got|had|have) (?:it|that|the [^\W\d_]{2,12}|my [^\W\d_]{2,12}) (?:all )?"
    r"(?:wrong|backwards|muddled|mixed up)|i tell a lie|autocorrect|"
    r"verklickt|verwechselt|vertauscht|vertippt|verlesen|verschrieben|verrechnet|"
    r"verzählt|versprochen|verguckt|verhört|vertan|"
    r"tippfehler|schreibfehler|zahlendreher|quatsch|blödsinn|unsinn|korrektur|korrigiere|"
    r"stimmt nicht(?: ganz)?|mach(?:en wir| mal)?|da?raus|meinte|meine? ich|ich mein(?:te|e)?|"
    r"(?:sag(?:en)?|nehmen) wir(?: doch| lieber| mal)?|muss heißen|lieber|mein fehler|irrtum"
    r"|geirrt|"
    r"falsch (?:abgelesen|gelesen|getippt|geschrieben|gemerkt|gesehen|verstanden)|"
    r"(?:wrong|falsche[rsnm]?) [^\W\d_]{2,12}(?=\W{0,3}[,.:;!–—-])|"
    r"(?:wrong|falsch)(?=\W{0,3}[,.:;!–—-])"
)
_SLIPS_CHINESE = (
    r"[打写说看记搞弄输填念算听数量认叫报抄][错反串漏岔混][了行字数名]{0,3}|笔误|口误|手滑|"
    r"(?:不对|错了)(?=[，,。！!：:\s是应])|更正|纠正|改(?:[成为到]|一下|下)?|换成|应该是?|才对|"
    r"我的?意思是|我是说|我的?错"
)
_STAR = r"^\s*\*(?=\w)|(?<=\w)\*\s*$"
_SPELT = (
    r"spel(?:led|t|ling)|geschrieben|schreibt(?: sich| man)?|"
    r"(?:with|mit|without|ohne) (?:an? |einem |one |two |zwei |double |doppel-?)?[a-zäöüß]{1,2}|"
    r"(?:one|double|two|ein|zwei|doppel)[ -][a-zäöüß]|"
    r"(?:with|mit|without|ohne) (?:an? |einem )?(?:underscore|hyphen|dash|dot|space|accent|umlaut|"
    r"unterstrich|bindestrich|punkt|leerzeichen|häkchen|akzent)"
)
_SPELT_CHINESE = (
    r"[少多]打了?(?:一?个)?(?:字母|字|数字|数)?|[二三两四]点[水底]|[\u4e00-\u9fff]字[旁头底]"
)
_HINTS = (
    r"(?:^\W{0,9}|[,.!…–—-]\s{0,3}|"
    r"(?:oh|ah|ach|wait|sorry|h+m+|or|oder|actually|argh|moment|warte|stopp?)\W{1,3})"
    r"(?:n+o+|ne+|nö|nein)|"
    r"nope|nah|nvm|never ?mind|on second thoughts?|(?:^|, )better|excuse me|dear|wait|hang on"
    r"|hold on|sorry|sry|soz|w?h?oops|argh|d'?oh|actually|"
    r"(?:just |double[- ]|re-?){0,2}"
    r"(?:checked|looked|measured|counted|weighed|asked|looking|checking)(?: it| this| that)?"
    r"(?: up| again| back)?(?: (?:at |on |with )?(?:the|my) [^\W\d_]{2,12})?|"
    r"(?:they|he|she)(?:['’]ve)? (?:just )?(?:told me|called|texted|wrote|emailed|confirmed)|"
    r"just (?:heard|learned|found out)|"
    r"let me (?:check|see)|turns out|apologies|"
    r"moment(?: ?mal)?|warte?|stopp?|entschuldig\w{1,6}|tschuldigung|pardon|upp?s|hoppla|huch|mist|"
    r"eigentlich|doch|(?:^|, )besser(?: gesagt)?|genauer gesagt|umentschieden|nachge(?:schaut"
    r"|sehen|guckt|fragt|messen|zählt|wogen|lesen)|"
    r"(?:hab\w{0,2} |gera?de? |eben |noch ?mal ){1,3}(?:geschaut|geguckt|gemessen|gezählt|gewogen|"
    r"gefragt|gelesen|erfahren|gehört)|noch ?mal (?:geschaut|geguckt)|"
    r"(?:my|our|the|meine?[rm]?|unsere?|d(?:er|ie|as)|auf de[rm]) [^\W\d_]{2,12} "
    r"(?:says?|said|sagte?|meint|steht)|"
    r"(?:laut|according to|update from) "
    r"(?:my |our |the |meine?[rm]? |de[rm] )?[^\W\d_]{2,12}"
)
_HINTS_CHINESE = (
    r"不不?不?|不是(?=[，,。！!\s]|这个)|不好意思|抱歉|对不起|等一?[下等]|其实|算了|还是|哎呀|哎|诶|"
    r"刚[才刚]?[查看量数称问听]了?一?[下遍]?|又?[查看量数称问][过了]一?[下遍]|[他她]们?(?:刚[才刚]?)?(?:通知|来电|回复|确认)[了说]?|再看看|最[后终]定|刚确认|对了|[\u4e00-\u9fff]{1,4}上写的?|我[\u4e00-\u9fff]{1,3}说"
)
_LITTLE = (
    r"yes|yeah|yep|ja|and|und|thank|you|says?|(?:oh|ah) and|(?:oh|ach|ah) und|btw|by the way|"
    r"übrigens|"
    r"it['’]?s|it|that['’]?s?|is|was|be|"
    r"the|an?|i['’]m|i|we['’]?re|we|at|on|in|of|for|to|by|obviously|course|please|pls|plz|ok|okay|"
    r"now|just|me|my|with|there|are|about|have|has|got|say|thanks|thx|so|right|correct|really|would|"
    r"will|number|date|time|value|oh+|ah+|er+m?|uh+|um+|h+m+|lol|ha(?:ha)*|ends?|ending|last|digits?|"
    r"more|like|again|small|better|shit|damn|crap|"
    r"es|das|ist|sind|war(?:en)?s?|der|die|den|dem|ein|eine|am|um|im|auf|für|zu|mit|von|ich|wir|"
    r"mich|habe?|habs|haben|jetzt|nun|nur|erst|schon|natürlich|klar|bitte|sogar|mal|da|sein|"
    r"sollte?n?|wird|werden|muss|richtig|oder|or|grade?|gerade|ach|äh+m?|nummer|datum|uhrzeit|uhr|"
    r"o'clock|nochmal|endet|hinten|ende|letzten?|ziffern?"
)
_LITTLE_CHINESE = (
    r"尾号|最后|末尾|后[一二两三四]位|[一二两三四]位|这个|那个|刚才|刚刚|前面|上面|现在|好了|一共|"
    r"帮我|麻烦|说的|实际|正确|确实|哈+|嗯|[是的了吧啊哦就都才要我好在为到请那只用嘛呀啦噢]"
)
_SLIP = lazy(rf"\b(?:{_SLIPS})\b|{_SLIPS_CHINESE}|{_STAR}", re.IGNORECASE)
_SPELLING = lazy(rf"\b(?:{_SPELT})\b|{_SPELT_CHINESE}", re.IGNORECASE)
_HINT = lazy(rf"(?:\b|(?<=\W)|^)(?:{_HINTS})\b|{_HINTS_CHINESE}", re.IGNORECASE)
_SMALL = lazy(rf"\b(?:{_LITTLE})\b|{_LITTLE_CHINESE}", re.IGNORECASE)
_WORD = lazy(r"[^\W\d_\u3400-\u9fff]+|[\u3400-\u9fff]")
_END = lazy(r"\b(?:end|last|hinten|letzte)|尾号|最后|末尾|后[一二两三四]位", re.IGNORECASE)
_CHANGE = lazy(
    r"\b(?:now|meanwhile|since|no longer|any ?more|after all|renamed?|becom\w+|became|"
    r"mov(?:e|ed|ing)|"
    r"chang\w{1,3}|switch\w*|extend\w*|push\w*|postpon\w*|brought|upgraded?|rais\w+|went|gone|"
    r"jetzt|nun|inzwischen|mittlerweile|seit(?:dem)?|nicht mehr|umgezogen|verlegt|verschoben|"
    r"verlänger\w*|geändert|getauscht|gestiegen|gesunken|erhöht|gesetzt|umgestellt|umbenannt|"
    r"geworden|neue[rsnm]?|statt|anstatt|instead|lieber|rather|make)\b|"
    r"[改换调变移挪延涨降减搬转升]|现在|最新|最终|新的?|还是|加到|不再",
    re.IGNORECASE,
)
_TOLD = lazy(
    r"\b(?:says?|said|told|tells|rang|called|phoned|e?mailed|wrote|texted|confirmed|letter|ticket|"
    r"invoice|label|according|checked|looked|found|turns? out|test|laut|steht|stand|sagte?|meinte?|"
    r"rief|angerufen|anruf|schreibt|schrieb|nachge\w+|bestätigt|zettel|heft|schild|erklärt)\b|"
    r"[说讲写查看问称]|通知|来电|打电话|告诉|上写|结果|原来",
    re.IGNORECASE,
)
_SPELLED = frozenset(("name", "word", "address", "url", "identifier"))


@lru_cache(maxsize=256)  # several rules check a sentence, also for later messages
def has_cue(text: str) -> bool:
    """Return whether a text has a cue."""
    return any(cue.search(text) for cue in (_SLIP, _HINT, _SPELLING))


def has_hint(text: str) -> bool:
    """Return whether a text has a cue that is not sufficient alone."""
    return bool(_HINT.search(text))


def has_slip_cue(text: str, kind: str) -> bool:
    """Return whether a text says that a value of this kind was wrong, or how it is spelt."""
    return bool(_SLIP.search(text) or (kind in _SPELLED and _SPELLING.search(text)))


def has_end_cue(text: str) -> bool:
    """Return whether a text mentions the end of a number."""
    return bool(_END.search(text))


def list_cues(text: str) -> list[str]:
    """Return the kinds of cues in a text, including cues that something changed, or of the source
    of the news."""
    kinds = (("slip", _SLIP), ("hint", _HINT), ("change", _CHANGE), ("told", _TOLD))
    return [kind for kind, cue in kinds if cue.search(text)]


def without_cues(text: str) -> str:
    """Return a sentence with its cues replaced by spaces of the same length."""
    for cue in (_SLIP, _SPELLING, _HINT):
        text = cue.sub(lambda found: " " * len(found[0]), text)
    return text


def list_words(text: str) -> list[str]:
    """Return the words of a text in lower case; in Chinese, its characters."""
    return _WORD.findall(text.casefold())


def list_further(text: str) -> list[str]:
    """Return the words of a text that are neither cues nor little words."""
    return list_words(_SMALL.sub(" ", without_cues(text)))
