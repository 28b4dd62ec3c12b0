"""The words and signs of requests, and of replies to them: requests, promises, postponements, and
reports of finished work. Pure."""

from __future__ import annotations

import re
from collections.abc import Set

from memory.patterns import lazy
from memory.text.wording import cue, split_sentences, stems

SHOWN = 200  # characters of a request


def may_ask(asked: str, words: Set[str]) -> bool:
    """Return whether a message has a word that every request needs, unless the request is a
    question."""
    if not (_VERBS.isdisjoint(words) and _HEADS.isdisjoint(words)) or "sie" in words:
        return True
    return not asked.isascii() and (any(sign in asked for sign in _SIGNS) or "把" in asked)


def asks(sentence: str) -> bool:
    """Return whether a sentence asks for something that can be finished, unlike a standing
    instruction."""
    if not _asks(sentence) or _FROM_NOW_ON.search(sentence):
        return False
    if not _ALWAYS.search(sentence):
        return True
    clauses = [one.strip() for one in _COMMAS.split(sentence)]
    return any(_asks(one) and not _ALWAYS.search(one) for one in clauses)


def _asks(sentence: str) -> bool:
    """Return whether a sentence asks for something, by its first verb or a phrase."""
    words = _WORD.findall(sentence.casefold())
    first = next((word for word in words[:3] if word not in _BEFORE_VERBS), "")
    if first in _VERBS or _FORMAL.match(sentence):
        return True
    said = f" {' '.join(words)} "
    if not _HEADS.isdisjoint(_LETTERS.findall(said)) and any(phrase in said for phrase in _PHRASES):
        return True
    if said.isascii():
        return False
    return sentence.startswith(_OBJECT_FIRST) or any(sign in said for sign in _SIGNS)


def postpones(reply: str, heads: Set[str]) -> bool:
    """Return whether a reply promises the requested work for later. The time of a promise counts
    only in a line of the bot's own: in a draft of a letter somebody else promises it."""
    return PROMISES.is_in(reply, heads) or promises(reply, heads) or _hands_back(reply)


def _hands_back(reply: str) -> bool:
    """Return whether a reply is a line that agrees, and waits for the person."""
    if len(reply) > SHOWN or _OF_OTHERS.search(reply.strip()) or not AGREES.match(reply):
        return False
    return _HANDS_BACK.search(reply) is not None and not DEED.pattern.search(reply)


def promises(reply: str, heads: Set[str]) -> bool:
    """Return whether a reply is a line in which the bot says that it will do something later."""
    if len(reply) > SHOWN or _OF_OTHERS.search(reply.strip()):
        return False
    if PROMISES_BY.is_in(reply, heads):
        return True
    if not AGREES.match(reply) and not _EVENT_FIRST.match(reply):
        return False
    is_later = WAITS.is_in(reply, heads) or (
        COMMITS.is_in(reply, heads) and _LATER_ON.search(reply) is not None
    )
    return is_later and not reports_action(reply, heads)


def only_promises(reply: str, heads: Set[str], asked: Set[str]) -> bool:
    """Return whether a reply is a line in which the bot says that it will do what was asked, and
    little else. `asked` are the stems of the request."""
    if len(reply) > SHOWN or _OF_OTHERS.search(reply.strip()) or reports_action(reply, heads):
        return False
    if not any(map(_UNDERTAKES.match, split_sentences(reply))):
        return False
    told = stems(reply)
    return len(told - asked) <= max(1, len(told) * _NEW)


def reports_action(reply: str, heads: Set[str]) -> bool:
    """Return whether a reply says that something was done; not only once, or if, it is done."""
    return DEED.may_be_in(reply, heads) and bool(DEED.pattern.search(_CONDITION.sub("", reply)))


def reports_done(line: str) -> bool:
    """Return whether a line says that something is done; not only once, or if, it is done."""
    return DONE.pattern.search(_CONDITION.sub("", line)) is not None


def is_postponed(asked: str, reply: str, heads: Set[str]) -> bool:
    """Return whether a person postpones everything that a message asks for: a clause of it gives a
    time, and the reply is neither the work itself nor a report that it is done."""
    if len(reply) > 2 * SHOWN or not NOT_NOW.is_in(asked, heads):
        return False
    return not DEED.pattern.search(_CONDITION.sub("", reply))


def declines(reply: str) -> bool:
    """Return whether a reply says that the bot can't do it: the request is not finished by that."""
    return _DECLINES.match(reply) is not None


def leaves_unfinished(reply: str, said: str) -> bool:
    """Return whether the person's next message leaves their request unfinished: they object, or
    answer a question."""
    if _OBJECTS.match(said):
        return True
    is_question = reply.rstrip('"”’)】」* ').endswith(("?", "？"))
    return is_question and not _MORE.search(reply[-SHOWN:]) and _YES.match(said) is not None


def ends_with_question(reply: str) -> bool:
    """Return whether a reply ends with a question that has to be answered first; an offer of
    further help does not count."""
    if QUESTIONS.isdisjoint(reply):
        return False
    last = [line.rstrip('"”’)】」* ') for line in split_sentences(reply)[-2:]]
    return any(one.endswith(("?", "？", "؟")) and not _OFFERS.search(one) for one in last)


_WORD = lazy(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_LETTERS = lazy(r"[^\W\d_]+")
QUESTIONS = frozenset("?？؟")
_BEFORE = "and then now so ok okay also great und dann jetzt gut"
_ASKING = (
    "add answer ask book build buy "
    "calculate call cancel change check clean compare convert copy correct create delete "
    "deploy describe design draft explain find fix generate get give help implement install "
    "list look make move note open order plan prepare print put read recommend remember "
    "remind remove rename reply research reserve rewrite run save schedule search send set "
    "show sort start stop suggest summarize summarise tell test translate turn update use "
    "write berechne buch buche erklär erkläre erstell erstelle find finde gib hilf kauf kaufe "
    "korrigier korrigiere leg lege lies lösch lösche mach mache merk merke nenn nenne notier "
    "notiere öffne plan plane prüf prüfe reservier reserviere ruf rufe sag schau schick "
    "schicke schreib schreibe send sende setz setze start starte stornier storniere such "
    "suche trag trage übersetz übersetze vergleich vergleiche zeig zeige "
)
_FORMAL = lazy(r"(?:(?:und|dann|bitte|jetzt|also) )?[A-ZÄÖÜ]?[a-zäöüß]{2,20}e?n Sie\b")
"""The beginning of a formal order in German."""
_BEFORE_VERBS, _VERBS = frozenset(_BEFORE.split()), frozenset(_ASKING.split())
_PHRASES = (
    *(" can you ", " could you ", " would you ", " will you ", " please ", " remind me "),
    *(" i'd like you to ", " i would like you to ", " i want you to ", " i need ", " i also need "),
    *(" i still need ", " asks whether ", " asks if ", " wants you ", " don't forget ", " let's "),
    *(" don’t forget ", " let’s ", " i’d like you to ", " bitte ", " kannst du ", " könntest du "),
    *(" we need ", " we want ", " we also need ", " we also want ", " wir brauchen "),
    *(" würdest du ", " sollst du ", " können sie ", " könnten sie ", " würden sie "),
    *(" ich brauche ", " ich bräuchte ", " ich benötige ", " erinnere ", " erinner ", " vergiss "),
)
_HEADS = frozenset(max(_LETTERS.findall(one), key=len) for one in _PHRASES)
"""A word of each phrase."""
_IN_CHINESE = (
    "请 請 帮我 幫我 帮忙 麻烦 麻煩 能不能 可不可以 提醒我 给我 給我 替我 别忘 別忘 就订 订一"
)
_SIGNS = tuple(_IN_CHINESE.split())
_OBJECT_FIRST = ("把", "先把", "再把", "都把")
"""The beginnings of orders in Chinese with their object first."""
NO_REQUEST = lazy(
    r"(?:how are you|what['’]s up|wie geht['’]?s|wie geht es|你好吗|you know|isn['’]t it|right)\b",
    re.IGNORECASE,
)
_FROM_NOW_ON = lazy(
    r"\b(?:every time|each time|from now on|going forward|künftig|zukünftig|jedes mal|jedesmal"
    r"|whenever(?! (?:you\b|it['’ ]|possible|convenient))|ab (?:sofort|jetzt|nun)"
    r"|von (?:jetzt|nun|heute) an)\b"
    r"|^ab heute\b|以后(?:都|请|别|不|只|一律)|从现在起|从今以后|每次",
    re.IGNORECASE,
)
"""Signs of a standing instruction, which is never finished, anywhere in its sentence."""
_ALWAYS = lazy(
    r"\b(?:never|(?<!as )(?<!like )always|don['’]t ever|all the time|without (?:asking|checking)"
    r"|nie|niemals|(?<!wie )(?<!noch )immer(?! noch)|grundsätzlich|ständig|nenn(?:e|t)? mich"
    r"|nichts ohne|ohne (?:rückfrage|zu fragen|mich (?:vorher )?zu fragen))\b"
    r"|永远|一律|绝对不|别再|不要再|^(?:请)?(?:不要|不许|别)(?!忘)|[后点]别(?!忘)",
    re.IGNORECASE,
)
"""The same, in the clause of the request: "the printer never works, please call them" is a
request."""
_COMMAS = lazy(r"[;；，：]|[,:](?!\d)|\s[–—-]\s")
LATER = cue(
    "later remind don forget other now after tomorrow später nachher erinner erinnere erinnerst "
    "vergiss noch andermal jetzt",
    "稍 晚 以后 以後 之后 回头 回頭 提醒 别忘 別忘 待会 改天",
    lazy(
        r"\b(?:later|remind me|don['’]t forget|some other time|not now|after that|tomorrow)\b"
        r"|\b(?:später|nachher|erinner(?:e|st)?|vergiss|morgen noch|ein andermal|nicht jetzt)\b"
        r"|稍后|稍後|晚点|晚些|以后再|以後再|之后再|回头|回頭|提醒我|别忘|別忘|待会|改天",
        re.IGNORECASE,
    ),
)
_CLAUSE = r"(?:^|[.!?;,\n]\s*|\b(?:but|aber)\s+)(?:but |aber |please |bitte )?"
NOT_NOW = cue(
    "not don wait let hold no nicht erst es noch",
    "先 不急 等 再",
    lazy(
        rf"{_CLAUSE}(?:not (?:today|tonight|now|yet|this week)|wait (?:till|until)|let it rest"
        r"|hold off|no (?:rush|hurry))\b"
        r"|\b(?:don['’]t|do not) \w+ (?:\w+ )?yet\b|\bnoch nicht\b"
        rf"|{_CLAUSE}(?:nicht (?:mehr )?(?:heute|jetzt)|erst (?:wenn|nachdem|sobald)"
        r"|es eilt nicht)\b"
        r"|(?:^|[，。！？\n])(?:先放着|先不急|[^，。！？]{0,8}先(?:别|不要)|不急|现在先放着|等[^，。！？]{1,20}(?:再|之后|以后|后)"
        r"|[^，。！？]{1,12}[了后]再(?:算|做|说|写|弄|办|发|订|看|买|处理))",
        re.IGNORECASE,
    ),
)
"""Clauses with which a person postpones everything that a message asks for."""
PROMISES = cue(
    "ll will moment yet can still ich noch einen",
    "我会 我會 稍 还没 還沒 尚未 到时候",
    lazy(
        r"\bI(?:['’]ll| will) (?:get back|remind|keep (?:you|an eye)|look into"
        r"|do (?:it|that) later|come back|let you)"
        r"|\b(?:in a moment|not yet|can['’]t do (?:that|it) (?:yet|now)|still working)\b"
        r"|\bich (?:melde mich|erinnere dich|komme darauf zurück|kümmere mich später)"
        r"|\b(?:noch nicht|einen Moment)\b"
        r"|我会提醒|我會提醒|稍后|稍後|还没|還沒|尚未|到时候",
        re.IGNORECASE,
    ),
)
_OF_OTHERS = lazy(r"\n|^[\"“„«「]|(?<!\S)[\"“„«「](?:[^\s\"”]+\s){4}|[“「][^”」]{20}")
"""Signs of a draft: the end of a line, or a quoted sentence."""
_DAYS = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTHS = "january|february|march|april|june|july|august|september|october|november|december"
_TAGE = r"(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch"
_REST = r"\b(?:[^.!?]|(?<=\d)\.){0,160}\b"
PROMISES_BY = cue(
    "ll will ich",
    "给 給 发 告诉 通知 回复",
    lazy(
        rf"\bI(?:['’]ll| will){_REST}(?:(?:get|come|report) back|let you know|tomorrow|tonight"
        r"|(?:by|until|before) (?:then|noon|midnight|the (?:end|weekend|\d+\w{0,2})|next|\d+"
        rf"|{_DAYS}|{_MONTHS})"
        rf"|(?:in|next) (?:{_MONTHS}|week|month))\b"
        rf"|\bich{_REST}(?:melde mich|(?:gebe?|sage?) \w+ bescheid|morgen|heute abend"
        rf"|bis (?:mittag|abend|nächste|zum|\d+|{_TAGE}))\b"
        r"|(?:明天|明早|明晚|后天|今晚|下周|周[一二三四五六日天末]|星期.|\d[号日点])[^。！？]{0,40}"
        r"(?:给|給|发|发给|告诉|通知|回复)[你您]",
        re.IGNORECASE,
    ),
)
AGREES = lazy(
    r"(?:ok(?:ay)?|(?:i )?underst(?:oo|an)d|got it|all right|alright|noted|agreed|will do"
    r"|i won['’]t|sure|of course|certainly|gladly|with pleasure|yes)\b"
    r"|(?:gut|gerne?|verstanden|alles klar|in ordnung|notiert|einverstanden|mache ich|klar|ja"
    r"|sicher|natürlich|selbstverständlich)\b"
    r"|明白|好|行|记下|收到|知道了|了解|没问题|清楚",
    re.IGNORECASE,
)
"""The beginning of a reply that agrees to a request."""
_TIME = (
    rf"(?:(?:the |dem |den |der )?\d|{_DAYS}|{_MONTHS}|(?:{_TAGE})|next|nächst|deine[mr]|ihre[mr])"
)
_THINKS = r"\w*(?:empfehl|rat|würd|denk|find|seh|hab|bin|kann|könnt|weiß|glaub|mein|war)\w*\b"
COMMITS = cue(
    "ll will ich bekommst bekommen bekommt",
    "",
    lazy(
        r"\bI(?:['’]ll| will)\b|\bbekomm(?:en Sie|st du|t ihr)\b"
        rf"|(?:(?!{_THINKS})\b\w+e ich|\bich (?!{_THINKS})\w+e)\b",
        re.IGNORECASE,
    ),
)
"""Words with which the bot says that it will do something."""
_DECLINES = lazy(
    r"(?:sorry,? |unfortunately,? )?I (?:can['’]t|cannot|(?:have no|don['’]t have) access)\b"
    r"|(?:leider )?(?:das )?(?:kann ich|ich kann) [^.!?]{0,30}\bnicht\b"
    r"|(?:抱歉，?)?我(?:无法|不能|没法|看不到)",
    re.IGNORECASE,
)
_UNDERTAKES = lazy(
    r"(?:[-*•]\s)?(?:(?:ok(?:ay)?|sure|of course|certainly|gladly|all right|yes|great|good|will do"
    r"|gut|gerne?|klar|ja|natürlich|alles klar|in ordnung|verstanden|好的?|行|没问题|可以|明白)"
    r"(?: thing)?[,.!:;，。！ ]{0,3})?"
    rf"(?:I(?:['’]ll| will|['’]m going to| am going to)\b|(?:(?!{_THINKS})\w+e ich"
    rf"|ich (?!{_THINKS})\w+e)\b"
    r"|wird (?:gemacht|erledigt)\b|(?:on it|will do)\b|\w+ (?:folgt|kommt (?:gleich|sofort))\b"
    r"|(?:[^，。！]{0,12}?)?我(?:来|会|这就|马上|接下来|稍后|去)|马上|这就|立刻|现在就"
    r"|(?<=[，, ])我(?![们觉想认建看猜推记知是有也没不已]))",
    re.IGNORECASE,
)
"""The beginning of a reply with which the bot undertakes work."""
_NEW = 0.5  # the share of a promise's words that the request may not have
_CONDITION = lazy(
    r"\b(?:once|when|as soon as|after|until|till|if|sobald|wenn|falls|nachdem|bis)\b"
    r"[^.,;:!?\n]{1,160}",
    re.IGNORECASE,
)
_EVENT_FIRST = lazy(
    r"I(?:['’]ll| will)\b"
    r"|(?:once|when|as soon as|after|sobald|wenn|nachdem)\b(?=.*\b(?:I['’]ll|I will|\w+e ich)\b)",
    re.IGNORECASE,
)
_LATER_ON = lazy(
    rf"\b(?:(?:on|by|before|after|from|in) {_TIME}|when|once|as soon as|after|later|tomorrow"
    rf"|tonight|(?:bis|vor|am|ab|nach|im) {_TIME}|wenn|sobald|nachdem|danach|später|morgen)",
    re.IGNORECASE,
)
"""The time or the event after which the bot will do it."""
WAITS = cue(
    "i ich bekommen bekommst bekommt",
    "等 一",
    lazy(
        rf"\bI(?:['’]ll| will)? (?:wait|leave \S[^.!?]{{0,60}}alone) (?:for|until|till|with)\b"
        rf"|\b(?:warte ich|ich warte)\b(?: mit\b|{_REST}bis\b)"
        r"|\bbekomm(?:en Sie|st du|t ihr) (?:morgen|heute (?:abend|noch))\b"
        r"|等[^，。！？]{1,20}[后了]?，?我?再|一[^，。！？]{1,8}我?就",
        re.IGNORECASE,
    ),
)
"""Words of a reply that agrees to do something later; in other replies they are no sign."""
_OBJECTS = lazy(
    r"(?:no\b(?!,? thank)|not yet|wrong|that['’]s not|that is not|it still|still (?:not|doesn)"
    r"|doesn['’]t work|you (?:didn|haven)|nein\b(?!,? danke)|falsch|stimmt nicht|immer noch nicht"
    r"|das ist nicht|geht nicht|du hast nicht|不对|不對|错了|錯了|还是不|還是不|还没|還沒|不行)",
    re.IGNORECASE,
)
_YES = lazy(
    r"(?:yes|yeah|yep|sure|ok(?:ay)?|please do|go ahead|ja|gern\w?|mach|klar)\b"
    r"|[好行嗯要]|可以|是的",
    re.IGNORECASE,
)
_MORE = lazy(r"\b(?:anything else|sonst noch)\b|还有什么|還有什麼|还需要|還需要", re.IGNORECASE)
_OFFERS = lazy(
    r"\b(?:anything else|shall I|should I|would you like (?:me|more|another|to see)|do you want me"
    r"|want me to|can I help|sonst noch|soll ich|möchtest du noch|möchten Sie noch)\b"
    r"|还有什么|還有什麼|需要我|要不要我|还需要|還需要",
    re.IGNORECASE,
)
_HANDS_BACK = lazy(
    r"\b(?:(?:tell|ask|ping|let) me(?: know)?|just say|say|paste|send)\b[^.!?]{0,40}"
    r"\b(?:when|once|as soon as|the word)\b|\bwhen you(?:['’]re| are) (?:back|ready)\b"
    r"|\bwhenever you\b|\bsag\w*\b[^.!?]{0,30}\bbescheid\b|\bwenn (?:du|sie) (?:so ?weit|zurück)\b"
    r"|(?:需要|要)的?时候?[^。！？]{0,6}(?:告诉|叫|喊|说)|(?:告诉|叫)我(?:一声|就行)",
    re.IGNORECASE,
)
"""Words with which the bot waits for the person to return to a request."""
DONE = cue(
    "done finished completed fixed written booked sent made noted answered solved resolved was "
    "already erledigt fertig abgeschlossen geschrieben gebucht verschickt gesendet notiert "
    "gelöst beantwortet bereits schon",
    "✓ ✔ ✅ [x] [X] 已 完成了 搞定 写好了",
    lazy(
        r"\b(?:done|finished|completed|fixed|written|booked|sent|made|noted|answered|solved|resolved"
        r"|was (?:set|found|added|created|given)|already)\b|✓|✔|✅|\[x\]"
        r"|\b(?:erledigt|fertig|abgeschlossen|geschrieben|gebucht|verschickt|gesendet|notiert|gelöst"
        r"|beantwortet|bereits|schon)\b"
        r"|已[经完定记發发订預预做解写寫答]|完成了|搞定|写好了",
        re.IGNORECASE,
    ),
)
_DEEDS = (
    "added|asked|booked|bought|called|cancell?ed|changed|checked|created|deleted|deployed|drafted"
    "|fixed|informed|installed|made|merged|moved|opened|ordered|paid|published|put|removed|renamed"
    "|renewed|repeated|reserved|restarted|scheduled|sent|set|told|updated|uploaded|wrote|written"
)
_GETAN = (
    "abgemeldet|angelegt|angemeldet|angerufen|bestellt|bezahlt|eingerichtet|eingestellt|eingetragen|entfernt|erledigt"
    "|erneuert|erstellt|gebucht|gefragt|gelöscht|gemeldet|gesendet|gesetzt|gestartet|geschickt"
    "|geschrieben|informiert|installiert|reserviert|storniert|umgebucht|umgemeldet|verschickt|verschoben"
)
DEED = cue(
    f"done open set wieder {_DEEDS} {_GETAN}".replace("|", " "),
    "已 好了",
    lazy(
        rf"\A(?:done|{_DEEDS})\b|\bI(?:['’]ve| have)?(?: just| now)? (?:{_DEEDS})\b"
        rf"|\b(?:is|are|was|were|been)(?: now)? (?:open|done|set up|{_DEEDS})\b"
        rf"|\A(?:{_GETAN})\b|\bich habe?\b[^.!?]{{0,80}}\b(?:{_GETAN})\b"
        rf"|\b(?:ist|sind|wurden?|läuft)\b[^.!?]{{0,60}}\b(?:{_GETAN}|wieder)\b"
        r"|已[^经更记，。]{0,12}[订预发交做写改加建删付联约续办买卖停启重更清装存传好派报挂撤通申提]"
        r"|已经(?:[给把替为][^，。]{1,8})?[订预发交改付约续办派报挂撤通申提停换]|[订办写改做发交]好了",
        re.IGNORECASE,
    ),
)
